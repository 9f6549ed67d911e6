"""The external ``qmd`` as a backend: its answers as a pool of one candidate list."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from typing import Any
from urllib.parse import unquote

from openclaw_mem_engine.cancellation import SEARCH_STOPPED, CancelToken, Deadline, RunningCalls
from openclaw_mem_engine.model import Freshness, Note
from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.providers.base import stop_if_cancelled
from openclaw_mem_engine.providers.faults import FAULTS, QMD_FAULTS
from openclaw_mem_engine.qmd.collections import Collection
from openclaw_mem_engine.qmd.output import InvalidOutput, parse_results
from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.pool import Candidate, CandidateList, ListRow, Pool
from openclaw_mem_engine.retrieval import BackendContext, Capabilities, IndexStatus, Limited
from openclaw_mem_engine.retrieval.faulty_qmd import FaultyQmd
from openclaw_mem_engine.retrieval.scoped import checked_query
from openclaw_mem_engine.sanitize import counted, one_line
from openclaw_mem_engine.sidecar.command import QmdCommand, QmdFailed
from openclaw_mem_engine.sidecar.paths import collections_of, literal_path, qmd_home, shown_path
from openclaw_mem_engine.sidecar.upkeep import QmdUpkeep
from openclaw_mem_engine.stores.query import han_keywords
from openclaw_mem_engine.workspace.rules import note_date

_UNKNOWN_FLAG = re.compile(
    r"(unknown|unrecognized|invalid) (option|flag|argument)|(option|flag) .*not (known|supported)", re.I
)
_NO_COLLECTION = re.compile(r"collection.*(not found|missing|does not exist)|no such collection", re.I | re.S)
_HEADER = re.compile(r"@@ -(\d+)(?:,(\d+))? @@[^\n]*(?:\n|\Z)")
#: From here on ``-c`` is known to be repeatable; before that one call is made for each collection.
_SEVERAL = (2, 8)
_DOCUMENTS = "SELECT collection, path FROM documents WHERE active = 1"
#: How long a search waits for an update that is running, seconds.
_UPDATE_WAIT_S = 0.5
#: How much of an output that is no list of results is quoted, characters.
_QUOTED_CHARS = 60


class _Found(NamedTuple):
    """A row of the program's answer: a file of a collection."""

    collection: Collection
    path: str
    score: float
    row: Mapping[str, Any]


class QmdProcessBackend(Limited):
    """Contract: ``retrieval.Backend``. A pool has one list of the kind ``external``; the scores are the
    program's own. What it indexes, and when, is ``upkeep``."""

    name = "qmd"
    capabilities = Capabilities(operands=True)

    def __init__(self, context: BackendContext) -> None:
        self.settings = context.settings
        self._clock = context.clock
        self.command = _command(context)
        self.upkeep = QmdUpkeep(self.settings, self.command, context.clock)
        self._searching = RunningCalls()

    @property
    def notes(self) -> tuple[Note, ...]:
        return (
            *collections_of(self.settings)[1],
            *(Note("qmd-update-failed", f"{what}: {why}", "warning") for what, why in self.upkeep.failures),
        )

    # -- searching -------------------------------------------------------------------------------------

    def retrieve(
        self,
        query: str,
        knobs: Knobs,
        cancel: CancelToken | None = None,
        *,
        compare: bool = False,  # noqa: ARG002 - one list is all that there is
    ) -> Pool:
        query = checked_query(query)
        began, deadline = time.perf_counter(), Deadline(self.settings.qmd.limits.timeout_ms / 1000)
        with self._searching.until(cancel) as stop:
            stop_if_cancelled(stop, SEARCH_STOPPED)
            mode, asked, found = self._search(query, self._limit(knobs), deadline, stop)
        placed = [item for item in found if item is not None]
        notes = [*self.notes]
        if lost := len(found) - len(placed):
            text = f"{counted(lost, 'result')} of qmd cannot be shown: no file of a configured collection."
            notes.append(Note("qmd-unlocated", text, "warning"))
        candidates = {candidate.chunk_id: (candidate, score) for candidate, score in self._candidates(placed)}
        rows = [ListRow(chunk_id, score) for chunk_id, (_, score) in candidates.items()]
        rows.sort(key=lambda row: -row.raw)
        milliseconds = (time.perf_counter() - began) * 1000
        made = CandidateList(f"qmd:{mode}", "external", asked, tuple(rows), milliseconds=milliseconds)
        return Pool(
            query.strip(),
            (made,),
            {chunk_id: candidate for chunk_id, (candidate, _) in candidates.items()},
            self._clock(),
            provider="qmd",
            model="qmd",
            backend=self.name,
            notes=tuple(notes),
            timings={"qmd": milliseconds},
        )

    def _limit(self, knobs: Knobs) -> int:
        return min(self.settings.qmd.limits.max_results, knobs.max_results)

    def _search(
        self, query: str, limit: int, deadline: Deadline, cancel: CancelToken
    ) -> tuple[str, str, list[_Found | None]]:
        """The mode that answered, the query as it was asked, and the rows, best first in each collection."""
        self.upkeep.wait_idle(min(_UPDATE_WAIT_S, deadline.left_s))
        collections = self.upkeep.ensure_collections(deadline, cancel)
        mode: str = self.settings.qmd.search_mode
        again = False
        while True:
            asked = han_keywords(query) if mode == "search" else query
            try:
                return mode, asked, self._answers(mode, asked, limit, collections, deadline, cancel)
            except QmdFailed as error:
                if error.kind != "exit":
                    raise
                if mode != "query" and _UNKNOWN_FLAG.search(error.output):
                    mode = "query"
                elif not again and _NO_COLLECTION.search(error.output):
                    collections = self.upkeep.ensure_collections(deadline, cancel, again=True)
                    again = True
                else:
                    raise

    def _answers(
        self,
        mode: str,
        query: str,
        limit: int,
        collections: list[Collection],
        deadline: Deadline,
        cancel: CancelToken,
    ) -> list[_Found | None]:
        names = [collection.name for collection in collections]
        if not names:
            return []
        several = len(names) > 1 and self.upkeep.version(deadline.left_s) >= _SEVERAL
        found: list[_Found | None] = []
        # A query that begins like an option is none with a blank before it.
        words = [mode, f" {query}" if query.startswith("-") else query, "--json", "-n", str(limit)]
        for group in [names] if several else [[name] for name in names]:
            chosen = [word for name in group for word in ("-c", name)]
            output = self.command.run([*words, *chosen], deadline.left_s, cancel)
            try:
                rows = parse_results(output.stdout, output.stderr)
            except InvalidOutput as error:
                said = one_line((output.stdout or output.stderr).strip())[:_QUOTED_CHARS] or "nothing"
                text = f"qmd {mode} printed something other than a JSON list of results: {said}"
                raise QmdFailed("output", f"{text}. `openclaw-mem doctor` shows its version.") from error
            found += [self._located(row, collections, group) for row in rows]
        return found

    # -- what the rows mean ----------------------------------------------------------------------------

    def _located(self, row: Any, collections: list[Collection], asked: list[str]) -> _Found | None:
        """The file of a collection that a row names: that of ``qmd://``, else of the document id in the
        program's index; None when it names none."""
        if not isinstance(row, dict) or not isinstance(score := row.get("score"), (int, float)):
            return None
        known = {collection.name: collection for collection in collections}
        name, path = _file_of(row.get("file"))
        if name not in known:
            named = name or str(row.get("collection") or "") or (asked[0] if len(asked) == 1 else "")
            name, path = self._document(str(row.get("docid") or ""), named, path)
        if name not in known or not path:
            return None
        return _Found(known[name], literal_path(known[name], path), float(score), row)

    def _document(self, docid: str, collection: str, path: str) -> tuple[str, str]:
        """Collection and path of a document by (the beginning of) its hash, those named in the row first."""
        docid = docid.strip().removeprefix("#").lower()
        if not re.fullmatch(r"[0-9a-f]{4,64}", docid) or not self.command.index_path.is_file():
            return collection, path
        sql = """SELECT collection, path FROM documents WHERE active = 1 AND hash BETWEEN ?1 AND ?1 || 'g'
            ORDER BY hash <> ?1, collection <> ?2, path <> ?3 LIMIT 1"""
        found = self._read(sql, docid, collection, path)
        return (str(found[0][0]), str(found[0][1])) if found else ("", "")

    def _candidates(self, found: Iterable[_Found]) -> Iterator[tuple[Candidate, float]]:
        """One for each file, with its best score."""
        best: dict[tuple[str, str], _Found] = {}
        for item in found:
            key = item.collection.name, item.path
            if key not in best or item.score > best[key].score:
                best[key] = item
        for (name, path), item in best.items():
            text = str(item.row.get("snippet") or item.row.get("body") or "")
            start, count = item.row.get("line"), 0
            first = start if isinstance(start, int) and start > 0 else 1
            if header := _HEADER.match(text):
                # Its line numbers are in the result's own fields.
                text = text[header.end() :]
                first, count = max(1, int(header[1])), int(header[2] or 0)
            last = first + (count or text.count("\n") + 1) - 1
            shown = shown_path(item.collection, path, self.settings.workspace)
            source = item.collection.source
            dated = note_date(shown, source)
            at = (f"{name}/{path}", shown, first, max(first, last), text, source)
            context = str(item.row.get("context") or "")
            yield Candidate(*at, dated.epoch_seconds, dated.kind, context), item.score

    # -- the rest of the contract ----------------------------------------------------------------------

    def paths(self) -> tuple[str, ...]:
        """Those of the program's index; none when it cannot be read."""
        known = {collection.name: collection for collection in self.upkeep.collections}
        shown = (
            shown_path(known[name], path, self.settings.workspace)
            for name, path in self.documents
            if name in known
        )
        return tuple(sorted(shown))

    @property
    def documents(self) -> list[tuple[str, str]]:
        """Collection and path of each document of the program's index; none when it cannot be read."""
        return [(row[0], row[1]) for row in self._rows(_DOCUMENTS)]

    def _rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Rows of the program's index; none when it cannot be read."""
        if self.command.index_path.is_file():
            with suppress(QmdFailed):
                return self._read(statement)
        return []

    def _read(self, statement: str, *bound: str) -> list[tuple[Any, ...]]:
        uri = f"{self.command.index_path.resolve().as_uri()}?mode=ro"
        try:
            with closing(sqlite3.connect(uri, uri=True, timeout=1.0)) as index:
                return index.execute(statement, bound).fetchall()
        except sqlite3.Error as error:
            raise QmdFailed("output", f"The index of qmd cannot be read ({error}).") from error

    def freshness(self) -> Freshness:
        """When the index was last updated from here; which files changed since is not known."""
        updated = self.upkeep.state.facts.updated_at
        return Freshness("fresh" if updated else "empty", 0, updated or None)

    def status(self) -> IndexStatus:
        path = self.command.index_path
        files = self._rows("SELECT count(*) FROM documents WHERE active = 1")
        chunks = self._rows("SELECT count(*) FROM content_vectors")
        return IndexStatus(
            files[0][0] if files else 0,
            chunks[0][0] if chunks else 0,
            "qmd",
            self.settings.qmd.search_mode,
            index_path=str(path),
            index_bytes=path.stat().st_size if path.is_file() else 0,
        )

    def interrupt(self) -> None:
        self._searching.stop()

    def close(self) -> None:
        self.upkeep.close()


def _command(context: BackendContext) -> QmdCommand:
    """The configured program, or one with a simulated fault."""
    if fault := next((name for name in FAULTS if name in context.faults & QMD_FAULTS), ""):
        return FaultyQmd(fault)
    assert context.settings.qmd.command is not None
    return QmdCommand(context.settings.qmd.command, qmd_home(context.settings))


def _file_of(value: object) -> tuple[str, str]:
    """Collection and path of ``qmd://collection/path``; ("", the text) for another."""
    text = value if isinstance(value, str) else ""
    if not text.startswith("qmd://"):
        return "", text
    name, _, path = text.removeprefix("qmd://").partition("?")[0].partition("/")
    return name, unquote(path) if "%" in path else path
