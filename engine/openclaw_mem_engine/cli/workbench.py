"""Opening the workbench: the only module of the engine that imports it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from openclaw_mem_engine.config.sources import user_folders

if TYPE_CHECKING:
    from openclaw_mem_engine.config.settings import Settings
    from openclaw_mem_engine.demo import SuggestedQuery
    from openclaw_mem_engine.memory import Memory


def open_workbench(
    settings: Settings,
    *,
    lessons: Sequence[SuggestedQuery] = (),
    query: str = "",
    theme: str | None = None,
    faults: frozenset[str] = frozenset(),
) -> int:
    """Run the workbench on these settings until the user quits; returns its exit code. Blocks. ``faults``
    (see ``providers.faults``) are simulated from the start."""
    from openclaw_mem_tui.app import run
    from openclaw_mem_tui.features.search.lessons import DemoGuide

    def memory(with_faults: frozenset[str]) -> Memory:
        from openclaw_mem_engine.memory import Memory

        return Memory.open(settings, resident=True, faults=with_faults)

    return run(
        memory,
        demo=DemoGuide(lessons) if lessons else None,
        initial_query=query,
        theme=theme or settings.theme,
        theme_folder=user_folders().config / "themes",
        faults=faults,
    )
