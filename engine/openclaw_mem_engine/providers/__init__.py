"""Embedding providers: the built-in static table, and any OpenAI-compatible endpoint.

Importing this package imports neither numpy nor a network library.
"""

from __future__ import annotations

from openclaw_mem_engine.providers.base import BadAnswer, Embedder, EmbedderSpec, RequestFailed
from openclaw_mem_engine.providers.select import make_embedder

__all__ = ["BadAnswer", "Embedder", "EmbedderSpec", "RequestFailed", "make_embedder"]
