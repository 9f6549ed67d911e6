"""A loopback server that embeds, with fixed vectors and faults on request.

    with running_server(faults=[rate_limited(retry_after="1")]) as server:
        embedder = remote_embedder("openai", base_url=server.base_url, model="hash-bow-256")

The path tells the protocol: ``…/embeddings`` (openai, mistral, voyage), ``…:embedContent`` and
``…:batchEmbedContents`` (gemini), ``…/api/embed`` (ollama); ``…/chat/completions`` gets :data:`CHAT_ANSWER`.

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
import socket
import ssl
import struct
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from support.loopback import serving

DIMS = 256
CHAT_ANSWER = "Forty-two, as the notes say."
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
    ``change`` gets the items as in OpenAI's protocol, whatever is spoken. ``drip_s``: the answer comes byte
    by byte, with such a wait before each. ``is_reset``: the connection is torn down instead of an answer.
    """

    status: int = 200
    body: str | bytes | None = None
    headers: tuple[tuple[str, str], ...] = ()
    change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]] | None = None
    hang_s: float = 0.0
    drip_s: float = 0.0
    is_reset: bool = False


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


def renumbered(name: Callable[[int], object]) -> Fault:
    """The vectors in reverse order, each with another ``index``."""
    return Fault(change=lambda items: [{**item, "index": name(item["index"])} for item in items[::-1]])


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


def drip(seconds: float = 0.05) -> Fault:
    """A sound answer, but a byte at a time."""
    return Fault(drip_s=seconds)


def reset() -> Fault:
    return Fault(is_reset=True)


def gzipped(data: bytes, status: int = 200) -> Fault:
    """An answer with this content, compressed."""
    packer = zlib.compressobj(9, wbits=zlib.MAX_WBITS | 16)
    return Fault(status, packer.compress(data) + packer.flush(), (("Content-Encoding", "gzip"),))


def gzip_bomb(megabytes: int) -> Fault:
    """Zeros, a thousandth as large while they are on their way."""
    return gzipped(bytes(megabytes * 1024**2))


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it came in; header names are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any

    @property
    def inputs(self) -> list[str]:
        """The texts to embed, or the messages of a chat."""
        if "requests" in self.body:
            return [_text_of(each) for each in self.body["requests"]]
        if "content" in self.body:
            return [_text_of(self.body)]
        if "messages" in self.body:
            return [message["content"] for message in self.body["messages"]]
        found = self.body["input"]
        return [found] if isinstance(found, str) else found


def _text_of(request: Any) -> str:
    return "".join(part["text"] for part in request["content"]["parts"])


@dataclass(slots=True)
class Server:
    """What a test sees of the running server. ``faults`` are used up one per request; then all goes well.

    ``forever`` is used when they are used up; ``max_inputs``: more inputs in a request are refused with 422,
    and more than ``max_bytes`` of UTF-8 in all with 400. A text that holds ``poison`` is refused with 400 in
    whatever company. ``tokens`` is counted for every request.
    """

    base_url: str = ""
    dims: int = DIMS
    faults: list[Fault | None] = field(default_factory=list)
    forever: Fault | None = None
    max_inputs: int | None = None
    max_bytes: int | None = None
    poison: str | None = None
    tokens: int = 0
    requests: list[Request] = field(default_factory=list)
    stopping: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def inputs(self) -> list[list[str]]:
        """The inputs of every request so far."""
        return [request.inputs for request in self.requests]

    def take(self, request: Request) -> Fault | None:
        with self.lock:
            self.requests.append(request)
            if self.faults:
                return self.faults.pop(0)
        inputs = request.inputs
        if self.max_inputs is not None and len(inputs) > self.max_inputs:
            return _error(422, f"input must hold at most {self.max_inputs} items")
        if self.max_bytes is not None and sum(len(text.encode()) for text in inputs) > self.max_bytes:
            return _error(400, "request too large")
        if self.poison is not None and any(self.poison in text for text in inputs):
            return _error(400, "this one I do not like")
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
        path = self.path.partition("?")[0]
        speak = next((speak for end, speak in _PROTOCOLS.items() if path.endswith(end)), None)
        if speak is None:
            self._answer(404, '{"error": {"message": "not found"}}')
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request("POST", self.path, headers, json.loads(raw))
        fault = self.state.take(request) or Fault()
        if fault.hang_s:
            self.state.stopping.wait(fault.hang_s)
        if fault.is_reset:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            self.close_connection = True
            return
        if fault.body is not None:
            body = fault.body
            if isinstance(body, str):
                body = body.replace("{auth}", headers.get("authorization", ""))
            self._answer(fault.status, body, fault.headers)
            return
        items: list[dict[str, Any]] = [
            {"object": "embedding", "index": number, "embedding": bag_of_words(text, self.state.dims)}
            for number, text in enumerate(request.inputs)
        ]
        if fault.change is not None:
            items = fault.change(items)
        answer = json.dumps(speak(request.body.get("model"), items, self.state.tokens))
        self._answer(fault.status, answer, drip_s=fault.drip_s)

    def _answer(
        self, status: int, text: str | bytes, headers: Sequence[tuple[str, str]] = (), drip_s: float = 0
    ) -> None:
        body = text.encode() if isinstance(text, str) else text
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        if not drip_s:
            self.wfile.write(body)
            return
        for place in range(len(body)):
            self.wfile.write(body[place : place + 1])
            self.wfile.flush()
            if self.state.stopping.wait(drip_s):
                return


def _openai(model: str | None, items: list[dict[str, Any]], tokens: int) -> dict[str, Any]:
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "model": model, "data": items, "usage": usage}


def _gemini_one(model: str | None, items: list[dict[str, Any]], tokens: int) -> dict[str, Any]:
    return {"embedding": {"values": items[0]["embedding"]}, "usageMetadata": {"promptTokenCount": tokens}}


def _gemini_batch(model: str | None, items: list[dict[str, Any]], tokens: int) -> dict[str, Any]:
    rows = [{"values": item["embedding"]} for item in items]
    return {"embeddings": rows, "usageMetadata": {"promptTokenCount": tokens}}


def _ollama(model: str | None, items: list[dict[str, Any]], tokens: int) -> dict[str, Any]:
    return {"model": model, "embeddings": [item["embedding"] for item in items], "prompt_eval_count": tokens}


def _chat(model: str | None, items: list[dict[str, Any]], tokens: int) -> dict[str, Any]:
    message = {"role": "assistant", "content": CHAT_ANSWER}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"id": "chat-1", "object": "chat.completion", "model": model, "choices": [choice]}


_PROTOCOLS: dict[str, Callable[[str | None, list[dict[str, Any]], int], dict[str, Any]]] = {
    "/embeddings": _openai,
    ":embedContent": _gemini_one,
    ":batchEmbedContents": _gemini_batch,
    "/api/embed": _ollama,
    "/chat/completions": _chat,
}


@contextmanager
def running_server(
    faults: Sequence[Fault | None] = (),
    *,
    forever: Fault | None = None,
    max_inputs: int | None = None,
    max_bytes: int | None = None,
    poison: str | None = None,
    tokens: int = 0,
    dims: int = DIMS,
    certificate: Path | None = None,
) -> Iterator[Server]:
    """A server on a free loopback port, stopped on leaving. See ``Server`` for the parameters.

    ``certificate``: a PEM file with key and certificate; the server then speaks TLS.
    """
    state = Server(
        dims=dims,
        faults=list(faults),
        forever=forever,
        max_inputs=max_inputs,
        max_bytes=max_bytes,
        poison=poison,
        tokens=tokens,
    )
    tls, origin = None, "http://127.0.0.1"
    if certificate is not None:
        tls, origin = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), "https://localhost"
        tls.load_cert_chain(certificate)
    with serving(_Handler, state.stopping, tls, state=state) as port:
        state.base_url = f"{origin}:{port}/v1"
        yield state
