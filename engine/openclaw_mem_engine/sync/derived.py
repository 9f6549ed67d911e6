"""Rows derived from the chunks of an index that only some knobs read: which those are, and making them."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

from openclaw_mem_engine.cancellation import SEARCH_STOPPED, CancelToken
from openclaw_mem_engine.errors import IndexLocked, IndexUnavailable, ProviderError
from openclaw_mem_engine.model import Note, Progress
from openclaw_mem_engine.providers.base import Embedder, space_of, stop_if_cancelled
from openclaw_mem_engine.stores.query import LABEL, Derived

if TYPE_CHECKING:
    from openclaw_mem_engine.ranking.knobs import Knobs
    from openclaw_mem_engine.stores.base import IndexStore
    from openclaw_mem_engine.sync.events import Journal

#: How long a search waits for another process that writes the index, seconds.
_WAIT_S = 2.0


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


def provide(store: IndexStore, knobs: Knobs, embedder: Embedder | None, progress: Progress) -> None:
    """Make them, under a lock that the caller holds. Raises IndexUnavailable and what ``progress`` does."""
    kinds = lacking(store, knobs, embedder)
    store.provide(*kinds - {"lines"}, progress=progress)
    if "lines" in kinds and embedder is not None and (lines := embedder.lines) is not None:
        with suppress(ProviderError):  # a search reports what is wrong with the model
            store.provide("lines", pack=lines.pack, progress=progress)


def provide_for_search(
    store: IndexStore, knobs: Knobs, embedder: Embedder | None, journal: Journal, cancel: CancelToken
) -> list[Note]:
    """Make them under the lock of the index, once for all searches. Returns what there is to say about that.
    Raises IndexUnavailable (IndexLocked) when words cannot be made now, Cancelled."""
    kinds = lacking(store, knobs, embedder)
    if not kinds:
        return []
    from openclaw_mem_engine.sync.lock import SyncLock  # most searches do without it

    start = time.perf_counter()
    try:
        with SyncLock(store.path, killed=journal.killed).holding(_WAIT_S, cancel):
            provide(store, knobs, embedder, lambda *_: stop_if_cancelled(cancel, SEARCH_STOPPED))
    except IndexUnavailable as error:
        words = sorted(LABEL[kind] for kind in kinds - {"lines"})
        if not words:  # lines are compared without these rows, too
            return []
        text = f"The index does not have {words[0]} yet, which these knobs search, and cannot get them now: "
        raise (IndexLocked if isinstance(error, IndexLocked) else IndexUnavailable)(
            f"{text}{error}"
        ) from error
    made = " and ".join(sorted(LABEL[kind] for kind in kinds))
    text = f"{made[0].upper()}{made[1:]} were added to the index for these knobs, once, in"
    return [Note("rows-added", f"{text} {time.perf_counter() - start:.1f} s.", "info")]
