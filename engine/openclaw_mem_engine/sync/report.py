"""What a sync is asked for, and what it did."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import field
from itertools import islice
from typing import TYPE_CHECKING

from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_engine.model import ExcludedFile, Note, as_json

if TYPE_CHECKING:
    from openclaw_mem_engine.ranking.knobs import Knobs

#: Notes of a sync that did not do all that it should have done.
_INCOMPLETE = ("not-rebuilt", "embedding-failed", "beside-failed", "zero-vector")
#: How long a sync waits for another process before it gives up, seconds: a first index with a remote provider
#: may take that long. The wait can be cancelled.
WAIT_S = 1_800.0
#: How many of a list a sentence names.
_NAMED = 3


@dataclass(frozen=True, slots=True)
class SyncRequest:
    """What a sync is asked for. All times are seconds; None means no limit.

    ``force`` rebuilds the index. ``verify`` reads every file to compare it, whatever its time and size say.
    ``prune`` forgets the notes of a workspace that holds none any more. ``tails`` also takes what was
    appended to transcripts, however little it is. ``wait_s`` is how long
    another process is waited for. For a search: after ``files_s`` no further file is begun, unless the index
    is empty, and nothing is embedded. ``budget_s`` limits embedding by a provider that takes time, which then
    follows the files, in what is left of ``files_s``; nothing is rebuilt for such a provider. What searches
    with ``knobs`` read is made, too.
    """

    force: bool = False
    verify: bool = False
    prune: bool = False
    tails: bool = False
    wait_s: float = WAIT_S
    budget_s: float | None = None
    files_s: float | None = None
    knobs: Knobs | None = None

    @property
    def is_asked_for(self) -> bool:
        """Whether a command or a key asks for it, and not a search or the watcher, which ask again and
        again."""
        return self.force or self.verify or self.prune or self.tails


#: Everything that changed, without a limit of time.
DEFAULT_REQUEST = SyncRequest()


@dataclass(slots=True)
class SyncReport:
    """What one sync did. ``embedded`` counts texts sent to the embedder, ``cache_hits`` those it was spared,
    ``beside`` those embedded for other than the primary space, ``verified`` known files that were read to
    compare them; ``seconds`` is wall time. ``changed`` are the files whose text was indexed. ``without_text``
    were read, too, and hold no text that can be (binary, not UTF-8). ``removed`` from the index are files
    that are deleted, excluded or not included now, and those of ``without_text`` whose old text was taken
    out; ``not_included`` are those of them that are on disk, not included and not excluded by name.
    ``waiting`` are changed or deleted files for which a search had no time. ``excluded`` is everything that
    is excluded."""

    files: int = 0
    chunks: int = 0
    embedded: int = 0
    cache_hits: int = 0
    beside: int = 0
    verified: int = 0
    changed: tuple[str, ...] = ()
    without_text: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    not_included: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    excluded: list[ExcludedFile] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    rebuilt: bool = False
    seconds: float = 0.0

    def to_dict(self) -> dict[str, object]:
        """The stable answer of ``openclaw-mem index --json``."""
        return as_json(self, waiting="") | {"seconds": round(self.seconds, 3)}

    @property
    def incomplete(self) -> list[Note]:
        """Why vectors are missing that this sync should have made; BM25 finds the new text already."""
        return [note for note in self.notes if note.code in _INCOMPLETE]

    @property
    def shortfall(self) -> str:
        """What this sync should have done and did not, or had no time for, in short; "" when it did all."""
        codes = {note.code for note in self.notes}
        if codes & {"not-rebuilt", "rebuild-later"}:
            return "the index was not rebuilt"
        return "vectors are missing" if codes & {*_INCOMPLETE, "embedding-later"} else ""

    @property
    def newly_excluded(self) -> list[ExcludedFile]:
        """What this sync took out of the index, or did not take in, and why: the part of ``excluded`` that
        is also in ``without_text`` or ``removed``."""
        paths = {*self.without_text, *self.removed}
        return [file for file in self.excluded if file.path in paths]

    @property
    def deleted(self) -> list[str]:
        """``removed`` without what is on disk: there is no file of that name any more."""
        there = {*self.not_included, *(file.path for file in self.excluded)}
        return [path for path in self.removed if path not in there]

    @property
    def taken_out(self) -> list[str]:
        """How many files left the index without being excluded, in words: a part for each reason."""
        reasons = {"deleted": self.deleted, "removed (no longer included)": self.not_included}
        return [f"{len(paths):,} {reason}" for reason, paths in reasons.items() if paths]

    def forget(self) -> None:
        """Become the report of a sync that has done nothing yet."""
        SyncReport.__init__(self)


def first_few(texts: Collection[str], separator: str = ", ") -> str:
    """``a, b, c and 2 more``"""
    more = len(texts) - _NAMED
    return separator.join(islice(texts, _NAMED)) + (f" and {more:,} more" if more > 0 else "")
