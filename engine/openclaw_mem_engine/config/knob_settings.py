"""The knobs of the ranking as settings: what the ranking says of each, and OpenClaw's keys."""

from __future__ import annotations

from collections.abc import Mapping

from openclaw_mem_engine.config.rules import Kind, Rule, Setting
from openclaw_mem_engine.ranking.knob_spec import KnobSpec
from openclaw_mem_engine.ranking.knobs import KNOBS

_SWITCH, _POSITIVE, _UNIT = Rule("switch"), Rule("int", 1), Rule("number", 0, 1)
#: The knobs that OpenClaw knows: its key below ``memorySearch``, what it accepts there, and its default.
_OPENCLAW: Mapping[str, tuple[str, Rule, object]] = {
    "candidate_multiplier": ("query.hybrid.candidateMultiplier", _POSITIVE, 4),
    "vector_weight": ("query.hybrid.vectorWeight", _UNIT, 0.7),
    "bm25_weight": ("query.hybrid.textWeight", _UNIT, 0.3),
    "decay": ("query.hybrid.temporalDecay.enabled", _SWITCH, False),
    "half_life_days": ("query.hybrid.temporalDecay.halfLifeDays", _POSITIVE, 30),
    "mmr": ("query.hybrid.mmr.enabled", _SWITCH, False),
    "mmr_lambda": ("query.hybrid.mmr.lambda", _UNIT, 0.7),
    "min_score": ("query.minScore", _UNIT, 0.35),
    "max_results": ("query.maxResults", _POSITIVE, 6),
}
_KINDS: Mapping[str, Kind] = {"switch": "switch", "choice": "text", "int": "int", "float": "number"}


def _setting(name: str, knob: KnobSpec) -> Setting:
    """A knob without a value of its own has that of the profile: there is no default here."""
    kind = _KINDS[knob.kind]
    if kind in ("int", "number"):
        rule = Rule(kind, knob.low, knob.high, unit=f"0: {knob.zero}" if knob.zero else "")
    else:
        rule = Rule(kind, choices=knob.choices)
    return Setting(rule, knob.help, None, *_OPENCLAW.get(name, ()))


#: Every knob by name.
KNOB_SETTINGS: Mapping[str, Setting] = {name: _setting(name, knob) for name, knob in KNOBS.items()}


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
