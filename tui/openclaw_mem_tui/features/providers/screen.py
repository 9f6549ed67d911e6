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
from openclaw_mem_tui.features.providers import render
from openclaw_mem_tui.features.providers.presenter import ChainState, ProvidersPresenter
from openclaw_mem_tui.features.search.presenter import SearchPresenter
from openclaw_mem_tui.render.spans import Line, Reading
from openclaw_mem_tui.screen import WorkbenchScreen, key_hint
from openclaw_mem_tui.widgets.line_view import Pane
from openclaw_mem_tui.widgets.lists import CursorList, Rows

if TYPE_CHECKING:
    from openclaw_mem_engine.api import ProviderState
    from openclaw_mem_tui.features.search.screen import SearchScreen

_NAMES = tuple(FAULTS)

READING: Reading = (
    "Legend",
    (
        ("● active", "used by searches now"),
        ("○ ready", "ready for use, or used in addition"),
        ("✗ paused", "failed; retry at the shown time"),
        ("· not selected", "not in use; the reason is shown"),
        ("primary", "whose vectors are searched"),
        ("fallback", "used when the primary fails"),
        ("also", "its vectors are kept too, for comparison"),
        ("keywords", "BM25, with vectors or alone"),
        ("backend", "the external qmd, with its own vectors"),
        ("overlap@6", "hits that both runs share, of six"),
    ),
)


_CHAIN = "The chain: providers in the order of selection, BM25 last."
_FAULTS = (
    "Faults are simulated: no request is sent for them, and nothing is recorded. Faults of qmd run a program "
    "that fails in that way."
)


class ProvidersScreen(WorkbenchScreen):
    """Drawn from the view of the search and the state of the presenter. Where there is one column, the list
    with the focus and the pane that goes with it are shown."""

    WHERE, OPENED_BY, READING = "providers", "show_providers", READING
    CSS_PATH = "styles.tcss"
    BINDINGS = bindings("providers")  # type: ignore[assignment]
    HELP = "Which provider makes the vectors, what is used when it fails, and how the results differ."

    def __init__(self, search: SearchPresenter, lab: SearchScreen) -> None:
        super().__init__(search)
        self.presenter = ProvidersPresenter(search.service)
        self.chain, self.faults = CursorList(_CHAIN, id="chain"), CursorList(_FAULTS, id="faults")
        self.link_pane, self.last = Pane(id="link", classes="pane"), Pane(id="last", classes="pane")
        self._lab = lab
        self._pointed = 0

    def body(self) -> ComposeResult:
        with Container(id="providers-body"):
            with Vertical(id="providers"):
                yield self.chain
                yield self.link_pane
            with Vertical(id="trials"):
                yield self.faults
                yield self.last
        yield Pane(id="cache")
        yield Pane(id="status")

    @property
    def selected(self) -> Sequence[ProviderState]:
        """The provider under the cursor, or the several of its row."""
        rows, at = render.grouped(self.presenter.state.links), self.chain.cursor
        return rows[at] if at < len(rows) else ()

    def on_mount(self) -> None:
        self.presenter.listen(self.draw)
        # With its class first: a list that a narrow screen hides loses the focus that it was given.
        self._go_to(self.faults if self.search.view.faults else self.chain)
        self.draw()

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
        view, activity, state = self.search.view, self.search.activity, self.presenter.state
        rows = render.grouped(state.links)
        self.chain.show(
            lambda cells, cursor: Rows(
                [render.header(cells)],
                [render.link_row(row, state, cells, at == cursor) for at, row in enumerate(rows)],
            )
        )
        self.faults.show(
            lambda cells, cursor: Rows(
                (),
                [
                    render.fault_rows(name, name in view.faults, cells, at == cursor)
                    for at, name in enumerate(_NAMES)
                ],
            )
        )
        title = "last query with this fault" if view.shown_faults else "last query"
        self.label(self.last, title, key_hint("compare", "compare in the lab") if view.query.strip() else "")
        self.last.show(lambda cells: render.last_query(view, cells))
        self.query_one("#cache", Pane).show(lambda cells: [render.cache(state, cells)])
        if len(state.links) != self._pointed:
            # The first time, and when the external qmd comes in or leaves, the cursor goes to what searches.
            self._pointed = len(state.links)
            wanted = ("backend", "primary")
            at = next((at for at, row in enumerate(rows) if row[0].role in wanted), 0)
            self.chain.action_go(at - self.chain.cursor)
        other = (f" · {key_hint('next_list', name)}" * self.narrow for name in ("faults", "chain"))
        self.label(self.chain, "chain", key_hint("probe", "probes now") + next(other))
        faults = f"{key_hint('toggle_fault', 'switches')} · {key_hint('clear_faults', 'stops all')}"
        self.label(self.faults, "faults", faults + next(other))
        self._draw_link()
        self.query_one("#status", Pane).show(lambda cells: [render.status(state, view, activity, cells)])

    @on(CursorList.Moved, "#chain")
    def _draw_link(self) -> None:
        group, state = self.selected, self.presenter.state
        self.label(self.link_pane, render.title(group))
        self.link_pane.show(partial(_details, group, state))

    def action_next_list(self, step: int) -> None:  # noqa: ARG002
        self._go_to(self.faults if not self.faults.has_focus else self.chain)

    def _go_to(self, target: CursorList) -> None:
        self.set_class(target is self.faults, "-trials")
        self.set_focus(target)

    def on_descendant_focus(self) -> None:
        self.set_class(self.faults.has_focus, "-trials")

    def action_toggle_fault(self) -> None:
        """Simulate the fault under the cursor, or stop; the last query is answered again."""
        if not self.faults.has_focus:
            self._go_to(self.faults)
            self.presenter.say(f"{key('toggle_fault')} switches the fault under the cursor")
            return
        name, before = _NAMES[self.faults.cursor], self.search.view.faults
        self._lab.switch_faults(before ^ {name})
        if not self.search.view.query.strip():
            then = f"; {key('compare')}: type a query, it is searched with the fault"
        else:
            then = f"; {key('compare')} compares with the baseline"
        self.presenter.say(f"{name} is off" if name in before else f"simulated: {name}{then}")

    def action_clear_faults(self) -> None:
        if self.search.view.faults:
            self._lab.switch_faults(frozenset())
            self.presenter.say("simulated faults: none")
        else:
            self.presenter.say("no fault is simulated")

    @on(CursorList.Chosen, "#faults")
    def action_compare(self) -> None:
        self.app.pop_screen()
        if not self.search.view.query.strip():
            self.search.say("type a query: it is searched with the fault" if self.search.view.faults else "")

    @property
    def lower_pane(self) -> Pane:
        return self.last if self.faults.has_focus else self.link_pane

    def action_probe(self) -> None:
        if self.selected:
            self.run_in(partial(self.presenter.probe, self.selected[0]), "probe", exclusive=False)


def _details(group: Sequence[ProviderState], state: ChainState, cells: int) -> list[Line]:
    """All about the selected row, and below it why other providers are not selected."""
    made, unused = render.detail(group, state, cells), render.grouped(state.links)[-1:]
    if not unused or unused[0][0].state != "skipped" or unused[0] == group:
        return made
    return [*made, (), *render.detail(unused[0], state, cells)]
