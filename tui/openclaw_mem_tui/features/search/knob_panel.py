"""The knob panel: a cursor over all knobs; steps are reported, never applied here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual import events
from textual.binding import Binding
from textual.message import Message
from textual.strip import Strip

from openclaw_mem_engine.api import Knobs
from openclaw_mem_tui.bindings import bindings
from openclaw_mem_tui.features.search.render import knobs as knob_lines
from openclaw_mem_tui.features.search.state import KNOB_NAMES
from openclaw_mem_tui.render.spans import Line
from openclaw_mem_tui.widgets.line_view import Lines


class KnobPanel(Lines, can_focus=True, inherit_bindings=False):
    """All knobs; the selected one moves with left and right."""

    COMPONENT_CLASSES = {"knobs--cursor"}  # noqa: RUF012 - Textual reads it from the class
    HELP = "Every ranking knob, live. Values that differ from the configuration are bold."
    BINDINGS = [  # noqa: RUF012 - Textual reads it from the class
        *bindings("knobs"),
        Binding("up,k", "go(-1)", show=False),
        Binding("down,j", "go(1)", show=False),
        Binding("home", "go(-100)", show=False),
        Binding("end,G", "go(100)", show=False),
    ]

    @dataclass
    class Step(Message):
        """One press: ``direction`` is -1 or +1."""

        name: str
        direction: int
        large: bool

    @dataclass
    class Reset(Message):
        name: str

    class Moved(Message):
        """The cursor is on another knob."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.knobs = Knobs()
        self.defaults = Knobs()
        self.cursor = KNOB_NAMES.index("min_score")

    def show(self, knobs: Knobs, defaults: Knobs) -> None:
        self.knobs, self.defaults = knobs, defaults
        self.changed()

    @property
    def name_at_cursor(self) -> str:
        return KNOB_NAMES[self.cursor]

    def draw(self, cells: int) -> Sequence[Line]:
        return knob_lines.panel(self.knobs, self.defaults, cells, self.cursor)

    def painted(self, index: int) -> Strip:
        if index != self.cursor:
            return super().painted(index)
        base = self.rich_style + self.get_component_rich_style("knobs--cursor", partial=True)
        return self.paint(self.drawn[index], base, self.cells)

    def action_go(self, step: int) -> None:
        before = self.cursor
        self.cursor = max(0, min(len(KNOB_NAMES) - 1, self.cursor + step))
        for index in (before, self.cursor):
            self._painted.pop((index, self.cells), None)
        self.changed()
        self.follow()
        self.post_message(self.Moved())

    def follow(self) -> None:
        top, height = self.scroll_offset.y, self.size.height
        if self.cursor < top:
            self.scroll_to(y=self.cursor, animate=False)
        elif height and self.cursor >= top + height:
            self.scroll_to(y=self.cursor - height + 1, animate=False)

    def action_less(self) -> None:
        self.post_message(self.Step(self.name_at_cursor, -1, False))

    def action_more(self) -> None:
        self.post_message(self.Step(self.name_at_cursor, 1, False))

    def action_much_less(self) -> None:
        self.post_message(self.Step(self.name_at_cursor, -1, True))

    def action_much_more(self) -> None:
        self.post_message(self.Step(self.name_at_cursor, 1, True))

    def action_reset_knob(self) -> None:
        self.post_message(self.Reset(self.name_at_cursor))

    def on_resize(self, event: events.Resize) -> None:
        super().on_resize(event)
        self.call_after_refresh(self.follow)

    def on_click(self, event: events.Click) -> None:
        index = event.y - self.gutter.top + self.scroll_offset.y
        if 0 <= index < len(KNOB_NAMES):
            self.action_go(index - self.cursor)
