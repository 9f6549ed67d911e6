"""Embedding providers: the built-in static table, a model on this machine, and remote services.

Importing this package imports neither numpy nor a network library.
"""
