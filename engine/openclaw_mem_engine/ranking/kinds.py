"""The kinds of candidate lists: what each one's raw scores mean, and how they become values for fusion.

A retriever of a new kind (grep, say) is one more entry of :data:`KINDS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.pool import OVERFETCH, Candidate, CandidateList, Kind, Pool, Signal

_NO_SIGNAL = Signal()


class Values(NamedTuple):
    """What a list says of the candidates that it knows, by chunk id: ``by_id`` enters the fusion, ``inputs``
    gives what a value was made of, ``formula`` how."""

    by_id: dict[str, float]
    inputs: Callable[[str], Mapping[str, float]]
    formula: str = ""


#: Chunk id, raw score, and the score of the best line.
TrueScores = Sequence[tuple[str, float, float | None]]


class RankedList(NamedTuple):
    """A list as ranking uses it and a trace shows it. ``key`` names it in the scores and ranks of rows,
    ``term`` in the sum of the fusion. ``ranks`` (from 1) and ``raw`` scores are by chunk id; ``cut`` is how
    many rows may enter the pool. ``owner`` is whose vectors were compared."""

    source: CandidateList
    key: str
    term: str
    ranks: Mapping[str, int]
    raw: Mapping[str, float]
    cut: int
    owner: str

    @property
    def kind(self) -> ListKind:
        return KINDS[self.source.kind]

    @property
    def label(self) -> str:
        return self.source.label or self.kind.label

    @property
    def name(self) -> str:
        """What texts call it."""
        return self.source.label or self.kind.name

    @property
    def heading(self) -> str:
        """What its values are."""
        if self.source.role == "original":
            return self.kind.heading
        return f"as {self.kind.label}, for a variant of the query"


@dataclass(frozen=True, slots=True)
class ListKind:
    """What ranking and the screens need to know of one kind.

    ``name`` is what texts call it, ``label`` the short form for columns, ``term`` that of its values in the
    fusion, ``heading`` what the values are, ``ordered_by`` the raw score that ranks a list. ``by_words``: its
    rows hold words of the query, so keyword rescue may keep them, and its ranks are not on the scale of the
    score cut. ``weight`` is its share in weighted fusion, ``line_share`` that of its line scores in the
    choice of lines, ``ceiling`` its largest possible value (None: not known). ``reads`` are the knobs that
    ``values`` depend on beside the candidates.
    ``title`` begins a sentence on this kind; ``matches`` is what matched ("vectors"), ``unmatched`` says
    why a candidate did not, ``nothing`` why a list is empty.
    """

    name: str
    label: str
    term: str
    heading: str
    ordered_by: str
    by_words: bool
    title: str
    matches: str
    unmatched: Callable[[CandidateList, Candidate], str]
    nothing: Callable[[CandidateList], str]
    line_share: float
    weight: Callable[[Knobs], float]
    ceiling: Callable[[Knobs], float | None]
    values: Callable[[RankedList, Callable[[], TrueScores], Knobs], Values]
    reads: tuple[str, ...] = ()


def kinds_of(lists: Iterable[RankedList]) -> str:
    """``vector and BM25``: what these lists are."""
    return " and ".join(dict.fromkeys(lst.kind.title for lst in lists))


def ranked_list(pool: Pool, source: CandidateList, cut: int, *, fused: bool) -> RankedList:
    """The key of a fused list does not name its vector space, so that it is the same whichever is chosen."""
    memo = pool.memo.setdefault("lists", {})
    known, ranks, raw = memo.get(source.id, (None, {}, {}))
    if known is not source:
        ranks, raw = {row.chunk_id: n for n, row in enumerate(source.rows, 1)}, dict(source.rows)
        memo[source.id] = source, ranks, raw
    key = source.id.removesuffix(f":{source.space}")
    _, colon, name = key.partition(":")
    term = f"{KINDS[source.kind].term}{colon}{name}"
    return RankedList(
        source, key if fused else f"{key}:{source.space}", term, ranks, raw, cut, pool.owner_of(source)
    )


def true_scores(
    lst: RankedList, signals: Mapping[str, Signal], fill_missing: bool, members: Sequence[str]
) -> TrueScores:
    """(chunk id, raw score, best line) of the members with a row inside the cut, or (``fill_missing``) a true
    score."""
    ids = members if fill_missing else [row.chunk_id for row in lst.source.rows[: lst.cut]]
    found = ((i, signals.get(i, _NO_SIGNAL)) for i in ids)
    raws = ((i, lst.raw.get(i, signal.raw), signal.line) for i, signal in found)
    return [(i, raw, line) for i, raw, line in raws if raw is not None]


def entrance(ranks: Iterable[tuple[int, str]], knobs: Knobs) -> str:
    """Where lists rank a chunk, and how many rows of each enter the pool: ``vector ranks it 30;
    only the first 24 of each list enter the pool``. ``ranks`` are from 1, with the names of the lists."""
    found = list(ranks)
    only = "" if any(rank <= knobs.candidates for rank, _ in found) else "only "
    most = f"{knobs.candidates} (the maximum)" if knobs.candidates == OVERFETCH else f"{knobs.candidates}"
    named = ", ".join(f"{name} ranks it {rank:,}" for rank, name in found)
    return f"{named}; {only}the first {most} of each list enter the pool"


def why_absent(lst: RankedList, candidate: Candidate) -> str:
    """Why a list gives a candidate no value: cut, beyond what was fetched, or no match."""
    chunk_id = candidate.chunk_id
    source, rank = lst.source, lst.ranks.get(chunk_id)
    of_all = f"of {source.found:,} {lst.kind.matches}"
    if rank is not None:
        return f"rank {rank:,} {of_all}, past the first {lst.cut}"
    if source.matched is None:
        return "not in this list"
    if may_match(lst, chunk_id):
        ranks = source.ranks_beyond()
        if isinstance(ranks, str):
            return f"not among the first {len(source.rows):,} {of_all}{ranks}"
        if chunk_id in ranks:
            return f"rank {ranks[chunk_id]:,} {of_all}"
    return lst.kind.unmatched(source, candidate)


def may_match(lst: RankedList, chunk_id: str) -> bool:
    """Whether a list matches a chunk, or may do so beyond the rows that were fetched."""
    source = lst.source
    beyond = source.matches_beyond
    fetched = source.matched is not None and source.found == len(source.rows)
    return chunk_id in lst.ranks or (not fetched and (beyond is None or chunk_id in beyond))


def evidence(
    lists: Iterable[CandidateList], pool: Pool, chunk_ids: Sequence[str]
) -> dict[str, tuple[bool, float | None]]:
    """Whether any of these lists says that a candidate has to do with the query, by chunk id: words of it
    match, or a score reaches the floor of its list (or that was never measured). And its best score where
    there is a floor."""
    found: dict[str, tuple[bool, float | None]] = dict.fromkeys(chunk_ids, (False, None))
    for source in lists:
        rows, signals = ranked_list(pool, source, 0, fused=False).raw, pool.signals.get(source.id, {})
        complete = source.matched is not None and source.found == len(rows)
        unknown = not complete and source.matches_beyond is None
        for chunk_id, (relevant, best) in found.items():
            signal = signals.get(chunk_id, _NO_SIGNAL)
            raw = rows.get(chunk_id, signal.raw)
            if KINDS[source.kind].by_words or source.floor is None:
                matches = raw is not None or unknown or chunk_id in (source.matches_beyond or ())
                found[chunk_id] = relevant or matches, best
            else:
                best = max((score for score in (raw, signal.line, best) if score is not None), default=None)
                found[chunk_id] = relevant or (best is not None and best >= source.floor), best
    return found


# -- lexical ------------------------------------------------------------------------------------------------


def _words_missing(source: CandidateList, candidate: Candidate) -> str:
    words = [word for word in source.words if any(c.isalnum() for c in word)]
    if source.every:
        words = [word for word in words if not _surely_held(word.lower(), source, candidate)] or words
    many = len(words) > 1
    what = "lacks" if source.every or not many else "contains none of:"
    excluded = (
        f", or contains what the query excludes: {', '.join(source.excluded)}" if source.excluded else ""
    )
    name = candidate.path.rpartition("/")[2].lower() if source.by_name is None else ""
    held = set(re.findall(r"[^\W_]+", name))
    named = ", ".join(word for word in words if word.lower() in held)
    tail = f"; the file name, which this profile does not search, contains: {named}" if named else ""
    return f"no match: the text {what} {', '.join(words)}{excluded}{tail}"


def _surely_held(word: str, source: CandidateList, candidate: Candidate) -> bool:
    """Whether a text has a word as it is written; the index may also match other forms of it."""
    if not word.isascii():
        return False
    end = "" if f'"{word}"*' in source.query.lower() else r"(?![^\W_])"
    return re.search(rf"(?<![^\W_]){re.escape(word)}{end}", candidate.text.lower()) is not None


def _text_values(lst: RankedList, scored: Callable[[], TrueScores], knobs: Knobs) -> Values:
    """With ``max`` every member with a bm25 counts, else only rows inside the cut."""
    inside = lst.source.rows[: lst.cut]
    if knobs.bm25_score == "ratio":
        ratios = {row.chunk_id: row.raw / (1.0 + row.raw) for row in inside}
        return Values(ratios, lambda i: {"bm25": lst.raw[i]}, "BM25 / (1 + BM25)")
    if knobs.bm25_score != "max":
        one = knobs.bm25_score == "one"
        values = {row.chunk_id: 1.0 if one else 1.0 / (1.0 + rank) for rank, row in enumerate(inside, 1)}
        formula = "1 for every keyword match" if one else "1 / (1 + rank)"
        return Values(values, lambda i: {"rank": lst.ranks[i], "bm25": lst.raw[i]}, formula)
    true = scored()
    share = _share_used(knobs.line_bm25, true)
    mixed = {chunk_id: (bm25 + share * (line or 0.0), bm25, line or 0.0) for chunk_id, bm25, line in true}
    top = max([total for total, *_ in mixed.values()], default=0.0)

    def inputs(chunk_id: str) -> dict[str, float]:
        _, bm25, line = mixed[chunk_id]
        return {"bm25": bm25, "line": line, "line_share": share, "max": top}

    formula = f"{f'(BM25 + {share:g} × best line)' if share else 'BM25'} / largest in the pool"
    return Values({i: total / top if top > 0 else 0.0 for i, (total, *_) in mixed.items()}, inputs, formula)


def _share_used(share: float, scored: TrueScores) -> float:
    """The share of best lines: none where the list scores no line."""
    return share if any(line is not None for *_, line in scored) else 0.0


# -- vector -------------------------------------------------------------------------------------------------


def _vector_values(_: RankedList, scored: Callable[[], TrueScores], knobs: Knobs) -> Values:
    """Cosine with the best line's share, as it is or spread from 0 to 1."""
    true = scored()
    share = _share_used(knobs.line_vector, true)
    mixed = {}
    for chunk_id, cosine, line in true:
        # Without a line vector the chunk's own cosine is used, so that the share changes nothing.
        best = cosine if line is None else line
        mixed[chunk_id] = ((1 - share) * cosine + share * best, cosine, best)
    low, spread, limits = 0.0, 1.0, dict[str, float]()
    formula = f"{1 - share:g} × cosine + {share:g} × best line" if share else "cosine"
    if knobs.vector_score == "minmax":
        formula = f"({formula} − min) / (max − min) in the pool"
    if mixed and knobs.vector_score == "minmax":
        totals = [total for total, *_ in mixed.values()]
        low, high = min(totals), max(totals)
        spread, limits = high - low, {"min": low, "max": high}

    def inputs(chunk_id: str) -> dict[str, float]:
        _, cosine, line = mixed[chunk_id]
        return {"cosine": cosine, "line": line, "line_share": share, **limits}

    values = {i: (total - low) / spread if spread > 0 else 0.0 for i, (total, *_) in mixed.items()}
    return Values(values, inputs, formula)


KINDS: Mapping[Kind, ListKind] = {
    "vector": ListKind(
        name="vector",
        label="vector",
        term="vector",
        heading="score by vectors, by default the cosine",
        ordered_by="cosine similarity, best first",
        by_words=False,
        title="Vectors",
        matches="vectors",
        unmatched=lambda source, _: f"has no vector{f' of {source.space}' if source.space else ''}",
        nothing=lambda _: "no chunk has a vector",
        line_share=0.4,
        weight=lambda knobs: knobs.weights[0],
        ceiling=lambda _: None,
        values=_vector_values,
        reads=("vector_score", "line_vector", "fill_missing"),
    ),
    "lexical": ListKind(
        name="BM25",
        label="BM25",
        term="text",
        heading="score by words, by default 1 / (1 + BM25 rank)",
        ordered_by="BM25, best first",
        by_words=True,
        title="BM25",
        matches="keyword matches",
        unmatched=_words_missing,
        nothing=lambda source: (
            f"no chunk contains {'all' if source.every and source.words[1:] else 'any'} of the words"
        ),
        line_share=0.6,
        weight=lambda knobs: knobs.weights[1],
        ceiling=lambda knobs: 0.5 if knobs.bm25_score == "rank" else 1.0,  # 1 / (1 + rank) begins at 0.5
        values=_text_values,
        reads=("bm25_score", "line_bm25", "fill_missing"),
    ),
    "external": ListKind(
        name="qmd",
        label="qmd",
        term="qmd",
        heading="score that the external program gave",
        ordered_by="score of the external program, best first",
        by_words=False,
        title="QMD",
        matches="results of the program",
        unmatched=lambda *_: "not in the program's answer",
        nothing=lambda _: "the external program has no result",
        line_share=0.0,
        weight=lambda _: 1.0,
        ceiling=lambda _: None,
        values=lambda lst, _scored, _knobs: Values(
            dict(lst.source.rows[: lst.cut]), lambda i: {"score": lst.raw[i]}, "score of the program"
        ),
    ),
}
