"""Which chunks of two runs are the same passage, when a note was edited between them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lab_world as world
from lab_world import SMALL, frame, lab, press, settled

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


async def test_one_column_names_the_changes_and_the_baseline_on_the_frame_of_the_hits(tmp_path: Path) -> None:
    app = world.workbench(tmp_path, initial_query="router vlan")
    async with app.run_test(size=SMALL) as pilot:
        await settled(pilot)
        hits = lab(app).hits
        assert "baseline" not in frame(hits) and "change" not in frame(hits)
        await press(pilot, "p", "G", "right")
        assert frame(hits).split(" · ")[1] == "snippet budget 700" and " · baseline: " in frame(hits)
        assert frame(hits).count(" · ") == 2, "a title with two facts"
        await press(pilot, "p")
        assert "snippet budget 700" in frame(hits), "also where the panel is closed"
        lab(app).tune(lab(app).search.view.knobs.set({"min_score": 0.5, "snippet_chars": 750, "mmr": True}))
        await settled(pilot)
        assert frame(hits).split(" · ")[1] == "4 knobs changed", "where there is no room for all names"
        assert "baseline" not in lab(app).funnel.text, "said once"
        await press(pilot, "U")
        assert "baseline" not in frame(hits) and "change" not in frame(hits)
