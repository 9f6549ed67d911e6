"""The cursor of the hit list while its rows are of an earlier query than the one that was asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openclaw_mem_tui.widgets.lists import CursorList

if TYPE_CHECKING:
    from openclaw_mem_tui.features.search.presenter import SearchPresenter


class MovesAhead(CursorList):
    """What is pressed behind a query is about its answer: the moves that are made on the rows before it are
    made again on those of the answer, from the first one."""

    def __init__(self, search: SearchPresenter) -> None:
        super().__init__(id="hits", classes="listed")
        self._search = search
        #: A query that is not answered yet, and the moves since it was asked.
        self._ahead: tuple[str, list[int]] = ("", [])

    @property
    def awaits(self) -> bool:
        """Whether the rows are of an earlier query than the one that is to be answered."""
        view = self._search.view
        return view.pending and (view.trace is None or view.trace.query != view.query)

    def action_go(self, step: int) -> None:
        if self.awaits:
            query = self._search.view.query
            self._ahead = (query, [*(self._ahead[1] if query == self._ahead[0] else ()), step])
        super().action_go(step)

    def catch_up(self) -> None:
        """Make these moves, once the rows of the answer are shown."""
        view = self._search.view
        if view.trace is None or self.awaits:
            return
        (query, steps), self._ahead = self._ahead, ("", [])
        for step in steps if query == view.trace.query else ():
            self.action_go(step)
