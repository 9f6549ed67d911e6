"""What the agent receives of the returned chunks: the head of each, a part around its best line, or the best
lines of many packed under one budget."""

from __future__ import annotations

from collections.abc import Sequence

from openclaw_mem_engine.model import snippet_of, utf16_length
from openclaw_mem_engine.ranking.lines import NoteLine, ScoredLines, excerpt_of, scored_lines
from openclaw_mem_engine.ranking.pool import Pool
from openclaw_mem_engine.ranking.stages.packing import pack
from openclaw_mem_engine.ranking.state import Ranked, RankingState
from openclaw_mem_engine.ranking.trace import Result, Shown

_WHERE = {
    "head": "from the start",
    "best-line": "around the best line",
    "window": "from the line before the best one to the second after it",
}
#: The most lines of a window: those before and after the best one, and itself.
_BEFORE, _AFTER = 1, 2
WINDOW = _BEFORE + 1 + _AFTER
#: At the end of a window that was cut.
_DOTS = "..."


def cut_snippets(state: RankingState) -> None:
    """Decide which lines of the chunks that are left are shown, and mark those that hide their best line."""
    knobs = state.knobs
    wanted = state.wanted
    if wanted and wanted.line is not None and knobs.snippet == "head":
        # The start of a chunk is the same whatever its lines score.
        for item in state.ranked:
            if item.chunk_id in wanted.chunk_ids:
                _show_part(state, item, None)
        return
    scores = LineScores(state)
    if knobs.snippet == "packed":
        pack(state, scores)
        formula = f"best lines of {knobs.depth} chunks, {knobs.budget:,} characters in all"
    else:
        for item in state.ranked:
            if wanted is None or item.chunk_id in wanted.chunk_ids:
                _show_part(state, item, scores[item.chunk_id].best_line)
        where = _WHERE[knobs.snippet]
        formula = f"{knobs.snippet_chars:,} characters of each chunk, {where}"
    truncated = sum(1 for shown in state.shown.values() if shown.truncated)
    packed = {"snippet_budget": knobs.budget} if knobs.snippet == "packed" else {}
    state.record(
        "snippet",
        formula,
        {"snippet": knobs.snippet, "snippet_chars": knobs.snippet_chars, **packed},
        changed=truncated,
        kind="snippet",
        label="sent",
        heading="lines sent to the agent / lines of the chunk",
    )


class LineScores:
    """The score of every line of the chunks that are left, 0–1: 0.6 × BM25 / the best + 0.4 × the cosine
    spread from 0 to 1, over the lines of these chunks. A line without a signal has 0. Those of a chunk are
    made when they are asked for, once for a pool and the same limits. None is above ``most``."""

    def __init__(self, state: RankingState) -> None:
        self._state, ids = state, [item.chunk_id for item in state.ranked]
        self._scales: list[tuple[str, float, float, float]] = []  # list, its share, lowest and highest value
        for lst in state.lists:
            source, limits = lst.source.id, _limits(state.pool, lst.source.id, ids)
            low = 0.0 if lst.kind.by_words else min((low for low, _ in limits), default=0.0)
            high = max((high for _, high in limits), default=0.0)
            if high > low:
                self._scales.append((source, lst.kind.line_share, low, high))
        self.most = sum(share for _, share, *_ in self._scales)
        self._made: dict[str, ScoredLines] = state.pool.memo.setdefault(("line scores", *self._scales), {})

    def __getitem__(self, chunk_id: str) -> ScoredLines:
        if chunk_id not in self._made:
            self._made[chunk_id] = _scored(self._state, chunk_id, self._scales)
        return self._made[chunk_id]


def _limits(pool: Pool, list_id: str, ids: Sequence[str]) -> list[tuple[float, float]]:
    """The lowest and highest score of the lines of each chunk that has one."""
    signals = pool.signals.get(list_id, {})
    known: dict[str, tuple[float, float] | None] = pool.memo.setdefault(("line limits", list_id), {})
    for i in ids:
        if i not in known:
            values = [
                value for value in (signals[i].lines if i in signals else ()) or () if value is not None
            ]
            known[i] = (min(values), max(values)) if values else None
    return [limits for i in ids if (limits := known[i]) is not None]


def _scored(
    state: RankingState, chunk_id: str, scales: Sequence[tuple[str, float, float, float]]
) -> ScoredLines:
    lines = state.lines_of(chunk_id)
    scores = [0.0] * len(lines)
    for source, share, low, high in scales:
        signal = state.pool.signals[source].get(chunk_id)
        for at, value in enumerate((signal.lines if signal else ()) or ()):
            if value is not None:
                scores[at] += share * (value - low) / (high - low)
    return scored_lines(lines, scores)


def _show_part(state: RankingState, item: Ranked, best: int | None) -> None:
    """One result for one chunk."""
    chunk, most = state.pool.candidates[item.chunk_id], state.knobs.snippet_chars
    lines = state.lines_of(item.chunk_id)
    text = snippet_of(chunk.text, most)
    first, last = 0, text.count("\n")
    # The last line shown may be cut, also before its first character.
    ends = len(text) == len(chunk.text) or chunk.text[len(text)] == "\n"
    whole = {*range(last + ends)}
    last -= text.endswith("\n") and not ends
    if state.knobs.snippet == "best-line" and best is not None and len(text) < len(chunk.text):
        text, first, last = _around(state, lines, best)
        whole = {*range(first, last + 1)} - ({best} if utf16_length(lines[best].text) > most else set())
    elif state.knobs.snippet == "window":
        best = _most_words(state, lines) if best is None else best
        text, first, last, whole = _window(lines, best or 0, most)
    ranges = ((lines[first].number, lines[last].number),)
    number = None if best is None else lines[best].number
    cut = {line.number for at, line in enumerate(lines) if at not in whole}  # pieces share their number
    cut &= {line.number for line in lines[first : last + 1]}
    hidden = best is not None and best not in whole
    state.shown[item.chunk_id] = Shown(ranges, number, hidden, tuple(sorted(cut)))
    at = (chunk.path, chunk.start_line, chunk.end_line, chunk.source)
    state.results.append(Result((item.chunk_id,), *at, item.score, text, ranges))


def _most_words(state: RankingState, lines: Sequence[NoteLine]) -> int | None:
    """The index of the line with the most words of the query; the first of several, None without any."""
    from openclaw_mem_engine.ranking.query_words import best_line

    best, score = best_line([line.text for line in lines], state.pool.query, state.pool.intent)
    return best if score else None


def _window(lines: Sequence[NoteLine], best: int, most: int) -> tuple[str, int, int, set[int]]:
    """The best line with one line before it and two after it, cut at ``most`` units (QMD's snippet): the
    text, the indexes of its first and last line, and of those that are whole."""
    first, last = max(0, best - _BEFORE), min(len(lines) - 1, best + _AFTER)
    joined = "\n".join(line.text for line in lines[first : last + 1])
    if utf16_length(joined) <= most:
        return joined, first, last, {*range(first, last + 1)}
    kept = snippet_of(joined, most - len(_DOTS))
    last = first + kept.count("\n")
    return kept + _DOTS, first, last, {*range(first, last)}


def _around(state: RankingState, lines: Sequence[NoteLine], best: int) -> tuple[str, int, int]:
    """The best line and as many whole lines around it as fit, taken below and above in turns: the text and
    the indexes of its first and last line."""
    room = state.knobs.snippet_chars
    parts = [excerpt_of(lines[best].text, state.words, room)]
    room -= utf16_length(parts[0])
    first = last = best
    grows = True
    while grows:
        grows = False
        for at in (last + 1, first - 1):
            if 0 <= at < len(lines) and (need := utf16_length(lines[at].text) + 1) <= room:
                room, grows = room - need, True
                if at > last:
                    last, parts = at, [*parts, lines[at].text]
                else:
                    first, parts = at, [lines[at].text, *parts]
    return "\n".join(parts), first, last
