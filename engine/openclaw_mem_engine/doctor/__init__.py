"""Checks of an index and of the files around it, and repairs."""
