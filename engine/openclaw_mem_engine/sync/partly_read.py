"""Transcripts that are read only in part: counted while they are read, and told in the sync's notes."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from openclaw_mem_engine.model import Note, SkippedFile
from openclaw_mem_engine.stores.base import FileState
from openclaw_mem_engine.sync.first_few import first_few
from openclaw_mem_engine.workspace.transcripts import MAX_LINE_BYTES, cut_at, first_part


@dataclass(slots=True)
class PartlyRead:
    """Transcripts that one sync has read: how many lines of each are no JSON or too long, and which were
    cut, with the limit in bytes of text."""

    broken: dict[str, int] = field(default_factory=dict)
    too_long: dict[str, int] = field(default_factory=dict)
    cut: dict[str, int] = field(default_factory=dict)

    def read(self, path: str, content_hash: str, *, broken: int, too_long: int) -> None:
        """Take note of a transcript that was read; of others there is nothing to note."""
        if broken:
            self.broken[path] = broken
        if too_long:
            self.too_long[path] = too_long
        limit = cut_at(content_hash)
        if limit is not None:
            self.cut[path] = limit

    @property
    def skipped(self) -> list[SkippedFile]:
        """The conversations that are searched in part."""
        return [SkippedFile(path, first_part(limit)) for path, limit in self.cut.items()]

    @property
    def notes(self) -> list[Note]:
        """One for each kind of loss."""
        found = []
        if self.broken:
            told = f"Lines of transcripts that are no JSON were left out: {_counts(self.broken)}."
            found.append(Note("broken-lines", told))
        if self.too_long:
            told = (
                f"Lines of transcripts that are longer than {MAX_LINE_BYTES // 2**20} MB were left out: "
                f"{_counts(self.too_long)}."
            )
            found.append(Note("long-lines", told))
        if self.cut:
            told = (
                f"Of long conversations {first_part(next(iter(self.cut.values())))}: {first_few(self.cut)}."
            )
            found.append(Note("transcripts-cut", told, "warning"))
        return found


def cut_files(states: Iterable[FileState], but: Collection[str] = ()) -> list[SkippedFile]:
    """The indexed conversations that are searched in part, ``but`` some paths."""
    return [
        SkippedFile(state.path, first_part(limit))
        for state in states
        if state.source == "sessions" and state.path not in but and (limit := cut_at(state.hash)) is not None
    ]


def _counts(counts: dict[str, int]) -> str:
    return f"{sum(counts.values()):,} in {first_few(counts)}"
