"""What settings ask of an index: what it is built with, whether it is rebuilt, which vectors it holds."""

from __future__ import annotations

from dataclasses import replace

from openclaw_mem_engine.chunking import DEFAULT_CHUNKER
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.providers.base import Embedder, Embedders, space_of
from openclaw_mem_engine.stores.base import Fingerprint


def fingerprint_of(settings: Settings, embedder: Embedder | None) -> Fingerprint:
    """What an index made with these settings is built with."""
    return Fingerprint(
        *space_of(embedder),
        settings.chunking.tokens,
        settings.chunking.overlap,
        tuple(sorted(settings.sources)),
        chunker=DEFAULT_CHUNKER,
    )


def needs_rebuild(present: Fingerprint, wanted: Fingerprint) -> bool:
    """Whether an index with the present content cannot serve what is wanted. Searching by keywords alone
    (provider none) is served by any index of the same chunks, whose vectors stay."""
    if wanted.provider == "none":
        wanted = replace(
            wanted, provider=present.provider, model=present.model, provider_key=present.provider_key
        )
    return present != wanted


def beside_of(embedders: Embedders, *, primary_failed: bool = False) -> list[Embedder]:
    """The embedders whose vectors are made besides the primary's: those to be compared, and the fallback: at
    once when it costs nothing, else when it is needed."""
    found = {space_of(embedder): embedder for embedder in embedders.also}
    fallback = embedders.fallback
    if fallback is not None and (primary_failed or fallback.lines):
        found[space_of(fallback)] = fallback
    found.pop(space_of(embedders.primary), None)
    return list(found.values())
