"""What settings ask of an index: what it is built with, whether it is rebuilt, which vectors it holds; and
what knobs do: which derived rows it has."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from openclaw_mem_engine.chunking import DEFAULT_CHUNKER
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.errors import ProviderError
from openclaw_mem_engine.providers.base import Embedder, space_of
from openclaw_mem_engine.stores.base import Derived, Fingerprint

if TYPE_CHECKING:
    from openclaw_mem_engine.providers.circuit_breaker import Embedders, GuardedEmbedder
    from openclaw_mem_engine.ranking.knobs import Knobs
    from openclaw_mem_engine.stores.base import IndexStore


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


def beside_of(embedders: Embedders, *, primary_failed: bool = False) -> list[GuardedEmbedder]:
    """The embedders whose vectors are made besides the primary's: those to be compared, and the fallback: at
    once when it costs nothing, else when it is needed."""
    found = {space_of(embedder): embedder for embedder in embedders.also}
    fallback = embedders.fallback
    if fallback is not None and (primary_failed or fallback.lines):
        found[space_of(fallback)] = fallback
    found.pop(space_of(embedders.primary), None)
    return list(found.values())


def derived_of(knobs: Knobs, embedder: Embedder | None) -> set[Derived]:
    """The rows that a search with these knobs reads besides those of every index."""
    found: set[Derived] = set()
    if knobs.lexical_index == "plain" or (knobs.lexical_form == "and" and embedder is None):
        found.add("plain")
    elif knobs.name_weight > 0:
        found.add("named")
    if knobs.scores_all_lines and embedder is not None and embedder.lines is not None:
        found.add("lines")
    return found


def lacking(store: IndexStore, knobs: Knobs, embedder: Embedder | None) -> set[Derived]:
    """Those of them that an index does not have yet. Lines are those of its primary space."""
    found = store.lacking(*derived_of(knobs, embedder))
    if "lines" in found and ((known := store.fingerprint()) is None or known.space != space_of(embedder)):
        found.remove("lines")
    return found


def provide(store: IndexStore, knobs: Knobs, embedder: Embedder | None) -> None:
    """Make them, under a lock that the caller holds. Raises IndexUnavailable."""
    kinds = lacking(store, knobs, embedder)
    store.provide(*kinds - {"lines"})
    if "lines" in kinds and embedder is not None and (lines := embedder.lines) is not None:
        with suppress(ProviderError):  # a search reports what is wrong with the model
            store.provide("lines", pack=lines.pack)
