"""A proposed change of one note, and its unified diff. Nothing here touches a file."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from openclaw_mem_engine.sanitize import counted

#: Stand for the beginning and the end of a note: no line is like them.
_BEGIN, _END = "\n\n\n", "\n\n"
_NO_NEWLINE = "\\ No newline at end of file"


@dataclass(frozen=True)  # without slots, for what is computed once
class NoteEdit:
    """A change of the note ``path`` (relative to the workspace, with ``/``) from the text ``before`` to
    ``after``; None stands for no file. Texts are exact: line endings, byte order mark, and bytes that are not
    UTF-8 (as surrogates). ``reason`` is one line for the history ("remember", "flush"); ``undoes`` is the
    number of the edit that it takes back (0: none)."""

    path: str
    before: str | None
    after: str | None
    reason: str
    undoes: int = 0

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

    def in_words(self) -> str:
        """``6 lines added to memory/2026-02-14.md``, and how many are removed."""
        if self.after is None:
            return f"{self.path} removed"
        if not self.removed:
            return f"{counted(self.added, 'line')} added to {self.path}"
        added = f"{counted(self.added, 'line')} added, " if self.added else ""
        return f"{added}{counted(self.removed, 'line')} removed from {self.path}"


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
    it wrote are as it left them, and the two around each place where it removed some, and where these are
    not to be confused with others: one of them is only once in the note. Else None."""
    old, new, present = ([_BEGIN, *_split(text), _END] for text in (edit.before, edit.after, now))
    kept, counts = _blocks(new, present), [Counter(map(_words, lines)) for lines in (new, present)]
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
            run = map(_words, new[first:last])
            if at is None or all(max(count[words] for count in counts) > 1 for words in run):
                return None
            made += [*present[done : ours + at], *old[theirs:b]]
            done = a + at
        ours, theirs = a + size, b + size
    *lines, last_line = [*made, *present[done:]][1:-1] or [""]
    ending = "\r\n" if "\r\n" in now else "\n"
    return "".join(line if line.endswith("\n") else line + ending for line in lines) + last_line


def _blocks(one: list[str], other: list[str]) -> Sequence[tuple[int, int, int]]:
    """Where both begin, and how long they are, of runs of lines that they share, in order."""
    return difflib.SequenceMatcher(None, one, other).get_matching_blocks()[:-1]


def _split(text: str | None) -> list[str]:
    """Lines with their ends; split at ``\\n`` alone, as the index counts lines."""
    return re.findall(r"[^\n]*\n|[^\n]+", text or "")


def _words(line: str) -> str:
    """A line without its end: the last one may have none."""
    return line.removesuffix("\n").removesuffix("\r")
