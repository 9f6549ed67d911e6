"""Exact ranks beyond the lists, in a process that stays: looked up when they are read, and only in the index
that was searched."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from openclaw_mem_engine.answer import Answer
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.ranking import lines, state
from openclaw_mem_engine.ranking.pipeline import rank
from openclaw_mem_engine.ranking.pool import OVERFETCH
from openclaw_mem_engine.ranking.profiles import DOCUMENTED, WORKBENCH
from support.memories import backend_of, open_memory, write_notes

NOTES = 2 * OVERFETCH + 20
DAY = 1_771_632_000.0
WORDS = "pump valve router garden boat lamp hill fish wolf gold silk drum horn milk".split()
WEIGHTS = [1 / (1 + at) for at in range(len(WORDS))]
#: In most notes, so that both lists are full and differ.
QUERY = "pump valve"
KNOBS = DOCUMENTED.set({"max_results": 60})
CHANGED = "; its exact rank is not known any more: the index has changed since"
UNREADABLE = "; its exact rank could not be read"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("late")
    draw = random.Random(3)
    texts = {f"memory/{n}.md": " ".join(draw.choices(WORDS, WEIGHTS, k=5)) + "\n" for n in range(NOTES)}
    with open_memory(write_notes(base / "ws", texts), base / "home", clock=lambda: DAY) as memory:
        memory.sync()
    return base


@pytest.fixture
def resident(folder: Path) -> Iterator[Memory]:
    with open_memory(folder / "ws", folder / "home", clock=lambda: DAY, resident=True) as memory:
        yield memory


def beyond(answer: Answer) -> list[str]:
    """The notes on rows that are in one list and too far down another."""
    notes = [operand.note for row in answer.trace.rows for operand in row.operands]
    return [note for note in notes if note.startswith(("rank", "not among")) and "cut at" not in note]


def without_times(answer: Answer) -> Any:
    data = answer.to_dict(explain=True)
    for stage in data["trace"]["stages"]:
        stage.pop("ms")
    return data


@pytest.mark.parametrize(
    "knobs", [DOCUMENTED, WORKBENCH.set({"fill_missing": False})], ids=lambda knobs: str(knobs.profile)
)
def test_ranks_that_are_read_late_are_those_of_an_explanation(resident: Memory, knobs: Any) -> None:
    knobs = knobs.set({"max_results": 60})
    with mock.patch.object(backend_of(resident).store, "stays_open", False):
        resident.search(QUERY, knobs)  # adds the rows that these knobs read, once
        eager = resident.search(QUERY, knobs)
    late = resident.search(QUERY, knobs)
    assert without_times(late) == without_times(eager)
    assert late.trace.rows == eager.trace.rows
    notes = beyond(late)
    assert any("keyword matches" in note for note in notes) and any("vectors" in note for note in notes)
    assert all(note.startswith("rank") for note in notes)


def test_a_search_reads_no_rank_beyond_its_lists(resident: Memory) -> None:
    store = type(backend_of(resident).store)
    with (
        mock.patch.object(store, "lexical_ranks", autospec=True, side_effect=store.lexical_ranks) as words,
        mock.patch.object(store, "vector_ranks", autospec=True, side_effect=store.vector_ranks) as vectors,
    ):
        answer = resident.search(QUERY, KNOBS)
        assert answer.hits and answer.text and len(answer.trace.rows) > OVERFETCH
        assert not any(hit.weak for hit in answer.hits)
        assert (words.call_count, vectors.call_count) == (0, 0)
        assert beyond(answer) == beyond(answer)
        assert (words.call_count, vectors.call_count) == (1, 1)


def test_what_both_lists_do_not_hold_is_scored_where_it_matches_alone(resident: Memory) -> None:
    """Which candidates match is known by then. Some notes of fish are near without the word."""
    store, query = type(backend_of(resident).store), "fisherman trout salmon pump"
    resident.search(query, WORKBENCH)  # adds the rows that these knobs read, once
    with mock.patch.object(store, "lexical_scores", autospec=True, side_effect=store.lexical_scores) as asked:
        pool = resident.retrieve(query, WORKBENCH)
        words = next(found for found in pool.lists if found.kind == "lexical")
        assert words.matches_beyond is not None
        assert {i for call in asked.call_args_list for i in call.args[2]} <= words.matches_beyond
    raw, held = pool.signals["bm25"], {row.chunk_id for row in words.rows}
    matching = {i: i in words.matches_beyond for i in raw if i not in held}
    assert {*matching.values()} == {True, False} and asked.called
    assert matching == {i: raw[i].raw is not None for i in matching}


def test_the_pool_of_the_next_letter_makes_candidates_and_lines_anew_for_new_chunks_alone(
    resident: Memory,
) -> None:
    first, second = (resident.retrieve(query, WORKBENCH) for query in (QUERY, f"{QUERY} r"))
    both = [chunk_id for chunk_id in first.candidates if chunk_id in second.candidates]
    assert both and all(first.candidates[i] is second.candidates[i] for i in both)
    rank(first, WORKBENCH)
    with mock.patch.object(state, "note_lines", side_effect=lines.note_lines) as made:
        rank(second, WORKBENCH)
        texts = [call.args[0].chunk_id for call in made.call_args_list]
    assert not {*texts} & {*first.memo["lines"]} and {*second.memo["lines"]} & {*first.memo["lines"]}


def test_a_rank_that_is_read_after_a_change_is_not_that_of_the_new_index(
    tmp_path: Path, folder: Path
) -> None:
    notes = {path.name: path.read_text("utf-8") for path in (folder / "ws/memory").iterdir()}
    write_notes(tmp_path / "ws/memory", notes)
    with open_memory(tmp_path / "ws", tmp_path / "home", clock=lambda: DAY, resident=True) as memory:
        memory.sync()
        read, unread = memory.search(QUERY, KNOBS), memory.search(QUERY, KNOBS)
        before = beyond(read)
        write_notes(tmp_path / "ws", {"memory/new.md": "pump pump pump valve valve\n"})
        assert memory.sync().changed
        assert beyond(read) == before
        after = beyond(unread)
        assert len(after) == len(before)
        for note in after:
            assert note.startswith(f"not among the first {OVERFETCH} of ") and note.endswith(CHANGED)
        fresh = memory.search(QUERY, KNOBS)
    # What was not read before the index was closed cannot be read any more.
    assert all(note.endswith(UNREADABLE) for note in beyond(fresh)) and beyond(fresh)
    assert beyond(read) == before


@pytest.mark.skipif(os.name == "nt", reason="there an open file stays")
def test_reading_a_rank_waits_for_no_writer_and_opens_no_other_index(tmp_path: Path, folder: Path) -> None:
    """It reads what was searched. What is in its place since is for the next search."""
    notes = {path.name: path.read_text("utf-8") for path in (folder / "ws/memory").iterdir()}
    write_notes(tmp_path / "ws/memory", notes)
    with open_memory(tmp_path / "ws", tmp_path / "home", clock=lambda: DAY, resident=True) as memory:
        memory.sync()
        read, unread = memory.search(QUERY, KNOBS), memory.search(QUERY, KNOBS)
        before, store = beyond(read), backend_of(memory).store
        for file in store.path.parent.glob(f"{store.path.name}*"):
            file.unlink()
        with open_memory(tmp_path / "ws", tmp_path / "home", clock=lambda: DAY) as other:
            other.sync()
        assert beyond(unread) == before and store.opened == 1
        late = memory.search(QUERY, KNOBS)
        assert store.opened == 2 and beyond(late) == before
