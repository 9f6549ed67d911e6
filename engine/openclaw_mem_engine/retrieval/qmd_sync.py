"""Keeping the index of the QMD backend up to date: documents, then vectors; and how it stands to the disk."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from openclaw_mem_engine.cancellation import CancelToken, LinkedToken, until
from openclaw_mem_engine.errors import Cancelled, ProviderError, UsageError
from openclaw_mem_engine.model import WHOLE, ExcludedFile, Freshness, Note, Progress
from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.retrieval import BackendContext, Limited
from openclaw_mem_engine.retrieval.freshness import note_misfit
from openclaw_mem_engine.sidecar.paths import shown_path
from openclaw_mem_engine.stores.qmd.embedding import prompt_of
from openclaw_mem_engine.stores.qmd.searching import VectorSpace
from openclaw_mem_engine.sync.lock import SyncLock
from openclaw_mem_engine.sync.report import DEFAULT_REQUEST, WAIT_S, SyncReport, SyncRequest
from openclaw_mem_engine.sync.waiting import waiting_for
from openclaw_mem_engine.workspace.rules import open_workspace

if TYPE_CHECKING:
    from openclaw_mem_engine.providers.circuit_breaker import GuardedEmbedder
    from openclaw_mem_engine.qmd.collections import Collection
    from openclaw_mem_engine.stores.qmd.embedding import EmbedReport
    from openclaw_mem_engine.stores.qmd.store import QmdStore
    from openclaw_mem_engine.stores.qmd.updating import UpdateReport
    from openclaw_mem_engine.sync.plan import Plan, PlannedSpace

NO_COLLECTION = Note(
    "no-collection",
    "There is no collection to search: memory.qmd.includeDefaultMemory is off, and memory.qmd.paths names no "
    "folder. Change one of them, or use `openclaw-mem qmd collection add`.",
    "warning",
)
_FORCED = "asked for, every file is read again"
#: Names of changed files that an answer gives; the count is always exact.
_NAMED = 50
#: Documents that are embedded at once while a search waits: what is done before its time is over stays.
_AT_ONCE = 8
#: How long a change of the collections waits for an update, seconds.
_CHANGE_WAIT_S = 10.0


class _Differing(NamedTuple):
    """Changed files with their bytes, documents whose file is gone, and what is no document, by the path that
    agents get; how many files there are in all."""

    changed: list[tuple[str, int]]
    gone: list[str]
    excluded: list[ExcludedFile]
    files: int


class KeepingUp(Limited):
    """The part of the backend that writes: the methods of the capability "sync", and those of the commands
    ``update`` and ``embed``."""

    def __init__(
        self,
        context: BackendContext,
        store: QmdStore,
        configured: tuple[Collection, ...],
        odd: tuple[Note, ...],
    ) -> None:
        self.settings = context.settings
        self.store = store
        self.journal = context.journal
        self._context = context
        self._configured = configured
        self._odd = odd  # what is odd about the configured collections
        self._known: Freshness | None = None

    @property
    def embedder(self) -> GuardedEmbedder | None:
        return self._context.embedders.primary

    def sync(
        self,
        request: SyncRequest = DEFAULT_REQUEST,
        progress: Progress | None = None,
        cancel: CancelToken | None = None,
    ) -> SyncReport:
        """Documents first, then vectors. With ``files_s`` or ``budget_s`` a search does not wait for the
        rest: the next sync does it."""
        report = SyncReport()
        with self._locked(report, cancel, request.wait_s, force=request.force):
            if request.budget_s is None:  # else a search follows, whose answer says the same
                report.notes += [*self._odd, *([] if self.store.collections() else [NO_COLLECTION])]
            self._export_sessions(report)
            if request.force:
                self.store.forget_files()
            first = not self.store.document_count()
            limit = None if first else request.files_s
            self._take_files(report, progress, until(cancel, limit), cancel, prune=request.prune)
            if self.embedder is not None and not report.waiting:
                self._make_vectors(self.embedder, request, report, progress, cancel)
        if request.budget_s is None:
            note_misfit(self.embedder, self._held, report)
        if not report.waiting:
            self._known = self._judged((), report.excluded)
        return report

    def update(
        self,
        name: str | None,
        before: Callable[[Collection], None],
        progress: Progress | None = None,
        cancel: CancelToken | None = None,
    ) -> Iterator[tuple[Collection, UpdateReport]]:
        """Take in what changed in one collection, or in each of all (None): no vectors are made. ``before``
        is called with each before it is read; what it raises ends the update. Raises what ``sync`` raises,
        and UsageError for an unknown collection."""
        report = SyncReport()
        with self._locked(report, cancel):
            self._export_sessions(report)
            found = self.store.collections() if name is None else (self.store.collection(name),)
            for one in found:
                before(one)
                done = self.store.update(one.name, progress, until(cancel, None))
                self._add(report, done)
                yield one, done

    def embed(
        self, *, force: bool = False, progress: Progress | None = None, cancel: CancelToken | None = None
    ) -> EmbedReport:
        """Make the vectors that are missing, or all anew. Raises what ``QmdStore.embed`` raises, and
        UsageError without a provider."""
        embedder = self.embedder
        if embedder is None:
            raise UsageError("There are no embeddings (provider = none): choose another provider.")
        report = SyncReport()
        with self._locked(report, cancel):
            token = until(cancel, None)
            with waiting_for(embedder, progress) as show:
                prompt = prompt_of(embedder)
                made = self.store.embed(embedder, force=force, progress=show, cancel=token, prompt=prompt)
            report.embedded, report.cache_hits = made.chunks - made.cached, made.cached
        return made

    def _export_sessions(self, report: SyncReport) -> None:
        """Write the conversations as Markdown for their collection, where the configuration wants one."""
        if not self.settings.qmd.sessions.enabled:
            return
        from openclaw_mem_engine.sidecar.session_export import export_sessions

        try:
            export_sessions(self.settings, self._context.clock())
        except OSError as error:
            text = f"The conversations were not exported ({error.strerror}): they are searched as they were."
            report.notes.append(Note("sessions-not-exported", text, "warning"))

    @contextmanager
    def writing(self, wait_s: float = _CHANGE_WAIT_S) -> Iterator[QmdStore]:
        """The index for the body alone, with the collections of the configuration. Raises SyncBusy."""
        with SyncLock(self.store.path, "changing the collections").holding(wait_s):
            self.configure()
            yield self.store

    @contextmanager
    def _locked(
        self, report: SyncReport, cancel: CancelToken | None, wait_s: float = WAIT_S, *, force: bool = False
    ) -> Iterator[None]:
        """The body updates the index and fills in ``report``, which goes into the event log."""
        lock = SyncLock(self.store.path, "updating the collections")
        self._known = None
        with lock.holding(wait_s, cancel), self.journal.syncing(report, lambda: force):
            start = time.perf_counter()
            self.configure()
            yield
            report.files = report.chunks = self.store.document_count()
            report.seconds = time.perf_counter() - start

    def take_in_collections(self) -> None:
        """``configure``, when the configuration has collections that the index has not. Raises SyncBusy."""
        present = {one.name for one in self.store.collections() if one.configured}
        if present != {one.name for one in self._configured} and not self.store.read_only:
            with self.writing(wait_s=0):
                pass

    def configure(self) -> None:
        """Make the collections of the configuration those of the index. Those that were added by a command
        stay; where the configuration has the same files, its name and role are taken. Raises UsageError for a
        name that cannot be one."""
        present = {one.name: one for one in self.store.collections()}
        wanted = {one.name: one for one in self._configured}
        names = {one.location: one.name for one in self._configured}
        for name, one in present.items():
            stays = name in wanted or not one.configured
            new = names.get(one.location, name if stays else "")
            if not new or (new != name and new in present):
                self.store.remove_collection(name)
            elif new != name:
                self.store.rename_collection(name, new)
        by_location = {one.location: one for one in present.values()}
        for name, one in wanted.items():
            before = by_location.get(one.location) or present.get(name)
            kept = one
            if before is not None:
                command = before.update_command
                kept = replace(
                    one, contexts=before.contexts, included=before.included, update_command=command
                )
            if before != kept:
                self.store.add_collection(kept, replaces=before is not None)

    def _take_files(
        self,
        report: SyncReport,
        progress: Progress | None,
        token: LinkedToken,
        cancel: CancelToken | None,
        *,
        prune: bool,
    ) -> None:
        try:
            done = self.store.update(None, progress, token, prune=prune)
        except Cancelled:
            if cancel is not None and cancel.is_set():
                raise
            report.waiting = tuple(path for path, _ in self._differing().changed)
            return
        self._add(report, done)

    def _add(self, report: SyncReport, done: UpdateReport) -> None:
        """Add what an update did to the report of the sync."""
        shown = self._shown
        for one in done.collections:
            report.changed += tuple(shown(one.name, path) for path in one.changed_paths)
            report.removed += tuple(shown(one.name, path) for path in one.removed_paths)
            report.excluded += [replace(file, path=shown(one.name, file.path)) for file in one.excluded]
            if kept := self._kept(one.name, one.trouble):
                report.excluded += kept
            elif one.trouble and self.store.collection(one.name).root != self.settings.workspace / "memory":
                report.notes.append(Note("collection-unreadable", one.trouble, "warning"))

    def _kept(self, name: str, trouble: str) -> list[ExcludedFile]:
        """That the documents of a collection with a trouble are kept, if it has any."""
        if not trouble or not self.store.ls(name):
            return []
        return [ExcludedFile(WHOLE, f"{trouble[0].lower()}{trouble[1:].removesuffix('.')}", transient=True)]

    @property
    def _held(self) -> int | None:
        """The length of the vectors of the embedder that the index has."""
        return self.store.vector_dims(VectorSpace.of(self.embedder)) if self.embedder else None

    def _anew(self, request: SyncRequest, held: int | None) -> bool:
        """Whether this sync makes all vectors again: the last that came has another length than ``held``."""
        return bool(request.force and self.embedder and self.embedder.misfit(held))

    def _make_vectors(
        self,
        embedder: GuardedEmbedder,
        request: SyncRequest,
        report: SyncReport,
        progress: Progress | None,
        cancel: CancelToken | None,
    ) -> None:
        from openclaw_mem_engine.sync.embedding import OutOfTime, admit, probe

        if not request.force and not self.store.pending(VectorSpace.of(embedder)):
            return
        # Those of the built-in embedder are waited for.
        budget_s, held = None if embedder.lines else request.budget_s, self._held
        token, most = until(cancel, budget_s), None if budget_s is None else _AT_ONCE
        try:
            if budget_s is not None:
                admit(embedder, held, budget_s, token)
            with waiting_for(embedder, progress) as show:
                if request.force and held:
                    probe(embedder, token)  # the length that vectors have now
                force, prompt = self._anew(request, held), prompt_of(embedder)
                made = self.store.embed(
                    embedder, force=force, progress=show, cancel=token, prompt=prompt, most=most
                )
        except (Cancelled, OutOfTime):
            if token.is_cancelled:
                raise
            text = "Vectors of what changed are made by `openclaw-mem index`; full text finds it already."
            report.notes.append(Note("embedding-later", text))
        except ProviderError as error:
            report.notes.append(Note("embedding-failed", f"No vectors were made: {error}", "warning"))
        else:
            report.embedded, report.cache_hits = made.chunks - made.cached, made.cached
            for document, reason in made.refused:
                report.notes.append(Note("embedding-refused", f"{document}: {reason}", "warning"))

    def plan(
        self,
        request: SyncRequest = DEFAULT_REQUEST,
        cancel: CancelToken | None = None,  # noqa: ARG002 - it takes no time
    ) -> Plan:
        from openclaw_mem_engine.sync.plan import Plan, planned_space

        changed, gone, _, files = self._differing(prune=request.prune)
        spaces: tuple[PlannedSpace, ...] = ()
        if (embedder := self.embedder) is not None:
            force, more = self._anew(request, self._held), sum(size for _, size in changed)
            texts, size = self.store.pending_size(VectorSpace.of(embedder), force=force)
            spaces = (planned_space(embedder, texts + len(changed), 0, size + more),)
        rebuild, read = ("", len(changed)) if not request.force else (_FORCED, files)
        return Plan(read, len(gone), len(gone), read, rebuild, spaces, ())

    def would_rebuild(self) -> bool:
        """Never: an update changes the index in place."""
        return False

    @property
    def known(self) -> Freshness | None:
        if self._known is None and not self.store.document_count():
            return Freshness("empty", 0, None)
        return self._known

    def freshness(self) -> Freshness:
        open_workspace(self.settings.workspace)
        changed, gone, excluded, _ = self._differing()
        self._known = self._judged([*(path for path, _ in changed), *gone], excluded)
        return self._known

    def _judged(self, paths: Sequence[str], excluded: Sequence[ExcludedFile]) -> Freshness:
        """The freshness of an index from which just these files differ."""
        generation, synced_at = self.store.generation(), self.store.updated_at()
        if synced_at is None and not self.store.document_count():
            return Freshness("empty", generation, None)
        embedder = self.embedder
        pending = embedder is not None and self.store.pending(VectorSpace.of(embedder))
        partial = bool(pending) or any(not file.by_rule for file in excluded)
        stale = synced_at is None or bool(paths) or any(file.path == WHOLE for file in excluded)
        state: Literal["stale", "partial", "fresh"] = "stale" if stale else "partial" if partial else "fresh"
        return Freshness(state, generation, synced_at, tuple(paths[:_NAMED]), len(paths), tuple(excluded))

    def _differing(self, *, prune: bool = False) -> _Differing:
        """What an update would read, forget, and leave out."""
        found, shown = self.store.differences(prune=prune).items(), self._shown
        return _Differing(
            [(shown(name, file.path), file.status.st_size) for name, one in found for file in one.changed],
            [shown(name, path) for name, one in found for path in one.gone],
            [
                *(replace(file, path=shown(name, file.path)) for name, one in found for file in one.excluded),
                *(kept for name, one in found for kept in self._kept(name, one.trouble)),
            ],
            sum(one.files for _, one in found),
        )

    def _shown(self, collection: str, path: str) -> str:
        return shown_path(self.store.collection(collection), path, self.settings.workspace)
