"""Writing notes: under one lock for each workspace, atomically, with the texts before and after it kept.

An edit is a folder ``<data folder>/edits/<workspace>/<number>`` with ``before`` and ``after`` (the exact
bytes; absent where there is no file) and ``edit.json``. It is made as ``<number>.draft``, called
``<number>.pending`` when the new text is in a temporary file beside the note, and ``<number>`` when that file
has replaced the note. The next edit finishes one that a kill has ended: a draft did not happen, and a pending
edit happened when its temporary file is gone. What others write into the note after the kill does not matter
for that.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.errors import NoteChanged, UsageError
from openclaw_mem_engine.notes.edit import NoteEdit, appended, reverted
from openclaw_mem_engine.state.disk import held, read_file, refused, sync_folder, write_file
from openclaw_mem_engine.state.events import EVENTS_FILE, KEEP_EVENTS, Event, EventKind, EventLog
from openclaw_mem_engine.workspace.opening import NoteRefused, read_if_there
from openclaw_mem_engine.workspace.reading import LOOKS_LIKE_UTF16, UTF16_MARKS, AllowedPath, locate_note
from openclaw_mem_engine.workspace.rules import ROOT_FILES, open_workspace, resolve_extras

#: Edits whose text before them is kept; older ones can no longer be undone.
KEEP_EDITS = 500

_LIST = "`openclaw-mem undo --list` lists the changes."
NO_CHANGES = "No change of a note is kept here: there is nothing to undo."
_DRAFT, _PENDING = ".draft", ".pending"
_TEMPORARY = ".openclaw-mem.tmp"
#: The temporary file of an edit that removes a note, until the note is moved over it: no text of a note.
_REMOVES = b"\0"


@dataclass(frozen=True, slots=True)
class Written:
    """An edit that was made. ``id`` counts from 1 in each workspace, ``at`` is epoch seconds; ``undoes`` is
    the edit that it took back (0: none), ``undone`` whether it was taken back itself."""

    id: int
    at: float
    path: str
    reason: str
    added: int
    removed: int
    undoes: int = 0
    undone: bool = False

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class NoteEditor:
    """The notes of one workspace. Safe between threads and processes. Methods raise NoteRefused for a path
    that cannot be a note, NoteChanged, and WorkspaceError when the disk refuses."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.time) -> None:
        self._settings = settings
        self._clock = clock
        # Open only while it is written to: an editor is not closed.
        self._log = closing(EventLog(settings.data_dir / EVENTS_FILE, clock))
        key = hashlib.sha256(os.fsencode(os.path.realpath(settings.workspace))).hexdigest()[:16]
        self._folder = settings.data_dir / "edits" / key

    def add_event(self, kind: EventKind, text: str, **more: Any) -> None:
        """``EventLog.add`` for events of this workspace."""
        with self._log as log:
            log.add(kind, text, agent=self._settings.agent, workspace=str(self._settings.workspace), **more)

    def events(self, kind: EventKind) -> list[Event]:
        """The events of this kind, of this agent and workspace, newest first."""
        agent, workspace = self._settings.agent, str(self._settings.workspace)
        with self._log as log:
            return log.read(KEEP_EVENTS, (kind,), agent=agent, workspace=workspace)

    def read(self, path: str) -> str | None:
        """The exact text of a note; None when there is none."""
        allowed = self._allowed(path)
        found = read_if_there(allowed.base, allowed.tail, self._settings.max_file_bytes, allowed.path)
        if found and found.data.startswith(UTF16_MARKS):
            raise NoteRefused("not-utf8", allowed.path, LOOKS_LIKE_UTF16)
        return found.data.decode("utf-8", "surrogateescape") if found else None

    def propose(self, path: str, after: str | None, reason: str) -> NoteEdit:
        """The edit from what is on disk now to ``after``."""
        return NoteEdit(self._allowed(path).path, self.read(path), after, reason)

    def write(self, edit: NoteEdit) -> Written:
        """Make an edit that was proposed. Raises NoteChanged when the note is no longer ``edit.before``; then
        nothing is written."""
        with self._locked():
            return self._write(edit)

    def append(self, path: str, text: str, reason: str) -> Written:
        """Add lines to whatever the note holds at that moment: nothing is ever overwritten."""
        with self._locked():
            before = self.read(path)
            return self._write(NoteEdit(self._allowed(path).path, before, appended(before, text), reason))

    def undo(self, number: int | None = None) -> Written:
        """Take back an edit (default: the last that was not taken back). Raises UsageError when there is none
        or it cannot be taken back any more, NoteChanged when that could lose what others wrote since."""
        with self._locked():
            return self._write(self._undoing(number))

    def propose_undo(self, number: int | None = None) -> NoteEdit:
        """The edit that ``undo`` would make, for ``write``; raises as ``undo`` does."""
        with self._locked():
            return self._undoing(number)

    def history(self, limit: int = 20) -> list[Written]:
        """The latest edits, newest first."""
        found: list[Written] = []
        undone: set[int] = set()  # an edit is only ever undone by a later one
        for record in filter(None, map(self._record, reversed(self._numbers()))):
            if record.id not in undone:  # an undo that was undone itself takes nothing back
                undone.add(record.undoes)
            found.append(replace(record, undone=record.id in undone))
            if len(found) == limit:
                break
        return found

    def settle(self) -> int:
        """Finish what a killed process has left, so that the history is complete: how many files it was."""
        if found := self._interrupted():
            with self._locked():
                pass
        return len(found)

    def unfinished(self) -> list[Path]:
        """The temporary files of edits that have not ended, in the folders of their notes."""
        found = []
        for folder in self._interrupted():
            with suppress(OSError, ValueError, KeyError, TypeError):
                temporary = Path(json.loads(read_file(folder / "edit.json"))["temporary"])
                found += [temporary] if temporary.exists() else []
        return found

    def before(self, number: int) -> str | None:
        """The text of the note before an edit; None when there was no note. Raises UsageError."""
        folder = self._folder / f"{number:06d}"
        if not folder.is_dir():
            raise UsageError(f"There is no change {number}. {_LIST}")
        text, meta = None, {}
        with suppress(OSError):
            text = read_file(folder / "before").decode("utf-8", "surrogateescape")
        with suppress(OSError, ValueError):
            meta = self._meta(number)
        if _digest(text) != meta.get("before"):
            raise UsageError(f"The text that was kept for change {number} is damaged or lost. {_LIST}")
        return text

    # -- under the lock -----------------------------------------------------------------------------------

    def _edit(self, number: int | None) -> Written:
        kept = self.history(KEEP_EDITS)
        if number is None:
            found = next((edit for edit in kept if not edit.undone and not edit.undoes), None)
        else:
            found = next((edit for edit in kept if edit.id == number), None)
        if not self._numbers():
            raise UsageError(NO_CHANGES)
        if found is None:
            what = f"change {number}" if number else "change left to undo. To undo an undo, name its number"
            raise UsageError(f"There is no {what}. {_LIST}")
        if found.undone:
            raise UsageError(f"Change {found.id} was undone already.")
        return found

    def _undoing(self, number: int | None) -> NoteEdit:
        edit = self._edit(number)
        now, reason = self.read(edit.path), f"undo of change {edit.id} ({edit.reason[:160]})"
        before, digest, after = self.before(edit.id), self._meta(edit.id)["after"], None
        if _digest(now) == digest:
            return NoteEdit(edit.path, now, before, reason, edit.id)
        with suppress(OSError):
            after = read_file(self._folder / f"{edit.id:06d}" / "after").decode("utf-8", "surrogateescape")
        since = f"since change {edit.id}"
        if now is None:
            why = f"was deleted {since}"
        elif not digest:
            why = f"was made again {since}, which removed it"
        elif _digest(after) != digest:
            why = f"was modified {since}, and the text that this change left is not kept or damaged"
        elif (rest := reverted(NoteEdit(edit.path, before, after, reason), now)) is not None:
            return NoteEdit(edit.path, now, rest, reason, edit.id)
        else:
            why = f"was modified {since}: what that changed is not as it left it, or other lines are like it"
        hint = f" `openclaw-mem undo {edit.id} --show` prints what the note held before."
        raise NoteChanged(f"{edit.path} {why}. Nothing was undone.{'' if before is None else hint}")

    def _write(self, edit: NoteEdit) -> Written:
        if edit.is_empty:
            raise UsageError(f"{edit.path} would stay as it is: there is nothing to write.")
        allowed = self._allowed(edit.path)
        if self.read(edit.path) != edit.before:
            raise NoteChanged(f"{edit.path} was modified meanwhile: nothing was written. Repeat the change.")
        numbers = self._numbers()
        done = Written(
            max(numbers, default=0) + 1,
            self._clock(),
            allowed.path,
            edit.reason,
            edit.added,
            edit.removed,
            edit.undoes,
        )
        target, draft = Path(allowed.base, allowed.tail), self._folder / f"{done.id:06d}{_DRAFT}"
        temporary = target.with_name(f".{target.name}.{done.id}{_TEMPORARY}")
        pending = draft.with_suffix(_PENDING)
        where = str(self._folder)
        try:
            self._keep(draft, done, edit, temporary)
            where = allowed.path
            self._make_folder(target.parent, edit.path)
            data = _REMOVES if edit.after is None else _bytes(edit.after)
            write_file(temporary, data, _mode_of(target, edit.path))
            sync_folder(target.parent)
            draft.rename(pending)
            sync_folder(self._folder)
            self._replace(target, temporary, edit)
            pending.rename(draft.with_suffix(""))
        except OSError as error:
            raise refused(where, error) from error
        finally:
            self._finish_interrupted()
        for old in numbers[: max(0, len(numbers) + 1 - KEEP_EDITS)]:
            shutil.rmtree(self._folder / f"{old:06d}", ignore_errors=True)
        self.add_event(
            "edit",
            f"{edit.reason}: {edit.summary()}",
            counts={"added": done.added, "removed": done.removed, "edit": done.id},
        )
        return done

    def _keep(self, folder: Path, done: Written, edit: NoteEdit, temporary: Path) -> None:
        folder.mkdir(mode=0o700)
        if edit.before is not None:
            write_file(folder / "before", _bytes(edit.before), 0o600)
        if edit.after is not None:
            write_file(folder / "after", _bytes(edit.after), 0o600)
        meta = done.to_dict() | {"before": _digest(edit.before), "after": _digest(edit.after)}
        meta["temporary"] = str(temporary)
        write_file(folder / "edit.json", json.dumps(meta).encode("ascii"), 0o600)
        sync_folder(folder)

    def _replace(self, target: Path, temporary: Path, edit: NoteEdit) -> None:
        # Looked at again just before: another program writes without our lock.
        if self.read(edit.path) != edit.before:
            raise NoteChanged(f"{edit.path} was modified meanwhile: nothing was written. Repeat the change.")
        if edit.after is None:
            target.replace(temporary)
            temporary.unlink()
        else:
            temporary.replace(target)
        sync_folder(target.parent)

    def _make_folder(self, folder: Path, shown: str) -> None:
        """Make the folder of a new note, and refuse one that is reached through a link."""
        folder.mkdir(parents=True, exist_ok=True)
        if folder.resolve() != folder:
            raise NoteRefused("link", shown, "leads through a link; links are not followed")

    def _allowed(self, path: str) -> AllowedPath:
        workspace = open_workspace(self._settings.workspace)
        allowed = locate_note(workspace, path, resolve_extras(workspace, self._settings.extra_paths))
        if allowed.tail in ROOT_FILES:  # both spellings are one file on a disk that ignores case
            there = {entry.name for entry in Path(workspace.real).iterdir()}
            name = next((name for name in (allowed.tail, *ROOT_FILES) if name in there), ROOT_FILES[0])
            return allowed._replace(path=name, tail=name)
        return allowed

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with held(self._folder, f"notes of {self._settings.workspace}"):
            self._finish_interrupted()
            yield

    def _interrupted(self) -> list[Path]:
        return [folder for folder in self._folder.glob("*.*") if folder.suffix in (_DRAFT, _PENDING)]

    def _finish_interrupted(self) -> None:
        """Keep an edit that happened and was not finished, and remove what is left of one that did not."""
        for folder in self._interrupted():
            with suppress(OSError, ValueError, KeyError, TypeError):
                meta = json.loads(read_file(folder / "edit.json"))
                temporary = Path(meta["temporary"])
                if folder.suffix == _PENDING and _has_happened(temporary, removes=not meta["after"]):
                    temporary.unlink(missing_ok=True)
                    folder.rename(folder.with_suffix(""))
                    continue
                if folder.suffix == _PENDING:  # before the file goes whose absence would say that it happened
                    folder = folder.rename(folder.with_suffix(_DRAFT))
                temporary.unlink(missing_ok=True)
            shutil.rmtree(folder, ignore_errors=True)

    # -- records ------------------------------------------------------------------------------------------

    def _numbers(self) -> list[int]:
        with suppress(FileNotFoundError):
            return sorted(int(entry.name) for entry in self._folder.iterdir() if entry.name.isdecimal())
        return []

    def _record(self, number: int) -> Written | None:
        with suppress(OSError, ValueError, KeyError, TypeError):
            meta = self._meta(number)
            return Written(**{name: meta[name] for name in Written.__slots__ if name != "undone"})
        return None

    def _meta(self, number: int) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(read_file(self._folder / f"{number:06d}" / "edit.json"))
        return found


def _has_happened(temporary: Path, *, removes: bool) -> bool:
    """Whether a note was replaced by this file, or was moved over it, to be removed."""
    return not temporary.exists() or (removes and read_file(temporary) != _REMOVES)


def _mode_of(target: Path, shown: str) -> int | None:
    """The mode of the present file; None without one."""
    try:
        status = target.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    if status.st_nlink > 1:
        raise NoteRefused("not-regular", shown, "has several names (hard links), which a new file would part")
    if not status.st_mode & stat.S_IWUSR:
        raise PermissionError(errno.EACCES, "it is read-only")
    return stat.S_IMODE(status.st_mode)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _digest(text: str | None) -> str:
    return "" if text is None else hashlib.sha256(_bytes(text)).hexdigest()
