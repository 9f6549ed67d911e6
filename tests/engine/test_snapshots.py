"""Snapshots of conversations: what is kept of them, under which name, and that no note is replaced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from openclaw_mem_engine.errors import ProviderError
from openclaw_mem_engine.lifecycle.sessions import SessionEntry
from openclaw_mem_engine.lifecycle.snapshot import Snapshots, naming, slug_of
from support.goldens import golden
from support.sessions import NOW, Chat, SessionWorld
from support.transcripts import message

RECORDED = golden("session_hook")
#: 2026-02-20T23:59:07Z
AT = 1_771_631_947.0
CASES = [case for case in RECORDED["cases"] if case["written"]]


@pytest.fixture
def world(tmp_path: Path) -> SessionWorld:
    return SessionWorld(tmp_path)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["label"])
def test_the_notes_of_the_release(world: SessionWorld, case: dict[str, Any]) -> None:
    """Without a model; ``messages 3`` was recorded with that setting."""
    if "messages 3" in case["label"]:
        hook = {"session-memory": {"messages": 3}}
        world.configure({"hooks": {"internal": {"entries": hook}}})
    event = case["event"]
    before = event["context"].get("previousSessionEntry")
    file = world.sessions / "s.jsonl"
    if before:
        rotated = case["label"] == "rotated transcript"
        target = file.with_name("s.jsonl.reset.2026-02-20") if rotated else file
        target.write_text(RECORDED["transcript"], "utf-8")
        if rotated:
            file.write_text(message("/new"), "utf-8")
    session = SessionEntry(
        event["sessionKey"],
        before["sessionId"] if before else "",
        file,
        channel=event["context"].get("commandSource", ""),
    )
    snapshots = Snapshots(world.settings(), lambda: AT)
    written = snapshots.write(snapshots.plan(session))
    ((name, text),) = case["written"].items()
    assert written.path == f"memory/{name}"
    assert (world.root / "ws" / written.path).read_text("utf-8") == text


def test_a_model_names_it_and_no_note_is_replaced(world: SessionWorld) -> None:
    asked = Chat(lambda: " Rack Keys! / drawer\n")
    snapshots = Snapshots(world.settings(), lambda: NOW)
    session = world.session()
    plans = [snapshots.plan(session, asked), snapshots.plan(session, asked)]
    assert [plan.edit.path for plan in plans] == ["memory/2026-02-28-rack-keys-drawer.md"] * 2
    paths = [snapshots.write(plan).path for plan in plans]
    assert paths == ["memory/2026-02-28-rack-keys-drawer.md", "memory/2026-02-28-rack-keys-drawer-2.md"]
    assert snapshots.plan(session, asked).edit.path.endswith("drawer-3.md")
    assert [event.text.split(",")[0] for event in world.events("snapshot")] == [
        f"wrote {path} +10 lines" for path in reversed(paths)
    ]


def test_without_a_name_it_is_the_time(world: SessionWorld) -> None:
    def fails() -> str:
        raise ProviderError("no answer")

    snapshots = Snapshots(world.settings(), lambda: NOW)
    for answer, why in ((fails, "no answer"), (lambda: "!!", "answered no name")):
        plan = snapshots.plan(world.session(), Chat(answer))
        assert plan.edit.path == "memory/2026-02-28-1900.md" and why in plan.named_by


def test_secrets_commands_and_other_sessions_stay_out(world: SessionWorld) -> None:
    inner = (
        '{"type":"message","message":{"role":"user","content":"x","provenance":{"kind":"inter_session"}}}\n'
    )
    text = message("/new") + inner + message("API_TOKEN=abcdefghijklmnopqrstu")
    world.transcript.write_text(text, "utf-8")
    plan = Snapshots(world.settings(), lambda: NOW).plan(world.session())
    assert [one.role for one in plan.messages] == ["user"] and plan.skipped == 1
    assert "abcdefghijklmnopqrstu" not in (plan.edit.after or "")


def test_a_name_has_less_time_than_a_flush(world: SessionWorld) -> None:
    settings = world.settings()
    assert (settings.flush.timeout_s, naming(settings).flush.timeout_s) == (120.0, 15.0)


def test_names_are_short_and_plain() -> None:
    assert slug_of("../../Étc/passwd") == "tc-passwd"
    assert slug_of("a" * 29 + " b c") == "a" * 29
