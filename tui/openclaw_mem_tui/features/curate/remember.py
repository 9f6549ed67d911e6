"""The dialog that keeps a text: where it goes, and the change, before it is written."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from textual.binding import Binding
from textual.containers import Vertical
from textual.widgets import Input

from openclaw_mem_engine.api import OpenClawMemError
from openclaw_mem_tui.bindings import key
from openclaw_mem_tui.features.curate import render
from openclaw_mem_tui.features.search.steps import note_written
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.reports import Done
from openclaw_mem_tui.render.spans import Details, Line, line, wrapped
from openclaw_mem_tui.widgets.dialogs import PAGES, ScrolledDialog, hints
from openclaw_mem_tui.widgets.line_view import Pane

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from openclaw_mem_engine.api import Budget, Memory, Proposal
    from openclaw_mem_tui.features.search.presenter import SearchPresenter


class RememberScreen(ScrolledDialog[str | None]):
    """Returns what was written as a sentence, or None. ``tab`` switches between MEMORY.md and the daily log;
    nothing is written before enter, and what is typed stays for the next time until then."""

    SCROLLS = "↑ ↓"
    BINDINGS = [  # noqa: RUF012 - Textual reads it from the class
        Binding("down", "scroll(3)", "scroll down", show=False),
        Binding("up", "scroll(-3)", "scroll up", show=False),
        *PAGES,
        Binding("escape", "dismiss(None)", "cancel", show=False),
        Binding("tab", "switch", "switch between MEMORY.md and the daily log", show=False, priority=True),
    ]

    def __init__(self, search: SearchPresenter) -> None:
        self._search = search
        self._target: str | None = None
        self._proposed: tuple[str, Proposal, Budget | None] | None = None
        self._trouble = ""
        self._written = False
        hint = "a fact, a preference, a decision, or what happened"
        typed = Input(search.draft, placeholder=hint, compact=True, classes="filter")
        text = Pane(self._lines, id="remembered")
        super().__init__(
            text,
            Vertical(typed, text),
            "remember",
            hints(enter="write", tab="other note", esc="cancel"),
        )

    @property
    def proposal(self) -> Proposal | None:
        """What enter would write; None while it is being read, and without a text."""
        text = self.query_one(Input).value
        return self._proposed[1] if self._proposed is not None and self._proposed[0] == text else None

    def on_input_changed(self) -> None:
        self._propose()

    def on_resize(self) -> None:
        self._text.styles.max_height = self.room(typed=True)

    def action_switch(self) -> None:
        proposal = self.proposal
        if proposal is not None:
            self._target = "daily" if proposal.route.target == "memory" else "memory"
            self._propose()

    def _propose(self) -> None:
        text, self._proposed, self._trouble = self.query_one(Input).value, None, ""
        self._search.draft = text
        if text.strip() and self._search.service.is_open:
            # No coroutine before it runs: of keys in one burst, each ends the work for the one before.
            read: Callable[[], Awaitable[None]] = partial(self._read, text, self._target)
            self.run_worker(read, exclusive=True, exit_on_error=False)
        self._show()

    async def _read(self, text: str, target: str | None) -> None:
        now = datetime.fromtimestamp(self._search.service.clock())

        def work(memory: Memory, _token: object) -> tuple[Proposal, Budget | None]:
            from openclaw_mem_engine.api import Material, NoteEditor, remember

            settings = memory.settings
            proposal = remember(NoteEditor(settings), text, now, target)  # type: ignore[arg-type]
            size = Material({}, bootstrap_limit=settings.bootstrap.max_chars)
            return proposal, size.budget_after([proposal.edit])

        try:
            self._proposed = text, *await self._search.service.long("curate", work)
        except OpenClawMemError as error:
            self._trouble = str(error)
        self._show()

    def on_input_submitted(self) -> None:
        proposal = self.proposal
        if proposal is None or proposal.known or self._written:
            return
        self._written = True  # enter is pressed twice sooner than it is written
        self.run_worker(self._write(proposal), group="write", exit_on_error=False)

    async def _write(self, proposal: Proposal) -> None:
        clock = self._search.service.clock

        def work(memory: Memory, _token: object) -> object:
            from openclaw_mem_engine.api import NoteEditor

            return NoteEditor(memory.settings, clock).write(proposal.edit)

        try:
            await self._search.service.long("curate", work)
        except OpenClawMemError as error:
            self._trouble, self._written = str(error), False
            self._show()
        else:
            path, undoes = proposal.route.path, f"{key('undo_edit')} undoes it"
            done = Done(f"remembered in {fmt.inert(path)}:{proposal.line}", path, undoes)
            self._search.draft = ""
            self.dismiss(note_written(self._search, done.around(""), done))

    def _show(self) -> None:
        self._text.show(self._lines)
        self.call_after_refresh(self._label)

    def _lines(self, cells: int) -> list[Line]:
        if self._trouble:
            return wrapped(line((fmt.message(self._trouble), "bad")), cells)
        if not self._search.service.is_open:
            return wrapped(line(("The index is not open; the screen below shows the reason.", "warn")), cells)
        proposal = self.proposal if self.is_mounted else None
        if proposal is None:
            goes = "An event goes to the daily log, anything else to MEMORY.md; tab switches them."
            return wrapped(line((f"Type a text. {goes}", "dim")), cells)
        if proposal.known:
            said = f"{proposal.route.path}:{proposal.known} contains that already: nothing to write."
            return wrapped(line((fmt.inert(said), "warn")), cells)
        made = wrapped(line((fmt.inert(proposal.route.sentence), "strong")), cells)
        details = Details(cells)
        if self._proposed is not None and self._proposed[2] is not None:
            details.say("MEMORY.md", *render.budget_after(self._proposed[2]))
        warned = wrapped(line((proposal.warning, "warn")), cells) if proposal.warning else []
        return [*made, *details.lines, *warned, (), *render.change([proposal.edit], cells)]
