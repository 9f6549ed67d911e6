"""The facts about one document of QMD: from its file to its exact rank in every candidate list, and the pools
that counterfactuals need."""

# Paths are strings here, as in the listing of collections.
# ruff: noqa: PTH116

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from openclaw_mem_engine.model import Note
from openclaw_mem_engine.qmd.lexical import Term, terms_of
from openclaw_mem_engine.ranking.kinds import KINDS
from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.pool import Candidate, CandidateList, Pool, Signal
from openclaw_mem_engine.ranking.state import RankingState
from openclaw_mem_engine.ranking.trace import Trace
from openclaw_mem_engine.retrieval.collection_files import CollectionLookup, Placed
from openclaw_mem_engine.retrieval.lookup import INDEX, check_line
from openclaw_mem_engine.retrieval.qmd import FoundDocuments, QmdBackend
from openclaw_mem_engine.stores.qmd.file_records import Known, looks_unchanged
from openclaw_mem_engine.stores.qmd.scanning import FoundFile, Scan, read_file
from openclaw_mem_engine.why_not import WhyNot
from openclaw_mem_engine.why_not.qmd_steps import MADE_WITH, document_changes, label_of, parts_of
from openclaw_mem_engine.why_not.walk import ListFact
from openclaw_mem_engine.workspace.opening import NoteRefused

if TYPE_CHECKING:
    from openclaw_mem_engine.cancellation import CancelToken
    from openclaw_mem_engine.qmd.collections import Collection
    from openclaw_mem_engine.retrieval import PassageQuestion

#: More rows than an index has documents: every rank is exact.
_ALL = 10**9
_UNASKED = Note(
    "expansion-not-asked",
    "The effect of settings that expand the query is unknown: only a search requests variants.",
)


class DocumentLookup(CollectionLookup[FoundDocuments]):
    """The lookup in the index of QMD in this process."""

    made_with = MADE_WITH
    _text_changes = staticmethod(document_changes)

    def __init__(self, backend: QmdBackend, question: PassageQuestion, cancel: CancelToken) -> None:
        super().__init__(backend, question, cancel)
        self._backend = backend
        self.only = backend.only
        self._known: dict[tuple[str, str], Known | None] = {}
        self._matches: dict[tuple[str, str], tuple[bool, bool]] = {}
        self._signals: dict[tuple[str, int | None], Signal] = {}

    # -- the file -----------------------------------------------------------------------------------------

    def _collections(self) -> Sequence[Collection]:
        return self._by_name.values()  # type: ignore[return-value]

    @cached_property
    def _by_name(self) -> dict[str, Collection]:
        return {one.name: one for one in self._backend.store.collections()}

    def _holds(self, collection: str, path: str) -> bool:
        known = self._known_of(collection, path)
        return known is not None and bool(known.active)

    def _known_of(self, collection: str, path: str) -> Known | None:
        if (collection, path) not in self._known:
            self._known[collection, path] = self._backend.store.known_file(collection, path)
        return self._known[collection, path]

    def _file_steps(self) -> Sequence[Candidate] | WhyNot:
        placed = self._placed_steps()
        if isinstance(placed, WhyNot):
            return placed
        held = [one for one in placed if one.held]
        documents = self._backend.store.documents(one.id for one in held)
        if not documents:
            return self._unindexed(placed[0])
        stale = ""
        for one in held:
            if (document := documents.get(one.id)) is None:
                continue
            if (now := self._text_now(one)) is not None and now != document.text:
                if not self._has_line(now, document.text):
                    return self._stop_at("indexed", "it was modified since it was indexed", INDEX)
                stale = " (modified since, not in this line)"
        made = [self._backend.candidate_of(one, self._by_name[one.collection]) for one in documents.values()]
        check_line(self._line, self._path, max(one.end_line for one in made))
        self._pass("indexed", f"it is indexed, as a whole document{stale}")
        return [one for one in made if self._line is None or self._line <= one.end_line]

    def _unindexed(self, placed: Placed) -> WhyNot:
        known = self._known_of(placed.collection.name, placed.path)
        if known is not None and known.refusal and (file := _found(placed)) and looks_unchanged(file, known):
            return self._stop_at("indexed", f"it holds no text that can be indexed: it {known.refusal}")
        return self._stop_at("indexed", "it is not indexed yet", INDEX)

    def _text_now(self, placed: Placed) -> str | None:
        """The text of the file, None where it is that of the index or cannot be read now."""
        known = self._known_of(placed.collection.name, placed.path)
        file = _found(placed)
        if file is None or looks_unchanged(file, known):
            return None
        try:
            return read_file(Scan(os.path.realpath(placed.collection.root.expanduser())), file).text
        except NoteRefused as refusal:
            return None if refusal.transient or refusal.kind == "missing" else ""

    def _has_line(self, now: str, indexed: str) -> bool:
        """Whether file and index have the same line, where one is asked for."""
        at = (self._line or 0) - 1
        lines = [text.split("\n")[at : at + 1] for text in (now, indexed)]
        return at >= 0 and bool(lines[0]) and lines[0] == lines[1]

    # -- lists --------------------------------------------------------------------------------------------

    def _lists_of(self, knobs: Knobs, before: FoundDocuments | None) -> FoundDocuments:
        if before is None:
            return self._backend.search(self._query, knobs, self._cancel, most=_ALL)
        return self._backend.again(before, knobs, self._cancel)

    def _pool_of(self, found: FoundDocuments, knobs: Knobs) -> Pool:
        return self._backend.pool_of(found, knobs, self._signals)

    def _nearest(
        self, chunks: Sequence[Candidate], state: RankingState, trace: Trace, found: FoundDocuments
    ) -> Candidate:
        by_id = {one.chunk_id: one for one in chunks}
        if (first := self._shown_first(by_id, state, trace)) is not None:
            return by_id[first]
        fused = {lst.source.id for lst in trace.lists}
        rows = (row.chunk_id for lst in found.builder.lists if lst.id in fused for row in lst.rows)
        return by_id[next((i for i in rows if i in by_id), chunks[0].chunk_id)]

    def _fact(self, found: FoundDocuments, chunk_id: str, at: int, trace: Trace) -> ListFact:
        lst = found.builder.lists[at]
        made = next((one for one in (*trace.lists, *trace.shown_lists) if one.source.id == lst.id), None)
        ranked = ((n, row.raw) for n, row in enumerate(lst.rows, 1) if row.chunk_id == chunk_id)
        rank, score = next(ranked, (None, None))
        lexical = lst.kind == "lexical"
        fact = ListFact(
            made.key if made is not None else lst.id,
            self._label(found, lst),
            lexical,
            rank,
            lst.matched,
            score,
            any(one.source.id == lst.id for one in trace.lists),
        )
        if not lexical:
            model = lst.model or lst.provider
            return (
                fact if rank is not None else replace(fact, said=f"the index has no vector of {model} for it")
            )
        terms = terms_of(
            found.builder.texts[lst.id], as_indexed=found.builder.knobs.lexical_index == "stemmed"
        )
        parts = parts_of(terms, self._held(chunk_id, terms))
        where = f"its title or its path in the index ({chunk_id})"
        whole = [term._replace(expression=term.expression.replace('"*', '"')) for term in terms]
        held = self._held(chunk_id, whole)
        begun = tuple(term.text for term in whole if not held[term.expression][1])
        return replace(fact, named_in=where, begun=begun, **parts._asdict())

    @staticmethod
    def _label(found: FoundDocuments, lst: CandidateList) -> str:
        """With the text that was searched for, where that is not the query."""
        label = lst.label or KINDS[lst.kind].name
        same = [one for one in found.lists if (one.kind, one.label) == (lst.kind, lst.label)]
        if lst.role == "original" and len(same) == 1:
            return label
        return label_of(label, found.builder.texts.get(lst.id, lst.query))

    def _held(self, chunk_id: str, terms: Sequence[Term]) -> dict[str, tuple[bool, bool]]:
        """Which of these parts of a query a document matches, and its text."""
        wanted = dict.fromkeys(term.expression for term in terms)
        new = [one for one in wanted if (chunk_id, one) not in self._matches]
        for one, held in zip(new, self._backend.store.matches(chunk_id, new), strict=True):
            self._matches[chunk_id, one] = held
        return {one: self._matches[chunk_id, one] for one in wanted}

    def _key(self, knobs: Knobs) -> tuple[object, ...]:
        first = next(iter(self._searches.values()), None)
        variants = first.builder.variants if first is not None else None
        plain = knobs.mode != "hybrid" or (variants is not None and not variants.queries)
        if plain or (first is not None and first.query.lines):
            return knobs.lexical_index, "off", False
        return knobs.lexical_index, knobs.expansion, knobs.expansion != "off" and knobs.strong_signal

    # -- what counterfactuals are tried with (changes.Pools) ----------------------------------------------

    def complete(self, knobs: Knobs) -> Pool:
        key = *self._key(knobs), knobs.candidates
        if key not in self._completed:
            signals = self._found(knobs).signals(knobs, self._signals)
            self._completed[key] = self._again(replace(self.pool(knobs), signals=signals))
        return self._completed[key]

    def is_known(self, knobs: Knobs) -> bool:
        """Not where a model has to be asked for variants of the query, or an embedder fails meanwhile."""
        key, first = self._key(knobs), next(iter(self._searches.values()))
        if key in self._searches:
            return self._searches[key].answered is first.answered
        needs = key[1] != "off" and not first.query.lines and first.builder.variants is None
        if needs and self._backend.expander is not None:
            if _UNASKED not in self._notes:
                self._notes.append(_UNASKED)
            return False
        return self._found(knobs).answered is first.answered


def _found(placed: Placed) -> FoundFile | None:
    """The file as it is now; None when it cannot be seen."""
    try:
        real = os.path.realpath(placed.file, strict=True)
        return FoundFile(placed.path, real, os.stat(real))
    except (OSError, ValueError):
        return None
