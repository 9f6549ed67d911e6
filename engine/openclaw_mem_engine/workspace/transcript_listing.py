"""Which files of an agent's sessions folder are transcripts."""

# Paths are strings here, as in the listing of notes.
# ruff: noqa: PTH118

from __future__ import annotations

import os
import stat
from operator import attrgetter
from pathlib import Path

from openclaw_mem_engine.model import MemoryFile, SkippedFile, Source
from openclaw_mem_engine.workspace.listing import UNREADABLE, Listing, exclusion, found_file
from openclaw_mem_engine.workspace.opening import printable, refusal_of
from openclaw_mem_engine.workspace.transcripts import MAX_TRANSCRIPT_BYTES

#: The only ending that counts.
TRANSCRIPT_SUFFIX = ".jsonl"
#: Transcripts have paths of their own, whatever their folder is.
TRANSCRIPT_FOLDER = "sessions"

_ARCHIVES = (".jsonl.reset.", ".jsonl.deleted.")


def source_of(path: str) -> Source:
    """The source of a path as it is listed or left out. The transcripts' folder itself counts as theirs; a
    note below a folder of that name in the workspace does not."""
    folder, _, name = path.partition("/")
    ours = folder == TRANSCRIPT_FOLDER and (not name or TRANSCRIPT_SUFFIX in name.lower())
    return "sessions" if ours else "memory"


def list_transcripts(folder: Path, max_bytes: int = MAX_TRANSCRIPT_BYTES) -> Listing:
    """The transcripts right in ``folder``, with the paths ``sessions/<name>.jsonl``.

    Never raises: a folder that is missing, is a link or may not be read gives no files and says why. Archives
    of ended sessions (``.jsonl.reset.*``, ``.jsonl.deleted.*``) are counted, other files are not ours.
    """
    files: list[MemoryFile] = []
    skipped: list[SkippedFile] = []
    shown = str(folder)
    try:
        status = os.lstat(shown)
        if stat.S_ISLNK(status.st_mode):
            return _nothing(f"{printable(shown)} is a link; links are not followed")
        if not stat.S_ISDIR(status.st_mode):
            return _nothing(f"{printable(shown)} is not a folder")
        with os.scandir(shown) as entries:
            names = sorted(entry.name for entry in entries)
    except FileNotFoundError:
        return _nothing(f"there are no transcripts: {printable(shown)} does not exist", by_rule=True)
    except (OSError, ValueError) as error:
        refusal = refusal_of(error, shown)
        return _nothing(f"folder {refusal.reason}", transient=refusal.transient)
    for name in names:
        if name.endswith(TRANSCRIPT_SUFFIX):
            _take(shown, name, max_bytes, files, skipped)
        elif name.lower().endswith(TRANSCRIPT_SUFFIX):
            reason = 'ends in another spelling of ".jsonl"; only lower case counts'
            skipped.append(SkippedFile(_path(name), reason))
    for mark in _ARCHIVES:
        if ended := sum(mark in name for name in names):
            reason = f"{ended:,} archived; the transcripts of ended sessions are not indexed"
            skipped.append(SkippedFile(f"{TRANSCRIPT_FOLDER}/*{mark}*", reason, by_rule=True))
    kept: dict[object, str] = {}
    unique: list[MemoryFile] = []
    for file in files:
        known = kept.setdefault((file.device, file.inode) if file.inode else file.path, file.path)
        if known == file.path:
            unique.append(file)
        else:
            skipped.append(SkippedFile(file.path, f"the same file as {known}"))
    return Listing(tuple(unique), tuple(sorted(skipped, key=attrgetter("path"))))


def _nothing(reason: str, *, by_rule: bool = False, transient: bool = False) -> Listing:
    return Listing((), (SkippedFile(TRANSCRIPT_FOLDER, reason, by_rule, transient),))


def _path(name: str) -> str:
    return printable(f"{TRANSCRIPT_FOLDER}/{name}")


def _take(
    folder: str, name: str, max_bytes: int, files: list[MemoryFile], skipped: list[SkippedFile]
) -> None:
    """Take a transcript by name, or say why not."""
    absolute = os.path.join(folder, name)
    try:
        status = os.lstat(absolute)
    except FileNotFoundError:
        return  # removed since it was listed
    except OSError as error:
        refusal = refusal_of(error, absolute)
        skipped.append(SkippedFile(_path(name), refusal.reason, transient=refusal.transient))
        return
    path = f"{TRANSCRIPT_FOLDER}/{name}"
    if reason := exclusion(path, absolute, status, max_bytes):
        skipped.append(SkippedFile(_path(name), reason, transient=reason == UNREADABLE))
    else:
        files.append(found_file(path, absolute, status, "sessions"))
