"""A proposed change of one note, and its unified diff. Nothing here touches a file."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from functools import cached_property

from openclaw_mem_engine.sanitize import counted

#: Stands for the end of a note, as "" does for its beginning: no line is like them.
_END = "\n\n"
_NO_NEWLINE = "\\ No newline at end of file"


@dataclass(frozen=True)  # without slots, for what is computed once
class NoteEdit:
    """A change of the note ``path`` (relative to the workspace, with ``/``) from the text ``before`` to
    ``after``; None stands for no file. Texts are exact: line endings, byte order mark, and bytes that are not
    UTF-8 (as surrogates). ``reason`` is one line for the history ("remember", "flush")."""

    path: str
    before: str | None
    after: str | None
    reason: str

    @property
    def is_empty(self) -> bool:
        return self.before == self.after

    @property
    def added(self) -> int:
        """Lines that the note has afterwards and had not before; a changed line counts here too."""
        return sum(line.startswith("+") for line in self._lines[2:])

    @property
    def removed(self) -> int:
        """Lines that the note loses; a changed line counts here too."""
        return sum(line.startswith("-") for line in self._lines[2:])

    def diff(self) -> str:
        """The unified diff; "" when nothing changes. Line endings are shown as ``\\n``; a missing one at the
        end is said, as ``diff`` does."""
        return "".join(f"{line}\n" for line in self._lines)

    @cached_property
    def _lines(self) -> list[str]:
        """Computed once: a note of 10 MB takes seconds."""
        old, new = _split(self.before), _split(self.after)
        names = (
            ("/dev/null" if self.before is None else f"a/{self.path}"),
            ("/dev/null" if self.after is None else f"b/{self.path}"),
        )
        shown: list[str] = []
        for line in difflib.unified_diff(old, new, *names, lineterm=""):
            is_open = line[:1] in "+- " and len(shown) > 1 and not line.endswith("\n")
            shown.append(line.removesuffix("\n"))
            if is_open:
                shown.append(_NO_NEWLINE)
        return shown

    def summary(self) -> str:
        """``memory/2026-02-14.md +6 lines``, with what is removed."""
        if self.after is None:
            return f"{self.path} removed"
        return f"{self.path} {changed_lines(self.added, self.removed)}"


def changed_lines(added: int, removed: int) -> str:
    """``+6 lines``, ``+1 -2 lines``"""
    return f"+{added:,} -{counted(removed, 'line')}" if removed else f"+{counted(added, 'line')}"


def appended(before: str | None, text: str) -> str:
    """``before`` with ``text`` as its last lines, in the line ending of ``before``; both end with one."""
    ending = "\r\n" if before and "\r\n" in before else "\n"
    lines = text.replace("\r\n", "\n").strip("\n").replace("\n", ending) + ending
    if not before:
        return lines
    return before + ("" if before.endswith("\n") else ending) + lines


def reverted(edit: NoteEdit, now: str) -> str | None:
    """The text ``now`` without ``edit``, which was made before others changed the note: where the lines that
    it wrote are as it left them, and the two around each place where it removed some. Else None."""
    old, new, present = (["", *_split(text), _END] for text in (edit.before, edit.after, now))
    kept = _blocks(new, present)
    made, done = list[str](), 0
    ours, theirs = 0, 0  # where the next change begins in the new text, and in the old one
    for a, b, size in _blocks(new, old):
        if ours < a or theirs < b:
            around = ours == a  # lines were only removed: the place is between two lines
            first, last = ours - around, a + around
            at = next(
                (there - start for start, there, many in kept if start <= first and last <= start + many),
                None,
            )
            if at is None:
                return None
            made += [*present[done : ours + at], *old[theirs:b]]
            done = a + at
        ours, theirs = a + size, b + size
    *lines, last_line = [*made, *present[done:]][1:-1] or [""]
    ending = "\r\n" if "\r\n" in now else "\n"
    return "".join(line if line.endswith("\n") else line + ending for line in lines) + last_line


def _blocks(one: list[str], other: list[str]) -> list[tuple[int, int, int]]:
    """Where both begin, and how long they are, of all runs of lines that they share, in order."""
    head = next((at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), None)
    if head is None:
        head = min(len(one), len(other))
    ends = zip(reversed(one[head:]), reversed(other[head:]), strict=False)
    tail = next((at for at, pair in enumerate(ends) if pair[0] != pair[1]), min(len(one), len(other)) - head)
    # Compared without the equal ends: a note is long, and mostly what was appended differs.
    middle = difflib.SequenceMatcher(
        None, one[head : len(one) - tail], other[head : len(other) - tail], autojunk=False
    )
    shared = [(a + head, b + head, size) for a, b, size in middle.get_matching_blocks()[:-1]]
    return [(0, 0, head), *shared, (len(one) - tail, len(other) - tail, tail)]


def _split(text: str | None) -> list[str]:
    """Lines with their ends; split at ``\\n`` alone, as the index counts lines."""
    return re.findall(r"[^\n]*\n|[^\n]+", text or "")
