"""Providers that are asked over HTTP, as the registry wants them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openclaw_mem_engine.providers.base import Embedder, Meter
    from openclaw_mem_engine.providers.registry import EmbedderSpec
    from openclaw_mem_engine.providers.remote.wires import Wire


class _Remote:
    def __init__(self, name: str) -> None:
        self._name = name

    def make(self, spec: EmbedderSpec, meter: Meter | None) -> Embedder:
        from openclaw_mem_engine.providers.remote.embedder import RemoteEmbedder

        return RemoteEmbedder(self._wire, spec, meter=meter)

    def model_name(self, given: str) -> str:
        return self._wire.model_name(given)

    def base_url(self, given: str) -> str:
        return self._wire.base_url(given)

    @property
    def _wire(self) -> Wire:
        from openclaw_mem_engine.providers.remote.wires import wire_of

        return wire_of(self._name)


OPENAI, GEMINI, VOYAGE = _Remote("openai"), _Remote("gemini"), _Remote("voyage")
MISTRAL, OLLAMA = _Remote("mistral"), _Remote("ollama")
