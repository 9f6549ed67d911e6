"""A loopback server that speaks the OpenAI embeddings protocol, with fixed vectors and faults on request.

    with running_server(faults=[rate_limited(retry_after="1")]) as server:
        embedder = OpenAICompatEmbedder(server.base_url, "key", "hash-bow-256")

The vector of a text is a signed, hashed bag of words: lower-case it; tokens are runs of letters and digits,
every Japanese, Chinese or Korean character alone; a token's bucket is its BLAKE2b-8 digest, read as a
big-endian number, modulo the dimensions, and bit 32 of that number tells +1 from -1; the sum is normalised.
A text without tokens has the zero vector.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

DIMS = 256
_SINGLE = "\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af"
_TOKEN = re.compile(rf"[{_SINGLE}]|[^\W_{_SINGLE}]+")


def bag_of_words(text: str, dims: int = DIMS) -> list[float]:
    """The unit vector of a text, or zeros when it has no token."""
    vector = [0.0] * dims
    for token in _TOKEN.findall(text.lower()):
        number = int.from_bytes(hashlib.blake2b(token.encode(), digest_size=8).digest(), "big")
        vector[number % dims] += 1.0 if number >> 32 & 1 else -1.0
    norm = math.sqrt(sum(value * value for value in vector))
    return [value / norm for value in vector] if norm else vector


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens instead of a normal answer: another status or body, changed items, a long silence.

    ``{auth}`` in ``body`` becomes the Authorization header that was received, as careless servers echo it.
    """

    status: int = 200
    body: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]] | None = None
    hang_s: float = 0.0


def _error(status: int, message: str, code: str = "", **headers: str) -> Fault:
    body = json.dumps({"error": {"message": message, "type": "error", "code": code or None}})
    return Fault(status, body, tuple((name.replace("_", "-"), value) for name, value in headers.items()))


def unauthorized() -> Fault:
    return _error(401, "Incorrect API key provided: {auth}", "invalid_api_key")


def rate_limited(retry_after: str = "") -> Fault:
    return _error(429, "Rate limit reached", **({"Retry_After": retry_after} if retry_after else {}))


def out_of_quota() -> Fault:
    return _error(429, "You exceeded your current quota", "insufficient_quota")


def server_error(status: int = 500) -> Fault:
    return _error(status, f"forced {status}")


def bad_request(status: int = 400) -> Fault:
    return _error(status, f"forced {status}")


def redirect(location: str) -> Fault:
    return Fault(307, "", (("Location", location),))


def garbage() -> Fault:
    return Fault(body='<html>{"data": [')


def other_json() -> Fault:
    return Fault(body='{"object": "list", "models": []}')


def short_list() -> Fault:
    return Fault(change=lambda items: items[:-1])


def shuffled() -> Fault:
    return Fault(change=lambda items: items[::-1])


def without_index() -> Fault:
    return Fault(change=lambda items: [{"embedding": item["embedding"]} for item in items])


def same_index() -> Fault:
    return Fault(change=lambda items: [{**item, "index": 0} for item in items])


def wrong_dims(dims: int = 8) -> Fault:
    return with_last_vector([0.5] * dims)


def zero_vector() -> Fault:
    return with_last_vector([0.0] * DIMS)


def not_a_number() -> Fault:
    return with_last_vector([math.nan] * DIMS)


def with_last_vector(vector: object) -> Fault:
    """The last embedding of the answer is replaced."""
    return Fault(change=lambda items: [*items[:-1], {**items[-1], "embedding": vector}])


def hang(seconds: float = 30.0) -> Fault:
    """No answer for so long; the wait ends early when the server stops."""
    return Fault(hang_s=seconds)


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it came in; header names are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclass(slots=True)
class Server:
    """What a test sees of the running server. ``faults`` are used up one per request; then all goes well.

    ``forever`` is used when they are used up; ``max_inputs``: more inputs in a request are refused with 422.
    """

    base_url: str = ""
    dims: int = DIMS
    faults: list[Fault | None] = field(default_factory=list)
    forever: Fault | None = None
    max_inputs: int | None = None
    requests: list[Request] = field(default_factory=list)
    stopping: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def inputs(self) -> list[list[str]]:
        """The inputs of every request so far."""
        return [request.body["input"] for request in self.requests]

    def take(self, request: Request) -> Fault | None:
        with self.lock:
            self.requests.append(request)
            if self.faults:
                return self.faults.pop(0)
        if self.max_inputs is not None and len(request.body["input"]) > self.max_inputs:
            return _error(422, f"input must hold at most {self.max_inputs} items")
        return self.forever


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = (
        1 << 20
    )  # one packet per answer: otherwise Nagle and delayed ACK cost 40 ms on a kept connection
    state: Server

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if not self.path.endswith("/embeddings"):
            self._answer(404, '{"error": {"message": "not found"}}')
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request("POST", self.path, headers, json.loads(raw))
        fault = self.state.take(request) or Fault()
        if fault.hang_s:
            self.state.stopping.wait(fault.hang_s)
        if fault.body is not None:
            body = fault.body.replace("{auth}", headers.get("authorization", ""))
            self._answer(fault.status, body, fault.headers)
            return
        inputs = request.body["input"]
        items: list[dict[str, Any]] = [
            {"object": "embedding", "index": number, "embedding": bag_of_words(text, self.state.dims)}
            for number, text in enumerate([inputs] if isinstance(inputs, str) else inputs)
        ]
        if fault.change is not None:
            items = fault.change(items)
        usage = {"prompt_tokens": 0, "total_tokens": 0}
        answer = {"object": "list", "model": request.body.get("model"), "data": items, "usage": usage}
        self._answer(fault.status, json.dumps(answer))

    def _answer(self, status: int, text: str, headers: Sequence[tuple[str, str]] = ()) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


class _QuietServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that gave up is what some tests are about."""


@contextmanager
def running_server(
    faults: Sequence[Fault | None] = (),
    *,
    forever: Fault | None = None,
    max_inputs: int | None = None,
    dims: int = DIMS,
) -> Iterator[Server]:
    """A server on a free loopback port, stopped on leaving. See ``Server`` for the parameters."""
    state = Server(dims=dims, faults=list(faults), forever=forever, max_inputs=max_inputs)
    http = _QuietServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"state": state}))
    state.base_url = f"http://127.0.0.1:{http.server_address[1]}/v1"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        state.stopping.set()
        http.shutdown()
        http.server_close()
        thread.join()
