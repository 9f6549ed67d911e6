"""A loopback server that hands out one file like a model hub: HEAD, ranges, a redirect to a store, faults."""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

from support.loopback import serving

URI = "hf:org/repo/sub/model.gguf"
#: How long a server hangs at most, seconds: until it is stopped or told to go on.
HANGS_S = 40.0


@dataclass
class Hub:
    """What the server does. ``requests`` are (method, path, headers) as they came.

    ``cuts``: for each coming GET, after how many bytes its connection is cut (None: not); ``after_cut``
    replaces the content then. ``announced``: a
    size that is told in place of the true one. ``hang_after``: so many bytes are sent, the others when it is
    None again. ``store``: where the file is redirected to ("": itself).
    """

    content: bytes
    base_url: str = ""
    cuts: list[int | None] = field(default_factory=list)
    after_cut: bytes | None = None
    announced: int | None = None
    sha256: str | None = None
    ranges: bool = True
    etag: str | None = None
    heads: bool = True
    status: int = 200
    store: str = ""
    chunked: bool = False
    hang_after: int | None = None
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)

    @property
    def gets(self) -> list[dict[str, str]]:
        """Headers of the requests that reached the content."""
        return [headers for method, path, headers in self.requests if method == "GET" and path == "/store"]


@contextmanager
def running_hub(content: bytes, **settings: object) -> Iterator[Hub]:
    """A hub on a free port of this machine."""
    hub, stopping = Hub(content, **settings), threading.Event()  # type: ignore[arg-type]

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self._answer(with_body=False)

        def do_GET(self) -> None:
            self._answer(with_body=True)

        def _answer(self, *, with_body: bool) -> None:
            hub.requests.append((self.command, self.path, dict(self.headers)))
            if hub.status != 200 or (self.command == "HEAD" and not hub.heads):
                self.send_response(hub.status if hub.status != 200 else 405)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            size = len(hub.content) if hub.announced is None else hub.announced
            if "/resolve/main/" in self.path:
                self.send_response(302)
                self.send_header("Location", hub.store or "/store")
                self.send_header("X-Linked-Size", str(size))
                sha256 = hashlib.sha256(hub.content).hexdigest() if hub.sha256 is None else hub.sha256
                if sha256:
                    self.send_header("X-Linked-Etag", f'"{sha256}"')
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self._content(with_body)

        def _content(self, with_body: bool) -> None:
            etag = hub.etag if hub.etag is not None else f'"{hashlib.md5(hub.content).hexdigest()}"'
            start = 0
            match = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
            fits = self.headers.get("If-Range") in (None, etag)
            if match and hub.ranges and fits:
                start = int(match[1])
                if start >= len(hub.content):
                    self.send_response(416)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {start}-{len(hub.content) - 1}/{len(hub.content)}")
            else:
                self.send_response(200)
            body = hub.content[start:]
            if etag:
                self.send_header("ETag", etag)
            if hub.chunked:
                self.send_header("Transfer-Encoding", "chunked")
            else:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if not with_body:
                return
            cut = hub.cuts.pop(0) if hub.cuts else None
            if hub.chunked:
                self.wfile.write(b"%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n")
                return
            if hub.hang_after is not None:
                sent, until = hub.hang_after, time.monotonic() + HANGS_S
                self.wfile.write(body[:sent])
                self.wfile.flush()
                while hub.hang_after is not None and time.monotonic() < until and not stopping.wait(0.02):
                    pass
                body = body[sent:]
            self.wfile.write(body if cut is None else body[:cut])
            if cut is not None:
                hub.content = hub.after_cut or hub.content
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    with serving(Handler, stopping) as port:
        hub.base_url = f"http://127.0.0.1:{port}"
        yield hub
