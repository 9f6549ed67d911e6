"""The search lab over the demo: its lessons."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any, cast

import lab_world as world
import pytest
from lab_world import LARGE, SMALL, frame, lab, press, settled
from test_tui_lab import running
from textual.css.stylesheet import Stylesheet

from openclaw_mem_engine.memory import Memory
from openclaw_mem_tui.app import Workbench
from openclaw_mem_tui.features.search.render import preview as preview_lines
from openclaw_mem_tui.features.search.screen import SearchScreen
from openclaw_mem_tui.widgets.dialogs import Choices, HelpText, PickScreen
from openclaw_mem_tui.widgets.edges import KeyBar
from openclaw_mem_tui.widgets.lists import CursorList


async def test_lessons_are_loaded_picked_and_left(tmp_path: Path) -> None:
    async with running(tmp_path, demo=world.make.demo_guide()) as (pilot, screen):
        assert "lesson 1 of 15" in screen.lesson.text
        assert screen.search.view.knobs.decay and screen.search.view.baseline_name == "of the lesson"
        assert "lessons" in screen.query_one(KeyBar).text
        await press(pilot, "right_square_bracket")
        assert "lesson 2 of 15" in screen.lesson.text
        assert "Nothing reaches min score .35" in screen.answer.text
        await press(pilot, "left_square_bracket", "left_square_bracket")
        assert "lesson 15 of 15" in screen.lesson.text

        await press(pilot, "right_square_bracket")
        await pilot.press("T")
        await pilot.pause()
        assert isinstance(pilot.app.screen, PickScreen)
        await settled(pilot)
        assert world.plain(pilot.app.screen._box.border_subtitle) == "enter pick · esc close", (
            "all rows are in sight"
        )
        box = pilot.app.screen._box
        assert box.region.width == LARGE[0], "no letters of the screen below are left beside it"
        await pilot.resize_terminal(200, 36)
        await settled(pilot)
        assert box.region.x > 40 and box.region.right < 160
        await pilot.resize_terminal(*LARGE)
        await settled(pilot)
        rows = pilot.app.screen.query_one(CursorList)
        for key, at in (("G", 14), ("ctrl+u", 4), ("g", 0), ("ctrl+d", 10), ("home", 0)):
            await pilot.press(key)
            assert rows.cursor == at, key
        await pilot.press("down", "down")
        await pilot.resize_terminal(60, 20)
        await settled(pilot)
        assert world.plain(pilot.app.screen._box.border_subtitle) == "3 of 15 · enter pick · esc close"
        picker = pilot.app.screen.query_one("Choices")
        said = " ".join(picker.text.split())  # type: ignore[attr-defined]
        assert pilot.app.screen._box.content_region.contains_region(picker.region), "each row can be seen"
        assert "The same morning eight times" in said and "morning status disks backup builds" in said
        await pilot.resize_terminal(*LARGE)
        await pilot.press("enter")
        await settled(pilot)
        assert "lesson 3 of 15" in screen.lesson.text and screen.search.view.knobs.mmr
        await press(pilot, "slash", "ctrl+u", *"heron")
        assert not screen.lesson.display
        assert screen.search.view.knobs == screen.search.view.defaults and not screen.search.view.compares
        assert "as configured; esc then z brings those of the lesson back" in screen.status_line.text
        await press(pilot, "escape", "z")
        assert screen.search.view.knobs.mmr and screen.search.view.query == "heron"
        await press(pilot, "Z")


async def test_what_the_start_has_to_say_is_read_first(tmp_path: Path) -> None:
    app = Workbench(world.make.demo_memory(tmp_path), demo=world.make.demo_guide(), notice="It is kept.")
    async with app.run_test(size=SMALL) as pilot:
        await settled(pilot)
        assert "It is kept." in lab(app).status_line.text


@pytest.mark.parametrize(("keys", "query"), [("/heron", "heron"), ("/", ""), ("", ""), ("j", ""), ("2", "")])
async def test_keys_work_while_the_demo_opens(tmp_path: Path, keys: str, query: str) -> None:
    may_open, factory = threading.Event(), world.make.demo_memory(tmp_path)

    def opens(faults: frozenset[str]) -> Memory:
        assert may_open.wait(60)
        return cast("Memory", factory(faults))

    app = Workbench(opens, demo=world.make.demo_guide())
    async with app.run_test(size=SMALL) as pilot:
        assert lab(app).hits.text.split("\n") == ["", "  Opening the index."]
        await pilot.press(*("slash" if key == "/" else key for key in keys))
        may_open.set()
        await settled(pilot)
        screen, lesson = lab(app), world.make.demo_guide()[0].query
        assert screen.query_line.value == screen.search.view.query == (query or lesson)
        assert (screen.search.lesson_at is None) == bool(query)
        assert screen.focused is (screen.query_line if keys[:1] == "/" else screen.hits)
        assert (app.screen is screen) == (keys != "2")
        if keys == "/":
            await press(pilot, *"heron")
            assert screen.search.view.query == "heron", "it replaces the query of the lesson"


async def test_each_lesson_has_its_number_its_whole_text_and_most_the_run_shown_on_a_small_screen_too(
    tmp_path: Path,
) -> None:
    guide = world.make.demo_guide()
    async with running(tmp_path, world.SMALL, demo=guide) as (pilot, screen):
        swapped = 0
        for number in range(len(guide)):
            title = screen.lesson.text.splitlines()[0]
            assert (
                f"  lesson {number + 1} of {len(guide)}" in title or f"  {number + 1}/{len(guide)}" in title
            )
            swapped += " · now: " in title
            assert "…" not in screen.lesson.text, "none is cut"
            answer = screen.answer.text.strip().removesuffix(" … ! show all")
            assert not answer.endswith((" at", ",", ":")), "a sentence ends before it is cut"
            await press(pilot, "]")
        assert swapped > len(guide) // 2


async def test_a_lesson_begins_with_its_dropped_rows_shown(tmp_path: Path) -> None:
    async with running(tmp_path, demo=world.make.demo_guide()) as (pilot, screen):
        await press(pilot, *"]d")
        assert not screen.hits.rows, "nothing is returned"
        for keys in ("[", "dT", "d]"):
            await press(pilot, *keys)
            if "T" in keys:
                await press(pilot, "enter")
            row = screen.hits.selected
            assert row is not None and not row.returned, "the row that the lesson is about"
        await press(pilot, *"dG")
        assert not screen.hits.rows, "until the key hides them again"


async def test_the_export_of_a_lesson_names_its_profile_and_the_file_that_it_is_for(tmp_path: Path) -> None:
    async with running(tmp_path, demo=world.make.demo_guide()) as (pilot, screen):
        await press(pilot, *"[x")
        choices = " ".join(pilot.app.screen.query_one(Choices).text.split())
        assert "2 settings for the config.toml of openclaw-mem" in choices
        assert "openclaw.json" not in choices
        await press(pilot, "c")
        assert "keyword rescue off │ pool results 1" in screen.strip.text
        (written,) = (tmp_path / "data").glob("exports/*.json5")
        assert written.read_text().endswith(
            '// [query]\n// profile = "openclaw-2026.2"\n// snippet_chars = 2000\n'
        )


async def test_no_title_of_a_group_is_the_last_line_in_sight(tmp_path: Path) -> None:
    async with running(tmp_path, world.SMALL, demo=world.make.demo_guide()) as (pilot, screen):
        await press(pilot, *"]]]]]")  # six results fill the list
        hits = screen.hits

        def shown() -> list[str]:
            return [hits.render_line(y).text.strip() for y in range(hits.size.height)]

        assert shown()[-2].startswith("6 ") and not shown()[-1], "the title is the next line"
        await press(pilot, *"jjjjjj")
        assert any(text.startswith("not returned: 11") for text in shown()) and shown()[-1].startswith(
            "▌  7 "
        )
        await press(pilot, "d")
        assert any("not returned · d shows them" in text for text in shown()), (
            "without rows it is all there is"
        )


async def test_one_key_swaps_the_run_and_its_baseline(tmp_path: Path) -> None:
    async with running(tmp_path, demo=world.make.demo_guide()) as (pilot, screen):
        lost = screen.hits.selected
        assert lost is not None and not lost.returned and screen.search.view.knobs.decay
        assert "lesson 1 of 15 · now: decay on · space: decay off" in screen.lesson.text
        assert "space swap" in screen.query_one(KeyBar).text
        await press(pilot, "space")
        view, found = screen.search.view, screen.hits.selected
        assert found is not None and (found.chunk_id, found.outcome.rank) == (lost.chunk_id, 1)
        assert not view.knobs.decay and view.baseline_knobs.decay and view.baseline_name == "of the lesson"
        assert "now: decay off · space: decay on" in screen.lesson.text
        assert "decay off; space swaps back" in screen.status_line.text
        await press(pilot, "space")
        assert screen.search.view.knobs.decay and not screen.search.view.baseline_knobs.decay
        await press(pilot, "z")
        assert not screen.search.view.knobs.decay, "a step that is undone as any"
        assert screen.search.view.baseline_knobs.decay, "the baseline too: it is a swap"
        await press(pilot, "Z")
        assert screen.search.view.knobs.decay and not screen.search.view.baseline_knobs.decay
        assert "now: decay on · space: decay off" in screen.lesson.text
        await press(pilot, "z", "z")
        assert screen.search.view.knobs.decay and "space swap" in screen.query_one(KeyBar).text
        await press(pilot, "i", *" x")
        assert screen.search.view.knobs == screen.search.view.defaults, "of a lesson, whichever was shown"

        await press(pilot, "escape", "space")
        assert "nothing to swap: the baseline has the same knobs" in screen.status_line.text
        assert "space swap" not in screen.query_one(KeyBar).text
        await press(pilot, "s", "space")  # without a lesson the other run is pinned, and may need a search
        view = screen.search.view
        assert view.knobs == view.defaults and view.baseline is not None and view.baseline.name == "pinned"
        assert view.baseline.trace.knobs.mode == "bm25" == view.baseline_knobs.mode
        await press(pilot, "space")
        assert screen.search.view.knobs.mode == "bm25" and screen.search.view.answers
        await press(pilot, "z")
        view = screen.search.view
        assert view.knobs == view.defaults and view.baseline_knobs.mode == "bm25" and view.answers


@pytest.mark.parametrize("size", [LARGE, SMALL])
async def test_a_lesson_opens_on_the_row_that_it_lost_and_every_one_shows_hits_or_says_why(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    async with running(tmp_path, size, demo=world.make.demo_guide()) as (pilot, screen):
        row = screen.hits.selected
        assert row is not None and screen.search.view.baseline is not None
        assert not row.returned and screen.search.view.baseline.ranks[row.chunk_id] == 1
        assert (
            "rank is 28" in screen.waterfall.text if size == LARGE else "rank 28" in frame(screen.waterfall)
        )
        if size == LARGE:
            assert screen.waterfall.size.height == len(screen.waterfall.drawn) == 10
        seen = [screen.hits.render_line(y).text for y in range(screen.hits.size.height)]
        marked = [line for line in seen if line.startswith("▌")]
        assert len(marked) == (2 if size == LARGE else 1) and screen.hits.scroll_offset.y == 0
        answers = screen.waterfall.text.splitlines()[0] if size == SMALL else marked[1]
        assert "bank box 418" in answers, "the first screen shows what the agent does not get"
        assert size == SMALL or "▸┊ - Backup of the" in screen.preview.text, (
            "and the pane beside it marks the same line"
        )
        assert "sent" not in seen[0] and "†" not in "".join(seen), "the first lesson is about decay alone"
        await press(pilot, "G")
        above = sum(stop <= screen.hits.scroll_offset.y for _, stop in screen.hits._spans)
        assert above > 1 and f"{above} rows above" in frame(screen.hits)
        await press(pilot, "g")
        assert "above" not in frame(screen.hits)

        signs = set[str]()
        for _ in range(12):
            await press(pilot, "right_square_bracket")
            view = screen.search.view
            assert view.answers and view.trace is not None
            assert view.compares, view.query
            guide, number, row = screen.search.guide, screen.search.lesson_at, screen.hits.selected
            assert guide is not None and number is not None
            if quote := guide[number].quote:
                found = view.candidate(row.chunk_id) if row is not None and not row.returned else None
                assert found is not None and quote in found.text
            assert view.trace.returned or "Nothing" in screen.answer.text
            assert not screen.search.activity.trouble
            signs.add(sign := screen.status_line.draw(120)[0][0].role)
            assert (sign == "warn") == screen.notes.text.startswith(" ! "), "the worst that holds"
        assert signs == {"good", "warn"}


@pytest.mark.parametrize("size", [SMALL, (60, 20)])
async def test_a_low_screen_shows_a_lesson_with_its_hits_their_scores_and_the_text_of_one(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    async with running(tmp_path, size, demo=world.make.demo_guide()) as (pilot, screen):
        seen = [screen.hits.render_line(y).text for y in range(screen.hits.size.height)]
        ranks = [line.split()[0] for line in seen[1:7]]
        assert ranks == [*"123456"] and "in the baseline" in seen[7] and seen[8].split()[:2] == ["▌", "28"]
        assert not any("…" in line for line in seen[7:8]), "a key that has no room is not shown"
        pane = [screen.waterfall.render_line(y).text for y in range(screen.waterfall.size.height)]
        assert pane[0].startswith("▸ ") and "signing key" in pane[0]
        assert size != SMALL or [line.split()[0] for line in pane[1:]] == [
            "vector",
            "BM25",
            "decay",
            "score",
            "in",
        ]
        keys = screen.query_one(KeyBar).text
        assert "space swap   ] next lesson" in keys and len(keys) <= size[0]
        assert ("Decay halves a score" in screen.lesson.text) == (size == SMALL)
        await press(pilot, "T")
        picks = pilot.app.screen.query_one(Choices).text
        assert "11  An exact error string: BM25 · E" in picks, "a title whole, its query cut"
        await press(pilot, "escape")

        await press(pilot, "g")
        row, pane_text = screen.hits.selected, screen.waterfall.text
        assert row is not None and row.returned
        assert "#1 at" in frame(screen.waterfall)
        await press(pilot, "tab")
        (best,) = (line for line in screen.preview.text.splitlines() if "▸" in line)
        assert pane_text.splitlines()[0].split("▸ ")[1][:20] in best, "the line that answers best"
        await press(pilot, "G", "slash", "ctrl+u", *"heron", "enter")
        assert screen.hits.cursor == screen.hits.scroll_offset.y == 0, "an answer begins with hit 1"


async def test_a_lower_screen_has_one_line_for_each_row_at_once(tmp_path: Path) -> None:
    async with running(tmp_path, SMALL, demo=world.make.demo_guide()) as (pilot, screen):
        await press(pilot, "0", "escape", "T", "enter")  # from a page that gives the list more lines
        seen = [screen.hits.render_line(y).text for y in range(screen.hits.size.height)]
        assert [line.split()[0] for line in seen[1:7]] == [*"123456"]


async def test_the_stages_of_packed_lines_end_with_the_results(tmp_path: Path) -> None:
    async with running(tmp_path, (100, 30), demo=world.make.demo_guide()) as (pilot, screen):
        screen.load_lesson(8)
        await settled(pilot)
        stages = screen.funnel.text
        assert re.search(r" → first 40 drops \d+ → packing drops 32 → 6 results made of 8 chunks", stages)


async def test_the_snippet_opens_on_its_best_line(tmp_path: Path) -> None:
    async with running(tmp_path, SMALL, initial_query="studio network") as (pilot, screen):
        await press(pilot, "tab")
        for _ in range(4):
            top, height = screen.preview.scroll_offset.y, screen.preview.size.height
            at = preview_lines.evidence(screen.preview.drawn)
            assert top <= at < top + height
            await press(pilot, "j")


async def test_a_pane_that_shrinks_keeps_the_match_in_sight(tmp_path: Path) -> None:
    async with running(tmp_path, initial_query="防水ケースの納期は") as (pilot, screen):
        for size in (LARGE, (120, 32), SMALL, LARGE):
            await pilot.resize_terminal(*size)
            await settled(pilot)
            screen.add_class("-pane-preview")
            await settled(pilot)
            top, height = screen.preview.scroll_offset.y, screen.preview.size.height
            assert top <= preview_lines.evidence(screen.preview.drawn) < top + height
        await press(pilot, *"KKKKKK")
        await pilot.resize_terminal(120, 32)
        await settled(pilot)
        assert screen.preview.scroll_offset.y == 0


@pytest.mark.parametrize("columns", [60, 80])
async def test_the_first_layout_is_that_of_the_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    seen: list[int] = []
    lay_out = SearchScreen._refresh_layout

    def record(screen: SearchScreen, *size: Any, **options: Any) -> None:
        lay_out(screen, *size, **options)
        seen.append(screen.query_one("#side").region.x)

    def parsed_again(_sheet: Stylesheet) -> None:
        raise AssertionError("the styles are parsed once, when the first widget needs them")

    monkeypatch.setattr(SearchScreen, "_refresh_layout", record)
    monkeypatch.setattr(Stylesheet, "reparse", parsed_again)
    async with world.workbench(tmp_path).run_test(size=(columns, 24)):
        assert seen and set(seen) == {0}, "below the hits, never beside them"


async def test_the_selected_row_is_in_sight_when_rows_come_back(tmp_path: Path) -> None:
    async with running(tmp_path, size=SMALL, demo=world.make.demo_guide()) as (pilot, screen):
        hits = screen.hits

        def in_sight() -> bool:
            first, stop = hits._spans[hits.cursor]
            return first - hits.scroll_offset.y >= 0 and stop - hits.scroll_offset.y <= hits.size.height - 1

        await press(pilot, "f", *"vpn", "enter", "G")
        assert hits.cursor > 0
        await press(pilot, "escape")
        assert hits.cursor >= hits.size.height and in_sight()
        await press(pilot, "G", "d", "d")
        assert hits.cursor == len(hits.rows) - 1 and in_sight()


@pytest.mark.parametrize("lesson", [4, 3, 1])
async def test_a_waterfall_that_is_cut_says_how_many_rows_it_shows(tmp_path: Path, lesson: int) -> None:
    async with running(tmp_path, size=(80, 20), demo=world.make.demo_guide()) as (pilot, screen):
        await press(pilot, *["right_square_bracket"] * (lesson - 1))
        pane = screen.waterfall
        for key in ("", "down", "down", "down"):
            await press(pilot, *[key] * bool(key))
            said = f"rows 1–{pane.size.height} of {len(pane.drawn)} · J K scroll"
            assert (said in frame(pane)) is (pane.size.height < len(pane.drawn)), key
        if lesson == 4:
            await press(pilot, "up", "up", "up")
            assert " rows 1–4 of 6 · J K scroll" in frame(pane) and len(frame(pane)) <= 78


async def test_a_lesson_names_the_knobs_that_it_has_set_for_both_runs(tmp_path: Path) -> None:
    app = world.workbench(tmp_path, demo=world.make.demo_guide())
    async with app.run_test(size=(80, 36)) as pilot:
        await settled(pilot)
        search = lab(app).search
        also = "In both runs: min score .00, snippet chars 2000."
        assert also in " ".join(lab(app).lesson.text.split())
        await pilot.resize_terminal(*LARGE)
        await settled(pilot)
        assert "3 lesson changes" in lab(app).strip.text
        assert also not in " ".join(lab(app).lesson.text.split()), "the row of the profile has it"
        await press(pilot, "exclamation_mark")
        assert also in " ".join(app.screen.query_one(HelpText).text.split())
        await press(pilot, "escape")
        await pilot.resize_terminal(80, 36)
        await settled(pilot)
        lab(app).tune(search.view.knobs.set({"max_results": 5}))
        await settled(pilot)
        assert "min score .00" not in lab(app).lesson.text, "these are not the knobs of the lesson"


async def test_a_low_frame_leaves_out_whole_parts_before_it_cuts_the_title(tmp_path: Path) -> None:
    app = world.workbench(tmp_path, demo=world.make.demo_guide())
    async with app.run_test(size=SMALL) as pilot:
        await settled(pilot)
        screen, read = lab(app), list[str]()
        screen.tune(screen.search.view.knobs.set({"snippet_chars": 300}))
        await settled(pilot)
        await press(pilot, "g", "tab")
        for _ in screen.hits.rows:
            read.append(frame(screen.preview).strip())
            title, _, _ = read[-1].partition(" · rows ")
            assert "…" not in title and len(read[-1]) <= 76, read[-1]
            await press(pilot, "j")
        assert any(" · truncated · " in one for one in read), read
        assert any(" · rows " in one and "citations" not in one for one in read), read
        assert any(one.endswith("citations: auto") for one in read), "where there is room"


async def test_a_low_list_names_the_baseline_of_a_lesson(tmp_path: Path) -> None:
    app = world.workbench(tmp_path, demo=world.make.demo_guide())
    async with app.run_test(size=SMALL) as pilot:
        await settled(pilot)
        hits = lab(app).hits
        assert "only in the baseline" in hits.text
        assert " · baseline: decay off · " in frame(hits)
        await pilot.resize_terminal(*LARGE)
        await settled(pilot)
        assert "baseline" not in frame(hits), "the row of the stages has it"
