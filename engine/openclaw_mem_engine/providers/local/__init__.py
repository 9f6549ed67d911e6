"""Embeddings from a GGUF file on this machine: llama.cpp in a child process, and the download of a model.

The two processes send each other messages of ``multiprocessing.connection`` over a socket: a JSON object, a
line feed, raw bytes. Nothing is unpickled: the child reads files that may be hostile.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from openclaw_mem_engine.named_tuple import NamedTuple

#: What brings llama-cpp-python.
INSTALL = "uv tool install '.[local]'"
#: Bytes of a message, at most.
MAX_MESSAGE = 1 << 26


class Frame(NamedTuple):
    """One message."""

    header: dict[str, Any]
    payload: bytes


def packed(header: Mapping[str, object], payload: bytes = b"") -> bytes:
    # A path may hold bytes that are not UTF-8, which are lone surrogates in a string.
    return json.dumps(header, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n" + payload


def unpacked(message: bytes) -> Frame:
    """Raises ValueError."""
    head, _, payload = message.partition(b"\n")
    try:
        header = json.loads(head)
    except RecursionError:
        header = None
    if not isinstance(header, dict):
        raise ValueError("the header of a message is not a JSON object")
    return Frame(header, payload)
