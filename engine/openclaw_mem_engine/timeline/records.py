"""The lines of a transcript that a timeline is made of, as small records. Most lines are never decoded."""

from __future__ import annotations

import json
import math
import re
from array import array
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal, TypeAlias

from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.state.events import printable
from openclaw_mem_engine.workspace.transcripts import text_blocks

#: session: where it starts; prompt: a user message that speaks of NO_REPLY; reply: the text of an answer to
#: it; end: the first user message after it; write, search: tool calls; compaction.
RecordKind: TypeAlias = Literal["session", "prompt", "reply", "end", "write", "search", "compaction"]

#: Times from the year 3000 on are not believed, epoch seconds.
LATEST = 32_503_680_000
#: A result list is kept up to this length; agents ask for six.
MOST_RESULTS = 50
_BYTES_A_TOKEN = 4
#: Characters that are kept of a prompt or an answer: enough to recognise them.
_HEAD_CHARS = 400
#: Looked up by comparison: what a line gives as a type may be a list, which no set can look up.
_CALLS = ("toolCall", "toolUse", "tool_use", "functionCall")
_SEARCH = "memory_search"
_WRITERS = frozenset({"write", "edit", "multiedit", "apply_patch", "write_file", "edit_file", "exec", "bash"})
_MEMORY_PATH = re.compile(r"(?:^|[\s\"'=:/\\])((?:memory/[^\s\"'<>|;&]+|MEMORY|memory)\.md)(?![\w.-])")
_REDIRECTED = re.compile(r"(?:>>?|\btee\b(?:\s+-a)?)\s*[\"']?([^\s\"'<>|;&]+\.md)")


class Record(NamedTuple):
    """``at`` is epoch seconds; ``line`` counts from 1, ``offset`` is the byte at which the line begins."""

    kind: RecordKind
    at: float
    line: int
    offset: int
    data: dict[str, Any]


@dataclass(slots=True)
class Scan:
    """What was read of one transcript, and what is needed to read on: all of it is kept in the cache.

    ``times`` and ``tokens`` are the counts that answers and compactions give; as long as no answer does,
    estimates. ``answering``: the last user message speaks of NO_REPLY. ``pending`` maps the id of a call to
    the index of its record."""

    records: list[Record] = field(default_factory=list)
    times: array[float] = field(default_factory=lambda: array("d"))
    tokens: array[float] = field(default_factory=lambda: array("d"))
    estimated: bool = True
    model: str = ""
    id: str = ""
    start: float = 0.0
    at: float = 0.0
    lines: int = 0
    broken: int = 0
    size: float = 0.0
    answering: bool = False
    pending: dict[str, int] = field(default_factory=dict)

    def take(self, raw: bytes | None, line: int, offset: int) -> None:
        """One whole line; None for one that is too long to be looked at."""
        self.lines = line
        if raw is None or not (raw := raw.strip()):
            return
        if not (raw.startswith(b"{") and raw.endswith(b"}")):
            self.broken += 1
            return
        if not self._matters(raw):
            # Pictures and long results of tools are not what they would be in tokens.
            self.size += min(len(raw), 40_000) / _BYTES_A_TOKEN
            return
        try:
            found = json.loads(raw.decode("utf-8", "replace"))
            self._take(found, len(raw), line, offset)
        except (ValueError, RecursionError):
            self.broken += 1

    def _matters(self, raw: bytes) -> bool:
        """Whether a line may hold what is recorded. Quotes in a text are escaped, so a quoted name that ends
        in a plain quote is a value or a key; what only looks like it is decoded in vain."""
        return (
            self.answering
            or self.lines == 1
            or b'"assistant"' in raw
            or b'"compaction"' in raw
            or b"NO_REPLY" in raw
            or any(call.encode("utf-8", "replace") in raw for call in self.pending)
        )

    def _take(self, found: dict[str, Any], length: int, line: int, offset: int) -> None:
        message = found.get("message")
        message = message if isinstance(message, dict) else {}
        self.at = _moment(found.get("timestamp")) or _moment(message.get("timestamp")) or self.at
        self.start = self.start or self.at
        kind = found.get("type")
        if kind == "session":
            self.id = str(found.get("id") or "")[:200]
        elif kind == "compaction":
            self._compaction(found, line, offset)
        elif kind == "message":
            self.size += min(length, 40_000) / _BYTES_A_TOKEN
            role = message.get("role")
            if role == "user":
                self._user("\n".join(text_blocks(message.get("content"))), line, offset)
            elif role == "assistant":
                self._assistant(message, line, offset)
            elif role == "toolResult":
                self._result(message)

    def _add(self, kind: RecordKind, line: int, offset: int, **data: Any) -> None:
        self.records.append(Record(kind, self.at, line, offset, data))

    def _compaction(self, found: dict[str, Any], line: int, offset: int) -> None:
        tokens = _count(found.get("tokensBefore"))
        self._add("compaction", line, offset, tokens=tokens)
        if tokens and not self.estimated:
            self._point(tokens)
        self.answering = False
        self.size = len(str(found.get("summary") or "")) / _BYTES_A_TOKEN

    def _user(self, text: str, line: int, offset: int) -> None:
        if "NO_REPLY" in text:
            self._add("prompt", line, offset, text=printable(text, _HEAD_CHARS), memory=_of_memory(text))
            self.answering = True
        elif self.answering:
            self._add("end", line, offset)
            self.answering = False

    def _assistant(self, message: dict[str, Any], line: int, offset: int) -> None:
        self._count_tokens(message)
        self.pending.clear()  # results come before the next answer
        self.model = _short(str(message.get("model") or self.model))
        content = message.get("content")
        for number, (name, call, arguments) in enumerate(calls_of(content)):
            if name == _SEARCH:
                query = printable(str(arguments.get("query") or ""))
                self.pending[call] = len(self.records)
                self._add("search", line, offset, query=query, results=None)
            else:
                for path, added, removed in writes_of(name, arguments):
                    self.pending[call] = len(self.records)
                    self._add(
                        "write", line, offset, path=path, added=added, removed=removed, call=number, ok=None
                    )
        if self.answering:
            text = "\n".join(text_blocks(content))
            if text or message.get("stopReason") in ("error", "aborted"):
                why = printable(str(message.get("errorMessage") or ""))
                self._add("reply", line, offset, text=printable(text, _HEAD_CHARS), error=why,
                          stop=str(message.get("stopReason") or ""))  # fmt: skip

    def _count_tokens(self, message: dict[str, Any]) -> None:
        usage = message.get("usage")
        total = context_tokens(usage) if isinstance(usage, dict) else 0
        if total and self.estimated:
            del self.times[:], self.tokens[:]
            self.estimated = False
        if total or self.estimated:
            self._point(total or self.size)

    def _point(self, tokens: float) -> None:
        # The clock of a machine may be set back; the curve goes on.
        self.times.append(max(self.at, self.times[-1]) if self.times else self.at)
        self.tokens.append(tokens)

    def _result(self, message: dict[str, Any]) -> None:
        index = self.pending.pop(str(message.get("toolCallId") or ""), None)
        if index is None:
            return
        record, failed = self.records[index], message.get("isError") is True
        if record.kind == "search":
            record.data.update(_search_result(message, failed=failed))
            return
        # One call may write several files.
        for other in self.records[: index + 1][::-1]:
            if other.kind != "write" or (other.line, other.data["call"]) != (
                record.line,
                record.data["call"],
            ):
                break
            other.data["ok"] = not failed


def calls_of(content: object) -> list[tuple[str, str, dict[str, Any]]]:
    """Name, id and arguments of every call of a tool in a message."""
    found = []
    for block in content if isinstance(content, list) else []:
        if isinstance(block, dict) and block.get("type") in _CALLS:
            arguments = block.get("arguments", block.get("input"))
            if isinstance(arguments, dict):
                found.append((str(block.get("name") or "").lower(), str(block.get("id") or ""), arguments))
    return found


def writes_of(name: str, arguments: dict[str, Any]) -> list[tuple[str, int | None, int | None]]:
    """Path, lines added and lines removed (None: not said) of every memory file that a call writes."""
    if name not in _WRITERS:
        return []
    if name in ("exec", "bash"):
        command = str(arguments.get("command") or "")
        paths = [memory_path(path) for path in _REDIRECTED.findall(command)]
        return [(path, None, None) for path in dict.fromkeys(filter(None, paths))]
    if name == "apply_patch":
        patch = str(arguments.get("input") or arguments.get("patch") or "")
        names = re.findall(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", patch, re.M)
        paths = [memory_path(path.strip()) for path in names]
        return [(path, None, None) for path in dict.fromkeys(filter(None, paths))]
    path = memory_path(
        str(next((arguments[k] for k in ("path", "file_path", "filePath") if k in arguments), ""))
    )
    if not path:
        return []
    old, new = change_of(arguments)
    if new is None:
        return [(path, None, None)]
    # A plain write replaces the file, whatever was in it.
    appends = arguments.get("mode") == "append" or arguments.get("append") is True
    return [(path, _line_count(new), _line_count(old) if old is not None else 0 if appends else None)]


def change_of(arguments: dict[str, Any]) -> tuple[str | None, str | None]:
    """The text that a call replaces (None: none), and what it writes (None: it does not say)."""
    old = next((arguments[k] for k in ("oldText", "old_string", "old_str") if k in arguments), None)
    new = next(
        (arguments[k] for k in ("content", "newText", "new_string", "new_str") if k in arguments), None
    )
    return old if isinstance(old, str) else None, new if isinstance(new, str) else None


def memory_path(text: str) -> str:
    """The part of a path that names a memory file by the usual names; "" for any other."""
    found = _MEMORY_PATH.search(text.replace("\\", "/"))
    return _short(found[1]) if found and ".." not in found[1] else ""


def context_tokens(usage: dict[str, Any]) -> int:
    """What the window held after an answer: its total, else the sum of what went in and came out; 0 when it
    does not say."""
    parts = ("input", "output", "cacheRead", "cacheWrite")
    return _count(usage.get("totalTokens")) or sum(_count(usage.get(part)) or 0 for part in parts)


def _search_result(message: dict[str, Any], *, failed: bool) -> dict[str, Any]:
    """What the tool returned; ``error`` says why there is no list."""
    details = message.get("details")
    text = "\n".join(text_blocks(message.get("content")))
    try:
        found = details if isinstance(details, dict) and "results" in details else json.loads(text)
    except (ValueError, RecursionError):
        return {"error": printable(text, _HEAD_CHARS) if failed else "its answer is not JSON"}
    if not isinstance(found, dict):
        return {"error": "its answer is not a list of results"}
    rows = found.get("results")
    if not isinstance(rows, list) or failed or found.get("disabled") is True:
        return {"error": printable(str(found.get("error") or "it returned no list of results"))}
    results = []
    for row in rows[:MOST_RESULTS]:
        if isinstance(row, dict) and isinstance(row.get("path"), str):
            lines = _count(row.get("startLine")) or 0, _count(row.get("endLine")) or 0
            score: Any = row.get("score")
            good = isinstance(score, (int, float)) and not isinstance(score, bool) and math.isfinite(score)
            results.append([_short(row["path"]), *lines, float(score) if good else None])
    return {"results": results}


@lru_cache(maxsize=2048)
def _short(text: str) -> str:
    """A name or a path, of which there are few."""
    return printable(text)[:300]


def _of_memory(text: str) -> bool:
    lower = text.lower()
    return "memory/" in lower or "memory flush" in lower


def _line_count(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n") and bool(text))


def _count(value: object) -> int:
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1e15
    return int(value) if good else 0  # type: ignore[call-overload]


def _moment(value: object) -> float | None:
    """An ISO time, or epoch milliseconds, as epoch seconds; None for what no calendar of ours shows."""
    at = _count(value) / 1000
    if isinstance(value, str):
        with suppress(ValueError, OverflowError, OSError):
            at = datetime.fromisoformat(value).timestamp()
    return at if 0 < at < LATEST else None
