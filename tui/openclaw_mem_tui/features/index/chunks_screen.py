"""One file with its chunks drawn on it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from textual import on
from textual.app import ComposeResult
from textual.containers import Container, Vertical

from openclaw_mem_engine.api import Anatomy, IndexDamaged, OpenClawMemError
from openclaw_mem_tui.bindings import bindings
from openclaw_mem_tui.features.index.render import chunks as render
from openclaw_mem_tui.features.search.presenter import SearchPresenter
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.spans import Line, Reading, line, wrapped
from openclaw_mem_tui.screen import WorkbenchScreen
from openclaw_mem_tui.widgets.frames import markup, more
from openclaw_mem_tui.widgets.line_view import Pane, nothing
from openclaw_mem_tui.widgets.lists import CursorList, Table

READING: Reading = (
    ("↑ ↓ j k", "previous and next chunk"),
    ("┃ │", "lines of the selected chunk; of a neighbour; both: lines that they share"),
    ("┊", "a line that can never appear whole in a search result"),
    ("tokens", "estimated size, by which the file is split"),
    ("overlap", "tokens repeated from the previous chunk"),
    ("BM25", "keyword search can find it"),
    ("vector", "its text has an embedding"),
    ("lines", "the empty text after the last line end counts as one: the last chunk may end behind the file"),
)


class ChunksScreen(WorkbenchScreen):
    """The list of chunks, and the text of the selected one between its neighbours. The file is read again
    when the index has changed."""

    WHERE, reading = "chunks", READING
    OF_CONFIGURED, NAMES_SCROLL = True, True
    TITLE = "chunks"
    CSS_PATH = "styles.tcss"
    BINDINGS = bindings("chunks")  # type: ignore[assignment]
    HELP = "This screen shows where the file is split. A search finds chunks, never files."

    def __init__(self, search: SearchPresenter, path: str) -> None:
        super().__init__(search)
        self.path = path
        self.pieces: Table[int] = Table(
            "The list shows the chunks of the file in reading order.", id="pieces", classes="listed"
        )
        self.facts = Pane(id="piece", classes="pane")
        self.text = Pane(id="text", classes="pane")
        self.anatomy: Anatomy | None = None
        self.trouble = ""
        self.alone: Sequence[str] = ()  # its lines, where the index is damaged
        self._numbers = range(0)
        self._heads: render.Heads = []

    def body(self) -> ComposeResult:
        yield Pane(id="cut")
        with Container(id="chunks-body"):
            with Vertical(id="chunks-side"):
                yield self.pieces
                yield self.facts
            yield self.text

    def on_mount(self) -> None:
        self.set_focus(self.pieces)
        self.search_changed()

    def read_again(self) -> None:
        fresh, damage = self.search.activity.freshness, self.search.activity.damage
        if self.search.service.is_open:
            self.read_for((fresh.generation if fresh is not None else -1, damage), self._read)

    async def _read(self) -> None:
        try:
            if (damage := self.search.activity.damage) is not None:
                raise damage  # what can still be read of the index is no proof of anything
            self.anatomy = await self.search.service.read(lambda memory: memory.anatomy(self.path))
            self._numbers = range(len(self.anatomy.pieces))
            self._heads = self.anatomy.headings  # once: a long file has many lines
            self.trouble = ""
        except OpenClawMemError as error:
            # What was drawn before does not show the file as it is now.
            self.anatomy, self.trouble, self.alone = None, str(error), ()
            if isinstance(error, IndexDamaged):
                await self._read_alone()
        self.draw()

    async def _read_alone(self) -> None:
        """The text of the file, which needs no index."""
        with suppress(OpenClawMemError):  # the damage is said
            got = await self.search.service.read(lambda memory: memory.get(self.path))
            self.alone = tuple(fmt.inert_lines(got.text)) if got.found else ()

    @on(CursorList.Moved)
    def draw_body(self) -> None:
        if not self.is_attached:
            return  # closed meanwhile
        anatomy = self.anatomy
        cut = self.query_one("#cut", Pane)
        unknown = " · ? not known" if self.trouble else ""
        self.label(self.pieces, markup(f"chunks of {fmt.path(fmt.inert(self.path), 28)}{unknown}"))
        if anatomy is None:
            mark, text = (" ✗ ", self.trouble) if self.trouble else (" ◐ ", "The file is being read.")
            self.pieces.show_rows((), lambda *_: ())
            self.label(self.text, "text")
            self.label(self.facts, "chunk")
            self.text.show(partial(render.numbered, self.alone))
            self.facts.show(nothing)
            cut.show(lambda cells: wrapped(line((mark, "bad"), fmt.message(text)), cells, 3))
            return
        cut.show(lambda cells: render.summary(anatomy, cells))
        self.pieces.show_rows(self._numbers, partial(render.piece_row, anatomy), self._words, render.header)
        if (at := self.pieces.selected) is None:
            at = 0
        self.label(self.text, "text")
        self.text.show(lambda cells: render.text(anatomy, at, cells), first=self._top_for)
        self.label(self.facts, f"chunk {at + 1:,}" if anatomy.pieces else "chunk")
        self.facts.show(partial(self._facts, anatomy, at) if anatomy.pieces else nothing)
        self.call_after_refresh(self._bring_into_sight)  # the bounds of scrolling may come with a new layout

    def status_at(self, cells: int) -> Line:
        if self.anatomy is None:
            return ()
        return render.status(self.anatomy, self.pieces.selected or 0, cells, self.search.activity)

    def _facts(self, anatomy: Anatomy, at: int, cells: int) -> list[Line]:
        view, piece = self.search.view, anatomy.pieces[at]
        same = view.answers and view.backend == self.search.service.configured_backend
        known = same and anatomy.state == "up-to-date" and not piece.partial  # parts have the same lines
        where = anatomy.path, piece.start_line, piece.end_line  # an id names the model too
        rows = view.trace.rows if view.trace is not None else ()
        found = next((row for row in rows if (row.path, row.start_line, row.end_line) == where), None)
        return render.facts(anatomy, self._heads, at, view.query if known else "", found, cells)

    @property
    def lower_pane(self) -> Pane:
        return self.text

    def _words(self, number: int) -> str:
        assert self.anatomy is not None
        piece = self.anatomy.pieces[number]
        lines = self.anatomy.lines[piece.first : piece.last + 1]
        return " ".join(one.text for one in lines)

    def _top_for(self, drawn: Sequence[Line]) -> int:
        # Where there is room, two lines of what is before it.
        before = 2 if self.text.size.height >= 15 else 0
        return max(0, render.first_of(drawn) - before)

    def _bring_into_sight(self) -> None:
        self.text.scroll_to(y=self._top_for(self.text.drawn), animate=False, immediate=True)
        self.on_lines_sized()

    def on_lines_sized(self) -> None:
        self.label(self.pieces)
        for pane in (self.text, self.facts):
            self.label(pane, subtitle=more(pane, pane is self.text))

    def action_copy_location(self) -> None:
        self.copy(f"{self.path}:{self._start}")

    def action_edit(self) -> None:
        if self.anatomy is not None or self.alone:
            self.edit_note(self.path, self._start)

    @property
    def _start(self) -> int:
        """The first line of the selected chunk; 1 without one."""
        at = self.pieces.selected or 0
        return self.anatomy.pieces[at].start_line if self.anatomy and at < len(self.anatomy.pieces) else 1
