"""``openclaw-mem snapshot``."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING

from openclaw_mem_engine.cli.opening import flush_model, warned_settings
from openclaw_mem_engine.cli.terminal import one_line, say, show, stoppable, strong
from openclaw_mem_engine.sanitize import counted, visible

if TYPE_CHECKING:
    from openclaw_mem_engine.lifecycle.snapshot import Snapshot
    from openclaw_mem_engine.notes.editor import Written


def run(arguments: Namespace) -> int:
    """Write the note, or with ``--dry-run`` show it; then no model is asked for its name."""
    from openclaw_mem_engine.lifecycle.sessions import find_session
    from openclaw_mem_engine.lifecycle.snapshot import Snapshots, naming

    settings = warned_settings(arguments)
    session = find_session(settings, arguments.session)
    snapshots = Snapshots(settings)
    written: Written | None = None
    if arguments.dry_run:
        snapshot = snapshots.plan(session)
    else:
        with flush_model(naming(settings)) as chat:
            if chat is not None and chat.host:
                say(f"The beginning of these messages is sent to {one_line(chat.host)}, for a name.")
            with stoppable() as token:
                snapshot = snapshots.plan(session, chat, token)
        written = snapshots.write(snapshot)
    asks = arguments.dry_run and settings.flush.provider != "none"
    named_by = "the time; the model is not asked in a dry run" if asks else snapshot.named_by
    data, lines = _dict(snapshot, written, named_by), _lines(snapshot, written, named_by)
    show(data, lines, as_json=arguments.json, exact=True)
    return 0


def _dict(snapshot: Snapshot, written: Written | None, named_by: str) -> dict[str, object]:
    return {
        "session": {"key": snapshot.session.key, "id": snapshot.session.id},
        "path": written.path if written is not None else snapshot.edit.path,
        "namedBy": named_by,
        "messages": len(snapshot.messages),
        "notKept": snapshot.skipped,
        "content": snapshot.edit.after,
        "edit": written.to_dict() if written is not None else None,
    }


def _lines(snapshot: Snapshot, written: Written | None, named_by: str) -> Iterator[str]:
    if written is None:
        yield strong("Dry run: nothing is sent, nothing is written.")
    path = written.path if written is not None else snapshot.edit.path
    kept = f"{counted(len(snapshot.messages), 'message')} kept, {snapshot.skipped:,} not"
    verb = "wrote" if written is not None else "would write"
    yield f"{verb} {path} ({kept}; named by {one_line(named_by)})"
    yield from visible(snapshot.edit.diff()).rstrip("\n").split("\n")
