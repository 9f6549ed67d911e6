"""Requests to a provider: one client, one retry layer, waiting that can be cancelled."""
