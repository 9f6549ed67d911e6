"""Text of the search lab."""
