"""The base of every screen: its edges, its help, its workers, and actions that live in objects of their
own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ClassVar, Protocol

from textual import on
from textual.content import Content
from textual.screen import Screen
from textual.worker import Worker, WorkerState

from openclaw_mem_tui.bindings import ACTIONS, elsewhere
from openclaw_mem_tui.features.search.presenter import SearchPresenter
from openclaw_mem_tui.render import status
from openclaw_mem_tui.sync_controller import Job
from openclaw_mem_tui.widgets.dialogs import HelpScreen, Reading
from openclaw_mem_tui.widgets.edges import Banner, KeyBar
from openclaw_mem_tui.widgets.line_view import Pane


class Lab(Protocol):
    """What a subscreen asks of the search lab below it."""

    def resync(self, job: Job) -> None:
        """Sync, then answer the last query again."""

    def switch_faults(self, faults: frozenset[str]) -> None:
        """Simulate these faults, and answer the last query again."""


def title_of(text: str) -> str:
    """A text that is not ours for the frame of a widget, where Textual reads markup."""
    return Content(text).markup


class WorkbenchScreen(Screen[None]):
    """A subclass sets the class variables and its bindings, and composes a ``Banner``, a ``#top`` and a
    ``#keys``. ``draw`` is called when the state of the search or the size of the screen changed."""

    HORIZONTAL_BREAKPOINTS = [(0, "-tiny"), (60, "-narrow"), (100, "-wide")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-flat"), (16, "-short"), (30, "-tall")]  # noqa: RUF012
    #: Where its actions are declared in the table of bindings.
    WHERE: ClassVar[str]
    #: The action that opens it, which does nothing here.
    OPENED_BY: ClassVar[str] = ""
    #: Title at the top of a narrow and of a wide screen.
    TITLES: ClassVar[tuple[str, str]]
    #: How to read it, for the help.
    READING: ClassVar[Reading]

    def __init__(self, search: SearchPresenter) -> None:
        super().__init__()
        self.search = search

    def add_actions(self, *groups: object) -> None:
        """The ``action_*`` methods of these objects become actions of this screen: Textual looks them up by
        name on the screen."""
        for group in groups:
            for name in vars(type(group)):
                if name.startswith("action_"):
                    setattr(self, name, getattr(group, name))

    def on_mount(self) -> None:
        self.search.listen(self.search_changed)

    def on_unmount(self) -> None:
        self.search.unlisten(self.search_changed)

    def search_changed(self) -> None:
        """The state of the search or its activity has changed."""
        if self.is_mounted and self.is_current:
            self.draw()

    def on_resize(self) -> None:
        # The breakpoint's classes come with the new layout.
        self.call_after_refresh(self.draw)

    # -- drawing ------------------------------------------------------------------------------------------

    def draw(self) -> None:
        """Draw everything anew: here the banner, the top and the keys."""
        header, (short, long) = self.search.sync.header, self.TITLES
        self.query_one(Banner).show(self.search.view.shown_faults)
        self.query_one("#top", Pane).show(
            lambda cells: [status.top(header, cells, long if cells >= 100 else short)]
        )
        self.draw_keys()

    def draw_keys(self) -> None:
        """The keys at the bottom."""
        self.query_one("#keys", KeyBar).show(self.key_place(), self.idle_keys() | {self.OPENED_BY})

    def key_place(self) -> str:
        """Whose keys are shown at the bottom (``Action.where``)."""
        return self.WHERE

    def reading(self) -> Reading:
        """How to read what is drawn, for the help."""
        return self.READING

    def idle_keys(self) -> frozenset[str]:
        """Ids of actions that do nothing just now, and so are not at the bottom."""
        return frozenset()

    @property
    def narrow(self) -> bool:
        """One column."""
        return not self.has_class("-wide")

    # -- workers ------------------------------------------------------------------------------------------

    def run_in(self, work: Callable[[], Awaitable[object]], group: str, exclusive: bool = True) -> None:
        """Run a coroutine; with ``exclusive`` the one that runs in the group is cancelled."""
        self.run_worker(work, group=group, exclusive=exclusive, exit_on_error=False)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        error = event.worker.error
        if event.state is WorkerState.ERROR and error is not None:
            text = f"Unexpected {type(error).__name__}: {error}. This is a defect of openclaw-mem."
            self.search.trouble(text)

    # -- actions ------------------------------------------------------------------------------------------

    @on(KeyBar.Pressed)
    async def _key_pressed(self, event: KeyBar.Pressed) -> None:
        await self.app.run_action(event.action.command, self.focused or self)

    def action_palette(self) -> None:
        self.app.action_command_palette()

    def action_help(self) -> None:
        about = f"{self.HELP or ''} {getattr(self.focused, 'HELP', None) or ''}".strip()
        idle = {action.id for action in ACTIONS if not self.check_action(action.id, ())}
        self.app.push_screen(
            HelpScreen(about, self.reading(), elsewhere(self.WHERE) | idle | {self.OPENED_BY})
        )

    def action_quit(self) -> None:
        self.app.exit(0)
