"""Which passage is asked about: the selected row of the search lab, or any line of the memory, found by its
path or text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from openclaw_mem_engine.api import Expected, Matches, OpenClawMemError, Row
from openclaw_mem_tui.features.search.state import View
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.widgets.dialogs import Choice, PickScreen

if TYPE_CHECKING:
    from openclaw_mem_engine.api import Memory

#: Rows of the picker; a longer list is narrowed by typing.
_SHOWN = 200
#: Every typed word must be found at least as well (0–100) in path or text.
_LEAST = 70


class MemoryLine(NamedTuple):
    """A line that holds a word. ``key`` is what is typed at, in lower case."""

    passage: Expected
    text: str
    key: str


def passage_of(view: View, row: Row) -> Expected:
    """The line of a row that says most about the query: its best line, else the one with most words of the
    query."""
    number, candidate = row.shown.best_line, view.candidate(row.chunk_id)
    if number is None and candidate is not None and view.pool is not None:
        matches, lines = Matches.of(view.pool), candidate.text.split("\n")
        best = max(range(len(lines)), key=lambda at: (matches.distinct(lines[at]), -at))
        number = min(row.start_line + best, row.end_line)
    return Expected(row.path, number or row.start_line)


def lines_of(memory: Memory) -> list[MemoryLine]:
    """Every line of every file that is memory, indexed or not, that can be read. Blocks on the disk."""
    paths = set(memory.paths())
    if memory.capabilities.files:
        paths.update(file.path for file in memory.overview().files)
    return [
        MemoryLine(Expected(path, number), text.strip(), f"{path}:{number} {text}".lower())
        for path in sorted(paths)
        for number, text in _read(memory, path)
        if any(char.isalnum() for char in text)
    ]


def _read(memory: Memory, path: str) -> Sequence[tuple[int, str]]:
    try:
        if memory.capabilities.chunks and path.startswith("sessions/"):  # the messages, not the file
            return memory.anatomy(path).lines
        return list(enumerate(memory.get(path).text.split("\n"), 1))
    except OpenClawMemError:
        return ()  # excluded, or deleted meanwhile


def matching(typed: str, lines: Sequence[MemoryLine]) -> list[MemoryLine]:
    """The lines that hold all typed words, nearly or exactly, best first; the first of all when nothing is
    typed."""
    words = typed.lower().split()
    if not words:
        return list(lines[:_SHOWN])
    from rapidfuzz import fuzz, process  # only picking pays for loading it

    keys = [line.key for line in lines]
    scores = process.cdist(words, keys, scorer=fuzz.partial_ratio, score_cutoff=_LEAST)
    worst, total = scores.min(axis=0), scores.sum(axis=0)
    found = sorted((at for at in range(len(keys)) if worst[at]), key=lambda at: (-total[at], at))
    return [lines[at] for at in found[:_SHOWN]]


def picker(lines: Sequence[MemoryLine]) -> tuple[PickScreen, Callable[[str], Expected]]:
    """The dialog, and the passage of a key that it returns."""
    found: list[MemoryLine] = []

    def find(typed: str) -> list[Choice]:
        found[:] = matching(typed, lines)
        return [
            Choice(str(at), fmt.inert(line.passage.location, 300), fmt.inert(line.text, 300))
            for at, line in enumerate(found)
        ]

    screen = PickScreen("a line of the memory", find, filtered=True, empty="no line like that")
    return screen, lambda key: found[int(key)].passage
