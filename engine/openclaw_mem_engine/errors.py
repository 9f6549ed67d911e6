"""Every error that a caller may meet.

Each message says what happened, to what, and what to do next. ``exit_code`` is what the command line
returns; docs/json.md lists the codes, so they are stable.
"""

from __future__ import annotations

from collections.abc import Iterable


class OpenClawMemError(Exception):
    """Base of all errors raised on purpose by the engine."""

    #: As for an error that is not expected. Not 1: as with grep, that is a search without a result.
    exit_code = 8


class UsageError(OpenClawMemError):
    """The call itself is wrong: an unknown knob, a value out of range, a blank query."""

    exit_code = 2


class ConfigError(OpenClawMemError):
    """A configuration file or variable holds something that cannot be used; names file, key and range."""

    exit_code = 3


class PathRefused(OpenClawMemError):
    """A path is outside of what counts as memory, or is not a plain Markdown file."""

    exit_code = 4


class WorkspaceError(OpenClawMemError):
    """The workspace is missing or cannot be read: nothing could be looked at."""

    exit_code = 5


class NoteChanged(WorkspaceError):
    """A note is no longer what it was when its change was proposed: nothing was written."""


class IndexUnavailable(OpenClawMemError):
    """The index cannot be opened, is damaged, or its disk is full; the old content is untouched. ``repair``
    is what repairs a damage: a sentence with the command; ``cause``, what was found."""

    exit_code = 6
    repair = "`openclaw-mem doctor` names the repair."
    cause: object = ""


class IndexDamaged(IndexUnavailable):
    """The index file is not what it should be. It is derived data: it can be set aside and built anew (see
    ``sync.coordinator.set_aside``). ``file`` is the device and inode of the file in which the damage was
    found, where it is known."""

    repair = "`openclaw-mem doctor --fix` repairs it."
    file: tuple[int, int] | None = None


def disk_full(path: object, then: str = "", room: str = "") -> str:
    """What every message about a full disk says; ``then``: what to do with the space; ``room``: how much
    it has and is needed, instead of "is full"."""
    return (
        f"The disk that holds {path} {room or 'is full'}. What was stored before is kept. "
        f"Free some space{f' and {then}' if then else ''}."
    )


class IndexLocked(IndexUnavailable):
    """Another process is writing to the index and did not finish in time."""


class IndexChanged(IndexUnavailable):
    """Another process has rebuilt the index with other settings meanwhile, or has removed it: what was
    prepared for the old one does not fit."""


class ProviderError(OpenClawMemError):
    """An embedding provider could not answer (network, key, quota, malformed reply)."""

    exit_code = 7


class Cancelled(OpenClawMemError):
    """The caller asked a long operation to stop; what was finished before stays."""

    exit_code = 130


#: Names of settings in earlier versions.
RENAMED = {"text_weight": "bm25_weight", "text_score": "bm25_score", "line_text": "line_bm25"}


def did_you_mean(name: str, known: Iterable[str], prefix: str = "") -> str:
    """`` Did you mean x?`` for a name that is not among the known ones; "" when none is like it. ``prefix``
    is put before each that is suggested."""
    from difflib import get_close_matches  # only for those who mistyped

    names = {one.lower(): one for one in known}
    tries = ((1, 0.9), (3, 0.7), (1, 0.65))
    name = RENAMED.get(name, name)
    found = (get_close_matches(name.lower(), names, most, cutoff) for most, cutoff in tries)
    near = next(filter(None, found), [])
    return f" Did you mean {', '.join(prefix + names[form] for form in near)}?" if near else ""
