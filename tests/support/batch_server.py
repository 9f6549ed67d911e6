"""A loopback server that speaks the batch protocols of OpenAI, Voyage and Gemini, with faults on request.

    with running_batch_server(states=["in_progress"]) as server:
        ... server.base_url("openai") ...
        assert server.asked == ["POST /v1/files", ...]

Vectors are those of ``embed_server``. Plain embedding requests of all three providers are answered as well.
What the OpenAI protocol calls "in_progress" and "completed", Gemini is told in its own words.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from support.embed_server import bag_of_words
from support.loopback import serving

DIMS = 16
_GEMINI_WORDS = {"completed": "BATCH_STATE_SUCCEEDED", "in_progress": "BATCH_STATE_RUNNING"}

#: Changes the lines of an output before it is sent.
Change = Callable[[list[dict[str, Any]]], list[dict[str, Any]]]


def parts_of(body: str, boundary: str) -> list[tuple[str, str]]:
    """(headers, content) of every part; a recording masks the boundary as <B>."""
    parts = body.split(f"--{boundary}")[1:-1]
    return [tuple(part.strip("\r\n").split("\r\n\r\n", 1)) for part in parts]  # type: ignore[misc]


def text_of(line: dict[str, Any]) -> str:
    """The text that a line of an uploaded file asks for."""
    if "request" in line:
        return str(line["request"]["content"]["parts"][0]["text"])
    return str(line["body"]["input"])


@dataclass(frozen=True, slots=True)
class Seen:
    """A request as it came in; header names are in lower case. ``body`` is JSON where it was JSON."""

    method: str
    path: str
    headers: dict[str, str]
    raw: bytes
    body: Any = None

    @property
    def short(self) -> str:
        return f"{self.method} {self.path}"


@dataclass(slots=True)
class Job:
    id: str
    lines: list[dict[str, Any]]
    looks: int = 0


@dataclass(slots=True)
class BatchServer:
    """What a test sees and sets.

    ``states``: what the first looks at every job hear; ``end`` follows. ``refusals`` (method and part of a
    path to a list of statuses) are used up one per request. ``change`` alters output lines, ``output``
    replaces the whole output, ``error_lines`` become the error file. ``hang``: part of a path that gets no
    answer until the server stops.
    """

    states: list[str] = field(default_factory=lambda: ["in_progress"])
    end: str = "completed"
    change: Change | None = None
    output: bytes | None = None
    has_output: bool = True
    error_lines: list[dict[str, Any]] = field(default_factory=list)
    refusals: dict[str, list[int]] = field(default_factory=dict)
    hang: str = ""
    stopping: threading.Event = field(default_factory=threading.Event)
    seen: list[Seen] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    jobs: dict[str, Job] = field(default_factory=dict)
    most_running: int = 0
    port: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def base_url(self, provider: str) -> str:
        return f"{self.root}/v1beta" if provider == "gemini" else f"{self.root}/v1"

    @property
    def asked(self) -> list[str]:
        return [seen.short for seen in self.seen]

    def count(self, part: str) -> int:
        return sum(part in short for short in self.asked)

    def refusal(self, short: str) -> int | None:
        for part, statuses in self.refusals.items():
            if part in short and statuses:
                return statuses.pop(0)
        return None

    # -- jobs ------------------------------------------------------------------------------------------

    def accept(self, raw: bytes) -> str:
        """Keep an uploaded file; returns its number."""
        boundary = raw.split(b"\r\n", 1)[0]
        parts = raw.split(boundary)[1:]
        assert parts[-1] == b"--\r\n", "the last boundary must end the body"
        content = parts[1].split(b"\r\n\r\n", 1)[1].removesuffix(b"\r\n")
        name = f"file-{len(self.files) + 1}"
        self.files[name] = content
        return name

    def start(self, file: str) -> Job:
        lines = [json.loads(line) for line in self.files[file].split(b"\n")]
        job = Job(f"b{len(self.jobs) + 1}", lines)
        self.jobs[job.id] = job
        running = [job for job in self.jobs.values() if job.looks < len(self.states) + 1]
        self.most_running = max(self.most_running, len(running))
        return job

    def state_of(self, job: Job) -> str:
        job.looks += 1
        if job.looks <= len(self.states):
            return self.states[job.looks - 1]
        return self.end

    def output_of(self, job: Job, *, is_gemini: bool) -> bytes:
        if self.output is not None:
            return self.output
        answers = [_gemini_answer(line) if is_gemini else _answer(line) for line in job.lines]
        if self.change is not None:
            answers = self.change(answers)
        return b"\n".join(json.dumps(answer).encode() for answer in answers) + b"\n"


def _answer(line: dict[str, Any]) -> dict[str, Any]:
    vector = bag_of_words(line["body"]["input"], DIMS)
    body = {"data": [{"index": 0, "embedding": vector}], "usage": {"total_tokens": 3}}
    return {
        "custom_id": line["custom_id"],
        "response": {"status_code": 200, "body": body},
        "error": None,
    }


def _gemini_answer(line: dict[str, Any]) -> dict[str, Any]:
    [part] = line["request"]["content"]["parts"]
    return {"key": line["key"], "response": {"embedding": {"values": bag_of_words(part["text"], DIMS)}}}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 20
    state: BatchServer

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        self._serve("GET")

    def do_POST(self) -> None:
        self._serve("POST")

    def _serve(self, method: str) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        is_json = raw and headers.get("content-type", "").startswith("application/json")
        seen = Seen(method, self.path, headers, raw, json.loads(raw) if is_json else None)
        with self.state.lock:
            self.state.seen.append(seen)
            status = self.state.refusal(seen.short)
        if self.state.hang and self.state.hang in seen.short:
            self.state.stopping.wait(30)
        if status is not None:
            key = headers.get("authorization") or headers.get("x-goog-api-key")
            self._send(status, {"error": {"message": f"forced {status} for {key}"}})
            return
        with self.state.lock:
            answer = self._answer(method, seen)
        if isinstance(answer, bytes):
            self._send_bytes(200, answer)
        else:
            self._send(404 if answer is None else 200, answer or {"error": {"message": "not found"}})

    def _answer(self, method: str, seen: Seen) -> Any:
        if self.path.startswith(("/v1beta", "/upload/v1beta")):
            return self._gemini(method, seen)
        path = self.path.removeprefix("/v1")
        if method == "POST" and path == "/files":
            return {"id": self.state.accept(seen.raw), "object": "file"}
        if method == "POST" and path == "/batches":
            return {
                "id": f"batch_{self.state.start(seen.body['input_file_id']).id}",
                "status": "validating",
            }
        if method == "POST" and path == "/embeddings":
            items = [
                {"index": n, "embedding": bag_of_words(text, DIMS)}
                for n, text in enumerate(seen.body["input"])
            ]
            return {"data": items, "usage": {"total_tokens": len(items)}}
        if found := re.fullmatch(r"/batches/batch_(\w+)", path):
            return self._openai_state(found[1])
        if found := re.fullmatch(r"/files/(out|err)-(\w+)/content", path):
            if found[1] == "err":
                return b"\n".join(json.dumps(line).encode() for line in self.state.error_lines)
            job = self.state.jobs.get(found[2])
            return job and self.state.output_of(job, is_gemini=False)
        return None

    def _openai_state(self, id: str) -> Any:
        job = self.state.jobs.get(id)
        if job is None:
            return None
        word = self.state.state_of(job)
        answer: dict[str, Any] = {"id": f"batch_{id}", "status": word}
        if word == self.state.end:
            if self.state.has_output:
                answer["output_file_id"] = f"out-{id}"
            if self.state.error_lines:
                answer["error_file_id"] = f"err-{id}"
        return answer

    def _gemini(self, method: str, seen: Seen) -> Any:
        path = self.path.removeprefix("/upload").removeprefix("/v1beta")
        if path == "/files?uploadType=multipart":
            return {"file": {"name": f"files/{self.state.accept(seen.raw)}"}}
        if path.endswith(":asyncBatchEmbedContent"):
            file = seen.body["batch"]["inputConfig"]["file_name"].removeprefix("files/")
            name = f"batches/{self.state.start(file).id}"
            return {"name": name, "metadata": {"state": "BATCH_STATE_PENDING"}}
        if path.endswith(":batchEmbedContents"):
            texts = [request["content"]["parts"][0]["text"] for request in seen.body["requests"]]
            return {"embeddings": [{"values": bag_of_words(text, DIMS)} for text in texts]}
        if path.endswith(":embedContent"):
            return {"embedding": {"values": bag_of_words(seen.body["content"]["parts"][0]["text"], DIMS)}}
        if found := re.fullmatch(r"/batches/(\w+)", path):
            job = self.state.jobs.get(found[1])
            if job is None:
                return None
            word = self.state.state_of(job)
            metadata: dict[str, Any] = {"state": _GEMINI_WORDS.get(word, f"BATCH_STATE_{word.upper()}")}
            if word == self.state.end and self.state.has_output:
                metadata["output"] = {"responsesFile": f"files/out-{job.id}"}
            return {"name": f"batches/{job.id}", "metadata": metadata}
        if found := re.fullmatch(r"/files/out-(\w+):download(\?alt=media)?", path):
            job = self.state.jobs.get(found[1])
            return job and self.state.output_of(job, is_gemini=True)
        return None

    def _send(self, status: int, answer: Any) -> None:
        self._send_bytes(status, json.dumps(answer).encode())

    def _send_bytes(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def running_batch_server(states: Sequence[str] = ("in_progress",), **options: Any) -> Iterator[BatchServer]:
    """A server on a free loopback port, stopped on leaving. ``options``: the fields of ``BatchServer``."""
    state = BatchServer(states=list(states), **options)
    with serving(_Handler, state.stopping, state=state) as state.port:
        yield state
