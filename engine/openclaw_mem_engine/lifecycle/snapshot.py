"""Session snapshots: the last messages of a conversation, kept as a note when a new one begins.

OpenClaw does this on ``/new`` and ``/reset``. The note is ``memory/<UTC date>-<slug>.md``; the slug is found
by a chat model, or is the UTC time. Unlike there, a snapshot never replaces one of the same name, and what
looks like a secret is masked.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from openclaw_mem_engine.cancellation import CancelToken
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.errors import Cancelled, NoteChanged, OpenClawMemError, WorkspaceError
from openclaw_mem_engine.lifecycle.flush import OF_SESSION
from openclaw_mem_engine.lifecycle.sessions import Said, SessionEntry, archived, conversation
from openclaw_mem_engine.notes.edit import NoteEdit
from openclaw_mem_engine.notes.editor import NoteEditor, Written
from openclaw_mem_engine.providers.base import Chat, Message
from openclaw_mem_engine.redact import redact
from openclaw_mem_engine.workspace.opening import NoteRefused

#: What a model is given to find a name, in characters; and what a name may hold.
SLUG_SOURCE_CHARS, SLUG_CHARS = 2_000, 30
#: How long a model may think about a name, seconds.
SLUG_TIMEOUT_S = 15.0
#: Names that are tried when the first ones are taken.
_TRIES = 100
_ASK = (
    "Based on this conversation, answer with a name of one or two words for a file about it, in lower case "
    "with hyphens, such as vendor-pitch or api-design, and nothing else.\n\nConversation:\n{}\n\nName:"
)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a snapshot is made of. ``named_by`` says where the slug comes from, and why not from a model;
    ``messages`` are those that are kept; ``skipped`` counts the others that the transcript has."""

    session: SessionEntry
    edit: NoteEdit
    messages: tuple[Said, ...]
    skipped: int
    slug: str
    named_by: str


def naming(settings: Settings) -> Settings:
    """The settings of the model that finds a name: a name is not worth the time of a flush."""
    timeout_s = min(SLUG_TIMEOUT_S, settings.flush.timeout_s)
    return replace(settings, flush=replace(settings.flush, timeout_s=timeout_s))


def meaningful(said: list[Said], most: int) -> list[Said]:
    """The last messages that belong in a snapshot: no commands, and of each its first text block."""
    return [one for one in said if one.first and not one.first.startswith("/")][-most:]


def slug_of(text: str) -> str:
    """A name as a model answers it, as part of a file name; "" when nothing of it fits."""
    slug = re.sub(r"[^a-z0-9-]", "-", text.strip().lower())
    return re.sub(r"-+", "-", slug).strip("-")[:SLUG_CHARS].rstrip("-")


def snapshot_text(session: SessionEntry, messages: list[Said], at: datetime, source: str) -> str:
    """The note. ``at`` is in UTC, ``source`` the channel of the command."""
    lines = [
        f"# Session: {at:%Y-%m-%d %H:%M:%S} UTC",
        "",
        f"- **Session Key**: {session.key or 'unknown'}",
        f"- **Session ID**: {session.id or 'unknown'}",
        f"- **Source**: {source or 'unknown'}",
        "",
    ]
    if messages:
        said = "\n".join(f"{one.role}: {redact(one.first)}" for one in messages)
        lines += ["## Conversation Summary", "", said, ""]
    return "\n".join(lines)


class Snapshots:
    """Snapshots of the sessions of one agent. ``clock`` gives epoch seconds."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.time) -> None:
        self._settings = settings
        self._clock = clock
        self._editor = NoteEditor(settings, clock)

    def plan(
        self, session: SessionEntry, chat: Chat | None = None, cancel: CancelToken | None = None
    ) -> Snapshot:
        """What a snapshot would be now. ``chat`` is asked for a name; without one, and when it fails, the
        name is the time. Nothing is written. Raises Cancelled, and NoteRefused for a transcript that may not
        be read."""
        said, kept = self._messages(session)
        at = datetime.fromtimestamp(self._clock(), UTC)
        slug, named_by = self._slug(kept, chat, cancel)
        slug = slug or f"{at:%H%M}"
        text = snapshot_text(session, kept, at, session.channel)
        edit = self._free(f"{at:%Y-%m-%d}-{slug}", text, f"snapshot of {session.id}")
        return Snapshot(session, edit, tuple(kept), len(said) - len(kept), slug, named_by)

    def write(self, snapshot: Snapshot) -> Written:
        """Write it under the name that was planned, or under the next one when that is taken by now."""
        edit = snapshot.edit
        for _ in range(_TRIES):
            try:
                written = self._editor.write(edit)
                break
            except NoteChanged:
                edit = self._free(edit.path.removeprefix("memory/")[:-3], edit.after or "", edit.reason)
        else:
            raise WorkspaceError(f"{edit.path} is taken again and again. Try again.")
        self._editor.add_event(
            "snapshot",
            f"wrote {edit.summary()}{OF_SESSION}{snapshot.session.id}",
            counts={"messages": len(snapshot.messages), "edit": written.id},
        )
        return written

    def _messages(self, session: SessionEntry) -> tuple[list[Said], list[Said]]:
        """All messages, and those that are kept; of the archive when the transcript was reset already."""
        most = self._settings.snapshot.messages
        said: list[Said] = []
        for file in (session.file, archived(session.file)):
            if file is None:
                continue
            try:
                said = conversation(file)
            except NoteRefused as refusal:
                if refusal.kind != "missing":
                    raise
            if kept := meaningful(said, most):
                return said, kept
        return said, []

    def _slug(self, kept: list[Said], chat: Chat | None, cancel: CancelToken | None) -> tuple[str, str]:
        if chat is None:
            return "", "the time: no chat model is configured (flush.provider, flush.model)"
        if not kept:
            return "", "the time: there is no message to name it by"
        text = "\n".join(f"{one.role}: {redact(one.first)}" for one in kept)[:SLUG_SOURCE_CHARS]
        try:
            slug = slug_of(chat.complete([Message("user", _ASK.format(text))], cancel=cancel))
        except Cancelled:
            raise
        except OpenClawMemError as error:
            return "", f"the time: {error}"
        return slug, f"the model {chat.model}" if slug else "the time: the model answered no name"

    def _free(self, name: str, text: str, reason: str) -> NoteEdit:
        """The edit that makes the note of this name, or with ``-2``, ``-3`` … the first that is not taken."""
        for number in range(1, _TRIES):
            path = f"memory/{name}{f'-{number}' if number > 1 else ''}.md"
            if self._editor.read(path) is None:
                return NoteEdit(path, None, text, reason)
        raise WorkspaceError(f"memory/{name}.md and {_TRIES - 2} more names are taken: remove some of them.")
