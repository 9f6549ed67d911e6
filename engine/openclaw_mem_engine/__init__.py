"""Search the Markdown memory of AI agents, with an explanation for every rank and every absence.

``Memory.open(load_settings(...))`` is the way in. The names are those of ``openclaw_mem_engine.api``, loaded
at first use, so that importing this package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0.dev0"

if TYPE_CHECKING:
    from openclaw_mem_engine.api import *  # noqa: F403
else:  # a type checker that saw this would accept any name

    def __getattr__(name: str) -> Any:
        from importlib import import_module  # an import of ``api`` from here would ask this function for it

        return getattr(import_module("openclaw_mem_engine.api"), name)
