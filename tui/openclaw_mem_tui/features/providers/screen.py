"""The providers screen: the chain and its states, faults to simulate, and what they do to the last query."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult
from textual.containers import Container, Vertical

from openclaw_mem_engine.api import FAULTS
from openclaw_mem_tui.bindings import bindings, key
from openclaw_mem_tui.features.providers import answer, render
from openclaw_mem_tui.features.providers.presenter import ChainState, ProvidersPresenter
from openclaw_mem_tui.features.search.presenter import SearchPresenter
from openclaw_mem_tui.features.search.steps import take_step
from openclaw_mem_tui.list_screen import ListScreen
from openclaw_mem_tui.render.spans import Line, Reading, wrapped
from openclaw_mem_tui.widgets.edges import KeyBar
from openclaw_mem_tui.widgets.frames import markup
from openclaw_mem_tui.widgets.line_view import Pane
from openclaw_mem_tui.widgets.lists import CursorList
from openclaw_mem_tui.widgets.wrapped import WrappedTable

if TYPE_CHECKING:
    from openclaw_mem_engine.api import ProviderState
    from openclaw_mem_tui.features.search.screen import SearchScreen

_NAMES = tuple(FAULTS)
#: The role of the provider that a fault is about, where it is not the primary.
_ABOUT = {"no-fts5": "bm25"} | {name: "backend" for name in FAULTS if name.startswith("qmd-")}

READING: Reading = (
    ("● active", "used by searches now"),
    ("○ ready", "ready for use, or used in addition"),
    ("✗ paused", "failed; searches try it again from the time shown"),
    ("· not selected", "not in use"),
    ("primary", "whose vectors are searched"),
    ("fallback", "used when the primary fails"),
    ("also", "its vectors are kept too, for comparison"),
    ("BM25", "search by words, with or without vectors"),
    ("backend", "the external qmd, with its own vectors"),
)


_CHAIN = "The list shows them in the order of selection, BM25 last; data says where queries and notes go."
_FAULTS = (
    "Faults are simulated: no request is sent for them, and nothing is recorded. For a fault of qmd, "
    "qmd itself is not run."
)


class ProvidersScreen(ListScreen[ProvidersPresenter]):
    """Drawn from the view of the search too. Where there is one column, the list with the focus and the pane
    that goes with it are shown."""

    WHERE, reading = "providers", READING
    OF_CONFIGURED = False
    CSS_PATH = "styles.tcss"
    BINDINGS = bindings("providers")  # type: ignore[assignment]
    HELP = "This screen shows which provider makes the vectors, and what is used when it fails."

    def __init__(self, search: SearchPresenter, lab: SearchScreen) -> None:
        super().__init__(search, lab, ProvidersPresenter(search.service))
        self.chain: WrappedTable[Sequence[ProviderState]] = WrappedTable(_CHAIN, id="chain", classes="listed")
        self.faults: WrappedTable[str] = WrappedTable(_FAULTS, id="faults", classes="listed")
        self.link_pane, self.last = Pane(id="link", classes="pane"), Pane(id="last", classes="pane")
        self.use_lists(self.link_pane, self.chain, self.faults)
        if search.view.faults:
            self.at = self.faults
        self._pointed, self._faults = 0, search.view.faults

    def body(self) -> ComposeResult:
        with Container(id="providers-body"):
            with Vertical(id="providers"):
                yield self.chain
                yield self.link_pane
            with Vertical(id="trials"):
                yield self.faults
                yield self.last
        yield Pane(id="cache")

    @property
    def selected(self) -> Sequence[ProviderState]:
        """The provider under the cursor, or the several of its row."""
        return self.chain.selected or ()

    def on_screen_suspend(self) -> None:
        # The outcome of a probe is not shown any more; its thread ends by itself.
        self.workers.cancel_group(self, "probe")

    def read_again(self) -> None:
        """What a search found out about a provider is in the chain."""
        view = self.search.view
        if not view.pending:
            now = (view.pool, view.shown_faults, self.search.activity.phase)
            self.read_for(now, self.presenter.read)

    def draw_body(self) -> None:
        view, state = self.search.view, self.presenter.state
        rows = render.grouped(state.links)
        alone = self.has_class("-tiny") or self.has_class("-flat")
        damaged = self.search.activity.damage is not None
        self.chain.show_wrapped(rows, partial(render.link_row, state, alone, damaged), head=render.header)
        self.faults.show_wrapped(_NAMES, partial(render.fault_rows, view.faults))
        under = {0: "", 1: " with this fault"}.get(len(view.shown_faults), " with these faults")
        self.label(self.last, f"last query{under}")
        height = 0 if self.narrow else self.size.height
        waits = self.waits
        last = partial(answer.last_query, view, height)
        self.last.show((lambda cells: wrapped(waits, cells - 1)) if waits else last)
        self.query_one("#cache", Pane).show(lambda cells: [render.cache(state, damaged, cells)])
        switched = view.faults ^ self._faults
        if switched or len(state.links) != self._pointed:
            # The first time, and when the external qmd comes in or leaves, the cursor goes to what searches;
            # with a fault to the provider that it is about, whose details say why it failed.
            self._pointed, self._faults = len(state.links), view.faults
            wanted = {_ABOUT.get(name, "primary") for name in switched} or {"backend", "primary"}
            self.chain.point_at(next((row for row in rows if row[0].role in wanted), ()))
        self.label(self.chain, "providers")
        # Where there is one column, the providers are not beside them.
        self.label(self.faults, "simulated faults", markup(render.answering(state.links)) * self.narrow)
        self.draw_selected()

    def status_at(self, cells: int) -> Line:
        return render.status(self.presenter.state, self.search.view, self.search.activity, cells)

    def idle_keys(self) -> frozenset[str]:
        idle = frozenset() if self.at is self.faults else frozenset({"toggle_fault"})
        group = self.selected
        return idle if len(group) == 1 and group[0].in_use else idle | {"probe"}

    def draw_keys(self) -> None:
        super().draw_keys()
        bar = self.query_one(KeyBar)
        bar.rename("providers" if self.at is self.faults else "faults", "next_list")
        view = self.search.view
        bar.rename("" if view.faults and view.query.strip() else "lab", "compare")

    def draw_selected(self) -> None:
        group, state = self.selected, self.presenter.state
        waits = () if group else self.waits
        damaged = self.search.activity.damage is not None
        draw = partial(_details, group, state, damaged, waits)
        self.show_detail((group, state, damaged, waits), render.title(group), draw, self.chain)
        self.call_after_refresh(self.mark_more)

    def mark_more(self) -> None:
        super().mark_more()
        self.label(self.last, subtitle=self.more(self.last))

    def action_toggle_fault(self) -> None:
        """Simulate the fault under the cursor, or stop; the last query is answered again. From the other list
        the key goes to the faults first, which may be out of sight."""
        if self.at is not self.faults:
            self.go_to(self.faults)
            self.presenter.say(f"faults to simulate: {key('toggle_fault')} switches the selected one")
            return
        if (name := self.faults.selected) is None:
            return  # the filter leaves none
        before = self.search.view.faults
        self.lab.switch_faults(before ^ {name})
        self.presenter.say(f"{name} is off" if name in before else "")

    def action_undo_knob(self) -> None:
        self.presenter.say(take_step(self.lab, "undo"))

    def action_redo_knob(self) -> None:
        self.presenter.say(take_step(self.lab, "redo"))

    @on(CursorList.Chosen, "#faults")
    def action_compare(self) -> None:
        if self.close() and not self.search.view.query.strip():
            self.search.say("type a query: it is searched with the fault" if self.search.view.faults else "")

    @property
    def lower_pane(self) -> Pane:
        return self.last if self.at is self.faults else self.link_pane

    def action_probe(self) -> None:
        if not self.selected:
            self.presenter.say("nothing to probe: no provider is selected")
        else:
            self.run_in(partial(self.presenter.probe, self.selected[0]), "probe", exclusive=False)


def _details(
    group: Sequence[ProviderState], state: ChainState, damaged: bool, waits: Line, cells: int
) -> list[Line]:
    """All about the selected row, and under a heading where text would go with the others; or what it
    ``waits`` for."""
    if waits:
        return wrapped(waits, cells - 1)
    made, unused = render.detail(group, state, cells, damaged), render.grouped(state.links)[-1:]
    if not unused or unused[0][0].state != "not-selected" or unused[0] == group:
        return made
    return [*made, render.heading(unused[0], cells), *render.detail(unused[0], state, cells, damaged)]
