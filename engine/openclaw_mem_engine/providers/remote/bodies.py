"""Reading the body of an answer, never more of it than fits, however well it was compressed."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from typing import Protocol


class Streaming(Protocol):
    """An answer whose body has not been read."""

    def iter_stream(self) -> Iterable[bytes]: ...


class TooLong(Exception):
    """An answer goes on and on."""


class Undecodable(Exception):
    """The compression of an answer is damaged, unknown or nested."""


def body_of(answer: Streaming, headers: Mapping[str, str], max_bytes: int, *, is_cut: bool = False) -> bytes:
    """The decompressed body; more than ``max_bytes`` are cut off, or are TooLong. At no time more than that
    is in memory, however well it was compressed."""
    coding = headers.get("content-encoding", "").strip().lower()
    if coding not in ("", "identity", "gzip", "x-gzip", "deflate"):
        raise Undecodable("unknown or nested content coding")
    unpack = None if coding in ("", "identity") else zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
    parts: list[bytes] = []
    room = max_bytes
    for chunk in answer.iter_stream():
        try:
            part = chunk if unpack is None else unpack.decompress(chunk, room + 1)
        except zlib.error:
            raise Undecodable("damaged") from None
        if len(part) > room:
            if not is_cut:
                raise TooLong
            parts.append(part[:room])
            return b"".join(parts)
        room -= len(part)
        parts.append(part)
    if unpack is not None and not unpack.eof and not is_cut and parts:
        raise Undecodable("incomplete")
    return parts[0] if len(parts) == 1 else b"".join(parts)
