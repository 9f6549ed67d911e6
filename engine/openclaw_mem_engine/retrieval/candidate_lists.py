"""The legs of one retrieval over an index that may be damaged.

What one leg cannot read costs the answer that leg, and a note says so: the other one needs nothing of it. And
a pool holds both legs whatever the mode, so one which nobody asked for must not break the answer either.
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
from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.pool import OVERFETCH, Candidate, Leg, LegRow, Signals
from openclaw_mem_engine.retrieval.query_vectors import AskedSpace, QueryVectors, Searched
from openclaw_mem_engine.stores.base import IndexStore
from openclaw_mem_engine.stores.sqlite.gaps import repair_of
from openclaw_mem_engine.stores.sqlite.lexical_query import LexicalQuery

if TYPE_CHECKING:
    from openclaw_mem_engine.providers.base import Embedder


class Legs:
    """Collects what each leg finds. ``found`` are the legs that ran; ``fallback`` is why the primary's
    vectors did not answer; ``primary_answered`` tells whether they did. Notes and milliseconds go to what the
    caller gives for them."""

    def __init__(
        self,
        store: IndexStore,
        vectors: QueryVectors,
        primary: Embedder | None,
        notes: list[Note],
        timings: dict[str, float],
    ) -> None:
        self.found: list[Leg] = []
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

    def ask(
        self, query: str, cancel: CancelToken | None, *, counted: int, compare: bool
    ) -> tuple[AskedSpace, ...]:
        """The query's vectors, of the spaces that are to be searched. Raises Cancelled."""
        searched = Searched(())
        self._counted = counted
        with self._damaged(self._vectors_damaged):
            searched = self._vectors.of(
                query, self._notes, self._timings, cancel, counted=counted, compare=compare
            )
        self.fallback = self.fallback or searched.fallback
        return searched.spaces

    def search_vectors(self, query: str, asked: AskedSpace) -> None:
        """Run the vector leg of one space. Raises Cancelled."""
        with self._damaged(partial(self._space_damaged, asked)):
            start = time.perf_counter()
            rows = self._store.vector(asked.vector, OVERFETCH, space=asked.space)
            spent = (time.perf_counter() - start) * 1000
            self._timings["vector"] = self._timings.get("vector", 0.0) + spent
            name = f"vector:{asked.shown}" if asked.number else "vector"
            found = tuple(LegRow(*row) for row in rows)
            self.found.append(
                Leg(name, "vector", query, found, spent, number=asked.number, space=asked.shown)
            )
            self._searched[asked.number] = asked
            self.primary_answered |= asked.embedder is self._primary

    def search_words(self, lexical: LexicalQuery) -> None:
        """Run the keyword leg. Raises Cancelled."""
        with self._damaged(self._words_damaged):
            start = time.perf_counter()
            rows = tuple(LegRow(*row) for row in self._store.lexical(lexical, OVERFETCH))
            spent = self._timings["bm25"] = (time.perf_counter() - start) * 1000
            self.found.append(Leg("bm25", "lexical", lexical.expression(), rows, spent, lexical.words))
            self._lexical = lexical

    def check(self) -> None:
        """Raises IndexUnavailable when damage has left nobody to answer. A space that is only shown beside
        the one that counts answers nothing."""
        if self._failures and all(leg.number not in (0, self._counted) for leg in self.found):
            raise self._failures[0]

    def signals(
        self, legs: Sequence[Leg], candidates: Mapping[str, Candidate], knobs: Knobs
    ) -> dict[str, Signals]:
        """True scores on both sides, and those of the best line, for the rows of ``legs`` that these knobs
        let into the pool. Empty for profiles that need neither. Raises Cancelled."""
        lines = knobs.line_text > 0 or knobs.line_vector > 0
        if not lines and not knobs.fill_missing:
            return {}
        start = time.perf_counter()
        lexical, fused = self._lexical, self._searched.get(knobs.space_number)
        legs = [leg for leg in legs if leg.kind == "lexical" or leg.number == knobs.space_number]
        members = list(dict.fromkeys(row.chunk_id for leg in legs for row in leg.rows[: knobs.candidates]))
        by_kind = {leg.kind: {row.chunk_id: row.raw for row in leg.rows} for leg in legs}
        bm25, cosine = dict(by_kind.get("lexical", {})), dict(by_kind.get("vector", {}))
        texts = {i: candidates[i].text for i in members}
        line_bm25: dict[str, float] = {}
        line_cosine: dict[str, float] = {}
        if lexical is not None:
            with self._damaged(self._words_damaged):
                if knobs.fill_missing:
                    bm25.update(self._store.lexical_scores(lexical, [i for i in members if i not in bm25]))
                if knobs.line_text > 0:
                    line_bm25 = self._store.line_scores(lexical, texts)
        if fused is not None:
            with self._damaged(partial(self._space_damaged, fused)):
                if knobs.fill_missing:
                    unknown = [i for i in members if i not in cosine]
                    cosine.update(self._store.cosines(fused.vector, unknown, fused.space))
                if knobs.line_vector > 0:
                    line_cosine = self._vectors.best_line_cosines(fused, texts)
        self._timings["lines"] = (time.perf_counter() - start) * 1000
        return {i: Signals(bm25.get(i), cosine.get(i), line_bm25.get(i), line_cosine.get(i)) for i in members}

    # -- damage -----------------------------------------------------------------------------------------

    @contextmanager
    def _damaged(self, tell: Callable[[IndexUnavailable], None]) -> Iterator[None]:
        """Go on without what the body cannot read, and ``tell`` of it. A lock is no damage."""
        try:
            yield
        except IndexLocked:
            raise
        except IndexUnavailable as error:
            self._failures.append(error)
            tell(error)

    def _vectors_damaged(self, error: IndexUnavailable) -> None:
        """Keywords answer instead. Vectors that answered already stay in the answer."""
        reason = f"the vectors of the index cannot all be read {_cause_and_repair(error)}"
        ran = any(leg.kind == "vector" for leg in self.found)
        self._note("vectors-damaged", f"{'Vectors in part' if ran else 'Keywords alone'}: {reason}")
        if self._primary is not None and not ran:
            served = "keywords" if self._store.caps.full_text else "nobody"
            if self.fallback is None:
                self.fallback = Fallback(self._primary.id, reason, served)
            else:  # it was the fallback's vectors that could not be read
                both = f"{self.fallback.reason} Besides, {reason}"
                self.fallback = replace(self.fallback, reason=both, served=served)

    def _space_damaged(self, asked: AskedSpace, error: IndexUnavailable) -> None:
        """The first space is the one that answers; another is compared with it."""
        if asked.number == 0:
            self._vectors_damaged(error)
        else:
            told = f"The vectors of {asked.shown} are not all shown: they cannot be read "
            self._note("beside-damaged", told + _cause_and_repair(error))

    def _words_damaged(self, error: IndexUnavailable) -> None:
        """Vectors answer instead."""
        told = "Keywords in part" if any(leg.kind == "lexical" for leg in self.found) else "Vectors alone"
        reason = f"the full-text tables of the index cannot all be read {_cause_and_repair(error)}"
        self._note("words-damaged", f"{told}: {reason}")

    def _note(self, code: str, text: str) -> None:
        if all(note.code != code for note in self._notes):
            self._notes.append(Note(code, text, "warning"))


def _cause_and_repair(error: IndexUnavailable) -> str:
    """What SQLite or numpy said, and what to do about one leg. Our own message names the repair of a whole
    index: too much here."""
    cause = error.__cause__ or error
    return f"({cause}). {repair_of(cause)}"
