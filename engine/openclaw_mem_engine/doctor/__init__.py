"""Checks and repairs of an index and of the files around it."""
