"""A loopback server that hands out one file like a model hub: with size, checksum and ranges."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

from support.loopback import serving


@dataclass(slots=True)
class Hub:
    """``content`` is served below every path. The next answer to GET breaks off after ``break_after`` bytes,
    once; every block of a body waits ``pause_s``. ``asked`` lists method, path and Range of each request."""

    content: bytes
    base_url: str = ""
    break_after: int | None = None
    pause_s: float = 0.0
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    stopping: threading.Event = field(default_factory=threading.Event)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        hub, wanted = self.hub, self.headers.get("Range", "")
        hub.asked.append((self.command, self.path, wanted))
        first = int(match[1]) if (match := re.fullmatch(r"bytes=(\d+)-", wanted)) else 0
        size, part = len(hub.content), hub.content[first:]
        self.send_response(206 if first else 200)
        self.send_header("ETag", f'"{hashlib.sha256(hub.content).hexdigest()}"')
        self.send_header("Content-Length", str(len(part)))
        if first:
            self.send_header("Content-Range", f"bytes {first}-{size - 1}/{size}")
        self.end_headers()
        if not body:
            return
        if hub.break_after is not None:
            part, hub.break_after = part[: hub.break_after], None
            self.close_connection = True
        for start in range(0, len(part), 1 << 16):
            self.wfile.write(part[start : start + (1 << 16)])
            self.wfile.flush()
            hub.stopping.wait(hub.pause_s)


@contextmanager
def running_hub(content: bytes) -> Iterator[Hub]:
    """A hub on a free loopback port, stopped on leaving."""
    hub = Hub(content)
    with serving(_Handler, hub.stopping, hub=hub) as port:
        hub.base_url = f"http://127.0.0.1:{port}"
        yield hub
