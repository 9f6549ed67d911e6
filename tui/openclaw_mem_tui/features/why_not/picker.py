"""Picking the passage that is asked about: any line of the memory, found by its path or text."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from openclaw_mem_engine.api import Expected, IndexDamaged, OpenClawMemError
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.choices import Choice
from openclaw_mem_tui.render.damage import DAMAGED
from openclaw_mem_tui.widgets.dialogs import pick

if TYPE_CHECKING:
    from openclaw_mem_engine.api import Memory
    from openclaw_mem_tui.screen import WorkbenchScreen

#: Rows of the picker; a longer list is narrowed by typing.
_SHOWN = 200
#: Where no line holds every typed word, each must be found at least as well (0–100).
_LEAST = 70


class MemoryLine(NamedTuple):
    """A line that holds a word. ``key`` is what is typed at, in lower case."""

    passage: Expected
    text: str
    key: str


def lines_of(memory: Memory) -> list[MemoryLine]:
    """Every line of every file that is memory, indexed or not, that can be read: of daily notes first, the
    newest before the others. Blocks on the disk."""
    paths = set(memory.paths())
    if memory.capabilities.files:
        paths.update(file.path for file in memory.overview().files)
    return [
        MemoryLine(Expected(path, number), text.strip(), f"{path}:{number} {text}".lower())
        for path in sorted(sorted(paths), key=_day, reverse=True)
        for number, text in _read(memory, path)
        if any(char.isalnum() for char in text)
    ]


def _day(path: str) -> str:
    found = re.search(r"\d{4}-\d\d-\d\d", path)
    return found[0] if found is not None else ""


def _read(memory: Memory, path: str) -> Sequence[tuple[int, str]]:
    try:
        if memory.capabilities.chunks and path.startswith("sessions/"):  # the messages, not the file
            return memory.anatomy(path).lines
        return list(enumerate(memory.get(path).text.split("\n"), 1))
    except OpenClawMemError:
        return ()  # excluded, or deleted meanwhile


def named(typed: str, workspace: Path) -> Expected | None:
    """The line of a file of the workspace, memory or not, that is typed as ``path:line``; None where there is
    no such file. Without a number it is the first line."""
    match = re.fullmatch(r"(.+?)(?::0*([1-9]\d{0,8}))?", typed.strip())
    if match is None or not os.path.isfile(workspace / match[1]):  # noqa: PTH113 - false for any text
        return None
    return Expected(match[1], int(match[2] or 1))


def matching(typed: str, lines: Sequence[MemoryLine]) -> list[MemoryLine]:
    """The lines that hold every typed word, first those with all of them in a row; all when nothing is typed;
    where there is none, those that nearly do, best first."""
    words = typed.lower().split()
    found = [line for line in lines if all(word in line.key for word in words)]
    return sorted(found, key=lambda line: " ".join(words) not in line.key) or _near(words, lines)


def _near(words: Sequence[str], lines: Sequence[MemoryLine]) -> list[MemoryLine]:
    from rapidfuzz import fuzz, process  # only a slip of the finger pays for loading it

    left, total = list(lines), [0.0] * len(lines)
    for word in sorted(words, key=len, reverse=True):  # the long ones leave the fewest
        keys = [line.key for line in left]
        (scores,) = process.cdist([word], keys, scorer=fuzz.partial_ratio, score_cutoff=_LEAST)
        kept = [at for at, score in enumerate(scores) if score]
        left, total = [left[at] for at in kept], [total[at] + float(scores[at]) for at in kept]
    best = sorted(range(len(left)), key=lambda at: (-total[at], at))
    return [left[at] for at in best]


async def pick_passage(screen: WorkbenchScreen, then: Callable[[Expected], None]) -> None:
    """Let the user pick any line of the memory; the dialog says what of the workspace is none."""
    search = screen.search
    try:
        lines = await search.service.read(lines_of)
    except OpenClawMemError as error:
        search.say(DAMAGED if isinstance(error, IndexDamaged) else str(error))
        return
    workspace, found = search.service.settings.workspace, list[MemoryLine]()

    def find(typed: str) -> list[Choice]:
        found[:] = matching(typed, lines)
        if (exact := named(typed, workspace)) is not None and all(line.passage != exact for line in found):
            found.insert(0, MemoryLine(exact, "as typed", ""))
        return [
            Choice(str(at), fmt.inert(line.passage.location, 300), fmt.inert(line.text, 300))
            for at, line in enumerate(found[:_SHOWN])
        ]

    pick(
        screen,
        "a line of the memory",
        find,
        lambda key: then(found[int(key)].passage),
        filtered=True,
        empty="no line of the memory contains this; path:line names a line of any file of the workspace",
        about=search.activity.not_included,
        count=lambda: len(found),
    )
