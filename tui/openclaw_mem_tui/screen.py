"""The base of every screen: what its keys do wherever they work, and the screens over it."""

from __future__ import annotations

from functools import partial

from textual import on

from openclaw_mem_tui.actions import Action
from openclaw_mem_tui.bindings import action, listed, unused
from openclaw_mem_tui.drawn_screen import DrawnScreen
from openclaw_mem_tui.editor import edit
from openclaw_mem_tui.render import status
from openclaw_mem_tui.render.format import inert
from openclaw_mem_tui.render.spans import Failed, Line
from openclaw_mem_tui.widgets.edges import tab_of
from openclaw_mem_tui.widgets.filter_line import FilterLine
from openclaw_mem_tui.widgets.line_view import Lines, Pane


class WorkbenchScreen(DrawnScreen):
    """A subclass sets the class variables and its bindings, and overrides what ``DrawnScreen`` says."""

    # -- other screens ------------------------------------------------------------------------------------

    def open(self, screen: WorkbenchScreen) -> None:
        """Show another screen over this one, once: a row is chosen twice by two keys in one burst."""
        if self.is_current:
            self.forget_message()
            self.app.push_screen(screen)

    def close(self) -> bool:
        """Show the screen below. False when that was done already."""
        return self.is_current and bool(self.app.pop_screen())

    def open_chunks(self, path: str) -> None:
        """Show the chunks of a file; says so where it is not cut."""
        from openclaw_mem_tui.features.index.chunks_screen import ChunksScreen

        if self.search.service.draws_chunks:
            self.open(ChunksScreen(self.search, path))
        else:
            self.tell("qmd searches whole documents: there are no chunks to show")

    def edit_note(self, path: str, line: int = 1) -> None:
        """Open a file of the memory in the user's editor, and bring the index up to date afterwards."""
        said = edit(self.app, self.search.service.settings, path, line)
        (self.tell if isinstance(said, Failed) else self.remembered)(said)

    def copy(self, text: str, name: str = "") -> None:
        """Send a text to the clipboard, and say so: no terminal answers whether it took it. Names of files
        may have bytes that no clipboard takes."""
        self.app.copy_to_clipboard(text.encode("utf-8", "replace").decode("utf-8"))
        self.tell(f"sent to the terminal's clipboard: {inert(name or text, 200)}")

    def forget_message(self) -> None:
        """The last message is about what was done on this screen: no other one shows it."""
        self.search.say("")
        self.presenter.say("")

    # -- actions ------------------------------------------------------------------------------------------

    @on(Lines.Clicked)
    async def _span_clicked(self, event: Lines.Clicked) -> None:
        """A key that is named in a text works as if it was pressed; other texts do what they say."""
        named = next((a for a in listed(self.WHERE) if event.text in a.shown.split()), None)
        if event.action:
            await self.run_action(event.action)
        elif named is not None:
            await self.run(named)

    async def action_do(self, name: str) -> None:
        """An action by its id: what a click on a frame runs."""
        await self.run(action(name))

    async def run(self, what: Action) -> None:
        """Do what an action says, wherever it was chosen."""
        focused = self.current_list if what.where == "lists" else self.focused
        await self.app.run_action(what.command, focused or self)

    def action_filter(self) -> None:
        target = self.current_list
        if target is not None and target.CAN_FILTER:
            self.query_one(FilterLine).open(target)

    def action_match(self, step: int) -> None:
        target = self.current_list
        if target is not None and target.CAN_FILTER and not target.go_to_match(step):
            self.tell(f"no row has {target.searched}" if target.searched else "the list has no rows")

    def tell(self, text: str) -> None:
        """Say one sentence in the status line of this screen."""
        self.presenter.say(text)

    def tell_unused(self, key: str) -> None:
        """A key that does nothing on this screen says so."""
        here = {self.WHERE, "lists", self.key_place()}
        if said := unused(key, here, partial(self.check_action, parameters=()), tab_of(self)):
            self.tell(said)

    def action_clear_faults(self) -> None:
        self.app.search_screen.switch_faults(frozenset())  # type: ignore[attr-defined]
        undo = action("undo_knob")
        self.tell("simulated faults: none" + f"; {undo.key} undoes it" * undo.works_in(self.WHERE))

    def action_remember(self) -> None:
        from openclaw_mem_tui.features.curate.remember import RememberScreen

        dialog = RememberScreen(self.search)
        self.app.push_screen(dialog, lambda said: self.remembered(said) if said else None)

    def remembered(self, said: str) -> None:
        """A note was written: say so, and bring the index up to date."""
        self.tell(said)
        self.app.search_screen.note_changed()  # type: ignore[attr-defined]

    def action_help(self) -> None:
        from openclaw_mem_tui.widgets.help import HelpScreen  # loaded when first shown

        of_focused = getattr(self.focused, "about", "") or getattr(self.focused, "HELP", "")
        about = f"{self.HELP or ''} {of_focused or ''}".strip()
        rows = [a for a in listed(self.WHERE) if a.id != f"show_{self.WHERE}" and self.check_action(a.id, ())]

        async def run(chosen: str | None) -> None:
            if chosen:
                await self.run(action(chosen))

        self.app.push_screen(HelpScreen(about, self.reading, rows, (self.key_place(), self.WHERE)), run)

    def messages(self, cells: int) -> list[Line]:
        """Every message, and other text that is cut where room is short, in full."""
        others = [getattr(self.presenter.state, name, "") for name in ("trouble", "said")]
        return status.messages(self.search.view, self.search.activity, cells, others)

    def action_messages(self) -> None:
        from openclaw_mem_tui.widgets.dialogs import TextScreen

        self.app.push_screen(TextScreen("in full", lambda at: self.messages(at) or status.NO_MESSAGES))

    def action_scroll_pane(self, lines: int) -> None:
        if isinstance(pane := self.lower_pane, Pane):
            pane.let_go()
        pane.scroll_relative(y=lines, animate=False)

    def action_leave(self) -> None:
        """One step back: the filter of the list, what runs, the screen."""
        if (close := self.closes) is not None:
            close()
        elif not self.stop_work():
            self.close()

    def stop_work(self) -> bool:
        """Stop what runs on this screen. False when nothing does."""
        return False

    def action_quit(self) -> None:
        (self.closes or partial(self.app.exit, 0))()
