"""The candidate lists of one retrieval. A pool holds every list whatever the mode."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from openclaw_mem_engine.cancellation import CancelToken
from openclaw_mem_engine.model import Fallback, Note, OnDemand, snippet_of
from openclaw_mem_engine.ranking.kinds import KINDS
from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.pool import OVERFETCH, Candidate, CandidateList, Kind, Signal
from openclaw_mem_engine.retrieval.query_vectors import AskedSpace, QueryVectors, Searched
from openclaw_mem_engine.sanitize import mostly_not_latin
from openclaw_mem_engine.stores.base import IndexStore, StoredChunk
from openclaw_mem_engine.stores.damage import LateRanks, version_of
from openclaw_mem_engine.stores.query import CandidateRows, LexicalQuery
from openclaw_mem_engine.workspace.rules import note_date

if TYPE_CHECKING:
    from openclaw_mem_engine.providers.base import Embedder

#: Ids of the lists in pools and traces.
VECTOR, BM25 = "vector", "bm25"
#: Candidates that are remembered: those of a few pools.
_CANDIDATES_KEPT = 2_000


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
        self.searched = Searched(())
        self._store = store
        #: The state of the index that is searched.
        self.version = version_of(store)
        self._vectors = vectors
        self._primary = primary
        self._notes = notes
        self.timings = timings
        self._lexical: LexicalQuery | None = None
        self._searched: dict[int, AskedSpace] = {}
        #: The exact ranks of chunks in a list, by its id.
        self._ranks: dict[str, Callable[[Sequence[str]], dict[str, int]]] = {}
        #: True scores and cosines of lines of this query, by list id and chunk id: those made so far.
        self._scores: dict[str, dict[str, float | None]] = {}
        self._cosines: dict[str, dict[str, tuple[float | None, ...]]] = {}

    def again(self) -> ListBuilder:
        """The same builder with times of its own."""
        made = copy(self)
        made.timings = dict(self.timings)
        return made

    def with_words(self, lexical: LexicalQuery | None, timings: dict[str, float]) -> ListBuilder:
        """A builder with the same vector lists and another keyword query; this one for the same query."""
        if lexical == self._lexical:
            return self
        made = copy(self)
        made.timings, made.lists = timings, [lst for lst in self.lists if lst.space_number is not None]
        made._lexical, made._ranks = None, dict(self._ranks)
        made._scores = {id: scores for id, scores in self._scores.items() if id != BM25}
        if lexical is not None:
            made.add_words(lexical, explained=False)
        return made

    def embed(
        self, query: str, cancel: CancelToken | None, *, counted: int, compare: bool
    ) -> tuple[AskedSpace, ...]:
        """The query's vectors, of the spaces that are to be searched (see ``QueryVectors.of``)."""
        self.searched = self._vectors.of(
            query, self._notes, self.timings, cancel, counted=counted, compare=compare
        )
        self.fallback = self.searched.fallback
        return self.searched.spaces

    def add_vectors(self, query: str, asked: AskedSpace) -> None:
        """Add the vector list of one space."""
        start = time.perf_counter()
        made_for = asked.embedder.languages
        foreign = made_for != "any" and mostly_not_latin(query)
        if foreign:
            text = f"Most letters of the query are not Latin, and {asked.space.label} is made for {made_for}"
            self._note("other-script", f"{text}: its vectors are not meaningful for it.")
        rows = self._store.vector(asked.vector, OVERFETCH, asked.space)
        found = self._add(VECTOR, "vector", query, rows, start)
        self.lists[-1] = replace(
            found,
            id=_vector_id(asked),
            space_number=asked.number,
            space=asked.shown,
            provider=asked.space.provider,
            model=asked.space.model,
            floor=asked.embedder.floor,
            suits=not foreign,
        )
        self._searched[asked.number] = asked
        self._ranks[_vector_id(asked)] = lambda ids: self._store.vector_ranks(asked.vector, ids, asked.space)
        self.primary_answered |= asked.embedder is self._primary

    def add_words(self, lexical: LexicalQuery, *, explained: bool = True) -> None:
        """Add the BM25 list; unless ``explained`` without which rows only match by name."""
        start = time.perf_counter()
        rows = self._store.lexical(lexical, OVERFETCH)
        found = self._add(BM25, "lexical", rows.query, rows, start)
        by_name: frozenset[str] | None = None
        if lexical.name_weight > 0 and explained:
            ids = [row.chunk_id for row in rows]
            alone = self._store.matching(replace(lexical, name_weight=0.0), ids)
            by_name = frozenset(ids).difference(alone)
        every = lexical.operator == "and"
        self.lists[-1] = replace(found, words=lexical.words, every=every, by_name=by_name)
        self._lexical = lexical
        self._ranks[BM25] = lambda ids: self._store.lexical_ranks(lexical, ids)

    def _add(self, id: str, kind: Kind, query: str, rows: CandidateRows, start: float) -> CandidateList:
        spent = (time.perf_counter() - start) * 1000
        step = KINDS[kind].label
        self.timings[step] = self.timings.get(step, 0.0) + spent
        made = CandidateList(id, kind, query, rows.rows, matched=rows.matched, milliseconds=spent)
        self.lists.append(made)
        return made

    def with_ranks(self, found: CandidateList, ids: Iterable[str], *, explained: bool) -> CandidateList:
        """A list with what is said of candidates that it matched and did not fetch: which they are, of words,
        and their ranks: looked up when they are read, or now where that is too late, if ``explained``."""
        inside = {row.chunk_id for row in found.rows}
        outside = [chunk_id for chunk_id in ids if chunk_id not in inside]
        if found.found == len(inside) or not outside:
            return found
        start = time.perf_counter()
        asked = None if found.space_number is None else self._searched[found.space_number]
        if asked is None and self._lexical is not None:
            matches = self._store.matching(self._lexical, outside)
            found, outside = replace(found, matches_beyond=matches), [*matches]
        ranks = partial(_from, len(inside) + 1, partial(self._ranks[found.id], outside))
        if self._store.stays_open:
            found = replace(found, ranks_beyond=LateRanks(self._store, self.version, ranks))
        elif explained:
            known = ranks()
            found = replace(found, ranks_beyond=lambda: known)
        self.timings["ranks"] = self.timings.get("ranks", 0.0) + (time.perf_counter() - start) * 1000
        return found

    def signals(
        self, lists: Sequence[CandidateList], candidates: Mapping[str, Candidate], knobs: Knobs
    ) -> Mapping[str, Mapping[str, Signal]]:
        """What these knobs need of the rows that they let into the pool: the true scores of both retrievers
        (``fill_missing``), and the scores of lines, for the fusion and for the snippet. Keyword scores of
        lines are computed when they are read."""
        start = time.perf_counter()
        fused = [found for found in lists if found.space_number in (None, knobs.space_number)]
        rows = (row for found in fused for row in found.rows[: knobs.signal_depth])
        members = list(dict.fromkeys(row.chunk_id for row in rows))
        texts = {i: candidates[i].text for i in members}
        if not knobs.scores_all_lines:  # only to know whether the snippet shows the best line
            texts = {i: text for i, text in texts.items() if snippet_of(text, knobs.snippet_chars) != text}
        lexical, asked = self._lexical, self._searched.get(knobs.space_number)
        vector = VECTOR if asked is None else _vector_id(asked)
        raw: dict[str, dict[str, float]] = {vector: {}, BM25: {}}
        raw |= {found.id: dict(found.rows) for found in fused}
        missing = {id: [i for i in members if i not in scores] for id, scores in raw.items()}
        lines: dict[str, Mapping[str, tuple[float | None, ...] | None]] = {vector: {}, BM25: {}}
        if lexical is not None:
            if knobs.fill_missing:
                search = self._store.lexical_scores
                # Which others match is mostly known, and that few or none do.
                beyond = next((found.matches_beyond for found in fused if found.id == BM25), None)
                ids = missing[BM25] if beyond is None else [i for i in missing[BM25] if i in beyond]
                raw[BM25] |= self._known(BM25, ids, lambda ids: search(lexical, ids))
            # Rows of its own list alone, so that no score of a word depends on the vectors.
            own = (row for found in fused if found.id == BM25 for row in found.rows[: knobs.signal_depth])
            basis = [row.chunk_id for row in own if row.chunk_id in texts]
            held = texts
            if knobs.fill_missing and (lexical.operator, lexical.index) == ("or", "stemmed"):
                held = {i: text for i, text in texts.items() if i in raw[BM25]}
            scores = self._store.line_scores(lexical, held, basis)
            # What does not match holds no term in any line: it is not cut into tokens.
            lines[BM25] = OnDemand(
                texts, lambda i: scores.get(i) if i in held else (0.0,) * (texts[i].count("\n") + 1)
            )
        if asked is not None:
            if knobs.fill_missing:
                cosines = self._store.cosines
                raw[vector] |= self._known(
                    vector, missing[vector], lambda ids: cosines(asked.vector, ids, asked.space)
                )
            if knobs.scores_all_lines:
                known = self._cosines.setdefault(vector, {})
                new = {i: text for i, text in texts.items() if i not in known}
                known |= self._vectors.line_cosines(asked, new)
                lines[vector] = {i: known[i] for i in texts if i in known}
        self.timings["lines"] = (time.perf_counter() - start) * 1000

        def signal(id: str, i: str) -> Signal:
            return Signal(raw[id].get(i) if knobs.fill_missing else None, lines[id].get(i))

        return {id: OnDemand(members, partial(signal, id)) for id in lines}

    def _known(
        self, id: str, ids: Sequence[str], scores_of: Callable[[Sequence[str]], dict[str, float]]
    ) -> dict[str, float]:
        """The true scores of chunks for a list, looked up once each; absent without a match."""
        known = self._scores.setdefault(id, {})
        if new := [i for i in ids if i not in known]:
            known |= dict.fromkeys(new) | scores_of(new)
        return {i: score for i in ids if (score := known[i]) is not None}

    # -- one chunk ----------------------------------------------------------------------------------------

    def scores_of(self, ids: Sequence[str], found: CandidateList) -> dict[str, float]:
        """The raw scores of chunks for a list, also of those outside of it; absent without a match."""
        if found.space_number is None:
            return {} if self._lexical is None else self._store.lexical_scores(self._lexical, ids)
        asked = self._searched[found.space_number]
        return self._store.cosines(asked.vector, ids, asked.space)

    def rank_of(self, chunk_id: str, found: CandidateList) -> int | None:
        """The exact rank of a chunk in a list, also beyond its rows; None when it does not match."""
        rank = next((n for n, row in enumerate(found.rows, 1) if row.chunk_id == chunk_id), None)
        if rank is not None or len(found.rows) == found.matched:
            return rank
        if found.space_number is None:
            if self._lexical is None:
                return None
            return self._store.lexical_ranks(self._lexical, (chunk_id,)).get(chunk_id)
        asked = self._searched[found.space_number]
        return self._store.vector_ranks(asked.vector, (chunk_id,), asked.space).get(chunk_id)

    def words_of(self, chunk_id: str) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        """The terms of the query that the text of a chunk holds, as the index tells words apart, those that
        neither it nor a searched path holds, and those that only the path holds."""
        held: dict[str, None] = {}
        missing: dict[str, None] = {}
        named: dict[str, None] = {}
        lexical = self._lexical
        if lexical is None:
            return (), (), ()
        for term in lexical.terms:
            one = replace(lexical, terms=(term,), operator="or")
            kept = missing
            for query, those in ((one, named), (replace(one, name_weight=0.0), held)):
                kept = those if chunk_id in self._store.lexical_scores(query, [chunk_id]) else kept
            kept.setdefault(" ".join(term).rstrip("*"))
        return tuple(held), tuple(missing), tuple(named)

    def _note(self, code: str, text: str) -> None:
        if all(note.code != code for note in self._notes):
            self._notes.append(Note(code, text, "warning"))


def _from(first: int, look_up: Callable[[], dict[str, int]]) -> dict[str, int]:
    """Ranks beyond a list: of nearly equal cosines each search may round another one up."""
    return {chunk_id: max(rank, first) for chunk_id, rank in look_up().items()}


def _vector_id(asked: AskedSpace) -> str:
    return f"{VECTOR}:{asked.shown}" if asked.number else VECTOR


def candidates_of(chunks: Mapping[str, StoredChunk]) -> Mapping[str, Candidate]:
    return OnDemand(chunks, lambda chunk_id: _candidate_of(chunks[chunk_id]))


@lru_cache(_CANDIDATES_KEPT)
def _candidate_of(chunk: StoredChunk) -> Candidate:
    """The candidate that a stored chunk makes; the date is that of its name, else of its file. Pools of one
    query after the other hold mostly the same ones."""
    dated = note_date(chunk.path, chunk.source)
    date: float | None = dated.epoch_seconds
    if dated.kind == "mtime" and chunk.mtime_ns:
        date = chunk.mtime_ns / 1e9
    at = (chunk.chunk_id, chunk.path, chunk.start_line, chunk.end_line)
    return Candidate(*at, chunk.text, chunk.source, date, dated.kind)
