"""What the search lab does, without a screen: coroutines that turn engine calls into new state.

The screen runs them as workers and draws what ``publish`` announces. Errors never leave here: they become
``View.error`` or ``Activity.trouble``.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from openclaw_mem_engine.api import Cancelled, Knobs, OpenClawMemError
from openclaw_mem_tui.features.search.state import (
    History,
    View,
    answered,
    asked,
    failed,
    needs_baseline_pool,
    needs_retrieval,
    opened,
    tuned,
    with_faults,
)
from openclaw_mem_tui.service import Service
from openclaw_mem_tui.sync_controller import Keeper

#: Quiet time after a key press before a search begins, in seconds.
DEBOUNCE = 0.06


class Lab(Keeper):
    """Holds the present ``view`` besides the activity; those who ``listen`` are called after each change of
    either. ``faults`` are on from the start."""

    def __init__(self, service: Service, demo: bool = False, faults: frozenset[str] = frozenset()) -> None:
        super().__init__(service, demo)
        self.view = View(Knobs(), Knobs(), faults=faults)
        self.history = History()

    def set_view(self, view: View) -> None:
        if view is not self.view:
            self.view = view
            self.publish()

    # -- opening ------------------------------------------------------------------------------------------

    async def open(self) -> bool:
        """Open the index and learn the configuration. False, with the reason on the screen, when it fails."""
        self._activity(phase="opening", trouble="", said="")
        try:
            await self.service.open()
        except OpenClawMemError as error:
            self._activity(phase="failed", trouble=str(error))
            return False
        settings = self.service.settings
        self.place = replace(self.place, agent=settings.agent, workspace=str(settings.workspace))
        self._activity(phase="ready")
        self.set_view(opened(self.view, self.service.knobs))
        await self.look()
        return True

    # -- searching ----------------------------------------------------------------------------------------

    def ask(self, query: str) -> bool:
        """Take a new query over; True when a search is needed."""
        if query == self.view.query and not self.view.error:
            return False
        self.activity = replace(self.activity, said="", noted="")
        self.set_view(asked(self.view, query))
        return needs_retrieval(self.view)

    def tune(self, knobs: Knobs) -> bool:
        """Take new knobs over, ranked at once when that is possible; True when a search is needed."""
        self.activity = replace(self.activity, said="")
        self.set_view(tuned(self.view, knobs))
        return needs_retrieval(self.view) or (needs_baseline_pool(self.view) and self.view.baseline is None)

    def switch(self, faults: frozenset[str]) -> None:
        """Switch faults on and off; the next search brings them about."""
        self.activity = replace(self.activity, said="", noted="", trouble="")
        self.set_view(with_faults(self.view, faults))

    async def _bring_about(self, faults: frozenset[str]) -> None:
        """Let the memory with these faults answer, or say why it cannot be had and go on as before."""
        try:
            await self.service.set_faults(faults)
        except OpenClawMemError as error:
            if self.view.faults == faults:
                self.set_view(replace(self.view, faults=self.service.faults))
            self.trouble(f"The fault could not be switched on: {error}")

    async def refresh(self) -> None:
        """Ask the same again, after the index has changed."""
        if self.view.query.strip():
            said = self.activity.said
            self.set_view(replace(self.view, pending=True))
            await self.search(0.0)
            self._activity(said=said)

    async def search(self, delay: float = DEBOUNCE) -> None:
        """Retrieve for the present query and knobs, then rank. Cancel it when something newer is asked."""
        if delay:
            await asyncio.sleep(delay)
        if not self.service.is_open:
            return
        if self.view.faults != self.service.faults:
            await self._bring_about(self.view.faults)
        view = self.view
        if not view.query.strip() or view.faults != self.service.faults:
            return
        self._activity(searching=True)
        try:
            pool = await self.service.retrieve(view.query, view.knobs)
            other = None
            if needs_baseline_pool(view):
                other = await self.service.retrieve(
                    view.query, view.baseline_knobs, healthy=bool(view.faults)
                )
        except Cancelled:
            return
        except OpenClawMemError as error:
            self.set_view(failed(self.view, str(error)))
            return
        finally:
            self._activity(searching=False)
        now = self.view
        same_key = now.knobs.retrieval_key == view.knobs.retrieval_key
        if now.query == view.query and same_key and now.faults == view.faults:
            self.set_view(answered(now, pool, other))
        if pool.freshness is not None:
            self._activity(freshness=pool.freshness)

    def give_up(self) -> None:
        """The user cancelled a search: what is shown stays, and says so."""
        if self.view.pending:
            self.set_view(failed(self.view, "Search cancelled; the rows below answer an earlier query."))
