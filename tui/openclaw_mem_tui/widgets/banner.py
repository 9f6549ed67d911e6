"""The first line of every screen while a fault is on."""

from __future__ import annotations

from collections.abc import Sequence

from openclaw_mem_tui.features.providers.render.faults import banner
from openclaw_mem_tui.render.spans import Line
from openclaw_mem_tui.widgets.line_view import Lines

_NONE: frozenset[str] = frozenset()


class Banner(Lines):
    """Hidden as long as all is healthy. A screen without a lab of its own asks the application's."""

    def __init__(self, *, here: bool = False, classes: str | None = None) -> None:
        super().__init__(classes=classes)
        self._here = here
        self._faults = _NONE

    def on_mount(self) -> None:
        lab = getattr(self.app, "lab", None)
        if lab is not None:
            self.show(lab.view.shown_faults)

    def show(self, faults: frozenset[str]) -> None:
        if faults != self._faults:
            self._faults = faults
            self.set_class(bool(faults), "-on")
            self.changed()

    def draw(self, cells: int) -> Sequence[Line]:
        return [banner(self._faults, cells, self._here)] if self._faults else []
