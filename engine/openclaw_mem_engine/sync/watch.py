"""The events of the folders that hold one agent's memory. They only say when to look: what changed, and what
has no event, is for a comparison of the files to find."""

# Paths are strings here, as in a listing.
# ruff: noqa: PTH100, PTH112, PTH120

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from typing import TypeAlias

from openclaw_mem_engine.cancellation import CancelToken
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.errors import WorkspaceError
from openclaw_mem_engine.sync.changes import digest_of, listed
from openclaw_mem_engine.workspace.rules import Workspace, resolve_extras
from openclaw_mem_engine.workspace.walk import Listing

#: A group of events ends after the configured quiet time, or when it has lasted this long, seconds: events
#: that never stop must not keep the index old.
LONGEST_S = 10.0
#: How often events are picked up, and a stop is noticed, seconds.
STEP_S = 0.05

#: Opens a watch of folders, without what lies below them: about every step, whether something happened there.
OpenEvents: TypeAlias = Callable[[Collection[str], CancelToken], Iterator[bool]]


def system_events(folders: Collection[str], stop: CancelToken) -> Iterator[bool]:
    """The events of the system. Raises OSError or RuntimeError."""
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
        recursive=False,
        # Else a full table of watches would be ignored, too.
        ignore_permission_denied=False,
    ):
        yield bool(changes)


class Watch:
    """Looks at the files, and watches their folders. Used by one thread."""

    def __init__(
        self, settings: Settings, stop: CancelToken, open_events: OpenEvents = system_events
    ) -> None:
        self._settings = settings
        self._stop = stop
        self._open = open_events
        self._quiet_s = settings.sync.debounce_ms / 1000
        self._longest_s = max(LONGEST_S, 4 * self._quiet_s)
        #: What the last look has seen; the folders of it, and those that are watched.
        self._seen: object = None
        self._there = frozenset[str]()
        self._folders: frozenset[str] | None = None
        self._events: Iterator[bool] | None = None
        self._began = self._last = 0.0
        #: Whether something happened that did not end yet.
        self.is_busy = False
        #: Why the system does not watch these folders, or "".
        self.failure = ""

    def look(self) -> bool:
        """List the files. Returns whether they, or what is excluded, differ from those of the last look."""
        before, listing = self._seen, None
        with suppress(WorkspaceError):  # a sync says so; its return has an event above it
            listing = listed(self._settings)
        self._seen = listing and (digest_of(listing), listing.excluded)
        there = watched_folders(self._settings, listing)
        self._there = self._there if there == self._there else there
        return self._seen != before

    def renew(self) -> bool:
        """Watch the folders of the last look. Returns whether they are others than before: what happened
        in a new one until now has no event. A watch that fails is opened again when the folders differ."""
        if self._there is self._folders:
            return False
        self.close()
        self._folders, self.failure = self._there, ""
        self._events = self._open(self._folders, self._stop)
        self._happened()  # it is open from here on
        return True

    def ended(self) -> bool:
        """Wait for a step. Returns whether something happened and has ended: it was quiet for the configured
        time, or it has lasted for long."""
        happened, now = self._happened(), time.monotonic()
        if happened:
            self._last = now - STEP_S  # it has been quiet for a step already
            if not self.is_busy:
                self.is_busy, self._began = True, self._last
        if self.is_busy and (now - self._last >= self._quiet_s or now - self._began >= self._longest_s):
            self.is_busy = False
            return True
        return False

    def close(self) -> None:
        """End the watch. May be called twice."""
        getattr(self._events, "close", lambda: None)()
        self._events = None

    def _happened(self) -> bool:
        if self._events is None:
            time.sleep(STEP_S)
            return False
        try:
            return next(self._events, False)
        except (OSError, RuntimeError) as error:
            # The message of the system, without the lists that follow.
            self.failure = str(error).split(" about [")[0].strip().rstrip(".") or type(error).__name__
            self._events = None
            return True


def watched_folders(settings: Settings, listing: Listing | None) -> frozenset[str]:
    """The folders that a listing went through, and of each configured path the nearest folder above it that
    may be read: there it comes, goes or is replaced. Not those of our own files, which each sync writes."""
    given = os.path.abspath(settings.workspace)
    paths = [given]
    if "memory" in settings.sources:
        extras = resolve_extras(Workspace(given, os.path.realpath(given)), settings.extra_paths)
        paths += [extra.lexical for extra in extras if not extra.refusal]
    if "sessions" in settings.sources:
        paths.append(os.path.abspath(settings.openclaw.sessions_dir))
    folders = {_nearest(os.path.dirname(path)) for path in paths}
    folders |= listing.folders if listing is not None else set()
    own = (settings.data_dir, settings.index_path.parent)
    return frozenset(map(os.path.realpath, folders)) - frozenset(map(os.path.realpath, own))


def _nearest(folder: str) -> str:
    while not (os.path.isdir(folder) and os.access(folder, os.R_OK)):
        if folder == (above := os.path.dirname(folder)):
            break
        folder = above
    return folder
