"""The memory flush: when, what is asked, what of the answer is stored, and that nothing is ever lost."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openai
import pytest

from openclaw_mem_engine.errors import Cancelled, WorkspaceError
from openclaw_mem_engine.lifecycle.decision import Decision, decide
from openclaw_mem_engine.lifecycle.flush import FlushResult, logged
from openclaw_mem_engine.lifecycle.sessions import SessionEntry, read_sessions
from openclaw_mem_engine.lifecycle.turn import stored_text, user_prompt, with_no_reply
from openclaw_mem_engine.notes.editor import NoteEditor
from openclaw_mem_engine.notes.user_time import user_time
from openclaw_mem_engine.providers.base import BadAnswer
from support import embed_server as faulty
from support.embed_server import Fault, running_server
from support.goldens import golden
from support.kills import killed_at
from support.sessions import DAY, ID, KEY, NOW, Chat, SessionWorld, answering, chat_of

RECORDED = golden("flush")
NOTES = "- The rack key is in drawer 4."


@pytest.fixture
def world(tmp_path: Path) -> SessionWorld:
    return SessionWorld(tmp_path)


def run(world: SessionWorld, fault: Fault, **flags: Any) -> FlushResult:
    flusher = world.flusher()
    with running_server(forever=fault) as server:
        return flusher.run(flusher.plan(world.session(), **flags), chat_of(server))


# ---- the decision


@pytest.mark.parametrize("case", RECORDED["shouldRun"])
def test_the_decision_of_the_release(world: SessionWorld, case: dict[str, Any]) -> None:
    world.configure(
        {
            "agents": {
                "defaults": {
                    "contextTokens": case["contextWindowTokens"],
                    "compaction": {
                        "reserveTokensFloor": case["reserveTokensFloor"],
                        "memoryFlush": {"softThresholdTokens": case["softThresholdTokens"]},
                    },
                }
            }
        }
    )
    world.write_session(**(case["entry"] or {}))
    assert decide(world.session(), world.settings(profile="openclaw-2026.2")).run == case["run"]
    # The documents want the estimate to exceed the line; nothing else differs.
    on_the_line = (case["entry"] or {}).get("totalTokens") == 176_000
    assert decide(world.session(), world.settings()).run == (case["run"] and not on_the_line)


@pytest.mark.parametrize("case", RECORDED["settings"])
def test_the_settings_of_the_release(world: SessionWorld, case: dict[str, Any]) -> None:
    world.configure({"agents": {"defaults": {"compaction": case["compaction"]}}})
    found, wanted = world.settings().compaction, case["resolved"]
    assert found.memory_flush.enabled == (wanted is not None)
    if wanted is None:
        return
    assert found.memory_flush.soft_threshold_tokens == wanted["softThresholdTokens"]
    assert found.reserve_tokens_floor == wanted["reserveTokensFloor"]
    prompt = with_no_reply(found.memory_flush.prompt)
    assert "NO_REPLY" in prompt
    assert prompt == wanted.get("prompt", prompt)
    system = with_no_reply(found.memory_flush.system_prompt)
    assert system == wanted.get("systemPrompt", system)


@pytest.mark.parametrize("case", RECORDED["promptForRun"])
def test_the_prompt_of_the_release(case: dict[str, Any]) -> None:
    prompt = user_prompt(f"{case['prompt']} NO_REPLY", user_time(case["tz"], case["nowMs"] / 1000))
    assert prompt == case["out"].replace("YYYY-MM-DD\n", "\n").replace("\nCurrent", " NO_REPLY\nCurrent")


def test_the_time_is_said_once_and_in_the_zone_of_the_user() -> None:
    at = user_time("Asia/Tokyo", NOW)
    assert at.today.isoformat() == "2026-03-01" and at.yesterday.isoformat() == "2026-02-28"
    assert user_prompt("NO_REPLY. Current time: noon", at) == "NO_REPLY. Current time: noon"
    unknown = user_time("Mars/Base", NOW, {"TZ": "UTC"})
    assert (unknown.zone, "Mars/Base" in unknown.note) == ("UTC", True)


def _decided(
    world: SessionWorld, key: str = KEY, config: object = None, done: int | None = None, **entry: Any
) -> Decision:
    world.configure({"agents": {"defaults": config or {}}})
    world.write_session(key, **({"totalTokens": 180_000, "compactionCount": 2} | entry))
    return decide(world.session(), world.settings(), done_cycle=done)


def test_every_no_has_its_reason(world: SessionWorld) -> None:
    off = {"compaction": {"memoryFlush": {"enabled": False}}}
    found = [
        _decided(world),
        _decided(world, config=off),
        _decided(world, config={"sandbox": {"workspaceAccess": "ro"}}),
        _decided(world, config={"sandbox": {"mode": "all"}}),
        _decided(world, config={"sandbox": {"mode": "off", "workspaceAccess": "ro"}}),
        _decided(world, config={"sandbox": {"mode": "non-main"}}),
        _decided(world, "agent:main:telegram:group:1", {"sandbox": {"mode": "non-main"}}),
        _decided(world, "agent:main:subagent:x"),
        _decided(world, "agent:main:cron:x"),
        _decided(world, config={"contextTokens": 20_000}),
        _decided(world, totalTokens=None),
        _decided(world, totalTokensFresh=False),
        _decided(world, totalTokens=176_000),
        _decided(world, memoryFlushCompactionCount=2),
        _decided(world, done=2),
        _decided(world, done=1),
    ]
    assert [one.code for one in found] == [
        "due",
        "disabled",
        "read-only",
        "read-only",
        "due",
        "due",
        "read-only",
        "session-type",
        "session-type",
        "no-threshold",
        "tokens-unknown",
        "tokens-stale",
        "below",
        "done",
        "done",
        "due",
    ]
    reasons = [one.reason for one in found if one.code != "due"]
    assert len(set(reasons)) == len(reasons) - 1 and all(reason.endswith(".") for reason in reasons)
    assert found[0].reason == (
        "180,000 tokens are above the threshold, 200,000 - 20,000 - 4,000 = 176,000 tokens."
    )
    forced = decide(world.session(), world.settings(), done_cycle=2, force=True)
    assert (forced.run, forced.code) == (True, "forced")
    world.configure({"agents": {"defaults": off}})
    assert not decide(world.session(), world.settings(), force=True).run


# ---- the turn


def test_what_is_answered_is_appended(world: SessionWorld) -> None:
    world.note.write_bytes(b"# Today\r\n- first\r\n")
    before = (world.sessions / "sessions.json").read_bytes()
    flusher = world.flusher()
    with running_server(forever=answering(f"```markdown\n{NOTES}\n```\n\nNO_REPLY")) as server:
        result = flusher.run(flusher.plan(world.session()), chat_of(server))
        (request,) = server.requests
        again = flusher.run(flusher.plan(world.session()), chat_of(server))
        assert len(server.requests) == 1
    assert world.note.read_bytes() == b"# Today\r\n- first\r\n" + NOTES.encode() + b"\r\n"
    assert (result.outcome, result.reason) == ("wrote", f"wrote {DAY} +1 line")
    assert result.edit is not None and f"+{NOTES}" in result.edit.diff()
    assert [one["role"] for one in request.body["messages"]] == ["system", "user", "assistant", "user"]
    first, *_, last = (one["content"] for one in request.body["messages"])
    assert first.startswith("Session nearing compaction. Store durable memories now.")
    assert "You have no tools in this turn" in first
    assert last.startswith(
        f"Write any lasting notes to {DAY}; reply with NO_REPLY if nothing to store.\nCurrent"
    )
    assert (again.outcome, again.code) == ("skipped", "done")
    assert (world.sessions / "sessions.json").read_bytes() == before
    assert [logged(event)[:2] for event in world.events("flush")] == [(ID, "skipped"), (ID, "wrote")]
    world.write_session(totalTokens=180_000, compactionCount=3)
    assert flusher.plan(world.session()).decision.code == "due"
    assert NoteEditor(world.settings()).undo().path == DAY


def test_a_flush_counts_until_it_is_undone(world: SessionWorld) -> None:
    flusher, editor = world.flusher(), NoteEditor(world.settings())
    flusher.run(flusher.plan(world.session()), Chat(lambda: NOTES))
    for number in range(60):  # more edits than a list shows
        editor.append("MEMORY.md", f"- fact {number}", "remember")
    assert flusher.plan(world.session()).decision.code == "done"
    editor.undo(1)
    assert flusher.plan(world.session()).decision.code == "due"
    editor.undo(62)
    assert flusher.plan(world.session()).decision.code == "done"


def test_nothing_to_store(world: SessionWorld) -> None:
    result = run(world, answering("NO_REPLY - nothing new."))
    assert (result.outcome, result.reply) == ("no-reply", "NO_REPLY - nothing new.")
    assert not world.note.exists()
    assert world.flusher().plan(world.session()).decision.code == "done"
    assert [event.text for event in world.events()] == [f"NO_REPLY, nothing stored, session {ID}"]


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (faulty.unauthorized(), "401"),
        (faulty.garbage(), "not JSON"),
        (faulty.other_json(), "without an answer"),
        (answering(""), "empty answer"),
        (answering("x" * 20_001), "at most 20,000"),
    ],
)
def test_a_failed_turn_writes_nothing_and_is_tried_again(
    world: SessionWorld, fault: Fault, words: str
) -> None:
    result = run(world, fault)
    assert result.outcome == "failed" and words in result.reason
    assert not world.note.exists() and NoteEditor(world.settings()).history() == []
    assert [logged(event)[:2] for event in world.events()] == [(ID, "failed")]
    assert world.flusher().plan(world.session()).decision.run


def test_a_silent_server_ends_in_time(world: SessionWorld) -> None:
    flusher = world.flusher()
    with running_server(forever=faulty.hang()) as server:
        result = flusher.run(flusher.plan(world.session()), chat_of(server, timeout_s=0.2))
        assert result.outcome == "failed" and not world.note.exists()
        token = threading.Event()
        token.set()
        with pytest.raises(Cancelled):
            flusher.run(flusher.plan(world.session()), chat_of(server), token)


def test_the_time_for_an_answer_begins_with_the_request(
    world: SessionWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = openai.OpenAI

    def slow(**options: Any) -> openai.OpenAI:
        time.sleep(2.2)  # as a first import on a busy machine
        return made(**options)

    monkeypatch.setattr(openai, "OpenAI", slow)
    flusher = world.flusher()
    with running_server(forever=answering(NOTES)) as server:
        result = flusher.run(flusher.plan(world.session()), chat_of(server, timeout_s=2.0))
    assert result.outcome == "wrote"


def test_of_two_at_once_one_works(world: SessionWorld) -> None:
    asked, go = threading.Event(), threading.Event()

    def answer() -> str:
        asked.set()
        assert go.wait(30)
        return NOTES

    results: list[FlushResult] = []
    plan = world.flusher().plan(world.session())
    thread = threading.Thread(target=lambda: results.append(world.flusher().run(plan, Chat(answer))))
    thread.start()
    assert asked.wait(30)
    meanwhile = world.flusher().run(plan, Chat(lambda: "twice"))
    go.set()
    thread.join()
    assert (meanwhile.outcome, meanwhile.code) == ("skipped", "running")
    assert [one.outcome for one in results] == ["wrote"]
    # One that was planned before another finished does not ask again.
    assert world.flusher().run(plan, Chat(lambda: "twice")).code == "done"
    assert world.note.read_text() == f"{NOTES}\n"


def test_without_a_model_it_is_said(world: SessionWorld) -> None:
    flusher = world.flusher()
    assert flusher.run(flusher.plan(world.session()), None).code == "no-model"
    assert flusher.plan(world.session()).decision.run


def test_a_refusal_of_the_disk_is_a_failure(world: SessionWorld) -> None:
    outside = world.root / "out.md"
    outside.write_text("mine\n")
    world.note.symlink_to(outside)
    asked = threading.Event()

    def answer() -> str:
        asked.set()
        return NOTES

    chat = Chat(answer)
    result = world.flusher().run(world.flusher().plan(world.session()), chat)
    assert result.outcome == "failed" and "link" in result.reason and not asked.is_set()
    assert outside.read_text() == "mine\n"
    world.note.unlink()
    world.note.mkdir()
    assert world.flusher().run(world.flusher().plan(world.session()), chat).outcome == "failed"
    world.note.parent.rename(world.root / "moved")
    world.note.parents[1].rmdir()
    with pytest.raises(WorkspaceError):
        world.flusher().plan(world.session())


def test_secrets_stay_here_and_only_what_the_window_holds_is_sent(world: SessionWorld) -> None:
    lines = [
        '{"type":"message","id":"a","message":{"role":"user","content":"old"}}',
        '{"type":"message","id":"b","message":{"role":"user","content":"kept"}}',
        "broken {",
        '{"type":"compaction","summary":"what was","firstKeptEntryId":"b"}',
        '{"type":"message","id":"c","message":{"role":"assistant","content":[{"type":"thinking","thinking":"x"},'
        '{"type":"text","text":"API_TOKEN=abcdefghijklmnopqrstu"}]}}',
    ]
    world.transcript.write_text("\n".join(lines) + "\n")
    sent = [message.text for message in world.flusher().plan(world.session()).messages[1:-1]]
    assert sent[:2] == ["Summary of the conversation so far:\nwhat was", "kept"]
    assert "abcdefghijklmnopqrstu" not in sent[2] and len(sent) == 3
    world.transcript.write_text("")
    empty = world.flusher().plan(world.session()).decision
    world.transcript.unlink()
    missing = world.flusher().plan(world.session()).decision
    assert empty.code == missing.code == "nothing-said"
    assert "no message" in empty.reason and "does not exist" in missing.reason


@pytest.mark.parametrize(
    ("answer", "stored"),
    [
        ("  NO_REPLY\n", ""),
        ("NO_REPLY: nothing", ""),
        ("- a\n\nNO_REPLY.", "- a"),
        ("- NO_REPLYING is no marker", "- NO_REPLYING is no marker"),
        ("- a\x1b[31m\x00\r\n- b", "- a[31m\n- b"),
        ("- a\r- \u202eb", "- a\n- b"),
        ("**NO_REPLY**", ""),
        ("```markdown\nNO_REPLY\n```", ""),
        ("Nothing new. NO_REPLY", ""),
        ("- a\nThat is all: NO_REPLY", "- a"),
        ("A paragraph.\n\nNO_REPLY", "A paragraph."),
        ("- a NO_REPLY", "- a"),
        ("```\n- a\n```\nThat is all. NO_REPLY", "- a"),
        ("<think>Is there a NO_REPLY?\n</think>\n\nNO_REPLY", ""),
        ("\n<think>\nthe user</think>\n- a", "- a"),
        ("- a says <think>x</think>", "- a says <think>x</think>"),
        ("- the key is sk-abcdefghijklmnopqrstuvwx", "- the key is sk-abc…uvwx"),
    ],
)
def test_what_of_an_answer_is_stored(answer: str, stored: str) -> None:
    assert stored_text(answer) == stored


@pytest.mark.parametrize("answer", [" \n", "---", "<think>hm</think>\n", "<think>cut off"])
def test_an_answer_that_says_nothing_is_refused(answer: str) -> None:
    with pytest.raises(BadAnswer, match="empty answer"):
        stored_text(answer)


# ---- sessions


def test_sessions_are_read_whatever_the_file_holds(world: SessionWorld) -> None:
    table = (
        '{"agent:main:main": {"sessionId": "a", "sessionFile": "/etc/passwd", "totalTokens": "x"},'
        ' "agent:main:telegram:group:1": {"sessionId": "../../up"}, "x": 7,'
        ' "agent:main:signal:direct:2": {"sessionId": "b", "sessionFile": "../../c.jsonl", "updatedAt": 5000}'
        "}"
    )
    (world.sessions / "sessions.json").write_text(table)
    found = read_sessions(world.settings())
    assert [(one.id, one.file) for one in found] == [
        ("b", world.sessions / "c.jsonl"),
        ("a", world.sessions / "a.jsonl"),
        (ID, world.transcript),
    ]
    assert found[0].updated_at == 5.0 and found[1].total_tokens is None and found[2].key == ""


def test_types_of_sessions() -> None:
    keys = {
        KEY: "main",
        "agent:main:telegram:direct:1": "main",
        "agent:main:telegram:group:1": "group",
        "agent:main:discord:channel:1": "group",
        "agent:main:subagent:1": "subagent",
        "agent:main:cron:job": "cron",
        "agent:main:main:heartbeat": "heartbeat",
        "": "main",
    }
    assert {key: SessionEntry(key, "x", Path("x")).type for key in keys} == keys
    assert SessionEntry(KEY, "x", Path("x"), chat_type="group").type == "group"


# ---- kills


def _flush_and_die(world: SessionWorld, step: int) -> int:
    """Flush in a process that is killed at a step after the model was asked (see ``killed_at``)."""

    def work(begin: Callable[[], None]) -> None:
        def answer() -> str:
            begin()
            return "- new line"

        flusher = world.flusher()
        flusher.run(flusher.plan(world.session()), Chat(answer))

    return killed_at(step, work)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_kill_at_every_step_loses_nothing_and_stores_nothing_twice(tmp_path: Path) -> None:
    """From the answer of the model to the end: the note is the old or the new text, and a second run leaves
    the new text once."""
    before, after = "old\n", "old\n- new line\n"
    seen: set[str] = set()
    for step in range(200):
        world = SessionWorld(tmp_path / str(step))
        world.note.write_text(before)
        status = _flush_and_die(world, step)
        assert status in (0, signal.SIGKILL)
        text = world.note.read_text()
        assert text in (before, after)
        seen.add(text)
        world.note.write_text(f"{text}- of another program\n")
        flusher = world.flusher()
        flusher.run(flusher.plan(world.session()), Chat(lambda: "- new line"))
        assert sorted(world.note.read_text().split()) == sorted(f"{after}- of another program\n".split())
        assert flusher.plan(world.session()).decision.code == "done"
        if not status:
            break
    assert seen == {before, after} and 10 < step < 199
