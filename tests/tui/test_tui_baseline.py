"""Which chunks of two runs are the same passage, when a note was edited between them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from openclaw_mem_tui.features.search.baseline import edited, same_lines


def row(name: str, start: int, end: int, path: str = "a.md") -> Any:
    return SimpleNamespace(chunk_id=name, path=path, start_line=start, end_line=end)


def run(*rows: Any) -> Any:
    return SimpleNamespace(rows=rows)


def test_an_edited_chunk_is_that_of_its_lines() -> None:
    before = run(row("one", 1, 20), row("two", 17, 40), row("other", 1, 20, "b.md"))
    now = run(row("one", 1, 20), row("two edited", 17, 42), row("other", 1, 20, "b.md"))
    assert edited(before, now) == {"two": "two edited"}


def test_the_lines_that_neighbours_repeat_are_not_enough() -> None:
    before, now = run(row("one", 1, 20)), run(row("two", 17, 40), row("same lines", 1, 20, "b.md"))
    assert edited(before, now) == {}
    assert same_lines(before.rows[0], now.rows) is None


def test_two_chunks_never_become_one() -> None:
    before, now = run(row("one", 1, 10), row("two", 8, 18)), run(row("all", 1, 18))
    assert edited(before, now) == {"one": "all"}
