"""Words of many chunks in a large index: left out beside others, said, and searched when asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.ranking.profiles import DOCUMENTED, WORKBENCH
from openclaw_mem_engine.stores.query import Common, LexicalQuery
from openclaw_mem_engine.stores.sqlite.full_text import FullTextRows
from support.memories import open_memory, write_notes

ALL = {"common_words": "all"}


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    """ "pump" is in every note, "valve" in two of three, "heron" in one of ten."""
    folder: Path = tmp_path_factory.mktemp("common")
    notes = {
        f"memory/n{n:02}.md": f"pump {'valve ' * (n % 3 > 0)}{'heron ' * (n % 10 == 0)}{'pump ' * (n % 7)}\n"
        for n in range(30)
    }
    with open_memory(write_notes(folder / "ws", notes), folder / "home", provider="none") as opened:
        opened.sync()
        yield opened


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Common, "FROM", 30)


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("profile", [DOCUMENTED, WORKBENCH])
@pytest.mark.parametrize(
    ("query", "searched", "skipped"),
    [
        ("pump valve heron", "heron", "pump, valve"),
        ("pump heron zeppelin", "heron zeppelin", "pump"),
        ("pump valve", "valve", "pump"),
        ("pump valve zeppelin", "valve zeppelin", "pump"),
    ],
)
def test_common_words_are_left_out_beside_others_and_named(
    memory: Memory, profile: object, query: str, searched: str, skipped: str
) -> None:
    knobs = DOCUMENTED if profile is DOCUMENTED else WORKBENCH
    answer, plain = memory.search(query, knobs), memory.search(searched, knobs)
    (found,) = answer.pool.lists
    assert (found.rows, found.words) == (plain.pool.lists[0].rows, tuple(searched.split()))
    note = next(note.text for note in answer.pool.notes if note.code == "common-words")
    assert "30%" in note and f"them: {skipped}. `--set common_words=all`" in note
    whole = memory.search(query, knobs.set(ALL))
    assert whole.pool.lists[0].matched == 30 and whole.pool.lists[0].words == tuple(query.split())
    assert "common-words" not in {note.code for note in whole.pool.notes}


@pytest.mark.parametrize(
    ("query", "settings"),
    [("pump", {}), ("zeppelin airship", {}), ("pump valve", {"lexical_form": "and"}), ("heron zeppelin", {})],
)
@pytest.mark.usefixtures("large")
def test_all_words_are_searched_where_there_is_nothing_to_leave_out(
    memory: Memory, query: str, settings: dict[str, object]
) -> None:
    knobs = DOCUMENTED.set(settings)
    answer, whole = memory.search(query, knobs), memory.search(query, knobs.set(ALL))
    assert answer.pool.lists[0].rows == whole.pool.lists[0].rows
    assert "common-words" not in {note.code for note in answer.pool.notes}


@pytest.mark.usefixtures("large")
def test_words_are_counted_once_while_the_index_does_not_change(tmp_path: Path) -> None:
    notes = {f"memory/n{n:02}.md": f"otter {'gull ' * (n < 2)}{'crane ' * (n < 3)}\n" for n in range(30)}
    workspace = write_notes(tmp_path / "ws", notes)
    counted: list[str] = []
    count = FullTextRows._count

    def counting(self: FullTextRows, query: LexicalQuery, expression: str) -> int:
        counted.append(expression)
        return count(self, query, expression)

    with (
        open_memory(workspace, tmp_path / "home", provider="none") as memory,
        mock.patch.object(FullTextRows, "_count", counting),
    ):
        memory.sync()
        assert memory.search("otter gull").pool.lists[0].matched == 2
        assert memory.search("otter crane").pool.lists[0].matched == 3
        assert sorted(counted) == ['"crane"', '"gull"', '"otter"']
        write_notes(workspace, {f"memory/n{n:02}.md": "gull\n" for n in range(25)})
        memory.sync()
        assert memory.search("otter gull").pool.lists[0].matched == 5, "now the other is common"
        assert len(counted) == 5


def test_a_small_index_is_searched_for_every_word(memory: Memory) -> None:
    answer, whole = (memory.search("pump valve heron", DOCUMENTED.set(s)) for s in ({}, ALL))
    assert answer.pool.lists[0].rows == whole.pool.lists[0].rows and len(whole.pool.lists[0].rows) == 30


@pytest.mark.usefixtures("large")
def test_why_not_names_the_knob_that_brings_a_common_word_back(memory: Memory) -> None:
    knobs = DOCUMENTED.set({"max_results": 40})
    found = memory.why_not("pump heron", "memory/n06.md", None, knobs)
    assert ALL in [change.set for change in found.changes]
    assert {hit.path for hit in memory.search("pump heron", knobs.set(ALL)).hits} >= {"memory/n06.md"}
