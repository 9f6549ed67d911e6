"""The sentence above an answer, and the fate of one passage: each claim is recomputed another way."""

from __future__ import annotations

import atexit
import datetime
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from openclaw_mem_engine.answer import stem
from openclaw_mem_engine.answer_text import answer_text, fate, unrelated
from openclaw_mem_engine.demo import ANCHOR, write_demo
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.model import Expected, Note, utf16_length
from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.pipeline import rank
from openclaw_mem_engine.ranking.profiles import PROFILES, SELECTABLE, changed, profile
from openclaw_mem_engine.state.expected import EXPECTED_FILE
from support.memories import copy_indexed, open_memory

NOON = datetime.datetime.combine(ANCHOR, datetime.time(12), datetime.UTC).timestamp()
QUERIES = (
    "how long did the last restore drill take",
    "xyzzy plugh",
    "router vlan",
    "where is the backup of the firmware signing key",
    "how do I cook pasta carbonara",
    "der Drucker im Studio",
    "4471",
)
SETTINGS = [
    *({"profile": name} for name in SELECTABLE),
    {"keyword_rescue": "off"},
    {"mode": "vector", "min_score": 0.0},
    {"mode": "bm25", "max_results": 2},
    {"snippet_chars": 60},
    {"profile": "workbench", "snippet_budget": 300},
    {"decay": "on", "mmr": "on", "min_score": 0.1},
    {"decay": "on", "snippet": "packed"},
]


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Memory]:
    copy_indexed(indexed_demo(), tmp_path, "demo", "home/data")
    with open_memory(tmp_path / "demo", tmp_path / "home", clock=lambda: NOON) as memory:
        yield memory


@cache
def indexed_demo() -> Path:
    root = Path(tempfile.mkdtemp(prefix="openclaw-mem-answer-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    with open_memory(write_demo(root / "demo", ANCHOR), root / "home", clock=lambda: NOON) as memory:
        memory.sync()
    return root


@pytest.mark.parametrize("changes", SETTINGS, ids=str)
def test_every_claim_of_the_sentence_is_true(demo: Memory, changes: dict[str, str]) -> None:
    knobs = changed(Knobs(), changes)
    texts = [demo.get(path).text for path in demo.paths()]
    words = {stem(word) for text in texts for word in re.findall(r"\w+", text)}
    for query in QUERIES:
        pool = demo.retrieve(query, knobs)
        trace = rank(pool, knobs)
        said = answer_text(pool, trace)
        counted = re.match(r"(\d+) results?\b", said)
        assert int(counted[1]) == len(trace.results) if counted else not trace.results
        if "no searched word occurs" in said:
            assert not words & {stem(w) for w in re.findall(r"\w+", query) if len(w) > 3}
        if best := re.search(r"best cosine (\d\.\d+)", said):
            vector = next(lst for lst in pool.lists if lst.kind == "vector")
            assert float(best[1]) == pytest.approx(max(row.raw for row in vector.rows), abs=0.0006)
        filled = rank(pool, knobs.set({"keyword_rescue": "fill"}))
        more = len(filled.returned) - len(trace.returned)
        claimed = re.search(r"Keyword rescue = fill would return (\d+)( more)? \(OpenClaw", said)
        assert bool(claimed) == (more > 0 and knobs.snippet != "packed"), (query, said)
        if claimed:
            assert int(claimed[1]) == more and bool(claimed[2]) == bool(trace.returned)
        below = re.search(r"(?:(\d+)|its|all (\d+)) (?:is|are|scores? (?:is|are)) below min score", said)
        rescued = len(trace.returned) if "by keyword rescue" in said else 0
        low = rescued + sum(row.final < knobs.min_score for row in trace.dropped if row.final is not None)
        if trace.cut is not None and not trace.cut.note and trace.results:
            assert int(below[1] or below[2] or 1 if below else 0) == low, (query, said)
        rows = [[row for row in trace.returned if row.chunk_id in found.chunk_ids] for found in trace.results]
        cut = sum(any(row.truncated or row.shown.best_line_cut for row in parts) for parts in rows)
        said_cut = re.search(
            r"(\d+|All|The result is) truncated to (?:at most )?(?:(\d) lines or )?"
            r"([\d,]+) characters( in all)?",
            said,
        )
        if said_cut:
            _, lines, units, in_all = said_cut.groups()
            sizes = [utf16_length(found.snippet) for found in trace.results]
            most = sum(sizes) if in_all else max(sizes)
            assert most <= int(units.replace(",", "")) and bool(in_all) == (knobs.snippet == "packed")
            rows_of = max(found.snippet.count("\n") + 1 for found in trace.results)
            assert rows_of <= int(lines) if lines else knobs.snippet != "window"
        numbers = {"All": len(rows), "The result is": 1}
        assert (numbers.get(said_cut[1]) or int(said_cut[1]) if said_cut else 0) == cut, (query, said)
        hidden = [[row.shown for row in parts if row.shown.best_line_cut] for parts in rows]
        whole = [any(a <= (s.best_line or 0) <= b for a, b in s.lines) for parts in hidden for s in parts]
        loses = re.search(r"(\d+|and|#1) loses? (all or part of |a part of |)(its|their) best line", said)
        assert bool(loses) == any(hidden), (query, said)
        if loses:
            assert int(loses[1] if loses[1].isdigit() else 1) == sum(map(bool, hidden))
            assert loses[2] == ("all or part of " if {*whole} == {True, False} else "a part of " * whole[0])
        if "by keyword rescue" in said:
            assert all(result.score < knobs.min_score for result in trace.results)


def test_the_sentence_names_what_openclaw_returns_by_now(demo: Memory) -> None:
    answer = demo.search(QUERIES[0])
    assert (
        "2 results" in answer.text
        and ". Keyword rescue = fill would return 4 more (OpenClaw 2026.9.6 has a similar rule)"
        in answer.text
    )
    assert len(answer.text) < 170 and answer.to_dict()["answer"] == answer.text
    assert "2026.9.6" not in demo.search(QUERIES[0], Knobs().set({"keyword_rescue": "fill"})).text
    of_qmd = demo.search("restore", profile("qmd-2.8").set({"min_score": 0.9})).text
    assert "below min score 0.9" in of_qmd and "2026.9.6" not in of_qmd, "QMD has no keyword rescue"


def test_nothing_relevant_and_nothing_searched(demo: Memory) -> None:
    none = demo.search("xyzzy plugh")
    assert none.text == (
        "Nothing relevant found; no searched word occurs in the index, best cosine 0.128, below 0.32 (weak)"
    )
    assert unrelated(none.pool, none.trace.knobs)
    # Where passages hold some of the words but none holds all, or no floor was measured, it is not known.
    every = Knobs().set({"lexical_form": "and"})
    assert not unrelated(demo.retrieve("xyzzy plugh", every), every)
    unmeasured = replace(none.pool, lists=tuple(replace(lst, floor=None) for lst in none.pool.lists))
    assert answer_text(unmeasured, none.trace).startswith("Nothing reaches min score 0.35: the best is 0.")
    damage = Note("index-damaged", "The index is damaged.", "warning")
    assert answer_text(replace(unmeasured, notes=(damage,)), none.trace).startswith(
        "Nothing in the part of the index that can be read reaches min score 0.35: the best is 0."
    ), "candidates were found"
    lists = tuple(
        replace(lst, rows=tuple(row._replace(raw=-0.001) for row in lst.rows)) for lst in none.pool.lists
    )
    near = tuple(
        replace(lst, rows=tuple(row._replace(raw=0.3199999) for row in lst.rows)) for lst in none.pool.lists
    )
    said = answer_text(replace(none.pool, lists=near), none.trace)
    assert "best cosine 0.3199999, below 0.32 (weak)" in said, "as many digits as make it true"
    assert "best cosine 0.001" not in said and "best cosine −0.001" in answer_text(
        replace(none.pool, lists=lists), none.trace
    )
    weak = demo.search("xyzzy plugh", profile("workbench"))
    assert weak.text.startswith("6 results by vectors only: no searched word occurs in the index. ")
    assert "best cosine" in weak.trace.notes[-1].text, (
        "of the results, which need not have the best of all chunks"
    )
    bare = replace(none.pool, lists=(), candidates={}, signals={})
    assert answer_text(bare, rank(bare, Knobs())) == "Nothing found: nothing could be searched"
    pool, by_vector = demo.retrieve("router vlan"), Knobs().set({"mode": "vector"})
    words = replace(pool, lists=tuple(lst for lst in pool.lists if lst.kind == "lexical"))
    said = answer_text(words, trace := rank(words, by_vector))
    reason = "found only by BM25; vector mode does not use BM25"
    assert said.startswith(f"Nothing returned; {trace.rows[0].location}: {reason}"), "something is found"


def test_a_best_line_that_is_cut_off_is_said(demo: Memory) -> None:
    knobs = Knobs().set({"snippet_chars": 60})
    found = demo.search(QUERIES[0], knobs)
    line = found.trace.returned[0].shown.best_line
    assert "2 lose all or part of their best line" in found.text
    one = demo.search(QUERIES[0], knobs.set({"max_results": 1}))
    assert one.text.startswith(
        f"1 result. The result is truncated to 60 characters, and loses its best line (line {line}). "
        "36 are below min score 0.35"
    )
    cut_off = fate(found.trace, found.hits[0].path, line or 0)
    assert cut_off == (1, False, f"rank 1, but line {line} is not shown")
    whole = demo.search(QUERIES[0])
    assert fate(whole.trace, whole.hits[0].path, line or 0) == (1, True, "rank 1")


def test_the_fate_of_a_passage_is_that_of_its_row(demo: Memory) -> None:
    for name in PROFILES:
        trace = demo.search(QUERIES[0], profile(name)).trace
        for row in trace.dropped:
            found = fate(trace, row.path, row.end_line)
            if (
                not found.shown and (row.outcome.reason or "") in found.text
            ):  # no better chunk holds that line
                assert found.rank == row.ranks.get("final")
        for number, result in enumerate(trace.results, 1):
            assert fate(trace, result.path, result.shown[0][0]) == (number, True, f"rank {number}")
    assert fate(trace, "memory/none.md", 1) == (None, False, "in no candidate list")


def test_expected_passages_are_kept_by_workspace(demo: Memory, tmp_path: Path) -> None:
    file = demo.settings.data_dir / EXPECTED_FILE
    assert demo.expected.read() == () and not file.exists()
    passage = Expected("memory/2025-09-05.md", 6)
    assert demo.expected.toggle(passage)
    assert demo.expected.toggle(Expected("MEMORY.md", 3))
    assert file.stat().st_mode & 0o777 == 0o600
    with Memory.open(demo.settings) as again:
        assert again.expected.read() == (Expected("MEMORY.md", 3), passage)
        assert not again.expected.toggle(Expected("MEMORY.md", 3))
    with Memory.open(replace(demo.settings, agent="other")) as other:
        assert other.expected.read() == ()
    assert demo.expected.read() == (passage,)
    assert demo.expected.toggle(Expected("MEMORY.md", 9), "restore drill")
    assert demo.expected.queries() == {Expected("MEMORY.md", 9): "restore drill", passage: ""}
