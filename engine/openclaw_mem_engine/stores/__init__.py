"""Stores: candidate lists, one writer, an embedding cache."""
