"""The memory-search keys of OpenClaw's configuration: what it accepts, its defaults, its clamps.

Facts of release 2026.2.26. The schema refuses a value out of range before any command runs; what the schema
lets through is still clamped. Newer releases know more keys, which we report and leave alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from openclaw_mem_engine.config.rules import Rule

_SWITCH = Rule("switch")
_TEXT = Rule("text")
_UNIT = Rule("number", low=0, high=1)
_COUNT = Rule("int", low=0)
_POSITIVE = Rule("int", low=1)


class ForeignKey(NamedTuple):
    """``ours`` is the key of :mod:`.keys` that it sets, when there is exactly one."""

    rule: Rule
    default: object = None
    ours: str | None = None


#: Keys below ``memorySearch``; None as default means absent. Provider names are checked when they are used.
MEMORY_SEARCH: Mapping[str, ForeignKey] = {
    "enabled": ForeignKey(_SWITCH, True, "enabled"),
    "sources": ForeignKey(Rule("texts", choices=("memory", "sessions")), ("memory",)),
    "extraPaths": ForeignKey(Rule("texts"), ()),
    "provider": ForeignKey(_TEXT, "auto", "provider.name"),
    "model": ForeignKey(_TEXT, "", "provider.model"),
    "fallback": ForeignKey(_TEXT, "none", "provider.fallback"),
    "remote.baseUrl": ForeignKey(Rule("url"), None, "provider.base_url"),
    "remote.apiKey": ForeignKey(Rule("secret"), None, "provider.api_key"),
    "remote.headers": ForeignKey(Rule("headers"), None, "provider.headers"),
    "remote.batch.enabled": ForeignKey(_SWITCH, False, "provider.batch.enabled"),
    "remote.batch.wait": ForeignKey(_SWITCH, True, "provider.batch.wait"),
    "remote.batch.concurrency": ForeignKey(_POSITIVE, 2, "provider.batch.concurrency"),
    "remote.batch.pollIntervalMs": ForeignKey(_COUNT, 2000, "provider.batch.poll_interval_ms"),
    "remote.batch.timeoutMinutes": ForeignKey(_POSITIVE, 60, "provider.batch.timeout_minutes"),
    "experimental.sessionMemory": ForeignKey(_SWITCH, False),
    "local.modelPath": ForeignKey(_TEXT, None, "provider.local_model_path"),
    "local.modelCacheDir": ForeignKey(_TEXT, None, "provider.local_model_cache_dir"),
    "store.driver": ForeignKey(Rule("text", choices=("sqlite",)), "sqlite"),
    "store.path": ForeignKey(_TEXT),
    "store.vector.enabled": ForeignKey(_SWITCH, True, "vector_extension"),
    # A native library that another program trusts: read, never loaded by us.
    "store.vector.extensionPath": ForeignKey(_TEXT),
    "chunking.tokens": ForeignKey(_POSITIVE, 400, "chunking.tokens"),
    "chunking.overlap": ForeignKey(_COUNT, 80, "chunking.overlap"),
    "sync.onSessionStart": ForeignKey(_SWITCH, True, "sync.on_session_start"),
    "sync.onSearch": ForeignKey(_SWITCH, True, "sync.on_search"),
    "sync.watch": ForeignKey(_SWITCH, True, "sync.watch"),
    "sync.watchDebounceMs": ForeignKey(_COUNT, 1500, "sync.debounce_ms"),
    "sync.intervalMinutes": ForeignKey(_COUNT, 0, "sync.interval_minutes"),
    "sync.sessions.deltaBytes": ForeignKey(_COUNT, 100_000, "sync.session_delta_bytes"),
    "sync.sessions.deltaMessages": ForeignKey(_COUNT, 50, "sync.session_delta_messages"),
    "query.maxResults": ForeignKey(_POSITIVE, 6, "query.max_results"),
    "query.minScore": ForeignKey(_UNIT, 0.35, "query.min_score"),
    "query.hybrid.enabled": ForeignKey(_SWITCH, True),
    "query.hybrid.vectorWeight": ForeignKey(_UNIT, 0.7, "query.vector_weight"),
    "query.hybrid.textWeight": ForeignKey(_UNIT, 0.3, "query.text_weight"),
    "query.hybrid.candidateMultiplier": ForeignKey(_POSITIVE, 4, "query.candidate_multiplier"),
    "query.hybrid.mmr.enabled": ForeignKey(_SWITCH, False, "query.mmr"),
    "query.hybrid.mmr.lambda": ForeignKey(_UNIT, 0.7, "query.mmr_lambda"),
    "query.hybrid.temporalDecay.enabled": ForeignKey(_SWITCH, False, "query.decay"),
    "query.hybrid.temporalDecay.halfLifeDays": ForeignKey(_POSITIVE, 30, "query.half_life_days"),
    "cache.enabled": ForeignKey(_SWITCH, True, "cache.enabled"),
    "cache.maxEntries": ForeignKey(_POSITIVE, None, "cache.max_entries"),
}

_FLOORED: Mapping[str, int] = {
    "query.hybrid.temporalDecay.halfLifeDays": 1,
    "sync.sessions.deltaBytes": 0,
    "sync.sessions.deltaMessages": 0,
    "sync.watchDebounceMs": 0,
    "sync.intervalMinutes": 0,
    "cache.maxEntries": 1,
    "chunking.tokens": 1,
}


def resolved_keys(values: Mapping[str, object]) -> dict[str, object]:
    """Every documented key with its value in effect: defaults filled in, clamps applied.

    ``values`` maps keys of :data:`MEMORY_SEARCH` to values of the right type, of any size. Weights come back
    divided by their sum. Keys without default and without value are absent.
    """
    given = {key: known.default for key, known in MEMORY_SEARCH.items() if known.default is not None}
    given.update(values)
    numbers = {
        key: float(value)
        for key, value in given.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    }
    for key, least in _FLOORED.items():
        if key in numbers:
            given[key] = max(least, math.floor(numbers[key]))
    tokens = given["chunking.tokens"]
    assert isinstance(tokens, int)
    given["chunking.overlap"] = min(max(0, math.floor(numbers["chunking.overlap"])), tokens - 1)
    given["query.minScore"] = _unit(numbers["query.minScore"])
    given["query.hybrid.mmr.lambda"] = _unit(numbers["query.hybrid.mmr.lambda"])
    multiplier = math.floor(numbers["query.hybrid.candidateMultiplier"])
    given["query.hybrid.candidateMultiplier"] = min(20, max(1, multiplier))
    vector = _unit(numbers["query.hybrid.vectorWeight"])
    text = _unit(numbers["query.hybrid.textWeight"])
    vector, text = (vector / (vector + text), text / (vector + text)) if vector + text > 0 else (0.7, 0.3)
    given["query.hybrid.vectorWeight"], given["query.hybrid.textWeight"] = vector, text
    given["sources"] = _sources(given["sources"], given["experimental.sessionMemory"] is True)
    given["extraPaths"] = trimmed_unique(given["extraPaths"])
    return given


def trimmed_unique(paths: object) -> tuple[str, ...]:
    """The paths without surrounding blanks, empty ones and repetitions, in their order."""
    if not isinstance(paths, (list, tuple)):
        return ()
    return tuple(dict.fromkeys(text for path in paths if (text := str(path).strip())))


def _sources(wanted: object, session_memory: bool) -> tuple[str, ...]:
    # Transcripts count only when the experiment is switched on as well; nothing left means notes.
    names = wanted if isinstance(wanted, (list, tuple)) else ()
    kept = tuple(dict.fromkeys(name for name in names if name == "memory" or session_memory))
    return kept or ("memory",)


def _unit(number: float) -> float:
    return min(1.0, max(0.0, number))
