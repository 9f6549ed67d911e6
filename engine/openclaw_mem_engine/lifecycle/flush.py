"""The memory flush: before a conversation is compacted, its model is asked once for what must last.

The decision is a value with a reason for every no. The turn has no tools here, unlike in OpenClaw, where the
model writes the file itself: the model answers with the lines, and they are appended to the daily log of the
user's date. A flush counts for one compaction cycle. That it wrote is said by the history of edits, until it
is undone; that the model had nothing to store by the event log, as OpenClaw's ``sessions.json`` is read-only
for us.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from openclaw_mem_engine.cancellation import CancelToken
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.errors import Cancelled, OpenClawMemError
from openclaw_mem_engine.lifecycle.decision import CHARS_A_TOKEN, Code, Decision, decide
from openclaw_mem_engine.lifecycle.sessions import SessionEntry
from openclaw_mem_engine.lifecycle.turn import NO_REPLY, stored_text, turn_of, window_of
from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.notes.edit import NoteEdit, appended
from openclaw_mem_engine.notes.editor import KEEP_EDITS, NoteEditor, Written
from openclaw_mem_engine.notes.user_time import UserTime, user_time
from openclaw_mem_engine.providers.base import Chat, Message
from openclaw_mem_engine.state import private_folder
from openclaw_mem_engine.state.disk import refused
from openclaw_mem_engine.state.events import Event
from openclaw_mem_engine.workspace.opening import NoteRefused
from openclaw_mem_engine.workspace.rules import open_workspace

Outcome = Literal["wrote", "no-reply", "skipped", "failed"]
_OUTCOMES: dict[Outcome, str] = {
    "wrote": "wrote",
    "no-reply": f"{NO_REPLY}, nothing stored",
    "skipped": "skipped",
    "failed": "failed",
}
#: In the log, between what was done and the id of the session.
OF_SESSION = ", session "


@dataclass(frozen=True, slots=True)
class FlushPlan:
    """A decision and the turn that it leads to. ``path`` is the daily log; ``messages`` what is sent."""

    session: SessionEntry
    decision: Decision
    path: str
    messages: tuple[Message, ...]
    time: UserTime

    @property
    def system_prompt(self) -> str:
        return self.messages[0].text

    @property
    def prompt(self) -> str:
        return self.messages[-1].text

    @property
    def tokens(self) -> int:
        """What the turn sends, estimated."""
        return sum(len(message.text) for message in self.messages) // CHARS_A_TOKEN


@dataclass(frozen=True, slots=True)
class FlushResult:
    """What became of a flush. ``code`` says why it was skipped; ``reply`` is that of the model, "" when it
    was not asked; ``edit`` and ``written`` are None unless something was stored."""

    outcome: Outcome
    reason: str
    code: Code | Literal[""] = ""
    reply: str = ""
    edit: NoteEdit | None = None
    written: Written | None = None


class Flusher:
    """Flushes the sessions of one agent. Safe between threads and processes: of two at once one works, and
    the other says so. ``clock`` gives epoch seconds."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.time) -> None:
        self._settings = settings
        self._clock = clock
        self._editor = NoteEditor(settings, clock)
        self._folder = settings.data_dir / "flushes" / settings.agent

    def plan(self, session: SessionEntry, *, force: bool = False) -> FlushPlan:
        """What a flush would decide and send now. Nothing is sent or written. Raises WorkspaceError for a
        workspace that is not there."""
        open_workspace(self._settings.workspace)
        done = self._done_cycle(session)
        decision = decide(session, self._settings, done_cycle=done, force=force)
        at = user_time(self._settings.user_timezone, self._clock())
        path = f"memory/{at.today.isoformat()}.md"
        said: tuple[Message, ...] = ()
        nothing = f"there is no message to flush in {session.file.name}."
        try:
            said = tuple(window_of(session, decision.threshold.line * CHARS_A_TOKEN))
        except NoteRefused as refusal:
            nothing = f"the transcript cannot be read: {refusal}"
        if decision.run and not said:
            decision = replace(decision, run=False, code="nothing-said", reason=nothing)
        messages = turn_of(said, self._settings.compaction.memory_flush, at, path)
        return FlushPlan(session, decision, path, messages, at)

    def run(self, plan: FlushPlan, chat: Chat | None, cancel: CancelToken | None = None) -> FlushResult:
        """Ask, and append what is answered. What the model or the disk refuses is a result (``failed``), and
        the next run tries again. Raises Cancelled."""
        if not plan.decision.run:
            decision = plan.decision
            return self._ended(plan, FlushResult("skipped", decision.reason, decision.code))
        if chat is None:
            reason = "no chat model is configured: set flush.provider to openai and flush.model."
            return self._ended(plan, FlushResult("skipped", reason, "no-model"))
        from filelock import FileLock, Timeout

        try:
            private_folder(self._folder)
            with FileLock(self._folder / f"{plan.session.id}.lock", mode=0o600, timeout=0):
                # Another process may have finished between the plan and the lock.
                if self._done_cycle(plan.session) == plan.decision.cycle and plan.decision.code != "forced":
                    return self.run(self.plan(plan.session), chat, cancel)
                return self._ended(plan, self._turn(plan, chat, cancel))
        except Timeout:
            reason = "another process is flushing this session at the moment."
            return self._ended(plan, FlushResult("skipped", reason, "running"))
        except Cancelled:
            raise
        except OpenClawMemError as error:
            return self._ended(plan, FlushResult("failed", str(error)))
        except OSError as error:
            return self._ended(plan, FlushResult("failed", str(refused(str(self._folder), error))))

    def _turn(self, plan: FlushPlan, chat: Chat, cancel: CancelToken | None) -> FlushResult:
        self._editor.read(plan.path)  # a note that cannot be one is refused before anything is sent
        answer = chat.complete(plan.messages, cancel=cancel)
        text = stored_text(answer)
        if not text:
            return FlushResult("no-reply", f"{NO_REPLY}: the model has nothing to store.", reply=answer)
        reason = _edit_reason(plan.session, plan.decision.cycle)
        written = self._editor.append(plan.path, text, reason)
        before = self._editor.before(written.id)
        edit = NoteEdit(written.path, before, appended(before, text), reason)
        return FlushResult("wrote", f"wrote {edit.summary()}", "", answer, edit, written)

    def _ended(self, plan: FlushPlan, result: FlushResult) -> FlushResult:
        counts = {"tokens": plan.decision.tokens or 0, "line": plan.decision.threshold.line}
        counts["cycle"] = plan.decision.cycle
        if result.written is not None:
            counts["edit"] = result.written.id
        words = _OUTCOMES[result.outcome] + (f" {result.edit.summary()}" if result.edit is not None else "")
        self._editor.add_event(
            "flush",
            f"{words}{OF_SESSION}{plan.session.id}",
            counts=counts,
            reason=result.reason if result.outcome in ("skipped", "failed") else "",
            topic=f"flush {plan.session.id}",
            state=f"{plan.decision.cycle} {result.outcome} {result.code}",
            # A skip that is the same as the last one is one event, however often it is tried.
            quiet_s=1e9 if result.outcome == "skipped" else 0.0,
        )
        return result

    def _done_cycle(self, session: SessionEntry) -> int | None:
        """The cycle of our last flush: this one when its edit was made and not undone, else the last one in
        which the model had nothing to store."""
        self._editor.settle()
        reason = _edit_reason(session, session.compaction_count)
        if any(edit.reason == reason and not edit.undone for edit in self._editor.history(KEEP_EDITS)):
            return session.compaction_count
        for event in self._editor.events("flush"):
            whose = logged(event)
            if whose.session == session.id and whose.outcome == "no-reply":
                return event.counts["cycle"]
        return None


class Logged(NamedTuple):
    """An event of the log: the id of its session ("": of none), of a flush its outcome, and what was done."""

    session: str
    outcome: Outcome | Literal[""]
    text: str


def logged(event: Event) -> Logged:
    """Whose event it is, from its text: rows of the log have no column for that."""
    words, mark, session = event.text.rpartition(OF_SESSION)
    if event.kind not in ("flush", "snapshot") or not mark:
        return Logged("", "", event.text)
    flush = event.kind == "flush"
    outcome = next((name for name, text in _OUTCOMES.items() if flush and words.startswith(text)), None)
    return Logged(session, outcome or "", words)


def _edit_reason(session: SessionEntry, cycle: int) -> str:
    return f"flush of {session.id}, cycle {cycle}"
