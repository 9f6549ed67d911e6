"""Keeping the index up to date behind the screens: syncs, their reports as text, and following the files.

Errors never leave here: they become ``Activity.trouble``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from openclaw_mem_engine import api
from openclaw_mem_engine.api import Cancelled, IndexDamaged, OpenClawMemError, WorkspaceError
from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_tui.presenter import Presenter
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.damage import DAMAGED
from openclaw_mem_tui.render.reports import Done, embeddings, examined, outcome, unchanged, verified
from openclaw_mem_tui.render.spans import Failed
from openclaw_mem_tui.render.status import Activity, Header, Task
from openclaw_mem_tui.service import Service

if TYPE_CHECKING:
    from openclaw_mem_engine.api import (
        DoctorReport,
        FollowEvent,
        Freshness,
        Memory,
        Pool,
        Status,
        SyncReport,
    )


@dataclass(frozen=True, slots=True)
class Job:
    """A sync that was asked for. ``hint`` is what it is about; ``force`` rebuilds, ``verify`` reads every
    file, ``prune`` forgets the notes of an emptied workspace, ``tails`` includes the ends of transcripts (see
    ``Memory.sync``). A ``repair`` rebuilds what replaced a damaged index."""

    hint: str = ""
    force: bool = False
    verify: bool = False
    prune: bool = False
    tails: bool = False
    repair: bool = False

    @property
    def task(self) -> Task:
        return "repair" if self.repair else "rebuild" if self.force else "verify" if self.verify else "sync"

    def joined(self, other: Job | None) -> Job:
        """One job that does what both ask for."""
        if other is None:
            return self
        force, verify = self.force or other.force, self.verify or other.verify
        prune, tails = self.prune or other.prune, self.tails or other.tails
        return Job(self.hint, force, verify, prune, tails, self.repair or other.repair)


class SyncController(Presenter[Activity]):
    """Holds what goes on behind the screens, and the ``header`` that every screen shows."""

    def __init__(self, service: Service, demo: bool, refresh: Callable[[], Awaitable[None]]) -> None:
        """``refresh`` answers again what was answered from the index as it was before a sync."""
        super().__init__(service, Activity())
        service.on_damage = self.take_damage
        self.header = Header(demo=demo)
        #: What answered last instead of the configured provider; empty where that did.
        self.instead = ""
        self._refresh = refresh
        self._progress: tuple[int, int, str] = (0, 0, "")
        self._began = 0.0  # when the progress of files began, on the monotonic clock
        #: Whether the words of all files are in the index, of which the running sync makes the vectors.
        self._has_words = self._shows_words = False
        self._file: object = None  # the index file when the status was read
        #: Set while no sync runs.
        self._idle = asyncio.Event()
        self._idle.set()
        #: The report of the last sync, or its error.
        self._outcome: SyncReport | OpenClawMemError | None = None
        self._again: Job | None = None  # asked for while another ran
        self._synced_at_start = False
        #: Whether the last report of the doctor has an error with which no sync can run.
        self._stuck = False
        #: What the last checks of this session found (None: none has run), until the index is built anew.
        self.examined: str | None = None
        #: What was done before a sync (an edit, a repair): said once more with what the next sync found.
        self.done = Done()
        #: Whether changes on disk are noticed by now, or watching is switched off.
        self.follows = False

    def trouble(self, text: str) -> None:
        """Something that stays true until the next sync: shown in a line of its own."""
        self.update(trouble=text)

    def take_freshness(self, freshness: Freshness) -> None:
        """A search has compared the index with the disk. What was said of another state is over."""
        before = self.state.freshness
        changed = before is None or before.state != freshness.state
        self.update(freshness=freshness, said="" if changed else self.state.said)

    def take_errors(self, count: int, *, stuck: bool) -> None:
        """The doctor has found so many errors in the index, before the sync at the start; ``stuck``: one of
        them lets no sync run."""
        self._stuck = stuck and not isinstance(self._outcome, api.SyncReport)
        self.update(errors=0 if stuck and not self._stuck else count)

    def take_damage(self, error: IndexDamaged) -> None:
        """The index cannot be read everywhere. That of another backend has no state here."""
        if self.service.backend == self.service.configured_backend:
            self._set_damage(error)

    async def check_file(self) -> None:
        """Read the file of the index once: a search meets only damage of the pages that it reads. What was
        answered before is answered again when there is some."""
        with suppress(OpenClawMemError):  # whatever else is wrong, the first search says
            damage = await self.service.long(
                "doctor", lambda memory, stop: api.file_damage(memory.settings, stop)
            )
            if damage is not None:
                self.take_damage(damage)
                await self._refresh()

    def take_answer(self, pool: Pool) -> Pool:
        """An answer of the configured index, with the damage that is known. That of another backend has no
        state here."""
        self.instead = pool.fallback.instead if pool.fallback is not None else ""
        if self.service.backend != self.service.configured_backend:
            return pool
        if api.says_damage(pool.notes):
            if self.state.damage is None:
                found = next(note.text for note in pool.notes if api.says_damage((note,)))
                self._set_damage(IndexDamaged(found))
        elif self.state.damage is not None:
            note = api.Note("index-damaged", str(self.state.damage), "warning")
            return replace(pool, notes=(*pool.notes, note))
        return pool

    def _set_damage(self, damage: IndexDamaged | None) -> None:
        """What was said before a damage was found may not be so."""
        new = damage is not None and self.state.damage is None
        self.update(damage=damage, said="" if new else self.state.said)

    def take_report(self, report: DoctorReport) -> None:
        """What the doctor has found. A report without errors ends a damage that was known."""
        found = next((each.text for each in report.findings if each.code == "damaged"), "")
        known = self.state.damage if report.errors else None
        self._stuck = any(each.code in api.UNWRITABLE for each in report.findings)
        self.examined = examined(report, self.service.clock())
        by_key = any(each.fixable for each in report.findings if each.severity == "error")
        self.update(errors=report.errors, repairable=by_key)
        self._set_damage(IndexDamaged(found) if found else known)

    # -- syncing ------------------------------------------------------------------------------------------

    @property
    def _index_file(self) -> int | None:
        """The number of the index file at its path, None when there is none. Costs one stat."""
        with suppress(OSError):
            return self.service.settings.index_path.stat().st_ino
        return None

    async def read_status(self) -> None:
        """Read sizes, provider and freshness for the edges of the screen."""
        self._file = self._index_file
        try:
            status, not_included = await self.service.read_sound(_state)
        except OpenClawMemError as error:
            self.update(trouble=str(error), freshness=None)
            return
        # "static static-minilm" is shown as its second half.
        model = status.model if status.model.startswith(status.provider) else ""
        provider = model or fmt.join((status.provider, status.model), " ")
        if status.provider == "none":
            provider = "BM25 only"
        self.header = replace(
            self.header, workspace=status.workspace, backend=status.backend, provider=provider
        )
        warnings = [note.text for note in status.notes if note.level == "warning"]
        known = self.state.freshness
        other = known is not None and known.state != status.freshness.state
        self.update(
            freshness=status.freshness,
            said="" if other else self.state.said,  # as with a search
            files=status.files if status.freshness.state != "empty" else 0,
            chunks=status.chunks,
            not_included=not_included,
            trouble=" ".join(warnings[:2]),
        )
        self.publish()

    async def sync(self, job: Job, *, quietly: bool = False) -> None:
        """Bring the index up to date and say what changed; the shown results are then out of date.
        ``quietly`` says nothing when nothing did.

        One that is asked for while another runs is done right after it, by the same call.
        """
        if not self.service.is_open:
            return
        if not self._idle.is_set():
            self._again = job.joined(self._again)
            return
        self._idle.clear()
        said, before, self._again = "", self.state.said, job
        try:
            while self._again is not None:
                following, self._again = self._again, None
                said = await self._sync_once(following) or said
        finally:
            self._idle.set()
            self.update(phase="ready", label="", left=None)
        if said:
            said, self.done = type(said)(self.done.around(said)), Done()  # one that failed still says so
        calm = (self.state.said or before) if quietly else unchanged(self.state.freshness)
        self.say(said or (DAMAGED if self.state.damage is not None else calm))

    async def _sync_once(self, job: Job) -> str:
        """What changed, as a sentence; empty when nothing did."""
        self._progress, self._began, self._has_words = (0, 0, job.hint), time.monotonic(), False
        self._shows_words = False
        before = self.state.freshness
        first = before is not None and before.state == "empty"
        began = {"phase": "syncing", "task": job.task, "label": job.hint, "done": 0, "total": 0, "left": None}
        self.update(**began, said="", noted="")
        try:
            request = api.SyncRequest(job.force, job.verify, job.prune, job.tails)
            report = self._outcome = await self.service.sync(self._on_progress, request)
        except Cancelled as error:
            self._outcome = error
            await self.read_status()
            return str(error)
        except OpenClawMemError as error:
            self._outcome = error
            await self.read_status()
            self.trouble(str(error))
            return Failed(f"the {job.task} failed")
        await self.read_status()
        if job.force or report.rebuilt:
            self.examined = ""  # all of it is new
            self.update(errors=0, damage=None, built=self.state.built + 1)
        elif self._stuck:
            self.update(errors=0)  # the report is older than this sync
        self._stuck = False
        warnings = [note.text for note in report.notes if note.level == "warning"]
        if warnings:
            self.trouble(fmt.join([*warnings[:2], self.state.trouble], " "))
        self.update(noted=fmt.join(note.text for note in report.notes if note.level != "warning"))
        if report.incomplete:
            return Failed(fmt.join((outcome(report), report.shortfall), "; "))
        if job.force:
            files = fmt.count(report.files, "file")
            if job.repair:
                return f"repaired: {embeddings(report) or files}"
            return fmt.join((f"rebuilt with {files} in {report.seconds:.1f} s", embeddings(report)), ", ")
        indexed = f"indexed in {report.seconds:.1f} s" if first and report.changed else ""
        return indexed or outcome(report) or (verified(report) if job.verify else "")

    def stop_sync(self) -> None:
        """Stop the sync that runs and the one that waits for it; it is shown until it has ended."""
        self._again = None
        self.service.cancel_sync()
        done, total, _ = self._progress
        self._progress = (done, total, "stopping")

    def _on_progress(self, done: int, total: int, label: str) -> None:
        # Called in the sync thread, often: the screen's clock reads the last one.
        self._progress = (done, total, label)
        self._has_words = self._has_words or label.startswith(api.VECTORS)

    def tick(self) -> None:
        """Show the progress of a running sync (called by the screen's clock)."""
        if self._idle.is_set() and self.state.freshness and self._index_file != self._file:
            self._file = self._index_file
            self.service.run(self.read_status())  # it was removed or replaced
        if self.state.phase == "syncing":
            if self._has_words and not self._shows_words:
                self._shows_words = True
                self.service.run(self._show_words())
            done, total, label = self._progress
            if not done:
                self._began = time.monotonic()
            spent = time.monotonic() - self._began
            # An embedder at work reports its own pace.
            is_files = "  embedded " not in label and not label.startswith((api.VECTORS, api.WAITING))
            known = 0 < done < total and spent > 1 and is_files
            left = spent / done * (total - done) if known else None
            self.update(done=done, total=total, left=left, label=label or self.state.label)

    async def _show_words(self) -> None:
        """Answer from the words, while vectors are made."""
        self.service.forget_pools()
        await self.read_status()
        self.update(trouble="")  # what lacks is being made
        await self._refresh()

    # -- following the files ------------------------------------------------------------------------------

    async def start(self, job: Job | None = None) -> None:
        """The sync at the start: the ``job`` that was asked for, or where that is configured or there is no
        index yet."""
        fresh, settings = self.state.freshness, self.service.settings.sync
        if job or settings.on_session_start or (fresh is not None and fresh.state == "empty"):
            self._synced_at_start = True
            await self.sync_and_refresh(job or Job(), quietly=True)

    async def watch(self) -> None:
        """Follow the notes on disk: each group of changes is synced and searched again. What changes before
        the watcher begins is found by one more sync."""
        settings = self.service.settings
        if not settings.sync.watch:
            self.follows = True
            return
        try:
            await self.service.follow(self._on_follow_event, self._sync_for, at_start=self._synced_at_start)
        except OpenClawMemError as error:
            self.trouble(str(error))

    def _on_follow_event(self, event: FollowEvent) -> None:
        if event.note is not None and event.note.code.startswith("watch"):
            self.update(noted=event.note.text)
        if event.event == "sync" or (event.event == "watching" and not self._synced_at_start):
            self.follows = True

    async def _sync_for(self, _reason: str) -> SyncReport:
        """The sync of the follower: its report, or its error raised."""
        while not self._idle.is_set():  # it would only be queued
            await self._idle.wait()
        await self.sync_and_refresh(Job(), quietly=True)  # else it could cover what was said of a repair
        if isinstance(self._outcome, api.SyncReport):
            return self._outcome
        raise self._outcome or Cancelled("The index is closed.")

    async def sync_and_refresh(self, job: Job, *, quietly: bool = False) -> None:
        await self.sync(job, quietly=quietly)
        await self._refresh()


def _state(memory: Memory) -> tuple[Status, str]:
    """The state of the memory, and a sentence on Markdown of the workspace that is no memory."""
    not_included = ""
    with suppress(WorkspaceError):  # the state of the index is known without the workspace
        not_included = api.notes_not_included(memory.settings)
    return memory.status(), not_included
