"""Embedders of remote providers for tests."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from openclaw_mem_engine.providers.registry import EmbedderSpec
from openclaw_mem_engine.providers.remote.embedder import RemoteEmbedder
from openclaw_mem_engine.providers.remote.wires import Wire, wire_of


def remote_embedder(provider: str | Wire, **options: Any) -> RemoteEmbedder:
    """That of a provider, or of a wire; ``options`` are fields of the spec, and arguments of the embedder."""
    wire = wire_of(provider) if isinstance(provider, str) else provider
    names = {field.name for field in fields(EmbedderSpec)}
    given = {name: options.pop(name) for name in names & options.keys()}
    return RemoteEmbedder(wire, EmbedderSpec(wire.id, **given), **options)
