"""What an index should have and has not, as far as a look at the first rows tells. A search does not notice:
a table without rows just finds nothing."""

from __future__ import annotations

from openclaw_mem_engine.errors import IndexUnavailable
from openclaw_mem_engine.model import Note, Space
from openclaw_mem_engine.stores.sqlite.database import Database, explained
from openclaw_mem_engine.stores.sqlite.full_text import FullTextRows
from openclaw_mem_engine.stores.sqlite.schema import FULL_TEXT_TABLES
from openclaw_mem_engine.stores.sqlite.vectors import VectorRows

_REPAIR = "`openclaw-mem doctor --fix` makes them anew."


def repair_of(cause: BaseException) -> str:
    """What to do about a derived table that gives this error. One that cannot even be opened cannot be
    dropped either: only a new file is without it."""
    if "vtable constructor failed" in str(cause):
        return "`openclaw-mem index --force` builds the index anew from your notes."
    return "`openclaw-mem doctor --fix` mends this, or says what does."


def gaps(
    database: Database, vectors: VectorRows, space: Space | None, *, full_text: bool
) -> tuple[Note, ...]:
    """What is missing though there are chunks, and full-text tables that cannot be opened. ``space`` is the
    one whose vectors the vec0 table should hold, None for no such table; ``full_text``: words are looked for.
    Never raises IndexUnavailable: other things that cannot be read are told by the search that needs them."""
    notes = []
    try:
        if full_text:
            with explained(database.path):
                trouble = FullTextRows.trouble(database.reader())
            if trouble is not None:
                full_text = False
                told = f"The full-text tables cannot all be read ({trouble}). {repair_of(trouble)}"
                notes.append(Note("words-damaged", told, "warning"))
        if not database.read("SELECT 1 FROM chunks LIMIT 1"):
            return tuple(notes)
        tables = FULL_TEXT_TABLES.values() if full_text else ()
        if not all(database.read(f"SELECT rowid FROM {table} LIMIT 1") for table in tables):
            told = f"The full-text tables have lost their rows: keywords find nothing. {_REPAIR}"
            notes.append(Note("full-text-missing", told, "warning"))
        if space is not None and not vectors.has_rows() and vectors.count(space):
            told = f"The vec0 table has lost its rows: vectors find nothing. {_REPAIR}"
            notes.append(Note("vectors-missing", told, "warning"))
    except IndexUnavailable:
        return tuple(notes)
    return tuple(notes)
