"""Full-text search over hashed tokens: the server finds an agent's rows that hold a token, BM25 is computed
here, with the formula and the statistics of every other store."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.sanitize import CJK
from openclaw_mem_engine.stores.postgres.schema import NAME
from openclaw_mem_engine.stores.postgres.session import OWN, Transaction
from openclaw_mem_engine.stores.query import LexicalQuery, name_of, segment
from openclaw_mem_engine.stores.scoring import Stemmer, bm25, idf, line_bm25, occurrences
from openclaw_mem_engine.stores.tokens import Form, tokens_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Column = NDArray[np.int64] | NDArray[np.float64]

#: How often a token is in a text, in the numbers of ``terms.n``; below it: in the name.
_IN_TEXT = 4096
#: A token of the index, or the beginning of tokens: ``池*``.
_Term = tuple[str, ...]


@lru_cache(50_000)
def hashed(token: str) -> int:
    """64 bits of a token, signed: two of a million words share one with a chance of 3 in 100 million."""
    return int.from_bytes(hashlib.blake2b(token.encode(), digest_size=8).digest(), "big", signed=True)


def term_row(form: Form, path: str, text: str) -> tuple[str, int, int, str, str]:
    """A row of ``terms`` after its keys: kind, dl, nl, and t, n as array literals. Only the stemmed form has
    names, and beginnings of CJK tokens, which count in no length."""
    words, names = _tokens(form, text), _tokens(form, name_of(path)) if form == "stemmed" else []
    counts: Counter[int] = Counter()
    for tokens, unit in ((words, _IN_TEXT), (names, 1)):
        for token, number in Counter(tokens).items():
            counts[hashed(token)] += unit * number
            if form == "stemmed" and _is_cjk(token[0]):
                counts[hashed(f"{token[0]}*")] += unit * number
    pairs = sorted(counts.items())
    t, n = (f"{{{','.join(str(pair[at]) for pair in pairs)}}}" for at in (0, 1))
    return form, len(words), len(names), t, n


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


class _Counts(NamedTuple):
    """How often each term is in the text and in the name of each row."""

    in_text: Column
    in_name: Column


class Lexical:
    """The full-text searches of one opened store, with a memory of statistics. Thread-safe: a lost memory is
    read again."""

    def __init__(self) -> None:
        self._statistics: dict[Form, _Statistics] = {}
        self._stemmer = Stemmer(lambda text: tokens_of("stemmed", text))

    def scores(self, read: Transaction, query: LexicalQuery) -> list[dict[str, float]]:
        """BM25 of every chunk that matches, by id; for ``keywords`` those of one term after the other."""
        form = query.index
        terms = [_index_term(form, term) for term in query.terms]
        tokens = list(dict.fromkeys(token for term in terms for token in term))
        if not tokens:
            return []
        import numpy as np

        known = self._known(read, form)
        counts = "".join(
            f", CASE WHEN {_holds(at)} THEN {_count(at)} ELSE 0 END" for at in range(len(tokens))
        )
        sql = f"""SELECT t.seq, c.id, t.dl, t.nl{counts} FROM {NAME}.terms t
            JOIN {NAME}.chunks c ON c.agent = %(agent)s AND c.gen = %(gen)s AND c.seq = t.seq
            WHERE t.agent = %(agent)s AND t.gen = %(gen)s AND t.kind = %(form)s
                AND ({" OR ".join(map(_holds, range(len(tokens))))})"""
        found = read.rows(sql, form=form, **_bound(tokens))
        held = np.array([row[4:] for row in found], dtype=np.int64).reshape(len(found), len(tokens))
        columns = {
            token: _Counts(held[:, at] // _IN_TEXT, held[:, at] % _IN_TEXT) for at, token in enumerate(tokens)
        }
        known.known.update({token: int(np.count_nonzero(c.in_text)) for token, c in columns.items()})
        of_terms: dict[_Term, _Counts] = {term: columns[term[0]] for term in terms if len(term) == 1}
        seqs = [row[0] for row in found]
        for term in {term for term in terms if len(term) > 1}:
            holding = np.all([columns[token].in_text + columns[token].in_name > 0 for token in term], axis=0)
            of_terms[term] = self._phrase(read, form, term, seqs, np.flatnonzero(holding).tolist())
        zeros = np.zeros(len(found))
        of_terms[()] = _Counts(zeros, zeros)  # a term without a token: in no text
        groups = [[term] for term in terms] if query.operator == "keywords" else [terms]
        return [_scored(query, [of_terms[term] for term in group], found, known) for group in groups]

    def _known(self, read: Transaction, form: Form) -> _Statistics:
        state = read.facts.gen, read.facts.generation
        known = self._statistics.get(form)
        if known is None or known.state != state:
            sql = f"""SELECT count(*), coalesce(sum(dl), 0), coalesce(sum(nl), 0) FROM {NAME}.terms
                WHERE {OWN} AND kind = %(form)s"""
            total, words, names = map(int, read.rows(sql, form=form)[0])
            known = _Statistics(state, total, words, names)
            self._statistics[form] = known
        return known

    @staticmethod
    def _phrase(
        read: Transaction, form: Form, term: _Term, seqs: Sequence[int], holding: Sequence[int]
    ) -> _Counts:
        """Read the texts of the rows that hold all tokens of a phrase, and count it there."""
        import numpy as np

        counts = _Counts(np.zeros(len(seqs)), np.zeros(len(seqs)))
        at_of = {seqs[at]: at for at in holding}
        sql = f"SELECT seq, path, text FROM {NAME}.chunks WHERE {OWN} AND seq = ANY(%(seqs)s)"
        for seq, path, text in read.rows(sql, seqs=list(at_of)) if at_of else ():
            counts.in_text[at_of[seq]] = occurrences(term, _tokens(form, text))
            if form == "stemmed":
                counts.in_name[at_of[seq]] = occurrences(term, _tokens(form, name_of(path)))
        return counts

    def line_scores(
        self, read: Transaction, query: LexicalQuery, texts: Mapping[str, str], basis: Iterable[str]
    ) -> Mapping[str, tuple[float, ...]]:
        """See ``SearchStore``."""
        terms = self._stemmer.terms(query)
        known = self._known(read, "stemmed")
        missing = [t for t in dict.fromkeys(t for term in terms for t in term) if t not in known.known]
        if missing:
            columns = ", ".join(
                f"count(*) FILTER (WHERE {_holds(at)} AND {_count(at)} >= {_IN_TEXT})"
                for at in range(len(missing))
            )
            sql = f"SELECT {columns} FROM {NAME}.terms t WHERE {OWN} AND kind = 'stemmed'"
            known.known.update(zip(missing, read.rows(sql, **_bound(missing))[0], strict=True))
        held = {term: min(known.known[token] for token in term) for term in terms}
        return line_bm25(terms, self._stemmer.where(terms, texts), basis, held, known.rows)


def _bound(tokens: Sequence[str]) -> dict[str, int]:
    """What ``_holds`` and ``_count`` name by the position of a token."""
    return {f"h{at}": hashed(token) for at, token in enumerate(tokens)}


def _holds(at: int) -> str:
    """Whether a row holds a token: a binary search, where array_position compares every one."""
    return f"t.t[width_bucket(%(h{at})s, t.t)] = %(h{at})s"


def _count(at: int) -> str:
    """The number of a token in a row that holds it."""
    return f"t.n[width_bucket(%(h{at})s, t.t)]"


def _scored(
    query: LexicalQuery, terms: Sequence[_Counts], found: Sequence[tuple[Any, ...]], known: _Statistics
) -> dict[str, float]:
    """BM25 of the chunks that hold all terms of ``and``, any of the others."""
    import numpy as np

    weight = query.name_weight
    counts: list[Any] = [term.in_text + weight * term.in_name for term in terms]
    weights = [idf(known.rows, int(np.count_nonzero(column))) for column in counts]
    lengths: Any = np.array([row[2] + (row[3] if weight else 0) for row in found], dtype=np.float64)
    mean = (known.text_length + (known.name_length if weight else 0)) / max(1, known.rows)
    values: Any = bm25(weights, counts, lengths, mean)  # of all rows at once
    needed = (np.all if query.operator == "and" else np.any)(np.array(counts) > 0, axis=0)
    kept, scores = np.flatnonzero(needed).tolist(), values.tolist()
    return {found[at][1]: scores[at] for at in kept}
