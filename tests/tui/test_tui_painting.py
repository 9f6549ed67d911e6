"""What a key paints, styles and lays out: nothing that did not change. Counted, not timed."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from lab_world import LARGE, lab, press, settled, workbench
from rich.cells import cell_len
from rich.style import Style
from textual._compositor import Compositor
from textual._styles_cache import StylesCache
from textual.app import App
from textual.content import Content
from textual.css.stylesheet import Stylesheet
from textual.dom import DOMNode
from textual.geometry import Region
from textual.pilot import Pilot
from textual.screen import Screen
from textual.scrollbar import ScrollBar
from textual.strip import Strip
from textual.widget import Widget

from openclaw_mem_tui.features.search import lab as features_lab
from openclaw_mem_tui.features.search.knob_panel import KnobPanel
from openclaw_mem_tui.features.search.screen import SearchScreen
from openclaw_mem_tui.widgets import line_view, painting
from openclaw_mem_tui.widgets.frames import markup, named_key
from openclaw_mem_tui.widgets.line_view import Lines, Pane
from openclaw_mem_tui.widgets.painting import DirtyLines, LineBar, Pieces

DRILL = "which vlan does the router use"


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """``lines``, the lines rendered; ``NAME``, those of one widget; ``bars``, those of scroll bars;
    ``styled``, widgets whose rules were looked up; ``layouts`` of the screen. However long a search takes,
    its list is not dimmed meanwhile."""
    counts: Counter[str] = Counter()
    render, of_bar = Lines.render_line, LineBar.render_line
    styled, lay_out = Stylesheet.update_nodes, Screen._refresh_layout

    def render_line(widget: Lines, y: int) -> Strip:
        counts.update(["lines", str(widget.id)])
        return render(widget, y)

    def render_bar(bar: LineBar, y: int) -> Strip:
        counts["bars"] += 1
        return of_bar(bar, y)

    def update_nodes(sheet: Stylesheet, nodes: Iterable[DOMNode], *given: Any, **options: Any) -> None:
        found = list(nodes)
        counts["styled"] += len(found)
        styled(sheet, found, *given, **options)

    def refresh_layout(screen: Screen[Any], *given: Any, **options: Any) -> None:
        counts["layouts"] += 1
        lay_out(screen, *given, **options)

    monkeypatch.setattr(features_lab, "_STALE_AFTER", 3600.0)
    monkeypatch.setattr(Lines, "render_line", render_line)
    monkeypatch.setattr(LineBar, "render_line", render_bar)
    monkeypatch.setattr(Stylesheet, "update_nodes", update_nodes)
    monkeypatch.setattr(Screen, "_refresh_layout", refresh_layout)
    return counts


@asynccontextmanager
async def shown(root: Path, counts: Counter[str], *keys: str) -> AsyncIterator[Pilot[int]]:
    """The workbench after these keys, when nothing is left to paint; what they cost is not counted."""
    async with workbench(root, initial_query=DRILL).run_test(size=LARGE) as pilot:
        await settled(pilot)
        await press(pilot, *keys)
        while counts:
            counts.clear()
            await settled(pilot)
        yield pilot


async def test_the_first_frame_is_the_whole_start_page_and_styles_no_widget_twice(
    tmp_path: Path, counted: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    frames: list[tuple[str, int]] = []
    display = App._display

    def note(app: App[Any], screen: Screen[Any], renderable: object) -> None:
        strips = screen._compositor.render_strips()
        frames.append(("\n".join(strip.text for strip in strips), counted["styled"]))
        display(app, screen, renderable)  # type: ignore[arg-type]

    monkeypatch.setattr(App, "_display", note)
    async with workbench(tmp_path, own_notes=True).run_test(size=LARGE) as pilot:
        await settled(pilot)
    text, styled = next(frame for frame in frames if frame[0].strip())
    assert "1 lab" in text and "profile" in text and "f1 help" in text
    assert "min score" not in text, "which is not known yet"
    assert "─ start ─" in text and "─ waterfall ─" not in text, "the panes of a row come with a row"
    assert styled < 5, "the query line, whose focus and text have classes; else each widget as it is mounted"


@pytest.mark.parametrize("screen", ["1", "3", "5"])
async def test_painted_parts_make_what_painting_all_would(
    screen: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal: list[list[tuple[str, Style | None]]] = [[] for _ in range(LARGE[1])]
    parts = 0

    def put(x: int, y: int, strip: Strip) -> None:
        cells = [
            (char[at : at + 1], segment.style)
            for segment in strip
            for char in segment.text
            for at in range(cell_len(char))
        ]
        terminal[y][x : x + len(cells)] = cells

    def put_all(compositor: Compositor) -> None:
        for y, strip in enumerate(compositor.render_strips()):
            put(0, y, strip)

    def paint(compositor: DirtyLines) -> Pieces | None:
        nonlocal parts
        update = paint_parts(compositor)
        for piece in update.pieces if update is not None else ():
            parts += 1
            put(*piece)
        return update

    def paint_all(compositor: DirtyLines, simplify: bool = False) -> Any:
        put_all(compositor)
        return in_full(compositor, simplify)

    paint_parts, in_full = DirtyLines.render_partial_update, DirtyLines.render_full_update
    async with shown(tmp_path, Counter(), "escape", screen) as pilot:
        monkeypatch.setattr(DirtyLines, "render_partial_update", paint)
        monkeypatch.setattr(DirtyLines, "render_full_update", paint_all)
        put_all(pilot.app.screen._compositor)
        for key in ("j", "G", "p", "right", "p", "J", "d", "slash", "m", "o", "backspace", "escape"):
            await press(pilot, key)
            painted_so_far = [list(line) for line in terminal]
            put_all(pilot.app.screen._compositor)
            assert painted_so_far == terminal, key
        assert parts, "the screen was painted in parts too"


async def test_a_letter_asks_the_widgets_that_have_a_line_to_paint(
    tmp_path: Path, counted: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: Counter[str] = Counter()
    render_lines = Widget.render_lines

    def note(widget: Widget, crop: Region) -> list[Strip]:
        asked[widget.id or type(widget).__name__] += 1
        return render_lines(widget, crop)

    async with shown(tmp_path, counted, "escape", "i") as pilot:
        monkeypatch.setattr(Widget, "render_lines", note)
        await press(pilot, "space")
        assert set(asked) == {"query"}, "lines without an edge need none of Textual's work"


@pytest.mark.parametrize("screen", ["1", "2", "3", "4", "5"])
async def test_a_key_without_action_paints_styles_and_lays_out_nothing(
    screen: str, tmp_path: Path, counted: Counter[str]
) -> None:
    async with shown(tmp_path, counted, "escape", screen) as pilot:
        await press(pilot, "f9")
        assert not counted


async def test_the_same_state_again_paints_nothing(tmp_path: Path, counted: Counter[str]) -> None:
    async with shown(tmp_path, counted, "escape") as pilot:
        screen = lab(pilot.app)  # type: ignore[arg-type]
        screen.hits.rearrange()
        screen.show_snippet()
        screen.draw()
        await settled(pilot)
        assert not counted


async def test_a_knob_step_paints_the_lines_that_differ(tmp_path: Path, counted: Counter[str]) -> None:
    async with shown(tmp_path, counted, "escape", "p", "right") as pilot:  # the columns of a comparison
        before = [strip.text for strip in painted(lab(pilot.app).hits)]  # type: ignore[arg-type]
        counted.clear()
        await press(pilot, "right")
        rendered = counted["hits"]
        after = [strip.text for strip in painted(lab(pilot.app).hits)]  # type: ignore[arg-type]
        assert isinstance(pilot.app.focused, KnobPanel)
        assert rendered == sum(old != new for old, new in zip(before, after, strict=True)) < len(after)


async def test_knob_steps_never_style_the_whole_screen(tmp_path: Path, counted: Counter[str]) -> None:
    async with shown(tmp_path, counted, "escape", "p") as pilot:
        heights = set()
        for step in ("up", "right", "right", "left", "left") * 4:
            await press(pilot, step)
            heights.add(len(lab(pilot.app).waterfall.drawn))  # type: ignore[arg-type]
        assert len(heights) > 1, "the waterfall was short and long"
        # A waterfall that grows to its longest text is styled and laid out, once a height.
        assert counted["styled"] < len(pilot.app.screen.walk_children())


def painted(widget: Lines) -> list[Strip]:
    return [widget.render_line(y) for y in range(widget.size.height)]


async def test_a_scroll_bar_paints_the_lines_that_differ_as_textual_would_paint_them(
    tmp_path: Path, counted: Counter[str]
) -> None:
    async with shown(tmp_path, counted, "escape", "3", "enter") as pilot:
        bar = pilot.app.screen.query_one("#text", Pane).vertical_scrollbar
        assert isinstance(bar, LineBar) and bar.display
        seen = 0
        for key in "jjjkkk":
            before = bar._painted
            counted.clear()
            await press(pilot, key)
            after = bar._painted
            assert counted["bars"] < len(after)
            seen += sum(old != new for old, new in zip(before, after, strict=True))
            for y, cell in enumerate(after):
                (textual,) = ScrollBar.render_line(bar, y)
                assert cell.style is not None and textual.style is not None
                assert cell.text == textual.text and cell.style.meta == textual.style.meta
                assert cell.style.reverse == textual.style.reverse
                ground = "color" if cell.style.reverse else "bgcolor"
                assert getattr(cell.style, ground) == getattr(textual.style, ground)
        assert seen
        await press(pilot, "escape")
        assert not bar.is_attached and bar._painted
        bar.position = 1.0
        bar.refresh()  # as what is called after a pane is gone does


async def test_the_first_frame_after_a_move_over_chunks_is_the_last(
    tmp_path: Path, counted: Counter[str]
) -> None:
    async with shown(tmp_path, counted, "escape", "3", "enter") as pilot:
        text, seen = pilot.app.screen.query_one("#text", Pane), set[int]()
        for key in "jjjkkk":
            await pilot.press(key)
            pilot.app.screen._on_timer_update()  # a frame, and after it what was to follow one
            await press(pilot)
            seen.add(text.scroll_offset.y)
            assert counted["text"]
            counted.clear()
            await settled(pilot)
            assert not counted
        assert len(seen) > 1


async def test_moves_that_need_a_scroll_bar_of_the_details_lay_out_nothing(
    tmp_path: Path, counted: Counter[str]
) -> None:
    async with shown(tmp_path, counted, "escape", "5", "tab") as pilot:
        await press(pilot, *"jjjj")
        assert counted["proposal"] and not counted["layouts"] and not counted["styled"]


async def test_the_next_list_styles_the_two_lists_and_not_the_screen(
    tmp_path: Path, counted: Counter[str]
) -> None:
    # Twice before that: a scroll bar gets its styles when its list is styled for the first time.
    async with shown(tmp_path, counted, "escape", "5", "tab", "tab") as pilot:
        await press(pilot, "tab")
        assert 0 < counted["styled"] <= 4, "two lists, by the focus, and each as its state of focus changes"
        assert not counted["layouts"]


async def test_a_letter_with_the_same_answer_paints_no_pane_but_the_status(
    tmp_path: Path, counted: Counter[str]
) -> None:
    async with shown(tmp_path, counted, "escape", "i") as pilot:
        screen = lab(pilot.app)  # type: ignore[arg-type]
        await press(pilot, "space")
        assert screen.search.view.query == f"{DRILL} " and screen.search.view.answers
        assert set(counted) <= {"lines", "status"} and counted["status"] <= 1, "what it took"


async def test_a_letter_paints_each_line_once_and_what_it_found_is_not_dimmed(
    tmp_path: Path, counted: Counter[str]
) -> None:
    async with shown(tmp_path, counted, "escape", "i") as pilot:
        screen = lab(pilot.app)  # type: ignore[arg-type]
        panes = [screen.hits, screen.waterfall, screen.preview, screen.answer, screen.funnel]
        before = {pane: [strip.text for strip in painted(pane)] for pane in panes}
        counted.clear()
        await press(pilot, "space", "s")
        rendered = dict(counted)
        assert rendered["hits"] and screen._stale_timer is None
        for pane in panes:
            after = [strip.text for strip in painted(pane)]
            assert rendered.get(str(pane.id), 0) <= max(len(after), len(before[pane]))


async def test_the_snippet_that_is_scrolled_to_its_best_line_is_not_painted_again(
    tmp_path: Path, counted: Counter[str]
) -> None:
    async with shown(tmp_path, counted, "escape") as pilot:
        screen = lab(pilot.app)  # type: ignore[arg-type]
        while not screen.preview.scroll_offset.y:
            assert screen.hits.cursor + 1 < len(screen.hits.rows), "no snippet needs to be scrolled"
            await press(pilot, "j")
        counted.clear()
        screen.show_snippet()
        await settled(pilot)
        assert not counted


async def test_a_move_paints_no_edge_but_that_of_a_changed_frame(
    tmp_path: Path, counted: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    edges: list[str] = []
    render_widget = StylesCache.render_widget

    def note(cache: StylesCache, widget: Widget, crop: Region) -> list[Strip]:
        edges.extend([str(widget.id)] * crop.height)
        return render_widget(cache, widget, crop)

    async with shown(tmp_path, counted, "escape") as pilot:
        screen = lab(pilot.app)  # type: ignore[arg-type]
        while not screen.preview.scroll_offset.y:
            await press(pilot, "j")
        monkeypatch.setattr(StylesCache, "render_widget", note)
        titles = set()
        for key in "kjkj":
            edges.clear()
            before = screen.preview.border_title, screen.preview.border_subtitle
            await press(pilot, key)
            now = screen.preview.border_title, screen.preview.border_subtitle
            titles |= {str(before[0]), str(now[0])}
            assert edges == ["preview"] * sum(a != b for a, b in zip(before, now, strict=True))
        assert len(titles) > 1, "moves of this list change a frame"


async def test_keys_that_wait_draw_the_details_once(
    tmp_path: Path, counted: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with shown(tmp_path, counted, "escape") as pilot:
        screen = lab(pilot.app)  # type: ignore[arg-type]
        followed: list[object] = []
        monkeypatch.setattr(screen.preview, "follow", lambda _, row, *given: followed.append(row))
        for _ in range(4):
            screen.hits.action_go(1)
        await settled(pilot)
        assert screen.hits.cursor == 4 and followed == [screen.hits.rows[4]]


async def test_what_was_drawn_for_another_height_or_closed_knobs_is_drawn_again(tmp_path: Path) -> None:
    async with shown(tmp_path, Counter(), "escape", "j") as pilot:
        screen = pilot.app.screen
        assert isinstance(screen, SearchScreen)

        async def drawn_as_anew() -> str:
            await settled(pilot)
            seen = [pane.text for pane in (screen.waterfall, screen.answer, screen.funnel)]
            screen._view_changed(None, screen.search.view)
            assert seen == [pane.text for pane in (screen.waterfall, screen.answer, screen.funnel)]
            return seen[0]

        titled = await drawn_as_anew()
        await press(pilot, "p")
        assert await drawn_as_anew() == titled, "with the titles of its columns also beside the knobs"
        await press(pilot, "p")
        assert await drawn_as_anew() == titled
        await pilot.resize_terminal(LARGE[0], 24)
        assert await drawn_as_anew() != titled
        await pilot.resize_terminal(*LARGE)
        assert await drawn_as_anew() == titled


async def test_a_textual_without_the_names_that_painting_less_takes_paints_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert painting.PAINTS_LESS and painting._has_all()
    with monkeypatch.context() as patch:
        patch.setattr(Compositor, "_regions_to_spans", None)
        patch.delattr(Compositor, "_regions_to_spans")
        assert not painting._has_all()
    monkeypatch.setattr(painting, "PAINTS_LESS", False)
    monkeypatch.setattr(line_view, "PAINTS_LESS", False)
    async with shown(tmp_path, Counter(), "escape") as pilot:
        screen = pilot.app.screen
        assert isinstance(screen, SearchScreen) and type(screen._compositor) is Compositor
        assert type(screen.hits.vertical_scrollbar) is ScrollBar
        before = screen.waterfall.text, screen.hits.mode
        await press(pilot, "j", "v")
        shown_now = "\n".join(strip.text for strip in screen._compositor.render_strips())
        assert before != (screen.waterfall.text, screen.hits.mode)
        assert (
            screen.waterfall.text.splitlines()[0] in shown_now and f"columns: {screen.hits.mode}" in shown_now
        )


def test_a_key_on_a_frame_has_a_style_and_text_around_it_stays_inert() -> None:
    drawn = Content.from_markup(f"{markup('[bold]n.md[/] [@click=quit]')} · {named_key('[', 'previous')}")
    assert drawn.plain == "[bold]n.md[/] [@click=quit] · [ previous"
    (span,) = drawn.spans
    assert drawn.plain[span.start : span.end] == "[" and str(span.style) == "bold $accent"
