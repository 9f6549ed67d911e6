"""A lock for file systems without ``flock``: a file that only one can make (O_EXCL), with its owner in it.

The owner keeps the file's time fresh. A lock whose owner is dead, or silent where nobody can tell, is taken
over. That takes a claim: a second file that only one can make, named after what the dead lock holds. Whoever
has the claim looks again and puts a lock of their own in the place of the dead one. So a living lock is never
moved, and of several who found the same dead one only one gets it. A claim whose owner was killed is a dead
lock like any other, and is taken over in the same way.
"""

from __future__ import annotations

import hashlib
import os
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from secrets import token_hex

from openclaw_mem_engine.sync.owner import Owner, now_s, parse_owner, read_owner

#: How often an owner shows that it lives, seconds.
BEAT_S = 5.0
#: After what silence a lock may be taken whose owner nobody here can ask for, seconds: it is on another
#: machine, or this system does not tell a process from a later one of the same number.
SILENCE_S = 60.0


class Exclusive:
    """One way of ``SyncLock`` to lock. ``path`` is the file. Used by one thread at a time, except for
    ``is_lost``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        #: Who held it before and did not give it back.
        self.found_dead: Owner | None = None
        self._held: _Held | None = None

    def enter(self, told: Owner) -> bool:
        """Take the lock as this owner; False when another keeps it. Raises OSError."""
        # A token of its own: two locks must never hold the same bytes, claims are named after them.
        mine = replace(told, token=token_hex(8)).to_json()
        if not _make(self.path, mine):
            if not self._take_over(self.path, mine):
                return False
            self._sweep()
        self._held = _Held(self.path, mine)
        return True

    def owner(self) -> Owner | None:
        """Who holds it, by what is written; None when nobody does or it cannot be told."""
        return None if self._abandoned(self.path) is not None else read_owner(self.path)

    def is_lost(self) -> bool:
        """Whether it was taken and is another's by now."""
        held = self._held
        return held is not None and held.is_lost()

    def leave(self) -> None:
        """Give it back; nothing happens when it is not held."""
        held, self._held = self._held, None
        if held is not None:
            held.end()

    def _abandoned(self, path: Path) -> bytes | None:
        """What a lock holds that nobody keeps any more; None for one that is kept, or is not there."""
        try:
            content, changed = path.read_bytes(), path.stat().st_mtime
        except OSError:
            return None
        owner = parse_owner(content)
        lives = None if owner is None else owner.lives()
        free = now_s() - changed > SILENCE_S if lives is None else not lives
        return content if free else None

    def _take_over(self, path: Path, mine: bytes) -> bool:
        """Put ``mine`` in the place of an abandoned lock; False when it is not abandoned, or another one is
        at this."""
        seen = self._abandoned(path)
        if seen is None:
            return False
        claim = path.with_name(f"{path.name}.{hashlib.sha256(seen).hexdigest()[:16]}")
        if not (_make(claim, mine) or self._take_over(claim, mine)):
            return False
        try:
            # What was seen may be gone by now, and the lock another's. As long as it is there, nobody but
            # the owner of the claim replaces it.
            if self._abandoned(path) != seen:
                return False
            _put(path, mine)
            if path == self.path:
                self.found_dead = parse_owner(seen)
            return True
        finally:
            claim.unlink(missing_ok=True)

    def _sweep(self) -> None:
        """Remove the drafts and claims of killed processes. For the owner: whoever is at work on a claim
        just now finds that there is a living lock, and gives up with or without it."""
        with suppress(OSError):
            for left in self.path.parent.iterdir():
                if left.name.startswith(f"{self.path.name}."):
                    left.unlink(missing_ok=True)


class _Held:
    """A lock that was taken, with the thread that keeps it fresh."""

    def __init__(self, path: Path, mine: bytes) -> None:
        self._path = path
        self._mine = mine
        self._pid = os.getpid()
        #: Epoch seconds, not those of ``monotonic``, which stands still while a machine sleeps.
        self._renewed = now_s()
        self._lost = threading.Event()
        self._stop = threading.Event()
        threading.Thread(target=self._beat, name="openclaw-mem-lock", daemon=True).start()

    def is_lost(self) -> bool:
        # Two beats missed: this machine slept, the process was stopped, or the file cannot be reached.
        if not self._lost.is_set() and now_s() - self._renewed > 2 * BEAT_S:
            self._renew()
        return self._lost.is_set() or now_s() - self._renewed > SILENCE_S

    def end(self) -> None:
        self._stop.set()
        with suppress(OSError):
            # Not in a forked child, and not what is another's by now.
            if self._pid == os.getpid() and self._path.read_bytes() == self._mine:
                self._path.unlink()

    def _beat(self) -> None:
        while not self._stop.wait(BEAT_S) and not self._lost.is_set():
            self._renew()

    def _renew(self) -> None:
        """Show that the owner lives; but never for the lock of another."""
        try:
            if self._path.read_bytes() == self._mine:
                os.utime(self._path)
                self._renewed = now_s()
                return
        except FileNotFoundError:
            pass
        except OSError:
            return  # it cannot be told just now; when that lasts, ``is_lost`` gives it up
        self._lost.set()


def _make(path: Path, content: bytes) -> bool:
    """Make a file that nobody else makes; False when there is one. Raises OSError."""
    # Written aside and linked: a lock is never seen half written.
    draft = _draft(path, content)
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    except OSError:  # no hard links here
        try:
            _write_new(path, content)
        except FileExistsError:
            return False
    finally:
        draft.unlink(missing_ok=True)
    return True


def _put(path: Path, content: bytes) -> None:
    """Put a file in the place of another one, in one step. Raises OSError."""
    draft = _draft(path, content)
    try:
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


def _draft(path: Path, content: bytes) -> Path:
    draft = path.with_name(f"{path.name}.{token_hex(4)}")
    _write_new(draft, content)
    return draft


def _write_new(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
    except OSError:  # the disk is full
        path.unlink(missing_ok=True)
        raise
