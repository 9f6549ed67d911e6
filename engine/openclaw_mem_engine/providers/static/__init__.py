"""The built-in English embedder: a table of token vectors, NumPy only."""
