"""Our own keys, each declared once: the rule it must fit and what it holds when nobody says otherwise.

These names are the keys of ``config.toml`` (``provider.model`` is ``model`` in the table ``[provider]``), of
``Settings.origins`` and of the listing.
"""

from __future__ import annotations

from collections.abc import Mapping

from openclaw_mem_engine.config.rules import Rule
from openclaw_mem_engine.config.settings import PROVIDER_NAMES

SWITCH = Rule("switch")
TEXT = Rule("text")

#: Knobs of the ranking: type only. Their ranges depend on the ranking, which refuses what it cannot use.
QUERY_RULES: Mapping[str, Rule] = {
    "mode": TEXT,
    "vector_space": TEXT,
    "lexical_form": TEXT,
    "lexical_index": TEXT,
    "line_text": Rule("number"),
    "line_vector": Rule("number"),
    "fill_missing": SWITCH,
    "candidate_multiplier": Rule("int"),
    "pool_results": Rule("int"),
    "text_score": TEXT,
    "vector_score": TEXT,
    "fusion": TEXT,
    "vector_weight": Rule("number"),
    "text_weight": Rule("number"),
    "rrf_k": Rule("int"),
    "decay": SWITCH,
    "half_life_days": Rule("number", unit="days"),
    "mmr": SWITCH,
    "mmr_lambda": Rule("number"),
    "mmr_tokens": TEXT,
    "min_score": Rule("number"),
    "keyword_rescue": TEXT,
    "max_results": Rule("int"),
}

#: Keys that are read, checked and shown, but change nothing in this release.
NOT_YET: frozenset[str] = frozenset()

#: Every key of ours outside of the ranking knobs.
RULES: Mapping[str, Rule] = {
    "workspace": Rule("path"),
    "agent": TEXT,
    "data_dir": Rule("path"),
    "enabled": SWITCH,
    "sources": Rule("texts", choices=("memory", "sessions")),
    "extra_paths": Rule("texts"),
    "citations": Rule("text", choices=("auto", "on", "off")),
    "max_file_bytes": Rule("int", low=1, unit="bytes"),
    "vector_extension": SWITCH,
    "editor": TEXT,
    "theme": TEXT,
    "provider.name": Rule("text", choices=PROVIDER_NAMES),
    "provider.model": TEXT,
    "provider.base_url": Rule("url"),
    "provider.api_key": Rule("secret"),
    "provider.headers": Rule("headers"),
    "provider.fallback": Rule("text", choices=tuple(name for name in PROVIDER_NAMES if name != "auto")),
    "provider.also": Rule("texts", unit="provider or provider:model"),
    "provider.concurrency": Rule("int", low=1, high=32, unit="requests"),
    "provider.local_model_path": Rule("path"),
    "provider.local_model_cache_dir": Rule("path"),
    "provider.local_idle_minutes": Rule("number", low=0, unit="minutes"),
    "provider.batch.enabled": SWITCH,
    "provider.batch.wait": SWITCH,
    "provider.batch.concurrency": Rule("int", low=1),
    "provider.batch.poll_interval_ms": Rule("int", low=1, unit="ms"),
    "provider.batch.timeout_minutes": Rule("int", low=1, unit="minutes"),
    "chunking.tokens": Rule("int", low=1, unit="tokens"),
    "chunking.overlap": Rule("int", low=0, unit="tokens"),
    "cache.enabled": SWITCH,
    "cache.max_entries": Rule("int", low=1),
    "sync.on_session_start": SWITCH,
    "sync.on_search": SWITCH,
    "sync.watch": SWITCH,
    "sync.debounce_ms": Rule("int", low=0, unit="ms"),
    "sync.interval_minutes": Rule("int", low=0, unit="minutes"),
    "sync.session_delta_bytes": Rule("int", low=0, unit="bytes"),
    "sync.session_delta_messages": Rule("int", low=0, unit="messages"),
    "sync.session_quiet_s": Rule("int", low=0, unit="seconds"),
    "query.profile": TEXT,
    **{f"query.{name}": rule for name, rule in QUERY_RULES.items()},
}
