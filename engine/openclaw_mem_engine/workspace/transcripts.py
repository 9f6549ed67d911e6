"""The conversation in a session transcript as text with its line numbers.

A transcript is a ``.jsonl`` file that another program appends to while we read. Only whole lines are taken;
what is no JSON is excluded and counted; at most one line and the conversation itself are held in memory, and
of a conversation over the limit only the first part. Everything that looks like a secret is masked.
"""

# Paths are strings here, as in the listing of notes.
# ruff: noqa: PTH118

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import NoReturn

from openclaw_mem_engine.model import MemoryFile, utf8
from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.redact import redact
from openclaw_mem_engine.sanitize import WHITE
from openclaw_mem_engine.workspace.opening import NoteRefused, mtime_of, open_file, refusal_of, too_large
from openclaw_mem_engine.workspace.rules import MAX_TRANSCRIPT_BYTES

#: A longer line is no message.
MAX_LINE_BYTES = 8 * 2**20
#: The most text of one conversation; of a longer one the beginning is taken.
MAX_TEXT_BYTES = 10 * 2**20

_BLOCK_BYTES = 2**18
#: Between a hash and the limit at which the conversation was cut: no digit of a hash.
_CUT = "+"
_BLANKS = re.compile(f"[{WHITE}]+")
_LABELS = {"user": "User", "assistant": "Assistant"}


class Transcript(NamedTuple):
    """The conversation of one transcript: in ``text`` a line ``User: ...`` or ``Assistant: ...`` a message.

    ``line_map[i]`` is the 1-based line of the file that text line ``i`` (from 0) comes from. ``hash`` is
    SHA-256 hex of both, and the limit of a conversation that was cut (see ``cut_at``). ``size`` is the end of
    the last line that counts, in bytes. ``broken`` counts lines that are no JSON, ``too_long`` those that are
    too long to be looked at. ``settled`` is False when what was read may not be what is there now; appending
    does not count.
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
    too_long: int


class Growth(NamedTuple):
    """What was appended: whole lines, and their bytes."""

    bytes: int
    lines: int


def cut_at(content_hash: str) -> int | None:
    """The limit, in bytes of text, at which the conversation of this ``Transcript.hash`` was cut, whatever is
    appended to it later; None for a whole one."""
    _, _, limit = content_hash.partition(_CUT)
    return int(limit) if limit.isdecimal() else None


def first_part(limit: int) -> str:
    """The reason shown for a conversation that was cut at ``limit`` bytes of text."""
    shown = f"{limit / 2**20:.3g} MB" if limit >= 2**20 else f"{limit:,} bytes"
    return f"only the first {shown} of text are searched"


def read_transcript(
    absolute: str, max_bytes: int = MAX_TEXT_BYTES, *, until: int | None = None
) -> Transcript:
    """Read a listed transcript; of one that grows meanwhile, what was there at the beginning.

    The last line counts when it ends, or is JSON without its end; else its writer has not finished it.
    ``max_bytes`` limits the text of the conversation, not the file; what follows is not read. ``until`` takes
    only the first bytes of the file, to compare them with what was read before.

    Raises ``NoteRefused`` with kind link (it or its folder), not-regular, too-large, unreadable or missing.
    """
    with opened_transcript(absolute) as (descriptor, before):
        if before.st_size > MAX_TRANSCRIPT_BYTES:
            raise NoteRefused("too-large", absolute, too_large(before.st_size, MAX_TRANSCRIPT_BYTES))
        end = before.st_size if until is None else min(until, before.st_size)
        talk = _Talk(max_bytes)
        reached = talk.take(lines_between(descriptor, 0, end))
        after = os.fstat(descriptor)
    # More at the end changes nothing of what was read; another time alone means that something else did.
    unchanged = (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    text, line_map = "\n".join(talk.texts), tuple(talk.numbers)
    content = f"{text}\n{','.join(map(str, line_map))}"
    return Transcript(
        text,
        line_map,
        hash=hashlib.sha256(content.encode()).hexdigest() + (f"{_CUT}{max_bytes}" if talk.cut else ""),
        settled=(talk.cut or reached == end) and (after.st_size > before.st_size or unchanged),
        mtime_ns=mtime_of(before),
        size=talk.size,
        inode=before.st_ino,
        device=before.st_dev,
        broken=talk.broken,
        too_long=talk.too_long,
    )


# Most transcripts are of sessions that ended with a short tail: it is not read again by every scan.
@lru_cache(maxsize=4096)
def growth_of(file: MemoryFile, start: int, enough: Growth) -> Growth:
    """Whole lines of a listed transcript after its first ``start`` bytes. Counting stops when there are
    ``enough`` bytes or lines. Raises ``NoteRefused`` as ``read_transcript`` does."""
    grown = Growth(0, 0)
    with opened_transcript(file.absolute) as (descriptor, _):
        for line in lines_between(descriptor, start, file.size):
            if line.ended or _is_whole(line.data):
                grown = Growth(line.end - start, line.number)
            if grown.bytes >= enough.bytes or grown.lines >= enough.lines:
                break
    return grown


@lru_cache(maxsize=4096)
def ends_a_line(file: MemoryFile, size: int) -> bool:
    """Whether the first ``size`` bytes of a listed transcript, which is longer, end where a line does. Those
    that were read do as long as their writer appends; of a file that was written anew, hardly ever. Raises
    ``NoteRefused`` as ``read_transcript`` does."""
    if not size:
        return True
    with opened_transcript(file.absolute) as (descriptor, _):
        os.lseek(descriptor, size - 1, os.SEEK_SET)
        # Or right behind: a last line without its end was taken when it was JSON.
        last = os.read(descriptor, 3)
    return last[:1] == b"\n" or last[1:2] == b"\n" or last[1:] == b"\r\n"


@contextmanager
def opened_transcript(absolute: str) -> Iterator[tuple[int, os.stat_result]]:
    """A descriptor for the body, and the status of the file. Neither the file nor its folder may be a link,
    not even one planted since the listing. Raises NoteRefused, also for an OSError of the body."""
    folder, name = os.path.split(absolute)
    base, last = os.path.split(folder)
    descriptor, status = open_file(base or ".", os.path.join(last, name), absolute)
    try:
        yield descriptor, status
    except OSError as error:
        raise refusal_of(error, absolute) from error
    finally:
        os.close(descriptor)


class Line(NamedTuple):
    """A line without its end: ``data`` is None when it is too long to be kept, ``end`` the offset behind it;
    ``ended`` is False for a last one without ``\\n``."""

    number: int
    data: bytes | None
    end: int
    ended: bool


def lines_between(descriptor: int, start: int, end: int) -> Iterator[Line]:
    """The lines between two offsets, in blocks; fewer when the file is shorter by now. Raises OSError."""
    os.lseek(descriptor, start, os.SEEK_SET)
    position, number, held = start, 0, 0
    parts: list[bytes] = []
    while position < end and (block := os.read(descriptor, min(_BLOCK_BYTES, end - position))):
        pieces = block.split(b"\n")
        for index, piece in enumerate(pieces):
            held += len(piece)
            position += len(piece)
            if held <= MAX_LINE_BYTES:
                parts.append(piece)
            else:
                parts.clear()
            if index < len(pieces) - 1:
                position += 1
                number += 1
                yield Line(number, b"".join(parts) if held <= MAX_LINE_BYTES else None, position, ended=True)
                parts.clear()
                held = 0
    if held:
        yield Line(number + 1, b"".join(parts) if held <= MAX_LINE_BYTES else None, position, ended=False)


class _Talk:
    """What the lines of a transcript say; ``size`` is the end of the last line that counts. ``cut``: there is
    more than the limit in bytes."""

    def __init__(self, max_bytes: int) -> None:
        self.texts: list[str] = []
        self.numbers: list[int] = []
        self.broken = self.too_long = self.size = 0
        self.cut = False
        self._left = max_bytes

    def take(self, lines: Iterator[Line]) -> int:
        """Take the lines in order until there is too much; the offset that was reached."""
        reached = 0
        for line in lines:
            reached = line.end
            said = None
            try:
                said = _said(line.data)
            except (ValueError, RecursionError):
                if not line.ended:
                    break  # half written: it is for the next time
                self.too_long += line.data is None
                self.broken += line.data is not None
            self.size = line.end
            if said is None:
                continue
            written = said.encode()
            # One message may be all there is: of that which passes the limit the beginning is taken, too.
            if said := written[: max(0, self._left - 1)].decode("utf-8", "ignore"):
                self.texts.append(said)
                self.numbers.append(line.number)
            self._left -= len(written) + 1
            if self._left < 0:
                self.cut = True
                break
        return reached


def _said(line: bytes | None) -> str | None:
    """``User: ...`` or ``Assistant: ...`` of a line that is a message with text, else None.

    Raises ValueError or RecursionError for a line that is no JSON, or too long or too deep to be looked at.
    """
    if line is None:
        raise ValueError("too long")
    written = line.decode("utf-8", "replace")
    record = _JSON.decode(written) if written.strip(WHITE) else None
    if not isinstance(record, dict) or record.get("type") != "message":
        return None
    message = record.get("message")
    if not isinstance(message, dict):
        return None
    role = message.get("role")
    if not isinstance(role, str) or role not in _LABELS:
        return None
    text = _text_of(message.get("content"))
    # Halves of characters that escapes can spell have no UTF-8: as everywhere, they become U+FFFD.
    # A note's NUL bytes are read so, too.
    return utf8(f"{_LABELS[role]}: {redact(text)}").decode().replace("\0", "\ufffd") if text else None


def text_blocks(content: object) -> list[str]:
    """A text, or the ``text`` blocks of a list."""
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    texts = (block.get("text") for block in blocks if isinstance(block, dict) and block.get("type") == "text")
    return [text for text in texts if isinstance(text, str)]


def _text_of(content: object) -> str:
    """What is said, on one line; "" when there is nothing."""
    lines = (_BLANKS.sub(" ", text).strip(" ") for text in text_blocks(content))
    return " ".join(filter(None, lines))


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
