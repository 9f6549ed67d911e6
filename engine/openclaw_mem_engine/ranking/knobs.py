"""Every parameter of the ranking in one frozen value, and the profiles of known rankers side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from openclaw_mem_engine.errors import UsageError
from openclaw_mem_engine.ranking.knob_table import SPACES, KnobValue, spec
from openclaw_mem_engine.ranking.pool import OVERFETCH

Mode = Literal["hybrid", "bm25", "vector"]
Fusion = Literal["weighted", "rrf"]
Rescue = Literal["off", "when-empty", "fill"]


@dataclass(frozen=True, slots=True)
class Knobs:
    """One complete ranking configuration. Build it with :func:`profile` and :meth:`set`."""

    profile: str = "documented"
    mode: Mode = "hybrid"
    vector_space: Literal["primary", "second", "third"] = "primary"
    lexical_form: Literal["or", "and"] = "or"
    lexical_index: Literal["stemmed", "plain"] = "stemmed"
    line_text: float = 0.0
    line_vector: float = 0.0
    fill_missing: bool = False
    candidate_multiplier: int = 4
    pool_results: int = 6
    text_score: Literal["rank", "one", "max"] = "rank"
    vector_score: Literal["cosine", "minmax"] = "cosine"
    fusion: Fusion = "weighted"
    vector_weight: float = 0.7
    text_weight: float = 0.3
    rrf_k: int = 60
    decay: bool = False
    half_life_days: float = 30.0
    mmr: bool = False
    mmr_lambda: float = 0.7
    mmr_tokens: Literal["unicode", "ascii"] = "unicode"
    min_score: float = 0.35
    keyword_rescue: Rescue = "when-empty"
    max_results: int = 6

    @property
    def candidates(self) -> int:
        """Rows that each leg may send into the pool: ``min(200, multiplier × max(max_results,
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
        signals = (self.line_text > 0, self.line_vector > 0, self.fill_missing)
        depth = self.candidates if any(signals) else 0
        return (self.lexical_form, self.lexical_index, self.vector_space, *signals, depth)

    @property
    def space_number(self) -> int:
        """Which vector leg of a pool is fused, from 0."""
        return SPACES.index(self.vector_space)

    def set(self, settings: Mapping[str, Any]) -> Knobs:
        """A copy with these knobs changed. Text values are parsed (``on``/``off`` for switches).

        ``profile`` is applied first: it resets every knob, then the rest is laid over it. When only one of
        the two weights is given, the other becomes its complement.

        Raises UsageError naming the knob, the value and the allowed range.
        """
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


#: Documented: the published formulas, with two protections. Keyword rescue, because keywords alone reach
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
    line_text=0.25,
    line_vector=0.5,
    fill_missing=True,
    pool_results=10,
    text_score="max",
    vector_score="minmax",
    vector_weight=0.4,
    text_weight=0.6,
    min_score=0.0,
    keyword_rescue="off",
)

PROFILES: Mapping[str, Knobs] = {knobs.profile: knobs for knobs in (DOCUMENTED, OPENCLAW_2026_2, WORKBENCH)}


def profile(name: str) -> Knobs:
    """The knobs of a named profile. Raises UsageError naming the known ones."""
    try:
        return PROFILES[name.strip().lower()]
    except KeyError:
        raise UsageError(f"There is no profile {name!r}. Known: {', '.join(PROFILES)}.") from None
