"""The presenter of the search lab: coroutines and plain methods that turn engine calls into new views.

The screen runs the coroutines as workers and draws what is published. Errors never leave here: they become
``View.error`` or ``Activity.trouble``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from openclaw_mem_engine.api import Cancelled, Expected, Knobs, OpenClawMemError, UsageError
from openclaw_mem_tui.bindings import key
from openclaw_mem_tui.features.search import start_page, state
from openclaw_mem_tui.features.search.baseline import Pin
from openclaw_mem_tui.features.search.comparison import synced
from openclaw_mem_tui.features.search.history import History, Steps
from openclaw_mem_tui.features.search.lessons import Guide, left_lesson, left_said, with_lesson
from openclaw_mem_tui.features.search.remembered import NOTHING, Remembered
from openclaw_mem_tui.features.search.start_page import StartPage
from openclaw_mem_tui.features.search.state import View
from openclaw_mem_tui.presenter import Presenter
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.damage import DAMAGED
from openclaw_mem_tui.render.reports import Done
from openclaw_mem_tui.render.status import Activity
from openclaw_mem_tui.service import NO_FAULTS, Service
from openclaw_mem_tui.sync_controller import Job, SyncController

if TYPE_CHECKING:
    from openclaw_mem_engine.api import Pool, Settings

#: Quiet time after a key press before a search begins, in seconds.
DEBOUNCE = 0.06

FAULT_BASELINE = "with a simulated fault, the run without it is the baseline"


class SearchPresenter(Presenter[View]):
    """Its state is the present ``View``. Listeners are called too when the activity of ``sync`` changes.
    ``faults`` are simulated from the start; ``guide`` has the demo's lessons; ``notice`` is said first."""

    def __init__(
        self,
        service: Service,
        guide: Guide | None = None,
        faults: frozenset[str] = NO_FAULTS,
        session_key: str = "",
        remembered: Remembered = NOTHING,
        notice: str = "",
    ) -> None:
        super().__init__(service, View(Knobs(), Knobs(), faults=faults, session_key=session_key.strip()))
        self.sync = SyncController(service, guide is not None, self.refresh)
        self.sync.listen(self.publish)
        self.history = History(queries=list(remembered.queries))
        self.steps = Steps()
        #: What the last session, or starting over, left, until it is continued.
        self.remembered, self._notice = remembered, fmt.join((notice, remembered.trouble))
        self.guide, self.start_page = guide, StartPage()
        self.draft = ""  # of a text to remember
        #: The lesson that is shown; None when another query was asked since.
        self.lesson_at: int | None = None
        #: The one that was asked for last, and whether its backend is awaited.
        self.last_lesson, self.awaits_lesson = 0, False
        #: Knobs and lesson of each backend when another one took over.
        self.left: dict[str, tuple[Knobs, int | None]] = {}
        #: The backend that was asked for last; "" before.
        self.wanted = ""

    @property
    def view(self) -> View:
        return self.state

    @property
    def activity(self) -> Activity:
        return self.sync.state

    def say(self, text: str) -> None:
        self.sync.say(text)

    def trouble(self, text: str) -> None:
        self.sync.trouble(text)

    def _show(self, view: View) -> None:
        if view is not self.state:
            self.state = view
            self.publish()

    # -- opening ------------------------------------------------------------------------------------------

    async def open(self) -> bool:
        """Open the index and read the configuration. False, with the reason on the screen, when it fails."""
        again = self.activity.phase == "failed"
        self.sync.update(phase="opening", trouble="", said="", damage=None)
        try:
            await self.service.open()
        except OpenClawMemError as error:
            self.sync.update(phase="failed", trouble=str(error))
            return False
        settings, damage = self.service.settings, self.service.damage
        header = replace(self.sync.header, agent=settings.agent, workspace=str(settings.workspace))
        self.sync.header = replace(header, backend=self.service.backend)
        said = DAMAGED if again and damage else ""
        self.sync.update(phase="failed" if damage else "ready", damage=damage, said=said)
        expected = await self.service.read(lambda memory: memory.expected.queries())
        opened = state.opened(self.view, self.service.knobs, self.service.backend)
        self._show(replace(opened, expected=expected, settings=settings))
        await self.sync.read_status()
        return damage is None

    async def begin(self) -> None:
        """After the sync at the start: say what is to be said after what that did, which may be a repair, and
        read what is shown before there is a query."""
        if self._notice:
            self.say(fmt.join((self.activity.said, self._notice)))
        if self.guide is None:
            with suppress(OpenClawMemError):  # the first search says it
                now = self.service.clock()
                self.start_page = await self.service.read(lambda memory: start_page.read(memory, now))
                self.sync.take_errors(self.start_page.errors, stuck=self.start_page.stuck)

    # -- searching ----------------------------------------------------------------------------------------

    def ask(self, query: str) -> bool:
        """Take a new query over; True when a search is needed."""
        if query == self.view.query and not self.view.error:
            return False
        said = self.activity.said if self.activity.said == left_said() else ""  # until all is typed
        if self.guide is not None and self.lesson_at is not None:
            lesson, before = self.guide[self.lesson_at], self.view
            if query != lesson.query:
                self.lesson_at, self.state = None, left_lesson(before, lesson)
                if self.view.knobs != before.knobs:
                    self.steps.made(before.tried)
                    said = left_said()
        self.sync.update(said=said, noted="")
        self._show(state.asked(self.view, query))
        return state.needs_retrieval(self.view)

    def tune(self, knobs: Knobs, *, by_step: bool = False) -> bool:
        """Take new knobs over, ranked at once when that is possible; True when a search is needed.
        ``by_step``: they are those of a step that was undone or redone, and no step of their own."""
        self.sync.update(said="")
        if knobs != self.view.knobs and not by_step:
            self.steps.made(self.view.tried)
        self._show(state.tuned(self.view, knobs))
        view = self.view
        return state.needs_retrieval(view) or (view.baseline is None and state.needs_baseline_pool(view))

    def pin_baseline(self) -> None:
        """The shown run becomes the baseline."""
        if self.view.shown_faults:
            self.say(FAULT_BASELINE)
        elif not self.view.answers:
            self.say("there is no run to pin yet")
        elif self.pin_run():
            self.say(f"this run is the baseline; {key('clear_baseline')} restores the configured one")

    def pin_run(self, name: str = "pinned", made: Knobs | None = None) -> bool:
        """As ``state.pinned``; False when there is no shown run, or a fault is on."""
        before = self.view
        self._show(state.pinned(before, name, made))
        return self.view is not before

    def compare_with(self, pin: Pin | None = None, against: Knobs | None = None) -> bool:
        """As ``state.against``; True when a search is needed."""
        self.sync.done = Done()
        self._show(state.against(self.view, pin, against))
        return state.needs_baseline_pool(self.view)

    def swap(self, *, by_step: bool = False) -> bool:
        """The knobs of the baseline for those of the shown run; True when a search is needed."""
        if not by_step:
            self.steps.made(self.view.tried._replace(by_swap=True))
        knobs, self.state = self.view.baseline_knobs, state.swapped(self.view)
        return self.tune(knobs, by_step=True)

    def configure(self, knobs: Knobs, settings: Settings) -> bool:
        """Other knobs are configured from now on; True when the baseline needs a search."""
        self.service.configure(knobs)
        self._show(state.tuned(replace(self.view, defaults=knobs, settings=settings), self.view.knobs))
        return state.needs_baseline_pool(self.view)

    def expect(self, expected: Mapping[Expected, str]) -> None:
        """These passages are expected from now on, each at its query."""
        self._show(replace(self.view, expected=expected))

    async def refresh(self) -> None:
        """Ask the same again, after the index has changed."""
        if self.view.query.strip():
            before = self.view
            self._show(replace(before, pending=True))
            await self.search(0.0)
            if self.sync.follows and self.activity.task == "sync":  # neither at the start nor of a rebuild
                self._show(synced(before, self.view))

    async def search(self, delay: float = DEBOUNCE) -> None:
        """Retrieve for the present query and knobs, then rank; first wait ``delay`` seconds. Cancel it when
        something newer is asked."""
        if delay:
            await asyncio.sleep(delay)
        if not self.service.is_open or self.activity.phase == "failed":
            return
        if self.view.faults != self.service.faults:
            await self._set_faults(self.view.faults)
        view = self.view
        if not view.query.strip() or view.faults != self.service.faults:
            return
        self.sync.update(searching=True)
        try:
            pool = await self.service.retrieve(
                view.query,
                view.knobs,
                on_scores=lambda pool: self._scored(view, pool),
                session_key=view.session_key,
            )
            pool = self.sync.take_answer(pool)
            other = None
            if state.needs_baseline_pool(view):
                other = await self.service.retrieve(
                    view.query,
                    view.baseline_knobs,
                    healthy=bool(view.faults),
                    backend=view.other_backend,
                    session_key=view.session_key,
                )
        except Cancelled:
            return
        except OpenClawMemError as error:
            self._show(state.unanswered(self.view, str(error)))
            return
        finally:
            self.sync.update(searching=False)
        if self._asks(view) and not self._is_too_early(pool):
            self._show(state.answered(self.view, pool, other))
        if pool.freshness is not None:
            self.sync.take_freshness(pool.freshness)

    def _is_too_early(self, pool: Pool) -> bool:
        """Whether the sync that builds the first index still runs: it asks again when it ends."""
        fresh = pool.freshness
        return fresh is not None and fresh.state == "empty" and self.activity.phase == "syncing"

    def _asks(self, view: View) -> bool:
        """Whether an answer to ``view`` is one to the present query and knobs."""
        now = self.view
        same_key = now.knobs.retrieval_key == view.knobs.retrieval_key
        asks = (now.query, now.session_key) == (view.query, view.session_key)
        same_memory = (now.faults, now.backend) == (view.faults, view.backend)
        return asks and same_key and same_memory

    def _scored(self, view: View, pool: Pool) -> None:
        """Show the rows while their rerank scores arrive."""
        if self._asks(view) and self.activity.searching:
            self._show(state.scored(self.view, pool))

    def give_up(self) -> None:
        """The user cancelled a search: what is shown stays, and says so."""
        if self.view.pending:
            of = "; the rows below are of an earlier query" if self.view.trace is not None else ""
            self._show(state.failed(self.view, f"Search cancelled{of}."))
        elif self.view.scoring:
            self._show(state.failed(self.view, "Reranking cancelled; not every row has its rerank score."))

    def ask_as(self, session_key: str) -> bool:
        """Ask for another session from now on ("": a direct chat); True when a search is needed."""
        self._show(state.as_session(self.view, session_key))
        self.say(f"session key: {session_key}" if session_key else "no session key")
        return state.needs_retrieval(self.view)

    # -- the other backend --------------------------------------------------------------------------------

    def uses(self, name: str) -> bool:
        """Whether this backend answers, and is to answer."""
        return name == self.view.backend and self.wanted in ("", name)

    async def use_backend(self, name: str) -> bool:
        """Let a backend answer from now on; its index is synced first. The configuration stays as it is.
        False when another one is wanted meanwhile, or, with the reason on the screen, when it cannot be
        opened."""
        try:
            if await self.service.open_backend(name):
                await self.sync.sync(Job(f"the index of {name}"))
            if name != self.wanted:
                return False
            await self.service.set_backend(name)
        except OpenClawMemError as error:
            self.wanted = ""
            self.trouble(f"The backend {name} cannot be used: {error}")
            return False
        self.left[self.view.backend] = self.view.knobs, self.lesson_at
        view = state.with_backend(self.view, name, self.service.knobs)
        knobs, lesson = self.left.get(name, (view.knobs, None))
        asked = None if lesson is None or self.guide is None else self.guide[lesson].query
        if asked not in (None, view.query):  # the knobs of a lesson are for its query alone
            knobs, lesson = view.knobs, None
        self.lesson_at = lesson
        self._show(replace(view, knobs=knobs))
        self.steps.forget_knobs(self.view.tried)
        await self.sync.read_status()
        return True

    def backend_of(self, number: int) -> str:
        """The backend that a lesson asks."""
        return (self.guide[number].backend if self.guide else "") or self.service.configured_backend

    # -- simulated faults ---------------------------------------------------------------------------------

    def switch_faults(self, faults: frozenset[str], *, by_step: bool = False) -> None:
        """Simulate these faults; they take effect with the next search. ``by_step``: as for ``tune``."""
        if faults != self.view.faults and not by_step:
            self.steps.made(self.view.tried)
        self.sync.instead = ""
        self.sync.update(said="", noted="", trouble="")
        self._show(state.with_faults(self.view, faults))

    async def _set_faults(self, faults: frozenset[str]) -> None:
        """Let the memory with these faults answer, or say why it cannot be opened and go on as before."""
        try:
            await self.service.set_faults(faults)
        except OpenClawMemError as error:
            if self.view.faults == faults:
                self._show(replace(self.view, faults=self.service.faults))
            self.trouble(f"The fault could not be switched on: {error}")

    # -- lessons of the demo ------------------------------------------------------------------------------

    def load_lesson(self, number: int) -> bool:
        """Take a lesson's query over with its knobs, against its baseline. False, with the reason on the
        screen, when its knobs are refused."""
        if self.guide is None:
            return False
        try:
            view = with_lesson(self.view, self.guide[number])
        except UsageError as error:
            self.trouble(str(error))
            return False
        self.steps.forget_knobs(view.tried)
        self.lesson_at, self.awaits_lesson = number, False
        self._show(view)
        self.history.add(view.query)
        return True

    def lesson_after(self, step: int) -> int:
        """The number of the lesson ``step`` further than the last one; of that one when none is shown."""
        count = len(self.guide) if self.guide is not None else 1
        return (self.last_lesson + step * (self.lesson_at is not None or self.awaits_lesson)) % count
