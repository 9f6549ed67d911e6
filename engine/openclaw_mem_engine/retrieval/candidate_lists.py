"""The candidate lists of one retrieval over an index that may be damaged.

Damage costs the answer the lists that cannot be read, and a note says so: the others need nothing of them. A
pool holds every list whatever the mode, so a list that the mode excludes must not break the answer either.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from openclaw_mem_engine.cancellation import CancelToken
from openclaw_mem_engine.errors import IndexLocked, IndexUnavailable
from openclaw_mem_engine.model import Fallback, Note
from openclaw_mem_engine.ranking.kinds import KINDS
from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.pool import OVERFETCH, Candidate, CandidateList, Kind, ListRow, Signal
from openclaw_mem_engine.retrieval.query_vectors import AskedSpace, QueryVectors, Searched
from openclaw_mem_engine.stores.base import IndexStore, Scored
from openclaw_mem_engine.stores.sqlite.gaps import repair_of
from openclaw_mem_engine.stores.sqlite.lexical_query import LexicalQuery

if TYPE_CHECKING:
    from openclaw_mem_engine.providers.base import Embedder

#: Ids of the lists in pools and traces.
VECTOR, BM25 = "vector", "bm25"


class ListBuilder:
    """Makes the candidate lists of one query. ``lists`` are those that could be made, in the order of fusion;
    ``fallback`` is why the primary's vectors were not searched; ``primary_answered`` says whether they were.
    Notes and milliseconds are added to the given collections. All methods that read raise Cancelled."""

    def __init__(
        self,
        store: IndexStore,
        vectors: QueryVectors,
        primary: Embedder | None,
        notes: list[Note],
        timings: dict[str, float],
    ) -> None:
        self.lists: list[CandidateList] = []
        self.fallback: Fallback | None = None
        self.primary_answered = False
        self._store = store
        self._vectors = vectors
        self._primary = primary
        self._notes = notes
        self._timings = timings
        self._failures: list[IndexUnavailable] = []
        self._lexical: LexicalQuery | None = None
        self._searched: dict[int, AskedSpace] = {}
        self._counted = 0

    def embed(
        self, query: str, cancel: CancelToken | None, *, counted: int, compare: bool
    ) -> tuple[AskedSpace, ...]:
        """The query's vectors, of the spaces that are to be searched (see ``QueryVectors.of``)."""
        searched = Searched(())
        self._counted = counted
        with self._damaged(self._vectors_damaged):
            searched = self._vectors.of(
                query, self._notes, self._timings, cancel, counted=counted, compare=compare
            )
        self.fallback = self.fallback or searched.fallback
        return searched.spaces

    def add_vectors(self, query: str, asked: AskedSpace) -> None:
        """Add the vector list of one space."""
        with self._damaged(partial(self._space_damaged, asked)):
            start = time.perf_counter()
            rows = self._store.vector(asked.vector, OVERFETCH, space=asked.space)
            found = self._add(VECTOR, "vector", query, rows, start)
            self.lists[-1] = replace(
                found, id=_vector_id(asked), space_number=asked.number, space=asked.shown
            )
            self._searched[asked.number] = asked
            self.primary_answered |= asked.embedder is self._primary

    def add_words(self, lexical: LexicalQuery) -> None:
        """Add the BM25 list."""
        with self._damaged(self._words_damaged):
            start = time.perf_counter()
            rows = self._store.lexical(lexical, OVERFETCH)
            found = self._add(BM25, "lexical", lexical.expression(), rows, start)
            self.lists[-1] = replace(found, words=lexical.words)
            self._lexical = lexical

    def _add(self, id: str, kind: Kind, query: str, rows: Sequence[Scored], start: float) -> CandidateList:
        spent = (time.perf_counter() - start) * 1000
        step = KINDS[kind].label
        self._timings[step] = self._timings.get(step, 0.0) + spent
        matched = len(rows) if len(rows) < OVERFETCH else None
        made = CandidateList(
            id, kind, query, tuple(ListRow(*row) for row in rows), matched=matched, milliseconds=spent
        )
        self.lists.append(made)
        return made

    def check(self) -> None:
        """Raises IndexUnavailable when damage has left no list that counts. A space that is only shown beside
        the counted one does not."""
        counts = (None, 0, self._counted)
        if self._failures and all(found.space_number not in counts for found in self.lists):
            raise self._failures[0]

    def signals(
        self, lists: Sequence[CandidateList], candidates: Mapping[str, Candidate], knobs: Knobs
    ) -> dict[str, dict[str, Signal]]:
        """True scores of both retrievers, and those of the best line, for the rows of ``lists`` that these
        knobs let into the pool. Empty for profiles that need neither."""
        lines = knobs.line_text > 0 or knobs.line_vector > 0
        if not lines and not knobs.fill_missing:
            return {}
        start = time.perf_counter()
        fused = [found for found in lists if found.space_number in (None, knobs.space_number)]
        rows = (row for found in fused for row in found.rows[: knobs.candidates])
        members = list(dict.fromkeys(row.chunk_id for row in rows))
        texts = {i: candidates[i].text for i in members}
        lexical, asked = self._lexical, self._searched.get(knobs.space_number)
        vector = VECTOR if asked is None else _vector_id(asked)
        raw: dict[str, dict[str, float]] = {vector: {}, BM25: {}}
        raw |= {found.id: dict(found.rows) for found in fused}
        missing = {id: [i for i in members if i not in scores] for id, scores in raw.items()}
        best: dict[str, dict[str, float]] = {vector: {}, BM25: {}}
        if lexical is not None:
            with self._damaged(self._words_damaged):
                if knobs.fill_missing:
                    raw[BM25].update(self._store.lexical_scores(lexical, missing[BM25]))
                if knobs.line_text > 0:
                    best[BM25] = self._store.line_scores(lexical, texts)
        if asked is not None:
            with self._damaged(partial(self._space_damaged, asked)):
                if knobs.fill_missing:
                    raw[vector].update(self._store.cosines(asked.vector, missing[vector], asked.space))
                if knobs.line_vector > 0:
                    best[vector] = self._vectors.best_line_cosines(asked, texts)
        self._timings["lines"] = (time.perf_counter() - start) * 1000
        return {id: {i: Signal(raw[id].get(i), best[id].get(i)) for i in members} for id in best}

    # -- damage -----------------------------------------------------------------------------------------

    @contextmanager
    def _damaged(self, note: Callable[[IndexUnavailable], None]) -> Iterator[None]:
        """Go on without what the body cannot read, after calling ``note``. A lock is no damage."""
        try:
            yield
        except IndexLocked:
            raise
        except IndexUnavailable as error:
            self._failures.append(error)
            note(error)

    def _vectors_damaged(self, error: IndexUnavailable) -> None:
        """BM25 remains. Vector lists that were made already stay in the answer."""
        reason = f"the vectors of the index cannot all be read {_cause_and_repair(error)}"
        ran = any(found.space_number is not None for found in self.lists)
        self._note("vectors-damaged", f"{'Vectors in part' if ran else 'BM25 only'}: {reason}")
        if self._primary is not None and not ran:
            served = "keywords" if self._store.caps.full_text else "nobody"
            if self.fallback is None:
                self.fallback = Fallback(self._primary.id, reason, served)
            else:  # it was the fallback's vectors that could not be read
                both = f"{self.fallback.reason} Besides, {reason}"
                self.fallback = replace(self.fallback, reason=both, served=served)

    def _space_damaged(self, asked: AskedSpace, error: IndexUnavailable) -> None:
        """The first space is the one that is fused by default; another is compared with it."""
        if asked.number == 0:
            self._vectors_damaged(error)
        else:
            text = f"The vectors of {asked.shown} are not all shown: they cannot be read "
            self._note("beside-damaged", text + _cause_and_repair(error))

    def _words_damaged(self, error: IndexUnavailable) -> None:
        """Vectors remain."""
        start = "BM25 in part" if any(found.id == BM25 for found in self.lists) else "Vectors only"
        reason = f"the full-text tables of the index cannot all be read {_cause_and_repair(error)}"
        self._note("words-damaged", f"{start}: {reason}")

    def _note(self, code: str, text: str) -> None:
        if all(note.code != code for note in self._notes):
            self._notes.append(Note(code, text, "warning"))


def _vector_id(asked: AskedSpace) -> str:
    return f"{VECTOR}:{asked.shown}" if asked.number else VECTOR


def _cause_and_repair(error: IndexUnavailable) -> str:
    """The message of SQLite or numpy, and how to repair this part. Our own message names the repair of a
    whole index: too much here."""
    cause = error.__cause__ or error
    return f"({cause}). {repair_of(cause)}"
