"""The base of every screen: its edges, its help, its workers, and actions that live in objects of their
own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.screen import Screen
from textual.widget import Widget
from textual.worker import Worker, WorkerState

from openclaw_mem_tui.bindings import ACTIONS, elsewhere
from openclaw_mem_tui.features.search.presenter import SearchPresenter
from openclaw_mem_tui.memory_thread import Unexpected
from openclaw_mem_tui.render import status
from openclaw_mem_tui.sync_controller import Job
from openclaw_mem_tui.widgets.dialogs import HelpScreen, Reading, TextScreen
from openclaw_mem_tui.widgets.edges import Banner, KeyBar
from openclaw_mem_tui.widgets.line_view import Pane


class WorkbenchScreen(Screen[None]):
    """A subclass sets the class variables and its bindings, and overrides ``body``, ``draw_body`` and
    ``read_again``. ``draw`` is called when the state of the search or the size of the screen changed."""

    HORIZONTAL_BREAKPOINTS = [(0, "-tiny"), (60, "-narrow"), (100, "-wide")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-flat"), (16, "-short"), (30, "-tall")]  # noqa: RUF012
    #: Where its actions are declared in the table of bindings.
    WHERE: ClassVar[str]
    #: The action that opens it, which does nothing here.
    OPENED_BY: ClassVar[str] = ""
    #: Whether it shows the configured backend, whichever answers in the search lab.
    OF_CONFIGURED: ClassVar[bool] = False
    #: Title at the top of a narrow and of a wide screen.
    TITLES: ClassVar[tuple[str, str]]
    #: How to read it, for the help.
    READING: ClassVar[Reading]

    def __init__(self, search: SearchPresenter) -> None:
        super().__init__()
        self.search = search
        self._read_for: object = None

    def compose(self) -> ComposeResult:
        # Textual sets these classes after the first layout: another one would be seen for a moment.
        steps = (self.HORIZONTAL_BREAKPOINTS, self.VERTICAL_BREAKPOINTS)
        for size, limits in zip(self.app.size, steps, strict=True):
            self.add_class(max(limit for limit in limits if limit[0] <= size)[1])
        yield Banner()
        yield Pane(id="top")
        yield from self.body()
        yield KeyBar(id="keys")

    def body(self) -> Iterable[Widget]:
        """What is between the top and the keys."""
        return ()

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
            self.read_again()
            self.draw()

    def read_again(self) -> None:
        """Begin to read what is drawn, where the search has changed that."""

    def read_for(self, now: object, work: Callable[[], Awaitable[object]]) -> None:
        """Run ``work`` when ``now`` is another than last time, or the screen is shown again."""
        if now != self._read_for:
            self._read_for = now
            self.run_in(work, "read")

    def on_screen_resume(self) -> None:
        self._read_for = None
        self.search_changed()

    def on_resize(self) -> None:
        # The breakpoint's classes come with the new layout.
        self.call_after_refresh(self.draw)

    # -- drawing ------------------------------------------------------------------------------------------

    def draw(self) -> None:
        """Draw everything anew."""
        if not self.is_mounted:
            return
        header, (short, long) = self.search.sync.header, self.TITLES
        if self.OF_CONFIGURED and header.backend:
            header = replace(header, backend=self.search.service.configured_backend)
        self.query_one(Banner).show(self.search.view.shown_faults)
        self.query_one("#top", Pane).show(
            lambda cells: [status.top(header, cells, long if cells >= 100 else short)]
        )
        self.draw_keys()
        self.draw_body()

    def draw_body(self) -> None:
        """Draw what is between the top and the keys."""

    def draw_keys(self) -> None:
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
            self.search.trouble(str(Unexpected(error)))

    # -- other screens ------------------------------------------------------------------------------------

    def open(self, screen: WorkbenchScreen) -> None:
        """Show another screen over this one."""
        self.forget_message()
        self.app.push_screen(screen)

    def forget_message(self) -> None:
        """The last message is about what was done on this screen: no other one shows it."""
        self.search.say("")
        getattr(self, "presenter", self.search).say("")

    # -- actions ------------------------------------------------------------------------------------------

    @on(KeyBar.Pressed)
    async def _key_pressed(self, event: KeyBar.Pressed) -> None:
        await self.app.run_action(event.action.command, self.focused or self)

    def action_palette(self) -> None:
        self.app.action_command_palette()

    def action_remember(self) -> None:
        from openclaw_mem_tui.features.curate.remember import RememberScreen

        def written(said: str | None) -> None:
            if said:
                self.remembered(said)

        self.app.push_screen(RememberScreen(self.search), written)

    def remembered(self, said: str) -> None:
        """A note was written: say so, and bring the index up to date where nothing watches the notes."""
        getattr(self, "presenter", self.search).say(said)
        if not self.search.service.settings.sync.watch:
            self.app.search_screen.resync(Job(tails=True))  # type: ignore[attr-defined]

    def action_help(self) -> None:
        of_focused = getattr(self.focused, "about", "") or getattr(self.focused, "HELP", "")
        about = f"{self.HELP or ''} {of_focused or ''}".strip()
        idle = {action.id for action in ACTIONS if not self.check_action(action.id, ())}
        hidden = elsewhere(self.WHERE) | idle | {self.OPENED_BY}
        self.app.push_screen(HelpScreen(about, self.reading(), hidden))

    def action_messages(self) -> None:
        """Every message in full: lines of a screen are cut where room is short."""
        own = getattr(getattr(self, "presenter", None), "state", None)
        others = [text for text in (getattr(own, "trouble", ""), getattr(own, "said", "")) if text]
        drawer = partial(status.messages, self.search.view, self.search.activity, others=others)
        self.app.push_screen(TextScreen("messages", drawer))

    @property
    def lower_pane(self) -> Pane:
        """What J and K scroll."""
        return self.query_one(".pane", Pane)

    def action_scroll_pane(self, lines: int) -> None:
        self.lower_pane.scroll_relative(y=lines, animate=False)

    def action_leave(self) -> None:
        self.app.pop_screen()

    def action_quit(self) -> None:
        self.app.exit(0)
