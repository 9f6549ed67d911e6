"""What can be said of a passage when the external ``qmd`` searches: its file, its collection, and whether the
program returns it. Why the program leaves something out it does not say."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from openclaw_mem_engine.errors import UsageError
from openclaw_mem_engine.model import Note
from openclaw_mem_engine.qmd.collections import Collection
from openclaw_mem_engine.qmd.documents import handelize
from openclaw_mem_engine.ranking.pool import Candidate, Pool
from openclaw_mem_engine.ranking.state import RankingState
from openclaw_mem_engine.ranking.trace import Trace
from openclaw_mem_engine.retrieval.collection_files import CollectionLookup
from openclaw_mem_engine.retrieval.lookup import INDEX, check_line
from openclaw_mem_engine.sanitize import counted
from openclaw_mem_engine.sidecar.paths import excerpt
from openclaw_mem_engine.why_not import Change, TextChange, WhyNot
from openclaw_mem_engine.why_not.walk import ListFact
from openclaw_mem_engine.workspace.opening import NoteRefused

if TYPE_CHECKING:
    from openclaw_mem_engine.cancellation import CancelToken
    from openclaw_mem_engine.retrieval import PassageQuestion
    from openclaw_mem_engine.retrieval.qmd_process import QmdProcessBackend

_UNKNOWN = Note(
    "external-unknown",
    "Changes that would return it are unknown: the external qmd reports its results only, without ranks and "
    "scores of other documents. Without memory.qmd.command the built-in QMD searches and reports them.",
)


class ExternalLookup(CollectionLookup[Pool]):
    """``answer`` is what the program returned for the query; None when it must not be asked."""

    def __init__(
        self,
        backend: QmdProcessBackend,
        answer: Pool | None,
        question: PassageQuestion,
        cancel: CancelToken,
    ) -> None:
        super().__init__(backend, question, cancel)
        self._backend = backend
        self._answer = answer or Pool(self._query, (), {}, 0.0)

    def _collections(self) -> Sequence[Collection]:
        return self._backend.upkeep.collections

    @cached_property
    def _documents(self) -> set[tuple[str, str]]:
        return {*self._backend.documents}

    def _holds(self, collection: str, path: str) -> bool:
        """Early releases name a file by its slug."""
        names = [path]
        for legacy in (False, True):
            with suppress(UsageError):
                names.append(handelize(path, legacy=legacy))
        found = f"{collection}/{path}" in self._answer.candidates
        return found or any((collection, name) in self._documents for name in names)

    def _file_steps(self) -> Sequence[Candidate] | WhyNot:
        placed = self._placed_steps()
        if isinstance(placed, WhyNot):
            return placed
        with suppress(NoteRefused):
            now = excerpt(self._backend.settings, self._path)
            check_line(self._line, self._path, now.total_lines)
        if not self._documents and not any(one.held for one in placed):
            self._pass(
                "indexed", "the index of the external qmd cannot be read: whether it has the file is unknown"
            )
        elif not any(one.held for one in placed):
            return self._stop_at("indexed", "the external qmd has not indexed it", INDEX)
        else:
            self._pass("indexed", "the external qmd has indexed it; whether with its current text is unknown")
        found = [made for one in placed if (made := self._answer.candidates.get(one.id)) is not None]
        at = self._line or 0
        first = placed[0]
        return found or [Candidate(first.id, self._path, at, at, "", first.collection.source)]

    def _key(self, *_: object, **__: object) -> tuple[object, ...]:
        return ()

    def _lists_of(self, *_: object, **__: object) -> Pool:
        return self._answer

    _pool_of = _lists_of
    complete = _lists_of

    def _nearest(
        self, chunks: Sequence[Candidate], state: RankingState, trace: Trace, found: Pool
    ) -> Candidate:
        first = self._shown_first([one.chunk_id for one in chunks], state, trace)
        return found.candidates[first] if first is not None else chunks[0]

    def _fact(self, found: Pool, chunk_id: str, at: int, *_: object, **__: object) -> ListFact:
        lst = found.lists[at]
        rank = next((n for n, row in enumerate(lst.rows, 1) if row.chunk_id == chunk_id), None)
        results = counted(len(lst.rows), "result")
        said = f"rank {rank} of its {results}"
        if rank is None:
            said = f"it is not in its {results}; the program gives no reason"
        return ListFact(lst.id, "qmd", False, rank, None, None, True, said=said)

    def _changes(self, *_: object, **__: object) -> tuple[list[Change], list[TextChange]]:
        self._notes.append(_UNKNOWN)
        return [], []
