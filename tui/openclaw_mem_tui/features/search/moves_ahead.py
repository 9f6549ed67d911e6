"""The cursor of the hit list while its rows are of an earlier query than the one that was asked."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from openclaw_mem_tui.widgets.lists import CursorList

if TYPE_CHECKING:
    from openclaw_mem_tui.features.search.presenter import SearchPresenter


class MovesAhead(CursorList):
    """What is pressed behind a query is about its answer: the moves before it are made on its rows, from the
    first one."""

    def __init__(self, search: SearchPresenter) -> None:
        super().__init__(id="hits", classes="listed")
        self._search = search
        #: A query that is not answered yet, and the moves since it was asked.
        self._ahead: tuple[str, list[Callable[[], object]]] = ("", [])

    @property
    def awaits(self) -> bool:
        """Whether the rows are of an earlier query than the one that is to be answered."""
        view = self._search.view
        return view.pending and (view.trace is None or view.trace.query != view.query)

    def defers(self, move: Callable[[], object]) -> bool:
        """Whether a move is to be made on the answer."""
        if self.awaits:
            query = self._search.view.query
            self._ahead = (query, [*(self._ahead[1] if query == self._ahead[0] else ()), move])
        return self.awaits

    def action_go(self, step: int) -> None:
        self.defers(partial(self.action_go, step))
        super().action_go(step)  # seen at once, should the answer take long

    def action_turn(self, pages: float) -> None:
        if not self.defers(partial(self.action_turn, pages)):
            super().action_turn(pages)

    def go_to_match(self, step: int) -> bool:
        return self.defers(partial(self.go_to_match, step)) or super().go_to_match(step)

    def catch_up(self) -> None:
        """Make these moves, once the rows of the answer are shown."""
        view = self._search.view
        if view.trace is None or self.awaits:
            return
        (query, moves), self._ahead = self._ahead, ("", [])
        for move in moves if query == view.trace.query else ():
            move()
