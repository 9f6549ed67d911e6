"""The legs of one retrieval over an index that may be damaged.

What one leg cannot read costs the answer that leg, and a note says so: the other one needs nothing of it. And
a pool holds both legs whatever the mode, so one which nobody asked for must not break the answer either.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from openclaw_mem_engine.cancellation import CancelToken
from openclaw_mem_engine.model import Fallback, Note, Space
from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.pool import OVERFETCH, Candidate, Leg, LegRow, Signals
from openclaw_mem_engine.retrieval.query_vectors import AskedSpace, QueryVectors, Searched
from openclaw_mem_engine.stores.base import IndexStore
from openclaw_mem_engine.stores.damage import Damage, DamageTolerantSearch
from openclaw_mem_engine.stores.query import LexicalQuery

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
        self._search = DamageTolerantSearch(store, self._report)
        self._lexical: LexicalQuery | None = None
        self._searched: dict[int, AskedSpace] = {}
        self._asked: dict[Space, AskedSpace] = {}
        self._counted = 0

    def ask(
        self, query: str, cancel: CancelToken | None, *, counted: int, compare: bool
    ) -> tuple[AskedSpace, ...]:
        """The query's vectors, of the spaces that are to be searched. Raises Cancelled."""
        self._counted = counted
        searched = self._search.attempt(
            "vector",
            lambda: self._vectors.of(
                query, self._notes, self._timings, cancel, counted=counted, compare=compare
            ),
            Searched(()),
        )
        self._asked = {asked.space: asked for asked in searched.spaces}
        self.fallback = self.fallback or searched.fallback
        return searched.spaces

    def search_vectors(self, query: str, asked: AskedSpace) -> None:
        """Run the vector leg of one space. Raises Cancelled."""
        start = time.perf_counter()
        rows = self._search.vector(asked.vector, OVERFETCH, asked.space)
        spent = (time.perf_counter() - start) * 1000
        if rows is not None:
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
        start = time.perf_counter()
        found = self._search.lexical(lexical, OVERFETCH)
        spent = (time.perf_counter() - start) * 1000
        if found is not None:
            self._timings["bm25"] = spent
            rows = tuple(LegRow(*row) for row in found)
            self.found.append(Leg("bm25", "lexical", found.query, rows, spent, lexical.words))
            self._lexical = lexical

    def check(self) -> None:
        """Raises IndexUnavailable when damage has left nobody to answer. A space that is only shown beside
        the one that counts answers nothing."""
        damages = self._search.damages
        if damages and all(leg.number not in (0, self._counted) for leg in self.found):
            raise damages[0].error

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
            if knobs.fill_missing:
                bm25.update(self._search.lexical_scores(lexical, [i for i in members if i not in bm25]))
            if knobs.line_text > 0:
                line_bm25 = self._search.line_scores(lexical, texts)
        if fused is not None:
            if knobs.fill_missing:
                unknown = [i for i in members if i not in cosine]
                cosine.update(self._search.cosines(fused.vector, unknown, fused.space))
            if knobs.line_vector > 0:
                line_cosine = self._vectors.best_line_cosines(fused, texts)
        self._timings["lines"] = (time.perf_counter() - start) * 1000
        return {i: Signals(bm25.get(i), cosine.get(i), line_bm25.get(i), line_cosine.get(i)) for i in members}

    # -- damage -----------------------------------------------------------------------------------------

    def _report(self, damage: Damage) -> None:
        """Note what could not be read. Of the vector spaces the first one answers; another is compared with
        it."""
        asked = self._asked.get(damage.space) if damage.space is not None else None
        if damage.kind == "lexical":
            self._words_damaged(damage)
        elif asked is None or asked.number == 0:
            self._vectors_damaged(damage)
        else:
            text = f"The vectors of {asked.shown} are not all shown: they cannot be read {damage.reason}"
            self._note("beside-damaged", text)

    def _vectors_damaged(self, damage: Damage) -> None:
        """Keywords answer instead. Vectors that answered already stay in the answer."""
        reason = f"the vectors of the index cannot all be read {damage.reason}"
        ran = any(leg.kind == "vector" for leg in self.found)
        self._note("vectors-damaged", f"{'Vectors in part' if ran else 'Keywords alone'}: {reason}")
        if self._primary is not None and not ran:
            served = "keywords" if self._store.caps.full_text else "nobody"
            if self.fallback is None:
                self.fallback = Fallback(self._primary.id, reason, served)
            else:  # it was the fallback's vectors that could not be read
                both = f"{self.fallback.reason} Besides, {reason}"
                self.fallback = replace(self.fallback, reason=both, served=served)

    def _words_damaged(self, damage: Damage) -> None:
        """Vectors answer instead."""
        part = "Keywords in part" if any(leg.kind == "lexical" for leg in self.found) else "Vectors alone"
        reason = f"the full-text tables of the index cannot all be read {damage.reason}"
        self._note("words-damaged", f"{part}: {reason}")

    def _note(self, code: str, text: str) -> None:
        if all(note.code != code for note in self._notes):
            self._notes.append(Note(code, text, "warning"))
