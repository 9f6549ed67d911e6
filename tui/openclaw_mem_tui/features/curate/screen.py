"""The curate screen: candidates for MEMORY.md with their evidence, change and effect; the notes."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult
from textual.containers import Container

from openclaw_mem_tui.bindings import bindings, key
from openclaw_mem_tui.editor import edit
from openclaw_mem_tui.features.curate import render
from openclaw_mem_tui.features.curate.presenter import REJECTED, CuratePresenter
from openclaw_mem_tui.features.search.presenter import SearchPresenter
from openclaw_mem_tui.features.search.steps import note_written
from openclaw_mem_tui.list_screen import ListScreen
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.choices import Choice
from openclaw_mem_tui.render.damage import rescue, waiting
from openclaw_mem_tui.render.reports import Done
from openclaw_mem_tui.render.spans import Failed, Line, Reading, line
from openclaw_mem_tui.widgets.dialogs import confirm, pick
from openclaw_mem_tui.widgets.edges import KeyBar
from openclaw_mem_tui.widgets.frames import key_hint
from openclaw_mem_tui.widgets.line_view import Pane
from openclaw_mem_tui.widgets.lists import CursorList, Table
from openclaw_mem_tui.widgets.wrapped import WrappedTable

if TYPE_CHECKING:
    from openclaw_mem_engine.api import FileUse, NoteCandidate, NoteEdit
    from openclaw_mem_tui.features.search.screen import SearchScreen
    from openclaw_mem_tui.screen import WorkbenchScreen

READING: Reading = (
    ("✗ secret", "looks like a credential; shown redacted"),
    ("! outdated", "a later daily log gives another value"),
    ("= duplicate", "another entry says the same"),
    ("▼ over-budget", "MEMORY.md is too long: a section to move"),
    ("+", "from daily logs: retrieved or repeated often"),
    ("━━─┃", "share of the advised length of MEMORY.md; past the mark: over it"),
    ("searches", "how many searches of the agent returned a part of the note"),
    ("evergreen", "its name is not just a date: it does not decay"),
    ("MRR", "mean of 1 / rank of the first judged answer"),
)
_CANDIDATES = "Each proposal is a change of notes. Nothing is written without confirmation."
_FILES = "The list shows the notes, with how many of the agent's searches returned a part of each."
#: Seconds of quiet before an effect is measured.
_QUIET_S = 0.25


class CurateScreen(ListScreen[CuratePresenter]):
    WHERE, reading = "curate", READING
    CSS_PATH = "styles.tcss"
    BINDINGS = bindings("curate")  # type: ignore[assignment]
    HELP = "This screen proposes changes of MEMORY.md and daily logs, each with evidence."

    def __init__(self, search: SearchPresenter, lab: SearchScreen) -> None:
        super().__init__(search, lab, CuratePresenter(search.service))
        self.candidates: WrappedTable[NoteCandidate] = WrappedTable(
            _CANDIDATES, id="candidates", classes="listed"
        )
        self.files: Table[FileUse] = Table(_FILES, id="memory-files", classes="listed")
        self.candidates.known_by, self.files.known_by = attrgetter("id"), attrgetter("path")
        self.use_lists(Pane(id="proposal", classes="pane"), self.candidates, self.files)
        self._proposes = True

    def body(self) -> ComposeResult:
        yield Pane(id="facts")
        yield self.candidates
        with Container(id="curate-body"):
            yield self.files
            yield self.detail

    # -- life ---------------------------------------------------------------------------------------------

    def read_again(self) -> None:
        """After a sync, or when the files were found to differ."""
        activity = self.search.activity
        if activity.phase != "syncing":
            self.read_for(
                (self.search.service.is_open, activity.phase, activity.freshness), self.presenter.read
            )

    def action_read_notes(self) -> None:
        self.run_in(self.presenter.read_again, "read")

    # -- drawing ------------------------------------------------------------------------------------------

    def draw_body(self) -> None:
        state = self.presenter.state
        low = self.low
        waits = self.waits
        if self.search.activity.damage is not None and state.material is not None:
            waits = line(
                ("Effects, and text that no search shows, are not known: the index is damaged; ", "warn"),
                *rescue(),
                (" it.", "dim"),
            )
        self.query_one("#facts", Pane).show(lambda cells: render.facts(state, waits, cells, brief=low))
        nothing = partial(render.nothing, state)
        self.fill(self.candidates, "proposals", state.found, render.candidate_row, around=nothing)
        if state.material is not None and self._proposes is not bool(state.found):
            self._proposes = bool(state.found)
            if not self.narrow:  # one column has only one list, which says why there is no proposal
                self.go_to(self.candidates if state.found else self.files)
        self.fill(self.files, "notes", state.files, partial(render.file_row, state.at), head=render.file_head)
        self.label(self.candidates, subtitle=key_hint("which", f"kinds: {state.group or 'all'}"))
        self.label(self.files, subtitle="order: MEMORY.md, searches, path")
        self.draw_selected()

    def draw_selected(self) -> None:
        """The details of the selected row; drawn anew only when that or its effect is another one."""
        state, item = self.presenter.state, self.at.selected
        of_files = self.at is self.files
        edits = item.edits if item is not None and not of_files else ()
        shown = item, state.material, state.effects.get(edits), state.measuring == edits, state.group
        draw = render.file_detail if of_files else render.candidate_detail
        title = "note" if of_files else fmt.join(("proposal", item.kind if item is not None else ""))
        if not self.show_detail(shown, title, lambda cells: draw(state, item, cells)):
            return
        is_new = edits and not state.hosts and edits not in state.effects and state.measuring != edits
        is_new = is_new and "measure" not in waiting(self.search.activity)
        if item is not None and is_new:
            self.run_in(partial(self.presenter.measure, item, _QUIET_S), "effect")

    def status_at(self, cells: int) -> Line:
        position = self.position("note" if self.at is self.files else "proposal", self.at)
        return render.status(self.presenter.state, position, cells, counted=self.low)

    def draw_keys(self) -> None:
        super().draw_keys()
        again = "propose again" if self.presenter.state.group == REJECTED else ""
        self.query_one(KeyBar).rename(again, "accept")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "reject" and self.presenter.state.group == REJECTED:
            return False
        return super().check_action(action, parameters)

    def idle_keys(self) -> frozenset[str]:
        candidate, idle = self._candidate(), set[str]()
        if candidate is None:
            idle = {"accept", "reject", "measure"} | (
                set() if self._path() else {"edit_proposal", "open_note"}
            )
        elif self.presenter.state.group == REJECTED:
            idle = {"reject", "edit_proposal", "measure"}
        elif not candidate.edits:
            idle = {"accept", "edit_proposal", "measure"}
        idle |= set() if self.presenter.undoes else {"undo_note"}
        return frozenset(idle)

    def _candidate(self) -> NoteCandidate | None:
        return self.candidates.selected if self.at is self.candidates else None

    def _path(self) -> str:
        """The file of the selected row; "" without one."""
        if self.at is self.files:
            return self.files.selected.path if self.files.selected is not None else ""
        candidate = self._candidate()
        return candidate.location.rpartition(":")[0] if candidate is not None else ""

    # -- what is shown ------------------------------------------------------------------------------------

    def action_which(self) -> None:
        choices = [Choice("", "all", "everything that was not rejected", "a")]
        choices += [Choice(kind, kind, about, letter) for kind, (*_, letter, about) in render.KINDS.items()]
        choices.append(Choice(REJECTED, REJECTED, f"{key('accept')} proposes one again", "x"))

        def show(group: str) -> None:
            self.presenter.choose(group)
            self.action_read_notes()

        start = [choice.key for choice in choices].index(self.presenter.state.group)
        pick(self, "proposals", lambda _: choices, show, start=start)

    def action_measure(self) -> None:
        candidate = self._candidate()
        if candidate is not None and candidate.edits:
            self.run_in(partial(self.presenter.measure, candidate, 0, True), "effect")
        else:
            self.presenter.say("nothing to measure: no proposal with a change is selected")

    @on(CursorList.Chosen)
    def action_open_note(self) -> None:
        if not self.has_row():
            return
        if path := self._path():
            self.open_chunks(path)
        else:
            self.presenter.say("this row has no note")

    # -- deciding -----------------------------------------------------------------------------------------

    def action_accept(self) -> None:
        candidate, state = self._candidate(), self.presenter.state
        if candidate is None:
            self._say_none()
        elif state.group == REJECTED:
            self.action_reject()  # which ends that it is rejected
        elif not candidate.edits:
            self.presenter.say("advice only: there is nothing to write")
        else:

            async def accept() -> None:
                if await self.presenter.accept(candidate):
                    self.remembered(note_written(self.search, self.presenter.state.said, Done()))

            question = partial(render.question, state, candidate)
            confirm(self, "write this", question, "write", partial(self.run_in, accept, "write"))

    async def _changed(self) -> None:
        """A note was written: read it again, and bring the index up to date."""
        await self.presenter.read()
        self.lab.note_changed()

    def remembered(self, said: str) -> None:
        self.presenter.say(said)
        self.run_in(self._changed, "read")

    def action_reject(self) -> None:
        if (candidate := self._candidate()) is None:
            self._say_none()
        else:
            self.run_in(partial(self.presenter.reject, candidate), "write")

    def _say_none(self) -> None:
        is_read = self.presenter.state.material is not None
        self.presenter.say("no proposal is selected" if is_read else "the notes are still being read")

    def action_undo_note(self) -> None:
        """The last step: a rejection at once, a change of notes after confirmation."""

        async def ask() -> None:
            if name := await self.presenter.take_back():
                for candidate in self.presenter.state.found:
                    if candidate.id == name:
                        self.candidates.point_at(candidate)
                return
            await self._ask_undo(self)

        self.run_in(ask, "write")

    def undo_edit(self, over: WorkbenchScreen) -> None:
        """The last change of notes, whatever was rejected since; ``over`` is the screen that is shown."""
        over.run_in(partial(self._ask_undo, over), "write")

    async def _ask_undo(self, over: WorkbenchScreen) -> None:
        if edits := await self.presenter.propose_undo():
            undo = partial(over.run_in, partial(self._undo, over, edits), "write")
            confirm(over, "undo", partial(render.undoing, edits), "undo", undo)
        else:
            self._say_on(over)

    async def _undo(self, over: WorkbenchScreen, edits: Sequence[NoteEdit]) -> None:
        self.search.sync.done = Done()  # the key that undoes it would be named
        undone = await self.presenter.undo(edits)
        said = self._say_on(over)
        if undone:
            done = Done(said, edits[0].path if len(edits) == 1 else "")
            over.remembered(note_written(self.search, said, done))

    def _say_on(self, over: WorkbenchScreen) -> str:
        """What the presenter has said; on another screen that is ``over`` this one, and not here later."""
        state = self.presenter.state
        said = Failed(state.trouble) if state.trouble else state.said
        if over is not self:
            self.presenter.update(trouble="", said="")
            over.tell(said)
        return said

    def action_edit(self) -> None:
        """The proposal in the editor, as a file that only this user can read; a file itself in the other
        list."""
        candidate, service = self._candidate(), self.search.service
        if candidate is None:
            self._edit_file()
        elif not candidate.edits or not service.is_open:
            self.presenter.say("there is no proposal to edit")
        else:
            proposed = candidate.edits[-1]
            with tempfile.TemporaryDirectory(prefix="openclaw-mem-") as folder:
                file = Path(folder, Path(proposed.path).name)
                file.write_bytes((proposed.after or "").encode("utf-8", "surrogateescape"))
                line = int(candidate.location.rpartition(":")[2] or 1)
                outcome = edit(self.app, service.settings, str(file), line)
                ran = not isinstance(outcome, Failed) and file.exists()
                after = file.read_bytes().decode("utf-8", "surrogateescape") if ran else None
            self.presenter.say(outcome)
            if after is not None and after not in (proposed.after, proposed.before):
                self.presenter.propose(candidate, after)
                self.presenter.say(f"the proposal is as edited: {key('accept')} writes it")
            elif after is not None and after == proposed.before:
                self.presenter.say("the edited text equals the note: the proposal is unchanged")

    def _edit_file(self) -> None:
        if not (path := self._path()) or not self.search.service.is_open:
            self.presenter.say("this row has no file to edit")
        else:
            self.edit_note(path)
