"""Where a thing to remember goes, and what is written."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from openclaw_mem_engine.config.load import load_settings
from openclaw_mem_engine.errors import UsageError
from openclaw_mem_engine.notes.editor import NoteEditor
from openclaw_mem_engine.notes.routing import kind_of, remember

NOW = datetime(2026, 2, 14, 9, 41)


@pytest.fixture
def editor(tmp_path: Path) -> NoteEditor:
    (tmp_path / "ws").mkdir()
    environ = {"OPENCLAW_MEM_HOME": str(tmp_path / "data")}
    return NoteEditor(load_settings(workspace=tmp_path / "ws", environ=environ, home=tmp_path, cwd=tmp_path))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("IDE: Windsurf", "fact"),
        ("the NAS is at 10.40.110.5", "fact"),
        ("Ines prefers calls after ten", "preference"),
        ("never buy ribbon R3", "preference"),
        ("we decided to keep SQLite", "decision"),
        ("from now on releases go out on Tuesday", "decision"),
        ("met Milo at the harbour", "event"),
        ("the build server crashed", "event"),
        ("call with Priya at 14:30", "event"),
        ("Ines wants to meet tomorrow", "event"),
        ("The dentist appointment was moved to Friday", "event"),
        ("Heute Milo getroffen", "event"),
        ("Hier, j’ai rencontré Milo", "event"),
        ("The wifi is called harbour-guest", "fact"),
        ("The lost and found is on floor 2", "fact"),
        ("Backups run at 03:00", "fact"),
        ("We moved to Berlin in 2019", "fact"),
        ("The photo library that Jonas once made and Milo lost is on the NAS", "fact"),
        ("Das WLAN heißt harbour-guest", "fact"),
        ("Hier ist der Schlüssel", "fact"),
        ("I’d rather have short answers", "preference"),
        ("Ich bevorzuge kurze Antworten", "preference"),
        ("Toujours répondre en français", "preference"),
        ("We'll use uv instead of pip", "decision"),
        ("Ab jetzt nur noch signierte Commits", "decision"),
        ("On a décidé de garder SQLite", "decision"),
        ("2026-02-10 Milo likes the new plotter", "event"),
        ("2026-02-10: we decided to keep SQLite", "decision"),
        ("The build of 2026-02-10 likes to fail", "preference"),
        ("I never met Milo", "fact"),
        ("The plotter always used ribbon R3", "fact"),
        ("always need two keys", "preference"),
    ],
)
def test_kinds(text: str, kind: str) -> None:
    found, why = kind_of(text)
    assert found == kind
    if "“" in why:  # the word that decided stands in the text
        assert why.split("“")[1].rstrip("”") in text.replace("’", "'")


def test_a_fact_goes_into_the_section_that_shares_its_words(editor: NoteEditor, tmp_path: Path) -> None:
    note = tmp_path / "ws" / "MEMORY.md"
    note.write_bytes(b"# M\r\n\r\n## Network\r\n- VLAN 10\r\n\r\n## Money\r\n- rate 98\r\n")
    proposal = remember(editor, "VLAN 20 is for the cameras", NOW)
    assert (proposal.route.section, proposal.route.target) == ("Network", "memory")
    editor.write(proposal.edit)
    assert note.read_bytes() == (
        b"# M\r\n\r\n## Network\r\n- VLAN 10\r\n- VLAN 20 is for the cameras\r\n\r\n## Money\r\n- rate 98\r\n"
    )
    again = remember(editor, "vlan 20 is for the cameras.", NOW)
    assert again.known == 5 and again.edit.is_empty


def test_an_event_goes_into_the_log_of_the_day_and_can_be_sent_elsewhere(editor: NoteEditor) -> None:
    first = remember(editor, "met Milo", NOW)
    assert first.edit.after == "# 2026-02-14\n\n- 09:41 met Milo\n"
    editor.write(first.edit)
    second = remember(editor, "shipped 1.9", NOW)
    assert second.edit.after == "# 2026-02-14\n\n- 09:41 met Milo\n- 09:41 shipped 1.9\n"
    chosen = remember(editor, "met Milo", NOW, "memory")
    assert chosen.edit.path == "MEMORY.md" and "chosen by hand" in chosen.route.why
    assert chosen.edit.after == "# Memory\n\n- met Milo\n"


def test_many_lines_become_one_item_and_nothing_is_refused(editor: NoteEditor) -> None:
    assert remember(editor, "a is\n b\n\n# c", NOW).edit.after == "# Memory\n\n- a is b # c\n"


def test_no_control_character_is_written(editor: NoteEditor) -> None:
    """A terminal that prints the note would act on it."""
    text = "the \x1b[31mrouter\x1b[0m \x9bis\x07 می\u200cخواهم\x85new\x00"
    assert remember(editor, text, NOW).edit.after == "# Memory\n\n- the [31mrouter[0m is می\u200cخواهم new\n"


@pytest.mark.parametrize("text", [" \n", "```", "***", "- "])
def test_a_text_that_says_nothing_is_refused(editor: NoteEditor, tmp_path: Path, text: str) -> None:
    (tmp_path / "ws" / "MEMORY.md").write_text("# M\n\n- a\n")
    with pytest.raises(UsageError, match="nothing to remember"):
        remember(editor, text, NOW)


def _written(editor: NoteEditor, note: Path, before: bytes, text: str) -> bytes:
    note.write_bytes(before)
    editor.write(remember(editor, text, NOW).edit)
    return note.read_bytes()


@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
def test_any_note_gets_one_line_and_keeps_its_own(editor: NoteEditor, tmp_path: Path, ending: bytes) -> None:
    note, item = tmp_path / "ws" / "MEMORY.md", b"- VLAN 20 is for guests"
    long = b"".join(b"- line %d%s" % (number, ending) for number in range(300))
    for before in (b"", b"VLAN 10 home" + ending, b"VLAN 10, no end", b"# Title" + ending * 2 + long):
        after = _written(editor, note, before, "VLAN 20 is for guests")
        if before:
            assert after.startswith(before) and after.endswith(item + (ending if ending in before else b"\n"))
            assert after.count(b"\n") == before.count(b"\n") + 1 + (not before.endswith(b"\n"))
        else:
            assert after == b"# Memory\n\n" + item + b"\n"
        if ending == b"\r\n" and ending in before:
            assert after.count(b"\n") == after.count(b"\r\n")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("# A\n## Network\n- VLAN\n# B\n- x\n", "# A\n## Network\n- VLAN\n- VLAN 20 is here\n# B\n- x\n"),
        ("# Network\n- VLAN\n\n# B\n- x\n", "# Network\n- VLAN\n- VLAN 20 is here\n\n# B\n- x\n"),
        (
            "## Network\n- VLAN\n### Old\n- y\n",
            "## Network\n- VLAN\n- VLAN 20 is here\n### Old\n- y\n",
        ),
        (
            "## Network\n- LAN\n```sh\n## VLAN 20 is here\n```\n## B\n",
            "## Network\n- LAN\n```sh\n## VLAN 20 is here\n```\n- VLAN 20 is here\n## B\n",
        ),
    ],
)
def test_a_section_ends_at_the_next_heading(
    editor: NoteEditor, tmp_path: Path, before: str, after: str
) -> None:
    note = tmp_path / "ws" / "MEMORY.md"
    assert _written(editor, note, before.encode(), "VLAN 20 is here").decode() == after


def test_rare_words_find_the_section(editor: NoteEditor, tmp_path: Path) -> None:
    """Words that every section has say nothing, not even in a heading, and no more do "the" and "has"; what
    shares no word with a section goes before them: below the last heading it would belong to that."""
    note = tmp_path / "ws" / "MEMORY.md"
    note.write_text("# M\n## The studio\n- the plotter\n## Lab\n- the NAS is heron\n## Home\n- the cat\n")
    assert remember(editor, "the NAS has a new disk", NOW).route.section == "Lab"
    assert remember(editor, "a cat and the plotter", NOW).route.section == "The studio"
    sections = "## People\n- Ada has the key\n## Home\n- the cat\n"
    for before, after in (
        ("# M\n", "# M\n\n- router has 900 ports\n"),
        ("# M\n\n- a\n\n", "# M\n\n- a\n- router has 900 ports\n\n"),
        ("", "- router has 900 ports\n\n"),
        ("---\na: b\n---\n", "---\na: b\n---\n\n- router has 900 ports\n"),
    ):
        note.write_text(before + sections)
        placed = remember(editor, "router has 900 ports", NOW)
        assert (placed.route.section, placed.edit.after) == ("", after + sections)
        assert placed.route.sentence.endswith("; no section fits it)"), "nor is one guessed in silence"


def test_what_the_log_of_the_day_says_is_not_written_again(editor: NoteEditor) -> None:
    editor.write(remember(editor, "met Milo", NOW).edit)
    again = remember(editor, "Met  Milo.", NOW.replace(hour=12))
    assert again.known == 3 and again.edit.is_empty
    other = remember(editor, "met Milo again", NOW)
    assert not other.known and other.edit.added == 1
