"""Embedding providers: the built-in static table, a model on this machine, and remote services.

Importing this package imports neither numpy nor a network library.
"""

from __future__ import annotations

from openclaw_mem_engine.providers.base import (
    BadAnswer,
    Embedder,
    NotConfigured,
    RequestFailed,
    TextRefused,
    Unavailable,
)
from openclaw_mem_engine.providers.registry import EmbedderSpec, make_embedder

__all__ = [
    "BadAnswer",
    "Embedder",
    "EmbedderSpec",
    "NotConfigured",
    "RequestFailed",
    "TextRefused",
    "Unavailable",
    "make_embedder",
]
