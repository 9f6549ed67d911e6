"""The search lab."""
