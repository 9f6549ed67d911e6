"""Known rankers: their knobs, and the stages of each in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_engine.errors import UsageError, did_you_mean
from openclaw_mem_engine.ranking.knob_spec import value_text
from openclaw_mem_engine.ranking.knobs import KNOBS, Knobs


@dataclass(frozen=True, slots=True)
class Profile:
    """A known ranker: its knobs, and its stages in order (names of ``ranking.pipeline.STAGES``). ``bands``
    name ranges of its scores: the least score of each, the highest first."""

    knobs: Knobs
    stages: tuple[str, ...]
    bands: tuple[tuple[float, str], ...] = ()

    def band_of(self, score: float) -> str:
        """The name of the range that holds a score; empty for a profile without them."""
        return next((name for least, name in self.bands if score >= least), "")


#: Documented: the published formulas, with two protections: keyword rescue, because BM25 only reaches 0.3 ×
#: 0.5 and the cut is 0.35; a pool that asking for fewer than six results does not make smaller (and worse).
DOCUMENTED = Knobs()

#: Release 2026.2.26 as it computes: every keyword hit scores 1.0, all words must match, ASCII-only MMR.
OPENCLAW_2026_2 = Knobs(
    profile="openclaw-2026.2",
    lexical_form="and",
    lexical_index="plain",
    pool_results=1,
    bm25_score="one",
    mmr_tokens="ascii",
    keyword_rescue="off",
)
QMD_PROCESS = Knobs(profile="qmd-process", min_score=0.0, keyword_rescue="off")  # scores of the process

#: Ours: bm25 over the best, min-max cosine, each with its best line mixed in; no cut, because its scores
#: are relative to the query and never a confidence. The weights come from measured retrieval quality.
WORKBENCH = Knobs(
    profile="workbench",
    name_weight=2.0,
    line_bm25=0.25,
    line_vector=0.5,
    fill_missing=True,
    same_script=True,
    pool_results=10,
    bm25_score="max",
    vector_score="minmax",
    vector_weight=0.4,
    bm25_weight=0.6,
    min_score=0.0,
    keyword_rescue="off",
    snippet="packed",
)

#: QMD's documented pipeline: RRF of 20 rows a list with a bonus for the first ranks, 30 to the reranker, and
#: 1 / rank blended with its score. The agent reads 300 characters of each (spec of its JSON output).
QMD_DOCUMENTED = Knobs(
    profile="qmd-documented",
    fusion="position",
    list_rows=20,
    expansion="both",
    original_weight=2.0,
    bonus_first=0.05,
    bonus_next=0.02,
    candidate_limit=30,
    rerank=True,
    rerank_top=30,
    min_score=0.0,
    keyword_rescue="off",
    lexical_form="and",
    snippet="window",
    snippet_chars=300,
)

#: As release 2.8.3 of QMD computes: 40 candidates.
QMD_2_8 = replace(
    QMD_DOCUMENTED,
    profile="qmd-2.8",
    candidate_limit=40,
    rerank_top=40,
    expansion="typed",
    strong_signal=True,
    lexical_index="plain",
)

_STAGES = (
    *("candidates", "fusion", "bonus", "limit", "position", "rerank"),
    *("decay", "mmr", "min_score", "keyword_rescue", "max_results", "snippet"),
)
#: QMD's own bands. They say what a score is, not that a passage is relevant: rank 1 is never below 0.75.
_BANDS = ((0.8, "high"), (0.5, "moderate"), (0.2, "partial"), (-1e9, "low"))

PROFILES: Mapping[str, Profile] = {
    **{
        knobs.profile: Profile(knobs, _STAGES)
        for knobs in (DOCUMENTED, OPENCLAW_2026_2, WORKBENCH, QMD_PROCESS)
    },
    **{knobs.profile: Profile(knobs, _STAGES, _BANDS) for knobs in (QMD_DOCUMENTED, QMD_2_8)},
}
#: Those that can be selected: answers of the external program have theirs automatically, and no others do.
SELECTABLE = tuple(name for name in PROFILES if name != QMD_PROCESS.profile)


def profile(name: str) -> Knobs:
    """The knobs of a named profile. Raises UsageError naming those that can be selected."""
    try:
        return PROFILES[name.strip().lower()].knobs
    except KeyError:
        hint = did_you_mean(name, SELECTABLE)
        raise UsageError(f"There is no profile {name!r}.{hint} Known: {', '.join(SELECTABLE)}.") from None


def selected(name: str) -> Knobs:
    """The knobs of a profile that a user selects. Raises UsageError."""
    found = profile(name)
    if found.profile not in SELECTABLE:
        what = f"Profile {found.profile} is only for answers of the external program qmd, which have it"
        raise UsageError(f"{what} automatically. Known: {', '.join(SELECTABLE)}.")
    return found


def changed(knobs: Knobs, settings: Mapping[str, Any]) -> Knobs:
    """``knobs`` with these set; a ``profile`` among them comes first and resets every knob. Raises
    UsageError."""
    rest = dict(settings)
    name = rest.pop("profile", None)
    return (knobs if name is None else selected(str(name))).set(rest)


def reference() -> str:
    """Every knob as a Markdown table: what ``docs/ranking.md`` ends with."""
    lines = ["| knob | meaning | allowed | `documented` | other profiles |", "|---|---|---|---|---|"]
    for name, known in KNOBS.items():
        usual = getattr(DOCUMENTED, name)
        others = [
            f"`{other}` {value_text(value)}"
            for other, entry in PROFILES.items()
            if (value := getattr(entry.knobs, name)) != usual
        ]
        cells = (f"`{name}`", known.help, known.explained, value_text(usual), ", ".join(others))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
