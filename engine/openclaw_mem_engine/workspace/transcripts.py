"""Session transcripts: which files are some, and the conversation in them as text with its line numbers.

A transcript is a ``.jsonl`` file that another program appends to while we read. So only whole lines are
taken, whatever is no JSON is left out and counted, and no more than one line and the conversation itself is
ever held in memory. Everything that looks like a secret is masked before the text leaves this module.
"""

# Paths are strings here, as in the listing of notes.
# ruff: noqa: PTH118

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import closing
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple, NoReturn

from openclaw_mem_engine.model import MemoryFile, SkippedFile, utf8
from openclaw_mem_engine.redact import redact
from openclaw_mem_engine.workspace.listing import UNREADABLE, Listing
from openclaw_mem_engine.workspace.opening import (
    LINK,
    NoteRefused,
    kind_of,
    open_file,
    printable,
    refusal_of,
    too_large,
)

#: The only ending that counts.
TRANSCRIPT_SUFFIX = ".jsonl"
#: Transcripts have paths of their own, whatever folder they lie in.
TRANSCRIPT_FOLDER = "sessions"
#: No conversation is this large; what is would be read for minutes.
MAX_TRANSCRIPT_BYTES = 2**30
#: No message is this long; a line that is holds no talk (or is there to fill memory).
MAX_LINE_BYTES = 8 * 2**20
#: The most text of one conversation.
MAX_TEXT_BYTES = 10 * 2**20

_BLOCK_BYTES = 2**18
_ARCHIVES = (".jsonl.reset.", ".jsonl.deleted.")
# White space of ECMAScript. It differs from that of Python by U+FEFF (white there) and by U+001C-U+001F and
# U+0085 (not white there).
_WHITE = (
    "\t\n\v\f\r \u00a0\u1680"
    "\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
_BLANKS = re.compile(f"[{_WHITE}]+")
_LABELS = {"user": "User", "assistant": "Assistant"}


class Transcript(NamedTuple):
    """The conversation of one transcript.

    ``text`` has a line ``User: ...`` or ``Assistant: ...`` for each message; ``line_map[i]`` is the 1-based
    line of the file that text line ``i`` (from 0) comes from. ``hash`` is SHA-256 hex of both. ``size``
    counts the bytes that were taken, from the beginning to the end of the last whole line; the file may be
    longer. ``broken`` counts lines that are no JSON or far too long. ``settled`` is False when what was read
    may not be what is there now; appending does not count.
    """

    text: str
    line_map: tuple[int, ...]
    hash: str
    settled: bool
    mtime_ns: int
    size: int
    inode: int
    device: int
    broken: int


class Growth(NamedTuple):
    """What was appended: whole lines, and their bytes."""

    bytes: int
    lines: int


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
        return _nothing(f"folder {refusal_of(error, shown).reason}")
    for name in names:
        if name.endswith(TRANSCRIPT_SUFFIX):
            _take(shown, name, max_bytes, files, skipped)
        elif name.lower().endswith(TRANSCRIPT_SUFFIX):
            told = 'ends in another spelling of ".jsonl"; only lower case counts'
            skipped.append(SkippedFile(_path(name), told))
    for mark in _ARCHIVES:
        if ended := sum(mark in name for name in names):
            told = f"{ended:,} archived; the transcripts of ended sessions are not indexed"
            skipped.append(SkippedFile(f"{TRANSCRIPT_FOLDER}/*{mark}*", told, by_rule=True))
    kept: dict[object, str] = {}
    unique: list[MemoryFile] = []
    for file in files:
        known = kept.setdefault((file.device, file.inode) if file.inode else file.path, file.path)
        if known == file.path:
            unique.append(file)
        else:
            skipped.append(SkippedFile(file.path, f"the same file as {known}"))
    return Listing(tuple(unique), tuple(sorted(skipped, key=attrgetter("path"))))


def read_transcript(
    absolute: str, max_bytes: int = MAX_TEXT_BYTES, *, until: int | None = None
) -> Transcript:
    """Read a listed transcript; of one that grows meanwhile, what was there at the beginning.

    The last line counts when it ends, or is JSON without its end; else its writer has not finished it.
    ``max_bytes`` limits the text of the conversation, not the file: tool output and pictures are not kept.
    ``until`` takes the first bytes alone, to compare them with what was read before.

    Raises ``NoteRefused`` with kind link (it or its folder), not-regular, too-large, unreadable or missing.
    """
    descriptor, before = _open(absolute)
    with closing(os.fdopen(descriptor, "rb", buffering=0)):
        if before.st_size > MAX_TRANSCRIPT_BYTES:
            raise NoteRefused("too-large", absolute, too_large(before.st_size, MAX_TRANSCRIPT_BYTES))
        end = before.st_size if until is None else min(until, before.st_size)
        talk = _Talk(absolute, max_bytes)
        try:
            reached = talk.take(_lines(descriptor, 0, end))
            after = os.fstat(descriptor)
        except OSError as error:
            raise refusal_of(error, absolute) from error
    # More at the end changes nothing of what was read; another time alone means that something else did.
    settled = reached == end and (
        after.st_size > before.st_size
        or (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    )
    text, line_map = "\n".join(talk.texts), tuple(talk.numbers)
    content = f"{text}\n{','.join(map(str, line_map))}"
    return Transcript(
        text,
        line_map,
        hashlib.sha256(content.encode()).hexdigest(),
        settled,
        before.st_mtime_ns,
        talk.size,
        before.st_ino,
        before.st_dev,
        talk.broken,
    )


# Most transcripts are of sessions that ended with a short tail: it is not read again at every look.
@lru_cache(maxsize=4096)
def growth_of(file: MemoryFile, start: int, enough: Growth) -> Growth:
    """Whole lines of a listed transcript after its first ``start`` bytes. Counting stops when there are
    ``enough`` bytes or lines, so that a long tail costs no more than a short one.

    Raises ``NoteRefused`` as ``read_transcript`` does.
    """
    descriptor, _ = _open(file.absolute)
    grown = Growth(0, 0)
    with closing(os.fdopen(descriptor, "rb", buffering=0)):
        try:
            for line in _lines(descriptor, start, file.size):
                if line.ended or _is_whole(line.data):
                    grown = Growth(line.end - start, line.number)
                if grown.bytes >= enough.bytes or grown.lines >= enough.lines:
                    break
        except OSError as error:
            raise refusal_of(error, file.absolute) from error
    return grown


def _nothing(reason: str, *, by_rule: bool = False) -> Listing:
    return Listing((), (SkippedFile(TRANSCRIPT_FOLDER, reason, by_rule),))


def _path(name: str) -> str:
    return printable(f"{TRANSCRIPT_FOLDER}/{name}")


def _take(
    folder: str, name: str, max_bytes: int, files: list[MemoryFile], skipped: list[SkippedFile]
) -> None:
    """Take what is a transcript by name, or say why not."""
    absolute = os.path.join(folder, name)
    try:
        status = os.lstat(absolute)
    except FileNotFoundError:
        return  # removed since it was listed
    except OSError as error:
        skipped.append(SkippedFile(_path(name), refusal_of(error, absolute).reason))
        return
    mode, reason = status.st_mode, ""
    if stat.S_ISLNK(mode):
        reason = LINK
    elif not stat.S_ISREG(mode):
        reason = f"is {kind_of(mode)}, not a plain file"
    elif status.st_size > max_bytes:
        reason = too_large(status.st_size, max_bytes)
    elif utf8(name) != os.fsencode(name):
        reason = "its name is not UTF-8 text; rename it"
    elif not os.access(absolute, os.R_OK, effective_ids=os.access in os.supports_effective_ids):
        reason = UNREADABLE
    if reason:
        skipped.append(SkippedFile(_path(name), reason))
        return
    path = f"{TRANSCRIPT_FOLDER}/{name}"
    size, mtime, inode, device = status.st_size, status.st_mtime_ns, status.st_ino, status.st_dev
    files.append(MemoryFile(path, absolute, "sessions", size, mtime, inode, device))


def _open(absolute: str) -> tuple[int, os.stat_result]:
    """Neither the file nor its folder may be a link, not even one planted since the listing."""
    folder, name = os.path.split(absolute)
    base, last = os.path.split(folder)
    return open_file(base or ".", os.path.join(last, name), absolute)


class _Line(NamedTuple):
    """A line without its end: ``data`` is None when it is too long to be kept, ``end`` the offset behind it;
    ``ended`` is False for a last one without ``\\n``."""

    number: int
    data: bytes | None
    end: int
    ended: bool


def _lines(descriptor: int, start: int, end: int) -> Iterator[_Line]:
    """The lines between two offsets, in blocks; fewer when the file is shorter by now. Raises OSError."""
    os.lseek(descriptor, start, os.SEEK_SET)
    position, number, held = start, 0, 0
    parts: list[bytes] = []
    while position < end and (block := os.read(descriptor, min(_BLOCK_BYTES, end - position))):
        begin = 0
        while (at := block.find(b"\n", begin)) >= 0:
            held += at - begin
            data = b"".join((*parts, block[begin:at])) if held <= MAX_LINE_BYTES else None
            number += 1
            yield _Line(number, data, position + at + 1, ended=True)
            parts.clear()
            held, begin = 0, at + 1
        held += len(block) - begin
        if held <= MAX_LINE_BYTES:
            parts.append(block[begin:])
        else:
            parts.clear()
        position += len(block)
    if held:
        yield _Line(number + 1, b"".join(parts) if held <= MAX_LINE_BYTES else None, position, ended=False)


class _Talk:
    """What the lines of a transcript say; ``size`` is the end of the last line that counts."""

    def __init__(self, shown: str, max_bytes: int) -> None:
        self.texts: list[str] = []
        self.numbers: list[int] = []
        self.broken = self.size = 0
        self._shown = shown
        self._limit = self._left = max_bytes

    def take(self, lines: Iterator[_Line]) -> int:
        """Take the lines in order; the offset that was reached."""
        reached = 0
        for line in lines:
            reached = line.end
            try:
                said = _said(line.data)
            except (ValueError, RecursionError):
                if not line.ended:
                    break  # half written: it is for the next time
                self.broken += 1
                said = None
            self.size = line.end
            if said is not None:
                self._add(said, line.number)
        return reached

    def _add(self, said: str, number: int) -> None:
        self._left -= len(said.encode()) + 1
        if self._left < 0:
            told = f"too much text: the limit for one conversation is {self._limit:,} bytes"
            raise NoteRefused("too-large", self._shown, told)
        self.texts.append(said)
        self.numbers.append(number)


def _said(line: bytes | None) -> str | None:
    """``User: ...`` or ``Assistant: ...`` of a line that is a message with text, else None.

    Raises ValueError or RecursionError for a line that is no JSON, or too long or too deep to be looked at.
    """
    if line is None:
        raise ValueError("too long")
    written = line.decode("utf-8", "replace")
    if not written.strip(_WHITE):
        return None
    record = _JSON.decode(written)
    if not isinstance(record, dict) or record.get("type") != "message":
        return None
    message = record.get("message")
    if not isinstance(message, dict):
        return None
    role = message.get("role")
    label = _LABELS.get(role) if isinstance(role, str) else None
    text = _text_of(message.get("content")) if label else ""
    # Halves of characters that escapes can spell have no UTF-8: as everywhere, they become U+FFFD.
    return utf8(f"{label}: {redact(text)}").decode() if text else None


def _text_of(content: object) -> str:
    """A text, or the ``text`` blocks of a list, on one line; "" when there is none."""
    if isinstance(content, str):
        return _on_one_line(content)
    if not isinstance(content, list):
        return ""
    blocks = (block for block in content if isinstance(block, dict) and block.get("type") == "text")
    texts = (_on_one_line(text) for block in blocks if isinstance(text := block.get("text"), str))
    return " ".join(text for text in texts if text)


def _on_one_line(text: str) -> str:
    return _BLANKS.sub(" ", text).strip(" ")


def _is_whole(line: bytes | None) -> bool:
    try:
        _said(line)
    except (ValueError, RecursionError):
        return False
    return True


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


# No number is of interest, and one of many thousand digits would be refused or take long.
_JSON = json.JSONDecoder(parse_int=len, parse_float=len, parse_constant=_no_number)
