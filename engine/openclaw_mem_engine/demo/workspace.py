"""Writes the demo workspace and its sessions into a folder, with every date moved by a number of days.

The demo was written with a fixed last day. Shown with its real dates, temporal decay would bury all of it; so
it is moved, as a whole, until its last day has just ended.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import re
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath

from openclaw_mem_engine.errors import WorkspaceError
from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.state import private_folder
from openclaw_mem_engine.state.disk import LOCK, held, read_file, replace_file

#: The last day of the demo as it was written.
ANCHOR = datetime.date(2026, 3, 31)

#: The authored files.
DATA = Path(__file__).parent / "data"

_ISO_DATE = re.compile(r"(?<!\d)(20\d\d-[01]\d-[0-3]\d)(?!\d)")

# Thirteen digits from 2020 to 2026: nothing else in the demo looks like this, and the tests keep it so.
_EPOCH_MS = re.compile(r"(?<![\w.])(1[67]\d{11})(?![\w.])")

_MS_A_DAY = 86_400_000

#: Lists what the demo wrote, so that a later run removes exactly that. It is next to ``workspace/``.
MANIFEST = ".demo-manifest.json"
#: Stands for a hash where there is no file.
_ABSENT = "-"

_ROOTS = ("workspace", "agents")
_CLOSING_TIME = datetime.time(18, 0, tzinfo=datetime.UTC)

# Undated notes were touched now and then over the months: one step further back for each, within the
# demo's span, in an order that does not follow the alphabet.
_NOTE_STEP_DAYS = 37
_NOTE_SPAN_DAYS = 235


class _DemoFile(NamedTuple):
    """One file to be written: its path under the target, its final bytes, its time of last change."""

    path: str
    content: bytes
    modified: datetime.datetime


def last_day(now: datetime.datetime) -> datetime.date:
    """The day to end on, so that nothing in the demo is later than ``now`` (UTC)."""
    return (now - datetime.timedelta(hours=_CLOSING_TIME.hour)).date()


def write_demo(target: Path, today: datetime.date, *, reset: bool = False) -> Path:
    """Write the demo into ``target/workspace`` and ``target/agents``; returns the workspace folder.

    Every ISO date (file names, texts, timestamps) is moved so that the last daily log is of ``today``.
    Running it again replaces or removes the files that it wrote, all others stay. Where one of them was
    edited or deleted since, the demo stays as it is unless ``reset``: no edit is lost, and each can be
    undone.

    Raises WorkspaceError when ``target`` is a file, holds things but no demo, has a manifest that cannot be
    trusted, or holds another file at the path of a demo file, and when another process has been writing the
    demo for some seconds. Nothing is changed in these cases.
    """
    _previous(target)  # a folder that is not the demo's gets no lock either
    private_folder(target)
    with held(target, "the demo"):
        if reset or not edited_files(target):
            _write_anew(target, today)
    return target / "workspace"


def edited_files(target: Path) -> list[str]:
    """The files of the demo that were edited or deleted since it was written. Raises WorkspaceError."""
    return [path for path, known in _previous(target).items() if _digest(target / path) not in known.split()]


def written_day(target: Path) -> datetime.date:
    """The last day of the demo that is there. Raises OSError, ValueError, KeyError, TypeError."""
    return datetime.date.fromisoformat(json.loads(read_file(target / MANIFEST))["today"])


def _write_anew(target: Path, today: datetime.date) -> None:
    written_before = _previous(target)
    files = _demo_files(today)
    _refuse_foreign(target, files, written_before)
    hashes = {file.path: hashlib.sha256(file.content).hexdigest() for file in files}
    # The manifest goes first, with the old and the new state of each file: a run that breaks off can be
    # repeated, and an edit after it is seen.
    either = {
        path: f"{written_before.get(path, _ABSENT)} {hashes.get(path, _ABSENT)}"
        for path in {**written_before, **hashes}
    }
    _write_manifest(target, today, either)
    for path in written_before.keys() - hashes.keys():
        (target / path).unlink(missing_ok=True)
    for file in files:
        written, stamp = target / file.path, file.modified.timestamp()
        if not _holds(written, file.content, stamp):  # what is there need not be indexed again
            _write(written, file.content)
            os.utime(written, (stamp, stamp))
    _write_manifest(target, today, hashes)


def _demo_files(today: datetime.date) -> list[_DemoFile]:
    """All files of the demo as they must be on disk, in path order."""
    days = shift_days_for(today)
    authored = sorted(
        path.relative_to(DATA).as_posix()
        for root in _ROOTS
        for path in (DATA / root).rglob("*")
        if path.suffix in (".md", ".json", ".jsonl")
    )
    undated = [name for name in authored if name.endswith(".md") and not dates_in(name)]
    files = []
    for name in authored:
        text = shift_dates((DATA / name).read_text(encoding="utf-8"), days)
        if not name.endswith(".md"):
            text = shift_epochs(text, days)
        moved = shift_dates(name, days)
        if name in undated:
            age = 1 + (undated.index(name) * _NOTE_STEP_DAYS) % _NOTE_SPAN_DAYS
            day = today - datetime.timedelta(days=age)
        else:
            # A log is of the day in its name; a transcript was last touched on the last day it mentions
            # that has already come.
            candidates = dates_in(moved) or [day for day in dates_in(text) if day <= today]
            day = max(candidates, default=today)
        modified = datetime.datetime.combine(day, _CLOSING_TIME)
        files.append(_DemoFile(moved, text.encode("utf-8"), modified))
    return files


def _previous(target: Path) -> dict[str, str]:
    """Path and hash of what an earlier run wrote; where that broke off, all that may be there, with blanks
    between. Raises WorkspaceError for a foreign or odd folder."""
    manifest = target / MANIFEST
    if target.exists() and not target.is_dir():
        raise WorkspaceError(f"{target} is a file: choose a folder for the demo.")
    # Listed first: what another first run writes there comes after its manifest.
    names = {path.name for path in target.iterdir()} if target.is_dir() else set()
    if not manifest.exists():
        if any(name != LOCK and not name.startswith(MANIFEST) for name in names):
            raise WorkspaceError(
                f"{target} is not empty and holds no demo ({MANIFEST} is missing): choose another folder."
            )
        return {}
    try:
        listed = json.loads(read_file(manifest))["files"]
        files = {str(path): str(digest) for path, digest in listed.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise WorkspaceError(
            f"{manifest} cannot be read ({error}): delete the demo folder by hand, or choose another one."
        ) from error
    _check_inside(target, files)
    return files


def _check_inside(target: Path, paths: Iterable[str]) -> None:
    """Refuses a path that does not lie in the demo's own folders, also by way of a link or ``..``."""
    own, inside = target.resolve(), set[PurePosixPath]()
    for path in map(PurePosixPath, paths):
        plain = path.parts[:1] in {(root,) for root in _ROOTS} and ".." not in path.parts
        if plain and (path.parent in inside or (target / path).parent.resolve().is_relative_to(own)):
            inside.add(path.parent)
            continue
        raise WorkspaceError(f"{target / path} is not inside the demo's own folders: choose another folder.")


def _refuse_foreign(target: Path, files: list[_DemoFile], written_before: Mapping[str, str]) -> None:
    _check_inside(target, (file.path for file in files))
    for file in files:
        if file.path not in written_before and os.path.lexists(target / file.path):
            raise WorkspaceError(
                f"{target / file.path} was not written by the demo: move it away, or choose another folder."
            )


def _write_manifest(target: Path, today: datetime.date, hashes: Mapping[str, str]) -> None:
    content = {"version": 1, "today": today.isoformat(), "files": dict(sorted(hashes.items()))}
    _write(target / MANIFEST, (json.dumps(content, indent=1) + "\n").encode("utf-8"))


def _digest(path: Path) -> str:
    """The hash of a file, ``_ABSENT`` where there is none that can be read."""
    try:
        return hashlib.sha256(read_file(path)).hexdigest()
    except OSError:
        return _ABSENT


def _holds(path: Path, content: bytes, stamp: float) -> bool:
    """Whether the file is there with this content and time."""
    try:
        found = path.lstat()
        return stat.S_ISREG(found.st_mode) and found.st_mtime == stamp and path.read_bytes() == content
    except OSError:
        return False


def _write(path: Path, content: bytes) -> None:
    """Whole or not at all: a watcher that looks meanwhile sees the old file or the new one."""
    private_folder(path.parent)
    replace_file(path, content)


# -- moving dates -------------------------------------------------------------------------------------------


def shift_days_for(today: datetime.date) -> int:
    """How many days the demo must move so that its last day is ``today``. May be negative."""
    return (today - ANCHOR).days


def shift_dates(text: str, days: int) -> str:
    """``text`` with every ISO date moved. Times after a date stay; what is no real date stays."""
    delta = datetime.timedelta(days=days)

    def moved(match: re.Match[str]) -> str:
        try:
            return (datetime.date.fromisoformat(match[1]) + delta).isoformat()
        except ValueError:
            return match[1]

    return _ISO_DATE.sub(moved, text)


def shift_epochs(text: str, days: int) -> str:
    """``text`` (JSON or JSONL) with every epoch in milliseconds moved by whole days."""
    return _EPOCH_MS.sub(lambda match: str(int(match[1]) + days * _MS_A_DAY), text)


def dates_in(text: str) -> list[datetime.date]:
    """Every real ISO date in a text, in order of appearance."""
    found = []
    for match in _ISO_DATE.finditer(text):
        with suppress(ValueError):
            found.append(datetime.date.fromisoformat(match[1]))
    return found
