"""What the loopback servers of the tests share: a thread that serves until the test is over."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class _QuietServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that gave up is what some tests are about."""


@contextmanager
def serving(
    handler: type[BaseHTTPRequestHandler],
    stopping: threading.Event | None = None,
    tls: ssl.SSLContext | None = None,
    **attributes: object,
) -> Iterator[int]:
    """The port of a server on the loopback interface, whose handlers have these ``attributes``. On leaving
    ``stopping`` is set, for handlers that hold an answer back, and the server stopped."""
    http = _QuietServer(("127.0.0.1", 0), type("Handler", (handler,), attributes))
    if tls is not None:
        http.socket = tls.wrap_socket(http.socket, server_side=True)
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield http.server_port
    finally:
        if stopping is not None:
            stopping.set()
        http.shutdown()
        http.server_close()
        thread.join()
