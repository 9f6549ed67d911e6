"""The knobs of the ranking as settings."""

from __future__ import annotations

from collections.abc import Mapping

from openclaw_mem_engine.config.rules import Rule, Setting

_SWITCH, _TEXT, _NUMBER = Rule("switch"), Rule("text"), Rule("number")
_INT, _POSITIVE, _UNIT = Rule("int"), Rule("int", 1), Rule("number", 0, 1)


def _knob(
    rule: Rule, openclaw: str = "", foreign_rule: Rule | None = None, default: object = None
) -> Setting:
    meaning = "the knob of this name; unset: the profile's value"
    return Setting(rule, meaning, None, openclaw, foreign_rule, default)


#: The knobs of the ranking by name. The ranking defines their ranges and refuses what it cannot use; the
#: profile holds their defaults. OpenClaw's own range and default are given for the keys that it knows.
KNOB_SETTINGS: Mapping[str, Setting] = {
    "mode": _knob(_TEXT),
    "vector_space": _knob(_TEXT),
    "lexical_form": _knob(_TEXT),
    "lexical_index": _knob(_TEXT),
    "common_words": _knob(_TEXT),
    "name_weight": _knob(_NUMBER),
    "line_text": _knob(_NUMBER),
    "line_vector": _knob(_NUMBER),
    "fill_missing": _knob(_SWITCH),
    "same_script": _knob(_SWITCH),
    "snippet": _knob(_TEXT),
    "snippet_chars": _knob(_INT),
    "snippet_budget": _knob(_INT),
    "candidate_multiplier": _knob(_INT, "query.hybrid.candidateMultiplier", _POSITIVE, 4),
    "pool_results": _knob(_INT),
    "list_rows": _knob(_INT),
    "text_score": _knob(_TEXT),
    "vector_score": _knob(_TEXT),
    "fusion": _knob(_TEXT),
    "vector_weight": _knob(_NUMBER, "query.hybrid.vectorWeight", _UNIT, 0.7),
    "text_weight": _knob(_NUMBER, "query.hybrid.textWeight", _UNIT, 0.3),
    "rrf_k": _knob(_INT),
    "expansion": _knob(_TEXT),
    "strong_signal": _knob(_SWITCH),
    "original_weight": _knob(_NUMBER),
    "bonus_first": _knob(_NUMBER),
    "bonus_next": _knob(_NUMBER),
    "candidate_limit": _knob(_INT),
    "rerank": _knob(_SWITCH),
    "rerank_top": _knob(_INT),
    "blend": _knob(_TEXT),
    "decay": _knob(_SWITCH, "query.hybrid.temporalDecay.enabled", _SWITCH, False),
    "half_life_days": _knob(
        Rule("number", unit="days"), "query.hybrid.temporalDecay.halfLifeDays", _POSITIVE, 30
    ),
    "mmr": _knob(_SWITCH, "query.hybrid.mmr.enabled", _SWITCH, False),
    "mmr_lambda": _knob(_NUMBER, "query.hybrid.mmr.lambda", _UNIT, 0.7),
    "mmr_tokens": _knob(_TEXT),
    "min_score": _knob(_NUMBER, "query.minScore", _UNIT, 0.35),
    "keyword_rescue": _knob(_TEXT),
    "max_results": _knob(_INT, "query.maxResults", _POSITIVE, 6),
}


def openclaw_key(name: str, value: object) -> str | None:
    """The key below ``memorySearch`` for a knob with this value, or None."""
    if name == "mode":
        return "query.hybrid.enabled" if value in ("hybrid", "vector") else None
    known = KNOB_SETTINGS.get(name)
    if known is None or not known.openclaw or not known.openclaw_rule.fits(value):
        return None
    return known.openclaw


def openclaw_value(name: str, value: object) -> object:
    """What stands at that key."""
    return value == "hybrid" if name == "mode" else value
