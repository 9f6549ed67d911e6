"""What the agent receives of the returned chunks: the head of each, a part around its best line, or the best
lines of many packed under one budget."""

from __future__ import annotations

from collections.abc import Sequence

from openclaw_mem_engine.model import snippet_of, utf16_length
from openclaw_mem_engine.ranking.lines import NoteLine, excerpt_of
from openclaw_mem_engine.ranking.stages.line_scores import LineScores
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
    cut = sum(1 for shown in state.shown.values() if shown.best_line_cut)
    packed = {"snippet_budget": knobs.budget} if knobs.snippet == "packed" else {}
    state.record(
        "snippet",
        formula,
        {"snippet": knobs.snippet, "snippet_chars": knobs.snippet_chars, **packed},
        changed=cut,
        kind="snippet",
        label="sent",
        heading="whole lines sent to the agent / lines",
    )


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
