"""A backend without an index: it reads the Markdown files at every query and counts the words of the query.

It keeps nothing, so it has no sync, no chunk view and no doctor: a memory must work with such a backend too.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator

from openclaw_mem_engine.cancellation import CancelToken
from openclaw_mem_engine.errors import Cancelled, UsageError
from openclaw_mem_engine.model import Excerpt, Freshness, MemoryFile, Note, text_hash
from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.pool import OVERFETCH, Candidate, CandidateList, ListRow, Pool
from openclaw_mem_engine.retrieval import BackendContext, Capabilities, IndexStatus, Limited
from openclaw_mem_engine.workspace.listing import list_memory
from openclaw_mem_engine.workspace.reading import get_excerpt, read_note
from openclaw_mem_engine.workspace.rules import note_date

_WORD = re.compile(r"\w+")


def open_backend(context: BackendContext) -> GrepBackend:
    """A backend over the workspace of the settings. Opens nothing."""
    return GrepBackend(context)


class GrepBackend(Limited):
    """Contract: ``retrieval.Backend``. A chunk is a whole file."""

    name = "grep"
    capabilities = Capabilities(operands=True)

    def __init__(self, context: BackendContext) -> None:
        self.settings = context.settings
        self._clock = context.clock
        self._stop = threading.Event()

    @property
    def notes(self) -> tuple[Note, ...]:
        return ()

    def retrieve(
        self, query: str, knobs: Knobs, cancel: CancelToken | None = None, *, compare: bool = False
    ) -> Pool:
        words = tuple(dict.fromkeys(word.casefold() for word in _WORD.findall(query)))
        if not query.strip():
            raise UsageError("A query is required.")
        self._stop.clear()
        found: list[tuple[int, Candidate]] = []
        for file, text in self._texts():
            if self._stop.is_set() or (cancel is not None and cancel.is_set()):
                raise Cancelled("The search was stopped.")
            lower = text.casefold()
            if hits := sum(lower.count(word) for word in words):
                found.append((hits, self._candidate(file, text)))
        found.sort(key=lambda hit: (-hit[0], hit[1].path))
        rows = tuple(ListRow(candidate.chunk_id, float(hits)) for hits, candidate in found[:OVERFETCH])
        return Pool(
            query=query,
            lists=(
                CandidateList("grep", "lexical", " OR ".join(words), rows, matched=len(found), words=words),
            ),
            candidates={candidate.chunk_id: candidate for _, candidate in found[:OVERFETCH]},
            now=self._clock(),
            backend=self.name,
            freshness=self.freshness(),
        )

    def _candidate(self, file: MemoryFile, text: str) -> Candidate:
        dated = note_date(file.path, file.source)
        last = text.removesuffix("\n").count("\n") + 1
        return Candidate(
            text_hash(file.path), file.path, 1, last, text, file.source, dated.epoch_seconds, dated.kind
        )

    def _texts(self) -> Iterator[tuple[MemoryFile, str]]:
        settings = self.settings
        for file in list_memory(settings.workspace, settings.extra_paths, settings.max_file_bytes).files:
            yield file, read_note(file.absolute, str(settings.workspace), settings.max_file_bytes).text

    def get(self, path: str, start: int | None = None, lines: int | None = None) -> Excerpt:
        settings = self.settings
        return get_excerpt(
            settings.workspace, path, start, lines, settings.extra_paths, settings.max_file_bytes
        )

    def paths(self) -> tuple[str, ...]:
        return tuple(file.path for file, _ in self._texts())

    def freshness(self) -> Freshness:
        """Always as on disk: the disk is what is searched."""
        return Freshness("fresh", 0, None)

    def status(self) -> IndexStatus:
        number = len(self.paths())
        return IndexStatus(files=number, chunks=number, vector_search="none")

    def interrupt(self) -> None:
        self._stop.set()

    def close(self) -> None:
        """Nothing was opened."""
