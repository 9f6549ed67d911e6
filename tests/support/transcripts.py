"""Session transcripts as an agent writes them, and memories that are to index them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from openclaw_mem_engine.config.settings import ProviderSettings, Settings
from support.memories import settings_for


def message(text: object, role: str = "user") -> str:
    """One line of a transcript, with its end."""
    said = {"type": "message", "message": {"role": role, "content": text}}
    return json.dumps(said, ensure_ascii=False) + "\n"


def messages(*texts: str) -> str:
    """A conversation: the user begins."""
    return "".join(message(text, ("user", "assistant")[place % 2]) for place, text in enumerate(texts))


def append(path: Path, text: str) -> None:
    """What the writer of a transcript does."""
    with path.open("a", encoding="utf-8") as file:
        file.write(text)


def with_sessions(workspace: Path, home: Path, sessions: Path, **sync: Any) -> Settings:
    """Settings of an agent that opted in, keywords alone; ``sync`` are keys of its SyncSettings."""
    settings = settings_for(workspace, home)
    return replace(
        settings,
        provider=ProviderSettings("none"),
        sources=("memory", "sessions"),
        openclaw=replace(settings.openclaw, sessions_dir=sessions),
        sync=replace(settings.sync, **sync),
    )
