"""What the agent receives of the returned chunks: the head of each, a part around its best line, or the best
lines of many packed under one budget."""

from __future__ import annotations

from collections.abc import Sequence

from openclaw_mem_engine.model import snippet_of, utf16_length
from openclaw_mem_engine.ranking.lines import NoteLine, best_of, excerpt_of
from openclaw_mem_engine.ranking.stages.packing import pack
from openclaw_mem_engine.ranking.state import Ranked, RankingState
from openclaw_mem_engine.ranking.trace import Result, Shown


def cut_snippets(state: RankingState) -> None:
    """Decide which lines of the chunks that are left are shown, and mark those that hide their best line."""
    knobs = state.knobs
    scores = line_scores(state)
    if knobs.snippet == "packed":
        pack(state, scores)
        formula = f"best lines of {knobs.depth} chunks, {knobs.budget:,} characters in all"
    else:
        for item in state.ranked:
            _show_part(state, item, scores[item.chunk_id])
        where = "around the best line" if knobs.snippet == "best-line" else "from the start"
        formula = f"{knobs.snippet_chars:,} characters of each chunk, {where}"
    truncated = sum(1 for shown in state.shown.values() if shown.truncated)
    packed = {"snippet_budget": knobs.budget} if knobs.snippet == "packed" else {}
    state.record(
        "snippet",
        formula,
        {"snippet": knobs.snippet, "snippet_chars": knobs.snippet_chars, **packed},
        changed=truncated,
        kind="snippet",
        label="snip",
        heading="what the agent receives of each chunk",
    )


def line_scores(state: RankingState) -> dict[str, list[float]]:
    """The score of every line of the chunks that are left, 0–1: 0.6 × BM25 / the best + 0.4 × the cosine
    spread from 0 to 1, over the lines of these chunks. A line without a signal has 0."""
    ids = [item.chunk_id for item in state.ranked]
    made = {i: [0.0] * (state.pool.candidates[i].text.count("\n") + 1) for i in ids}
    for lst in state.lists:
        signals = state.pool.signals.get(lst.source.id, {})
        known = {i: lines for i in ids if i in signals and (lines := signals[i].lines) is not None}
        values = [value for lines in known.values() for value in lines if value is not None]
        if not values:
            continue
        low, high = (0.0 if lst.kind.by_words else min(values)), max(values)
        if high <= low:
            continue
        for i, lines in known.items():
            for at, value in enumerate(lines):
                if value is not None:
                    made[i][at] += lst.kind.line_share * (value - low) / (high - low)
    return made


def _show_part(state: RankingState, item: Ranked, scores: Sequence[float]) -> None:
    """One result for one chunk."""
    chunk, most = state.pool.candidates[item.chunk_id], state.knobs.snippet_chars
    lines = state.lines_of(item.chunk_id)
    best = best_of(lines, scores)
    text = snippet_of(chunk.text, most)
    first, last = 0, text.count("\n")
    # The last line shown may be cut.
    whole = {*range(last + (len(text) == len(chunk.text) or chunk.text[len(text)] == "\n"))}
    if state.knobs.snippet == "best-line" and best is not None and len(text) < len(chunk.text):
        text, first, last = _around(state, lines, best)
        whole = {*range(first, last + 1)} - ({best} if utf16_length(lines[best].text) > most else set())
    ranges = ((lines[first].number, lines[last].number),)
    number = None if best is None else lines[best].number
    cut = {line.number for at, line in enumerate(lines) if at not in whole}  # pieces share their number
    cut &= {line.number for line in lines[first : last + 1]}
    hidden = best is not None and best not in whole
    state.shown[item.chunk_id] = Shown(ranges, number, hidden, tuple(sorted(cut)))
    at = (chunk.path, chunk.start_line, chunk.end_line, chunk.source)
    state.results.append(Result((item.chunk_id,), *at, item.score, text, ranges))


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
