"""Curation on real notes and indexes: what is known of searches, the dry run, writing and rejecting."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from openclaw_mem_engine.curation.curator import Curator, judged_probes
from openclaw_mem_engine.curation.dry_run import Effect, Probe, answers, compared, line_after
from openclaw_mem_engine.curation.material import NoteCandidate
from openclaw_mem_engine.demo import ANCHOR, write_demo
from openclaw_mem_engine.errors import IndexDamaged, NoteChanged, UsageError
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.model import Expected
from openclaw_mem_engine.notes.edit import NoteEdit
from support.damage import zero
from support.flushes import Talk
from support.memories import open_memory, settings_for, write_notes

NOON = datetime.datetime.combine(ANCHOR, datetime.time(12), datetime.UTC).timestamp()


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    base = tmp_path_factory.mktemp("curated")
    state = str(base / "demo")
    workspace = write_demo(base / "demo", ANCHOR)
    with open_memory(workspace, base / "home", clock=lambda: NOON, OPENCLAW_STATE_DIR=state) as memory:
        memory.sync()
        yield memory


def test_the_demo_shows_its_problems_and_the_dry_run_is_what_happens(demo: Memory) -> None:
    curator = Curator(demo.settings, lambda: NOON)
    demo.expected.toggle(Expected("MEMORY.md", 113))  # the last line of "Lessons learned": the duplicate
    demo.expected.toggle(Expected("MEMORY.md", 30))
    material = curator.material(demo)
    found = curator.candidates(material)
    assert [candidate.kind for candidate in found] == ["outdated", "duplicate", "over-budget"]
    assert material.budget.lines > 200 and material.recalls and material.hidden_share > 0
    assert demo.settings.workspace.joinpath("MEMORY.md").read_text("utf-8") == (material.memory or 0).text  # type: ignore[union-attr]
    probes = curator.probes(material)
    assert len(probes) > len(judged_probes(demo.settings)) > 20
    before = answers(demo, demo.knobs, probes)
    predicted = {candidate.kind: curator.effect(demo, candidate.edits, material) for candidate in found}
    for candidate in found:
        written = curator.apply(candidate.edits)
        demo.sync()
        after = answers(demo, demo.knobs, probes)
        effect = compared(probes, demo.expected.read(), candidate.edits, before, after)
        assert effect == predicted[candidate.kind]
        assert effect.judged > 20 and effect.shown_after >= effect.shown_before - 1
        curator.undo(written)
        demo.sync()
    assert predicted["over-budget"].moved and "MRR of " in predicted["over-budget"].sentence
    still = predicted["outdated"].sentence
    assert still == f"no result changes ({predicted['outdated'].queries} queries tested)"
    pins = {pin.location: pin for pin in predicted["duplicate"].pins}
    assert pins["MEMORY.md:113"].after is None
    curator.close()


def test_without_the_planted_entries_the_demo_has_no_candidates(demo: Memory) -> None:
    curator = Curator(demo.settings, lambda: NOON)
    material = curator.material(demo)
    for _ in range(3):
        curator.apply(curator.candidates(material)[0].edits)
        material = curator.material(demo)
    assert curator.candidates(material) == []
    curator.close()


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    notes = {
        "MEMORY.md": "# M\n\n" + "- the spare key hangs behind the blue door\n" * 2,
        "memory/2026-02-14.md": "# d\n\nVLAN 10 is for the house and its guests.\n",
    }
    return write_notes(tmp_path / "ws", notes)


@pytest.fixture
def curator(workspace: Path, tmp_path: Path) -> Iterator[Curator]:
    settings = settings_for(
        workspace, tmp_path / "home", OPENCLAW_MEM_PROVIDER="none", OPENCLAW_STATE_DIR=str(tmp_path / "state")
    )
    curator = Curator(settings)
    yield curator
    curator.close()


def test_no_effect_is_measured_where_all_notes_would_be_sent_again(workspace: Path, tmp_path: Path) -> None:
    server = {
        "OPENCLAW_MEM_STORE": "postgres",
        "OPENCLAW_MEM_STORE_SERVERS": "postgresql://mem@db/memory",
        "OPENCLAW_MEM_STORE_AGENT": "a",
    }
    for variables, message in (
        (server, "on a server would send all notes to api.test again"),
        ({}, "needs the index"),
    ):
        curator = Curator(settings_for(workspace, tmp_path / "home", **variables))
        material = curator.material()
        edits = curator.candidates(material)[0].edits
        memory: Any = SimpleNamespace(hosts=("api.test",))
        with pytest.raises(UsageError, match=message):
            curator.effect(memory, edits, material)
        curator.close()


def only(curator: Curator) -> NoteCandidate:
    (candidate,) = curator.candidates(curator.material())
    return candidate


def test_searches_come_from_transcripts_and_from_the_tool_command(curator: Curator, tmp_path: Path) -> None:
    sessions = tmp_path / "state" / "agents" / "main" / "sessions"
    found = {
        "results": [
            {"path": "memory/2026-02-14.md", "startLine": 1, "endLine": 3, "score": 0.5},
            {"path": "a.md"},
        ]
    }
    talk = Talk()
    talk.call("memory_search", json.dumps(found), query="which vlan has the house")
    talk.call("memory_search", '{"results": []}', query="nothing")
    talk.save(sessions)
    curator.state.add_search("password=hunter2secret vlan", [("memory/2026-02-14.md", 3, 3)])
    material = curator.material()
    assert [recall.passages for recall in material.recalls] == [
        (("memory/2026-02-14.md", 1, 3),),
        (("memory/2026-02-14.md", 3, 3),),
    ]
    assert material.count_of("memory/2026-02-14.md") == 2
    assert "hunter2" not in material.recalls[-1].query
    assert [probe.query for probe in curator.probes(material)] == [
        "password=*** vlan",
        "which vlan has the house",
    ]


def test_rejected_candidates_come_back_only_when_restored(curator: Curator) -> None:
    candidate = only(curator)
    curator.state.reject(candidate.id)
    material = curator.material()
    assert curator.candidates(material) == []
    assert [found.id for found in curator.candidates(material, rejected=True)] == [candidate.id]
    curator.state.restore(candidate.id)
    assert only(curator).id == candidate.id


def test_a_note_that_changed_meanwhile_is_not_written(curator: Curator, workspace: Path) -> None:
    candidate = only(curator)
    with (workspace / "MEMORY.md").open("a") as file:
        file.write("- another entry\n")
    with pytest.raises(NoteChanged):
        curator.apply(candidate.edits)
    assert (workspace / "MEMORY.md").read_text().endswith("blue door\n- another entry\n")
    with pytest.raises(UsageError):
        curator.apply(())


def test_several_edits_are_all_written_or_none(curator: Curator, workspace: Path) -> None:
    edits = (
        NoteEdit("memory/new.md", None, "# new\n", "curate"),
        NoteEdit("MEMORY.md", "what it was some time ago", "- Moved\n", "curate"),
    )
    with pytest.raises(NoteChanged):
        curator.apply(edits)
    assert not (workspace / "memory/new.md").exists() and "blue door" in (workspace / "MEMORY.md").read_text()
    good = replace(edits[1], before=curator.editor.read("MEMORY.md"))
    written = curator.apply((edits[0], good))
    assert (workspace / "MEMORY.md").read_text() == "- Moved\n"
    curator.undo(written)
    assert not (workspace / "memory/new.md").exists() and "blue door" in (workspace / "MEMORY.md").read_text()


def test_a_note_that_cannot_be_read_is_named_and_the_others_are_looked_at(
    curator: Curator, workspace: Path
) -> None:
    curator.settings = replace(curator.settings, max_file_bytes=150)
    (workspace / "memory/2026-02-15.md").write_text("x" * 151)
    read, refused = curator.editor.read, workspace / "memory/2026-02-14.md"

    def failing(path: str) -> str | None:
        if path == "memory/2026-02-14.md":
            refused.unlink(missing_ok=True)
            refused.symlink_to(workspace / "MEMORY.md")
        return read(path)

    curator.editor.read = failing  # type: ignore[method-assign]
    material = curator.material()
    assert [text.split(" ")[0] for text in material.unread] == ["memory/2026-02-14.md"]
    assert material.unread[0].count("memory/2026-02-14.md") == 1
    assert len(curator.candidates(material)) == 1


def test_notes_outside_of_the_workspace_are_copied_too(tmp_path: Path, workspace: Path) -> None:
    write_notes(tmp_path / "other", {"lab.md": "The oscilloscope is on loan to the school.\n"})
    environ = {"OPENCLAW_MEM_PROVIDER": "none"}
    settings = settings_for(workspace, tmp_path / "home", **environ)
    settings = replace(settings, extra_paths=(str(tmp_path / "other"),))
    with Memory.open(settings) as memory:
        memory.sync()
        curator = Curator(settings)
        curator._judged = (Probe("who has the oscilloscope", ("on loan to the school",)),)
        effect = curator.effect(memory, only(curator).edits, curator.material())
        curator.close()
        before = answers(memory, memory.knobs, [Probe("who has the oscilloscope")])
    assert (effect.quotes, effect.shown_before, effect.shown_after, effect.mrr_before) == (1, 1, 1, 1.0)
    assert before[0][0].path.endswith("other/lab.md")


def test_without_queries_nothing_is_claimed(curator: Curator) -> None:
    with Memory.open(curator.settings) as memory:
        effect = curator.effect(memory, only(curator).edits, curator.material())
    assert effect.sentence.startswith("not measured, because no searches are recorded")
    assert effect == Effect(0, (), (), 0, 0, 0, 0, 0.0, 0.0)


def test_damage_that_a_copy_shows_is_that_of_the_index_itself(curator: Curator) -> None:
    with Memory.open(curator.settings) as memory:
        memory.sync()
    zero("chunks", curator.settings)
    with (
        Memory.open(curator.settings) as memory,
        pytest.raises(IndexDamaged, match=re.escape(f"File: {curator.settings.index_path}") + "$"),
    ):
        curator.effect(memory, only(curator).edits, curator.material())


def test_lines_are_followed_through_edits() -> None:
    old = "# M\n\n## A\n- one\n- two\n\n## B\n- three\n"
    moved = NoteEdit("MEMORY.md", old, "# M\n\n## A\n- Moved.\n\n## B\n- three\n", "curate")
    new = NoteEdit("memory/a.md", None, "# A\n- one\n- two\n", "curate")
    changed = {edit.path: edit for edit in (new, moved)}
    found = {line: line_after(Expected("MEMORY.md", line), changed) for line in (1, 5, 8, 90)}
    assert found == {
        1: Expected("MEMORY.md", 1),
        5: Expected("memory/a.md", 3),
        8: Expected("MEMORY.md", 7),
        90: None,
    }
    assert line_after(Expected("x.md", 3), changed) == Expected("x.md", 3)
