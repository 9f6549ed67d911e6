"""The numbers of each known ranker, side by side."""

from __future__ import annotations

from collections.abc import Mapping

from openclaw_mem_engine.errors import UsageError
from openclaw_mem_engine.ranking.knobs import Knobs

#: Documented: the published formulas, with keyword rescue because 0.3 × text can never reach 0.35 alone.
DOCUMENTED = Knobs()

#: Release 2026.2.26 as it computes: every keyword hit scores 1.0, all words must match, ASCII-only MMR.
OPENCLAW_2026_2 = Knobs(
    profile="openclaw-2026.2",
    lexical_form="and",
    lexical_index="plain",
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
    candidate_floor=40,
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
