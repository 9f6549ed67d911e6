"""A proposed change of one note, and its unified diff. Nothing here touches a file."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from functools import cached_property

from openclaw_mem_engine.sanitize import counted

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


def _split(text: str | None) -> list[str]:
    """Lines with their ends; split at ``\\n`` alone, as the index counts lines."""
    return re.findall(r"[^\n]*\n|[^\n]+", text or "")
