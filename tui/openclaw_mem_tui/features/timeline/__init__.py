"""The timeline screen: when memory was written and read."""
