"""What one sync did."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from openclaw_mem_engine.model import Note, SkippedFile

#: Notes of a sync that did not do all that it should have done.
_INCOMPLETE = ("embedding-failed", "beside-failed")


@dataclass(slots=True)
class SyncReport:
    """What one sync did. ``embedded`` counts texts sent to the embedder, ``cache_hits`` those it was spared;
    ``beside`` counts texts embedded for other than the primary space; ``verified`` counts known files that
    were read to compare them, when that was asked for; ``seconds`` is wall time. ``waiting`` are changed or
    deleted files that were left for later, when the time of a search was over.

    ``changed`` are the files whose text was indexed. ``refused`` were read, too, and hold no text that can be
    (binary, not UTF-8). ``removed`` are files that went from the index: gone from the disk or left out now,
    and those of ``refused`` whose old text was taken out. ``skipped`` is everything that is left out, also
    what was so before."""

    files: int = 0
    chunks: int = 0
    embedded: int = 0
    cache_hits: int = 0
    beside: int = 0
    verified: int = 0
    changed: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    skipped: list[SkippedFile] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    rebuilt: bool = False
    seconds: float = 0.0

    def to_dict(self) -> dict[str, object]:
        """The stable answer of ``openclaw-mem index --json``."""
        return {
            "files": self.files,
            "chunks": self.chunks,
            "embedded": self.embedded,
            "cacheHits": self.cache_hits,
            "beside": self.beside,
            "verified": self.verified,
            "changed": list(self.changed),
            "refused": list(self.refused),
            "removed": list(self.removed),
            "skipped": [skipped.to_dict() for skipped in self.skipped],
            "notes": [note.to_dict() for note in self.notes],
            "rebuilt": self.rebuilt,
            "seconds": round(self.seconds, 3),
        }

    @property
    def incomplete(self) -> list[Note]:
        """Why vectors are missing that this sync should have made; keywords find the new text already."""
        return [note for note in self.notes if note.code in _INCOMPLETE]

    @property
    def left_out(self) -> list[SkippedFile]:
        """What this sync took out of the index, or did not take in, and why: the part of ``skipped`` that
        is also in ``refused`` or ``removed``."""
        paths = {*self.refused, *self.removed}
        return [file for file in self.skipped if file.path in paths]

    @property
    def gone(self) -> list[str]:
        """``removed`` without what is left out: there is no file of memory of that name any more."""
        skipped = {file.path for file in self.skipped}
        return [path for path in self.removed if path not in skipped]

    def forget(self) -> None:
        """Become the report of a sync that has done nothing yet."""
        fresh = SyncReport()
        for item in fields(self):
            setattr(self, item.name, getattr(fresh, item.name))
