"""What a rebuild keeps of the old index: files that are known and cannot be read just now.

A rebuild begins with nothing, so what it cannot read would be lost, although it is only out of reach.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from openclaw_mem_engine.model import SkippedFile
from openclaw_mem_engine.stores.base import FileChange, FileState, Fingerprint, IndexStore
from openclaw_mem_engine.sync.scan import unreadable_now

#: Files that are written in one transaction.
_TOGETHER = 64


class Carried(NamedTuple):
    """Paths of known files that cannot be read now, in order: those that were ``kept``, and those that are
    ``lost`` until they can be read, since their chunks were made with other settings."""

    kept: tuple[str, ...]
    lost: tuple[str, ...]


def carry_over(old: IndexStore, fresh: IndexStore, skipped: Iterable[SkippedFile]) -> Carried:
    """Copy into ``fresh`` what ``old`` holds of files that are among the ``skipped`` and may be readable
    later.

    Only chunks of the same cut and the same vector space fit into it. Files of a source that is not wanted
    any more are neither kept nor lost. Raises IndexUnavailable.
    """
    present, wanted = old.fingerprint(), fresh.fingerprint()
    if present is None or wanted is None:
        return Carried((), ())
    known, there = old.files(), fresh.files()
    missing = [path for path, state in known.items() if path not in there and state.source in wanted.sources]
    states = [known[path] for path in sorted(unreadable_now(missing, skipped))]
    if replace(present, sources=wanted.sources) != wanted:
        return Carried((), tuple(state.path for state in states if not state.refusal))
    for start in range(0, len(states), _TOGETHER):
        changes = [_change(old, fresh, state, wanted) for state in states[start : start + _TOGETHER]]
        fresh.apply(*changes, built_with=wanted)
    return Carried(tuple(state.path for state in states), ())


def _change(old: IndexStore, fresh: IndexStore, state: FileState, wanted: Fingerprint) -> FileChange:
    chunks = old.chunks_of(state.path)
    if wanted.space.provider == "none":
        return FileChange(state, chunks, [None] * len(chunks))
    vectors = fresh.cached_vectors({chunk.hash for chunk in chunks})
    awaited = any(chunk.hash not in vectors for chunk in chunks)
    return FileChange(state, chunks, [vectors.get(chunk.hash) for chunk in chunks], awaited)
