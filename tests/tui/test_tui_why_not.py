"""Why not this passage: the keys, the screen, the picker, and the expected passages above the hits."""

from __future__ import annotations

import re
from pathlib import Path

import lab_world as world
import pytest
from lab_world import LARGE, SMALL, frame, held, lab, press, settled, until
from test_tui_curate import of_notes
from test_tui_lab import DRILL, running
from textual.events import DescendantFocus
from textual.pilot import Pilot

from openclaw_mem_engine.api import KNOBS, Change, Expected, IndexDamaged, Knobs, Memory, Passage, WhyNot
from openclaw_mem_tui.features.search.render.knobs import knob
from openclaw_mem_tui.features.why_not.picker import MemoryLine, lines_of, matching
from openclaw_mem_tui.features.why_not.render import around_changes, change_lines, setting, walk
from openclaw_mem_tui.features.why_not.screen import WhyNotScreen
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.spans import text_of, width
from openclaw_mem_tui.widgets.dialogs import PickScreen
from openclaw_mem_tui.widgets.edges import KeyBar
from openclaw_mem_tui.widgets.help import HelpScreen
from openclaw_mem_tui.widgets.line_view import Lines, Pane
from openclaw_mem_tui.widgets.lists import CursorList


def opened(pilot: Pilot[int]) -> WhyNotScreen:
    screen = pilot.app.screen
    assert isinstance(screen, WhyNotScreen)
    return screen


def pane(screen: WhyNotScreen, name: str) -> str:
    return screen.query_one(f"#{name}", Pane).text


async def test_w_walks_the_selected_row_and_enter_applies_a_change(tmp_path: Path) -> None:
    async with running(tmp_path, initial_query=DRILL) as (pilot, search):
        await press(pilot, "j", "j")
        row = search.hits.selected
        assert row is not None and not row.returned
        await press(pilot, "full_stop")
        assert "is expected now" in search.status_line.text
        await press(pilot, "w")
        screen = opened(pilot)
        assert "expected now" not in pane(screen, "status"), "what was said in the lab is said there"
        answer = screen.answer
        assert answer is not None and screen.trouble == ""
        assert answer.passage.path == row.path and not answer.returned
        walk = pane(screen, "walk").splitlines()
        assert [line[0] for line in walk if not line.startswith(" ")] == ["✓"] * (len(answer.steps) - 1) + [
            "✗"
        ]
        asked = pane(screen, "asked")
        said = f"✗ line {screen.passage.line} of {answer.passage.location} is not returned"
        assert said in asked, "the reason is in the step alone"
        assert answer.steps[-1].text not in asked
        candidate = search.search.view.candidate(row.chunk_id)
        assert candidate is not None
        text, spans = pane(screen, "passage"), screen.query_one("#passage", Pane).drawn
        assert candidate.text.split()[-1] in text and f" {row.start_line} " in text.splitlines()[0]
        assert any("match" in span.role for line in spans for span in line)
        at = next(i for i, change in enumerate(answer.changes) if set(change.set) == {"min_score"})
        await press(pilot, *["j"] * at)
        first, stop = screen.changes._spans[at]
        drawn = screen.changes.text.splitlines()
        assert "▌ min score: .35 → " in drawn[first]
        assert KNOBS["min_score"].help in drawn[stop - 1], "what the knob does"
        assert drawn[stop - 1].startswith("▌   min score: "), "on a line of its own"
        assert "value of a keyword match" not in screen.changes.text, "of the selected one alone"
        names = [f"{setting(one, Knobs())}{one.mark}" for one in answer.changes]
        starts = [next(at for at, text in enumerate(drawn) if text[2:].startswith(name)) for name in names]
        assert starts == sorted(starts), "in the order of the engine"
        assert {name.endswith(" ‡") for name in names} == {True, False}
        assert "‡ OpenClaw has no such setting" in str(screen.changes.border_subtitle)
        assert "try" in screen.query_one(KeyBar).text
        change = answer.changes[at]
        every = len(answer.changes)
        await press(pilot, "f", *"zzz", "enter")
        assert f"filter zzz · 0 of {every} · " in str(screen.changes.border_subtitle)
        assert "try" not in screen.query_one(KeyBar).text
        await press(pilot, "enter")
        assert pilot.app.screen is screen and "no change of a knob is selected" in pane(screen, "status")
        await press(pilot, "f", *"min score", "enter")
        assert "no change" not in pane(screen, "status"), "a message lasts until the next action"
        shown = screen.changes.counted[0]
        assert f"filter min score · {shown} of {every} · " in str(screen.changes.border_subtitle)
        assert 0 < shown < every and "no change" not in screen.changes.text
        assert "try" in screen.query_one(KeyBar).text
        await press(pilot, *["k"] * every)
        assert screen.changes.selected == change
        await press(pilot, "enter")
        assert pilot.app.screen is search
        assert search.search.view.knobs.min_score == change.set["min_score"]
        assert search.search.view.trace is not None
        now = next(r for r in search.search.view.trace.returned if r.chunk_id == row.chunk_id)
        assert now.outcome.rank == change.rank
        baseline = search.search.view.baseline
        assert baseline is not None and baseline.name == "before the change" and baseline.rank(now) is None
        assert "z undoes it" in search.status_line.text
        await press(pilot, "space")
        assert search.search.view.knobs.min_score == 0.35, "before and after are swapped"


async def test_w_is_about_the_selected_chunk_unless_another_result_has_its_best_line(tmp_path: Path) -> None:
    async with running(tmp_path, initial_query="router vlan") as (pilot, search):
        await press(pilot, "j")
        row, passage = search.hits.selected, search.hits.passage
        assert row is not None and passage is not None and search.search.view.trace is not None
        (other,) = (
            other
            for other in search.search.view.trace.rows
            if other.path == row.path and other.start_line <= passage.line <= other.end_line and other != row
        )
        assert other.returned and other.shown.holds(passage.line) and row.shown.best_line_cut
        await press(pilot, "w")
        answer = opened(pilot).answer
        assert answer is not None and answer.passage.chunk_id == other.chunk_id and not answer.changes
        assert answer.text.endswith(f"it is in result {other.outcome.rank}.")
        await press(pilot, "escape")
        search.tune(search.search.view.knobs.set({"min_score": 1.0, "keyword_rescue": "off"}))
        await settled(pilot)
        search.hits.point_at([now for now in search.hits.rows if now.chunk_id == row.chunk_id])
        await press(pilot, "w")
        answer = opened(pilot).answer
        assert answer is not None and answer.passage.chunk_id == row.chunk_id


async def test_a_change_in_a_lesson_is_compared_with_the_run_before_it(tmp_path: Path) -> None:
    async with running(tmp_path, SMALL, demo=world.make.demo_guide()) as (pilot, search):
        assert "now: decay on" in search.lesson.text and "knobs changed" not in search.lesson.text
        await press(pilot, "w")
        changes = opened(pilot).answer.changes  # type: ignore[union-attr]
        at = next(i for i, change in enumerate(changes) if set(change.set) == {"half_life_days"})
        await press(pilot, *["j"] * at, "enter")
        row, view = search.hits.selected, search.search.view
        assert row is not None and row.returned and view.baseline is not None
        assert view.baseline.name == "before the change" and view.baseline.rank(row) is None
        assert "knobs changed" in search.lesson.text, "its text is about other ones"
        named = [view.baseline.name]
        for key in "U", "z", "z", "Z", "space", "space", "U":
            await press(pilot, key)
            assert search.search.view.baseline is not None
            named.append(search.search.view.baseline.name)
        there, gone = "before the change", "of the lesson"
        assert named == [there, gone, there, gone, there, "with the change", there, gone], (
            "the run before a change is the baseline as long as the change is there"
        )
        await press(pilot, "z")
        assert "now: half-life in days 135" in search.lesson.text, (
            "which run is shown; the key is at the bottom"
        )


async def test_a_returned_row_needs_no_change(tmp_path: Path) -> None:
    async with running(tmp_path, initial_query=DRILL) as (pilot, _):
        await press(pilot, "w")
        screen = opened(pilot)
        assert screen.answer is not None and screen.answer.returned
        assert "✗" not in pane(screen, "walk") and "✓" in pane(screen, "asked")
        before = screen.search.view.knobs
        await press(pilot, "y")
        assert pilot.app.clipboard == screen.passage.location
        assert f"clipboard: {screen.passage.location}" in pane(screen, "status")
        await press(pilot, "enter", "x")
        assert opened(pilot) is screen and screen.search.view.knobs == before
        assert not list((tmp_path / "data").glob("exports/*"))
        await press(pilot, "escape")
        assert pilot.app.screen is lab(pilot.app)  # type: ignore[arg-type]
        await press(pilot, "w", "slash", *"nas")
        assert pilot.app.screen is lab(pilot.app)  # type: ignore[arg-type]
        assert lab(pilot.app).query_line.value == "nas"  # type: ignore[arg-type]


def seen(pane: Lines) -> list[str]:
    """The lines of a pane that are in sight."""
    return [pane.render_line(y).text.rstrip() for y in range(pane.size.height)]


async def test_the_asked_line_is_in_sight_and_marked(tmp_path: Path) -> None:
    async with running(tmp_path, initial_query=DRILL) as (pilot, _):
        await press(pilot, "W", *"MEMORY.md:38", "enter")
        screen = opened(pilot)
        text = screen.query_one("#passage", Pane)
        assert screen.passage.line == 38 and len(text.drawn) > text.size.height
        assert [line[:5] for line in seen(text) if "▸" in line] == [" 38 ▸"]
        top = text.scroll_offset.y
        assert text.drawn[top + 2][0].text.strip() == "38" or top == text.max_scroll_y
        await press(pilot, "K", "K", "K", "K", "K", "K")
        assert text.scroll_offset.y < top - 5, "the user scrolls away from it"


@pytest.mark.parametrize(("size", "least"), [(LARGE, 3), ((100, 30), 3)])
async def test_all_steps_are_in_sight_and_the_passage_keeps_some_lines(
    tmp_path: Path, size: tuple[int, int], least: int
) -> None:
    async with running(tmp_path, size, initial_query=DRILL) as (pilot, search):
        search.tune(
            search.search.view.knobs.set({"decay": True, "mmr": True, "max_results": 3, "min_score": 0.0})
        )
        await settled(pilot)
        await press(pilot, *["j"] * 8, "w")
        screen = opened(pilot)
        steps, text = screen.query_one("#walk", Pane), screen.query_one("#passage", Pane)
        assert len(steps.drawn) > 10 and seen(steps) == steps.text.splitlines() and "rows" not in frame(steps)
        assert len(text.drawn) > text.size.height >= least
        assert screen.changes.size.height == len(screen.changes.drawn) or text.size.height == least
        assert screen.query_one("#keys").region.bottom == size[1]


async def test_a_passage_of_few_rows_has_the_asked_line(tmp_path: Path) -> None:
    async with running(tmp_path, SMALL, initial_query=DRILL) as (pilot, _):
        await press(pilot, "W", *"MEMORY.md:60", "enter")
        screen = opened(pilot)
        text = screen.query_one("#passage", Pane)
        await pilot.resize_terminal(80, 23)
        await settled(pilot)
        room = screen.query_one("#answered").region.bottom - text.region.y - text.gutter.top
        assert room == 3, "as much of it as is on the screen"
        assert any(line.startswith(" 60 ▸") for line in seen(text)[:room])
        await pilot.resize_terminal(80, 21)
        await settled(pilot)
        assert not text.display, "one row says nothing"


async def test_notices_are_not_among_the_changes(tmp_path: Path) -> None:
    faults = frozenset({"embeddings-401"})
    async with running(tmp_path, initial_query=DRILL, faults=faults) as (pilot, _):
        await press(pilot, "w")
        screen = opened(pilot)
        assert screen.answer is not None and screen.answer.returned
        assert screen.changes.border_title == "changes"
        assert screen.changes.text.startswith("  it is returned already")
        await press(pilot, "enter")
        assert "there is no change to try; e opens the note" in pane(screen, "status")
        notes = screen.query_one("#notes", Pane)
        assert "BM25 only" in notes.text and notes.size.height == len(notes.drawn)


async def test_changes_that_do_not_fit_are_reached_with_both_keys(tmp_path: Path) -> None:
    async with running(tmp_path, (60, 20), initial_query=DRILL) as (pilot, _):
        await press(pilot, "j", "j", "w")
        screen = opened(pilot)
        assert not screen.query_one("#passage", Pane).display
        last = screen.changes.text.splitlines()[-1].rstrip()
        assert last not in seen(screen.changes)
        await press(pilot, *"JJJJJJJJ")
        assert last in seen(screen.changes)
        await pilot.resize_terminal(80, 70)
        await settled(pilot)
        assert screen.query_one("#passage", Pane).display


async def test_x_writes_the_change_as_configuration(tmp_path: Path) -> None:
    async with running(tmp_path, initial_query=DRILL) as (pilot, _):
        await press(pilot, "j", "j", "w", "x")
        screen = opened(pilot)
        change = screen.answer.changes[0] if screen.answer is not None else None
        assert isinstance(change, Change)
        (written,) = (tmp_path / "data").glob("exports/*.json5")
        assert str(next(iter(change.set.values()))) in written.read_text()
        assert f"wrote {written}"[:70] in pane(screen, "status")


async def test_a_line_that_a_result_has_too_is_said_to_be_sent(tmp_path: Path) -> None:
    said = "The pump key hangs on hook 7.\n"
    app = of_notes(tmp_path, {"memory/a.md": f"# Pump\n\n{said}", "memory/b.md": f"# Other\n\nOld.\n{said}"})
    async with app.run_test(size=SMALL) as pilot:
        await settled(pilot)
        search = lab(app)
        search.tune(search.search.view.knobs.set({"max_results": 1}))
        await press(pilot, *"pump key hook", "enter", "j", "w")
        screen, at = opened(pilot), opened(pilot).passage.line
        asked = " ".join(pane(screen, "asked").split())
        assert asked.endswith(f"The text of line {at} is also in result 1, so the agent gets it.")
        await press(pilot, "w", "k", "w")
        assert "is also in" not in pane(opened(pilot), "asked"), "it is returned itself"


async def test_any_line_is_found_by_path_or_text(tmp_path: Path) -> None:
    async with running(tmp_path, initial_query=DRILL) as (pilot, search):
        await press(pilot, "W")
        dialog = pilot.app.screen
        assert isinstance(dialog, PickScreen)
        count = len(await search.search.service.read(lines_of))
        await until(pilot, lambda: f"1 of {count:,} · 200 shown · " in str(dialog._box.border_subtitle))
        await press(pilot, *"quokka", "enter")  # nothing like it: enter closes with nothing
        assert pilot.app.screen is search
        await press(pilot, "W", *"2025-09-05", "space", *"magpie", "space", *"minutes", "enter")
        screen = opened(pilot)
        assert screen.passage == Expected("memory/2025-09-05.md", 6)
        await press(pilot, "W", *"MEMORY.md:1", "enter")
        assert screen.passage.path == "MEMORY.md" and screen.answer is not None
        await press(pilot, "W", *"AGENTS.md:3", "enter")
        assert screen.passage == Expected("AGENTS.md", 3), "a file that is not memory"
        assert "this path is not memory" in f"{pane(screen, 'walk')} {screen.trouble}"
        await press(pilot, "question_mark")
        assert isinstance(pilot.app.screen, HelpScreen)


async def test_a_line_that_was_picked_is_selected_when_its_change_is_applied(tmp_path: Path) -> None:
    async with running(tmp_path, initial_query=DRILL) as (pilot, search):
        hidden = search.search.view.trace.dropped[2]  # type: ignore[union-attr]
        await press(pilot, "W", *hidden.path, *f":{hidden.end_line - 1}", "enter")
        assert opened(pilot).answer is not None and not opened(pilot).answer.returned  # type: ignore[union-attr]
        await press(pilot, "enter")
        await until(pilot, lambda: search.search.view.answers)
        selected = search.hits.selected
        assert selected is not None and selected.returned and selected.chunk_id == hidden.chunk_id
        top = search.preview.drawn[search.preview.scroll_offset.y :]
        assert str(hidden.end_line - 1) in [
            row[0].text.strip() for row in top[: search.preview.size.height] if row
        ]
        await press(pilot, "k", "z")
        assert search.hits.selected is not None and search.hits.selected.chunk_id != hidden.chunk_id


async def test_expected_passages_stay_and_their_moves_are_reported(tmp_path: Path) -> None:
    async with running(tmp_path, initial_query=DRILL) as (pilot, search):
        await press(pilot, "j", "full_stop")
        assert "expected ✓ memory/2025-09-05.md:3 rank 2" in search.answer.text
        assert (
            "2 results; 36 are below min score .35; #1 has vector rank 1 (.403), BM25 rank 1"
            in search.answer.text
        )
        await press(pilot, "p", "j", "j")  # mode, vector space, …
        search.tune(search.search.view.knobs.set({"max_results": 1}))
        await press(pilot, "escape")
        assert (
            "✗ memory/2025-09-05.md:3 its rank is 2, and only the first is returned (out)"
            in search.answer.text
        )
    async with running(tmp_path, SMALL, initial_query=DRILL) as (pilot, search):
        assert search.search.view.expected == {Expected("memory/2025-09-05.md", 3): DRILL}
        assert "✓ memory/2025-09-05.md:3 rank 2" in search.answer.text
        await press(pilot, "j", "full_stop")
        assert "expected" not in search.answer.text and search.search.view.expected == {}


async def test_an_expected_passage_is_of_its_query_and_any_is_stopped_from_the_list(tmp_path: Path) -> None:
    async with running(tmp_path, initial_query=DRILL) as (pilot, search):
        passage = Expected("memory/2025-09-05.md", 3)
        await press(pilot, "j", "full_stop")
        search.query_line.value = "heron"
        await settled(pilot)
        assert "expected" not in search.answer.text, "it is of another query"
        await press(pilot, "full_stop")
        assert len(search.search.view.expected) == 2
        assert search.answer.text.count("rank 1") == 1 and "and 1 for other queries" in search.answer.text
        await press(pilot, "comma")
        picks = pilot.app.screen
        assert isinstance(picks, PickScreen)
        assert [choice.detail for choice in picks._choices].count(f"“{DRILL}”") == 1
        down = [choice.key for choice in picks._choices].index(passage.location)
        await press(pilot, *["j"] * down, "enter")
        assert [*search.search.view.expected.values()] == ["heron"]
        assert "other queries" not in search.answer.text


async def test_lines_of_one_chunk_are_one_expectation(tmp_path: Path) -> None:
    async with running(tmp_path, initial_query=DRILL) as (pilot, search):
        row = search.search.view.trace.returned[0]  # type: ignore[union-attr]
        first, second = Expected(row.path, row.start_line), Expected(row.path, row.end_line)
        assert first != second
        search.search.expect({first: DRILL, second: DRILL})
        await settled(pilot)
        assert search.answer.text.count("✓") == 1 and "rank 1" in search.answer.text


async def test_without_a_query_there_is_nothing_to_ask(tmp_path: Path) -> None:
    async with running(tmp_path) as (pilot, search):
        await press(pilot, "escape", "w")
        assert "search first: why not" in search.status_line.text
        await press(pilot, "full_stop")
        assert "no passage is selected" in search.status_line.text


@pytest.mark.parametrize("size", [LARGE, (100, 30), SMALL, (60, 16), (40, 10)])
async def test_every_size_shows_the_first_no(tmp_path: Path, size: tuple[int, int]) -> None:
    async with running(tmp_path, size, initial_query=DRILL) as (pilot, _):
        await press(pilot, "j", "j", "w")
        screen = opened(pilot)
        asked = screen.query_one("#asked", Pane)
        assert any("✗" in asked.render_line(y).text for y in range(asked.size.height))
        steps = screen.query_one("#walk", Pane)
        assert any("✗" in steps.render_line(y).text for y in range(steps.size.height))
        assert screen.changes.region.height >= 3
        assert screen.query_one("#keys").region.bottom == size[1], "the keys are in sight"
        folded = "steps passed" in steps.text
        assert "…" not in steps.text, "the names of steps are whole, or not shown"
        assert folded == (size[1] < 30) and len(steps.drawn) <= max(2, size[1] // 2 - 5) + 2


def test_every_typed_word_must_be_in_the_line() -> None:
    lines = [
        MemoryLine(Expected(path, number), text, f"{path}:{number} {text}".lower())
        for path, number, text in (
            ("memory/a.md", 1, "the router has VLAN 20"),
            ("memory/b.md", 1, "a rooter of the garden"),
            ("memory/router.md", 7, "nothing else"),
        )
    ]
    assert [line.passage.path for line in matching("router", lines)] == ["memory/a.md", "memory/router.md"]
    slips = [line.passage.path for line in matching("roouter", lines)]
    assert {"memory/a.md", "memory/router.md"} <= set(slips)
    assert [line.passage.path for line in matching("rotuer vlna", lines)] == ["memory/a.md"]
    assert [line.passage.path for line in matching("vlan ROUTER", lines)] == ["memory/a.md"]
    assert matching("xyzzy", lines) == [] and matching("  ", lines) == lines
    apart = [lines[0]._replace(key="vlan of the router"), lines[0]._replace(key="the router vlan")]
    assert matching("router vlan", apart) == apart[::-1], "the words as they were typed come first"


def test_the_lines_are_those_of_all_readable_notes(tmp_path: Path) -> None:
    factory = world.demo_memory(tmp_path, own_notes=True)
    with factory(frozenset()) as memory:
        note = tmp_path / "demo" / "workspace" / "memory" / "new.md"
        note.write_text("# New\n\nnot indexed yet\n")
        lines = lines_of(memory)
        assert (
            MemoryLine(Expected("memory/new.md", 3), "not indexed yet", "memory/new.md:3 not indexed yet")
            in lines
        )
        assert {line.passage.path for line in lines} >= set(memory.paths())
        paths = [line.passage.path for line in lines]
        days = [path for path in dict.fromkeys(paths) if re.fullmatch(r"memory/[-0-9]+\.md", path)]
        assert days == sorted(days, reverse=True) and paths[0] == days[0], "the newest day first"
        assert all(any(c.isalnum() for c in line.text) for line in lines)


def test_where_no_setting_was_tried_it_says_why() -> None:
    answer = WhyNot("router", Passage("memory/link.md", 0, 0), False, None, "listed", "It is excluded", ())
    head, foot = around_changes(answer, "", 60)
    said = " ".join(text_of(row).strip() for row in head)
    assert said == "no setting was tried: the step marked ✗ comes before the ranking" and not foot
    assert all(width(row) < 60 for row in head)


def test_a_change_says_what_its_values_mean_and_how_it_works() -> None:
    knobs = Knobs()
    for name, value, says in (
        ("candidate_limit", 5, "candidate limit: none → 5"),
        ("list_rows", 10, "list rows: auto → 10"),
        ("min_score", 0.0, "min score: .35 → .00"),
        ("half_life_days", 335.0, "half-life in days: 30 → 335"),
        ("decay", True, "decay: off → on"),
    ):
        assert setting(Change({name: value}, 1), knobs) == says
        panel = text_of(knob(name, getattr(knobs, name), value, False, 60, False))
        assert f"was {says.rpartition(' ')[2]}" in panel, "the panel shows the same values"
    how = "keyword rescue returns it, as no score reaches min score 0.35"
    wide = change_lines(knobs, Change({"decay": True}, 3, how=how), 120, False)
    said = fmt.numbers(how)
    assert [text_of(row).split("  ")[-1] for row in wide] == ["other results stay", said]
    room = len("    other results stay · " + said)
    broken = change_lines(knobs, Change({"decay": True}, 3, how=how), room, False)
    assert len(text_of(broken[-1]).split()) > 1, "no number is alone in a line"
    weak = change_lines(knobs, Change({"decay": True}, 3, weak=True), 120, False)
    assert [span.role for span in weak[0] if span.text == "rank 3"] == ["warn"]
    rows = change_lines(knobs, Change({"decay": True}, 3, gained=("a.md:1",)), 80, False)
    assert text_of(rows[0]).endswith("rank 3  adds 1 other result"), "in one line, where it has room"
    lost = Change({"decay": True}, 3, lost=("a.md:1", "b.md:5", "c.md:9"))
    *_, last = (text_of(row) for row in change_lines(knobs, lost, 140, False))
    assert last.rstrip().endswith(" · removes: a.md:1, b.md:5 and 1 more"), "also where it is not selected"
    assert "a.md" not in "".join(text_of(row) for row in change_lines(knobs, lost, 60, False)), "no room"
    assert " removes: a.md:1" in text_of(change_lines(knobs, lost, 60, True)[-1])
    off = change_lines(Knobs().set({"decay": True}), Change({"decay": False}, 1), 120, True)
    assert text_of(off[1]) == "▌   decay: when on, older dated notes count less", "not what the change does"
    long = Change({"lexical_form": "and", "max_results": 12, "decay": True}, 1)
    name, rank, *below = (text_of(row) for row in change_lines(knobs, long, 80, True))
    assert rank.endswith("rank 1  other results stay"), "also below a long setting"
    assert "rank" not in name and rank.index("rank 1") == text_of(rows[0]).index("rank 3"), "in its column"
    assert " ".join(" ".join(below).replace("▌", "").split()) == (
        "lexical form: which searched words must match: every one; "
        "max results: how many results the agent gets; decay: older dated notes count less"
    )


async def test_enter_before_the_answer_applies_the_first_change_once_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path, initial_query=DRILL) as (pilot, search):
        answered = held(monkeypatch, search.search.service, "long")
        await press(pilot, "j", "j")
        row = search.hits.selected
        assert row is not None and not row.returned
        await pilot.press("w")
        await until(pilot, lambda: isinstance(pilot.app.screen, WhyNotScreen))
        await pilot.press("enter")
        answered.set()
        await until(pilot, lambda: pilot.app.screen is search)
        await settled(pilot)
        assert search.search.view.changed_knobs() and "undoes it" in search.status_line.text


async def test_keys_right_behind_a_query_are_about_its_own_hits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path, initial_query=DRILL) as (pilot, search):
        found = held(monkeypatch, search.search.service, "retrieve")
        await press(pilot, "slash")
        await pilot.press(*"vlan", "enter", "w", "w")
        assert pilot.app.screen is search, "it is not answered yet"
        found.set()
        await settled(pilot)
        screen = opened(pilot)
        assert screen.answer is not None and search.search.view.query == "vlan"
        assert screen.passage == search.hits.passage and screen.answer.returned
        assert pilot.app.screen_stack.count(screen) == 1 and len(pilot.app.screen_stack) == 2


@pytest.mark.parametrize("opening", [("w",), ("3", "enter")])
async def test_a_screen_that_is_closed_draws_nothing_for_late_events(
    tmp_path: Path, opening: tuple[str, ...]
) -> None:
    async with running(tmp_path, initial_query=DRILL) as (pilot, _):
        await press(pilot, *opening)
        screen = pilot.app.screen
        moved = CursorList.Moved(screen.query(CursorList).first())
        await press(pilot, "escape")
        assert not screen.is_attached
        await screen._on_message(DescendantFocus(screen))
        await screen._on_message(moved)


async def test_a_passage_that_the_snippet_cuts_off_has_its_no(tmp_path: Path) -> None:
    async with running(tmp_path, SMALL, initial_query=DRILL) as (pilot, search):
        assert "sent: whole lines sent" not in frame(search.hits), "each is sent whole"
        search.tune(search.search.view.knobs.set({"snippet_chars": 60}))
        assert " · snippet chars 60 · " in frame(search.hits), "which is worth more there than the legend"
        await press(pilot, "W", *"restore-drill.md:12", "enter")
        screen = opened(pilot)
        assert screen.answer is not None and screen.answer.stage == "snippet"
        assert " passage  ✗ memory/runbooks/restore-drill.md" in pane(screen, "asked")
        assert search.answer.text.startswith(" 2 results")


async def test_a_low_screen_has_two_lines_of_a_lesson_instead_of_its_answer(tmp_path: Path) -> None:
    async with running(tmp_path, demo=world.make.demo_guide()) as (pilot, search):
        assert len(search.answer.drawn) == 1 and "…" not in search.answer.text
        await pilot.resize_terminal(*SMALL)
        await settled(pilot)
        assert len(search.lesson.drawn) == 3 and not search.answer.drawn
        assert search.hits.region.y == 5, "tabs, query, title and two lines of the lesson"
        await press(pilot, "full_stop", "w", "w")  # opens and closes
        assert pilot.app.screen is search and search.answer.text.startswith(" expected")
        assert len(search.answer.drawn) == 1
        await pilot.resize_terminal(80, 30)
        await settled(pilot)
        assert len(search.answer.drawn) > 1


async def test_a_step_that_moves_the_passage_out_of_the_results_has_no_sign_of_success(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, initial_query=DRILL) as (_pilot, search):
        asked = DRILL, "memory/2025-09-05.md", None
        knobs = Knobs(decay=True, min_score=0.0, max_results=2, keyword_rescue="off")
        walks = [
            await search.search.service.read(lambda memory: memory.why_not(*asked, changed))  # noqa: B023
            for changed in (knobs, knobs.set({"decay": False}), knobs.set({"max_results": 1}))
        ]
        marks = [
            {
                "".join(span.text for span in row)[2:12].strip(): row[0].text
                for row in walk(found.steps, 200, 99)
            }
            for found in walks
        ]
        assert [found.steps[-1].ok for found in walks] == [False, True, False]
        assert marks[0]["decay"] == "! " and marks[0]["fusion"] == "✓ " and marks[0]["max result"] == "✗ "
        assert "! " not in marks[1].values(), "it is returned"
        assert "! " not in marks[2].values(), "it was not among the results before"
        (folded, *_) = walk(walks[0].steps, 200, 3)
        assert folded[0].text == "! ", "of several steps in one line too"


async def test_a_walk_that_damage_stops_shows_the_passage_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(*_: object, **__: object) -> None:
        raise IndexDamaged("The index is damaged. `openclaw-mem doctor --fix` repairs it.")

    async with running(tmp_path, initial_query=DRILL) as (pilot, search):
        monkeypatch.setattr(Memory, "why_not", damaged)
        row = search.hits.selected
        assert row is not None
        await press(pilot, "w")
        screen = opened(pilot)
        assert pane(screen, "walk").strip() == "This needs the index, which is damaged. F repairs it."
        assert screen.has_class("-passage"), "in sight"
        note = (search.search.service.settings.workspace / row.path).read_text("utf-8").splitlines()
        assert note[screen.passage.line - 1].split()[-1] in pane(screen, "passage")


async def test_a_fault_that_ends_meanwhile_is_not_in_the_answer(tmp_path: Path) -> None:
    """The memory without it is another one, which is opened after the key."""
    faults = frozenset({"embeddings-401"})
    async with running(tmp_path, initial_query=DRILL, faults=faults) as (pilot, _):
        await press(pilot, "j", "w")
        screen = opened(pilot)
        assert "there is no vector list" in pane(screen, "walk")
        await press(pilot, "U")
        assert "vector ranks it" in pane(screen, "walk") and not screen.trouble


async def test_a_small_screen_shows_some_rows_of_a_passage_or_none(tmp_path: Path) -> None:
    async with running(tmp_path, SMALL, initial_query=DRILL) as (pilot, _):
        for _ in range(8):
            await press(pilot, "w")
            text = opened(pilot).query_one("#passage", Pane)
            assert not text.display or text.size.height >= min(3, len(text.drawn))
            await press(pilot, "escape", "j")
