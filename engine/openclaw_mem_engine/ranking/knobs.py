"""Every parameter of the ranking in one frozen value, with range and meaning; known profiles."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, TypeVar, get_args, get_type_hints

from openclaw_mem_engine.errors import UsageError
from openclaw_mem_engine.ranking.pool import OVERFETCH, Kind

KnobValue = str | int | float | bool
_T = TypeVar("_T", bound=KnobValue)

#: Key of the :class:`KnobSpec` in the metadata of a field of ``Knobs``.
SPEC = "knob"

_SWITCH = dict.fromkeys(("on", "true", "yes", "1"), True) | dict.fromkeys(("off", "false", "no", "0"), False)


@dataclass(frozen=True, slots=True)
class KnobSpec:
    """Range, steps and meaning of one knob. ``low``/``high`` are inclusive; ``step``/``leap`` are the small
    and large change of a key press; ``free`` is True where a change needs no new retrieval. ``needs`` are
    settings of other knobs without which this one has no effect: ``knob=value`` or ``knob=one|other``."""

    name: str
    kind: Literal["choice", "int", "float", "switch"]
    help: str
    choices: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 1.0
    step: float = 0.05
    leap: float = 0.2
    free: bool = True
    needs: tuple[str, ...] = ()

    @property
    def allowed(self) -> str:
        if self.kind == "switch":
            return "on or off"
        if self.kind == "choice":
            return ", ".join(self.choices)
        return f"{self.low:g} to {self.high:g}" + (", a whole number" if self.kind == "int" else "")

    def parse(self, value: object) -> KnobValue:
        """The typed value of a setting. Raises UsageError."""
        word = str(value).strip().lower()
        if self.kind == "switch":
            if word in _SWITCH:
                return _SWITCH[word]
        elif self.kind == "choice":
            if word in self.choices:
                return word
        else:
            with suppress(ValueError):  # also of True, which is no number here
                number = float(word)
                if self.low <= number <= self.high and (self.kind == "float" or number.is_integer()):
                    return number if self.kind == "float" else int(number)
        raise UsageError(f"{self.name} cannot be {value!r}: allowed is {self.allowed}.")

    def nudge(self, value: KnobValue, direction: int, large: bool = False) -> KnobValue:
        """The next value in a direction (+1, -1): the other switch position, the next choice, a step up."""
        if self.kind == "switch":
            return not value
        if self.kind == "choice":
            return self.choices[(self.choices.index(str(value)) + direction) % len(self.choices)]
        step = self.leap if large else self.step
        moved = min(self.high, max(self.low, float(value) + direction * step))
        return int(moved) if self.kind == "int" else round(float(moved), 6)


def value_text(value: KnobValue) -> str:
    """A value as it is written in a setting; switches are on or off."""
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def knob(default: _T, help: str, **details: Any) -> _T:
    """A field of ``Knobs``: its default, meaning, and those details of :class:`KnobSpec` that differ from
    the usual. The kind follows from the default, the choices from the annotation."""
    kinds: dict[type, Literal["choice", "int", "float", "switch"]]
    kinds = {bool: "switch", int: "int", float: "float", str: "choice"}
    details = {"kind": kinds[type(default)], **details}
    return field(default=default, metadata={SPEC: KnobSpec("", help=help, **details)})


Mode = Literal["hybrid", "bm25", "vector"]
Fusion = Literal["weighted", "rrf"]
Rescue = Literal["off", "when-empty", "fill"]
Snippet = Literal["head", "best-line", "packed"]

#: Chunks that lines are packed from, best first (``snippet=packed``).
PACKED_CHUNKS = 40

#: The kind of list that a mode leaves; a mode that is not here takes all of them.
_ONLY: Mapping[Mode, Kind] = {"bm25": "lexical", "vector": "vector"}

#: The vector spaces of an index in the order of their numbers: it can hold vectors of several embedders.
Space = Literal["primary", "second", "third"]

_SHARES = ("fusion=weighted", "mode=hybrid")


@dataclass(frozen=True, slots=True)
class Knobs:
    """One complete ranking configuration. Build it with :func:`profile` and :meth:`set`. The order of the
    fields is that of the knob panel."""

    profile: str = "documented"
    mode: Mode = knob("hybrid", "which lists take part")
    vector_space: Space = knob(
        "primary",
        "whose vectors count, when the index holds several",
        needs=("mode=hybrid|vector",),
        free=False,
    )
    fusion: Fusion = knob("weighted", "how the lists become one score")
    vector_weight: float = knob(0.7, "share of the vector score in weighted fusion", needs=_SHARES)
    text_weight: float = knob(0.3, "share of the text score in weighted fusion", needs=_SHARES)
    rrf_k: int = knob(
        60, "rank constant of RRF: 1 / (k + rank)", low=1, high=1000, step=5, leap=20, needs=("fusion=rrf",)
    )
    decay: bool = knob(False, "older dated notes count less")
    half_life_days: float = knob(
        30.0, "age at which a score is halved", low=1, high=3650, step=5, leap=30, needs=("decay=on",)
    )
    mmr: bool = knob(False, "prefer hits that differ from those already chosen")
    mmr_lambda: float = knob(0.7, "1 is pure relevance, 0 pure diversity", needs=("mmr=on",))
    min_score: float = knob(0.35, "hits below this are cut", needs=("fusion=weighted",))
    keyword_rescue: Rescue = knob(
        "when-empty", "keep keyword hits that the cut would lose", needs=("fusion=weighted",)
    )
    max_results: int = knob(6, "how many hits the agent gets", low=1, high=200, step=1, leap=5)
    candidate_multiplier: int = knob(
        4, "candidates of a list = max results × this", low=1, high=20, step=1, leap=4
    )
    pool_results: int = knob(6, "size the pool for at least so many results", low=1, high=200, step=1, leap=5)
    text_score: Literal["rank", "one", "max"] = knob(
        "rank", "bm25 as 1/(1+rank), 1 for all, or share of the best", needs=("fusion=weighted",)
    )
    vector_score: Literal["cosine", "minmax"] = knob(
        "cosine", "cosine as it is, or spread from 0 to 1", needs=("fusion=weighted",)
    )
    mmr_tokens: Literal["unicode", "ascii"] = knob("unicode", "words that MMR compares", needs=("mmr=on",))
    lexical_form: Literal["or", "and"] = knob(
        "or", "any word (or) or every word (and) must match", free=False
    )
    lexical_index: Literal["stemmed", "plain"] = knob(
        "stemmed", "stemmed words and CJK bigrams, or plain words", free=False
    )
    name_weight: float = knob(
        0.0, "weight of words in the path", high=10, step=0.5, needs=("lexical_index=stemmed",), free=False
    )
    line_text: float = knob(
        0.0, "how much the best line's bm25 adds", needs=("fusion=weighted", "text_score=max"), free=False
    )
    line_vector: float = knob(0.0, "share of the best line's cosine", needs=("fusion=weighted",), free=False)
    fill_missing: bool = knob(False, "score a hit of one list on the other too", free=False)
    same_script: bool = knob(False, "vectors of a model for another script than the query's do not count")
    snippet: Snippet = knob("head", "what is shown of a hit, or the best lines of many", free=False)
    snippet_chars: int = knob(
        700, "characters shown of a hit", low=40, high=20_000, step=100, leap=700, free=False
    )
    snippet_budget: int = knob(
        0,
        "characters of a packed answer; 0 is max results × snippet chars",
        low=0,
        high=1_000_000,
        step=700,
        leap=4_200,
        needs=("snippet=packed",),
    )

    @property
    def depth(self) -> int:
        """How many chunks reach the snippet: ``max_results``, or 40 whose lines are packed."""
        return max(PACKED_CHUNKS, self.max_results) if self.snippet == "packed" else self.max_results

    @property
    def budget(self) -> int:
        """Characters (UTF-16 units) of a packed answer."""
        return self.snippet_budget or self.max_results * self.snippet_chars

    @property
    def scores_all_lines(self) -> bool:
        """Whether the lines of every candidate need scores; else only of those that a snippet cuts."""
        return self.line_text > 0 or self.line_vector > 0 or self.snippet == "packed"

    @property
    def signal_depth(self) -> int:
        """Rows of each list for which signals are computed: ``candidates``, in steps of 40, so that a small
        change of the pool needs no new retrieval."""
        return min(OVERFETCH, -(-self.candidates // 40) * 40)

    @property
    def candidates(self) -> int:
        """Rows that each list may send into the pool: ``min(200, multiplier × max(max_results,
        pool_results))``, so that asking for fewer results does not shrink what they are chosen from."""
        results = max(self.max_results, self.pool_results)
        return min(OVERFETCH, max(1, results * self.candidate_multiplier))

    @property
    def weights(self) -> tuple[float, float]:
        """(vector, text), each divided by their sum; a sum of 0 means the documented 0.7 and 0.3."""
        total = self.vector_weight + self.text_weight
        if total <= 0:
            return 0.7, 0.3
        return self.vector_weight / total, self.text_weight / total

    @property
    def retrieval_key(self) -> tuple[object, ...]:
        """Two knob settings with the same key can share a pool; anything else needs a new retrieval."""
        lines = 0 if self.scores_all_lines else self.snippet_chars
        words = (self.lexical_form, self.lexical_index, self.name_weight, self.vector_space)
        return (*words, self.fill_missing, lines, self.signal_depth)

    @property
    def space_number(self) -> int:
        """Which vector space of a pool is fused, from 0."""
        return get_args(Space).index(self.vector_space)

    def takes(self, kind: Kind) -> bool:
        """Whether lists of a kind take part in this mode."""
        return _ONLY.get(self.mode, kind) == kind

    def missing_need(self, name: str) -> str:
        """Why a knob has no effect with the others as they are ("needs decay on"), or an empty text."""
        for need in spec(name).needs:
            other, _, values = need.partition("=")
            if value_text(getattr(self, other)) not in values.split("|"):
                return f"needs {other} {values}".replace("_", " ").replace("|", " or ")
        return ""

    def set(self, settings: Mapping[str, Any]) -> Knobs:
        """A copy with these knobs changed. Text values are parsed (``on``/``off`` for switches).

        ``profile`` is applied first: it resets every knob, then the rest is laid over it. When only one of
        the two weights is given, the other becomes its complement. Raises UsageError naming knob,
        value and allowed range."""
        settings = {name.replace("-", "_"): value for name, value in settings.items()}
        base = self
        if "profile" in settings:
            base = profile(str(settings.pop("profile")))
        changes: dict[str, Any] = {name: spec(name).parse(value) for name, value in settings.items()}
        if "vector_weight" in changes and "text_weight" not in changes:
            changes["text_weight"] = round(1.0 - float(changes["vector_weight"]), 10)
        elif "text_weight" in changes and "vector_weight" not in changes:
            changes["vector_weight"] = round(1.0 - float(changes["text_weight"]), 10)
        return replace(base, **changes)

    def to_dict(self) -> dict[str, KnobValue]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def changes_from(self, other: Knobs) -> dict[str, KnobValue]:
        """The knobs in which this differs from another setting (profile name aside)."""
        mine, theirs = self.to_dict(), other.to_dict()
        return {name: value for name, value in mine.items() if name != "profile" and value != theirs[name]}


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
        from difflib import get_close_matches

        names = [*KNOBS, "profile"]
        near = get_close_matches(name, names, 3, 0.7) or get_close_matches(name, names, 1, 0.5)
        hint = f" Did you mean {', '.join(near)}?" if near else ""
        raise UsageError(f"There is no knob {name!r}.{hint} Known: profile, {', '.join(KNOBS)}.") from None


@dataclass(frozen=True, slots=True)
class Profile:
    """A known ranker: its knobs, and its stages in order (names of ``ranking.pipeline.STAGES``)."""

    knobs: Knobs
    stages: tuple[str, ...]


#: Documented: the published formulas, with two protections. Keyword rescue, because BM25 only reaches
#: 0.3 × 0.5 and the cut is 0.35; and a pool that is never smaller than that of the default six results,
#: because asking for one result must not find a worse best hit than asking for five.
DOCUMENTED = Knobs()

#: Release 2026.2.26 as it computes: every keyword hit scores 1.0, all words must match, ASCII-only MMR.
OPENCLAW_2026_2 = Knobs(
    profile="openclaw-2026.2",
    lexical_form="and",
    lexical_index="plain",
    pool_results=1,
    text_score="one",
    mmr_tokens="ascii",
    keyword_rescue="off",
)

#: Ours: bm25 over the best, min-max cosine, each with its best line mixed in; no cut, because its scores
#: are relative to the query and never a confidence. The weights come from measured retrieval quality.
WORKBENCH = Knobs(
    profile="workbench",
    name_weight=2.0,
    line_text=0.25,
    line_vector=0.5,
    fill_missing=True,
    same_script=True,
    pool_results=10,
    text_score="max",
    vector_score="minmax",
    vector_weight=0.4,
    text_weight=0.6,
    min_score=0.0,
    keyword_rescue="off",
    snippet="packed",
)

_STAGES = ("candidates", "fusion", "decay", "mmr", "min_score", "rescue", "max_results", "snippet")

PROFILES: Mapping[str, Profile] = {
    knobs.profile: Profile(knobs, _STAGES) for knobs in (DOCUMENTED, OPENCLAW_2026_2, WORKBENCH)
}


def profile(name: str) -> Knobs:
    """The knobs of a named profile. Raises UsageError naming the known ones."""
    try:
        return PROFILES[name.strip().lower()].knobs
    except KeyError:
        raise UsageError(f"There is no profile {name!r}. Known: {', '.join(PROFILES)}.") from None


def parse_settings(texts: list[str]) -> dict[str, str]:
    """``["decay=on", "min_score=0.2"]`` as a mapping. Raises UsageError for a text without ``=``."""
    settings: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"{text!r} is not a setting: write knob=value, for example decay=on.")
        settings[name.strip()] = value.strip()
    return settings
