"""From a specification to an embedder. Nothing is loaded or sent here; that happens at the first text."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from openclaw_mem_engine.errors import ProviderError

if TYPE_CHECKING:
    from openclaw_mem_engine.providers.base import Embedder, EmbedderSpec


def make_embedder(spec: EmbedderSpec) -> Embedder | None:
    """The embedder that ``spec`` asks for; None for "none" (keyword search only).

    "auto" is the built-in static table, whatever model is named: no text leaves the machine unless someone
    chose that. Raises ProviderError for a missing API key or an unknown static model, ConfigError for a base
    URL, key or header that cannot be used.
    """
    if spec.provider == "none":
        return None
    if spec.provider == "openai":
        return _openai(spec)

    from openclaw_mem_engine.providers.static import MODEL, StaticEmbedder

    if spec.provider == "static" and spec.model not in ("", MODEL):
        raise ProviderError(
            f"The static provider has one model, {MODEL}, not {spec.model!r}. "
            "Leave the model out, or choose provider openai for it."
        )
    return StaticEmbedder()


def _openai(spec: EmbedderSpec) -> Embedder:
    from openclaw_mem_engine.providers.openai_compat import (
        DEFAULT_BASE_URL,
        DEFAULT_MODEL,
        OPENAI_HOST,
        OpenAICompatEmbedder,
    )

    embedder = OpenAICompatEmbedder(
        base_url=spec.base_url or DEFAULT_BASE_URL,
        api_key=spec.api_key,
        model=spec.model or DEFAULT_MODEL,
        headers=spec.headers,
        query_timeout_s=spec.timeout_s,
        batch_timeout_s=spec.batch_timeout_s,
    )
    # Local servers want no key; OpenAI always does, and saying so now beats a 401 at the first search.
    is_openai = urlsplit(spec.base_url or DEFAULT_BASE_URL).hostname == OPENAI_HOST
    has_key = bool(spec.api_key.strip()) or any(name.lower() == "authorization" for name in spec.headers)
    if is_openai and not has_key:
        raise ProviderError(
            f"No API key for {OPENAI_HOST}: set the environment variable OPENAI_API_KEY or "
            "agents.defaults.memorySearch.remote.apiKey in OpenClaw's configuration, "
            'or choose provider "static" (built in, no key) or "none".'
        )
    return embedder
