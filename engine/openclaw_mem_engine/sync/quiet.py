"""Noticing that a conversation has ended: nothing happens any more, so no event tells."""

from __future__ import annotations

import time
from collections.abc import Callable

from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.sync.deltas import is_quiet
from openclaw_mem_engine.workspace.transcript_listing import list_transcripts

#: The longest and the shortest time between two looks, seconds; between them, a tenth of the quiet time.
MOST_PAUSE_S, LEAST_PAUSE_S = 60.0, 0.5
_SHARE = 10


class QuietTalks:
    """The transcripts of one agent that nothing was written to for the configured time. ``clock`` gives epoch
    nanoseconds, as the times of files; ``ticks`` seconds that never go back."""

    def __init__(
        self,
        settings: Settings,
        clock: Callable[[], int] = time.time_ns,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder = settings.openclaw.sessions_dir
        self._quiet_s = settings.sync.session_quiet_s if "sessions" in settings.sources else 0
        self._pause_s = min(MOST_PAUSE_S, max(LEAST_PAUSE_S, self._quiet_s / _SHARE))
        self._clock = clock
        self._ticks = ticks
        self._next = 0.0
        # Earlier than now: whoever has synced just before this begins has not seen them quiet.
        self._last_ns = clock() - round(MOST_PAUSE_S * 1e9)

    def fallen_quiet(self) -> frozenset[str]:
        """Absolute paths of those that have become quiet since the last look; none when that was a moment
        ago. One may be told twice, as after a clock that went back."""
        if not self._quiet_s or self._ticks() < self._next:
            return frozenset()
        before, self._last_ns = self._last_ns, self._clock()
        found = frozenset(
            file.absolute
            for file in list_transcripts(self._folder).files
            if is_quiet(file.mtime_ns, self._quiet_s, self._last_ns)
            and not is_quiet(file.mtime_ns, self._quiet_s, before)
        )
        self._next = self._ticks() + self._pause_s
        return found
