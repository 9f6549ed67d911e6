"""The vectors of a query: one for every space that is searched, with a note for each that is missing.

The primary embedder is asked, if the index holds vectors of its space; when it fails, the fallback, if the
index holds vectors of *its* space. Without either the answer has BM25 only. A vector is only ever compared
with vectors of its own space.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from openclaw_mem_engine.cancellation import CancelToken
from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_engine.errors import ProviderError
from openclaw_mem_engine.model import Fallback, Note, Space
from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.providers.base import Embedder, Unavailable, space_of
from openclaw_mem_engine.providers.circuit_breaker import Embedders
from openclaw_mem_engine.retrieval.freshness import who_makes
from openclaw_mem_engine.stores.base import IndexStore

if TYPE_CHECKING:
    from openclaw_mem_engine.providers.base import Floats, Lines
    from openclaw_mem_engine.providers.circuit_breaker import GuardedEmbedder

#: Texts whose packed lines are kept between queries of a long-lived process: some 0.7 kB each.
_TEXTS_KEPT = 4_000


@dataclass(frozen=True, slots=True)
class AskedSpace:
    """A query's vector in one space. ``number`` 0 is the space that is fused unless a knob chooses another;
    ``shown`` names the space where several are shown, "" for the primary's."""

    number: int
    space: Space
    vector: Floats
    embedder: Embedder
    shown: str = ""


@dataclass(frozen=True, slots=True)
class Searched:
    """The spaces to search, in the order of their numbers, and why the primary is not among them."""

    spaces: tuple[AskedSpace, ...]
    fallback: Fallback | None = None


@dataclass(frozen=True, slots=True)
class _Failure:
    """Why the primary's vectors are not searched; ``code`` is that of the note about it."""

    fallback: Fallback
    code: Literal["other-vectors", "embedding-failed"] = "embedding-failed"


class _Absent(NamedTuple):
    """Why there is no vector; ``failed``: its provider did."""

    why: str
    failed: bool = False


class QueryVectors:
    """Embeds queries for an index. Thread-safe."""

    def __init__(self, store: IndexStore, embedders: Embedders) -> None:
        self._store = store
        self._embedders = embedders
        self._lines: dict[tuple[str, str], bytes] = {}
        self._guard = threading.Lock()

    @property
    def _remaining(self) -> str:
        """How a note about missing vectors begins."""
        return "BM25 only" if self._store.caps.full_text else "No vectors"

    def of(
        self,
        query: str,
        notes: list[Note],
        timings: dict[str, float],
        cancel: CancelToken | None = None,
        *,
        counted: int = 0,
        compare: bool = False,
    ) -> Searched:
        """The vectors of a query. Adds a note for each that is missing to ``notes``, and the milliseconds to
        ``timings``.

        Besides the primary's there are those of the space with the number ``counted``, of embedders that
        cost no time, and with ``compare`` of all. May wait for a network. Raises Cancelled.
        """
        start = time.perf_counter()
        found: list[AskedSpace] = []
        fallback = None
        primary, beside = self._embedders.primary, self._beside(query, notes, cancel, counted, compare)
        chosen = next((asked for asked in beside if asked.number == counted), None)
        if primary is None and chosen is None:
            notes.append(Note("bm25-only", "BM25 only: no embeddings (provider = none)."))
        elif primary is not None:
            vector = self._primary(primary, query, notes, cancel, quiet=chosen is not None)
            if isinstance(vector, _Failure):
                fallback = vector.fallback
                if chosen is not None:
                    text = f"Vectors of {chosen.shown} are used (vector_space): {fallback.reason}"
                    notes.append(Note("fallback-vectors", text, "warning"))
                    fallback = replace(fallback, active=chosen.shown)
                elif (instead := self._instead(query, vector, notes, cancel, counted)) is not None:
                    found.append(instead)
                    fallback = replace(fallback, active=instead.shown)
                elif not self._store.caps.full_text:
                    fallback = replace(fallback, active="nothing")
            elif vector is not None:
                found.append(AskedSpace(0, space_of(primary), vector, primary))
        found += beside
        if found:
            timings["embed"] = (time.perf_counter() - start) * 1000
        return Searched(tuple(found), fallback)

    def _beside(
        self, query: str, notes: list[Note], cancel: CancelToken | None, counted: int, compare: bool
    ) -> list[AskedSpace]:
        """The vectors of the spaces beside the primary's, with a note for each that is missing."""
        found: list[AskedSpace] = []
        for number, embedder in enumerate(self._embedders.also, 1):
            if number != counted and not (compare or embedder.lines):
                continue
            other = self._other(embedder, query, number, cancel)
            if isinstance(other, AskedSpace):
                found.append(other)
                continue
            code, label = "beside-failed" if other.failed else "beside-missing", space_of(embedder).label
            if number == counted:
                text = f"The vectors of {label}, which vector_space counts, are missing: {other.why}"
                notes.append(Note(code, text, "warning"))
            else:  # it is only compared with others: its absence costs the answer nothing
                notes.append(Note(code, f"The vectors of {label} are not shown: {other.why}"))
        return found

    def _primary(
        self,
        embedder: GuardedEmbedder,
        query: str,
        notes: list[Note],
        cancel: CancelToken | None,
        *,
        quiet: bool,
    ) -> Floats | _Failure | None:
        """The vector; None, with the reason in notes unless ``quiet``, when the text has none."""
        present, space = self._store.fingerprint(), space_of(embedder)
        held = self._store.vector_dims(space)
        if held is None:  # there is nothing to compare
            if present is None or not self._store.counts().chunks:
                return None
            reason = f"the index holds vectors of {present.space.label}, not of {space.label}"
            if self._store.vector_dims(present.space) is None:
                reason = f"the index holds no vectors of {space.label}"
            elif present.space.label == space.label:
                reason = f"the index holds vectors of {space.label} at another endpoint or with other headers"
            fallback = Fallback(embedder.id, f"{reason}. {who_makes(self._store.path)}")
            failing = embedder.trouble
            if failing is not None:  # why the index could not be made for it
                fallback = Fallback(
                    embedder.id,
                    f"{failing} {reason[:1].upper()}{reason[1:]}.",
                    since=failing.since,
                    next_retry=failing.next_retry,
                )
            return _Failure(fallback, "other-vectors")
        try:
            vector = embedder.embed_for(held, query, cancel)
        except Unavailable as error:
            return _Failure(Fallback(embedder.id, str(error), since=error.since, next_retry=error.next_retry))
        except ProviderError as error:
            return _Failure(Fallback(embedder.id, str(error)))
        if vector is None and not quiet:
            text = (
                f"{self._remaining}: {embedder.id} has no vector for this query because {embedder.no_vector}."
            )
            notes.append(Note("no-embedding", text, "warning"))
        return vector

    def _instead(
        self, query: str, failure: _Failure, notes: list[Note], cancel: CancelToken | None, counted: int
    ) -> AskedSpace | None:
        """The configured fallback's vector, when the index holds vectors of its space and they would be
        counted; notes what remains."""
        reason = failure.fallback.reason
        embedder = None if counted else self._embedders.fallback
        vector = _Absent("") if embedder is None else self._other(embedder, query, 0, cancel)
        if isinstance(vector, _Absent):
            also = f" No vectors of the fallback {embedder.id}: {vector.why}" if embedder else ""
            notes.append(Note(failure.code, f"{self._remaining}: {reason}{also}", "warning"))
            return None
        covered, chunks = self._store.covered(vector.space), self._store.counts().chunks
        partly = f" They cover {covered:,} of {chunks:,} chunks." if covered < chunks else ""
        text = f"Fallback, vectors of {vector.shown}: {reason}{partly}"
        notes.append(Note("fallback-vectors", text, "warning"))
        return vector

    def _other(
        self, embedder: GuardedEmbedder, query: str, number: int, cancel: CancelToken | None
    ) -> AskedSpace | _Absent:
        """The vector of an embedder that is not the primary."""
        space = space_of(embedder)
        held = self._store.vector_dims(space)
        if held is None:
            return _Absent("the index holds none yet: `openclaw-mem index` makes them.")
        try:
            vector = embedder.embed_for(held, query, cancel)
        except ProviderError as error:
            return _Absent(str(error), failed=True)
        if vector is None:
            return _Absent(f"none for this query: {embedder.no_vector}.")
        return AskedSpace(number, space, vector, embedder, space.label)

    def line_cosines(
        self, asked: AskedSpace, texts: Mapping[str, str]
    ) -> dict[str, tuple[float | None, ...]]:
        """The cosine of every line of each chunk, by its id; None for a line without a vector.
        Empty for embedders that are too slow to embed lines while a query waits."""
        lines = asked.embedder.lines
        if lines is None:
            return {}
        with self._guard:
            packed = self._packed_lines(asked.space, lines, texts)
        return dict(zip(texts, lines.cosines(packed, asked.vector), strict=True))

    def _packed_lines(self, space: Space, lines: Lines, texts: Mapping[str, str]) -> list[bytes]:
        """The packed lines of each text: remembered, or those of the index, or made now."""
        kept = self._lines
        found = {key: known for key, text in texts.items() if (known := kept.get((space.key, text)))}
        if new := [key for key in texts if key not in found]:
            made = self._store.packed_lines(new, space)
            unknown = [key for key in new if key not in made]
            made |= dict(zip(unknown, lines.pack([texts[key] for key in unknown]), strict=True))
            kept.update(((space.key, texts[key]), packed) for key, packed in made.items())
            found |= made
        for oldest in list(kept)[: max(0, len(kept) - _TEXTS_KEPT)]:
            del kept[oldest]
        return [found[key] for key in texts]
