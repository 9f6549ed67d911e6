"""The base of the screens that lie over the search lab, which keeps its state below them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ClassVar

from textual import on
from textual.content import Content
from textual.screen import Screen
from textual.worker import Worker, WorkerState

from openclaw_mem_tui.bindings import Where, elsewhere
from openclaw_mem_tui.features.search.presenter import Lab
from openclaw_mem_tui.render import status
from openclaw_mem_tui.screens.help import HelpScreen, Reading
from openclaw_mem_tui.widgets.banner import Banner
from openclaw_mem_tui.widgets.key_bar import KeyBar
from openclaw_mem_tui.widgets.panes import Pane


def inert_title(text: str) -> str:
    """A text that is not ours for the frame of a widget, where Textual reads markup."""
    return Content(text).markup


class OverScreen(Screen[None]):
    """Edges, help and the way to other screens. A subclass sets ``WHERE``, ``READING`` and its bindings, has
    a ``#top`` and a ``#keys``, and draws itself in ``draw``: called when the lab or the size changed."""

    HORIZONTAL_BREAKPOINTS = [(0, "-tiny"), (60, "-narrow"), (100, "-wide")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-flat"), (16, "-short"), (30, "-tall")]  # noqa: RUF012
    WHERE: ClassVar[Where]
    READING: ClassVar[Reading]
    #: The action that leads here, which does nothing here.
    ACTION: ClassVar[str] = ""
    #: Title at the top, for a width in cells.
    NAMES: ClassVar[tuple[str, str]] = ("", "")

    def __init__(self, lab: Lab) -> None:
        super().__init__()
        self.lab = lab

    def on_mount(self) -> None:
        self.lab.listen(self.heard)

    def on_unmount(self) -> None:
        self.lab.unlisten(self.heard)

    def heard(self) -> None:
        """The lab has changed."""
        if self.is_mounted and self.is_current:
            self.draw()

    def draw(self) -> None:
        """Draw everything anew."""
        raise NotImplementedError

    def draw_edges(self) -> None:
        """Banner, top and keys."""
        place, (short, long) = self.lab.place, self.NAMES
        self.query_one(Banner).show(self.lab.view.shown_faults)
        self.query_one("#top", Pane).show(
            lambda cells: [status.top(place, cells, long if cells >= 100 else short)]
        )
        self.draw_keys()

    def draw_keys(self) -> None:
        """The keys at the bottom."""
        self.query_one("#keys", KeyBar).show(self.WHERE, self.idle_keys() | {self.ACTION})

    def idle_keys(self) -> frozenset[str]:
        """Ids of actions that are of no use just now, and so are not at the bottom."""
        return frozenset()

    def run_in(self, work: Callable[[], Awaitable[object]], group: str, exclusive: bool = True) -> None:
        """Run a coroutine; with ``exclusive`` the one that runs in the group is cancelled."""
        self.run_worker(work, group=group, exclusive=exclusive, exit_on_error=False)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        if event.state is WorkerState.ERROR and event.worker.error is not None:
            error = event.worker.error
            self.lab.trouble(f"Unexpected {type(error).__name__}: {error}. This is a defect of openclaw-mem.")

    def on_resize(self) -> None:
        # The breakpoint's classes come with the new layout.
        self.call_after_refresh(self.draw)

    @property
    def narrow(self) -> bool:
        """One column."""
        return not self.has_class("-wide")

    @on(KeyBar.Pressed)
    async def _key_pressed(self, event: KeyBar.Pressed) -> None:
        await self.app.run_action(event.action.id, self)

    # -- actions ------------------------------------------------------------------------------------------

    async def action_show_search(self) -> None:
        await self.app.run_action("app.show_search")

    async def action_show_providers(self) -> None:
        await self.app.run_action("app.show_providers")

    async def action_show_index(self) -> None:
        await self.app.run_action("app.show_index")

    def action_palette(self) -> None:
        self.app.action_command_palette()

    def action_help(self) -> None:
        about = f"{self.HELP or ''} {getattr(self.focused, 'HELP', None) or ''}".strip()
        self.app.push_screen(HelpScreen(about, elsewhere(self.WHERE) | {self.ACTION}, self.READING))

    def action_quit(self) -> None:
        self.app.exit(0)
