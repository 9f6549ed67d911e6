"""Lines of many chunks packed under one budget: the best lines first, shown by file in the order of the file.

The rule and its values were fixed before they were measured: single lines, the line's score (0–1) plus the
chunk's share of the best chunk's score (0–1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from openclaw_mem_engine.model import utf16_length
from openclaw_mem_engine.ranking.lines import NoteLine, best_of, excerpt_of
from openclaw_mem_engine.ranking.state import Ranked, RankingState
from openclaw_mem_engine.ranking.trace import Lines, Result, Shown

#: A line below this share of the best line's score adds nothing to an answer that has better ones.
WEAK_SHARE = 1 / 3
#: Between lines that are not neighbours in the note.
GAP = "…"

#: The number of a line, and which piece it is of one that is longer than a chunk (0 for all others).
Key = tuple[int, int]


class _Unit(NamedTuple):
    """A line that may be shown, and the chunk that gives it its score: the best of those that hold it."""

    key: Key
    file: _File
    owner: Ranked
    score: float


class _File:
    """What is known of a file, and which lines of it are shown. ``rank`` counts the files from 1 by that of
    their best chunk."""

    def __init__(self, path: str, rank: int) -> None:
        self.path = path
        self.rank = rank
        self.known: dict[Key, NoteLine] = {}
        self.shown: dict[Key, str] = {}
        self.text = ""
        self.ranges: tuple[Lines, ...] = ()
        self.owners: list[Ranked] = []

    def cut(self) -> list[int]:
        """The lines that are shown in part: an excerpt, or not all of their pieces."""
        numbers = {key[0] for key in self.shown}
        missing = {key[0] for key, line in self.known.items() if self.shown.get(key) != line.text}
        return sorted(numbers & missing)

    def key_of(self, line: NoteLine) -> Key:
        """The key of a line, which is known from now on; chunks overlap."""
        piece = 0
        while (known := self.known.setdefault((line.number, piece), line)).text != line.text:
            piece += 1
        return known.number, piece

    def add(self, key: Key, text: str, room: int) -> int:
        """Show a line too, with the heading of its section if that fits. Returns the UTF-16 units that this
        takes, 0 when ``room`` is not enough."""
        if utf16_length(text) > room + 1:  # a line between two others may take the two units of a gap
            return 0
        headings = (k for k, line in self.known.items() if line.is_heading and k < key)
        above = max(headings, default=None)
        with_line = {**self.shown, key: text}
        with_heading = with_line if above is None else {above: self.known[above].text, **with_line}
        for shown in (with_heading, with_line):
            made, ranges = self._joined(shown)
            need = utf16_length(made) - utf16_length(self.text)
            if need <= room:
                self.shown, self.text, self.ranges = shown, made, ranges
                return need
        return 0

    def _joined(self, shown: Mapping[Key, str]) -> tuple[str, tuple[Lines, ...]]:
        """The text of these lines in their order, and their ranges."""
        keys = sorted(shown)
        parts, first = [shown[keys[0]]], keys[0][0]
        ranges = []
        for before, key in pairwise(keys):
            blank = self._blank_between(before[0], key[0])
            if blank is None and before[0] != key[0]:  # pieces of one line are one range
                ranges.append((first, before[0]))
                first = key[0]
            parts += [GAP] if blank is None else blank
            parts.append(shown[key])
        return "\n".join(parts), (*ranges, (first, keys[-1][0]))

    def _blank_between(self, before: int, after: int) -> list[str] | None:
        """The lines between two others, when they are known and hold no word; else None."""
        if before == after:
            return None
        blank = []
        for number in range(before + 1, after):
            line = self.known.get((number, 0))
            if line is None or line.text.strip():
                return None
            blank.append(line.text)
        return blank


def pack(state: RankingState, scores: Mapping[str, Sequence[float]]) -> None:
    """Choose the lines to show: the best first, until the budget is used up. Chunks without a shown line are
    dropped with the reason."""
    files: dict[str, _File] = {}
    units = _units(state, scores, files)
    refused: dict[str, str] = {}  # chunk id: why its best line is not shown
    chosen: list[_File] = []
    room = state.knobs.budget
    top = units[0].score if units else 0.0
    for unit in units:
        reason = ""
        number, file = unit.key[0], unit.file
        if unit.score < WEAK_SHARE * top:
            reason = f"its best line, {number}, scores {unit.score:.2f}, too little beside {top:.2f}"
        elif file.rank > state.knobs.max_results:
            reason = (
                f"its file is number {file.rank}, lines of the first {state.knobs.max_results} are packed"
            )
        else:
            longest = min(state.knobs.snippet_chars, state.knobs.budget)
            part = excerpt_of(file.known[unit.key].text, state.words, longest)
            if used := file.add(unit.key, part, room):
                room -= used
                if file not in chosen:
                    chosen.append(file)
                if unit.owner not in file.owners:
                    file.owners.append(unit.owner)
                continue
            reason = f"its best line, {number}, does not fit: better ones fill {state.knobs.budget:,}"
        refused.setdefault(unit.owner.chunk_id, reason)
    _record(state, scores, chosen, refused)


def _units(
    state: RankingState, scores: Mapping[str, Sequence[float]], files: dict[str, _File]
) -> list[_Unit]:
    """Every line of the chunks that are left, once, best first."""
    best: dict[tuple[str, Key], _Unit] = {}
    top = max((item.score for item in state.ranked), default=0.0)
    share = 1.0
    for item in state.ranked:
        # Where a stage changed the order alone (MMR), a chunk counts no more than the one before it.
        share = min(share, item.score / top if top > 0 else 0.0)
        chunk = state.pool.candidates[item.chunk_id]
        file = files.setdefault(chunk.path, _File(chunk.path, len(files) + 1))
        for line, value in zip(state.lines_of(item.chunk_id), scores[item.chunk_id], strict=True):
            key = file.key_of(line)
            if not line.says_something:
                continue
            found = best.get((chunk.path, key))
            if found is None or found.score < share + value:
                best[chunk.path, key] = _Unit(key, file, item, share + value)
    return sorted(best.values(), key=lambda unit: (-unit.score, unit.owner.rank, unit.key))


def _record(
    state: RankingState,
    scores: Mapping[str, Sequence[float]],
    chosen: Sequence[_File],
    refused: Mapping[str, str],
) -> None:
    by_path = {file.path: file for file in chosen}
    cut_lines = {file.path: file.cut() for file in chosen}
    returned = {id(item) for file in chosen for item in file.owners}
    kept = []
    for item in state.ranked:
        chunk = state.pool.candidates[item.chunk_id]
        if id(item) not in returned:
            reason = refused.get(item.chunk_id, "every line of it is a heading, a mark or in a better chunk")
            state.drop(item.chunk_id, "snippet", "snip", reason, item.rank)
            continue
        kept.append(item)
        file, lines = by_path[chunk.path], state.lines_of(item.chunk_id)
        at = best_of(lines, scores[item.chunk_id])
        inside = [(max(a, chunk.start_line), min(b, chunk.end_line)) for a, b in file.ranges]
        hidden = at is not None and _hides(file.shown.get(file.key_of(lines[at]), ""), lines[at], state.words)
        number = None if at is None else lines[at].number
        parts = tuple(x for x in inside if x[0] <= x[1])
        cut = (n for n in cut_lines[file.path] if any(a <= n <= b for a, b in parts))
        state.shown[item.chunk_id] = Shown(parts, number, hidden, tuple(cut))
    state.ranked = kept
    order = {item.chunk_id: rank for rank, item in enumerate(kept)}
    results = []
    for file in chosen:
        owners = sorted(file.owners, key=lambda item: order[item.chunk_id])
        source = state.pool.candidates[owners[0].chunk_id].source
        span = file.ranges[0][0], file.ranges[-1][1]
        ids = tuple(item.chunk_id for item in owners)
        results.append(Result(ids, file.path, *span, source, owners[0].score, file.text, file.ranges))
    state.results = sorted(results, key=lambda result: order[result.chunk_ids[0]])


def _hides(shown: str, line: NoteLine, words: Sequence[str]) -> bool:
    """Whether what is shown of a line leaves out any word of the query that it holds; of one without, any."""
    part, whole = shown.casefold(), line.text.casefold()
    matched = [word for word in map(str.casefold, words) if word in whole]
    return shown != line.text and not (matched and all(word in part for word in matched))
