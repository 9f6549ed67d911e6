"""Kill a process that writes notes, at every file operation of every kind of edit. POSIX only.

    uv run python benchmarks/note_kills.py [--kills 500]

A child appends to a log, changes MEMORY.md, moves a section into a new note (two edits), or undoes; it is
killed with SIGKILL at its n-th operation on files, for each n. Then every note must hold its old or its new
text; another program appends to each; the history must say which text it was, and nothing of that append may
be lost; the next edit must work, and nothing may be left beside the notes. Exit code 1 when anything is not
as it should be.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _bench import given, print_table

from openclaw_mem_engine.config.load import load_settings
from openclaw_mem_engine.notes.editor import NoteEditor

DAY, ROOT, MOVED = "memory/2026-02-14.md", "MEMORY.md", "memory/section.md"
OTHERS = b"- of another program\n"
BEFORE = {DAY: "# Day\r\n\r\n- one\r\n", ROOT: "# Memory\n\n## Section\n- a fact\n"}


def append(editor: NoteEditor) -> None:
    editor.append(DAY, "- two", "append")


def change(editor: NoteEditor) -> None:
    editor.write(editor.propose(ROOT, "# Memory\n\n## Section\n- another fact\n", "change"))


def move(editor: NoteEditor) -> None:
    """As curation does: the new note first, so that a kill between the two doubles text and loses none."""
    editor.write(editor.propose(MOVED, "# Section\n- a fact\n", "move"))
    editor.write(editor.propose(ROOT, "# Memory\n\n- Moved.\n", "move"))


def undo(editor: NoteEditor) -> None:
    editor.undo()


def remove(editor: NoteEditor) -> None:
    """Undo of an edit that made a note."""
    editor.undo()


EDITS: dict[str, Callable[[NoteEditor], None]] = {
    "append": append,
    "change": change,
    "move": move,
    "undo": undo,
    "remove": remove,
}


class Place:
    """A workspace with the notes of ``BEFORE``, and one edit that can be undone."""

    def __init__(self, root: Path, edit: str) -> None:
        self.workspace = root / "ws"
        for path, text in BEFORE.items():
            (self.workspace / path).parent.mkdir(parents=True, exist_ok=True)
            (self.workspace / path).write_bytes(text.encode())
        self.settings = load_settings(
            workspace=self.workspace, environ={"OPENCLAW_MEM_HOME": str(root / "data")}, home=root, cwd=root
        )
        if edit == "undo":
            change(NoteEditor(self.settings))
        if edit == "remove":
            NoteEditor(self.settings).append(MOVED, "- a fact", "append")

    def texts(self) -> dict[str, bytes]:
        files = (path for path in self.workspace.rglob("*") if path.is_file())
        return {path.relative_to(self.workspace).as_posix(): path.read_bytes() for path in files}


def killed_at(place: Place, edit: str, step: int) -> bool:
    """Run an edit in a child that dies at its ``step``-th operation; whether it died."""
    editor, child = NoteEditor(place.settings), os.fork()
    if child == 0:
        seen = 0

        def hook(event: str, _arguments: tuple[object, ...]) -> None:
            nonlocal seen
            if event == "open" or event.startswith("os."):
                seen += 1
                if seen == step:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)
        EDITS[edit](editor)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def states_of(edit: str) -> list[dict[str, bytes]]:
    """The texts before and after each write of an edit: all that a kill may leave."""
    with tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder), edit)
        found = [place.texts()]
        editor, write = NoteEditor(place.settings), NoteEditor._write

        def watched(self: NoteEditor, *arguments: Any, **named: Any) -> object:
            done = write(self, *arguments, **named)
            found.append(place.texts())
            return done

        NoteEditor._write = watched  # type: ignore[method-assign, assignment]
        try:
            EDITS[edit](editor)
        finally:
            NoteEditor._write = write  # type: ignore[method-assign]
        return found


def run(kills: int, folder: Path) -> tuple[Counter[tuple[str, int]], list[str]]:
    """Kill as often; counts by edit and state, and what was wrong."""
    counts: Counter[tuple[str, int]] = Counter()
    wrong: list[str] = []
    states = {edit: states_of(edit) for edit in EDITS}
    step = 0
    while counts.total() < kills:
        step += 1
        died = False
        for edit, allowed in states.items():
            place = Place(folder / edit, edit)
            if killed_at(place, edit, step):
                died = True
                left = {path: text for path, text in place.texts().items() if not path.endswith(".tmp")}
                if left not in allowed:
                    wrong.append(f"{edit}, operation {step}: {left}")
                counts[edit, allowed.index(left) if left in allowed else -1] += 1
                for path in left:
                    with (place.workspace / path).open("ab") as note:
                        note.write(OTHERS)
                editor = NoteEditor(place.settings)
                editor.append("memory/next.md", "- next", "next")
                made = len([done for done in editor.history() if done.reason != "next"])
                expected = (allowed.index(left) if left in allowed else 0) + (edit in ("undo", "remove"))
                if made != expected:
                    wrong.append(f"{edit}, operation {step}: the history has {made} edits, not {expected}")
                expected_texts = {path: text + OTHERS for path, text in left.items()}
                if place.texts() != expected_texts | {"memory/next.md": b"- next\n"}:
                    wrong.append(f"{edit}, operation {step}: left: {place.texts()}")
            shutil.rmtree(folder / edit)
        step = step if died else 0  # all of them have fewer operations: once more
    return counts, wrong


def main() -> int:
    arguments = given(kills=500)
    began = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        counts, wrong = run(arguments.kills, Path(folder))
    rows = [
        (
            edit,
            sum(number for (name, _), number in counts.items() if name == edit),
            counts[edit, 0],
            sum(number for (name, state), number in counts.items() if name == edit and state > 0),
        )
        for edit in EDITS
    ]
    print_table("edits", [("edit", "kills", "old text", "new text"), *(tuple(map(str, row)) for row in rows)])
    print(f"{counts.total()} kills, {len(wrong)} wrong, {time.process_time() - began:.1f} s CPU")
    for text in wrong:
        print(text, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
