"""What a run is compared with, and which passages of two runs are the same. No Textual here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING

from openclaw_mem_engine.dataclass import dataclass

if TYPE_CHECKING:
    from openclaw_mem_engine.api import Knobs, Pool, Row, Trace


#: Names of the runs on both sides of a change of knobs.
BEFORE, AFTER = "before the change", "with the change"
#: The names of the run before a note was edited here, before a sync found edits of others, and of one that a
#: key pinned.
EDITED, SYNCED, PINNED = "before the edit", "before others' edits", "pinned"
#: Those that a change of notes made: they show its effect in their own query alone.
OF_NOTES = (EDITED, SYNCED)


@dataclass(frozen=True, slots=True)
class Pin:
    """A run to compare with. For its own query the pinned trace is kept as it was, so that an edited note
    shows its effect; for any other query the pinned knobs rank that query, with the ``backend`` that answered
    then. ``name`` says what it is. That of a change is the run on its other side: it lasts while the knobs
    differ that were ``made`` of its own; then the pin ``under`` it is there again."""

    query: str
    knobs: Knobs
    trace: Trace
    pool: Pool | None = None
    backend: str = ""
    name: str = PINNED
    made: Knobs | None = None
    under: Pin | None = None

    def lasting(self, knobs: Knobs, defaults: Knobs) -> Pin | None:
        """The pin that these knobs are compared with, where ``defaults`` are configured. One that no key made
        gives way to other knobs, too."""
        if self.name == SYNCED and knobs != self.knobs:
            return None
        if self.made is None or knobs == self.made:
            return self
        names = self.made.changes_from(self.knobs)
        if knobs != defaults and any(getattr(knobs, n) != getattr(self.knobs, n) for n in names):
            return self
        return self.under.lasting(knobs, defaults) if self.under is not None else None

    def asked(self, query: str) -> Pin | None:
        """What stays of it when this is asked."""
        under = self.under.asked(query) if self.under is not None else None
        return under if self.name in OF_NOTES and self.query != query else replace(self, under=under)

    @property
    def knobs_name(self) -> str:
        """What it is for another query than its own."""
        return "pinned knobs" if self.name == PINNED else self.name


@dataclass(frozen=True, slots=True)
class Baseline:
    """What the ranks are compared with. ``by_file``: it is of another backend, which cuts files otherwise, so
    that a row is compared with the best one of its file. ``ranks`` are those of what was returned, by
    ``key``. ``edited`` are the ids of chunks now, where their notes were edited since; ``pool`` is what was
    ranked."""

    name: str
    trace: Trace
    ranks: dict[str, int]
    by_file: bool = False
    edited: Mapping[str, str] = field(default_factory=dict)
    pool: Pool | None = None

    def key(self, row: Row) -> str:
        """What a row of either run is compared by."""
        return row.path if self.by_file else self.edited.get(row.chunk_id, row.chunk_id)

    def rank(self, row: Row) -> int | None:
        """Where the baseline returned what a row of the shown run is."""
        return self.ranks.get(self.key(row))

    def row(self, row: Row) -> Row | None:
        """The row of the baseline that a row of the shown run is compared with."""
        before = {now: then for then, now in self.edited.items()}
        return self._find(self.trace, before.get(row.chunk_id, row.chunk_id), row.path)

    def now(self, row: Row, shown: Trace) -> Row | None:
        """The row of the shown run that a row of the baseline is compared with."""
        return self._find(shown, self.key(row), row.path)

    def _find(self, trace: Trace, chunk_id: str, path: str) -> Row | None:
        if self.by_file:
            return next((row for row in trace.rows if row.path == path), None)
        return trace.row(chunk_id)


def edited(before: Trace, now: Trace) -> dict[str, str]:
    """The ids that chunks of an earlier run have now: every edit of a chunk, and of lines above it, gives it
    another one."""
    left = {row.chunk_id for row in before.rows}
    new = [row for row in now.rows if row.chunk_id not in left]
    known, made = {row.chunk_id for row in now.rows} if new else set(), dict[str, str]()
    for row in before.rows if new else ():
        if row.chunk_id not in known and (found := same_lines(row, new)) is not None:
            made[row.chunk_id] = found.chunk_id
            new.remove(found)
    return made


def same_lines(row: Row, rows: Iterable[Row]) -> Row | None:
    """The row of the same file that shares most lines: more than half of the shorter chunk, because chunks
    repeat the end of the one before. None where there is none."""
    best, most = None, 0.5
    for other in rows:
        if other.path == row.path:
            shared = min(row.end_line, other.end_line) - max(row.start_line, other.start_line) + 1
            part = shared / (1 + min(row.end_line - row.start_line, other.end_line - other.start_line))
            if part > most:
                best, most = other, part
    return best
