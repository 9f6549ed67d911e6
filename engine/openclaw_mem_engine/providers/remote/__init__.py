"""Requests to a provider: one client, one retry layer, waiting that ends when it is told to."""
