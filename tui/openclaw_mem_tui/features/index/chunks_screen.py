"""One file with its chunks drawn on it."""

from __future__ import annotations

from textual import on
from textual.app import ComposeResult
from textual.containers import Container, Vertical

from openclaw_mem_engine.api import Anatomy, OpenClawMemError
from openclaw_mem_tui.bindings import bindings
from openclaw_mem_tui.features.index.render import chunks as anatomy_lines
from openclaw_mem_tui.features.search.presenter import Lab
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.spans import line, wrapped
from openclaw_mem_tui.screens.editing import edit
from openclaw_mem_tui.screens.help import READING_CHUNKS
from openclaw_mem_tui.screens.subscreen import OverScreen, inert_title
from openclaw_mem_tui.widgets.banner import Banner
from openclaw_mem_tui.widgets.cursor_list import CursorList
from openclaw_mem_tui.widgets.key_bar import KeyBar
from openclaw_mem_tui.widgets.panes import Pane, nothing
from openclaw_mem_tui.widgets.table import Table


class PieceTable(Table):
    HELP = "The chunks of the file in reading order."


class ChunksScreen(OverScreen):
    """The list of chunks, and the text of the selected one between its neighbours. The file is read again
    when the index has changed."""

    WHERE, READING = "chunks", READING_CHUNKS
    NAMES = "chunks", "chunks of a file"
    BINDINGS = bindings("chunks")  # type: ignore[assignment]
    HELP = "Where the file is cut. A search finds chunks, never files: what is cut apart is found apart."

    def __init__(self, lab: Lab, path: str) -> None:
        super().__init__(lab)
        self.path = path
        self.anatomy: Anatomy | None = None
        self.trouble = ""
        self._generation: int | None = None

    def compose(self) -> ComposeResult:
        yield Banner()
        yield Pane(id="top")
        yield Pane(id="cut")
        with Container(id="chunks-body"):
            with Vertical(id="pieces-box", classes="listed"):
                yield Pane(id="pieces-head")
                yield PieceTable(id="pieces")
            yield Pane(id="text", classes="pane")
        yield Pane(id="status")
        yield KeyBar(id="keys")

    @property
    def pieces(self) -> PieceTable:
        return self.query_one(PieceTable)

    @property
    def text(self) -> Pane:
        return self.query_one("#text", Pane)

    # -- life ---------------------------------------------------------------------------------------------

    def on_mount(self) -> None:
        self.pieces.focus()
        self.heard()

    def on_screen_resume(self) -> None:
        self.heard()

    def heard(self) -> None:
        if not self.is_mounted or not self.is_current:
            return
        fresh = self.lab.activity.freshness
        generation = fresh.generation if fresh is not None else -1
        if generation != self._generation and self.lab.service.is_open:
            self._generation = generation
            self.run_in(self._read, "read")
        self.draw()

    async def _read(self) -> None:
        try:
            self.anatomy = await self.lab.service.anatomy(self.path)
            self.trouble = ""
        except OpenClawMemError as error:
            # What was drawn before is of a file that is not like that any more.
            self.anatomy, self.trouble = None, str(error)
        self.draw()

    # -- drawing ------------------------------------------------------------------------------------------

    def draw(self) -> None:
        if not self.is_mounted:
            return
        self.draw_edges()
        anatomy, trouble = self.anatomy, self.trouble
        cut, status = self.query_one("#cut", Pane), self.query_one("#status", Pane)
        box = self.query_one("#pieces-box")
        box.border_title = inert_title(f"chunks of {fmt.crop_left(fmt.inert(self.path), 28)}")
        box.border_subtitle = "↑ ↓ chunk"
        if anatomy is None:
            told = trouble or "The file is being read."
            self.pieces.show_rows(0, lambda *_: ())
            self.text.show(nothing)
            status.show(nothing)
            cut.show(
                lambda cells: wrapped(line((" ✗ " if trouble else " ◐ ", "bad"), fmt.inert(told)), cells, 3)
            )
            return
        self.query_one("#pieces-head", Pane).show(lambda cells: [anatomy_lines.header(cells)])
        cut.show(lambda cells: anatomy_lines.summary(anatomy, cells))
        self.pieces.show_rows(
            len(anatomy.pieces),
            lambda at, cells, chosen: anatomy_lines.piece_row(anatomy, at, cells, chosen),
        )
        status.show(lambda cells: [anatomy_lines.status(anatomy, self.pieces.cursor, trouble, cells)])
        self._draw_text()

    def _draw_text(self) -> None:
        anatomy, place = self.anatomy, self.pieces.cursor
        if anatomy is None:
            return
        self.text.border_title, self.text.border_subtitle = "text", "J K scroll"
        self.text.show(lambda cells: anatomy_lines.text(anatomy, place, cells))
        self.call_after_refresh(self._bring_into_sight)

    def _bring_into_sight(self) -> None:
        # Where there is room, a little of what stands before it.
        before = 2 if self.text.size.height >= 15 else 0
        at = anatomy_lines.first_of(self.text.drawn)
        self.text.scroll_to(y=max(0, at - before), animate=False, immediate=True)

    # -- events and actions -------------------------------------------------------------------------------

    @on(CursorList.Moved)
    def _moved(self) -> None:
        self.draw()

    def action_text_down(self) -> None:
        self.text.scroll_relative(y=3, animate=False)

    def action_text_up(self) -> None:
        self.text.scroll_relative(y=-3, animate=False)

    def action_edit_chunk(self) -> None:
        if self.anatomy is None:
            return
        at = self.pieces.cursor
        start = self.anatomy.pieces[at].start_line if at < len(self.anatomy.pieces) else 1
        said, ran = edit(self.app, self.lab.service.settings, self.path, start)
        self.lab.say(said)
        if ran and not self.lab.service.settings.sync.watch:
            self.run_in(self.lab.sync, "sync", exclusive=False)

    def action_leave_chunks(self) -> None:
        self.app.pop_screen()
