"""From a specification to an embedder. Nothing is loaded or sent here; that happens at the first text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openclaw_mem_engine.errors import ProviderError

if TYPE_CHECKING:
    from openclaw_mem_engine.providers.base import Embedder, EmbedderSpec


def make_embedder(spec: EmbedderSpec) -> Embedder | None:
    """The embedder that ``spec`` asks for; None for "none" (keyword search only).

    "auto" is the built-in static table, whatever model is named: no text leaves the machine unless someone
    chose that. A missing API key shows at the first text (ProviderError), not here: the embedder still names
    its vector space, so that an index keeps its vectors. Raises ProviderError for an unknown static model,
    ConfigError for a base URL, key or header that cannot be used.
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
        OpenAICompatEmbedder,
    )

    return OpenAICompatEmbedder(
        base_url=spec.base_url or DEFAULT_BASE_URL,
        api_key=spec.api_key,
        model=spec.model or DEFAULT_MODEL,
        headers=spec.headers,
        query_timeout_s=spec.timeout_s,
        batch_timeout_s=spec.batch_timeout_s,
    )
