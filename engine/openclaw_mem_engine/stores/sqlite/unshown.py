"""What no search can show of each file, kept beside its chunks: found in their text, it takes a second of a
large index. Kept are the counts for the snippets of the profiles; for others the text is read."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

import apsw

from openclaw_mem_engine.stores.sqlite.database import Database, decoding

if TYPE_CHECKING:
    from openclaw_mem_engine.ranking.knobs import Knobs
    from openclaw_mem_engine.ranking.lines import Numbered
    from openclaw_mem_engine.ranking.unshown import Unshown

_NUMBERS = attrgetter("characters", "lines", "hidden_characters", "hidden_lines")
#: Path and counts of each file, for the snippets of one form.
COUNTS = """SELECT path, characters, lines, hidden_characters, hidden_lines FROM unshown
    WHERE form = ? ORDER BY path"""


def insert(connection: apsw.Connection, path: str, source: str, chunks: Sequence[Numbered]) -> None:
    """Keep the counts of a file; ``chunks`` are all that it has, in reading order."""
    from openclaw_mem_engine.ranking.unshown import KEPT, unshown_of

    connection.executemany(
        "INSERT OR REPLACE INTO unshown VALUES(?, ?, ?, ?, ?, ?, ?)",
        [
            (path, source, form, *_NUMBERS(unshown_of(chunks, knobs)))
            for form, knobs in KEPT.items()
            if chunks
        ],
    )


def read(database: Database, knobs: Knobs) -> dict[str, Unshown] | None:
    """By path; None when the counts for the snippets of ``knobs`` are not kept, or not of every file."""
    from openclaw_mem_engine.ranking.unshown import Unshown, form_of

    found = database.read(COUNTS, (form_of(knobs),))
    files = database.read("SELECT DISTINCT path FROM chunks ORDER BY path")
    if [row[:1] for row in found] != files:
        return None
    with decoding(database.path):
        if not all(isinstance(number, int) for row in found for number in row[1:]):
            raise TypeError("what no search can show of a file is no number")
    return {path: Unshown(*numbers) for path, *numbers in found}
