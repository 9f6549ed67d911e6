"""Every parameter of the ranking in one frozen value, with range and meaning; known profiles."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, replace
from operator import attrgetter
from typing import Any, Literal, get_args, get_type_hints

from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_engine.errors import UsageError, did_you_mean
from openclaw_mem_engine.ranking.knob_spec import SPEC, knob, knob_words, value_text
from openclaw_mem_engine.ranking.knob_spec import KnobSpec as KnobSpec
from openclaw_mem_engine.ranking.knob_spec import KnobValue as KnobValue
from openclaw_mem_engine.ranking.knob_spec import parse_settings as parse_settings
from openclaw_mem_engine.ranking.pool import OVERFETCH, CandidateList, Kind

Mode = Literal["hybrid", "bm25", "vector"]
Fusion = Literal["weighted", "rrf", "position"]
Expansion = Literal["off", "both", "typed", "nearest"]
Blend = Literal["bands", "rerank"]
Rescue = Literal["off", "when-empty", "fill"]
Snippet = Literal["head", "best-line", "packed", "window"]

#: Chunks that lines are packed from, best first (``snippet=packed``).
PACKED_CHUNKS = 40

#: The kind of list that a mode leaves; a mode that is not here takes all of them.
_ONLY: Mapping[Mode, Kind] = {"bm25": "lexical", "vector": "vector"}
_FOUND_BY: Mapping[Kind, str] = {"lexical": "BM25", "vector": "vectors", "external": "the results of qmd"}

#: The vector spaces of an index in the order of their numbers: it can hold vectors of several embedders.
Space = Literal["primary", "second", "third"]

_SHARES = ("fusion=weighted", "mode=hybrid")
_BY_RANK = ("fusion=rrf|position",)
#: Fusions whose scores a minimum can be compared with.
_SCALED = ("fusion=weighted|position",)
_SIZED, _RERANK = ("list_rows=0",), ("rerank=on",)
#: Knobs of later stages: they do not decide what is reranked.
_AFTER_RERANK = frozenset(
    "blend decay half_life_days mmr mmr_lambda mmr_tokens min_score keyword_rescue snippet_budget".split()
)


@dataclass(frozen=True, slots=True)
class Knobs:
    """One complete ranking configuration. Build it with :func:`profile` and :meth:`set`. The order of the
    fields is that of the knob panel."""

    profile: str = "documented"
    mode: Mode = knob("hybrid", "which candidate lists are used", means=("both", "BM25 only", "vectors only"))
    vector_space: Space = knob(
        "primary",
        "which vectors count, when the index has several",
        needs=("mode=hybrid|vector",),
        free=False,
    )
    fusion: Fusion = knob(
        "weighted",
        "how lists make one score",
        means=("weighted sum", "reciprocal rank fusion, RRF", "1 / rank after RRF"),
    )
    vector_weight: float = knob(0.7, "share of the vector score in weighted fusion", needs=_SHARES)
    bm25_weight: float = knob(0.3, "share of the BM25 score in weighted fusion", needs=_SHARES)
    rrf_k: int = knob(
        60, "rank constant of RRF: 1 / (k + rank)", low=1, high=1000, step=5, leap=20, needs=_BY_RANK
    )
    decay: bool = knob(False, "older dated notes count less")
    half_life_days: float = knob(
        30.0, "age at which a score is halved", low=1, high=3650, step=5, leap=30, needs=("decay=on",)
    )
    mmr: bool = knob(False, "prefer results that differ from those already chosen")
    mmr_lambda: float = knob(0.7, "1 is pure relevance, 0 pure diversity", needs=("mmr=on",))
    min_score: float = knob(0.35, "chunks below it are dropped; keyword rescue may keep some", needs=_SCALED)
    keyword_rescue: Rescue = knob(
        "when-empty",
        "keep keyword matches below min score",
        means=("none", "if nothing passes", "in all free results"),
        needs=_SCALED,
    )
    max_results: int = knob(6, "how many results the agent gets", low=1, high=200, step=1, leap=5)
    expansion: Expansion = knob(
        "off",
        "query variants of the qmd backend",
        means=("none", "each to both lists", "each to its list", "the nearest by any"),
        free=False,
    )
    strong_signal: bool = knob(
        False, "a clear first keyword match needs no variants", free=False, needs=("expansion=both|typed",)
    )
    original_weight: float = knob(
        1.0,
        "weight of the lists of the query itself; lists of its variants have 1",
        low=0.5,
        high=10,
        step=0.5,
    )
    bonus_first: float = knob(
        0.0, "added to the RRF score for a first rank in a list", step=0.01, needs=_BY_RANK
    )
    bonus_next: float = knob(0.0, "added for a second or third rank in a list", step=0.01, needs=_BY_RANK)
    candidate_limit: int = knob(
        0, "how many fused candidates continue; none: no limit", high=400, step=5, leap=20, zero="none"
    )
    rerank: bool = knob(False, "a reranker scores the first candidates again", free=False)
    rerank_top: int = knob(
        30, "how many fused candidates it scores", low=1, high=200, step=5, leap=20, free=False, needs=_RERANK
    )
    blend: Blend = knob(
        "bands", "fused and rerank score", means=("mixed by rank", "the rerank score only"), needs=_RERANK
    )
    candidate_multiplier: int = knob(
        4, "candidates of a list = max results × this", low=1, high=20, step=1, leap=4, needs=_SIZED
    )
    pool_results: int = knob(
        6, "make the pool large enough for this many results", low=1, high=200, step=1, leap=5, needs=_SIZED
    )
    list_rows: int = knob(
        0, "candidates of a list; auto: by max results", high=OVERFETCH, step=5, leap=20, zero="auto"
    )
    bm25_score: Literal["rank", "one", "max", "ratio"] = knob(
        "rank",
        "value of a keyword match",
        means=("1 / (1 + rank)", "1", "BM25 / the best BM25", "BM25 / (1 + BM25)"),
        needs=("fusion=weighted",),
    )
    vector_score: Literal["cosine", "minmax"] = knob(
        "cosine", "value of a cosine", means=("as it is", "spread from 0 to 1"), needs=("fusion=weighted",)
    )
    mmr_tokens: Literal["unicode", "ascii"] = knob(
        "unicode", "words that MMR compares", means=("of any script", "of a–z, 0–9 and _"), needs=("mmr=on",)
    )
    lexical_form: Literal["or", "and"] = knob(
        "or", "which searched words must match", means=("any", "every one"), free=False
    )
    lexical_index: Literal["stemmed", "plain"] = knob(
        "stemmed", "words of the index", means=("stemmed, and CJK bigrams", "as they are"), free=False
    )
    common_words: Literal["skip", "all"] = knob(
        "skip",
        "words that over 30% of the chunks hold, from 20,000 chunks on",
        means=("not searched", "searched"),
        needs=("lexical_form=or",),
        free=False,
    )
    name_weight: float = knob(
        0.0, "weight of words in the path", high=10, step=0.5, needs=("lexical_index=stemmed",), free=False
    )
    line_bm25: float = knob(
        0.0, "how much the best line's BM25 adds", needs=("fusion=weighted", "bm25_score=max"), free=False
    )
    line_vector: float = knob(0.0, "share of the best line's cosine", needs=("fusion=weighted",), free=False)
    fill_missing: bool = knob(False, "score the chunks of one list by the other, too", free=False)
    same_script: bool = knob(False, "ignore vectors if the model does not know the script of the query")
    snippet: Snippet = knob(
        "head",
        "the part of a chunk that is sent",
        means=(
            "its start",
            "around the best line",
            "lines of many chunks",
            "4 lines around it",
        ),
        free=False,
    )
    snippet_chars: int = knob(
        700, "characters shown of a result", low=40, high=20_000, step=100, leap=700, free=False
    )
    snippet_budget: int = knob(
        0,
        "characters of a packed answer; auto: max results × snippet chars",
        high=1_000_000,
        step=700,
        leap=4_200,
        needs=("snippet=packed",),
        zero="auto",
    )

    @property
    def depth(self) -> int:
        """How many chunks reach the snippet: ``max_results``, or 40 whose lines are packed."""
        return max(PACKED_CHUNKS, self.max_results) if self.snippet == "packed" else self.max_results

    @property
    def digits(self) -> int:
        """Decimals that tell two scores apart: those of RRF are small."""
        return 3 if self.fusion == "weighted" else 4

    @property
    def budget(self) -> int:
        """Characters (UTF-16 units) of a packed answer."""
        return self.snippet_budget or self.max_results * self.snippet_chars

    @property
    def scores_all_lines(self) -> bool:
        """Whether the lines of every candidate need scores; else only of those that a snippet cuts."""
        return self.line_bm25 > 0 or self.line_vector > 0 or self.snippet == "packed"

    @property
    def signal_depth(self) -> int:
        """Rows of each list for which signals are computed: ``candidates``, in steps of 40, so that a small
        change of the pool needs no new retrieval."""
        return min(OVERFETCH, -(-self.candidates // 40) * 40)

    @property
    def candidates(self) -> int:
        """Rows that each list may send into the pool: ``list_rows``, or ``min(200, multiplier ×
        max(max_results, pool_results))``, so that asking for fewer results does not shrink what they are
        chosen from."""
        if self.list_rows:
            return self.list_rows
        results = max(self.max_results, self.pool_results)
        return min(OVERFETCH, max(1, results * self.candidate_multiplier))

    @property
    def weights(self) -> tuple[float, float]:
        """(vector, text), each divided by their sum; a sum of 0 means the documented 0.7 and 0.3."""
        total = self.vector_weight + self.bm25_weight
        if total <= 0:
            return 0.7, 0.3
        return self.vector_weight / total, self.bm25_weight / total

    @property
    def retrieval_key(self) -> tuple[object, ...]:
        """Two knob settings with the same key can share a pool; anything else needs a new retrieval. With
        ``rerank`` that is also what decides which chunks need a score."""
        lines = 0 if self.scores_all_lines else self.snippet_chars
        lists = (*self.words_key, self.vector_space, self.expansion, self.strong_signal)
        before = self.to_dict().items() if self.rerank else ()
        wanted = tuple(value for name, value in before if name not in _AFTER_RERANK)
        return (*lists, self.fill_missing, lines, self.signal_depth, *wanted)

    @property
    def words_key(self) -> tuple[object, ...]:
        """What the keyword list of a query depends on."""
        return self.lexical_form, self.lexical_index, self.common_words, self.name_weight

    @property
    def space_number(self) -> int:
        """Which vector space of a pool is fused, from 0."""
        return get_args(Space).index(self.vector_space)

    def weight_of(self, found: CandidateList) -> float:
        """The weight of a list beside the others: its own, and that of the query itself over expansion."""
        return found.weight * (self.original_weight if found.role == "original" else 1.0)

    def takes(self, kind: Kind) -> bool:
        """Whether lists of a kind take part in this mode."""
        return _ONLY.get(self.mode, kind) == kind

    @property
    def mode_word(self) -> str:
        """The mode as sentences write it: ``BM25`` of ``bm25``."""
        return knob_words(self.mode)

    def unused(self, kinds: Collection[Kind]) -> str:
        """Why a chunk is no candidate that only lists of these kinds hold, of which the mode takes none."""
        by = " and ".join(_FOUND_BY[kind] for kind in _FOUND_BY if kind in kinds)
        return f"found only by {by}; {self.mode_word} mode does not use {by}"

    def missing_need(self, name: str) -> str:
        """Why a knob has no effect with the others as they are ("needs decay on"), or an empty text."""
        for need in spec(name).needs:
            other, _, values = need.partition("=")
            if value_text(getattr(self, other)) not in values.split("|"):
                return f"needs {knob_words(other)} {values.replace('|', ' or ')}"
        return ""

    def set(self, settings: Mapping[str, Any]) -> Knobs:
        """A copy with these knobs changed. Text values are parsed (``on``/``off`` for switches).

        When only one of the two weights is given, the other becomes its complement. Raises UsageError naming
        knob, value and allowed range."""
        settings = {name.replace("-", "_"): value for name, value in settings.items()}
        changes: dict[str, Any] = {name: spec(name).parse(value) for name, value in settings.items()}
        if "vector_weight" in changes and "bm25_weight" not in changes:
            changes["bm25_weight"] = round(1.0 - float(changes["vector_weight"]), 10)
        elif "bm25_weight" in changes and "vector_weight" not in changes:
            changes["vector_weight"] = round(1.0 - float(changes["bm25_weight"]), 10)
        return Knobs(**{**self.to_dict(), **changes})

    def to_dict(self) -> dict[str, KnobValue]:
        return dict(zip(_NAMES, _values(self), strict=True))

    def changes_from(self, other: Knobs) -> dict[str, KnobValue]:
        """The knobs in which this differs from another setting (profile name aside)."""
        mine, theirs = self.to_dict(), other.to_dict()
        return {name: value for name, value in mine.items() if name != "profile" and value != theirs[name]}

    def changed_names(self, other: Knobs) -> tuple[str, ...]:
        """The names in ``changes_from``, one for each change that a user made: of two weights of which
        ``set`` made one the complement of the other, the vector weight alone."""
        names = self.changes_from(other)
        if {"vector_weight", "bm25_weight"} <= names.keys() and self.set(
            {"vector_weight": self.vector_weight}
        ) == self:
            del names["bm25_weight"]
        return tuple(names)


_NAMES = tuple(f.name for f in fields(Knobs))
_values: Callable[[Knobs], tuple[KnobValue, ...]] = attrgetter(*_NAMES)
_TYPES = get_type_hints(Knobs)

#: The table of all knobs but the profile.
KNOBS: Mapping[str, KnobSpec] = {
    f.name: replace(f.metadata[SPEC], name=f.name, choices=get_args(_TYPES[f.name]))
    for f in fields(Knobs)
    if f.metadata
}


def spec(name: str) -> KnobSpec:
    """The table entry of a knob. Raises UsageError with the nearest known names."""
    try:
        return KNOBS[name]
    except KeyError:
        hint = did_you_mean(name, [*KNOBS, "profile"])
        listed = "`openclaw-mem config show query --verbose` lists all knobs and their values."
        raise UsageError(f"There is no knob {name!r}.{hint} {listed}") from None


def knob_text(name: str, value: KnobValue) -> str:
    """A knob's value as ``--set`` takes it: on and off, numbers without superfluous digits; of a 0 that is no
    number its other name: ``none``."""
    if isinstance(value, bool):
        return "on" if value else "off"
    shown = f"{value:g}" if isinstance(value, float) else str(value)
    return (KNOBS[name].meaning(value) if name in KNOBS else "") or shown
