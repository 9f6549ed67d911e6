"""Undo of changes of notes: what was shown is written, and what others wrote since stays."""

from __future__ import annotations

import difflib
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.errors import NoteChanged, UsageError
from openclaw_mem_engine.notes.edit import NoteEdit, reverted
from openclaw_mem_engine.notes.editor import NoteEditor
from support.memories import empty_workspace

DAY, OTHER = "memory/2026-02-14.md", "memory/2026-02-15.md"
#: Why an undo is refused that would have to guess.
UNCLEAR = "what that changed is not as it left it, or other lines are like it"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return empty_workspace(tmp_path)


def _note(settings: Settings, path: str) -> Path:
    return settings.workspace / path


def test_undo_refuses_after_a_later_change_and_takes_back_a_new_note(settings: Settings) -> None:
    editor = NoteEditor(settings)
    first = editor.append(DAY, "a", "test")
    for changed in ("A\n", "", "mine\n"):
        _note(settings, DAY).write_text(changed)
        with pytest.raises(NoteChanged, match=UNCLEAR):
            editor.undo()
        assert _note(settings, DAY).read_text() == changed
    _note(settings, DAY).write_text("a\n")
    back = editor.undo()
    assert back.undoes == first.id and not _note(settings, DAY).exists()
    assert [edit.undone for edit in editor.history()] == [False, True]
    with pytest.raises(UsageError):
        editor.undo()
    editor.undo(back.id)  # an undo can be undone
    assert [edit.undone for edit in editor.history()] == [False, True, False]
    assert _note(settings, DAY).read_text() == "a\n"


@pytest.mark.parametrize(
    ("before", "after", "now", "undone"),
    [
        (None, "# Day\n\n- ours\n", "# Day\n\n- ours\n- theirs\n", "- theirs\n"),
        ("a\n", "a\nours\n", "a\nours\ntheirs\n", "a\ntheirs\n"),
        ("a\n", "a\nours\n", "a\ntheirs\nours\n", "a\ntheirs\n"),
        ("a", "a\nours\n", "a\nours\ntheirs\n", "a\ntheirs\n"),
        ("a\r\nb", "a\r\nb\r\nours\r\n", "a\r\nb\r\nours\r\nc\r\n", "a\r\nb\r\nc\r\n"),
        ("a\nb\nc\n", "a\nc\n", "0\na\nc\nd\n", "0\na\nb\nc\nd\n"),
        ("a\nb\n", "a\n", "0\na\n", "0\na\nb\n"),
        ("a\nb\nc\n", "a\nB\nc\n", "A\nB\nC\n", "A\nb\nC\n"),
        ("a\nb\nc\nd\n", "A\nb\nc\nD\n", "A\nb\n\nc\nD\ne\n", "a\nb\n\nc\nd\ne\n"),
        ("a\n", "a\nours\n", "a\nOurs\n", None),
        ("a\n", "a\nours\nand\n", "a\nours\ntheirs\nand\n", None),
        ("a\nb\n", "a\n", "a\nc\n", None),  # where b was, is c now
        ("a\nb\nc\n", "A\nb\nC\n", "A\nb\nc2\n", None),
        ("a\nb\n", "a\nb\nb\n", "A\nb\n", None),  # which of the two was removed?
        ("a\n", "a\nours\n", "A\nours\nours\n", None),
        ("\na", "a\n\na", "\na\nc\n", None),  # nor is it known of one that had no end
        ("a\nb\n\nc\nb\nours\nd\n", "a\nb\n\nc\nb\nd\n", "a\nb\nd\n\nc\nb\nd\n", None),
    ],
)
def test_an_undo_keeps_what_others_changed_in_other_lines(
    settings: Settings, before: str | None, after: str, now: str, undone: str | None
) -> None:
    note, editor = _note(settings, DAY), NoteEditor(settings)
    if before is not None:
        note.write_bytes(before.encode())
    editor.write(editor.propose(DAY, after, "test"))
    note.write_bytes(now.encode())
    if undone is None:
        with pytest.raises(NoteChanged, match=UNCLEAR):
            editor.propose_undo()
    else:
        assert editor.propose_undo() == NoteEdit(DAY, now, undone, "undo of change 1 (test)", 1)
        editor.undo()
        assert note.read_bytes() == undone.encode() and editor.history()[1].undone
        editor.undo(2)
        assert note.read_bytes() == now.encode() if undone else not note.exists()


def test_an_undo_and_the_changes_of_others_commute(settings: Settings) -> None:
    """Long notes with lines that are alike, of which others change lines on both sides of ours."""
    chance, note, editor = random.Random(7), _note(settings, DAY), NoteEditor(settings)

    def lines(most: int) -> list[str]:
        return [
            chance.choice(("", "- same", f"- {chance.random()}")) + "\n"
            for _ in range(chance.randint(0, most))
        ]

    refused = 0
    for turn in range(60):
        fixed = [[f"-- {turn} {side}\n"] for side in range(2)]
        first, ours, last = lines(9), lines(4), lines(9)
        note.write_text("".join((*first, *fixed[0], *ours, *fixed[1], *last)))
        edit = editor.propose(DAY, "".join((*first, *fixed[0], *lines(4), *fixed[1], *last)), "test")
        if edit.is_empty:
            continue
        made = editor.write(edit)
        others = lines(9), lines(9)
        assert edit.after is not None
        inner = edit.after.partition(fixed[0][0])[2].partition(fixed[1][0])[0]
        note.write_text("".join((*others[0], *fixed[0], inner, *fixed[1], *others[1])))
        try:
            editor.undo(made.id)
        except NoteChanged:  # which of the lines that are alike is which is not known
            refused += 1
        else:
            assert note.read_text() == "".join((*others[0], *fixed[0], *ours, *fixed[1], *others[1]))
    assert refused < 20


@pytest.mark.parametrize(
    ("before", "after", "now", "why"),
    [
        ("a\n", "a\nours\n", None, f"{DAY} was deleted since change 1. "),
        ("a\n", None, "theirs\n", f"{DAY} was made again since change 1, which removed it. "),
        ("a\n", "a\nours\n", "a\nOurs\n", f"{DAY} was modified since change 1: {UNCLEAR}. "),
        (None, "ours\n", "Ours\n", f"{DAY} was modified since change 1: {UNCLEAR}. "),
    ],
)
@pytest.mark.parametrize("kept", [True, False])
def test_a_refusal_says_what_happened_to_the_note(
    settings: Settings, before: str | None, after: str | None, now: str | None, why: str, kept: bool
) -> None:
    note, editor = _note(settings, DAY), NoteEditor(settings)
    if before is not None:
        note.write_text(before)
    editor.write(editor.propose(DAY, after, "test"))
    note.unlink(missing_ok=True)
    if now is not None:
        note.write_text(now)
    if not kept:  # by an earlier version, or it is damaged
        for file in (settings.data_dir / "edits").rglob("after"):
            file.unlink()
        if now and after:
            why = (
                f"{DAY} was modified since change 1, and the text that this change left is not kept or "
                "damaged. "
            )
    hint = " `openclaw-mem undo 1 --show` prints what the note held before." if before else ""
    with pytest.raises(NoteChanged) as refused:
        editor.undo()
    assert str(refused.value) == f"{why}Nothing was undone.{hint}"


def test_the_undo_that_was_shown_is_written_whatever_was_edited_since(settings: Settings) -> None:
    editor = NoteEditor(settings)
    first = editor.append(DAY, "a", "test")
    shown = editor.propose_undo()
    editor.append(OTHER, "b", "test")
    assert editor.write(shown).undoes == first.id
    assert not _note(settings, DAY).exists() and _note(settings, OTHER).read_text() == "b\n"
    assert [edit.undone for edit in editor.history()] == [False, False, True]
    shown = editor.propose_undo()
    editor.append(OTHER, "c", "test")
    with pytest.raises(NoteChanged, match="modified meanwhile: nothing was written"):
        editor.write(shown)
    assert _note(settings, OTHER).read_text() == "b\nc\n"


def test_lines_that_fill_a_note_are_not_compared_with_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """That would take minutes, with the notes locked."""
    made: list[difflib.SequenceMatcher[str]] = []

    class Matcher(difflib.SequenceMatcher[str]):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            made.append(self)

    monkeypatch.setattr(difflib, "SequenceMatcher", Matcher)
    before = "".join(f"- entry {number}\n\n" for number in range(1_000))
    now = f"- first\n{before}- ours\n- theirs\n"
    assert reverted(NoteEdit(DAY, before, f"{before}- ours\n", ""), now) == now.replace("- ours\n", "")
    assert made and all("\n" in matcher.bpopular for matcher in made)  # type: ignore[attr-defined]


_LINES = st.sampled_from(["", "- a", "- b", "- c", "# d", "- e", "f", "g"])
#: A place, a line or None, and whether it replaces what is there: a line is put in, replaced or removed.
_STEPS = st.tuples(st.integers(0, 8), _LINES | st.none(), st.booleans())


def _changed(lines: Sequence[str], steps: Sequence[tuple[int, str | None, bool]]) -> list[str]:
    made = [*lines]
    for place, line, replaces in steps:
        at = min(place, len(made))
        made[at : at + (replaces or line is None)] = [] if line is None else [line]
    return made


@given(
    st.lists(_LINES, max_size=8),
    _STEPS,
    st.lists(_STEPS, max_size=3),
    st.sampled_from(["\n", "\r\n"]),
)
@example(["", "- a"], (0, "- a", True), [(1, "", True)], "\n")
def test_an_undo_takes_the_lines_of_its_edit_alone(
    base: list[str],
    ours: tuple[int, str | None, bool],
    theirs: list[tuple[int, str | None, bool]],
    ending: str,
) -> None:
    """Of lines that are alike too: none that was there before the edit is taken for one of the edit."""
    after = _changed(base, [ours])
    now = _changed(after, theirs)
    texts = ["".join(line + ending for line in lines) for lines in (base, after, now)]
    undone = reverted(NoteEdit(DAY, texts[0], texts[1], ""), texts[2])
    if undone is None:
        return
    old, new, present, left = (Counter(text.splitlines()) for text in (*texts, undone))
    assert left + (new - old) == present + (old - new)
    assert {*old} & {*new} & {*present} <= {*left}
