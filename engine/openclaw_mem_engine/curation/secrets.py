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
    """One for each line of any note, and for each block with a private key. What is shown of it is masked;
    the edit takes it out."""
    for note in material.notes.values():
        found = [
            (number, number, "looks like a credential: keep it in a vault and take the line out", masked)
            for number, masked in credentials(note.text)
            if "-----BEGIN" not in masked  # of which the whole block counts
        ]
        for first, last in _private_keys(note.lines):
            what = "begins a private key: keep it in a vault and take it out"
            found.append((first, last, what, "a block between BEGIN and END marks"))
        for first, last, what, shown in found:
            at = f"{note.path}:{first}"
            lines = at if first == last else f"{at}-{last}"
            after = without_lines(note.text, range(first, last + 1))
            yield NoteCandidate(
                candidate_id("secret", note.path, *note.lines[first - 1 : last]),
                "secret",
                f"{at} {what}",
                (f"{lines}: {short(shown, QUOTED)}",),
                (NoteEdit(note.path, note.text, after, "curate: secret"),),
                at,
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
