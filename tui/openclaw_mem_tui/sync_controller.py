"""Keeping the index up to date behind the screens: syncs, what they say, and following the files.

Errors never leave here: they become ``Activity.trouble``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from openclaw_mem_engine.api import Cancelled, Note, OpenClawMemError, SyncReport
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.status import Activity, Place, Task
from openclaw_mem_tui.service import Service

_UP_TO_DATE = "the index is up to date"


class Job(NamedTuple):
    """A sync that was asked for. ``force`` rebuilds, ``verify`` reads every file, ``tails`` takes in the ends
    of transcripts (see ``Memory.sync``)."""

    hint: str = ""
    force: bool = False
    verify: bool = False
    tails: bool = False

    @property
    def task(self) -> Task:
        return "rebuild" if self.force else "verify" if self.verify else "sync"

    def after(self, other: Job | None) -> Job:
        """One job that does what both ask for."""
        if other is None:
            return self
        return Job(
            self.hint, self.force or other.force, self.verify or other.verify, self.tails or other.tails
        )


class Keeper:
    """Holds the present ``activity``; those who ``listen`` are called after each change of it."""

    def __init__(self, service: Service, demo: bool = False) -> None:
        self.service = service
        self._listeners: list[Callable[[], None]] = []
        self.activity = Activity()
        self.place = Place(demo=demo)
        self._progress: tuple[int, int, str] = (0, 0, "")
        self._began = 0.0  # when the progress of files began, on the monotonic clock
        self._syncing = False
        self._again: Job | None = None  # asked for while another ran
        self._synced_at_start = False
        #: Changes on disk are noticed from now on, or nobody wants that.
        self.follows = False

    def listen(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def unlisten(self, listener: Callable[[], None]) -> None:
        self._listeners.remove(listener)

    def publish(self) -> None:
        for listener in tuple(self._listeners):
            listener()

    def say(self, text: str) -> None:
        """A short message in the status line, until something else happens."""
        self._activity(said=text)

    def trouble(self, text: str) -> None:
        """Something that stays true until the next sync: shown in a line of its own."""
        self._activity(trouble=text)

    def _activity(self, **changes: object) -> None:
        activity = replace(self.activity, **changes)  # type: ignore[arg-type]
        if activity != self.activity:
            self.activity = activity
            self.publish()

    async def refresh(self) -> None:
        """The index has changed: whatever was answered from it is answered again."""

    # -- syncing ------------------------------------------------------------------------------------------

    async def look(self) -> None:
        """Read sizes, provider and freshness for the edges of the screen."""
        try:
            status = await self.service.status()
        except OpenClawMemError as error:
            self._activity(trouble=str(error), freshness=None)
            return
        provider = (
            fmt.join((status.provider, status.model), " ") if status.provider != "none" else "keywords only"
        )
        self.place = replace(
            self.place, workspace=status.workspace, backend=status.backend, provider=_short(provider)
        )
        warnings = [note.text for note in status.notes if note.level == "warning"]
        self._activity(
            freshness=status.freshness,
            files=status.files,
            chunks=status.chunks,
            trouble=" ".join(warnings[:2]),
        )
        self.publish()

    async def sync(
        self,
        hint: str = "",
        *,
        force: bool = False,
        verify: bool = False,
        tails: bool = False,
        quietly: bool = False,
    ) -> None:
        """Bring the index up to date and say what changed; the shown results are then out of date.
        ``quietly`` says nothing when nothing did.

        One that is asked for while another runs is done right after it, by the same call.
        """
        if not self.service.is_open:
            return
        job = Job(hint, force, verify, tails)
        if self._syncing:
            self._again = job.after(self._again)
            return
        self._syncing = True
        told, before = "", self.activity.said
        try:
            while True:
                self._again = None
                told = await self._sync_once(job) or told
                if self._again is None:
                    break
                job = self._again
        finally:
            self._syncing = False
            self._activity(phase="ready", label="", left=None)
        self.say(told or (before if quietly else _UP_TO_DATE))

    async def _sync_once(self, job: Job) -> str:
        """What changed, as a sentence; empty when nothing did."""
        self._progress, self._began = (0, 0, job.hint), time.monotonic()
        before = self.activity.freshness
        first = before is not None and before.state == "empty"
        self._activity(
            phase="syncing", task=job.task, label=job.hint, done=0, total=0, left=None, said="", noted=""
        )
        try:
            report = await self.service.sync(
                self._on_progress, force=job.force, verify=job.verify, tails=job.tails
            )
        except Cancelled:
            await self.look()
            kept = "the index is as it was" if job.force else "what was finished stays"
            return f"{job.task} stopped; {kept}"
        except OpenClawMemError as error:
            await self.look()
            self.trouble(str(error))
            return f"the {job.task} failed"
        await self.look()
        warnings = [note.text for note in report.notes if note.level == "warning"]
        if warnings:
            self.trouble(fmt.join([*warnings[:2], self.activity.trouble], " "))
        self._activity(noted=fmt.join(note.text for note in report.notes if note.level != "warning"))
        if job.force:
            return f"rebuilt with {fmt.count(report.files, 'file')} in {report.seconds:.1f} s"
        if first and report.changed:
            return f"{fmt.count(report.files, 'file')} indexed in {report.seconds:.1f} s"
        return _told(report) or (_verified(report) if job.verify else "")

    def stop_sync(self) -> None:
        """Stop the sync that runs and the one that waits for it; it is shown until it has ended."""
        self._again = None
        self.service.cancel_sync()
        done, total, _ = self._progress
        self._progress = (done, total, "stopping")

    def _on_progress(self, done: int, total: int, label: str) -> None:
        # Called in the sync thread, often: the screen's clock picks up the last one.
        self._progress = (done, total, label)

    def tick(self) -> None:
        """Take over the progress of a running sync (called by the screen's clock)."""
        if self.activity.phase == "syncing":
            done, total, label = self._progress
            if not done:
                self._began = time.monotonic()
            spent = time.monotonic() - self._began
            # An embedder at work tells its own pace.
            known = 0 < done < total and spent > 1 and "  embedded " not in label
            left = spent / done * (total - done) if known else None
            self._activity(done=done, total=total, left=left, label=label or self.activity.label)

    async def start(self) -> None:
        """The sync at the start, where that is wanted."""
        fresh = self.activity.freshness
        if self.service.settings.sync.on_session_start or (fresh is not None and fresh.state == "empty"):
            self._synced_at_start = True
            await self._sync_and_refresh()

    async def watch(self) -> None:
        """Follow the notes on disk: each group of changes is synced and searched again. What changes before
        the watcher can see is found by one more look."""
        settings = self.service.settings
        if not settings.sync.watch:
            self.follows = True
            return
        try:
            async for paths in self.service.changes(self._watch_noted):
                if paths:
                    await self._sync_and_refresh(_names(paths, settings.workspace))
                elif self._synced_at_start:
                    await self._sync_and_refresh(quietly=True)
                self.follows = True
        except OpenClawMemError as error:
            self._activity(trouble=str(error))
        except (OSError, RuntimeError) as error:
            self._activity(trouble=f"Changes on disk are no longer noticed ({error}); r syncs.")

    async def _sync_and_refresh(self, hint: str = "", *, quietly: bool = False) -> None:
        await self.sync(hint, quietly=quietly)
        await self.refresh()

    def _watch_noted(self, note: Note) -> None:
        self._activity(noted=note.text)


def _short(provider: str) -> str:
    """``static static-minilm`` reads better as its second half."""
    first, _, rest = provider.partition(" ")
    return rest if rest.startswith(first) else provider


def _names(paths: frozenset[str], workspace: Path) -> str:
    first = min(paths, default="")
    try:
        first = Path(first).relative_to(workspace).as_posix()
    except ValueError:
        first = Path(first).name
    return first if len(paths) < 2 else f"{first} and {len(paths) - 1} more"


def _told(report: SyncReport) -> str:
    """What a sync did, as a sentence; empty when it did nothing."""
    changed, gone, left_out = report.changed, report.gone, report.left_out
    if len(changed) == 1 and not gone and not left_out:
        return f"{changed[0]} changed"
    if len(gone) == 1 and not changed and not left_out:
        return f"{gone[0]} is gone"
    if len(left_out) == 1 and not changed and not gone:
        return f"left out: {left_out[0].path}, {left_out[0].reason}"
    parts = [
        fmt.count(len(changed), "file") + " changed" if changed else "",
        f"{len(gone)} gone" if gone else "",
        f"{len(left_out)} left out" if left_out else "",
    ]
    told = fmt.join(parts, ", ")
    return f"{told} in {report.seconds:.1f} s" if told else ""


def _verified(report: SyncReport) -> str:
    """What a sync that read every file and found nothing to do has shown."""
    out = sum(not skipped.by_rule for skipped in report.skipped)
    told = f"{fmt.count(report.verified, 'file')} read: the index is as they are"
    return f"{told}; {fmt.count(out, 'file')} left out" if out else told
