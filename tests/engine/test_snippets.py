"""What the agent receives: the head of a chunk, a part around its best line, or packed lines."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from openclaw_mem_engine.answer import Answer
from openclaw_mem_engine.answer_text import answer_text
from openclaw_mem_engine.chunking.line_chunker import chunk_lines
from openclaw_mem_engine.model import utf16_length
from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.lines import excerpt_of, note_lines
from openclaw_mem_engine.ranking.pipeline import rank
from openclaw_mem_engine.ranking.pool import Candidate, Pool, Signal
from openclaw_mem_engine.ranking.profiles import DOCUMENTED, OPENCLAW_2026_2, WORKBENCH
from openclaw_mem_engine.ranking.stages.packing import GAP, _File
from openclaw_mem_engine.ranking.trace import Trace
from support.pools import NOW, bm25_list, candidate

WORD = "pump"


def pool_of_notes(notes: dict[str, str], tokens: int = 60, overlap: int = 12) -> Pool:
    """Chunks of whole notes; a line scores how often it holds the word, a chunk what its lines do."""
    chunks: dict[str, Candidate] = {}
    for path, text in notes.items():
        for span in chunk_lines(text, tokens, overlap):
            if span.text.strip():
                chunk_id = f"{path}:{len(chunks)}"
                at = (path, span.start_line, span.end_line, span.text)
                chunks[chunk_id] = Candidate(chunk_id, *at, "memory")
    lines = {i: tuple(float(x.count(WORD)) for x in chunk.text.split("\n")) for i, chunk in chunks.items()}
    rows = sorted(((i, sum(lines[i]) + 0.5) for i in chunks), key=lambda row: -row[1])
    signals = {"bm25": {i: Signal(None, lines[i]) for i in chunks}}
    return Pool("pump", (bm25_list(rows, words=(WORD,)),), chunks, NOW, signals)


_LINES = (
    "",
    " ",
    "# Pumps",
    "## A heading",
    "---",
    "```sh",
    "- the pump hums",
    "a line 温室",
    "🙂 pump pump",
)
_LINE = st.sampled_from([*_LINES, "word " * 30 + "pump " + "word " * 30, "x" * 700])
_NOTES = st.dictionaries(
    st.sampled_from(["MEMORY.md", "memory/a.md", "memory/b.md"]),
    st.lists(_LINE, min_size=1, max_size=25).map("\n".join),
    min_size=1,
)
_KNOBS = st.builds(
    lambda snippet, chars, most, budget: DOCUMENTED.set(
        {
            "snippet": snippet,
            "snippet_chars": chars,
            "max_results": most,
            "snippet_budget": budget,
            "pool_results": 40,
        }
    ),
    st.sampled_from(["head", "best-line", "packed"]),
    st.sampled_from([40, 100, 700]),
    st.sampled_from([1, 3, 6]),
    st.sampled_from([0, 0, 60, 500]),
)


@settings(max_examples=300, deadline=None)
@given(_NOTES, _KNOBS)
@example(
    {"MEMORY.md": "---\ntitle: pump\n---\n# Head\n\nthe pump\n\nother"}, DOCUMENTED.set({"snippet": "packed"})
)
@example(  # two pieces of one line with a gap between them
    {"MEMORY.md": "word word pump " + "word " * 60 + "pump" + "\n- the pump hums"},
    DOCUMENTED.set({"snippet": "packed", "snippet_chars": 120, "max_results": 2}),
)
def test_every_line_comes_from_the_note_at_its_number_and_the_budget_holds(
    notes: dict[str, str], knobs: Knobs
) -> None:
    trace = rank(pool_of_notes(notes), knobs)
    assert rank(pool_of_notes(notes), knobs).results == trace.results
    assert len(trace.results) <= knobs.max_results
    for result in trace.results:
        lines = notes[result.path].split("\n")
        shown = [number for first, last in result.shown for number in range(first, last + 1)]
        parts = [part for part in result.snippet.split("\n") if part != GAP]
        assert [first for first, _ in result.shown] == sorted({first for first, _ in result.shown})
        assert result.start_line <= shown[0] and shown[-1] <= result.end_line
        # Pieces of a line that is longer than a chunk share its number.
        assert len(set(shown)) <= len(parts)
        numbers = iter(shown)
        number = next(numbers)
        for part in parts:
            while part not in lines[number - 1]:
                number = next(numbers)
        if knobs.snippet != "packed":
            assert utf16_length(result.snippet) <= knobs.snippet_chars
    if knobs.snippet == "packed":
        assert sum(utf16_length(result.snippet) for result in trace.results) <= knobs.budget
        assert len({result.path for result in trace.results}) == len(trace.results)


@settings(max_examples=200, deadline=None)
@given(_NOTES, _KNOBS)
def test_best_line_cut_means_that_it_is_not_shown_whole(notes: dict[str, str], knobs: Knobs) -> None:
    pool = pool_of_notes(notes)
    trace = rank(pool, knobs)
    for row in trace.returned:
        chunk, best = pool.candidates[row.chunk_id], row.shown.best_line
        scores = pool.signals["bm25"][row.chunk_id].lines or ()
        says = [(score, -line.number, line) for line, score in zip(note_lines(chunk), scores, strict=True)]
        usable = [(score or 0.0, n, line) for score, n, line in says if line.says_something and score]
        assert (best is None) == (not usable)
        if best is None:
            assert not row.shown.best_line_cut
            continue
        _, _, line = max(usable, key=lambda found: found[:2])
        text = next(result.snippet for result in trace.results if row.chunk_id in result.chunk_ids)
        assert line.number == best
        if row.shown.best_line_cut:
            assert row.sent[0] < row.sent[1] and row.truncated, "a line that is cut does not count as sent"
            assert (
                knobs.snippet != "head"
                or line.text not in text.split("\n")[:-1]
                or chunk.text.count(line.text) > 1
            )
        elif knobs.snippet == "packed" and best in row.shown.cut:
            assert WORD in line.text and WORD in text
        else:
            assert line.text in text.split("\n")
    for row in trace.returned:
        text = next(result.snippet for result in trace.results if row.chunk_id in result.chunk_ids)
        for line in note_lines(pool.candidates[row.chunk_id]):
            if any(a <= line.number <= b for a, b in row.shown.lines) and line.number not in row.shown.cut:
                assert line.text in text.split("\n")
    assert trace.best_line_cut == tuple(row for row in trace.returned if row.shown.best_line_cut)
    stage = trace.stage("snippet")
    assert stage is not None and stage.changed == len(trace.best_line_cut)


def test_a_cut_at_a_line_end_shows_nothing_of_the_next_line() -> None:
    note = f"{'x' * 39}\n{WORD}"
    (row,) = rank(
        pool_of_notes({"MEMORY.md": note}, tokens=400), DOCUMENTED.set({"snippet_chars": 40})
    ).returned
    assert (row.shown.lines, row.shown.cut, row.shown.best_line) == (((1, 1),), (), 2)
    assert row.shown.best_line_cut and row.truncated


@pytest.mark.parametrize("snippet", ["head", "best-line", "window", "packed"])
def test_blank_lines_at_the_end_of_a_chunk_are_not_missed(snippet: str) -> None:
    pool = pool_of_notes({"MEMORY.md": f"- tea\n- {WORD}\n\n \n"}, tokens=400)
    trace = rank(pool, DOCUMENTED.set({"snippet": snippet}))
    (row,) = trace.returned
    assert (row.end_line, row.sent, row.truncated) == (5, (5, 5), False)
    assert "truncated" not in answer_text(pool, trace)


def long_note() -> dict[str, str]:
    lines = ["# Runbook", "", *(f"step {n}: check the valve number {n}" for n in range(1, 61))]
    lines += ["", "## Restart", "the pump restarts with code 4711"]
    return {"memory/runbook.md": "\n".join(lines)}


def found(knobs: Knobs) -> Trace:
    return rank(pool_of_notes(long_note(), tokens=1000), knobs)


def test_an_answer_at_the_end_of_a_chunk_is_truncated_by_head_and_shown_by_the_others() -> None:
    head, around, packed = (found(DOCUMENTED.set({"snippet": s})) for s in ("head", "best-line", "packed"))
    assert "4711" not in head.results[0].snippet
    assert head.returned[0].shown.best_line_cut and head.returned[0].shown.best_line == 65
    for trace in (around, packed):
        assert "4711" in trace.results[0].snippet
        assert not trace.best_line_cut
        assert trace.results[0].shown[-1][1] == 65
    # The section's heading comes with its line.
    assert packed.results[0].snippet.endswith("## Restart\nthe pump restarts with code 4711")


def test_the_json_of_an_answer_says_what_is_cut() -> None:
    pool = pool_of_notes(long_note(), tokens=1000)
    knobs = DOCUMENTED.set({"max_results": 1})
    data = Answer(pool, rank(pool, knobs)).to_dict(explain=True)
    hit, row = data["results"][0], data["trace"]["rows"][0]
    assert data["trace"]["version"] == 2
    assert (hit["bestLineCut"], hit["bestLine"]) == (row["bestLineCut"], row["bestLine"]) == (True, 65)
    assert json.loads(json.dumps([hit["shown"], row["shown"]])) == [[[1, 23]], [[1, 23]]]


def test_front_matter_fences_and_rules_are_never_packed() -> None:
    note = "---\ntitle: pump pump\n---\n# Pump\n```sh\npump --start\n```\n---\n|---|---|\nthe pump\n"
    trace = rank(pool_of_notes({"MEMORY.md": note}), DOCUMENTED.set({"snippet": "packed"}))
    assert trace.results[0].snippet == f"# Pump\n{GAP}\npump --start\n{GAP}\nthe pump"
    assert trace.results[0].shown == ((4, 4), (6, 6), (10, 10))


def test_a_chunk_whose_lines_are_all_left_out_says_why() -> None:
    notes = {f"memory/{n}.md": f"{WORD} " * (9 - n) for n in range(8)}
    trace = rank(
        pool_of_notes(notes), DOCUMENTED.set({"snippet": "packed", "max_results": 2, "pool_results": 40})
    )
    assert [result.path for result in trace.results] == ["memory/0.md", "memory/1.md"]
    reasons = {row.path: row.outcome.reason for row in trace.dropped}
    assert reasons["memory/2.md"] == "its file is the 3rd; only lines of the first 2 files are sent"
    small = rank(pool_of_notes(notes), DOCUMENTED.set({"snippet": "packed", "snippet_budget": 50}))
    assert [result.path for result in small.results] == ["memory/0.md"]
    assert small.dropped[0].outcome.stage == "snippet"
    assert small.dropped[0].outcome.reason == "its best line (1) does not fit: better ones fill 50 characters"


@pytest.mark.parametrize("knobs", [DOCUMENTED, OPENCLAW_2026_2])
def test_the_profiles_of_other_programs_show_the_head(knobs: Knobs) -> None:
    assert (knobs.snippet, WORKBENCH.snippet, WORKBENCH.budget) == ("head", "packed", 4200)


def test_a_long_line_is_cut_where_the_words_are() -> None:
    text = "lorem ipsum " * 100 + "the pump restarts " + "dolor sit " * 100
    part = excerpt_of(text, ("pump", "restarts"), 100)
    assert "pump restarts" in part and utf16_length(part) <= 100 and part in text
    assert excerpt_of("🙂" * 60, (), 41) == "🙂" * 20
    assert excerpt_of("short", ("x",), 40) == "short"


def test_the_part_of_a_line_is_the_first_with_the_most_words_however_long_it_is() -> None:
    draw = random.Random(4)
    for _ in range(200):
        text = " ".join(draw.choice(("pump", "Valve", "fan", "x" * draw.randint(1, 9))) for _ in range(60))
        found = [(m.start(), m[0].casefold()) for m in re.finditer("pump|valve|fan", text, re.I)]
        held = [len({word for place, word in found if at <= place < at + 30}) for at, _ in found]
        start = next((at for (at, _), n in zip(found, held, strict=True) if n == max(held)), 0)
        shown = excerpt_of(text, ("pump", "valve", "fan"), 40)
        assert text[start : start + 20] in shown or start + 40 >= len(text)
    line = '{"pump": "valve", ' * 20_000  # 40,000 matches: to compare each with each takes minutes
    assert excerpt_of(line, ("pump", "valve"), 100) == line[:100]


def test_a_packed_part_with_all_the_words_is_not_truncated() -> None:
    for line, hidden in ((f"{'so ' * 90}{WORD}{' on' * 90}", False), (f"{WORD}{' on' * 90} valve", True)):
        pool = pool_of_notes({"MEMORY.md": line}, tokens=400)
        words = (replace(pool.lists[0], words=(WORD, "valve")),)
        knobs = DOCUMENTED.set({"snippet": "packed", "snippet_chars": 60})
        (row,) = rank(replace(pool, lists=words), knobs).returned
        assert (row.shown.best_line, row.shown.best_line_cut, row.shown.cut) == (1, hidden, (1,))


@given(
    st.lists(st.sampled_from(["# head", "word", "", "  ", "a", "😀 längere Zeile"]), min_size=1), st.data()
)
def test_a_line_takes_the_units_that_the_text_of_its_file_grows_by(
    texts: list[str], data: st.DataObject
) -> None:
    lines = note_lines(candidate("a", "\n".join(texts))._replace(end_line=len(texts)))
    file, room = _File("a.md", 1), data.draw(st.integers(0, 80))
    file.load({(line.number, 0): line for line in lines}, lines)
    used = 0
    for line in data.draw(st.permutations([line for line in lines if line.says_something])):
        used += file.add((line.number, 0), line.text, room - used) or 0
    if file.shown:
        text, ranges = file.joined()
        assert utf16_length(text) == used <= room
        assert {n for n, _ in file.shown} <= {n for a, b in ranges for n in range(a, b + 1)}
