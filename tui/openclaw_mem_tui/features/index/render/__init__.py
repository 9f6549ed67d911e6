"""Text of the index screen."""
