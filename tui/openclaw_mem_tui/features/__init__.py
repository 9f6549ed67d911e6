"""The table of screens. A new screen is one folder under ``features`` (``screen.py``, ``presenter.py``, its
text, ``styles.tcss``), one line here, and its keys in ``bindings.py``."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from openclaw_mem_tui.screen import WorkbenchScreen


class ScreenEntry(NamedTuple):
    """``name`` is the folder under ``features`` and begins the name of the class, ``key`` opens the screen;
    ``help`` is its text in the palette, the help and docs/keys.md, ``tab`` that of the tab at the top."""

    name: str
    key: str
    help: str
    tab: str

    def load(self) -> type[WorkbenchScreen]:
        """The screen's class; its module is imported when it is first shown."""
        module = import_module(f"openclaw_mem_tui.features.{self.name}.screen")
        loaded: type[WorkbenchScreen] = getattr(module, f"{self.name.title()}Screen")
        return loaded


#: The first is the search lab, over which the others open.
SCREENS: tuple[ScreenEntry, ...] = (
    ScreenEntry("search", "1", "search lab", "lab"),
    ScreenEntry("providers", "2", "providers, fallback and faults", "providers"),
    ScreenEntry("index", "3", "index health: files, doctor, events", "index"),
    ScreenEntry("timeline", "4", "timeline: flushes, writes, searches", "timeline"),
    ScreenEntry("curate", "5", "curate MEMORY.md, with evidence", "curate"),
)
