"""How the two processes talk: a mark, two lengths, a small JSON header, raw bytes.

Functions over "read at most n bytes" and "write some of these bytes", as raw files offer them; the threads
that move bytes for the parent; and what is reported about a child: how it ended, what it printed.
"""

from __future__ import annotations

import contextlib
import json
import queue
import signal
import struct
import subprocess
from collections import deque
from collections.abc import Callable, Mapping
from io import FileIO
from typing import IO, Any, NamedTuple, cast

from openclaw_mem_engine.providers.local import INSTALL
from openclaw_mem_engine.redact import redact
from openclaw_mem_engine.sanitize import visible

#: Begins every frame. Not UTF-8, so that no printed text holds it by accident.
MARK = b"\xffOCM"
_LENGTHS = struct.Struct("<II")
MAX_HEADER = 1 << 20
MAX_PAYLOAD = 1 << 26
#: So many bytes may be printed by others (a chatty ``.pth`` file) before the first frame.
MAX_NOISE = 1 << 16
#: Lines kept of what a child prints.
TAIL_LINES = 12


class BadFrame(Exception):
    """The other side sent something that is no frame, or broke off within one."""


class EndOfOutput(Exception):
    """The child's output ended."""


class Frame(NamedTuple):
    header: dict[str, Any]
    payload: bytes


def packed(header: Mapping[str, object], payload: bytes = b"") -> bytes:
    """The bytes of one frame. Raises BadFrame when it is longer than the other side accepts."""
    head = json.dumps(header, separators=(",", ":")).encode()
    if len(head) > MAX_HEADER or len(payload) > MAX_PAYLOAD:
        raise BadFrame(f"a frame of {len(head):,} + {len(payload):,} bytes is too long")
    return b"".join((MARK, _LENGTHS.pack(len(head), len(payload)), head, payload))


def read_frame(read: Callable[[int], bytes | None]) -> Frame | None:
    """The next frame, or None at the end of the stream. Raises BadFrame."""
    mark = _exactly(read, len(MARK), may_end=True)
    if not mark:
        return None
    if mark != MARK:
        raise BadFrame(f"{mark!r} is not the begin of a frame")
    return _rest(read)


def read_first_frame(read: Callable[[int], bytes | None]) -> tuple[bytes, Frame | None]:
    """What was printed before the first frame, and that frame (None: the stream ended). Raises BadFrame."""
    seen = bytearray()
    while not seen.endswith(MARK):
        byte = read(1)
        if not byte:
            return bytes(seen), None
        seen += byte
        if len(seen) > MAX_NOISE:
            raise BadFrame(f"{len(seen):,} bytes came without any frame, beginning with {bytes(seen[:40])!r}")
    return bytes(seen[: -len(MARK)]), _rest(read)


def write_all(write: Callable[[bytes], int | None], data: bytes) -> None:
    """Writes everything to a raw file, which may take it in pieces. Raises OSError."""
    view = memoryview(data)
    while view:
        view = view[write(view) or 0 :]  # type: ignore[arg-type]


def _rest(read: Callable[[int], bytes | None]) -> Frame:
    head_size, payload_size = _LENGTHS.unpack(_exactly(read, _LENGTHS.size))
    if head_size > MAX_HEADER or payload_size > MAX_PAYLOAD:
        raise BadFrame(f"a frame of {head_size:,} + {payload_size:,} bytes was announced, which is too long")
    try:
        header = json.loads(_exactly(read, head_size))
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise BadFrame("the header of a frame is not a JSON object")
    return Frame(header, _exactly(read, payload_size))


def _exactly(read: Callable[[int], bytes | None], size: int, *, may_end: bool = False) -> bytes:
    parts: list[bytes] = []
    missing = size
    while missing:
        part = read(min(missing, 1 << 18))
        if not part:
            if may_end and missing == size:
                return b""
            raise BadFrame("the stream ended within a frame")
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)


def write_frames(pipe: FileIO, outbox: queue.SimpleQueue[bytes | None]) -> None:
    # A dead child is found out by the reader.
    with contextlib.suppress(OSError), pipe:
        while (data := outbox.get()) is not None:
            write_all(pipe.write, data)


def read_frames(pipe: FileIO, inbox: queue.SimpleQueue[Frame | Exception], tail: deque[str]) -> None:
    try:
        with pipe:
            noise, frame = read_first_frame(pipe.read)
            if noise:
                tail.extend(_lines(noise))
            while frame is not None:
                inbox.put(frame)
                frame = read_frame(pipe.read)
    except (BadFrame, OSError, ValueError) as exc:
        inbox.put(exc if isinstance(exc, BadFrame) else EndOfOutput())
    else:
        inbox.put(EndOfOutput())


def read_noise(pipe: FileIO, tail: deque[str], popen: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(OSError, ValueError), pipe:
        while data := pipe.read(4096):
            tail.extend(_lines(data))
    popen.wait()


def _lines(data: bytes) -> list[str]:
    return [line for line in data.decode("utf-8", "replace").split("\n")[-TAIL_LINES:] if line.strip()]


def raw(pipe: IO[bytes] | None) -> FileIO:
    return cast(FileIO, pipe)


def quoted(text: object, limit: int = 300) -> str:
    """What a child printed, fit to be shown: secrets masked, nothing that acts, only the end of long text."""
    line = " | ".join(visible(redact(str(text or ""))).split("\n")).strip(" |.")
    return line if len(line) <= limit else "…" + line[-limit:]


def ending(code: int | None) -> str:
    if code is None:
        return "it closed its output"
    if code >= 0:
        return f"exit code {code}"
    try:
        name = f" ({signal.Signals(-code).name})"
    except ValueError:
        name = ""
    return f"killed by signal {-code}{name}"


def hint(code: int | None) -> str:
    if code == -9:
        return "The system may have run out of memory: a smaller model needs less."
    if code == -4:
        return (
            "This llama-cpp-python was compiled for another processor: reinstall it with "
            'CMAKE_ARGS="-DGGML_NATIVE=OFF".'
        )
    if code == 1:
        return f"If something is missing, run: {INSTALL}."
    return "If it happens again with the same text, try another model or another llama-cpp-python."
