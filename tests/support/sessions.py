"""Worlds of an agent with a workspace, one session and a chat model on a loopback server."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openclaw_mem_engine.config.load import load_settings
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.lifecycle.flush import Flusher
from openclaw_mem_engine.lifecycle.sessions import SessionEntry, find_session
from openclaw_mem_engine.providers.remote.openai_client import OpenAIChat
from openclaw_mem_engine.state.events import EVENTS_FILE, Event, EventKind, EventLog
from support.embed_server import Fault, Server
from support.transcripts import messages

#: 2026-02-28 19:00 UTC
NOW = 1_772_305_200.0
DAY = "memory/2026-02-28.md"
KEY = "agent:main:main"
ID = "c86e2f14-d7b9"


def answering(text: object) -> Fault:
    """The chat model answers this."""
    return Fault(body=json.dumps({"choices": [{"message": {"role": "assistant", "content": text}}]}))


@dataclass
class Chat:
    """A chat model in this process."""

    answer: Callable[[], str]
    id: str = "openai"
    model: str = "m"
    host: str = ""

    def complete(self, *_: object, **__: object) -> str:
        return self.answer()

    def close(self) -> None:
        pass


@dataclass
class SessionWorld:
    """``root/state`` is OpenClaw's folder with one session; the clock stands at NOW."""

    root: Path

    def __post_init__(self) -> None:
        self.sessions.mkdir(parents=True)
        (self.root / "ws" / "memory").mkdir(parents=True)
        self.write_session(totalTokens=180_000, compactionCount=2)
        self.transcript.write_text(messages("The rack key is in drawer 4.", "Noted: drawer 4."), "utf-8")

    @property
    def sessions(self) -> Path:
        return self.root / "state" / "agents" / "main" / "sessions"

    @property
    def transcript(self) -> Path:
        return self.sessions / f"{ID}.jsonl"

    @property
    def note(self) -> Path:
        return self.root / "ws" / DAY

    @property
    def environ(self) -> dict[str, str]:
        return {
            "OPENCLAW_MEM_HOME": str(self.root / "data"),
            "OPENCLAW_STATE_DIR": str(self.root / "state"),
        }

    def write_session(self, key: str = KEY, **entry: Any) -> None:
        table = {key: {"sessionId": ID, "updatedAt": 1000, **entry}}
        (self.sessions / "sessions.json").write_text(json.dumps(table), "utf-8")

    def configure(self, content: object) -> None:
        (self.root / "state" / "openclaw.json").write_text(json.dumps(content), "utf-8")

    def settings(self, **flags: Any) -> Settings:
        return load_settings(
            workspace=self.root / "ws", environ=self.environ, home=self.root, cwd=self.root, **flags
        )

    def session(self, **flags: Any) -> SessionEntry:
        return find_session(self.settings(**flags), ID)

    def flusher(self, **flags: Any) -> Flusher:
        return Flusher(self.settings(**flags), lambda: NOW)

    def events(self, *kinds: EventKind) -> list[Event]:
        log = EventLog(self.root / "data" / EVENTS_FILE)
        try:
            return log.read(50, kinds)
        finally:
            log.close()


def chat_of(server: Server, timeout_s: float = 20.0) -> OpenAIChat:
    return OpenAIChat("m", base_url=server.base_url, api_key="k", timeout_s=timeout_s)
