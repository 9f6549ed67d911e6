"""The steps of a walk of why-not, in their order."""

from __future__ import annotations

STEPS = (
    "file",
    "included",
    "collection",
    "indexed",
    "chunk",
    "session",
    "retrieval",
    "mode",
    "pool",
    "fusion",
    "bonus",
    "limit",
    "position",
    "rerank",
    "decay",
    "mmr",
    "min_score",
    "keyword_rescue",
    "max_results",
    "snippet",
)
