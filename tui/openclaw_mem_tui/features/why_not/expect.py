"""Expected passages: to expect one at the query that is shown, and to stop."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from openclaw_mem_engine.api import OpenClawMemError
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.choices import Choice

if TYPE_CHECKING:
    from openclaw_mem_engine.api import Expected, Memory, Note, Row
    from openclaw_mem_tui.features.search.presenter import SearchPresenter
    from openclaw_mem_tui.screen import WorkbenchScreen


def holds(row: Row, passage: Expected) -> bool:
    return row.path == passage.path and row.start_line <= passage.line <= row.end_line


async def toggle(search: SearchPresenter, passage: Expected) -> None:
    """Expect a passage in answers to the query that is shown, or no longer those of its chunk."""
    view = search.view
    rows = [row for row in (view.trace.rows if view.trace else ()) if holds(row, passage)]
    held = [one for one in view.expected if one == passage or any(holds(row, one) for row in rows)]
    said = f"{', '.join(one.location for one in held)} is no longer expected"
    await _change(search, held or [passage], said if held else f"{passage.location} is expected now")


def stop_any(screen: WorkbenchScreen) -> None:
    """Let the user pick the passage that is no longer expected, of all queries."""
    from openclaw_mem_tui.widgets.dialogs import pick

    search = screen.search
    by_key = {passage.location: passage for passage in search.view.expected}
    rows = [
        Choice(name, fmt.inert(name), f"“{fmt.inert(query)}”" if query else "of any query")
        for name, query in zip(by_key, search.view.expected.values(), strict=True)
    ]

    def stop(picked: str) -> None:
        said = f"{picked} is no longer expected"
        screen.run_in(partial(_change, search, [by_key[picked]], said), "expect")

    pick(screen, "stop expecting", lambda _: rows, stop, empty="no passage is expected")


async def _change(search: SearchPresenter, passages: Sequence[Expected], said: str) -> None:
    query = search.view.query.strip()

    def change(memory: Memory) -> tuple[dict[Expected, str], Note | None]:
        for passage in passages:
            memory.expected.toggle(passage, query)
        return memory.expected.queries(), memory.expected.note

    try:
        expected, note = await search.service.read(change)
    except OpenClawMemError as error:
        search.trouble(str(error))
        return
    search.expect(expected)
    search.say(said if note is None else f"{said}. {note.text}")
