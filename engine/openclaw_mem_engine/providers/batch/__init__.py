"""Embeddings by the providers' batch interfaces: cheaper, slower, and continued after a restart."""
