"""Lines of notes that look like credentials."""

from __future__ import annotations

import re
from collections.abc import Iterator

from openclaw_mem_engine.curation.material import (
    QUOTED,
    Material,
    NoteCandidate,
    candidate_id,
    short,
    without_lines,
)
from openclaw_mem_engine.notes.edit import NoteEdit
from openclaw_mem_engine.redact import credentials

_MARK = re.compile(r"-----(BEGIN|END) [A-Z ]*PRIVATE KEY-----")


def secrets(material: Material) -> Iterator[NoteCandidate]:
    """One for each line of any note. What is shown of it is masked; the edit takes the line out."""
    for note in material.notes.values():
        for number, masked in credentials(note.text):
            if "-----BEGIN" in masked:
                continue  # the whole block is below
            after = without_lines(note.text, [number])
            yield NoteCandidate(
                candidate_id("secret", note.path, note.lines[number - 1]),
                "secret",
                f"{note.path}:{number} looks like a credential: keep it in a vault and take the line out",
                (f"{note.path}:{number}: {short(masked, QUOTED)}",),
                (NoteEdit(note.path, note.text, after, "curate: secret"),),
                f"{note.path}:{number}",
            )
        for first, last in _private_keys(note.lines):
            after = without_lines(note.text, range(first, last + 1))
            yield NoteCandidate(
                candidate_id("secret", note.path, *note.lines[first - 1 : last]),
                "secret",
                f"{note.path}:{first} begins a private key: keep it in a vault and take it out",
                (f"{note.path}:{first}-{last}: a block between BEGIN and END marks",),
                (NoteEdit(note.path, note.text, after, "curate: secret"),),
                f"{note.path}:{first}",
            )


def _private_keys(lines: list[str]) -> Iterator[tuple[int, int]]:
    """First and last line of each block with a private key."""
    first = 0
    for number, line in enumerate(lines, 1):
        if mark := _MARK.search(line):
            if mark[1] == "BEGIN":
                first = first or number
            elif first:
                yield first, number
                first = 0
