"""Which files of a workspace are memory, which of a sessions folder are transcripts, and what is excluded.

Nothing that looks like a note disappears silently: links, oversized, unreadable and special files, other
spellings of ``.md``, duplicates and ignored folders are all in ``Listing.excluded`` with a reason.
"""

# Paths are strings here: a Path object per file would cost more than the whole walk.
# ruff: noqa: PTH112, PTH118, PTH206, PTH208

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from openclaw_mem_engine.errors import WorkspaceError
from openclaw_mem_engine.model import NOT_INCLUDED
from openclaw_mem_engine.workspace.opening import (
    LINK,
    entries_of,
    printable,
    refusal_of,
    through_link,
)
from openclaw_mem_engine.workspace.rules import (
    AGENT_FILES,
    MAX_NOTE_BYTES,
    MAX_TRANSCRIPT_BYTES,
    MEMORY_FOLDER,
    NOTE_SUFFIX,
    ROOT_FILES,
    TRANSCRIPT_FOLDER,
    TRANSCRIPT_SUFFIX,
    ExtraPath,
    Workspace,
    glob_pattern,
    is_ignored_folder,
    is_note_name,
    open_workspace,
    resolve_extras,
)
from openclaw_mem_engine.workspace.walk import EXCLUDED, NOT_UTF8, Listing, Walk, is_utf8

if TYPE_CHECKING:
    from openclaw_mem_engine.config.settings import Settings

_SUFFIX_CASE = 'ends in another spelling of "{}"; only lower case counts'
_FOLDER_LINK = "is a link to a folder; links are not followed"
#: How many entries of folders are looked at for notes outside of ``memory/``.
_MOST_SEEN = 20_000
_RESET = ".jsonl.reset."
_ARCHIVES = (_RESET, ".jsonl.deleted.")
_Folders: TypeAlias = list[tuple[str, str]]


def notes_of(settings: Settings) -> Listing:
    """The notes of the configured workspace. Raises as ``list_memory``."""
    return list_memory(settings.workspace, settings.extra_paths, settings.max_file_bytes, settings.exclude)


def list_memory(
    root: Path,
    extra_paths: Sequence[str] = (),
    max_bytes: int = MAX_NOTE_BYTES,
    exclude: Sequence[str] = (),
) -> Listing:
    """List ``MEMORY.md``, ``memory.md``, ``memory/**/*.md`` and the extra paths of a workspace.

    ``extra_paths`` are absolute, ``~/…`` or workspace-relative: a folder with all below it, or a file that
    ends in ``.md``, or what matches wildcards; what lies outside of the workspace gets a ``../…`` path. What
    matches one of ``exclude``, a file or a folder by its path, is no memory. Only ``root`` itself may be a
    link. A file with several names counts once, under the first: top-level files before ``memory/`` before
    extra paths, then by path. ``max_bytes`` limits a note. Raises ``WorkspaceError`` when the workspace is
    missing or cannot be read.
    """
    workspace = open_workspace(root)
    walk = _walk(max_bytes, exclude)
    try:
        _take_root_files(walk, workspace.real)
        _take_memory_folder(walk, os.path.join(workspace.real, MEMORY_FOLDER))
    except OSError as error:
        raise WorkspaceError(
            f"The workspace {workspace.given} cannot be read just now: {error.strerror or error}. Check its "
            "permissions, and the disk or the server that holds it, and try again."
        ) from error
    extras = resolve_extras(workspace, extra_paths)
    bare = [extra.configured for extra in extras if not _take_extra(walk, workspace, extra) and extra.glob]
    if bare:
        match = "matches" if len(bare) == 1 else "match"
        walk.skip(NOT_INCLUDED, f"{', '.join(map(repr, bare))} {match} no {NOTE_SUFFIX} file")
    no_folder = not os.path.lexists(os.path.join(workspace.real, MEMORY_FOLDER))
    alone = no_folder and not extras and MEMORY_FOLDER not in walk.excluded
    if count := _outside(workspace.real, walk) if alone else "":
        how = "the option --include '**/*.md' or the setting extra_paths takes them in"
        walk.skip(NOT_INCLUDED, f"{count} and no folder {MEMORY_FOLDER}; {how}")
    return walk.listing()


def notes_not_included(settings: Settings) -> str:
    """What to know of the Markdown beside ``memory/`` that is no memory, as a sentence; "" where there is
    none, where the settings name extra paths, and without ``memory/`` (see ``list_memory``). Looks at 20,000
    entries of folders at most, 3 µs each, so searches leave it to those who look at the state of an index.
    Raises WorkspaceError."""
    if "memory" not in settings.sources or settings.extra_paths or settings.openclaw.backend != "builtin":
        return ""
    real = open_workspace(settings.workspace).real
    if not os.path.isdir(os.path.join(real, MEMORY_FOLDER)):
        return ""
    count = _outside(real, _walk(settings.max_file_bytes, settings.exclude))
    if not count:
        return ""
    return (
        f"Outside the memory, not searched by your agent: {count}. "
        "The option --include '**/*.md' adds such files."
    )


def _walk(max_bytes: int, exclude: Sequence[str]) -> Walk:
    walk = Walk("memory", max_bytes)
    if exclude:
        walk.exclude = re.compile("|".join(map(glob_pattern, exclude)), re.DOTALL)
    return walk


def list_transcripts(folder: Path, max_bytes: int = MAX_TRANSCRIPT_BYTES, *, ended: bool = False) -> Listing:
    """The transcripts right in ``folder``, with the paths ``sessions/<name>.jsonl``; with ``ended`` also
    those of sessions that were reset.

    Never raises: a folder that is missing, is a link or may not be read gives no files and says why. Archives
    of ended sessions (``.jsonl.reset.*``, ``.jsonl.deleted.*``) are counted, other files are not ours.
    """
    walk = Walk("sessions", max_bytes)
    shown = printable(str(folder))
    try:
        status = os.lstat(folder)
        if not stat.S_ISDIR(status.st_mode):
            reason = LINK if stat.S_ISLNK(status.st_mode) else "is not a folder"
            walk.skip(TRANSCRIPT_FOLDER, f"{shown} {reason}")
            return walk.listing()
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries]
        walk.folders.add(str(folder))
    except FileNotFoundError:
        walk.skip(TRANSCRIPT_FOLDER, f"there are no transcripts: {shown} does not exist", by_rule=True)
        return walk.listing()
    except (OSError, ValueError) as error:
        walk.skip_for(error, TRANSCRIPT_FOLDER, "folder ")
        return walk.listing()
    for name in names:
        path = f"{TRANSCRIPT_FOLDER}/{name}"
        if name.endswith(TRANSCRIPT_SUFFIX) or (ended and _RESET in name):
            walk.take(path, os.path.join(folder, name))
        elif name.lower().endswith(TRANSCRIPT_SUFFIX):
            walk.skip(path, _SUFFIX_CASE.format(TRANSCRIPT_SUFFIX))
    for mark in _ARCHIVES:
        if number := sum(mark in name for name in names):
            reason = f"{number:,} archived; the transcripts of ended sessions are not indexed"
            walk.skip(f"{TRANSCRIPT_FOLDER}/*{mark}*", reason, by_rule=True)
    walk.close_group()
    return walk.listing()


def _take_root_files(walk: Walk, real: str) -> None:
    preferred = ROOT_FILES[0]
    names = os.listdir(real)
    walk.folders.add(real)
    for name in names:
        absolute = os.path.join(real, name)
        if name in ROOT_FILES:
            walk.take(name, absolute)
        elif name.lower() == ROOT_FILES[1]:
            usual = os.path.join(real, preferred)
            if preferred not in names and os.path.lexists(usual):  # the disk ignores case
                walk.take(preferred, usual)
            else:
                walk.skip(name, "only the spellings MEMORY.md and memory.md count")
    walk.close_group()


def _take_memory_folder(walk: Walk, absolute: str) -> None:
    try:
        mode = os.lstat(absolute).st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        walk.skip_for(error, MEMORY_FOLDER, "folder ")
        return
    if stat.S_ISDIR(mode):
        _take_folder(walk, MEMORY_FOLDER, absolute)
    else:
        walk.skip(MEMORY_FOLDER, _link_reason(absolute) if stat.S_ISLNK(mode) else "is not a folder")


def _take_extra(walk: Walk, workspace: Workspace, extra: ExtraPath) -> bool:
    """Take what an extra path names, or say why not. Returns False for a folder of which nothing is taken."""
    if extra.refusal:
        walk.skip(extra.configured, f"extra path: {extra.refusal}")
        return True
    absolute = extra.base
    parts = [part for part in extra.tail.split(os.sep) if part]
    try:
        status = os.lstat(absolute)
        for part in parts:
            absolute = os.path.join(absolute, part)
            status = os.lstat(absolute)
            if stat.S_ISLNK(status.st_mode):
                reason = _link_reason(absolute) if absolute == extra.absolute else through_link(part)
                walk.skip(extra.configured, f"extra path: {reason}; name the path that it points to")
                return True
    except OSError as error:
        # What may be readable later is named as its notes are, by which they are found to be below it.
        transient = refusal_of(error, absolute).transient
        named = workspace.relative(extra.absolute) if transient else extra.configured
        walk.skip_for(error, named, "extra path: ")
        return True
    path = workspace.relative(absolute)
    if stat.S_ISDIR(status.st_mode):
        walk.excluded.pop(printable(path), None)  # a hidden folder that the user names is wanted after all
        path = "" if path == "." else path
        if extra.glob:
            below_it = re.escape(f"{path}/") if path else ""
            walk.only = re.compile(below_it + glob_pattern(extra.glob), re.DOTALL)
        _take_folder(walk, path, absolute)
        walk.only = None
        return bool(walk.groups[-1])
    if not absolute.endswith(NOTE_SUFFIX):
        walk.skip(path, "extra path: is neither a folder nor a file that ends in .md")
    else:
        walk.offer(path, absolute, status)
        walk.close_group()
    return True


def _outside(real: str, walk: Walk) -> str:
    """How many notes of a workspace lie outside of ``memory/`` and are not taken, in words; "" for none."""
    elsewhere, seen = Walk("memory", walk.max_bytes, exclude=walk.exclude), 0
    pending = [("", real)]
    while pending and seen < _MOST_SEEN:
        path, absolute = pending.pop()
        prefix = path and f"{path}/"
        with suppress(OSError), entries_of(absolute) as entries:
            for entry in entries:
                seen += 1
                if prefix or entry.name != MEMORY_FOLDER:
                    _take_entry(elsewhere, prefix + entry.name, absolute, entry, pending)
    names = {path for path, *_ in elsewhere.group} - {*ROOT_FILES, *AGENT_FILES}
    least = "at least " if pending else ""
    return f"{least}{len(names):,} Markdown file{'s'[: len(names) > 1]} here" if names else ""


def _take_folder(walk: Walk, path: str, absolute: str) -> None:
    """Take a folder with all below it; ``path`` is its relative form ("" for the workspace itself)."""
    pending = [(path, absolute)]
    while pending:
        path, absolute = pending.pop()
        prefix = path + "/" if path else ""
        try:
            with entries_of(absolute) as entries:
                walk.folders.add(absolute)
                for entry in entries:
                    try:
                        _take_entry(walk, prefix + entry.name, absolute, entry, pending)
                    except FileNotFoundError:
                        continue  # removed during the walk
                    except OSError as error:
                        walk.skip_for(error, prefix + entry.name)
        except FileNotFoundError:
            continue  # removed during the walk
        except OSError as error:
            walk.skip_for(error, path or ".", "folder ")
    walk.close_group()


def _take_entry(walk: Walk, path: str, folder: str, entry: os.DirEntry[str], pending: _Folders) -> None:
    """Take or report what a folder holds; silent about files of other kinds. Raises OSError."""
    name, absolute = entry.name, f"{folder}{os.sep}{entry.name}"
    if name.endswith(NOTE_SUFFIX) and walk.only is None:
        status = entry.stat(follow_symlinks=False)  # which tells what it is, too
        if stat.S_ISREG(status.st_mode):
            walk.offer(path, absolute, status)
            return
    if entry.is_dir(follow_symlinks=False):
        if is_ignored_folder(name):
            kind = "hidden folder" if name.startswith(".") else "folder of a tool"
            walk.skip(path, f"{kind}; nothing in it is memory", by_rule=True)
        elif walk.exclude is not None and (
            walk.exclude.fullmatch(path) or walk.exclude.fullmatch(f"{path}/")
        ):
            walk.skip(path, EXCLUDED, by_rule=True)
        elif not is_utf8(path):
            walk.skip(path, NOT_UTF8)
        else:
            pending.append((path, absolute))
    elif walk.only is not None and not walk.only.fullmatch(path):
        return
    elif entry.is_symlink():
        reason = _link_reason(absolute)
        if reason is _FOLDER_LINK or is_note_name(name):
            walk.skip(path, reason)
    elif name.endswith(NOTE_SUFFIX):
        walk.offer(path, absolute, entry.stat(follow_symlinks=False))
    elif is_note_name(name):
        walk.skip(path, _SUFFIX_CASE.format(NOTE_SUFFIX))


def _link_reason(absolute: str) -> str:
    return _FOLDER_LINK if os.path.isdir(absolute) else LINK
