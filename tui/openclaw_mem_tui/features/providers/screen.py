"""The providers screen: the chain and how it stands, faults to switch, and what they do to the last query."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult
from textual.containers import Container, Vertical

from openclaw_mem_engine.providers.faults import FAULTS
from openclaw_mem_tui.bindings import bindings
from openclaw_mem_tui.features.providers.presenter import ProviderDesk
from openclaw_mem_tui.features.providers.render import chain as chain_lines
from openclaw_mem_tui.features.providers.render import faults as fault_lines
from openclaw_mem_tui.features.search.presenter import Lab
from openclaw_mem_tui.screens.help import READING_CHAIN
from openclaw_mem_tui.screens.subscreen import OverScreen
from openclaw_mem_tui.widgets.banner import Banner
from openclaw_mem_tui.widgets.cursor_list import CursorList, Rows
from openclaw_mem_tui.widgets.key_bar import KeyBar
from openclaw_mem_tui.widgets.panes import Pane

if TYPE_CHECKING:
    from openclaw_mem_engine.providers.factory import ProviderState
    from openclaw_mem_engine.ranking.pool import Pool

_NAMES = tuple(FAULTS)


class ChainList(CursorList):
    HELP = "The chain: every provider in the order in which one is chosen, keywords at the end."


class FaultList(CursorList):
    HELP = "The faults are made here, on purpose: nothing is sent for them, and nothing is written down."


class ProvidersScreen(OverScreen):
    """Drawn from the lab's view and the desk's look. Where there is one column, the list with the focus and
    the pane that goes with it are shown."""

    WHERE, ACTION, READING = "providers", "show_providers", READING_CHAIN
    NAMES = "providers", "providers and fallback"
    BINDINGS = bindings("providers")  # type: ignore[assignment]
    HELP = "Who makes the vectors, who answers when that fails, and what an answer is like then."

    def __init__(self, lab: Lab, switch_faults: Callable[[frozenset[str]], None]) -> None:
        super().__init__(lab)
        self.desk = ProviderDesk(lab.service, self.draw)
        self._switch_faults = switch_faults
        self._pointed = False
        self._read_for: tuple[Pool | None, frozenset[str], str] | None = None

    def compose(self) -> ComposeResult:
        yield Banner(here=True)
        yield Pane(id="top")
        with Container(id="desk"):
            with Vertical(id="providers"):
                yield ChainList(id="chain")
                yield Pane(id="link", classes="pane")
            with Vertical(id="trials"):
                yield FaultList(id="faults")
                yield Pane(id="last", classes="pane")
        yield Pane(id="cache")
        yield Pane(id="status")
        yield KeyBar(id="keys")

    # -- widgets ------------------------------------------------------------------------------------------

    @property
    def chain(self) -> CursorList:
        return self.query_one("#chain", CursorList)

    @property
    def faults(self) -> CursorList:
        return self.query_one("#faults", CursorList)

    @property
    def link_pane(self) -> Pane:
        return self.query_one("#link", Pane)

    @property
    def last(self) -> Pane:
        return self.query_one("#last", Pane)

    @property
    def selected(self) -> ProviderState | None:
        """The link under the cursor."""
        links, at = self.desk.look.links, self.chain.cursor
        return links[at] if at < len(links) else None

    # -- life ---------------------------------------------------------------------------------------------

    def on_mount(self) -> None:
        self.chain.border_title, self.faults.border_title = "chain", "faults"
        # With its class first: a list that a narrow screen hides loses the focus that it was given.
        self._go_to(self.faults if self.lab.view.faults else self.chain)
        self.draw()

    def on_screen_resume(self) -> None:
        self._read_for = None
        self.heard()
        self.draw()

    def on_screen_suspend(self) -> None:
        # Nobody waits for a provider any more; its thread ends by itself.
        self.workers.cancel_group(self, "probe")

    def _arrived(self) -> None:
        """The first look at the chain: the cursor goes to who is in use."""
        links = self.desk.look.links
        if links and not self._pointed:
            self._pointed = True
            at = next((place for place, link in enumerate(links) if link.role == "primary"), 0)
            self.chain.action_go(at - self.chain.cursor)

    def heard(self) -> None:
        """The lab has changed: what it found out about a provider is in the chain."""
        if not self.is_mounted or not self.is_current:
            return
        view = self.lab.view
        now = (view.pool, view.shown_faults, self.lab.activity.phase)
        if now != self._read_for and not view.pending:
            self._read_for = now
            self.run_in(self.desk.read, "read")
        self.draw()

    # -- drawing ------------------------------------------------------------------------------------------

    def draw(self) -> None:
        if not self.is_mounted:
            return
        view, look, narrow = self.lab.view, self.desk.look, self.narrow
        self.draw_edges()
        self.chain.show(
            lambda cells, cursor: Rows(
                [chain_lines.header(cells)],
                [
                    [chain_lines.link_row(link, look, cells, at == cursor)]
                    for at, link in enumerate(look.links)
                ],
            )
        )
        self.faults.show(
            lambda cells, cursor: Rows(
                (),
                [
                    fault_lines.fault_rows(name, name in view.faults, cells, at == cursor)
                    for at, name in enumerate(_NAMES)
                ],
            )
        )
        self.last.border_title = "last query under this fault" if view.shown_faults else "last query"
        self.last.border_subtitle = "enter: compare in the lab" if view.query.strip() else ""
        self.last.show(lambda cells: fault_lines.last_query(view, cells))
        self.query_one("#cache", Pane).show(lambda cells: [chain_lines.cache(look, cells)])
        self._arrived()
        self.chain.border_subtitle = "r asks now" + " · tab: faults" * narrow
        self.faults.border_subtitle = "space switches · u clears" + " · tab: chain" * narrow
        self._draw_link()
        self._draw_status()

    def _draw_link(self) -> None:
        link, look = self.selected, self.desk.look
        name = chain_lines.title(link) if link is not None else "provider"
        self.link_pane.border_title = name
        self.link_pane.show(lambda cells: chain_lines.detail(link, look, cells))

    def _draw_status(self) -> None:
        look, lab = self.desk.look, self.lab
        self.query_one("#status", Pane).show(
            lambda cells: [chain_lines.status(look, lab.view, lab.activity, cells)]
        )

    # -- events -------------------------------------------------------------------------------------------

    @on(CursorList.Moved, "#chain")
    def _moved(self) -> None:
        self._draw_link()

    @on(CursorList.Chosen, "#faults")
    def _chosen(self) -> None:
        self.action_toggle_fault()

    # -- actions ------------------------------------------------------------------------------------------

    def action_next_list(self) -> None:
        self._go_to(self.faults if not self.faults.has_focus else self.chain)

    def _go_to(self, target: CursorList) -> None:
        self.set_class(target is self.faults, "-trials")
        self.set_focus(target)

    def on_descendant_focus(self) -> None:
        self.set_class(self.faults.has_focus, "-trials")

    def action_toggle_fault(self) -> None:
        """On: to the lab, where the healthy run is the baseline. Off: the healthy answer comes back."""
        if not self.faults.has_focus:
            self._go_to(self.faults)
            self.desk.say("space switches the fault under the cursor")
            return
        name, before = _NAMES[self.faults.cursor], self.lab.view.faults
        self._switch_faults(before ^ {name})
        if name not in before:
            self._compare()

    def action_clear_faults(self) -> None:
        if self.lab.view.faults:
            self._switch_faults(frozenset())
            self.desk.say("all faults are off")
        else:
            self.desk.say("no fault is on")

    def action_compare(self) -> None:
        self._compare()

    def _compare(self) -> None:
        self.app.pop_screen()
        if not self.lab.view.query.strip():
            self.lab.say("type a query: it is answered under the fault" if self.lab.view.faults else "")

    def action_pane_down(self) -> None:
        self._lower_pane.scroll_relative(y=3, animate=False)

    def action_pane_up(self) -> None:
        self._lower_pane.scroll_relative(y=-3, animate=False)

    @property
    def _lower_pane(self) -> Pane:
        return self.last if self.faults.has_focus else self.link_pane

    def action_probe(self) -> None:
        link = self.selected
        if link is None:
            return
        if not link.in_use:
            told = "keywords need no provider" if link.role == "keywords" else f"{link.name} is not in use"
            self.desk.say(told)
            return
        self.run_in(partial(self.desk.probe, link), "probe", exclusive=False)

    def action_leave(self) -> None:
        self.app.pop_screen()
