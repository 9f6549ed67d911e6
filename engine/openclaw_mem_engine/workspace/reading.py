"""Reading notes: whole for the index, by lines for ``memory_get``, in part at the start of a session; and the
locations that people write, with suggestions for mistyped ones."""

# Paths are strings here, as in the listing that they come from.
# ruff: noqa: PTH113, PTH114, PTH118, PTH206

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from openclaw_mem_engine.errors import UsageError
from openclaw_mem_engine.model import Excerpt, snippet_of, utf16_length
from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.sanitize import WHITE
from openclaw_mem_engine.workspace.opening import NoteRefused, mtime_of, printable, read_bytes, read_if_there
from openclaw_mem_engine.workspace.rules import (
    MAX_NOTE_BYTES,
    MEMORY_FOLDER,
    NOTE_SUFFIX,
    ROOT_FILES,
    ExtraPath,
    Workspace,
    absolute_path,
    below,
    is_ignored_folder,
    open_workspace,
    resolve_extras,
)

#: How UTF-16 text begins, and the reason shown for it.
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
LOOKS_LIKE_UTF16 = "not UTF-8 at byte 0 (it looks like UTF-16); save it as UTF-8"


class NoteText(NamedTuple):
    """The text of a note, a byte order mark included, and what its file was when the reading began.
    ``settled`` is False when the file changed meanwhile: the next scan then sees a difference. ``nuls``
    counts the NUL bytes, each of which is U+FFFD in the text."""

    text: str
    size: int
    mtime_ns: int
    inode: int
    device: int
    settled: bool
    nuls: int = 0


class Location(NamedTuple):
    """A path with the lines meant, 1-based and inclusive; both None for the whole file."""

    path: str
    start_line: int | None
    end_line: int | None


def read_note(path: str, root: str | None = None, max_bytes: int = MAX_NOTE_BYTES) -> NoteText:
    """Read a listed note (``MemoryFile.absolute``) for indexing.

    The file itself is never opened through a link; with ``root``, a folder above it (the real path of the
    workspace), no folder between the two may be a link either, not even one planted since the listing.

    Raises ``NoteRefused`` with kind link, not-regular, too-large (over ``max_bytes``), unreadable, missing,
    binary (more than one byte in ten is NUL; fewer are read as U+FFFD) or not-utf8 (the message names the
    first bad byte).
    """
    tail = below(root, path) if root else None
    base, tail = (root, tail) if root and tail else os.path.split(path)
    read = read_bytes(base or ".", tail, max_bytes, path)
    data = read.data
    if data.startswith(UTF16_MARKS):
        raise NoteRefused("not-utf8", path, LOOKS_LIKE_UTF16)
    nuls = data.count(b"\0")
    if nuls * 10 > len(data):
        found_at = data.index(b"\0")
        raise NoteRefused("binary", path, f"binary: NUL at byte {found_at}")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NoteRefused("not-utf8", path, f"not UTF-8 at byte {error.start}; save it as UTF-8") from None
    found = read.status
    if nuls:  # SQLite's text functions end at one
        text = text.replace("\0", "\ufffd")
    return NoteText(text, found.st_size, mtime_of(found), found.st_ino, found.st_dev, read.settled, nuls)


def checked_path(path: str) -> str:
    """The path without blanks around it. Raises UsageError for a blank one."""
    if not (asked := path.strip()):
        raise UsageError("A path is required, for example MEMORY.md or memory/2026-02-20.md.")
    return asked


def get_excerpt(
    root: Path,
    path: str,
    start: int | None = None,
    lines: int | None = None,
    extra_paths: Sequence[str] = (),
    max_bytes: int = MAX_NOTE_BYTES,
) -> Excerpt:
    """Lines of one memory file, by the rules of the ``memory_get`` tool.

    ``path`` is relative to the workspace or absolute; blanks around it and ``..`` in it are taken out as
    text. The path that comes back is relative to the workspace. ``start`` counts from 1 (less is 1),
    ``lines`` is a count (less than 1 is 1; None is all). Neither given, or both 0, is the whole file. Text
    is split at ``\\n`` only; bytes that are not UTF-8 come back as U+FFFD. ``end_line`` is ``start_line -
    1`` when no line was there. A file that does not exist is an empty excerpt with ``found=False``: agents
    ask for the note of a day before it is written.

    Raises ``NoteRefused`` with kind outside, not-memory, not-markdown, link (it or any folder on the way to
    it), not-regular, too-large or unreadable; ``UsageError`` for a blank path; ``WorkspaceError``.
    """
    asked = checked_path(path)
    workspace = open_workspace(root)
    if "\0" in asked:
        raise NoteRefused("outside", path, "holds a NUL character, which no path can")
    allowed = locate_note(workspace, asked, resolve_extras(workspace, extra_paths))
    if (read := read_if_there(allowed.base, allowed.tail, max_bytes, asked)) is None:
        return Excerpt(allowed.path, "", 1, 0, 0, found=False)
    return excerpt_of(read.data, allowed.path, start, lines)


def excerpt_of(data: bytes, path: str, start: int | None, lines: int | None) -> Excerpt:
    """Lines of a file that was read, as ``get_excerpt`` counts them."""
    all_lines = data.decode("utf-8", "replace").split("\n")
    first = max(1, start or 1)
    chosen = all_lines[first - 1 :]
    if lines is not None and (start or lines):
        chosen = chosen[: max(1, lines)]
    text, last = "\n".join(chosen), first + len(chosen) - 1
    return Excerpt(path, text, first, last, len(all_lines), found=True)


_LOCATION = re.compile(
    r"(?P<path>.+?)(?::(?P<line>[0-9]{1,9})(?:-(?P<to>[0-9]{1,9})|:[0-9]{1,9})?"
    r"|#L(?P<mark>[0-9]{1,9})(?:-L?(?P<mark_to>[0-9]{1,9}))?)",
    re.DOTALL,
)


def parse_location(text: str) -> Location:
    """Split ``memory/x.md:12``, ``:12-20``, ``:12:5`` (column ignored), ``#L12`` or ``#L12-L20`` from a path.

    Anything else is a path as a whole. Raises UsageError for line 0 and for an end before the start.
    """
    match = _LOCATION.fullmatch(text.strip())
    if match is None:
        return Location(text.strip(), None, None)
    path, start = match["path"], int(match["line"] or match["mark"])
    end = int(match["to"] or match["mark_to"] or start)
    if start == 0:
        raise UsageError(f"{printable(path)} has no line 0: lines are counted from 1.")
    if end < start:
        raise UsageError(f"{printable(text.strip())} ends before it begins: the first line comes first.")
    return Location(path, start, end)


_NOT_MEMORY = (
    "this path is not memory: only MEMORY.md, memory.md, files below memory/ and the extra paths are"
)


class AllowedPath(NamedTuple):
    """An allowed path: ``path`` is reported, ``tail`` below the real folder ``base`` is opened. ``folders``
    are those on the way to it below the folder that a rule names."""

    path: str
    base: str
    tail: str
    folders: list[str]


def locate_note(workspace: Workspace, asked: str, extras: Sequence[ExtraPath]) -> AllowedPath:
    """Decide from the text alone whether a path may be read; the disk is looked at when it is opened."""
    # A relative path may come from a listing (relative to the real folder) or from the user's own view of it.
    spellings = [absolute_path(base, asked) for base in (workspace.real, workspace.given)]
    ignored = ""
    for allowed in _allowed(workspace, spellings, extras):
        if not allowed.path.endswith(NOTE_SUFFIX):
            raise NoteRefused("not-markdown", asked, "only files that end in .md (lower case) are memory")
        ignored = next(filter(is_ignored_folder, allowed.folders), "")
        if not ignored:
            return allowed
    if ignored:
        raise NoteRefused(
            "not-memory", asked, f"this path is in {printable(ignored)}, which is not a memory folder"
        )
    if workspace.inside(spellings[0]) is None and workspace.inside(spellings[1]) is None:
        raise NoteRefused("outside", asked, "this path is outside of the workspace and of the extra paths")
    raise NoteRefused("not-memory", asked, _NOT_MEMORY)


def takes_in(refusal: NoteRefused, workspace: Path) -> str:
    """How the refused file becomes memory: for a Markdown file of the workspace; "" for all else."""
    path = Path(refusal.path)
    if refusal.reason != _NOT_MEMORY or path.is_absolute() or path.suffix != NOTE_SUFFIX:
        return ""
    file = os.path.join(workspace, path)
    # These are False for a name that is too long, too.
    if any(map(is_ignored_folder, path.parts)) or not os.path.isfile(file) or os.path.islink(file):
        return ""
    return f"the option --include {shlex.quote(refusal.path)} or the setting extra_paths takes it in"


def _allowed(
    workspace: Workspace, spellings: Sequence[str], extras: Sequence[ExtraPath]
) -> Iterator[AllowedPath]:
    """What each rule that allows a path makes of it."""
    for absolute in spellings:
        inner = workspace.inside(absolute) or ""
        parts = inner.split(os.sep)
        if inner in ROOT_FILES or (parts[0] == MEMORY_FOLDER and len(parts) > 1):
            yield AllowedPath("/".join(parts), workspace.real, inner, parts[1:-1])
        for extra in extras:
            for spelled in (extra.lexical, extra.absolute):
                rest = below(spelled, absolute)
                if rest is not None and not extra.refusal and extra.takes(rest):
                    tail = os.path.join(extra.tail, rest) if rest else extra.tail
                    path = workspace.relative(os.path.join(extra.base, tail))
                    yield AllowedPath(path, extra.base, tail, rest.split(os.sep)[:-1])


def past_end(path: str, lines: int, line: int) -> str:
    """That a file of so many lines has no such line, as a sentence."""
    return f"{path} ends at line {lines:,}: there is no line {line}."


#: Under this likeness (0 to 100) of file names, or of whole paths, a suggestion would be noise.
LEAST_NAME, LEAST_PATH = 65.0, 87.0


def suggest_paths(wrong: str, known: Sequence[str], limit: int = 5) -> list[str]:
    """The known paths most like ``wrong``, best first, ties by path, at most ``limit``.

    Upper and lower case are the same here. A path counts by the better of two likenesses: the file name, so
    that a right name in a wrong folder is found, and the whole path, where it is nearly the same: paths of
    one folder are always somewhat alike.
    """
    if limit < 1 or not wrong.strip() or not known:
        return []
    from rapidfuzz import fuzz  # only a failed look-up pays for loading it

    def likeness(path: str) -> float:
        folded = _folded(path)
        name = fuzz.ratio(asked.rpartition("/")[2], folded.rpartition("/")[2], score_cutoff=LEAST_NAME)
        return max(fuzz.ratio(asked, folded, score_cutoff=LEAST_PATH), 0.95 * name)

    asked = _folded(wrong.strip())
    ranked = sorted((-score, path) for path in set(known) if (score := likeness(path)))
    return [path for _, path in ranked[:limit]]


def _folded(path: str) -> str:
    return path.casefold().removesuffix(".md")


# -- what of a root file an agent is given at the start of a session ----------------------------------------

#: The most that is handed over of one file, in UTF-16 units (the agent's default).
BOOTSTRAP_LIMIT = 20_000
#: Lines that a MEMORY.md should not exceed, as its documents advise.
BUDGET_LINES = 200
#: How serious it is that MEMORY.md has more lines, or more characters than a session begins with.
BUDGET_SEVERITY: Literal["warning"] = "warning"
#: Of a longer file the beginning and the end are handed over: these parts of the limit, in percent.
_HEAD, _TAIL = 70, 20


class Cut(NamedTuple):
    """A file that is handed over in part: ``head`` and ``tail`` are its kept ends. The agent sees the lines
    up to ``last_line`` and from ``next_line`` on, these two perhaps in part; lines count from 1. ``units`` is
    the length of all, in UTF-16 units, and ``limit`` that of what may be handed over."""

    head: str
    tail: str
    last_line: int
    next_line: int
    units: int
    limit: int

    def given(self, name: str) -> str:
        """What the agent is given of the file ``name``."""
        kept = f"{self.limit * _HEAD // 100}+{self.limit * _TAIL // 100}"
        return (
            f"{self.head}\n\n[...truncated, read {name} for full content...]\n"
            f"…(truncated {name}: kept {kept} chars of {self.units})…\n\n{self.tail}"
        )


def bootstrap_cut(text: str, limit: int = BOOTSTRAP_LIMIT) -> Cut | None:
    """Where a file is cut, never inside of a character; None when it is handed over whole."""
    text = text.rstrip(WHITE)
    if (units := utf16_length(text)) <= limit:
        return None
    head = snippet_of(text, limit * _HEAD // 100)
    tail = snippet_of(text[::-1], limit * _TAIL // 100)[::-1]
    lines = text.count("\n") + 1
    # A line of which only the end of line is kept is not kept.
    last, following = head.removesuffix("\n").count("\n") + 1, lines - tail.removeprefix("\n").count("\n")
    return Cut(head, tail, last, following, units, limit)
