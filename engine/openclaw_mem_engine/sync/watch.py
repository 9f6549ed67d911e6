"""Noticing that memory changes on disk. Events are only hints: what really changed is for the scan to say.

On Linux every folder is watched by itself: one descriptor in all, one watch a folder, and none for what lies
below ignored folders or behind links (watching a tree as a whole would follow them, out of the workspace).
Other systems watch a tree at the price of one folder. Where watching is refused, or would miss what other
machines write, files are looked at again and again instead.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from pathlib import Path

from openclaw_mem_engine.cancellation import CancelToken, LinkedToken
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.errors import OpenClawMemError
from openclaw_mem_engine.model import Note
from openclaw_mem_engine.sync.eyes import Eyes, NotifyEyes
from openclaw_mem_engine.sync.quiet import QuietTalks
from openclaw_mem_engine.sync.sources import listed
from openclaw_mem_engine.sync.watched import MOST_FOLDERS, Places, TooManyFolders, network_place
from openclaw_mem_engine.workspace.rules import NOTE_SUFFIX
from openclaw_mem_engine.workspace.transcript_listing import TRANSCRIPT_SUFFIX

#: A group of changes ends after the configured quiet time, or when it has lasted this long, seconds: changes
#: that never stop must not keep the index old.
LONGEST_S = 10.0
#: How often events are picked up, and a stop is noticed, seconds.
STEP_S = 0.05
#: Pauses between looks when events are not to be had, seconds. A look may cost a hundredth of the time.
LEAST_PAUSE_S, MOST_PAUSE_S = 2.0, 60.0
_SHARE = 100
#: After what time of looking it is tried again to watch, seconds.
RETRY_S = 600.0
#: How often folders that vanish while they are to be watched are listed anew before it counts as a refusal.
_TRIES = 20
#: New folders are watched at once, but this costs no more than a tenth of the time.
_AIM_SHARE = 10
_MASS = 1_000

Found = Callable[[frozenset[str]], None]
Noted = Callable[[Note], None]


class _Refused(Exception):
    """The system does not watch; the text says why."""


class Watcher:
    """Follows the places of memory until it is stopped. One thread runs it.

    ``open_eyes`` stands for the system's events; ``whole_trees`` tells whether the system watches a tree at
    the price of one folder; ``mounts`` lists the mounted file systems, as Linux does.
    """

    def __init__(
        self,
        settings: Settings,
        open_eyes: Callable[[Sequence[str], Sequence[str]], Eyes] = NotifyEyes,
        *,
        whole_trees: bool = sys.platform in ("darwin", "win32"),
        mounts: Path = Path("/proc/self/mountinfo"),
        most_folders: int = MOST_FOLDERS,
    ) -> None:
        self._settings = settings
        self._open_eyes = open_eyes
        self._whole_trees = whole_trees
        self._mounts = mounts
        self._most_folders = most_folders
        self._quiet_s = settings.sync.debounce_ms / 1000
        self._longest_s = max(LONGEST_S, 4 * self._quiet_s)
        self._places = Places(settings)
        self._folders: frozenset[str] = frozenset()
        #: What was there under these names: a folder may go and another one take its place.
        self._identities: dict[str, tuple[int, int] | None] = {}
        #: What the last look saw that could be taken, and whether it was not the last one that was tried.
        self._seen: dict[str, object] = {}
        #: The end of a conversation has no event.
        self._talks = QuietTalks(settings)
        self._blind = False
        #: Set when every change from now on is noticed.
        self.ready = threading.Event()

    def run(self, stop: CancelToken, found: Found, noted: Noted = lambda _: None) -> None:
        """Tell groups of changed absolute paths until ``stop`` is set; and how well that goes, when it is not
        as it should be. Never ends by itself: what cannot be looked at now is looked at again."""
        polling = False
        while not stop.is_set():
            try:
                eyes = self._aim(None)
                if polling:
                    noted(Note("watching", "Changes are noticed at once again."))
                    found(frozenset({self._places.root}))
                polling = self._blind = False
                self._watch(eyes, stop, found)
            except (_Refused, OSError, RuntimeError) as error:
                if not polling:
                    noted(_polling_note(_said(error)))
                    self._seen, _ = self._look(noted)
                    if self.ready.is_set():
                        found(frozenset({self._places.root}))  # what happened in between has no event
                    self.ready.set()
                polling = True
                self._poll(stop, found, noted)

    # -- events -----------------------------------------------------------------------------------------

    def _watch(self, eyes: Eyes, stop: CancelToken, found: Found) -> None:
        """Gather events into groups. Raises _Refused when the system stops to watch."""
        group: set[str] = set()
        began = last = aim_again = 0.0
        try:
            while not stop.is_set():
                seen = self._places.relevant(eyes.changed(round(STEP_S * 1000)), self._folders)
                now = time.monotonic()
                if seen:
                    # What is reported has been quiet for a step already.
                    last = now - STEP_S
                    began = began if group else last
                    group |= seen
                ended = bool(group) and (now - last >= self._quiet_s or now - began >= self._longest_s)
                if ended or (now >= aim_again and any(map(self._is_new_folder, seen))):
                    # Watched before told: what is written into a new folder from now on has an event, and
                    # what is there already is for the scan to find.
                    if _may_move_folders(group):
                        eyes = self._aim(eyes)
                    aimed = time.monotonic()
                    aim_again = aimed + _AIM_SHARE * (aimed - now)
                if ended:
                    found(frozenset(group))
                    group.clear()
                elif not group and (quiet := self._talks.fallen_quiet()):
                    found(quiet)
        finally:
            eyes.close()

    def _is_new_folder(self, path: str) -> bool:
        return path not in self._folders and os.path.isdir(path)  # noqa: PTH112

    def _aim(self, eyes: Eyes | None) -> Eyes:
        """Eyes for the folders that are there now: the same when nothing has changed. Raises _Refused."""
        try:
            refusal = ""
            for _ in range(_TRIES):
                alone, trees = self._folders_now()
                there = {folder: _identity(folder) for folder in (*alone, *trees)}
                if eyes is not None and there == self._identities:
                    break
                try:
                    fresh = self._open_eyes(alone, trees)
                except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
                    refusal = _said(error)  # it went away just now
                    time.sleep(STEP_S)
                    continue
                except (OSError, RuntimeError) as error:
                    if eyes is None:
                        raise _Refused(_said(error)) from error
                    refusal = _said(error)
                    # Old and new together may be too much: without the old ones for a moment. What happens
                    # in it is found by the scan that follows.
                    eyes.close()
                    eyes = None
                    time.sleep(STEP_S)
                    continue
                if eyes is not None:
                    eyes.close()
                eyes, self._identities, self._folders = fresh, there, frozenset(there)
                # Once more: a folder that was made meanwhile has no watch yet.
            if eyes is None:
                raise _Refused(refusal)
        except BaseException:
            if eyes is not None:
                eyes.close()
            raise
        self.ready.set()
        return eyes

    def _folders_now(self) -> tuple[list[str], list[str]]:
        self._places = Places(self._settings)
        if far := network_place(self._places, self._mounts):
            raise _Refused(f"{far[0]} is on a network file system ({far[1]})")
        if self._whole_trees:
            return self._places.roots()
        try:
            return self._places.folders(self._most_folders), []
        except TooManyFolders:
            raise _Refused(f"there are more than {self._most_folders:,} folders") from None

    # -- without events ---------------------------------------------------------------------------------

    def _poll(self, stop: CancelToken, found: Found, noted: Noted) -> None:
        """Look at all files again and again, for ten minutes."""
        until = time.monotonic() + RETRY_S
        pause = LEAST_PAUSE_S
        while time.monotonic() < until and not _stopped(stop, pause):
            now, pause = self._look(noted)
            began, before = time.monotonic(), self._seen
            while now != before and time.monotonic() - began < self._longest_s:
                before = now
                if _stopped(stop, self._quiet_s):
                    return
                now, pause = self._look(noted)
            changed = {path for path, _ in self._seen.items() ^ now.items()} | self._talks.fallen_quiet()
            self._seen = now
            if changed:
                found(frozenset(changed))

    def _look(self, noted: Noted) -> tuple[dict[str, object], float]:
        """Every file with what tells that it is another one, and the pause until the next look, seconds. When
        nothing can be looked at that is said, once, and what was seen before stands."""
        start = time.perf_counter()
        try:
            listing = listed(self._settings)
        except (OpenClawMemError, OSError) as error:
            if not self._blind:
                told = f"Changes are not noticed for now: {error} It is looked again every few seconds."
                noted(Note("watch-blind", told, "warning"))
            self._blind = True
            return self._seen, LEAST_PAUSE_S
        if self._blind:
            self._blind = False
            noted(Note("watching", "The files can be looked at again: changes are noticed."))
        seen: dict[str, object] = {
            file.absolute: (file.size, file.mtime_ns, file.ctime_ns, file.inode) for file in listing.files
        }
        root = os.path.realpath(self._settings.workspace)
        seen.update((os.path.join(root, file.path), file.reason) for file in listing.skipped)  # noqa: PTH118
        spent = time.perf_counter() - start
        return seen, min(MOST_PAUSE_S, max(LEAST_PAUSE_S, spent * _SHARE))


def _identity(folder: str) -> tuple[int, int] | None:
    try:
        status = os.stat(folder)  # noqa: PTH116
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _may_move_folders(group: set[str]) -> bool:
    """Whether folders may have come or gone. In a group that large an event may be missing: systems drop them
    when they come too fast."""
    return len(group) > _MASS or any(
        not path.endswith((NOTE_SUFFIX, TRANSCRIPT_SUFFIX)) or os.path.isdir(path)  # noqa: PTH112
        for path in group
    )


def _stopped(stop: CancelToken, seconds: float) -> bool:
    """Wait; True when it was asked to stop meanwhile."""
    until = time.monotonic() + seconds
    while not stop.is_set() and (left := until - time.monotonic()) > 0:
        time.sleep(min(STEP_S, left))
    return stop.is_set()


def _said(error: Exception) -> str:
    """What the system said, without the lists that follow."""
    return str(error).split(" about [")[0].strip().rstrip(".") or type(error).__name__


def _polling_note(reason: str) -> Note:
    told = (
        f"Changes are noticed by looking at all files every few seconds, not by events: {reason}. "
        "It is tried again later."
    )
    return Note("watch-polling", told, "warning")


async def watch_notes(
    settings: Settings, stop: asyncio.Event, noted: Noted = lambda _: None
) -> AsyncIterator[frozenset[str]]:
    """Groups of changed absolute paths, as long as ``stop`` is not set; groups that nobody has asked for yet
    come as one. An empty group comes first: from then on every change is noticed. ``noted`` is called in this
    event loop, see ``Watcher.run``. A workspace that does not exist gives nothing. A defect of the watcher is
    raised here."""
    if not Path(settings.workspace).is_dir():
        return
    loop = asyncio.get_running_loop()
    waiting: asyncio.Queue[frozenset[str] | Exception | None] = asyncio.Queue()
    ended = threading.Event()

    def tell(item: frozenset[str] | Exception | None) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody listens
            loop.call_soon_threadsafe(waiting.put_nowait, item)

    def tell_note(note: Note) -> None:
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(noted, note)

    watcher = Watcher(settings)

    def work() -> None:
        try:
            watcher.run(LinkedToken(stop, ended.is_set), tell, tell_note)
        except Exception as error:  # noqa: BLE001 - raised again below
            tell(error)
        finally:
            tell(None)

    thread = threading.Thread(target=work, name="openclaw-mem-watch", daemon=True)
    thread.start()
    try:
        while not watcher.ready.is_set() and waiting.empty():
            await asyncio.sleep(STEP_S / 4)
        yield frozenset()
        while True:
            item = await waiting.get()
            after: frozenset[str] | Exception | None = frozenset()
            while isinstance(item, frozenset) and isinstance(after, frozenset) and not waiting.empty():
                after = waiting.get_nowait()
                item |= after if isinstance(after, frozenset) else frozenset()
            if isinstance(item, frozenset):
                yield item
                item = after
            if isinstance(item, Exception):
                raise item
            if item is None:
                return
    finally:
        ended.set()
        # Joined, because a thread that still runs when the process ends may take it down.
        await loop.run_in_executor(None, thread.join)
