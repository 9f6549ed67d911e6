"""Search the Markdown memory of AI agents, with an explanation for every rank and every absence.

``Memory.open(load_settings(...))`` is the way in. Names are loaded at first use, so that importing this
package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from openclaw_mem_engine.answer import Answer, Hit
    from openclaw_mem_engine.config.load import load_settings
    from openclaw_mem_engine.memory import Memory
    from openclaw_mem_engine.ranking.knobs import PROFILES, Knobs, profile
    from openclaw_mem_engine.ranking.pipeline import rank
    from openclaw_mem_engine.ranking.pool import Pool
    from openclaw_mem_engine.ranking.trace import Trace, recompute
    from openclaw_mem_engine.status import Status

__version__ = "0.1.0"

_HOMES = {
    "load_settings": "config.load",
    "Answer": "answer",
    "Hit": "answer",
    "Memory": "memory",
    "Status": "status",
    "Knobs": "ranking.knobs",
    "Pool": "ranking.pool",
    "PROFILES": "ranking.knobs",
    "profile": "ranking.knobs",
    "rank": "ranking.pipeline",
    "Trace": "ranking.trace",
    "recompute": "ranking.trace",
}

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


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
