"""Transcripts with flushes and compactions, as OpenClaw 2026 writes them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

START = datetime(2026, 2, 14, 9, 0, tzinfo=UTC)
PROMPT = (
    "Pre-compaction memory flush. Write to memory/2026-02-14.md; reply with NO_REPLY if nothing to store."
)


class Talk:
    """The lines of one session; a minute passes before each."""

    def __init__(self, number: str = "11111111-aaaa") -> None:
        self.id = number
        self.lines: list[str] = []
        self.at = START
        self._calls = 0
        self.add("session", version=3, id=number)

    def add(self, kind: str, **rest: Any) -> None:
        self.at += timedelta(minutes=1)
        stamp = self.at.isoformat().replace("+00:00", "Z")
        self.lines.append(json.dumps({"type": kind, "timestamp": stamp, **rest}, ensure_ascii=False) + "\n")

    def user(self, text: str) -> Talk:
        self.add("message", message={"role": "user", "content": [{"type": "text", "text": text}]})
        return self

    def answer(self, text: str = "Fine.", tokens: int = 0, **rest: Any) -> Talk:
        usage = {"usage": {"input": tokens - 10, "output": 10}} if tokens else {}
        content = [{"type": "text", "text": text}]
        self.add("message", message={"role": "assistant", "content": content, **usage, **rest})
        return self

    def call(self, name: str, result: str = "done", *, failed: bool = False, **arguments: Any) -> Talk:
        self._calls += 1
        call = {"type": "toolCall", "id": f"call_{self._calls}", "name": name, "arguments": arguments}
        self.add("message", message={"role": "assistant", "content": [call]})
        said = {"role": "toolResult", "toolCallId": call["id"], "toolName": name, "isError": failed}
        self.add("message", message={**said, "content": [{"type": "text", "text": result}]})
        return self

    def compaction(self, tokens: int = 180_000) -> Talk:
        self.add("compaction", tokensBefore=tokens, summary="What was said.")
        return self

    def flush(self, text: str = "- the router is in the cellar\n") -> Talk:
        """A flush that writes."""
        writing: Any = {"path": "memory/2026-02-14.md", "content": text, "mode": "append"}
        return self.user(PROMPT).call("write", **writing).answer("NO_REPLY")

    def save(self, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.id}.jsonl"
        path.write_text("".join(self.lines), "utf-8")
        return path


def save_index(folder: Path, **entries: dict[str, Any]) -> None:
    """sessions.json with these sessions by key (``__`` for ``:``)."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {key.replace("__", ":"): entry for key, entry in entries.items()}
    (folder / "sessions.json").write_text(json.dumps(found))
