"""Embeddings by the providers' batch interfaces: cheaper, slower, and picked up again after a restart."""

from __future__ import annotations

from openclaw_mem_engine.providers.batch.embedder import BatchEmbedder, with_batches

__all__ = ["BatchEmbedder", "with_batches"]
