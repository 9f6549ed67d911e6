"""``openclaw-mem flush``."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from openclaw_mem_engine.cli.opening import flush_model, warned_settings
from openclaw_mem_engine.cli.terminal import aligned, indented, marked, one_line, say, show, stoppable, strong
from openclaw_mem_engine.cli.text_format import destination
from openclaw_mem_engine.sanitize import counted, visible

if TYPE_CHECKING:
    from openclaw_mem_engine.lifecycle.flush import FlushPlan, FlushResult
    from openclaw_mem_engine.providers.base import Chat


def run(arguments: Namespace) -> int:
    """Decide, ask, append; with ``--dry-run`` only the first. A skip is no error, a failed turn is one."""
    from openclaw_mem_engine.errors import ConfigError, ProviderError
    from openclaw_mem_engine.lifecycle.flush import Flusher
    from openclaw_mem_engine.lifecycle.sessions import find_session

    settings = warned_settings(arguments)
    session = find_session(settings, arguments.session)
    flusher = Flusher(settings)
    plan = flusher.plan(session, force=arguments.force)
    if plan.time.note:
        say(plan.time.note)
    with flush_model(settings) as chat, stoppable() as token:
        if arguments.dry_run:
            show(_plan_dict(plan, chat), _plan_lines(plan, chat), as_json=arguments.json)
            return 0
        if plan.decision.run and chat is not None and chat.host:
            say(f"The conversation (about {counted(plan.tokens, 'token')}) is sent to {one_line(chat.host)}.")
        result = flusher.run(plan, chat, token)
    show(_result_dict(plan, result), _result_lines(result), as_json=arguments.json)
    if result.code == "no-model":  # it is due, and cannot be done as things are configured
        return ConfigError.exit_code
    return ProviderError.exit_code if result.outcome == "failed" else 0


def _plan_dict(plan: FlushPlan, chat: Chat | None) -> dict[str, Any]:
    return {
        "session": {"key": plan.session.key, "id": plan.session.id},
        "decision": plan.decision.to_dict(),
        "path": plan.path,
        "model": chat.model if chat is not None else None,
        "host": chat.host if chat is not None else None,
        "messages": [{"role": message.role, "content": message.text} for message in plan.messages],
    }


def _plan_lines(plan: FlushPlan, chat: Chat | None) -> Iterator[str]:
    decision, said = plan.decision, len(plan.messages) - 2
    yield strong("Dry run: nothing is sent, nothing is written.")
    yield from aligned(
        [
            ("session", f"{plan.session.label}  {plan.session.id}"),
            ("threshold", f"{decision.threshold.formula} (window - reserve - soft threshold)"),
            ("tokens", "unknown" if decision.tokens is None else f"{decision.tokens:,}"),
            ("decision", f"{'flush' if decision.run else 'skip'}: {one_line(decision.reason)}"),
            ("model", f"{one_line(chat.model)}, {destination(chat.id, chat.host)}" if chat else _NO_MODEL),
            (
                "appended to",
                f"{plan.path}: the answer of the model, which has no tools here, as the last lines",
            ),
        ]
    )
    yield strong("system prompt")
    yield from indented(visible(plan.system_prompt).split("\n"))
    yield f"then {counted(said, 'message')} of the conversation, about {counted(plan.tokens, 'token')} in all"
    yield strong("prompt")
    yield from indented(visible(plan.prompt).split("\n"))


_NO_MODEL = "none: set flush.provider to openai and flush.model"


def _result_dict(plan: FlushPlan, result: FlushResult) -> dict[str, Any]:
    return {
        "session": {"key": plan.session.key, "id": plan.session.id},
        "decision": plan.decision.to_dict(),
        "outcome": result.outcome,
        "reason": result.reason,
        "path": plan.path,
        "reply": result.reply,
        "diff": result.edit.diff() if result.edit is not None else "",
        "edit": result.written.to_dict() if result.written is not None else None,
    }


def _result_lines(result: FlushResult) -> Iterator[str]:
    word = {"wrote": "", "no-reply": "", "skipped": "skipped: ", "failed": marked("failed") + ": "}
    yield word[result.outcome] + one_line(result.reason)
    if result.outcome == "no-reply":
        yield from indented(visible(result.reply.strip()).split("\n"))
    if result.edit is not None:
        yield from visible(result.edit.diff()).rstrip("\n").split("\n")
