"""``remember`` and ``undo`` as commands: shown first, written after a yes, taken back."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from openclaw_mem_engine.cli.main import run
from openclaw_mem_engine.notes.edit import NoteEdit
from openclaw_mem_engine.notes.editor import NoteEditor, Written
from support.commands import Call, World


@pytest.fixture
def note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("OPENCLAW_MEM_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("OPENCLAW_MEM_WORKSPACE", str(tmp_path / "ws"))
    (tmp_path / "ws").mkdir()
    note = tmp_path / "ws" / "MEMORY.md"
    note.write_text("# Memory\n\n## Network\n- VLAN 10 home\n")
    return note


def test_written_after_a_yes_and_taken_back(note: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = note.read_text()
    assert run(["remember", "--dry-run", "VLAN 20 is for guests"]) == 0
    shown = capsys.readouterr().out
    assert "MEMORY.md, section “Network”" in shown and "+- VLAN 20 is for guests" in shown
    assert note.read_text() == before
    assert run(["remember", "VLAN 20 is for guests"]) == 2  # nothing to ask on, and no --yes
    assert note.read_text() == before
    capsys.readouterr()
    assert run(["remember", "--yes", "--json", "VLAN 20 is for guests"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["written"]["added"] == 1 and note.read_text() == before + "- VLAN 20 is for guests\n"
    assert run(["remember", "--yes", "VLAN 20 is for guests"]) == 0
    assert "contains that already" in capsys.readouterr().out
    assert run(["undo", "--list"]) == 0
    assert "remember" in capsys.readouterr().out
    assert run(["undo", "--yes"]) == 0
    assert note.read_text() == before
    assert run(["undo", "--yes"]) == 2
    assert "no change left to undo. To undo an undo, name its number. `" in capsys.readouterr().err
    assert run(["undo", "2", "--yes"]) == 0 and note.read_text() != before
    assert run(["undo", "1", "--show"]) == 0


@pytest.mark.parametrize(("target", "code"), [("daily", 0), ("memory", 5)])
def test_an_undo_writes_what_was_shown_whatever_was_edited_since(
    note: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, target: str, code: int
) -> None:
    before = note.read_text()
    assert run(["remember", "--yes", "--to", "memory", "VLAN 20 is for guests"]) == 0

    def asked() -> str:
        assert run(["remember", "--yes", "--to", target, "VLAN 30 is for cameras"]) == 0
        return "yes"

    monkeypatch.setattr("openclaw_mem_engine.cli.remember.ask", asked)
    assert run(["undo"]) == code
    said = capsys.readouterr()
    if target == "daily":
        assert "undone: 1 line removed from MEMORY.md" in said.out and note.read_text() == before
        (daily,) = (note.parent / "memory").iterdir()
        assert "VLAN 30" in daily.read_text()
    else:
        assert "MEMORY.md was modified meanwhile: nothing was written." in said.err
        assert "VLAN 20" in note.read_text() and "VLAN 30" in note.read_text()


def test_with_yes_a_note_that_others_write_meanwhile_gets_the_text_too(
    note: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write, others = NoteEditor.write, ["- VLAN 30 is for cameras\n", "- VLAN 40 is for printers\n"]

    def late(editor: NoteEditor, edit: NoteEdit) -> Written:
        if others:
            note.write_text(note.read_text() + others.pop())
        return write(editor, edit)

    monkeypatch.setattr(NoteEditor, "write", late)
    assert run(["remember", "--yes", "VLAN 20 is for guests"]) == 0
    assert [line[:9] for line in note.read_text().splitlines()[3:]] == [f"- VLAN {n}0" for n in (1, 4, 3, 2)]
    said = capsys.readouterr()
    assert said.err.count("MEMORY.md was modified meanwhile: the text is added to what it holds now.") == 2
    assert "written: 1 line added to MEMORY.md." in said.out


def test_what_looks_like_a_credential_is_said(note: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key = "the key of the NAS is sk-abcdefgh1234567890"
    for words in (["remember", "--dry-run", key], ["memories", "store", key]):
        assert run(words) == 0
        shown = capsys.readouterr()
        assert (shown.out + shown.err).count(
            "The text looks like a credential: every search may show it."
        ) == 1
    assert run(["remember", "--dry-run", "the key of the NAS is in drawer 4"]) == 0
    assert "credential" not in capsys.readouterr().out


def test_one_key_sends_a_text_to_the_other_note(
    note: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is no answer is asked again; the end of the input is a no."""
    monkeypatch.setattr("openclaw_mem_engine.cli.remember.can_ask", lambda: True)
    before = note.read_text()
    for keys, written in (("d\n?\nn\n", False), ("d\n", False), ("m\nd\n\n", True)):
        monkeypatch.setattr("sys.stdin", io.StringIO(keys))
        assert run(["remember", "VLAN 20 is for guests"]) == 0
        shown = capsys.readouterr()
        assert "To be saved as a fact in memory/" in shown.out and "chosen by hand)" in shown.out
        assert "[d] into the daily log" in shown.err
        assert ("added to memory/" in shown.out) == written
    (daily,) = (note.parent / "memory").iterdir()
    assert daily.read_text().endswith(" VLAN 20 is for guests\n") and note.read_text() == before


def test_text_of_notes_acts_on_nothing(note: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["remember", "--yes", "key is \x1b[31mred\u202e"]) == 0
    assert "\x1b[31m" not in capsys.readouterr().out.replace("\x1b[1m", "")


def test_a_missing_workspace_is_said(note: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--workspace", str(tmp_path / "none"), "remember", "--yes", "x"]) == 5
    assert "does not exist" in capsys.readouterr().err and not (tmp_path / "none").exists()


def test_what_is_written_into_an_excluded_note_is_said_not_to_be_found(call: Call, world: World) -> None:
    world.write("MEMORY.md", b"# Memory\n\ncaf\xe9\n")
    said = call("remember", "the router is heron", "--to", "memory", "--yes")
    assert "written: " in said.out and "a search cannot find it: MEMORY.md" in said.out
    assert "a search cannot find it" not in call("remember", "the disk is full", "--to", "daily", "--yes").out


def test_the_text_before_an_edit_that_made_the_note(note: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["remember", "--yes", "--to", "daily", "VLAN 20 is for guests"]) == 0
    capsys.readouterr()
    assert run(["undo", "1", "--show"]) == 0
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "openclaw-mem: The note did not exist before change 1.\n")
