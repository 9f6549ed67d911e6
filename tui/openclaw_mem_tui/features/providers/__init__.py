"""The providers screen."""
