"""Search the Markdown memory of AI agents, with an explanation for every rank and every absence.

``Memory.open(load_settings(...))`` is the way in. The names are those of ``openclaw_mem_engine.api``, loaded
at first use, so that importing this package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from openclaw_mem_engine.api import (
        PROFILES,
        Answer,
        Hit,
        Knobs,
        Memory,
        Pool,
        Status,
        Trace,
        load_settings,
        profile,
        rank,
        recompute,
    )

__version__ = "0.1.0"

__all__ = [
    "PROFILES",
    "Answer",
    "Hit",
    "Knobs",
    "Memory",
    "Pool",
    "Status",
    "Trace",
    "load_settings",
    "profile",
    "rank",
    "recompute",
]

if not TYPE_CHECKING:  # a type checker that saw this would accept any name

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from openclaw_mem_engine import api

        return getattr(api, name)
