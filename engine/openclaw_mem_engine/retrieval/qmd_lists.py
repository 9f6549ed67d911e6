"""The candidate lists of QMD, one for each text and kind, and which lines of a document answer."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Literal, TypeAlias

from openclaw_mem_engine.cancellation import SEARCH_STOPPED, CancelToken
from openclaw_mem_engine.errors import IndexUnavailable, ProviderError
from openclaw_mem_engine.model import Fallback, Note
from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.providers.base import Embedder, Unavailable, space_of, stop_if_cancelled
from openclaw_mem_engine.qmd.lexical import Term, match_expression, score_of, terms_of
from openclaw_mem_engine.qmd.queries import LineRole, QueryDocument, SubQuery, is_strong, query_prompt
from openclaw_mem_engine.qmd.snippets import best_passage
from openclaw_mem_engine.ranking.kinds import KINDS
from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.pool import OVERFETCH, CandidateList, Kind, ListRow, Role, Signal
from openclaw_mem_engine.ranking.query_words import intent_terms
from openclaw_mem_engine.retrieval.expansion import BY_WORDS, Expanded, Expander, expand
from openclaw_mem_engine.stores.qmd.searching import DocumentRow, Rows, VectorSpace

if TYPE_CHECKING:
    from openclaw_mem_engine.providers.circuit_breaker import GuardedEmbedder
    from openclaw_mem_engine.stores.qmd.store import QmdStore

#: Which retriever searches a line of an expanded query, as QMD 2.8.3 does.
_KIND_OF: Mapping[LineRole, Kind] = {"lex": "lexical", "vec": "vector", "hyde": "vector"}
_LEXICAL, _VECTOR = "bm25", "vector"
#: A text that was searched by vectors, what it found, its role, and milliseconds.
_Found: TypeAlias = tuple[str, Rows, Role, float]


class _Failure(NamedTuple):
    """Why there are no vector lists; ``code`` is that of the note about it."""

    fallback: Fallback
    code: Literal["other-vectors", "embedding-failed"] = "embedding-failed"


@dataclass
class ListBuilder:
    """Makes the lists of one query. ``positions`` are where the best chunk of a document begins (UTF-16
    units), by document, of the vector lists. Those are of ``answered``: of ``embedder``, or, when that fails
    or the index holds none of its vectors, of ``instead``. ``most`` is how many rows a list has; ``searched``
    are what was searched for before and its rows, ``variants`` an expansion; ``texts`` are what the lists of
    full text were made of, by id; ``numbers`` those of the variants, from 1, by their text."""

    store: QmdStore
    embedder: GuardedEmbedder | None
    knobs: Knobs
    cancel: CancelToken
    collections: Sequence[str] | None = None
    instead: GuardedEmbedder | None = None
    answered: Embedder | None = None
    lists: list[CandidateList] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    timings: dict[str, float] = field(default_factory=dict)
    positions: dict[str, int] = field(default_factory=dict)
    fallback: Fallback | None = None
    most: int = OVERFETCH
    searched: dict[tuple[object, ...], Rows | None] = field(default_factory=dict)
    variants: Expanded | None = None
    texts: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)

    def build(self, query: QueryDocument, expander: Expander | None) -> None:
        """Add all lists, those of full text first. Raises Cancelled, IndexUnavailable, UsageError."""
        if query.text:
            self._add_words(SubQuery("lex", query.text), "original")
        typed = query.lines or self._variants(query, expander)
        self.numbers = {text: n for n, text in enumerate(dict.fromkeys(line.text for line in typed), 1)}
        both = self.knobs.expansion == "both" and not query.lines
        words = [line for line in typed if both or _KIND_OF[line.role] == "lexical"]
        if self.knobs.expansion == "nearest" and not query.lines:
            words = []  # the variants are for vectors alone
        meant = [line for line in typed if both or _KIND_OF[line.role] == "vector"]
        # The lists that the user typed count as the query itself; those of an expansion do not.
        role: Role | None = None if query.text else "original"
        for line in words:
            self._add_words(line, role or line.role)
        texts: list[tuple[str, Role]] = [(query.text, "original")] if query.text else []
        texts += [(line.text, role or line.role) for line in meant]
        self._add_vectors(texts)

    def _variants(self, query: QueryDocument, expander: Expander | None) -> Sequence[SubQuery]:
        knobs = self.knobs
        nearest = knobs.expansion == "nearest"
        if knobs.expansion == "off" or (knobs.mode != "hybrid" and not nearest):
            return ()
        first = self.lists[0].rows[:2] if self.lists else ()
        if knobs.strong_signal and is_strong([score_of(row.raw) for row in first], query.intent):
            text = (
                f"The first keyword match is clear (score {score_of(first[0].raw):.2f}): nothing is expanded."
            )
            self.notes.append(Note("not-expanded", text))
            return ()
        start = time.perf_counter()
        found = self.variants
        if found is None or found.made_by == BY_WORDS:  # which not every setting wants
            found = expand(query.text, expander, self.store, self.cancel, by_words=not nearest)
            self.variants = found
        self.timings["expand"] = (time.perf_counter() - start) * 1000
        self.notes += found.notes
        return found.queries

    def _add_words(self, line: SubQuery, role: Role) -> None:
        stop_if_cancelled(self.cancel, SEARCH_STOPPED)
        start = time.perf_counter()
        as_indexed = self.knobs.lexical_index == "stemmed"
        expression = match_expression(line.text, as_indexed=as_indexed)
        if expression is None:
            if role == "original":
                text = f"The query {line.text!r} holds no word to look for: no full-text search."
                self.notes.append(Note("no-words", text))
            return
        rows = self.searched.get(key := (expression,))
        if rows is None:
            rows = self.searched[key] = self.store.lexical(expression, self.most, self.collections)
        spent = (time.perf_counter() - start) * 1000
        terms = terms_of(line.text, as_indexed=as_indexed)
        self._add("lexical", line.text, rows, role, spent, terms, expression)
        self.texts[self.lists[-1].id] = line.text

    def _add_vectors(self, texts: Sequence[tuple[str, Role]]) -> None:
        """Embed and search texts; a note says why there are no vector lists."""
        if self.embedder is None:
            self.notes.append(Note("bm25-only", "BM25 only: no embeddings (provider = none)."))
            return
        failure = self._search_vectors(self.embedder, texts)
        if failure is None:
            return
        fallback, also = failure.fallback, ""
        if self.instead is not None:
            other = self._search_vectors(self.instead, texts)
            if other is None:
                self.fallback = replace(fallback, active=space_of(self.instead).label)
                text = f"Fallback, vectors of {self.fallback.active}: {fallback.reason}"
                self.notes.append(Note("fallback-vectors", text, "warning"))
                return
            also = f" No vectors of the fallback {self.instead.id}: {other.fallback.reason}"
        if failure.code == "embedding-failed":
            self.fallback = fallback
        self.notes.append(Note(failure.code, f"BM25 only: {fallback.reason}{also}", "warning"))

    def _search_vectors(
        self, embedder: GuardedEmbedder, texts: Sequence[tuple[str, Role]]
    ) -> _Failure | None:
        """Add the lists of all texts, or none and give the reason."""
        space, notes = VectorSpace.of(embedder), list[Note]()
        found: list[_Found] = []
        try:
            searched = bool(texts) and (*space, texts[0][0]) in self.searched
            held = self.store.vector_dims(space)
            if not searched and held is None:
                label = space_of(embedder).label
                if (health := embedder.health).failures:
                    reason = f"{health.reason} The index holds no vectors of {label} yet."
                    times = health.failing_since, health.next_retry
                    return _Failure(Fallback(embedder.id, reason, "bm25", *times))
                reason = f"the index holds no vectors of {label} yet. Run `openclaw-mem qmd embed`."
                return _Failure(Fallback(embedder.id, reason), "other-vectors")
            for text, role in texts:
                start = time.perf_counter()
                if (key := (*space, text)) not in self.searched:
                    self.searched[key] = self._nearest(embedder, held, text)
                if (rows := self.searched[key]) is None:
                    why = f"{embedder.id} has no vector for {text!r} because {embedder.no_vector}."
                    notes.append(Note("no-embedding", why, "warning"))
                    continue
                found.append((text, rows, role, (time.perf_counter() - start) * 1000))
        except Unavailable as error:
            return _Failure(Fallback(embedder.id, str(error), since=error.since, next_retry=error.next_retry))
        except (ProviderError, IndexUnavailable) as error:
            return _Failure(Fallback(embedder.id, str(error)))
        self.answered = embedder
        self.notes += notes
        if self.knobs.expansion == "nearest" and len(found) > 1:
            found = [_nearest(found)]
        for text, rows, role, spent in found:
            for row in rows.rows[:OVERFETCH]:
                self.positions.setdefault(row.document, row.pos)
            self._add("vector", text, rows, role, spent)
        return None

    def _nearest(self, embedder: GuardedEmbedder, held: int | None, text: str) -> Rows | None:
        """None for a text without an embedding; ``held`` is the length of the vectors of the index."""
        sent = query_prompt(embedder.model, text) if embedder.id == "local" else text
        vector = embedder.embed_for(held, sent, self.cancel)
        stop_if_cancelled(self.cancel, SEARCH_STOPPED)
        if vector is None:
            return None
        return self.store.vector(vector, VectorSpace.of(embedder), self.most, self.collections)

    def _add(
        self,
        kind: Kind,
        text: str,
        rows: Rows,
        role: Role,
        spent: float,
        terms: Sequence[Term] = (),
        expression: str = "",
    ) -> None:
        """``expression`` is what was searched of the ``text``, where that is not itself; ``terms`` are its
        parts."""
        wanted, unwanted = (
            tuple(dict.fromkeys(term.text.lower() for term in terms if term.wanted is is_wanted))
            for is_wanted in (True, False)
        )
        step = KINDS[kind].label
        self.timings[step] = self.timings.get(step, 0.0) + spent
        base = _LEXICAL if kind == "lexical" else _VECTOR
        taken = {found.id for found in self.lists}
        number = sum(found.role == role and found.kind == kind for found in self.lists) + 1
        id_ = base if base not in taken and role == "original" else f"{base}:{role}{number}"
        made = CandidateList(
            id_,
            kind,
            expression or text,
            tuple(ListRow(row.document, row.raw) for row in rows.rows[: self.most]),
            matched=rows.matched,
            milliseconds=spent,
            words=wanted,
            every=kind == "lexical",
            excluded=unwanted,
            label="" if role == "original" else f"{step} variant {self.numbers[text]}",
            role=role,
            by_name=frozenset() if kind == "lexical" else None,  # path and title are searched
        )
        if kind == "vector" and self.answered is not None:
            by = self.answered
            made = replace(made, space_number=0, provider=by.id, model=by.model, floor=by.floor)
        self.lists.append(made)


def _nearest(found: Sequence[_Found]) -> _Found:
    """One list of several: each document by the text that it is nearest to, as ``vsearch`` of QMD 2.8.3."""
    best: dict[str, DocumentRow] = {}
    for row in chain.from_iterable(rows.rows for _, rows, _, _ in found):
        if row.document not in best or row.raw > best[row.document].raw:
            best[row.document] = row
    rows = tuple(sorted(best.values(), key=lambda row: -row.raw)[:OVERFETCH])
    texts = " | ".join(text for text, _, _, _ in found)
    return texts, Rows(rows, len(best)), found[0][2], sum(spent for _, _, _, spent in found)


def line_signals(
    texts: Mapping[str, str], positions: Mapping[str, int], query: str, intent: str
) -> dict[str, Signal]:
    """The score of every line of these documents, by document: how many words of the query it contains (those
    of the intent count 0.3), in the passage that has most of them. Without any the passage that its vector
    found is marked by its first line."""
    words, more = query.lower().split(), intent_terms(intent)
    made = {}
    for document, text in texts.items():
        area = best_passage(text, query, intent)
        first = text.count("\n", 0, area.pos)
        last = first + area.text.count("\n")
        scores = [
            sum(word in low for word in words) + 0.3 * sum(word in low for word in more)
            if first <= at <= last
            else 0.0
            for at, low in enumerate(text.lower().split("\n"))
        ]
        if not any(scores):
            at = text.count("\n", 0, _code_points(text, positions.get(document, 0)))
            scores[at] = 1.0
        made[document] = Signal(None, tuple(scores))
    return made


def _code_points(text: str, units: int) -> int:
    """The index of a character by its position in UTF-16 units."""
    if text.isascii():
        return units
    return len(text.encode("utf-16-le", "surrogatepass")[: 2 * units].decode("utf-16-le", "ignore"))
