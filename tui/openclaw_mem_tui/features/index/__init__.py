"""The index screen."""
