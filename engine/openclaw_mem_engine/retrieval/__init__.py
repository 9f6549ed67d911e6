"""Backends: a query becomes a pool of candidates."""
