"""The timeline: what is read of transcripts, which flushes were missed, and that only what is new is read."""

from __future__ import annotations

import datetime
import json
import os
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.demo import write_demo
from openclaw_mem_engine.errors import Cancelled, WorkspaceError
from openclaw_mem_engine.notes.editor import NoteEditor
from openclaw_mem_engine.state.events import EVENTS_FILE, EventLog
from openclaw_mem_engine.timeline.merge import TimelineReader, missed_flushes, read_timeline
from openclaw_mem_engine.timeline.model import Curve, Moment, Session, sparkline
from openclaw_mem_engine.timeline.records import Scan
from support.flushes import PROMPT, Talk, save_index
from support.memories import empty_workspace

LINE = 176_000


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return empty_workspace(tmp_path, OPENCLAW_STATE_DIR=str(tmp_path / "state"))


def folder(settings: Settings) -> Path:
    return settings.openclaw.sessions_dir


def the_session(settings: Settings) -> Session:
    (found,) = read_timeline(settings).sessions
    return found


def kinds(session: Session) -> list[str]:
    return [f"{moment.kind} {moment.state}".strip() for moment in session.moments]


def of_kind(session: Session, kind: str) -> Moment:
    (found,) = (moment for moment in session.moments if moment.kind == kind)
    return found


# Flushes and compactions


def test_a_flush_that_wrote_is_no_missed_one(settings: Settings) -> None:
    talk = Talk().user("hello").answer("hi", 176_400).flush("- one\n- two\n").compaction(178_000)
    talk.user("and?").answer("so", 20_000).save(folder(settings))
    session = the_session(settings)
    assert kinds(session) == ["flush wrote", "compaction flushed"]
    flush, compaction = session.moments
    assert flush.summary == "wrote memory/2026-02-14.md, +2 lines (at 176,400 tokens)"
    assert (compaction.tokens, compaction.tokens_after) == (178_000, 20_000)
    assert (session.missed, session.flush_threshold, session.curve.peak) == (0, LINE, 178_000)
    assert list(session.curve.tokens) == [176_400, 178_000, 20_000, 20_000] and not session.curve.estimated


def test_a_flush_that_replaces_the_daily_log_says_so(settings: Settings) -> None:
    talk = Talk().answer("a", 177_000).user(PROMPT)
    talk.call("write", path="memory/2026-02-14.md", content="# all anew\n").answer("NO_REPLY").save(
        folder(settings)
    )
    flush = of_kind(the_session(settings), "flush")
    assert flush.text == "wrote memory/2026-02-14.md, +1 line"
    assert flush.why == "the call wrote all of memory/2026-02-14.md; it did not append"


def test_no_reply_stores_nothing(settings: Settings) -> None:
    Talk().answer("hi", 177_000).user(PROMPT).answer("NO_REPLY", 177_100).compaction().save(folder(settings))
    session = the_session(settings)
    assert kinds(session) == ["flush no-reply", "compaction flushed"]
    assert session.moments[0].text == "NO_REPLY, nothing stored"


@pytest.mark.parametrize(
    ("before", "tokens", "why"),
    [
        (
            (150_000,),
            191_000,
            "one turn went from 150,000 to 191,000 tokens: compaction came before a flush could run "
            "(flush threshold: 176,000)",
        ),
        ((40_000,), 41_000, "compacted at 41,000 tokens, below the flush threshold of 176,000"),
        ((176_500, 177_000), 178_000, "no reason is recorded"),
    ],
)
def test_a_compaction_without_a_flush_is_missed_and_says_why(
    settings: Settings, before: tuple[int, ...], tokens: int, why: str
) -> None:
    talk = Talk()
    for count in before:
        talk.user("go on").answer("yes", count)
    talk.compaction(tokens).save(folder(settings))
    session = the_session(settings)
    assert kinds(session) == ["compaction missed"]
    assert (session.missed, session.moments[0].why) == (1, why)
    ((found, moments),) = missed_flushes(settings)
    assert (found.id, moments) == (session.id, session.moments)


def test_a_flush_counts_for_its_own_cycle_only(settings: Settings) -> None:
    talk = Talk().answer("a", 177_000).flush().compaction().answer("b", 30_000).answer("c", 150_000)
    talk.compaction(190_000).answer("d", 177_000).flush().compaction().save(folder(settings))
    states = [moment.state for moment in the_session(settings).moments if moment.kind == "compaction"]
    assert states == ["flushed", "missed", "flushed"]


def test_a_flush_that_failed_is_missed_with_its_error(settings: Settings) -> None:
    talk = Talk().answer("a", 177_000).user(PROMPT)
    talk.answer("", stopReason="error", errorMessage="429 too many requests").compaction()
    talk.answer("b", 177_000).user(PROMPT).call(
        "write", failed=True, path="memory/2026-02-14.md", content="x"
    )
    talk.answer("It cannot be written.").compaction().save(folder(settings))
    session = the_session(settings)
    assert kinds(session) == ["flush failed", "compaction missed", "flush failed", "compaction missed"]
    assert session.moments[1].why == "the flush before it failed: 429 too many requests"
    assert session.moments[2].text == "failed to write memory/2026-02-14.md"


def test_the_last_flush_is_known_from_sessions_json_alone(settings: Settings) -> None:
    talk = Talk().answer("a", 177_000)
    at = int(talk.at.timestamp() * 1000) + 30_000
    talk.compaction().save(folder(settings))
    save_index(folder(settings), agent__main__main={"sessionId": talk.id, "memoryFlushAt": at})
    session = the_session(settings)
    assert kinds(session) == ["flush recorded", "compaction flushed"]
    assert (session.key, session.name) == ("agent:main:main", "main")
    # A turn of the transcript that ended then is the same flush.
    talk = Talk().answer("a", 177_000).flush()
    at = int(talk.at.timestamp() * 1000) + 1_000
    talk.compaction().save(folder(settings))
    save_index(folder(settings), agent__main__main={"sessionId": talk.id, "memoryFlushAt": at})
    assert kinds(the_session(settings)) == ["flush wrote", "compaction flushed"]


def test_flushes_in_a_private_copy_leave_it_unknown(settings: Settings) -> None:
    talk = Talk().answer("a", 177_000).compaction()
    talk.save(folder(settings))
    save_index(folder(settings), agent__main__main={"sessionId": talk.id, "memoryFlush": {}})
    assert kinds(the_session(settings)) == ["compaction unknown"]
    assert missed_flushes(settings) == []


def test_a_flush_that_was_due_and_did_not_run(settings: Settings) -> None:
    talk = Talk().answer("a", 170_000).user("go on").answer("b", 177_000).user("go on").answer("c", 178_000)
    talk.save(folder(settings))
    flush = of_kind(the_session(settings), "flush")
    assert (flush.state, flush.summary) == ("skipped", "skipped at 177,000 tokens")
    assert flush.why == "no reason is recorded"
    save_index(folder(settings), agent__main__cron__nightly={"sessionId": talk.id})
    assert (
        of_kind(the_session(settings), "flush").why
        == "this is the session of a cron job; only conversations are flushed."
    )
    save_index(folder(settings), agent__main__main={"sessionId": talk.id, "contextTokens": 16_000})
    session = the_session(settings)
    assert (session.flush_threshold, session.moments) == (-8_000, ())


def test_the_configuration_says_why_none_ran(settings: Settings) -> None:
    talk = Talk().answer("a", 177_000).compaction()
    talk.save(folder(settings))
    save_index(folder(settings), agent__main__telegram__group__1={"sessionId": talk.id})
    flushes = settings.compaction.memory_flush
    off = replace(
        settings, compaction=replace(settings.compaction, memory_flush=replace(flushes, enabled=False))
    )
    session = the_session(off)
    assert kinds(session) == ["flush skipped", "compaction missed"]
    assert all(
        "as configured now, the memory flush is switched off" in moment.why for moment in session.moments
    )
    sandboxed = replace(settings, sandbox=replace(settings.sandbox, mode="non-main", workspace_access="ro"))
    assert "may not write its workspace (workspaceAccess ro)" in of_kind(the_session(sandboxed), "flush").why
    assert kinds(the_session(settings)) == ["compaction missed"]


def test_a_session_that_was_reset_stays_in_the_timeline(settings: Settings) -> None:
    path = Talk().answer("a", 177_000).compaction().save(folder(settings))
    assert the_session(settings).missed == 1
    path.rename(path.with_name(f"{path.name}.reset.2026-02-14T12-00-00.000Z"))
    session = the_session(settings)
    assert (session.id, session.missed, read_timeline(settings).notes) == ("11111111-aaaa", 1, ())
    Talk().answer("b", 1_000).save(folder(settings))
    assert [session.missed for session in read_timeline(settings).sessions] == [1, 0]


def test_a_flush_of_ours_is_one_event_of_its_session(settings: Settings) -> None:
    talk = Talk().answer("a", 177_000)
    at = talk.at.timestamp() + 10
    talk.compaction().save(folder(settings))
    log = EventLog(settings.data_dir / EVENTS_FILE, lambda: at)
    NoteEditor(settings, lambda: at).append("memory/2026-02-14.md", "- a fact", "flush of it")
    whose: Any = {"agent": settings.agent, "workspace": str(settings.workspace)}
    log.add("flush", f"wrote memory/2026-02-14.md +1 line, session {talk.id}", counts={"edit": 1}, **whose)
    log.close()
    found = read_timeline(settings)
    assert kinds(found.sessions[0]) == ["flush wrote", "compaction flushed"]
    flush = found.sessions[0].moments[0]
    assert (flush.text, flush.writes[0].origin) == ("wrote memory/2026-02-14.md +1 line", "pre-image")
    assert len(found.moments) == 2 and found.missed == 0


def test_talk_about_flushes_is_no_flush(settings: Settings) -> None:
    talk = Talk().user("A subagent is done. Reply NO_REPLY when there is nothing to announce.")
    talk.answer("NO_REPLY").user('what does "type":"compaction" mean, and "usage":{"totalTokens":9}?')
    talk.answer('{"type":"compaction","tokensBefore":5}').save(folder(settings))
    assert the_session(settings).moments == ()


# Writes and searches


def test_writes_of_memory_files_only(settings: Settings) -> None:
    talk = Talk().call("write", path="/home/u/.openclaw/workspace/memory/a/b.md", content="1\n2\n3")
    talk.call("edit", path="MEMORY.md", oldText="a\nb\n", newText="c\n").call(
        "write", path="src/x.md", content=""
    )
    talk.call("exec", command="echo 'x' >> memory/2026-02-14.md && cat memory/other.md")
    talk.call("write", path="memory/../../etc/memory/x.md", content="").call("read", path="memory/z.md")
    talk.call("apply_patch", input="*** Begin Patch\n*** Update File: memory/p.md\n@@\n*** End Patch")
    talk.save(folder(settings))
    session = the_session(settings)
    assert [moment.text for moment in session.moments] == [
        "wrote memory/a/b.md, +3 lines",
        "wrote MEMORY.md, +1 -2 lines",
        "wrote memory/2026-02-14.md",
        "wrote memory/p.md",
    ]


def test_the_agents_own_searches_with_their_results(settings: Settings) -> None:
    rows = [{"path": "memory/a.md", "startLine": 3, "endLine": 9, "score": 0.5}, {"path": "MEMORY.md"}, 7]
    talk = Talk().call("memory_search", json.dumps({"results": rows}), query="router")
    talk.call("memory_search", '{"results":[]}', query="nothing")
    talk.call("memory_search", '{"results":[],"disabled":true,"error":"no key"}', query="off")
    talk.call("memory_search", "Error: sk-abcdefghijklmnop", query="bad", failed=True)
    talk.save(folder(settings))
    searches = the_session(settings).moments
    assert [moment.summary for moment in searches] == [
        "router: 2 results",
        "nothing: nothing found",
        "off: failed: no key",
        "bad: failed: Error: sk-abc…mnop",
    ]
    assert [found.location for found in searches[0].results] == ["memory/a.md:3-9", "MEMORY.md"]


# Hostile and unfinished files


@pytest.mark.parametrize(
    "line",
    [
        b"not json\n",
        b"[1,2]\n",
        b'{"type":"message","message":{"role":"assistant","content":[{"type":"text"\n',
        b'{"type":"message","message":{"role":"assistant","content":' + b"[" * 100_000 + b"}\n",
        b'{"type":"compaction","tokensBefore":' + b"9" * 5_000 + b"}\n",
        b"\xff\xfe\x00\n",
    ],
)
def test_a_broken_line_is_counted_and_costs_nothing_else(settings: Settings, line: bytes) -> None:
    path = Talk().answer("a", 1_000).save(folder(settings))
    with path.open("ab") as file:
        file.write(line)
        file.write(Talk().answer("b", 2_000).lines[1].encode())
    session = the_session(settings)
    assert (session.broken, list(session.curve.tokens)) == (1, [1_000, 2_000])


def test_odd_values_are_not_believed(settings: Settings) -> None:
    odd_usages: list[Any] = [
        {"totalTokens": "many"},
        {"totalTokens": True},
        {"totalTokens": -4},
        {"totalTokens": 1e300},
        [],
        None,
    ]
    odd = Talk()
    for usage in odd_usages:
        odd.add("message", message={"role": "assistant", "usage": usage, "content": "x"})
    odd.add("message", message=None)
    odd.add("message", message={"role": "toolResult", "toolCallId": ["x"]})
    odd.add("message", message={"role": "assistant", "content": [{"type": ["toolCall"]}, {"type": {}}]})
    odd.add("compaction", tokensBefore=None, summary=7)
    for at in ('"yesterday"', '"9999-12-31T23:59:59Z"', '"0001-01-01T00:00:00Z"', "1e300", "true"):
        odd.lines.append(f'{{"type":"message","timestamp":{at},"message":{{"role":"assistant"}}}}\n')
    odd.user("esc \x1b[31m NO_REPLY memory/").answer("\x1b[2J NO_REPLY \u202e").save(folder(settings))
    session = the_session(settings)
    assert session.curve.estimated and session.broken == 0
    texts = [text for moment in session.moments for text in (moment.text, moment.why, moment.query)]
    assert not any("\x1b" in text or "\u202e" in text for text in texts)


def test_times_of_messages_and_a_clock_that_was_set_back(settings: Settings) -> None:
    folder(settings).mkdir(parents=True)
    lines = []
    for at, tokens in ((1_770_000_000_000, 10), (1_769_000_000_000, 20), (1_770_000_100_000, 30)):
        message = {"role": "assistant", "timestamp": at, "usage": {"totalTokens": tokens}, "content": "x"}
        lines.append(json.dumps({"type": "message", "message": message}))
    (folder(settings) / "a.jsonl").write_text("\n".join(lines) + "\n")
    session = the_session(settings)
    assert list(session.curve.times) == [1_770_000_000, 1_770_000_000, 1_770_000_100]
    assert (session.start, session.end) == (1_770_000_000, 1_770_000_100)
    assert session.curve.columns(session.start, session.end, 2) == [20, 30]


def test_the_curve_falls_at_the_compaction(settings: Settings) -> None:
    talk = Talk().answer("a", 177_000).compaction(180_000)
    talk.at += datetime.timedelta(days=2)
    talk.answer("b", 20_000).save(folder(settings))
    session = the_session(settings)
    compaction = of_kind(session, "compaction")
    assert (compaction.tokens, compaction.tokens_after) == (180_000, 20_000)
    counts = session.curve.columns(compaction.at - 10, compaction.at + 86_400, 3)
    assert counts == [180_000, 20_000, 20_000]


def test_without_folder_and_without_sessions_json(settings: Settings) -> None:
    found = read_timeline(settings)
    assert found.sessions == () and found.moments == ()
    assert [note for note in found.notes if "does not exist" in note]
    Talk().save(folder(settings))
    assert the_session(settings).key == ""
    (folder(settings) / "sessions.json").write_text("{")
    found = read_timeline(settings)
    assert len(found.sessions) == 1 and "is not valid JSON" in found.notes[-1]
    Talk().answer("a", 176_500).compaction(178_000).save(folder(settings))  # of a cron job, or not
    whys = [moment.why for moment in the_session(settings).moments if moment.is_missed]
    assert len(whys) == 1 and whys[0].startswith("sessions.json could not be read: ")


# Reading on


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the lines that are looked at from now on."""
    seen: list[int] = []
    take = Scan.take

    def watched(scan: Scan, raw: bytes | None, line: int, offset: int) -> None:
        seen.append(line)
        take(scan, raw, line, offset)

    monkeypatch.setattr(Scan, "take", watched)
    return seen


def test_only_what_was_appended_is_read(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    talk = Talk().answer("a", 1_000).user(PROMPT)
    path = talk.save(folder(settings))
    assert kinds(the_session(settings)) == ["flush open"]
    seen = counted(monkeypatch)
    assert kinds(the_session(settings)) == ["flush open"] and seen == []
    # A line that is half written waits for its end.
    before = len(talk.lines)
    talk.answer("NO_REPLY", 1_100)
    with path.open("a") as file:
        file.write(talk.lines[-1][:40])
    assert kinds(the_session(settings)) == ["flush open"] and seen == []
    with path.open("a") as file:
        file.write(talk.lines[-1][40:])
    session = the_session(settings)
    assert kinds(session) == ["flush no-reply"] and seen == [before + 1]
    assert list(session.curve.tokens) == [1_000, 1_100]


def test_an_answer_of_a_tool_that_comes_later(settings: Settings) -> None:
    talk = Talk().call("memory_search", '{"results":[{"path":"MEMORY.md"}]}', query="router")
    path = talk.save(folder(settings))
    path.write_text("".join(talk.lines[:-1]))
    assert of_kind(the_session(settings), "search").state == "open"
    with path.open("a") as file:
        file.write(talk.lines[-1])
    assert of_kind(the_session(settings), "search").state == "found"


@pytest.mark.parametrize("how", ["shrank", "replaced", "same size", "grew and changed"])
def test_what_changed_otherwise_is_read_anew(settings: Settings, how: str) -> None:
    talk = Talk().answer("a", 1_000).answer("b", 2_000)
    path = talk.save(folder(settings))
    assert list(the_session(settings).curve.tokens) == [1_000, 2_000]
    text = path.read_text()
    if how == "shrank":
        path.write_text("".join(talk.lines[:2]))
    elif how == "replaced":
        other = path.with_suffix(".new")
        other.write_text(text.replace("1990", "2990") + talk.lines[-1])
        other.replace(path)
    elif how == "same size":
        path.write_text(text.replace("1990", "2990"))
        os.utime(path, ns=(1, 1))
    else:
        path.write_text(text.replace("1990", "2990") + talk.lines[-1])
    wanted = {
        "shrank": [1_000],
        "replaced": [1_000, 3_000, 2_000],
        "same size": [1_000, 3_000],
        "grew and changed": [1_000, 3_000, 2_000],
    }
    assert list(the_session(settings).curve.tokens) == wanted[how]


def test_reading_is_stopped_and_goes_on(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        Talk(f"{number}0000000-aaaa").answer("a", 1_000).save(folder(settings))
    stop, take = threading.Event(), Scan.take

    def stopped(scan: Scan, raw: bytes | None, line: int, offset: int) -> None:
        stop.set()
        take(scan, raw, line, offset)

    monkeypatch.setattr(Scan, "take", stopped)
    with closing(TimelineReader(settings)) as reader, pytest.raises(Cancelled):
        reader.read(stop)
    monkeypatch.setattr(Scan, "take", take)
    seen = counted(monkeypatch)
    assert len(read_timeline(settings).sessions) == 3
    assert len(seen) == 4, "the first of three was read"


def test_a_workspace_that_is_not_there(settings: Settings) -> None:
    with pytest.raises(WorkspaceError):
        read_timeline(replace(settings, workspace=settings.workspace / "none"))


def test_what_is_gone_is_forgotten_and_a_damaged_cache_is_named(settings: Settings) -> None:
    path = Talk().answer("a", 1_000).save(folder(settings))
    reader = TimelineReader(settings)
    assert len(reader.read().sessions) == 1
    path.unlink()
    assert reader.read().sessions == ()
    Talk("22222222-bbbb").answer("a", 1_000).save(folder(settings))
    assert [session.id for session in reader.read().sessions] == ["22222222-bbbb"]
    reader.close()
    (cache,) = settings.data_dir.glob("timeline-*.sqlite")
    assert cache.stat().st_mode & 0o077 == 0
    for file in settings.data_dir.glob("timeline-*"):
        file.write_bytes(b"no database" * 500)
    found = read_timeline(settings)
    assert [session.id for session in found.sessions] == ["22222222-bbbb"]
    assert "is damaged" in found.notes[-1] and "Remove it" in found.notes[-1]


# The event log, the demo, and the curve


def test_the_event_log_is_on_the_same_axis(settings: Settings) -> None:
    log = EventLog(settings.data_dir / EVENTS_FILE, lambda: 1_770_000_000.0)
    whose: Any = {"agent": settings.agent, "workspace": str(settings.workspace)}
    log.add("fallback", "full-text instead of openai", reason="401", **whose)
    log.add("doctor", "0 errors", **whose)
    log.add("sync", "The sync failed.", counts={"failed": 1}, **whose)
    log.add("sync", "of another", agent="other", workspace="/x")
    log.close()
    found = {(moment.kind, moment.state, moment.why) for moment in read_timeline(settings).moments}
    assert found == {("fallback", "", "401"), ("sync", "failed", "")}


def test_the_demo_has_one_of_each(tmp_path: Path, settings: Settings) -> None:
    workspace = write_demo(tmp_path / "demo", datetime.date(2026, 3, 31))
    sessions = tmp_path / "demo/agents/main/sessions"
    chosen = replace(
        settings, workspace=workspace, openclaw=replace(settings.openclaw, sessions_dir=sessions)
    )
    found = read_timeline(chosen)
    states = [moment.state for moment in found.moments if moment.kind == "flush"]
    assert {name: states.count(name) for name in set(states)} == {"wrote": 5, "no-reply": 1, "skipped": 1}
    ((session, (missed,)),) = missed_flushes(chosen)
    assert (session.title, missed.tokens, found.missed) == ("Network day", 192_406, 1)
    assert [moment.session[:4] for moment in found.moments if moment.kind == "snapshot"] == ["5b0f"]
    assert not any(session.curve.estimated for session in found.sessions)
    # A flush runs at the flush threshold or above, never below.
    assert all(m.tokens >= LINE for m in found.moments if m.kind == "flush" and m.tokens)
    assert all(session.curve.peak < session.window for session in found.sessions)


def test_the_curve_in_columns_and_as_bars() -> None:
    curve = Curve()
    for at, tokens in ((10, 5), (12, 40), (30, 100)):
        curve.times.append(at)
        curve.tokens.append(tokens)
    assert curve.columns(0, 40, 4) == [None, 40, 40, 100]
    assert (curve.before(10), curve.before(11), curve.after(12), curve.after(30)) == (None, 5, 100, None)
    assert sparkline([None, 0, 50, 99, 100, 300], 100) == " ▁▄▇██"
    assert sparkline([None, 0, 50, 99, 100, 300], 100, "▁▂▃") == " ▁▂▂▃▃"
