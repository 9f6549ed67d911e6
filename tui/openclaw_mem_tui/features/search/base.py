"""What the search lab's screen has: its widgets by name and the state that is not in the view."""

from __future__ import annotations

from typing import Literal

from textual.containers import Vertical
from textual.screen import Screen
from textual.scroll_view import ScrollView

from openclaw_mem_engine.api import Knobs, Row
from openclaw_mem_tui.features.search.guide import DemoGuide
from openclaw_mem_tui.features.search.hit_list import HitList
from openclaw_mem_tui.features.search.knob_panel import KnobPanel
from openclaw_mem_tui.features.search.presenter import DEBOUNCE, Lab
from openclaw_mem_tui.features.search.preview import Preview
from openclaw_mem_tui.features.search.query import QueryLine
from openclaw_mem_tui.features.search.state import Citations
from openclaw_mem_tui.widgets.banner import Banner
from openclaw_mem_tui.widgets.key_bar import KeyBar
from openclaw_mem_tui.widgets.panes import Pane, Waterfall

PreviewKind = Literal["snippet", "get", "markdown"]


class SearchBase(Screen[None]):
    """Names for widgets, and the parts that ``SearchScreen`` fills in."""

    lab: Lab
    guide: DemoGuide | None = None
    citations: Citations | None = None
    preview_kind: PreviewKind = "snippet"
    previewed: tuple[str, int, str | None] = ("", 0, None)
    last_lesson: int = 0
    #: A lesson was loaded and its answer is awaited: it opens on the row that it is about.
    lesson_opens: bool = False
    _lesson_at: int | None = None

    @property
    def lesson_at(self) -> int | None:
        """The lesson that is shown, None when the user has gone elsewhere."""
        return self._lesson_at

    @lesson_at.setter
    def lesson_at(self, place: int | None) -> None:
        self._lesson_at = place
        if place is not None:
            self.last_lesson = place

    # -- widgets ------------------------------------------------------------------------------------------

    @property
    def banner(self) -> Banner:
        return self.query_one(Banner)

    @property
    def top(self) -> Pane:
        return self.query_one("#top", Pane)

    @property
    def query_line(self) -> QueryLine:
        return self.query_one("#query", QueryLine)

    @property
    def strip(self) -> Pane:
        return self.query_one("#strip", Pane)

    @property
    def funnel(self) -> Pane:
        return self.query_one("#funnel", Pane)

    @property
    def lesson(self) -> Pane:
        return self.query_one("#lesson", Pane)

    @property
    def hits(self) -> HitList:
        return self.query_one("#hits", HitList)

    @property
    def waterfall(self) -> Waterfall:
        return self.query_one("#waterfall", Waterfall)

    @property
    def preview(self) -> Preview:
        return self.query_one("#preview", Preview)

    @property
    def knob_panel(self) -> KnobPanel:
        return self.query_one("#knobs", KnobPanel)

    @property
    def knob_box(self) -> Vertical:
        return self.query_one("#knob-box", Vertical)

    @property
    def hint(self) -> Pane:
        return self.query_one("#hint", Pane)

    @property
    def notes(self) -> Pane:
        return self.query_one("#notes", Pane)

    @property
    def status_line(self) -> Pane:
        return self.query_one("#status", Pane)

    @property
    def keys(self) -> KeyBar:
        return self.query_one("#keys", KeyBar)

    @property
    def knobs_open(self) -> bool:
        return self.has_class("-knobs")

    @property
    def lower_pane(self) -> ScrollView:
        """What J and K scroll."""
        narrow = self.has_class("-narrow")
        return self.preview if not narrow or self.has_class("-pane-preview") else self.waterfall

    def fit_waterfall(self) -> None:
        """While the knobs are open the waterfall is no taller than its text, for more knobs. It grows with
        the text and does not shrink again: a new layout at every step would cost more than the ranking."""
        styles = self.waterfall.styles
        fitted = styles.inline.has_rule("height")
        if self.knobs_open and self.has_class("-wide"):
            lines = min(12, max(5, len(self.waterfall.drawn) + 2))
            if not fitted or styles.height is None or lines > styles.height.value:
                styles.height = lines
        elif fitted:
            styles.height = None

    def draw_keys(self) -> None:
        """The bottom line for where the focus is."""
        focused = self.focused
        hidden = {"show_search"} if self.guide is not None else {"show_search", "guide", "next_lesson"}
        if focused is self.query_line:
            self.keys.show("query", frozenset(hidden))
        else:
            self.keys.show("knobs" if focused is self.knob_panel else "lab", frozenset(hidden))

    # -- filled in by the screen --------------------------------------------------------------------------

    def search_soon(self, delay: float = DEBOUNCE) -> None:
        raise NotImplementedError

    def resync(self) -> None:
        raise NotImplementedError

    def cancel_work(self) -> bool:
        raise NotImplementedError

    def show_row(self, row: Row | None) -> None:
        raise NotImplementedError

    def draw_hint(self) -> None:
        raise NotImplementedError

    def load_lesson(self, place: int) -> None:
        raise NotImplementedError

    def tune(self, knobs: Knobs) -> None:
        raise NotImplementedError
