"""The keys of the search lab that ask about one passage: why not, and to expect it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from openclaw_mem_tui.bindings import key
from openclaw_mem_tui.features.search.actions import when_answered
from openclaw_mem_tui.features.search.baseline import BEFORE
from openclaw_mem_tui.features.search.lab import Lab
from openclaw_mem_tui.features.why_not.expect import holds, stop_any, toggle

if TYPE_CHECKING:
    from openclaw_mem_engine.api import Expected, Knobs


class WhyNotActions(Lab):
    """The screen and the picker are loaded when they are first shown."""

    def action_why_not(self) -> None:
        """For the selected row; without one, for a line that is picked."""
        if when_answered(self, self.action_why_not):
            return
        hits = self.hits
        if (passage := hits.passage) is None or not self.search.service.is_open:
            self.action_why_not_any()
        else:
            self._open(passage, hits.selected.chunk_id if hits.selected is not None else None)

    def action_why_not_any(self) -> None:
        if not self.search.view.query.strip():
            self.search.say("search first: why not needs a query")
        elif self.search.service.is_open:
            from openclaw_mem_tui.features.why_not.picker import pick_passage

            self.run_in(partial(pick_passage, self, self._open), "pick")

    def action_expect(self) -> None:
        if when_answered(self, self.action_expect):
            return
        if (passage := self.hits.passage) is None:
            self.search.say(f"no passage is selected: {key('why_not_any')} finds any line")
            return
        self.run_in(partial(toggle, self.search, passage), "expect")

    def action_expected(self) -> None:
        if self.search.service.is_open:
            stop_any(self)

    def _open(self, passage: Expected, chunk_id: str | None = None) -> None:
        from openclaw_mem_tui.features.why_not.screen import WhyNotScreen

        self.open(WhyNotScreen(self.search, passage, self._tune, chunk_id))

    def _tune(self, knobs: Knobs, passage: Expected) -> None:
        """Other knobs for the same query, compared with the run before them; their answer opens on the
        passage, where it is returned."""
        search, query = self.search, self.search.view.query

        def point() -> None:
            view = search.view
            if (view.query, view.knobs) != (query, knobs):
                search.unlisten(point)
            elif view.answers and view.trace is not None:
                search.unlisten(point)
                self.preview.asked = (query, passage)
                self.hits.point_at([row for row in view.trace.returned if holds(row, passage)])
                self.show_row()

        search.pin_run(BEFORE, knobs)  # whatever it was compared with says nothing of this change
        self.tune(knobs)
        search.listen(point)
        point()
