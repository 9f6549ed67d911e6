"""Reads transcripts as far as they are new: what was read before is in a cache in the data folder.

A transcript that only grew is read from where reading ended; one that shrank, was replaced, or whose last
read bytes are others, is read anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from array import array
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from openclaw_mem_engine.cancellation import CancelToken
from openclaw_mem_engine.errors import Cancelled
from openclaw_mem_engine.model import MemoryFile
from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.state.database import Row, Schema, StateDatabase
from openclaw_mem_engine.timeline.records import Record, Scan
from openclaw_mem_engine.workspace.listing import list_transcripts
from openclaw_mem_engine.workspace.opening import NoteRefused
from openclaw_mem_engine.workspace.transcripts import lines_between, opened_transcript

#: The name of the file in the data folder. Another version of what is recorded gets another name.
CACHE_FILE = "timeline-1.sqlite"
#: Bytes before the end of what was read, which must still be there.
_TAIL_BYTES = 4096
_TABLE = """
CREATE TABLE transcripts(
  folder TEXT NOT NULL, name TEXT NOT NULL, device INTEGER NOT NULL, inode INTEGER NOT NULL,
  size INTEGER NOT NULL, mtime INTEGER NOT NULL, until INTEGER NOT NULL, tail TEXT NOT NULL,
  scan TEXT NOT NULL, times BLOB NOT NULL, tokens BLOB NOT NULL, PRIMARY KEY(folder, name)
) STRICT, WITHOUT ROWID;
"""
SCHEMA = Schema(
    (_TABLE,), "timeline-cache", "info", "readings of transcripts", "what can be read again from transcripts"
)
_COLUMNS = "name, device, inode, size, mtime, until, tail, scan, times, tokens"


class _Known(NamedTuple):
    """What is known of a transcript: the file when it was read, the offset up to which it was, and the hash
    of the bytes before that. Identities of Windows do not fit into SQLite's integers; they are cut."""

    identity: tuple[int, int]
    size: int
    mtime: int
    until: int
    tail: str
    scan: Scan


class Transcripts:
    """The transcripts of a folder. ``read`` may take seconds the first time. Not for several threads."""

    def __init__(self, data_dir: Path, folder: Path, *, read_only: bool = False) -> None:
        self._cache = StateDatabase(data_dir / CACHE_FILE, SCHEMA, time.time, read_only=read_only)
        self._read_only = read_only
        self._folder = folder

    @cached_property
    def _known(self) -> dict[str, _Known]:
        """What the cache holds, by path."""
        sql = f"SELECT {_COLUMNS} FROM transcripts WHERE folder = ?"
        return dict(self._cache.read(sql, (str(self._folder),), _known))

    def read(self, cancel: CancelToken | None = None) -> tuple[dict[str, Scan], tuple[str, ...]]:
        """What is in each transcript by its path (``sessions/<name>.jsonl``), and sentences about what could
        not be read. Raises Cancelled, never because of a file; what was read before is kept."""
        listing = list_transcripts(self._folder, ended=True)
        notes = [file.text for file in listing.excluded if "*" not in file.path]  # counts of archives
        found: dict[str, Scan] = {}
        for file in listing.files:
            if cancel is not None and cancel.is_set():
                raise Cancelled("Reading the transcripts was stopped. The next time it continues from there.")
            try:
                found[file.path] = self._read(file).scan
            except NoteRefused as refusal:
                notes.append(str(refusal))
        # What could not be read just now may be readable again.
        if not any(file.transient for file in listing.excluded):
            for name in self._known.keys() - {file.path for file in listing.files}:
                self._forget(name)
        if self._cache.note is not None:
            notes.append(self._cache.note.text)
        return found, tuple(notes)

    def close(self) -> None:
        self._cache.close()

    def _read(self, file: MemoryFile) -> _Known:
        known = self._known.get(file.path)
        identity = _cut(file.device), _cut(file.inode)
        if known and (identity, file.size, file.mtime_ns) == (known.identity, known.size, known.mtime):
            return known
        with opened_transcript(file.absolute) as (descriptor, status):
            grew = known is not None and known.identity == identity and status.st_size > known.size
            if not grew or known is None or _tail(descriptor, known.until) != known.tail:
                known = _Known(identity, 0, 0, 0, "", Scan())
            scan, until = known.scan, known.until
            first = scan.lines
            for line in lines_between(descriptor, until, status.st_size):
                if not line.ended:
                    break  # its writer has not finished it
                scan.take(line.data, first + line.number, until)
                until = line.end
            scan.at = scan.at or status.st_mtime
            known = _Known(
                identity, status.st_size, status.st_mtime_ns, until, _tail(descriptor, until), scan
            )
        if status.st_mtime_ns != file.mtime_ns or status.st_size != file.size:
            known = known._replace(mtime=0)  # it is being written: look again the next time
        self._known[file.path] = known
        self._keep(file.path, known)
        return known

    def _keep(self, name: str, known: _Known) -> None:
        if self._read_only:
            return
        scan = known.scan
        state = {field: getattr(scan, field) for field in Scan.__slots__ if field not in ("times", "tokens")}
        text = json.dumps(state, separators=(",", ":"))
        found = *known.identity, known.size, known.mtime, known.until, known.tail
        self._cache.write(
            "INSERT OR REPLACE INTO transcripts VALUES(?,?,?,?,?,?,?,?,?,?,?)",
            (str(self._folder), name, *found, text, scan.times.tobytes(), scan.tokens.tobytes()),
        )

    def _forget(self, name: str) -> None:
        del self._known[name]
        if not self._read_only:
            self._cache.write(
                "DELETE FROM transcripts WHERE folder = ? AND name = ?", (str(self._folder), name)
            )


def line_at(path: Path, offset: int) -> bytes:
    """The line of a transcript that begins at an offset. Raises NoteRefused; b"" when it is too long or the
    file ends before it."""
    with opened_transcript(str(path)) as (descriptor, status):
        found: Iterator[Any] = lines_between(descriptor, offset, status.st_size)
        return next((line.data or b"" for line in found), b"")


def _known(row: Row) -> tuple[str, _Known]:
    """A row of the cache. Raises ValueError or TypeError for one that this version does not write."""
    name, device, inode, size, mtime, until, tail, text, times, tokens = row
    state = json.loads(text)
    records = [Record(*record) for record in state.pop("records")]
    scan = replace(Scan(**state), records=records, times=array("d", times), tokens=array("d", tokens))
    return str(name), _Known((int(device), int(inode)), int(size), int(mtime), int(until), str(tail), scan)


def _tail(descriptor: int, until: int) -> str:
    """A hash of the bytes before an offset."""
    start = max(0, until - _TAIL_BYTES)
    os.lseek(descriptor, start, os.SEEK_SET)
    data = b""
    while len(data) < until - start and (part := os.read(descriptor, until - start - len(data))):
        data += part
    return hashlib.sha256(data).hexdigest()


def _cut(number: int) -> int:
    return number & (2**63 - 1)
