"""Full-text search over hashed tokens: the server finds an agent's rows that hold a token, BM25 is computed
here, with the formula and the statistics of every other store."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from openclaw_mem_engine.sanitize import CJK
from openclaw_mem_engine.stores.postgres.schema import NAME
from openclaw_mem_engine.stores.query import LexicalQuery, name_of, segment
from openclaw_mem_engine.stores.scoring import Stemmer, bm25, idf, line_bm25, occurrences
from openclaw_mem_engine.stores.tokens import Form, tokens_of

#: Runs a statement in the transaction of a search.
Rows = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]
#: A token of the index, or the beginning of tokens: ``池*``.
_Term = tuple[str, ...]


@lru_cache(50_000)
def hashed(token: str) -> int:
    """64 bits of a token, signed: two of a million words share one with a chance of 3 in 100 million."""
    return int.from_bytes(hashlib.blake2b(token.encode(), digest_size=8).digest(), "big", signed=True)


def term_row(form: Form, path: str, text: str) -> tuple[str, int, int, str, str, str]:
    """A row of ``terms`` after its keys: kind, dl, nl, and t, tf, nf as array literals. Only the stemmed form
    has names, and beginnings of CJK tokens, which count in no length."""
    words, names = _tokens(form, text), _tokens(form, name_of(path)) if form == "stemmed" else []
    tf, nf = Counter(words), Counter(names)
    for counts in (tf, nf) if form == "stemmed" else ():
        for token, number in list(counts.items()):
            if _is_cjk(token[0]):
                counts[f"{token[0]}*"] += number
    tokens = [*(tf | nf)]
    arrays = ([hashed(token) for token in tokens], [tf[token] for token in tokens], [nf[t] for t in tokens])
    literals = [f"{{{','.join(map(str, array))}}}" for array in arrays]
    return form, len(words), len(names), literals[0], literals[1], literals[2]


def _is_cjk(character: str) -> bool:
    import re

    return re.match(f"[{CJK}]", character) is not None


def _tokens(form: Form, text: str) -> list[str]:
    return tokens_of(form, segment(text) if form == "stemmed" else text)


def _index_term(form: Form, term: _Term) -> _Term:
    """The tokens of the index for a term of a query; empty when it holds none."""
    if len(term) == 1 and term[0].endswith("*"):
        return tuple(f"{start[0]}*" for start in tokens_of(form, term[0][:-1]))
    return tuple(tokens_of(form, " ".join(term)))


@dataclass(slots=True)
class _Statistics:
    """What BM25 needs of all rows of one form at one state of the index. ``known``: the number of texts that
    hold a token, of those that were asked for."""

    state: tuple[int, int]
    rows: int = 0
    text_length: int = 0
    name_length: int = 0
    known: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Row:
    """A chunk that holds a token: where tokens are in it, how often, and its lengths."""

    seq: int
    chunk_id: str
    source: str
    lengths: tuple[int, int]
    counts: tuple[int, ...]  # of each token in the text, then of each in the name
    phrases: dict[_Term, tuple[int, int]] = field(default_factory=dict)


class Lexical:
    """The full-text searches of one opened store, with a memory of statistics. Thread-safe: a lost memory is
    read again."""

    def __init__(self) -> None:
        self._statistics: dict[Form, _Statistics] = {}
        self._stemmer = Stemmer(lambda text: tokens_of("stemmed", text))

    def scores(
        self, rows: Rows, agent: int, state: tuple[int, int], query: LexicalQuery
    ) -> list[tuple[dict[str, float], dict[str, str]]]:
        """BM25 of every chunk that matches, by id, and its source: one pair, or one a term for ``keywords``.
        ``state`` is the generation that is read, and its counter."""
        form, gen = query.index, state[0]
        terms = [_index_term(form, term) for term in query.terms]
        tokens = list(dict.fromkeys(token for term in terms for token in term))
        if not tokens:
            return []
        known = self._known(rows, agent, state, form)
        hashes = [hashed(token) for token in tokens]
        columns = "".join(
            f", coalesce(t.{array}[array_position(t.t, %s)], 0)" for array in ("tf", "nf") for _ in hashes
        )
        sql = f"""SELECT t.seq, c.id, c.source, t.dl, t.nl{columns} FROM {NAME}.terms t
            JOIN {NAME}.chunks c ON c.agent = %s AND c.gen = %s AND c.seq = t.seq
            WHERE t.agent = %s AND t.gen = %s AND t.kind = %s AND t.t && %s::bigint[]"""
        bound = [*hashes, *hashes, agent, gen, agent, gen, form, hashes]
        found = [_Row(row[0], row[1], row[2], row[3:5], row[5:]) for row in rows(sql, bound)]
        for at, token in enumerate(tokens):
            known.known[token] = sum(row.counts[at] > 0 for row in found)
        at_of = {token: at for at, token in enumerate(tokens)}
        self._count_phrases(rows, agent, gen, form, terms, found, at_of)
        groups = [[term] for term in terms] if query.operator == "keywords" else [terms]
        return [_scored(query, group, found, at_of, known) for group in groups]

    def _known(self, rows: Rows, agent: int, state: tuple[int, int], form: Form) -> _Statistics:
        known = self._statistics.get(form)
        if known is None or known.state != state:
            sql = f"""SELECT count(*), coalesce(sum(dl), 0), coalesce(sum(nl), 0) FROM {NAME}.terms
                WHERE agent = %s AND gen = %s AND kind = %s"""
            total, words, names = map(int, rows(sql, (agent, state[0], form))[0])
            known = _Statistics(state, total, words, names)
            self._statistics[form] = known
        return known

    @staticmethod
    def _count_phrases(
        rows: Rows,
        agent: int,
        gen: int,
        form: Form,
        terms: Iterable[_Term],
        found: Sequence[_Row],
        at_of: Mapping[str, int],
    ) -> None:
        """Read the texts that hold all tokens of a phrase, and count it there."""
        wanted: dict[int, list[_Term]] = {}
        for term in {term for term in terms if len(term) > 1}:
            places = [at_of[token] for token in term]
            for row in found:
                if all(row.counts[at] or row.counts[at + len(at_of)] for at in places):
                    wanted.setdefault(row.seq, []).append(term)
        if not wanted:
            return
        by_seq = {row.seq: row for row in found}
        sql = f"SELECT seq, path, text FROM {NAME}.chunks WHERE agent = %s AND gen = %s AND seq = ANY(%s)"
        for seq, path, text in rows(sql, (agent, gen, list(wanted))):
            words, names = _tokens(form, text), _tokens(form, name_of(path)) if form == "stemmed" else []
            for term in wanted[seq]:
                by_seq[seq].phrases[term] = occurrences(term, words), occurrences(term, names)

    def line_scores(
        self,
        rows: Rows,
        agent: int,
        state: tuple[int, int],
        query: LexicalQuery,
        texts: Mapping[str, str],
        basis: Iterable[str],
    ) -> dict[str, tuple[float, ...]]:
        """See ``SearchStore``."""
        terms = self._stemmer.terms(query)
        known = self._known(rows, agent, state, "stemmed")
        missing = [t for t in dict.fromkeys(t for term in terms for t in term) if t not in known.known]
        if missing:
            hashes = [hashed(token) for token in missing]
            columns = ", ".join("count(*) FILTER (WHERE tf[array_position(t, %s)] > 0)" for _ in hashes)
            sql = f"""SELECT {columns} FROM {NAME}.terms
                WHERE agent = %s AND gen = %s AND kind = 'stemmed' AND t && %s::bigint[]"""
            counts = rows(sql, (*hashes, agent, state[0], hashes))[0]
            known.known.update(zip(missing, counts, strict=True))
        held = {term: min(known.known[token] for token in term) for term in terms}
        return line_bm25(terms, self._stemmer.where(terms, texts), basis, held, known.rows)


def _scored(
    query: LexicalQuery,
    terms: Sequence[_Term],
    found: Iterable[_Row],
    at_of: Mapping[str, int],
    known: _Statistics,
) -> tuple[dict[str, float], dict[str, str]]:
    """BM25 of the chunks that hold all terms of ``and``, any of the others."""
    weight, width = query.name_weight, len(at_of)

    def counts_of(row: _Row) -> list[float]:
        counts = []
        for term in terms:
            if len(term) == 1:
                at = at_of[term[0]]
                in_text, in_name = row.counts[at], row.counts[at + width]
            else:
                in_text, in_name = row.phrases.get(term, (0, 0))
            counts.append(in_text + weight * in_name)
        return counts

    counted = [(row, counts_of(row)) for row in found]
    weights = [idf(known.rows, sum(1 for _, c in counted if c[at])) for at in range(len(terms))]
    mean = (known.text_length + (known.name_length if weight else 0)) / max(1, known.rows)
    needed = all if query.operator == "and" else any
    scores, sources = {}, {}
    for row, counts in counted:
        if needed(counts):
            length = row.lengths[0] + (row.lengths[1] if weight else 0)
            scores[row.chunk_id] = bm25(weights, counts, length, mean)
            sources[row.chunk_id] = row.source
    return scores, sources
