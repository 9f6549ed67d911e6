"""Lines of many chunks packed under one budget: the best lines first, shown by file in the order of the file.

The rule and its values were fixed before they were measured: single lines, the line's score (0–1) plus the
chunk's share of the best chunk's score (0–1).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate, islice, pairwise

from openclaw_mem_engine.model import utf16_length
from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.ranking.lines import NoteLine, ScoredLines, excerpt_of
from openclaw_mem_engine.ranking.stages.line_scores import LineScores
from openclaw_mem_engine.ranking.state import Ranked, RankingState
from openclaw_mem_engine.ranking.trace import Lines, Result, Shown
from openclaw_mem_engine.sanitize import ordinal

#: A line below this share of the best line's score adds nothing to an answer that has better ones.
WEAK_SHARE, _WEAK_WORDS = 1 / 3, "a third"
#: Between lines that are not neighbours in the note.
GAP = "…"
#: What that takes, with the end of its line.
_GAP_UNITS = 2

#: The number of a line, and which piece it is of one that is longer than a chunk (0 for all others).
Key = tuple[int, int]


class _Unit(NamedTuple):
    """A line that may be shown, and the chunk that gives it its score: the best of those that hold it. Units
    sort best first."""

    minus_score: float
    rank: int
    key: Key
    file: _File
    owner: Ranked


class _File:
    """What is known of a file, and which lines of it are shown. ``rank`` counts the files from 1 by that of
    their best chunk."""

    def __init__(self, path: str, rank: int) -> None:
        self.path = path
        self.rank = rank
        self.known: dict[Key, NoteLine] = {}
        self.shown: dict[Key, str] = {}
        self.owners: list[Ranked] = []
        self._headings: list[Key] = []
        self._keys: list[Key] = []  # of what is shown, in their order

    def cut(self) -> list[int]:
        """The lines that are shown in part: an excerpt, or not all of their pieces."""
        numbers = {key[0] for key in self.shown}
        missing = {key[0] for key, line in self.known.items() if self.shown.get(key) != line.text}
        return sorted(numbers & missing)

    def load(self, lines: Mapping[Key, NoteLine], texts: Sequence[NoteLine]) -> list[Key]:
        """Know the lines of a chunk from now on. Returns the key of each."""
        if len(lines) == len(texts) and self.known.keys().isdisjoint(lines):
            self.known.update(lines)
            keys = [*lines]
        else:  # chunks overlap, and a long line has pieces
            keys = [self.key_of(line) for line in texts]
        self._headings += (key for key, line in zip(keys, texts, strict=True) if line.is_heading)
        self._headings.sort()
        return keys

    def key_of(self, line: NoteLine) -> Key:
        """The key of a line, which is known from now on."""
        piece = 0
        while (known := self.known.setdefault((line.number, piece), line)).text != line.text:
            piece += 1
        return known.number, piece

    def add(self, key: Key, text: str, room: int) -> int | None:
        """Show a line too, with the heading of its section if that fits. Returns the UTF-16 units that this
        takes, None when ``room`` is not enough."""
        size = utf16_length(text)
        if size > room + 1:  # a line between two others may take the two units of a gap
            return None
        at = bisect_left(self._headings, key)
        if at and (above := self._headings[at - 1]) not in self.shown:
            heading = self.known[above].text
            need = self._show(above, heading, utf16_length(heading)) + self._show(key, text, size)
            if need <= room:
                return need
            self._hide(key)
            self._hide(above)
        if (need := self._show(key, text, size)) <= room:
            return need
        self._hide(key)
        return None

    def _show(self, key: Key, text: str, size: int) -> int:
        """Show a line of this size. Returns the units that the text of the file grows by."""
        keys = self._keys
        at = bisect_left(keys, key)
        before = keys[at - 1] if at else None
        after = keys[at] if at < len(keys) else None
        need = size + 1 if keys else size
        need += self._between(before, key) + self._between(key, after) - self._between(before, after)
        keys.insert(at, key)
        self.shown[key] = text
        return need

    def _hide(self, key: Key) -> None:
        self._keys.remove(key)
        del self.shown[key]

    def _between(self, before: Key | None, after: Key | None) -> int:
        """The units of what stands between two neighbours that are shown."""
        if before is None or after is None or after[0] - before[0] == 1:
            return 0
        blank = self._blank_between(before[0], after[0])
        return _GAP_UNITS if blank is None else sum(utf16_length(text) + 1 for text in blank)

    def joined(self) -> tuple[str, tuple[Lines, ...]]:
        """The text of the lines that are shown, in their order, and their ranges."""
        keys, shown = self._keys, self.shown
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


def pack(state: RankingState, scores: LineScores) -> None:
    """Choose the lines to show: the best first, until the budget is used up. Chunks without a shown line are
    dropped with the reason."""
    shares = _shares(state)
    chunks = state.pool.candidates
    first = {*islice(dict.fromkeys(chunks[i].path for i in shares), state.knobs.max_results)}
    wanted = _wanted_lines(state, scores, shares, first)
    if state.wanted and wanted is None:
        state.ranked = []
        return
    top = _top(scores, shares)
    if wanted and 0 < wanted.lowest <= wanted.highest < WEAK_SHARE * top:
        state.ranked = []
        return
    floor = max(wanted.lowest, WEAK_SHARE * top) if wanted else 0.0
    if not state.explained:  # of later files only the reasons are of interest
        state.ranked = [item for item in state.ranked if chunks[item.chunk_id].path in first]
    counts = {i: _count(scores[i], shares[i], floor) for i in (item.chunk_id for item in state.ranked)}
    # The most that all lines from that score on take, with all that can stand between them.
    if wanted and sum(scores[i].units[count] for i, count in counts.items()) <= state.knobs.budget:
        # Whatever is shown of others, there is room for all of this file.
        state.ranked = [item for item in state.ranked if chunks[item.chunk_id].path == wanted.path]
    units = _units(state, scores, shares, counts)
    words, longest = state.words, min(state.knobs.snippet_chars, state.knobs.budget)
    least = 0
    if state.wanted and wanted and wanted.lowest > 0:
        # Room only shrinks: once the line itself does not fit, nothing that follows can show it.
        number = state.wanted.line
        own = [unit for unit in units if unit.key[0] == number and unit.file.path == wanted.path]
        parts = (excerpt_of(unit.file.known[unit.key].text, words, longest) for unit in own)
        least = min(map(utf16_length, parts), default=0)
    refused: dict[str, str] = {}  # chunk id: why its best line is not shown
    chosen: dict[str, _File] = {}
    room = state.knobs.budget
    for minus_score, _, key, file, owner in units:
        reason = ""
        score = -minus_score
        if least > room + 1:
            break
        if score < WEAK_SHARE * top:
            if owner.chunk_id in refused:
                continue
            low = f"the highest is {top:.2f}, and lines under {_WEAK_WORDS} of it are not sent"
            reason = f"its best line ({key[0]}) has the line score {score:.2f}; {low}"
        elif file.rank > state.knobs.max_results:
            most = state.knobs.max_results
            firsts = "file" if most == 1 else f"{most} files"
            reason = f"its file is the {ordinal(file.rank)}; only lines of the first {firsts} are sent"
        else:
            part = excerpt_of(file.known[key].text, words, longest)
            used = file.add(key, part, room)
            if used is not None:
                room -= used
                chosen[file.path] = file
                if owner not in file.owners:
                    file.owners.append(owner)
                continue
            reason = (
                f"its best line ({key[0]}) does not fit: better ones fill {state.knobs.budget:,} characters"
            )
        refused.setdefault(owner.chunk_id, reason)
    if state.wanted:  # the other files say nothing of it
        chosen = {path: file for path, file in chosen.items() if wanted and path == wanted.path}
        numbers = {number for file in chosen.values() for number, _ in file.shown}
        chosen = chosen if not wanted or wanted.lowest <= 0 or state.wanted.line in numbers else {}
    _record(state, scores, chosen, refused)


def _top(scores: LineScores, shares: Mapping[str, float]) -> float:
    """The best score of a line. ``shares`` never rise: once none can be better, no more lines are scored."""
    top = 0.0
    for chunk_id, share in shares.items():
        if share + scores.most < top:
            break
        lines = scores[chunk_id]
        top = max(top, share + lines.best) if lines.order else top
    return top


def _shares(state: RankingState) -> dict[str, float]:
    """By chunk id the share of each chunk's score in the best one's. Where a stage changed the order alone
    (MMR), a chunk counts no more than the one before it."""
    top = max((item.score for item in state.ranked), default=0.0)
    shares = (item.score / top if top > 0 else 0.0 for item in state.ranked)
    lowered = [*accumulate(shares, min, initial=1.0)][1:]
    return dict(zip((item.chunk_id for item in state.ranked), lowered, strict=True))


class _WantedLines(NamedTuple):
    """Of what is wanted alone the file, and the scores of its lines: no line below the ``lowest`` changes
    what is shown of them. ``lowest`` is 0 where lines of no score count too."""

    path: str
    lowest: float
    highest: float


def _wanted_lines(
    state: RankingState, scores: LineScores, shares: Mapping[str, float], packed: Collection[str]
) -> _WantedLines | None:
    """None when all is wanted, or when the file is not among the ``packed``."""
    ids, number = state.wanted or ((), None)
    chunks, own = state.pool.candidates, [chunk_id for chunk_id in shares if chunk_id in ids]
    if not own or chunks[own[0]].path not in packed:
        return None
    found: list[float] = []
    for chunk_id in own:
        values = zip(state.lines_of(chunk_id), scores[chunk_id].values, strict=True)
        of_it = [shares[chunk_id] + x for line, x in values if line.number == number and line.says_something]
        # Any line can bring in the heading above it, or make a chunk one of those that are returned.
        found += of_it or [0.0]
    return _WantedLines(chunks[own[0]].path, min(found), max(found))


def _count(lines: ScoredLines, share: float, floor: float) -> int:
    """How many lines of a chunk with this share score at least the floor."""
    values = lines.values
    return bisect_right(lines.order, -floor, key=lambda at: -(share + values[at]))


def _units(
    state: RankingState, scores: LineScores, shares: Mapping[str, float], counts: Mapping[str, int]
) -> list[_Unit]:
    """The first lines of the chunks that are left, so many of each, once, best first."""
    best: dict[str, dict[Key, _Unit]] = {}
    files: dict[str, _File] = {}
    chunks_of = Counter(state.pool.candidates[item.chunk_id].path for item in state.ranked)
    made: dict[str, dict[Key, NoteLine]] = state.pool.memo.setdefault("keys", {})
    for item in state.ranked:
        chunk_id, path = item.chunk_id, state.pool.candidates[item.chunk_id].path
        if path not in files:
            files[path], best[path] = _File(path, len(files) + 1), {}
        file, units = files[path], best[path]
        share, found, lines = shares[chunk_id], scores[chunk_id], state.lines_of(chunk_id)
        if file.rank > state.knobs.max_results and chunks_of[path] == 1:  # not sent: the best line says why
            for at in found.order[: min(1, counts[chunk_id])]:
                key = lines[at].number, 0
                units[key] = _Unit(-(share + found.values[at]), item.rank, key, file, item)
            continue
        if chunk_id not in made:
            made[chunk_id] = {(line.number, 0): line for line in lines}
        keys = file.load(made[chunk_id], lines)
        for at in found.order[: counts[chunk_id]]:
            minus_score, key = -(share + found.values[at]), keys[at]
            known = units.get(key)
            if known is None or minus_score < known.minus_score:
                units[key] = _Unit(minus_score, item.rank, key, file, item)
    return sorted(unit for units in best.values() for unit in units.values())


def _record(
    state: RankingState,
    scores: LineScores,
    by_path: Mapping[str, _File],
    refused: Mapping[str, str],
) -> None:
    cut_lines = {path: file.cut() for path, file in by_path.items()}
    texts = {path: file.joined() for path, file in by_path.items()}
    returned = {id(item) for file in by_path.values() for item in file.owners}
    kept, unused = [], []
    for item in state.ranked:
        chunk = state.pool.candidates[item.chunk_id]
        if id(item) not in returned:
            unused.append(item)
            continue
        kept.append(item)
        file, lines = by_path[chunk.path], state.lines_of(item.chunk_id)
        at = scores[item.chunk_id].best_line
        ranges = texts[chunk.path][1]
        inside = [(max(a, chunk.start_line), min(b, chunk.end_line)) for a, b in ranges]
        hidden = at is not None and _hides(file.shown.get(file.key_of(lines[at]), ""), lines[at], state.words)
        number = None if at is None else lines[at].number
        parts = tuple(x for x in inside if x[0] <= x[1])
        cut = (n for n in cut_lines[file.path] if any(a <= n <= b for a, b in parts))
        state.shown[item.chunk_id] = Shown(parts, number, hidden, tuple(cut))
    state.ranked = kept

    def why(item: Ranked) -> str:
        return refused.get(item.chunk_id, "every line of it is a heading, markup, or in a better chunk")

    state.drop(unused, "snippet", why)
    order = {item.chunk_id: rank for rank, item in enumerate(kept)}
    results = []
    for path, file in by_path.items():
        text, ranges = texts[path]
        owners = sorted(file.owners, key=lambda item: order[item.chunk_id])
        source = state.pool.candidates[owners[0].chunk_id].source
        span = ranges[0][0], ranges[-1][1]
        ids = tuple(item.chunk_id for item in owners)
        results.append(Result(ids, path, *span, source, owners[0].score, text, ranges))
    state.results = sorted(results, key=lambda result: order[result.chunk_ids[0]])


def _hides(shown: str, line: NoteLine, words: Sequence[str]) -> bool:
    """Whether what is shown of a line leaves out any word of the query that it holds; of one without, any."""
    part, whole = shown.casefold(), line.text.casefold()
    matched = [word for word in map(str.casefold, words) if word in whole]
    return shown != line.text and not (matched and all(word in part for word in matched))
