"""From a text to its chunks: pure functions, no files."""
