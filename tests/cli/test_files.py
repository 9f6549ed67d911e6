"""``openclaw-mem files`` and ``chunks``: how each file stands, and where it is cut."""

from __future__ import annotations

import pytest

from openclaw_mem_engine.api import FILE_STATES
from openclaw_mem_tui.features.index.render.files import STATES
from support.commands import Call, World


def test_before_the_first_index_every_file_is_new(call: Call, world: World) -> None:
    shown = call("files", "--json")
    assert shown.code == 0 and shown.json["state"] == "empty"
    assert {row["state"] for row in shown.json["files"]} == {"not-indexed"}
    assert "unshown" not in call("status").out, "nothing is known of chunks that are not there"
    assert world.indexes == [] and not world.data.exists(), "looking makes nothing"


def test_changed_files_come_first_with_what_to_do(call: Call, world: World) -> None:
    call("index")
    note = world.workspace / "MEMORY.md"
    note.write_text(note.read_text() + "One line more.\n")
    (world.workspace / "memory" / "evil\x1b[31m.md").write_text("hostile name\n")
    said = call("files")
    lines = said.out.splitlines()
    assert lines[0].startswith("modified") and "MEMORY.md" in lines[0] and "(+15 B)" in lines[0]
    assert lines[1].startswith("not indexed") and "^[[31m" in lines[1] and "\x1b" not in said.out
    assert "2 files to sync: `openclaw-mem index`" in lines[-1]
    only = call("files", "--changed", "--json").json["files"]
    assert [row["state"] for row in only] == ["modified", "not-indexed"]
    call("index")
    assert call("files", "--changed", "--json").json["files"] == []


def test_files_of_an_index_with_other_settings_are_stale(call: Call, world: World) -> None:
    call("index")
    other = ("--provider", "ollama")
    said = call("files", *other).out
    rows = said.splitlines()[:-1]
    assert rows and all(row.startswith("stale ") for row in rows) and "built with other settings" in said
    assert {row["state"] for row in call("files", "--changed", "--json", *other).json["files"]} == {"stale"}
    world.write("memory/later.md", "# Later\n")
    assert call("files", *other).out.startswith("not indexed  memory/later.md")
    assert {row["state"] for row in call("files", "--json").json["files"]} == {"up-to-date", "not-indexed"}


def test_chunks_tell_lines_sizes_and_what_is_shared(call: Call, world: World) -> None:
    long = "".join(f"On day {day} the tank held {day * 7} litres.\n" for day in range(150))
    (world.workspace / "memory" / "tank.md").write_text(long + "\tend \x1b[2J\n")
    call("index")
    anatomy = call("chunks", "memory/tank.md", "--json").json
    assert anatomy["state"] == "up-to-date" and anatomy["stored"] == len(anatomy["chunks"]) > 2
    assert anatomy["chunks"][1]["sharedLines"] > 0 and anatomy["chunks"][0]["startLine"] == 1
    said = call("chunks", "memory/tank.md:20", "--text")
    assert said.code == 0 and "up to date" in said.out and "tokens overlap" in said.out
    assert "#1 #2" in said.out and "    end ^[[2J" in said.out and "\x1b" not in said.out
    (world.workspace / "memory" / "tank.md").unlink()
    gone = call("chunks", "memory/tank.md")
    assert gone.code == 0 and "deleted on disk" in gone.out


def test_a_file_that_was_included_once_is_not_called_deleted(call: Call, world: World) -> None:
    (world.workspace / "plan.md").write_text("# Plan\nThe heron moves in.\n")
    (world.workspace / "memory" / "old.md").write_text("# Old\n")
    call("index", "--include", "plan.md")
    (world.workspace / "memory" / "old.md").unlink()
    lines = call("files", "--changed").out.splitlines()
    assert [line.split("  ")[0] for line in lines[:2]] == ["deleted", "not included"]
    assert "memory/old.md" in lines[0] and "plan.md" in lines[1] and "2 files to sync" in lines[-1]
    assert "not included any more" in call("chunks", "plan.md").out
    said = "1 deleted, 1 removed (no longer included)"
    assert f"  0 new or modified, {said}\n" in call("index").out
    assert f"0 files new or modified, {said}." in call("log").out
    assert call("index", "--include", "plan.md").code == 0
    assert "index: 1 removed (no longer included) in " in (call("search", "heron").err)
    assert "plan.md" not in call("files", "--changed").out
    (world.workspace / "people").mkdir()
    (world.workspace / "people" / "ada.md").write_text("# Ada\n")
    note = "Outside the memory, not searched by your agent: 2 Markdown files here."
    assert all(note in call(command).out for command in ("files", "status", "doctor"))
    assert not any(note in call(command, "--include", "**/*.md").out for command in ("files", "status"))
    assert "Outside the memory" not in call("search", "heron").out


def test_what_is_excluded_by_a_rule_or_a_setting_is_listed_with_the_reason(call: Call, world: World) -> None:
    world.write("memory/templates/day.md", "# Template\n")
    world.write("memory/.obsidian/x.md", "# Plug-in\n")
    assert call("config", "set", "--yes", "exclude=memory/templates/**", "extra_paths=none.md").code == 0
    call("index")
    rows = {row["path"]: row["why"] for row in call("files", "--json").json["files"] if row["why"]}
    status = call("status", "--json").json["freshness"]["excluded"]
    assert rows == {file["path"]: file["reason"] for file in status} and len(rows) == 3
    lines = [line for line in call("files").out.splitlines() if line.startswith("excluded ")]
    assert len(lines) == 3 and all(any(path in line for line in lines) for path in rows)


def test_the_words_for_states_are_those_of_the_workbench() -> None:
    assert [words.replace(" ", "-") for _mark, words, _role in STATES.values()] == [*FILE_STATES]


def test_a_note_beside_the_memory_is_refused_with_the_option_that_takes_it_in(
    call: Call, world: World
) -> None:
    (world.workspace / "my plan.md").write_text("# Plan\n")
    said = call("get", "my plan.md")
    how = "the option --include 'my plan.md' or the setting extra_paths takes it in"
    assert said.code == 4 and how in said.err
    assert how in call("why-not", "plan", "my plan.md", "--json").json["answer"]
    assert call("get", "my plan.md", "--include", "my plan.md").out == "# Plan\n"
    (world.workspace / ".obsidian").mkdir()
    for never in (".obsidian/a.md", "a.txt"):
        (world.workspace / never).write_text("x\n")
        said = call("get", never)
        assert said.code == 4 and "--include" not in said.err, "such a file is never taken in"


def test_a_folder_that_looks_like_a_workspace_is_proposed(
    bare: Call, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "try `openclaw-mem demo`" in bare("search", "router").err
    monkeypatch.chdir(world.workspace)
    said = bare("search", "router")
    assert said.code == 5 and said.err.endswith("The current folder looks like one: try --workspace .\n")
    assert bare("search", "router", "--workspace", ".").code == 0


def test_what_is_no_memory_is_named(call: Call) -> None:
    for path in ("nope.md", "/etc/passwd"):
        said = call("chunks", path)
        assert said.code == 2 and "neither in the index nor a memory file" in said.err
        assert "`openclaw-mem files` lists all files." in " ".join(said.err.split())
    assert "Did you mean MEMORY.md?" in call("chunks", "MEMORY.mdx").err
