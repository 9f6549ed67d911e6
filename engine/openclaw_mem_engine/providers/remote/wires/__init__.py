"""What each remote provider wants to be sent, and how its answers read. Nothing here touches the network."""

from __future__ import annotations

from openclaw_mem_engine.errors import ConfigError
from openclaw_mem_engine.providers.remote.wires.base import Purpose, Wire
from openclaw_mem_engine.providers.remote.wires.gemini import GeminiWire
from openclaw_mem_engine.providers.remote.wires.ollama import OllamaWire
from openclaw_mem_engine.providers.remote.wires.openai import MISTRAL, OPENAI, VOYAGE

__all__ = ["Purpose", "Wire", "wire_of"]

_WIRES: dict[str, Wire] = {wire.id: wire for wire in (OPENAI, GeminiWire(), VOYAGE, MISTRAL, OllamaWire())}


def wire_of(provider: str) -> Wire:
    """The protocol of "openai", "gemini", "voyage", "mistral" or "ollama". Raises ConfigError for others."""
    wire = _WIRES.get(provider)
    if wire is None:
        raise ConfigError(f"{provider!r} is no remote embedding provider; use one of: {', '.join(_WIRES)}.")
    return wire
