"""Checks of how memory is written: MEMORY.md against its budget, flushes, transcripts, credentials."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from openclaw_mem_engine.errors import OpenClawMemError
from openclaw_mem_engine.lifecycle.decision import threshold_of
from openclaw_mem_engine.lifecycle.sessions import read_sessions
from openclaw_mem_engine.redact import credentials
from openclaw_mem_engine.sanitize import counted, counted_have
from openclaw_mem_engine.timeline.merge import missed_flushes
from openclaw_mem_engine.workspace.listing import notes_of
from openclaw_mem_engine.workspace.opening import NoteRefused
from openclaw_mem_engine.workspace.reading import read_note

if TYPE_CHECKING:
    from openclaw_mem_engine.config.settings import Settings
    from openclaw_mem_engine.stores.findings import Outcome

_MISSED = "missed flush", "missed flushes"
_TIMELINE = "openclaw-mem timeline --kind compaction"


def check_flush(settings: Settings, out: Outcome) -> None:
    """A flush can run, and ran before every compaction."""
    flush = settings.compaction.memory_flush
    if not flush.enabled:
        where = settings.origins["compaction.memory_flush.enabled"].where
        out.add("flush-off", "info", f"The memory flush is switched off ({where}): no session is flushed.")
    try:
        entries = read_sessions(settings)
    except OpenClawMemError as error:
        out.add("sessions-unreadable", "warning", str(error))
        return
    never = [entry for entry in entries if flush.enabled and threshold_of(entry, settings).line <= 0]
    if never:
        text = (
            f"A flush is never due in {counted(len(never), 'session')}. The context window is smaller than "
            "reserve and soft threshold together."
        )
        evidence = [f"{entry.label}: {threshold_of(entry, settings).formula}" for entry in never]
        out.add("flush-never-due", "warning", text, evidence)
    missing = [entry for entry in entries if entry.key and not entry.file.is_file()]
    if missing:
        text = f"{counted_have(len(missing), 'session')} no transcript, but an entry in sessions.json."
        out.add("no-transcript", "info", text, [entry.label for entry in missing])
    missed = missed_flushes(settings)
    compactions = sum(len(moments) for _, moments in missed)
    if compactions:
        text = (
            f"{counted(compactions, *_MISSED)} in {counted(len(missed), 'session')}. A compaction ran "
            "without a flush before it: what was only in the conversation may be lost."
        )
        evidence = [f"{session.name}: {counted(len(moments), *_MISSED)}" for session, moments in missed]
        out.add("flush-missed", "warning", text, evidence, _TIMELINE)
    out.detail = f"{counted(len(entries), 'session')}, {counted(compactions, *_MISSED)}"


def check_credentials(settings: Settings, out: Outcome) -> None:
    """No note holds what looks like a password or key, or is another file as well. Values are never
    repeated. Raises WorkspaceError."""
    found: list[str] = []
    linked: list[str] = []
    listing = notes_of(settings)
    for file in listing.files:
        try:
            text = read_note(file.absolute, max_bytes=settings.max_file_bytes).text
        except NoteRefused:
            continue  # said by the check of files
        with suppress(OSError):
            linked += [file.path] if Path(file.absolute).stat().st_nlink > 1 else []
        found += [f"{file.path}:{number}" for number, _ in credentials(text)]
    out.detail = f"{counted(len(found), 'line')} of {counted(len(listing.files), 'note')}"
    if linked:
        text = f"{counted_have(len(linked), 'note')} a second name (hard link). The text is indexed."
        out.add("hard-links", "info", text, linked)
    if found:
        text = (
            f"{counted(len(found), 'line of the notes looks', 'lines of the notes look')} like credentials. "
            "Every search may show them. Embedding and rerank services get them redacted."
        )
        out.add("credentials", "warning", text, found, "openclaw-mem curate")
