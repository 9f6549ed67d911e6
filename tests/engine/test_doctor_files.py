"""The doctor on the files that an index is made of: notes, transcripts, by-products, root files."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from openclaw_mem_engine.commands import REBUILD
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.model import chunk_id_of, text_hash
from openclaw_mem_engine.stores.base import FileChange, FileState, StoredChunk
from openclaw_mem_engine.stores.findings import Finding, folded
from openclaw_mem_engine.sync.report import SyncRequest
from openclaw_mem_engine.workspace import opening
from openclaw_mem_engine.workspace.reading import BOOTSTRAP_LIMIT, bootstrap_cut
from support.damage import NOTES, alter, codes, indexed, looked, named, sync, type_in
from support.goldens import golden
from support.memories import age, backend_of


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return indexed(tmp_path)


# -- notes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "text", "code"),
    [
        ("memory/network.md", "Router firmware 6 is fine.\n", "files-changed"),
        ("memory/network.md", None, "files-deleted"),
        ("memory/new.md", "New.\n", "files-not-indexed"),
    ],
)
def test_a_file_that_was_changed_is_told(settings: Settings, path: str, text: str | None, code: str) -> None:
    if text is None:
        (settings.workspace / path).unlink()
    else:
        (settings.workspace / path).write_text(text)
    found = named(looked(settings, deep=True), code)
    assert found.evidence == (path,) and found.repair == "openclaw-mem index"
    type_in(settings, found.repair)
    assert looked(settings, deep=True).findings == ()


def test_a_file_that_is_no_longer_included_is_not_called_deleted(settings: Settings) -> None:
    (settings.workspace / "plan.md").write_text("Plan.\n")
    with Memory.open(replace(settings, extra_paths=("plan.md",))) as memory:
        memory.sync()
    found = named(looked(settings), "files-not-included")
    assert found.evidence == ("plan.md",) and "deleted" not in found.text
    type_in(settings, found.repair)
    (beside,) = looked(settings, deep=True).findings
    assert (beside.code, beside.severity) == ("notes-not-included", "info")


def test_a_text_that_changed_behind_the_clock_is_an_error(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Same size, same time, another text: what a sync by times cannot see. Nothing was done to the file since
    it was read, as far as the system knows: bits that rot on a disk have no time."""
    path = settings.workspace / "memory/network.md"
    before = path.stat()
    with path.open("r+b") as file:
        file.write(b"Xouter")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    monkeypatch.setattr(opening, "RACY_NS", -60_000_000_000)
    found = named(looked(settings), "stale-hash")
    assert found.severity == "error" and found.evidence == ("memory/network.md",)
    assert found.repair == "openclaw-mem index --verify"
    sync(settings)
    assert "stale-hash" in codes(looked(settings)), "nothing less would do"
    type_in(settings, found.repair)
    assert looked(settings, deep=True).findings == ()


def test_deep_finds_a_chunk_that_the_notes_do_not_give(settings: Settings) -> None:
    """Consistent in itself, with a good id and hash, and yet not what the file holds."""
    from support.damage import raw

    with raw(settings) as connection:
        ((seq, path, last, content, model),) = connection.execute(
            "SELECT seq, path, end_line, lower(hex(hash)), spaces.model FROM chunks, spaces "
            "WHERE path = 'memory/network.md'"
        )
        moved = chunk_id_of("memory", path, 2, last, content, model)
        connection.execute("UPDATE chunks SET start_line = 2, id = ? WHERE seq = ?", (moved, seq))
    assert looked(settings).findings == ()
    found = named(looked(settings, deep=True), "differs-from-notes")
    assert sorted(found.evidence) == [
        "the index has too much memory/network.md:2-2",
        "the index lacks memory/network.md:1-2",
    ]
    type_in(settings, found.repair)
    assert looked(settings, deep=True).findings == ()


def test_a_note_that_cannot_be_indexed_is_a_remark(settings: Settings) -> None:
    (settings.workspace / "memory/link.md").symlink_to(settings.workspace / "MEMORY.md")
    found = named(looked(settings), "files-excluded")
    assert found.severity == "info" and found.evidence[0].startswith("memory/link.md: is a link")


def test_a_note_that_cannot_be_read_is_a_warning(settings: Settings) -> None:
    (settings.workspace / "memory/old.md").write_bytes(b"caf\xe9")
    type_in(settings, "openclaw-mem index")
    found = named(looked(settings), "files-unreadable")
    assert found.severity == "warning" and found.evidence[0].startswith("memory/old.md: not UTF-8")


def test_a_workspace_that_is_gone_is_an_error(settings: Settings) -> None:
    settings.workspace.rename(settings.workspace.with_name("elsewhere"))
    report = looked(settings)
    assert "does not exist" in named(report, "workspace").text
    assert report.errors == 1


def test_findings_of_one_code_and_repair_are_one_with_a_count() -> None:
    rows = [Finding("unreadable", "error", f"The check {n} failed.", ("row 1",), REBUILD) for n in range(8)]
    other = Finding("unreadable", "error", "Another way out.", (), "mv x")
    one, two = folded([*rows[:1], other, *rows[1:]])
    assert two == other
    assert one.text == "8 findings like this: The check 0 failed."
    assert one.evidence == ("row 1", *(f"The check {n} failed." for n in range(1, 5)))
    assert (one.code, one.severity, one.repair) == ("unreadable", "error", REBUILD)


def test_transcripts_are_compared_as_far_as_they_are_indexed(tmp_path: Path) -> None:
    settings = indexed(tmp_path)
    settings = replace(settings, sources=("memory", "sessions"))
    folder = settings.openclaw.sessions_dir
    folder.mkdir(parents=True)
    line = '{"type":"message","message":{"role":"user","content":"The code of the gate is %s"}}\n'
    (folder / "one.jsonl").write_text("".join(line % n for n in range(20)))
    age(folder / "one.jsonl")
    sync(settings)
    assert looked(settings, deep=True).findings == ()
    with (folder / "one.jsonl").open("a") as file:
        file.write(line % "new")
    assert looked(settings, deep=True).findings == (), "below its threshold it is as it should be"
    alter(settings, "UPDATE files SET hash = 'x' WHERE source = 'sessions'")
    assert named(looked(settings), "stale-hash").evidence == ("sessions/one.jsonl",)
    with Memory.open(settings) as memory:
        memory.sync(SyncRequest(verify=True))
    assert looked(settings, deep=True).findings == ()


# -- by-products --------------------------------------------------------------------------------------------


def test_by_products_of_the_agent_are_told_with_their_share(tmp_path: Path) -> None:
    dreams = {f"memory/dreaming/light/2026-02-{day:02}.md": f"Candidate {day}.\n" for day in range(1, 19)}
    settings = indexed(tmp_path, {**dreams, "memory/DREAMS.md": "Asleep.\n", "MEMORY.md": "A fact.\n"})
    found = named(looked(settings), "by-products")
    assert found.severity == "warning" and "(19 of 20 chunks, 95%)" in found.text
    assert found.repair == 'exclude = ["memory/DREAMS.md", "memory/dreaming/**"]'
    excluding = replace(settings, exclude=tuple(json.loads(found.repair.removeprefix("exclude = "))))
    sync(excluding)
    assert "by-products" not in codes(looked(excluding, deep=True))
    assert len(list((settings.workspace / "memory/dreaming/light").iterdir())) == 18


def test_kept_notes_of_an_emptied_workspace_are_a_warning_of_their_own(settings: Settings) -> None:
    shutil.rmtree(settings.workspace)
    settings.workspace.mkdir()
    report = looked(settings)
    assert "files-excluded" not in codes(report)
    found = named(report, "workspace-empty")
    assert found.severity == "warning" and "and searches still find them" in found.text


def test_hidden_folders_in_an_index_are_told(settings: Settings) -> None:
    """What an older program would have taken in: a sync leaves it out."""
    with Memory.open(settings) as memory:
        store, path, content = backend_of(memory).store, "memory/.dreams/x.md", text_hash("Asleep.")
        known = store.fingerprint()
        assert known is not None
        chunk_id = chunk_id_of("memory", path, 1, 1, content, known.model)
        chunk = StoredChunk(chunk_id, path, "memory", 1, 1, content, "Asleep.")
        store.apply(FileChange(FileState(path, "memory", "h", 1, 7, 1, 2), [chunk], [None]))
    found = named(looked(settings), "by-products")
    assert (found.evidence, found.repair) == (("memory/.dreams/x.md",), "openclaw-mem index")
    type_in(settings, found.repair)
    assert looked(settings, deep=True).findings == ()


def test_exported_conversations_are_told(tmp_path: Path) -> None:
    head = "# Session: 2026-02-20 23:59:07 UTC\n\n- **Session Key**: agent:main:main\n- **Session ID**: s\n\n"
    export = {"memory/2026-02-20-2359.md": head + "user: hello\n"}
    settings = indexed(tmp_path / "few", {**NOTES, **export})
    assert named(looked(settings), "session-exports").severity == "info"
    settings = indexed(tmp_path / "most", {**export, "memory/qmd.md": "# Session s-1\n\nUser: hello\n"})
    found = named(looked(settings), "session-exports")
    assert found.severity == "warning" and "2 of 2 chunks" in found.text


def test_databases_among_the_notes_are_told(settings: Settings) -> None:
    (settings.workspace / "memory/main.sqlite").write_bytes(b"")
    assert named(looked(settings), "database-in-memory").evidence == ("memory/main.sqlite",)


def test_an_index_in_the_workspace_is_told(settings: Settings) -> None:
    inside = replace(settings, index_path=settings.workspace / "memory/.index/main.sqlite")
    sync(inside)
    assert named(looked(inside), "index-in-workspace").severity == "warning"


# -- root files ---------------------------------------------------------------------------------------------


def test_a_memory_file_beyond_the_limit_is_told_with_the_line(tmp_path: Path) -> None:
    lines = [f"Fact {number:04} " + "x" * 39 for number in range(600)]  # 50 characters with the line end
    settings = indexed(tmp_path, {"MEMORY.md": "\n".join(lines)})
    found = named(looked(settings), "bootstrap-cut")
    assert "29,999 characters; the limit is 20,000" in found.text
    assert "lines 1-280 and from line 521 on" in found.text  # 14,000 and the last 4,000 characters
    assert found.repair == "openclaw-mem get MEMORY.md:280"


def test_a_memory_file_at_the_limit_is_fine(tmp_path: Path) -> None:
    settings = indexed(tmp_path, {"MEMORY.md": "é" * BOOTSTRAP_LIMIT + "\n\n"})
    found = looked(settings)
    assert found.findings == ()
    details = [check.detail for check in found.checks]
    assert any("MEMORY.md 20,000 of 20,000 characters, 1 line (200 advised)" in text for text in details)
    for times, said in (("1", "1 time, "), ("1200", "1,200 times, "), ("x", "an unknown number of times, ")):
        alter(settings, f"UPDATE meta SET value = '{times}' WHERE key = 'generation'")
        checks = {check.name: check.detail for check in looked(settings).checks}
        assert checks["format"].startswith(f"changed {said}")


@pytest.mark.goldens
def test_the_cut_is_that_of_the_agent() -> None:
    recorded = golden("bootstrap")
    text = "# long term\n" + "m" * 30_000
    for case in recorded["context"]:
        limit = case["limits"].get("maxChars", BOOTSTRAP_LIMIT)
        given = {file["path"]: file for file in case["files"]}.get("MEMORY.md")
        if given is None or "totalMaxChars" in case["limits"]:
            continue
        cut = bootstrap_cut(text, limit)
        assert cut is not None
        shown = cut.given("MEMORY.md")
        assert len(shown) == given["chars"]
        if "tail" in given and not given["tail"].endswith("…"):
            assert shown == given["tail"]
        assert case["warnings"][0].startswith(f"workspace bootstrap file MEMORY.md is {cut.units} chars")


def test_characters_are_counted_as_the_agent_counts_them() -> None:
    assert bootstrap_cut("🦀" * 10_000) is None
    cut = bootstrap_cut("🦀" * 10_001)
    assert cut is not None and cut.units == 20_002


# -- what no search can show --------------------------------------------------------------------------------


def test_text_beyond_every_snippet_is_a_warning_with_advice(tmp_path: Path) -> None:
    settings = indexed(tmp_path)
    assert "unshown" not in codes(looked(settings)), "lines are packed"
    head = replace(settings, query=replace(settings.query, profile="documented"))
    report = looked(head)
    found = named(report, "unshown")
    assert found.severity == "warning" and "of a chunk. 1 file has longer chunks. " in found.text
    assert 'chunking = {"tokens": 175, "overlap": 35}' in found.text and "query.snippet" in found.text
    (line,) = found.evidence
    hidden = report.unshown["memory/long.md"]
    assert "% of your notes' text can never appear in a search result. " in found.text
    assert line == f"memory/long.md: {hidden.text}" and hidden.hidden_lines > 40
    assert report.to_dict()["unshown"]["files"] == {"memory/long.md": hidden.to_dict()}


def test_a_wrong_count_of_what_is_not_shown_is_found_and_made_anew(tmp_path: Path) -> None:
    settings = indexed(tmp_path)
    alter(settings, "UPDATE unshown SET hidden_lines = 7 WHERE path = 'memory/long.md'")
    found = named(looked(settings), "unshown-differs")
    assert found.evidence == ("memory/long.md",) and "wrong counts" in found.text
    type_in(settings, found.repair)
    assert "unshown-differs" not in codes(looked(settings))


def test_no_advice_is_given_that_changes_nothing(tmp_path: Path) -> None:
    settings = indexed(tmp_path)
    small = replace(settings, chunking=replace(settings.chunking, tokens=175, overlap=35))
    with Memory.open(small) as memory:
        memory.sync()
    few = replace(small, query=replace(small.query, profile="documented", overrides={"snippet_chars": 200}))
    found = named(looked(few), "unshown")
    assert '{"tokens": 50, "overlap": 10}' in found.text
    assert "unshown" not in codes(looked(replace(few, query=replace(few.query, overrides={}))))
