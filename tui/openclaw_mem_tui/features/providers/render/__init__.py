"""Text of the providers screen."""
