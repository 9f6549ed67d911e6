"""From a specification to an embedder. Nothing is loaded or sent here; that happens at the first text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from openclaw_mem_engine.errors import ProviderError

if TYPE_CHECKING:
    from openclaw_mem_engine.providers.base import Embedder, EmbedderSpec, Meter
    from openclaw_mem_engine.providers.remote.limits import Caps


def make_embedder(
    spec: EmbedderSpec, *, meter: Meter | None = None, caps: Caps | None = None
) -> Embedder | None:
    """The embedder that ``spec`` asks for; None for "none" (keyword search only).

    ``meter`` hears of every paid or counted request, ``caps`` remembers how much a server takes at once;
    neither means anything to embedders of this machine. A missing API key or model file shows at the first
    text (NotConfigured), not here: the embedder still names its vector space, so that an index keeps its
    vectors. Raises ProviderError for an unknown static model, ConfigError for a base URL, key or header that
    cannot be used.
    """
    if spec.provider == "none":
        return None
    if spec.provider == "static":
        return _static(spec)
    if spec.provider == "local":
        return _local(spec)

    from openclaw_mem_engine.providers.remote.embedder import RemoteEmbedder
    from openclaw_mem_engine.providers.remote.wires import wire_of

    return RemoteEmbedder(
        wire_of(spec.provider),
        base_url=spec.base_url,
        api_key=spec.api_key,
        key_missing=spec.key_missing,
        model=spec.model,
        headers=spec.headers,
        query_timeout_s=spec.timeout_s,
        batch_timeout_s=spec.batch_timeout_s,
        concurrency=spec.concurrency,
        meter=meter,
        caps=caps,
    )


def _static(spec: EmbedderSpec) -> Embedder:
    from openclaw_mem_engine.providers.static.embedder import MODEL, StaticEmbedder

    if spec.model not in ("", MODEL):
        raise ProviderError(
            f"The static provider has one model, {MODEL}, not {spec.model!r}. "
            "Leave the model out, or choose provider openai for it."
        )
    return StaticEmbedder()


def _local(spec: EmbedderSpec) -> Embedder:
    from openclaw_mem_engine.providers.local.embedder import LocalEmbedder

    return LocalEmbedder(
        spec.model,
        # Without a folder only a model that is a path can be used; what it says then names the path.
        folder=spec.model_folder or Path(spec.model).parent,
        idle_s=spec.idle_s,
        query_timeout_s=spec.timeout_s,
        batch_timeout_s=spec.batch_timeout_s,
    )
