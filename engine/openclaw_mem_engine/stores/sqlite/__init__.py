"""The store in one SQLite file: chunks, full text, vectors."""
