"""Noticing that memory changes on disk. Events only say when to look: what changed is for the scan to say.

On Linux every folder is watched by itself: one watch a folder, and none for what lies below ignored folders
or behind links (watching a tree as a whole would follow them, out of the workspace). Other systems watch a
tree at the price of one folder. When the set of folders to be watched changes, the watch is opened anew.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from openclaw_mem_engine.cancellation import CancelToken
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.model import Note
from openclaw_mem_engine.sync.watch_targets import Refused, WatchTargets, network_target

#: A group of changes ends after the configured quiet time, or when it has lasted this long, seconds: changes
#: that never stop must not keep the index old.
LONGEST_S = 10.0
#: How often events are picked up, and a stop is noticed, seconds.
STEP_S = 0.05
#: After what time without events it is tried again to watch, seconds.
RETRY_S = 600.0
#: How often a watch is opened anew because folders come and go meanwhile, before that counts as a refusal.
_TRIES = 20

#: Opens a watch of folders, with all below them or not: changed paths, an empty set about every step.
OpenWatch: TypeAlias = Callable[[Sequence[str], bool, CancelToken], Iterator[set[str]]]


def system_watch(folders: Sequence[str], recursive: bool, stop: CancelToken) -> Iterator[set[str]]:
    """The events of the system. Raises OSError (FileNotFoundError for a folder that is gone) or
    RuntimeError."""
    from watchfiles import watch

    step = round(STEP_S * 1000 / 2)
    for changes in watch(
        *folders,
        watch_filter=None,
        debounce=step,
        step=step,
        stop_event=stop,
        rust_timeout=step,
        yield_on_timeout=True,
        force_polling=False,
        recursive=recursive,
        # Else a full table of watches would be ignored, too.
        ignore_permission_denied=False,
    ):
        yield {path for _, path in changes}


class Watcher:
    """Watches the files of one agent's memory. Used by one thread.

    ``open_watch`` is the system's events; ``whole_trees`` tells whether the system watches a tree at the
    price of one folder.
    """

    def __init__(
        self,
        settings: Settings,
        open_watch: OpenWatch = system_watch,
        *,
        whole_trees: bool = sys.platform in ("darwin", "win32"),
    ) -> None:
        self._settings = settings
        self._open_watch = open_watch
        self._whole_trees = whole_trees
        self._quiet_s = settings.sync.debounce_ms / 1000
        self._longest_s = max(LONGEST_S, 4 * self._quiet_s)
        self._targets = WatchTargets(settings)
        #: What has these paths: a folder may be replaced by another one of the same name.
        self._folders: dict[str, tuple[int, int] | None] = {}
        #: Whether the system refuses to watch: nothing is noticed then, and files are to be compared.
        self.is_blind = False

    def groups(self, stop: CancelToken, noted: Callable[[Note], None]) -> Iterator[frozenset[str]]:
        """Groups of changed absolute paths until ``stop`` is set; about every ``STEP_S`` an empty one. From
        the first item on every change is noticed, unless ``is_blind``. ``noted`` is called when that
        changes."""
        while not stop.is_set():
            try:
                yield from self._watched(stop, noted)
            except (Refused, OSError, RuntimeError) as error:
                if not self.is_blind:
                    text = (
                        "Changes are found by polling all files every few seconds, not by events: "
                        f"{_reason(error)}. It is tried again later."
                    )
                    noted(Note("watch-polling", text, "warning"))
                    self.is_blind = True
                    yield frozenset({self._targets.root})  # what happened in between has no event
                until = time.monotonic() + RETRY_S
                while time.monotonic() < until and not stop.is_set():
                    time.sleep(STEP_S)
                    yield frozenset()

    def _watched(self, stop: CancelToken, noted: Callable[[Note], None]) -> Iterator[frozenset[str]]:
        """Gather events into groups. Raises Refused when the system does not watch any more."""
        watches, group = self._opened(stop)
        if self.is_blind:
            self.is_blind = False
            noted(Note("watching", "Changes are found by events again."))
            group.add(self._targets.root)
        began = last = time.monotonic()
        yield frozenset()
        try:
            while not stop.is_set():
                events = set[str]().union(*(next(watch, ()) for watch in watches))
                seen = self._targets.relevant(events, self._folders)
                now = time.monotonic()
                if seen:
                    last = now - STEP_S  # it has been quiet for a step already
                    began = began if group else last
                    group |= seen
                ended = bool(group) and (now - last >= self._quiet_s or now - began >= self._longest_s)
                # Before the group is yielded: what is written into a new folder from now on has an event, and
                # what is there already is for the scan to find.
                if ended and self._folders_now()[1] != self._folders:
                    before = self._folders
                    _close(watches)
                    watches, more = self._opened(stop)
                    # A folder that went while nothing was watched has no event.
                    group |= more | {path for path in before if self._folders.get(path) != before[path]}
                yield frozenset(group) if ended else frozenset()
                if ended:
                    group = set()
        finally:
            _close(watches)

    def _opened(self, stop: CancelToken) -> tuple[list[Iterator[set[str]]], set[str]]:
        """Watches of the folders that are there now, and what they saw already. Raises Refused."""
        refusal = "folders are created and deleted too fast"
        for _ in range(_TRIES):
            (alone, trees), self._folders = self._folders_now()
            watches = [
                self._open_watch(folders, recursive, stop)
                for folders, recursive in ((alone, False), (trees, True))
                if folders
            ]
            try:
                events = set[str]().union(*(next(watch, ()) for watch in watches))
            except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
                refusal = _reason(error)  # a folder went away just now
            except BaseException:
                _close(watches)
                raise
            else:
                # Once more for a folder that was made meanwhile: it has no watch yet.
                if self._folders_now()[1] == self._folders:
                    return watches, set(self._targets.relevant(events, self._folders))
            _close(watches)
            if stop.is_set():
                return [], set()
            time.sleep(STEP_S)
        raise Refused(refusal)

    def _folders_now(self) -> tuple[tuple[list[str], list[str]], dict[str, tuple[int, int] | None]]:
        """The folders to be watched alone, those with all below them, and what identifies them. Raises
        Refused."""
        self._targets = WatchTargets(self._settings)
        if remote := network_target(self._targets):
            raise Refused(f"{remote[0]} is on a network file system ({remote[1]})")
        found = self._targets.folders(whole_trees=self._whole_trees)
        return found, {folder: _identity(folder) for folder in (*found[0], *found[1])}


def _close(watches: Sequence[Iterator[set[str]]]) -> None:
    for watch in watches:
        getattr(watch, "close", lambda: None)()


def _identity(folder: str) -> tuple[int, int] | None:
    try:
        status = os.stat(folder)  # noqa: PTH116
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _reason(error: Exception) -> str:
    """The message of the system, without the lists that follow."""
    return str(error).split(" about [")[0].strip().rstrip(".") or type(error).__name__
