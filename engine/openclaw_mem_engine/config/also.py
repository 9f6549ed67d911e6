"""``provider.also`` and ``provider.fallback``: embedders beside the chosen one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from openclaw_mem_engine.config.layers import Chosen
from openclaw_mem_engine.config.local_model import is_uri
from openclaw_mem_engine.config.secret import shown
from openclaw_mem_engine.config.settings import PROVIDER_NAMES, Origin, ProviderSettings
from openclaw_mem_engine.errors import ConfigError
from openclaw_mem_engine.model import Note

_KEY = "provider.also"
_ALLOWED = tuple(name for name in PROVIDER_NAMES if name not in ("auto", "none"))


def name_of(entry: str) -> str:
    """The provider of an entry ``provider`` or ``provider:model``."""
    return entry.partition(":")[0]


def model_of(entry: str) -> str:
    """The model of such an entry; empty for the one that is configured for this provider, or its default."""
    return entry.partition(":")[2]


def checked_also(chosen: Chosen) -> tuple[str, ...]:
    """The entries without blanks and repetitions. Raises ConfigError for one that names no provider."""
    entries: dict[str, None] = {}
    for item in chosen.value(_KEY, tuple, ()):
        name, _, model = str(item).partition(":")
        name, model = name.strip(), model.strip()
        where = chosen.origins[_KEY].where
        if name not in _ALLOWED:
            raise ConfigError(
                f"{where} holds {shown(item)}; allowed: a provider, or provider:model. "
                f"Providers are {', '.join(_ALLOWED)}."
            )
        if name == "static" and model:
            raise ConfigError(f"{where} holds {shown(item)}, but static has one model. Write static alone.")
        if name == "local" and model and not is_uri(model):
            model = str(chosen.place(_KEY, model, Path("/")))
        entries[f"{name}:{model}" if model else name] = None
    return tuple(entries)


def without_needless(
    settings: ProviderSettings, also: tuple[str, ...], origins: Mapping[str, Origin], notes: list[Note]
) -> ProviderSettings:
    """The settings with ``also``, less what the chosen provider does already; ``notes`` hears of that."""
    kept = []
    for entry in also:
        own = name_of(entry) == settings.chosen
        if own and model_of(entry) in ("", _own_model(settings)):
            text = f"{origins[_KEY].where}: {entry} is ignored, for it is the chosen embedder itself."
            notes.append(Note("also-ignored", text))
        else:
            kept.append(entry)
    if settings.fallback == settings.chosen != "none":
        where = origins["provider.fallback"].where
        text = f"{where} is ignored: {settings.fallback} cannot stand in for itself."
        notes.append(Note("fallback-ignored", text))
    return replace(settings, also=tuple(kept))


def _own_model(settings: ProviderSettings) -> str:
    return (settings.local_model_path if settings.chosen == "local" else settings.model) or ""
