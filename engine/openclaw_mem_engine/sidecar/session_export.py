"""Conversations as Markdown files for a collection of their own."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.sidecar.paths import qmd_home
from openclaw_mem_engine.state import private_folder
from openclaw_mem_engine.state.disk import read_file, replace_file
from openclaw_mem_engine.workspace.listing import list_transcripts
from openclaw_mem_engine.workspace.opening import NoteRefused
from openclaw_mem_engine.workspace.transcripts import read_transcript

_DAY_S = 86_400.0


def export_sessions(settings: Settings, now: float) -> None:
    """Write ``<session>.md`` into the folder ``sessions`` of QMD for each transcript: its user and assistant
    turns, with secrets masked. Files of transcripts that are gone, or older than the configured days, are
    removed. ``now`` is epoch seconds. Raises OSError."""
    target, retention_days = qmd_home(settings) / "sessions", settings.qmd.sessions.retention_days
    private_folder(target)
    kept: set[str] = set()
    for file in list_transcripts(settings.openclaw.sessions_dir).files:
        if retention_days is not None and file.mtime_ns / 1e9 < now - retention_days * _DAY_S:
            continue
        session = Path(file.path).name.removesuffix(".jsonl")
        written = target / f"{session}.md"
        if written.exists() and written.stat().st_mtime_ns > file.mtime_ns:
            kept.add(written.name)
            continue
        try:
            text = read_transcript(file.absolute).text
        except NoteRefused:  # gone or unreadable since it was listed
            continue
        kept.add(written.name)
        _write(written, f"# Session {session}\n\n{text or '(empty)'}\n")
    for old in target.glob("*.md"):
        if old.name not in kept:
            old.unlink(missing_ok=True)


def _write(path: Path, text: str) -> None:
    """Atomically, and only what changed: the index goes by the time of the file."""
    data = text.encode()
    with suppress(OSError):
        if read_file(path) == data:
            return
    replace_file(path, data)
