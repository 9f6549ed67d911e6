"""What curation looks at: the notes by line, and which lines were retrieved."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from openclaw_mem_engine.model import as_json, utf16_length
from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.notes.edit import NoteEdit
from openclaw_mem_engine.notes.routing import HEADING, headings, prose
from openclaw_mem_engine.redact import redact
from openclaw_mem_engine.sanitize import counted
from openclaw_mem_engine.workspace.reading import BOOTSTRAP_LIMIT, BUDGET_LINES, bootstrap_cut
from openclaw_mem_engine.workspace.rules import ROOT_FILES, note_date

#: Characters of a line that evidence quotes.
QUOTED = 400
_ITEM = re.compile(r"(\s*)(?:[-*+]|\d+[.)])\s+(?:\[[ xX]\]\s+)?(?:\d\d:\d\d\s+)?(.*)")
_MARKS = re.compile(r"[*_`]+")
_WORD = re.compile(r"[^\W_]+(?:[.:/-][^\W_]+)*")


class FactLine(NamedTuple):
    """An entry of a note: a list item, or a sentence or paragraph, with the lines that continue it. Lines
    ``number`` to ``last`` (from 1), the text without list mark and emphasis, and what it is below: the
    heading, and the item that a nested one belongs to. ``has_nested``: items of its own follow."""

    path: str
    number: int
    last: int
    text: str
    below: str
    has_nested: bool = False
    #: What two entries that say the same have in common: words without case, marks, punctuation.
    key: str = ""

    @property
    def location(self) -> str:
        return f"{self.path}:{self.number}"


@dataclass(frozen=True)
class NoteText:
    """One note. ``day`` is the ISO date of a daily log, "" for notes that do not decay; ``modified`` is in
    epoch seconds."""

    path: str
    text: str
    day: str = ""
    modified: float = 0.0

    @cached_property
    def masked(self) -> str:
        """The text with credentials masked."""
        return redact(self.text)

    @cached_property
    def lines(self) -> list[str]:
        return self.text.split("\n")

    @cached_property
    def headings(self) -> list[tuple[int, int, str]]:
        """Line (from 1), level and title of each heading."""
        return [(at + 1, level, title) for at, level, title in headings(self.lines)]

    @cached_property
    def facts(self) -> list[FactLine]:
        """The entries outside of code blocks, front matter and tables."""
        found: list[FactLine] = []
        heading, before = "", -1
        above: list[tuple[int, int]] = []  # indent and index of the items that a nested one is below
        for number, line in prose(self.lines):
            if head := HEADING.match(line):
                heading, above, before = head[2], [], -1
                continue
            item = _ITEM.match(line)
            text = _MARKS.sub("", (item[2] if item else line).strip())
            if not text or text.startswith(("|", "<!--")):
                before = -1
                continue
            if found and before == number - 1 and not item and _continues(found[-1].text, text):
                found[-1] = found[-1]._replace(text=f"{found[-1].text} {text}", last=number)
                before = number
                continue
            indent = len(item[1].expandtabs(4)) if item else 0
            above = [row for row in above if row[0] < indent]
            if above:
                found[above[-1][1]] = found[above[-1][1]]._replace(has_nested=True)
            below = " / ".join((heading, *(found[index].text for _, index in above)))
            found.append(FactLine(self.path, number, number, text, below))
            if item:
                above.append((indent, len(found) - 1))
            before = number
        return [fact._replace(key=" ".join(words_of(fact.text))) for fact in found]


def _continues(before: str, text: str) -> bool:
    """Whether a line belongs to the sentence of the one above."""
    return text[0].islower() or before[-1] not in ".!?:;"


class Recall(NamedTuple):
    """One answer of the agent's own search: when (epoch seconds), its query, and the passages returned."""

    at: float
    query: str
    passages: tuple[tuple[str, int, int], ...]

    @property
    def day(self) -> str:
        return datetime.fromtimestamp(self.at, UTC).strftime("%Y-%m-%d")


@dataclass(frozen=True, slots=True)
class Budget:
    """``path`` is "" without a MEMORY.md that could be read, and ``unread`` says why it could not;
    ``characters`` (UTF-16 units) are handed to an agent up to ``limit``, cut after line ``cut_after`` (None:
    whole)."""

    path: str
    lines: int
    characters: int
    limit: int
    cut_after: int | None
    unread: str = ""

    @property
    def sentence(self) -> str:
        if not self.path:
            return self.unread or "there is no MEMORY.md"
        size = f"{self.path}: {counted(self.lines, 'line')} ({BUDGET_LINES} advised), "
        size += f"{self.characters:,} of {self.limit:,} characters"
        return (
            f"{size}; the agent gets only the last part line {self.cut_after:,}" if self.cut_after else size
        )

    @property
    def exceeded(self) -> bool:
        return self.lines > BUDGET_LINES or self.characters > self.limit

    def to_dict(self) -> dict[str, Any]:
        return dict(as_json(self, unread="")) | {"advisedLines": BUDGET_LINES}


class FileUse(NamedTuple):
    """A note: its characters, its day ("" for one that does not decay), when it was last changed (epoch
    seconds), how many of the agent's searches returned a part of it, and its size in bytes."""

    path: str
    characters: int
    day: str
    modified: float
    searches: int
    bytes: int

    def to_dict(self) -> dict[str, Any]:
        return self._asdict() | {"decays": bool(self.day)}


@dataclass(frozen=True)
class Material:
    """Everything that candidates are made from. ``recalls`` are the agent's searches, oldest first;
    ``hidden`` are by path the shares (0–1) of text that no search shows; ``bootstrap_limit`` is in UTF-16
    units; ``unread`` says which notes could not be read, a sentence each."""

    notes: Mapping[str, NoteText]
    recalls: Sequence[Recall] = ()
    hidden: Mapping[str, float] = field(default_factory=dict)
    bootstrap_limit: int = BOOTSTRAP_LIMIT
    unread: Sequence[str] = ()

    @cached_property
    def memory(self) -> NoteText | None:
        return next((self.notes[name] for name in ROOT_FILES if name in self.notes), None)

    @cached_property
    def daily(self) -> list[NoteText]:
        """The daily logs, oldest first."""
        return sorted((note for note in self.notes.values() if note.day), key=lambda note: note.day)

    @property
    def budget(self) -> Budget:
        text = self.memory.text.rstrip() if self.memory else ""
        return Budget(
            self.memory.path if self.memory else "",
            text.count("\n") + 1 if text else 0,
            utf16_length(text),
            self.bootstrap_limit,
            cut.last_line if (cut := bootstrap_cut(text, self.bootstrap_limit)) else None,
            next((line for line in self.unread if line.startswith(ROOT_FILES)), ""),
        )

    @cached_property
    def recalled(self) -> Mapping[str, list[tuple[Recall, int, int]]]:
        """By note, the searches that returned a part of it, with the lines."""
        found = defaultdict(list)
        for recall in self.recalls:
            for path, first, last in dict.fromkeys(recall.passages):
                found[path].append((recall, first, last))
        return found

    def budget_after(self, edits: Iterable[NoteEdit]) -> Budget | None:
        """The size of MEMORY.md after edits; None when they leave it as it is."""
        texts = {edit.path: edit.after or "" for edit in edits if edit.path in ROOT_FILES}
        return material_of(texts, bootstrap_limit=self.bootstrap_limit).budget if texts else None

    @cached_property
    def files(self) -> list[FileUse]:
        """MEMORY.md, then all other notes: those that most searches returned first, then by path."""
        first = self.memory.path if self.memory else ""
        rows = sorted(
            self.notes.values(), key=lambda note: (note.path != first, -self.count_of(note.path), note.path)
        )
        return [
            FileUse(
                note.path, len(note.text), note.day, note.modified, self.count_of(note.path), _size(note.text)
            )
            for note in rows
        ]

    @property
    def searches_sentence(self) -> str:
        count = len(self.recalls)
        if not count:
            return "no agent search with results is recorded"
        last = self.recalls[-1].day
        return f"{count:,} agent search{'es' if count > 1 else ''}, last {last}"

    @property
    def hidden_share(self) -> float:
        """The share (0–1) of MEMORY.md that no search shows."""
        return self.hidden.get(self.memory.path, 0.0) if self.memory else 0.0

    def recalls_of(self, path: str, first: int, last: int = 0) -> list[Recall]:
        """The searches that returned one of these lines."""
        last = last or first
        found = [row[0] for row in self.recalled.get(path, ()) if row[1] <= last and first <= row[2]]
        return list(dict.fromkeys(found))

    def count_of(self, path: str) -> int:
        """How many searches returned a part of a note."""
        return len({recall for recall, _, _ in self.recalled.get(path, ())})


def material_of(
    texts: Mapping[str, str],
    recalls: Iterable[Recall] = (),
    hidden: Mapping[str, float] | None = None,
    bootstrap_limit: int = BOOTSTRAP_LIMIT,
    unread: Sequence[str] = (),
    modified: Mapping[str, float] | None = None,
) -> Material:
    notes = {
        path: NoteText(path, text, _day_of(path), (modified or {}).get(path, 0.0))
        for path, text in texts.items()
    }
    ordered = sorted(recalls, key=lambda recall: recall.at)
    return Material(notes, ordered, hidden or {}, bootstrap_limit, unread)


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))  # an undecoded byte is one


def _day_of(path: str) -> str:
    date = note_date(path)
    if date.kind != "dated" or date.epoch_seconds is None:
        return ""
    return datetime.fromtimestamp(date.epoch_seconds, UTC).strftime("%Y-%m-%d")


@dataclass(frozen=True, slots=True)
class NoteCandidate:
    """A proposal. ``id`` stays the same as long as the lines that it is about do; ``title`` is one sentence,
    ``evidence`` the facts that it rests on, each a sentence with a location; ``edits`` are made together
    (none: advice alone)."""

    id: str
    kind: str
    title: str
    evidence: tuple[str, ...]
    edits: tuple[NoteEdit, ...] = ()
    location: str = ""

    @property
    def diff(self) -> str:
        """The unified diffs, with credentials masked."""
        return masked_diff(self.edits)

    def to_dict(self) -> dict[str, Any]:
        plain = as_json(self)
        plain["edits"] = [{"path": edit.path, "diff": redact(edit.diff())} for edit in self.edits]
        return dict(plain)


def masked_diff(edits: Iterable[NoteEdit]) -> str:
    """The unified diffs, with credentials masked."""
    return redact("".join(edit.diff() for edit in edits))


def words_of(text: str) -> list[str]:
    """The words of a text without case; numbers, host names and versions stay whole."""
    return [word.casefold() for word in _WORD.findall(text)]


def candidate_id(kind: str, *parts: str) -> str:
    """An id of 8 characters from what a candidate is about."""
    return hashlib.sha256("\0".join((kind, *parts)).encode("utf-8", "surrogatepass")).hexdigest()[:8]


def short(text: str, most: int = 70) -> str:
    """The first ``most`` characters of a text, with credentials masked: 70 to quote it in a sentence."""
    text = redact(text)
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"
