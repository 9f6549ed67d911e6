"""Which files are memory, safe reading of them, their dates. Knows nothing of indexes."""
