"""A loopback server that reranks: the score of a document is the share of the query's words in it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from support.loopback import serving


def share(query: str, text: str) -> float:
    words = query.lower().split()
    return sum(word in text.lower() for word in words) / len(words)


def results(query: str, documents: list[str]) -> dict[str, Any]:
    """Best first, as Jina, Cohere and vLLM answer."""
    rows = [{"index": i, "relevance_score": share(query, text)} for i, text in enumerate(documents)]
    return {"results": sorted(rows, key=lambda row: -row["relevance_score"])}


@dataclass(slots=True)
class Reranks:
    """``answer`` makes the body out of query and documents; ``statuses`` are used up, one per request.
    ``asked`` are the requests: path, headers in lower case, body. With ``hangs`` no answer comes."""

    base_url: str = ""
    answer: Callable[[str, list[str]], Any] = results
    statuses: list[int] = field(default_factory=list)
    hangs: bool = False
    asked: list[tuple[str, dict[str, str], Any]] = field(default_factory=list)
    came: threading.Event = field(default_factory=threading.Event)
    stopping: threading.Event = field(default_factory=threading.Event)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    state: Reranks

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_POST(self) -> None:
        state = self.state
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        headers = {name.lower(): value for name, value in self.headers.items()}
        state.asked.append((self.path, headers, body))
        state.came.set()
        if state.hangs:
            state.stopping.wait(30)
        status = state.statuses.pop(0) if state.statuses else 200
        said: Any = {"error": {"message": f"forced {status}, key {headers.get('authorization')}"}}
        if status == 200:
            said = state.answer(body["query"], body["documents"])
        data = said.encode() if isinstance(said, str) else json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def running_reranker(**options: Any) -> Iterator[Reranks]:
    state = Reranks(**options)
    with serving(_Handler, state.stopping, state=state) as port:
        state.base_url = f"http://127.0.0.1:{port}/v1"
        yield state
