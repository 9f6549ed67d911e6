"""``openclaw-mem timeline``: what people and programs get of it."""

from __future__ import annotations

from pathlib import Path

from support.commands import Call, World
from support.flushes import Talk, save_index


def sessions_of(world: World) -> Path:
    return world.home / ".openclaw/agents/main/sessions"


def test_nothing_to_show_is_said(call: Call, world: World) -> None:
    said = call("timeline")
    assert said.code == 0 and "there are no transcripts" in said.out
    assert said.out.endswith("0 sessions, 0 missed flushes.\n")
    sessions_of(world).mkdir(parents=True)
    assert call("timeline").out.splitlines()[0] == f"No transcript of a session is in {sessions_of(world)}."
    assert not (world.data / "indexes").exists()


def test_sessions_with_missed_flushes(call: Call, world: World) -> None:
    talk = Talk().answer("a", 100_000).compaction(190_000).answer("b", 177_000).flush().compaction(178_000)
    talk.call("memory_search", '{"results":[{"path":"MEMORY.md","startLine":2,"score":0.5}]}', query="router")
    talk.save(sessions_of(world))
    save_index(sessions_of(world), agent__main__main={"sessionId": talk.id, "displayName": "Ines"})
    said = call("timeline")
    lines = said.out.splitlines()
    assert lines[0] == "main  Ines  2026-02-14"
    assert set(lines[1].strip()) <= set("▁▂▃▄▅▆▇█ ") and "█" in lines[1]
    assert lines[2] == "  peak 190,000 of 200,000 tokens, flush threshold 176,000 (█)"
    texts = [line[20:] for line in lines[3:]]
    assert "compaction     190,000 → 177,000 tokens, compacted without a flush" in texts
    assert "flush          wrote memory/2026-02-14.md, +1 line (at 177,000 tokens)" in texts
    assert "0.500  MEMORY.md:2" in texts
    assert lines[-1] == "1 session, 1 missed flush (compacted without a flush before it)."
    flushes = call("timeline", "--kind", "flush").out
    assert flushes.count("2026-02-14 ") == 1 and ", 1 missed flush " in flushes
    missed = call("timeline", "--kind", "missed", "--json").json["events"]
    assert [event["state"] for event in missed] == ["missed"]
    assert call("timeline", "--since", "2026-03-01").out.endswith("0 sessions, 0 missed flushes.\n")
    for name in ("main", "agent:main:main", "1111"):
        found = call("timeline", "--session", name, "--json").json
        assert [session["missedFlushes"] for session in found["sessions"]] == [1]
        assert [(row["path"], row["added"]) for row in found["files"]] == [("memory/2026-02-14.md", 1)]
        assert {event["kind"] for event in found["events"]} == {"compaction", "flush", "search"}


def test_a_long_text_is_wrapped_and_one_that_is_cut_ends_in_an_ellipsis(call: Call, world: World) -> None:
    talk = Talk().call("memory_search", "{}", query=f"router {'of the house ' * 12}end")
    talk.call("memory_search", f"{'it failed ' * 60}", failed=True, query="vlan").save(sessions_of(world))
    lines = call("timeline").out.splitlines()
    assert all(len(line) <= 100 for line in lines)
    assert " ".join(" ".join(lines).split()).count("of the house") == 12, "nothing of the query is lost"
    assert any(line.endswith("…") for line in lines)


def test_a_session_that_was_reset_is_found_by_its_id(call: Call, world: World) -> None:
    path = Talk().answer("a", 1_000).save(sessions_of(world))
    path.rename(f"{path}.reset.2026-02-15T00-00-00.000Z")
    assert call("timeline", "--session", "1111").out.startswith("11111111  2026-02-14\n")


def test_wrong_options_are_refused(call: Call, world: World) -> None:
    Talk().save(sessions_of(world))
    wrong = call("timeline", "--session", "none")
    assert (wrong.code, wrong.out) == (2, "") and "Agent main has no session 'none'. Its" in wrong.err
    said = call("timeline", "--kind", "flushes").err
    assert "allowed: flush, compaction" in said and "Did you mean flush?" in said
    assert call("timeline", "--limit", "0").code == 2
    assert call("timeline", "--since", "soon").code == 2
