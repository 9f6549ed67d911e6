"""The providers screen with real keys: the chain, asking a provider, and what is said of it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import lab_world as world
import pytest
from lab_world import LARGE, SMALL, frame, lab, press, settled, until
from textual.pilot import Pilot

from openclaw_mem_engine.api import FAULTS, ProviderState
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.stores.sqlite.files import damaged
from openclaw_mem_tui.app import Workbench
from openclaw_mem_tui.features.providers import answer, render
from openclaw_mem_tui.features.providers.presenter import ChainState, key_of
from openclaw_mem_tui.features.providers.screen import ProvidersScreen
from openclaw_mem_tui.features.search.state import View
from openclaw_mem_tui.render.spans import text_of
from openclaw_mem_tui.render.status import Activity
from openclaw_mem_tui.widgets.edges import KeyBar
from openclaw_mem_tui.widgets.help import HelpScreen
from openclaw_mem_tui.widgets.line_view import Pane
from support.embed_server import Fault, Server, hang, running_server, unauthorized
from support.providers import World, make_world

SECRET = "sk-test-0123456789abcdef"
QUERY = "red bicycle"


@pytest.fixture
def remote(tmp_path: Path) -> World:
    made = make_world(tmp_path)
    made.clock.now = time.time()
    return made


def configure(remote: World, server: Server, *lines: str) -> None:
    remote.configure(
        'name = "openai"',
        f'base_url = "{server.base_url}"',
        f'api_key = "{SECRET}"',
        'model = "hash-bow-256"',
        *lines,
    )


def factory(remote: World) -> Callable[[frozenset[str]], Memory]:
    return lambda faults: Memory.open(remote.settings(), clock=remote.clock, resident=True, faults=faults)


def providers(app: Workbench) -> ProvidersScreen:
    return next(screen for screen in app.screen_stack if isinstance(screen, ProvidersScreen))


@asynccontextmanager
async def opened(
    app: Workbench, size: tuple[int, int] = LARGE
) -> AsyncIterator[tuple[Pilot[int], ProvidersScreen]]:
    """The application with its providers screen in front."""
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        if lab(app).query_line.has_focus:
            await press(pilot, "escape")
        await press(pilot, "2")
        yield pilot, providers(app)
        assert [worker.error for worker in app.workers if worker.error] == []


def every_text(screen: ProvidersScreen) -> str:
    names = ("#chain", "#link", "#faults", "#last", "#cache", "#status", "#top")
    return "\n".join(screen.query_one(name).text for name in names)  # type: ignore[attr-defined]


async def test_the_screen_is_built_when_it_is_asked_for_and_the_lab_keeps_its_state(tmp_path: Path) -> None:
    app = world.workbench(tmp_path, initial_query="heron")
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        await press(pilot, "j", "v")
        before = lab(app).hits.text
        assert len(app.screen_stack) == 1
        for back in ("escape", "1", "enter"):
            await press(pilot, "2")
            assert isinstance(app.screen, ProvidersScreen)
            first = app.screen
            await press(pilot, back)
            assert app.screen is lab(app) and lab(app).hits.text == before
            await press(pilot, "2")
            assert app.screen is first
            await press(pilot, "escape")


async def test_the_chain_says_who_serves_the_pane_says_all_and_help_is_there(tmp_path: Path) -> None:
    async with opened(world.workbench(tmp_path, initial_query="heron")) as (pilot, screen):
        rows = screen.chain.text.splitlines()
        assert any("static" in row and "primary" in row and "● active" in row for row in rows)
        assert any("BM25" in row and "● active" in row for row in rows)
        assert len(rows) == 3 and rows[2].split("·")[1].strip() == "not selected", "the pane says why"
        titles = screen.chain.painted(-1).text.split()
        assert titles == ["provider", "role", "state", "data", "vectors"], "as in one column"
        assert [row.split()[-1] for row in rows[:2]] == ["100%", "local"]
        faults = screen.faults.text.splitlines()
        one_each = [name in row and FAULTS[name] in row for name, row in zip(FAULTS, faults, strict=True)]
        assert all(one_each)
        assert screen.selected[0].name == "static"
        drawn = screen.link_pane.text
        assert "data      stays on this machine" in drawn and "102 of 102 chunks" in drawn and "free" in drawn
        returned = screen.last.text.splitlines()
        first = next(at for at, row in enumerate(returned) if row.startswith("returned"))
        assert "#1" in returned[first] and "heron" in returned[first + 1], "its best line is below it"
        assert "took" in screen.last.text and "BM25" in screen.last.text
        assert "fallback BM25 only (no other provider is set) no use recorded" in " ".join(drawn.split())
        assert "102 embeddings" in screen.query_one("#cache").text  # type: ignore[attr-defined]
        assert "vectors of static-minilm-256-int8 and BM25" in " ".join(screen.last.text.split())
        await press(pilot, "G")
        assert frame(screen.link_pane).startswith("not selected: where text would go")
        said = " ".join(screen.link_pane.text.split())
        assert "openai api.openai.com; needs OPENAI_API_KEY gemini " in said
        assert "ollama this machine (127.0.0.1:11434); needs no key select provider.name" in said
        await press(pilot, "r")
        assert "only a provider that is in use" in screen.query_one("#status").text  # type: ignore[attr-defined]
        await press(pilot, "k", "r")
        assert "BM25 needs no provider" in screen.query_one("#status").text  # type: ignore[attr-defined]

        await pilot.press("question_mark")
        await pilot.pause()
        assert isinstance(pilot.app.screen, HelpScreen)
        drawn = pilot.app.screen.query_one("#help-rows").text  # type: ignore[attr-defined]
        legend = pilot.app.screen.query_one("#help-legend").text  # type: ignore[attr-defined]
        assert "switch a simulated fault" in drawn and "stop all" not in drawn, "there is none to stop"
        assert "ready for use" in legend
        assert drawn.count("filter the list by words") == 1 and " f, / " in drawn, "one row of both keys"
        assert "undo the last change" in drawn and "reset the selected knob" not in drawn
        both = [row.split() for row in drawn.splitlines() if "ctrl+d" in row or "ctrl+u" in row]
        assert both == [["ctrl+d,", "half", "a", "page", "down,", "up"], ["ctrl+u"]], "one below the other"
        await pilot.press("escape")
        await pilot.pause()
        titles = [choice.title for choice in pilot.app.commands(screen)]  # type: ignore[attr-defined]
        assert "Probe the selected provider now" in titles and "Search lab" in titles
        in_lab = [choice.title for choice in pilot.app.commands(lab(pilot.app))]  # type: ignore[arg-type,attr-defined]
        assert "Providers, fallback and faults" in in_lab
        await pilot.press("q")
        await pilot.pause()
        assert pilot.app.return_value == 0


async def test_without_a_query_the_screen_says_so_and_digits_are_text_in_it(tmp_path: Path) -> None:
    app = world.workbench(tmp_path)
    async with opened(app) as (pilot, screen):
        assert "The lab has no query now" in screen.last.text
        await press(pilot, "enter")
        assert pilot.app.screen is lab(app)

        await press(pilot, "slash")
        await press(pilot, "1", "2")
        assert lab(app).query_line.value == "12" and app.screen is lab(app)


async def test_a_provider_is_asked_and_answers_and_panes_scroll(remote: World) -> None:
    with running_server(tokens=3) as server:
        configure(remote, server)
        async with opened(Workbench(factory(remote), initial_query=QUERY)) as (pilot, screen):
            asked = len(server.requests)
            await press(pilot, "r")
            assert len(server.requests) == asked + 1
            drawn = " ".join(screen.link_pane.text.split())
            assert "● active" in drawn and "answered in" in drawn
            assert "data sent to a server on this machine" in drawn and "free" in drawn
            assert "config.toml" in drawn.replace(" ", "") and "hash-bow-256" in drawn
            assert "today" in drawn and "30 days" in drawn and "token" in drawn
            assert "openai answered in" in screen.query_one("#status").text  # type: ignore[attr-defined]
            assert SECRET not in every_text(screen)
            assert SECRET not in pilot.app.export_screenshot()

            await pilot.resize_terminal(*SMALL)
            await settled(pilot)
            assert screen.link_pane.scroll_offset.y == 0
            await press(pilot, "J")
            assert screen.link_pane.scroll_offset.y > 0
            await press(pilot, "K")
            assert screen.link_pane.scroll_offset.y == 0


async def test_a_provider_that_refuses_is_shown_with_reason_and_next_try(remote: World) -> None:
    with running_server() as server:
        configure(remote, server)
        app = Workbench(factory(remote), initial_query=QUERY, clock=remote.clock)
        async with opened(app) as (pilot, screen):
            server.forever = unauthorized()
            await press(pilot, "r")
            drawn = " ".join(screen.link_pane.text.split())
            assert "✗ paused since" in drawn and "; retry after" in drawn and "401" in drawn
            assert " ✗ openai embeddings failed: 401 from" in screen.query_one("#status").text  # type: ignore[attr-defined]
            rows = screen.chain.text.splitlines()
            assert any("BM25" in row and "● active" in row for row in rows)
            assert SECRET not in every_text(screen) and SECRET not in app.export_screenshot()
            await press(pilot, "escape", "slash", "x", "enter")
            notes = lab(app).notes.text
            assert "openai embeddings failed: 401" in notes and "BM25 only since" in notes
            assert "retry\xa0after" in notes and "BM25 only" not in lab(app).status_line.text, "once"
            server.forever = None
            remote.clock.forward(3600)
            await press(pilot, "2", "r")
            assert "● active" in screen.link_pane.text


@pytest.mark.parametrize("size", [LARGE, SMALL])
async def test_what_a_hostile_server_says_is_inert(remote: World, size: tuple[int, int]) -> None:
    said = "\\u001b[31mred [bold]markup[/] \\u202eright to left \\u0007 " + "x" * 3000
    body = '{"error": {"message": "' + said + '"}}'
    with running_server() as server:
        configure(remote, server)
        async with opened(Workbench(factory(remote), initial_query=QUERY), size) as (pilot, screen):
            server.forever = Fault(403, body)
            await press(pilot, "r")
            seen = every_text(screen)
            await press(pilot, "escape", "slash", "x", "enter")
            seen += lab(pilot.app).notes.text + lab(pilot.app).status_line.text  # type: ignore[arg-type]
            svg = pilot.app.export_screenshot(simplify=True)
            assert "[bold]markup[/]" in seen.replace("\n", "")
            for bad in ("\x1b", "\u202e", "\x07"):
                assert bad not in seen and bad not in svg


async def test_asking_blocks_nothing_and_leaving_stops_waiting(remote: World) -> None:
    with running_server() as server:
        configure(remote, server)
        app = Workbench(factory(remote), initial_query=QUERY)
        async with app.run_test(size=LARGE) as pilot:
            await settled(pilot)
            await press(pilot, "2")
            server.faults = [hang(20)]
            start = time.monotonic()
            await pilot.press("r")
            screen = providers(app)
            await until(pilot, lambda: "◐ probing" in screen.chain.text)
            assert "◐ probing" in screen.chain.text
            assert "probing openai" in screen.query_one("#status").text  # type: ignore[attr-defined]
            await pilot.press("r")
            await pilot.pause(0.1)
            assert len([one for one in server.requests if one.body["input"] in ("memory", ["memory"])]) == 1
            await press(pilot, "escape", "i", *" ghent")
            assert lab(app).search.view.query == "red bicycle ghent" and lab(app).search.view.answers
            await press(pilot, "escape", "2")
            assert "asking" not in screen.query_one("#status").text  # type: ignore[attr-defined]
        assert time.monotonic() - start < 19, "less than the provider hangs"


async def test_details_are_those_of_the_selected_row_and_others_have_a_heading(
    tmp_path: Path,
) -> None:
    async with opened(world.workbench(tmp_path, initial_query="heron"), LARGE) as (pilot, screen):
        selected, _, others = screen.link_pane.text.partition(
            "\n── 6 more, not selected: where text would go ─"
        )
        assert frame(screen.link_pane).startswith("static · primary ")
        assert "state     ● active" in selected and "openai" not in selected and "openai" in others
        await press(pilot, "G")
        assert "openai" in screen.link_pane.text and "state" not in screen.link_pane.text
        assert frame(screen.link_pane).startswith("not selected: where text would go")


async def test_narrow_screens_show_the_list_with_the_focus(tmp_path: Path) -> None:
    async with opened(world.workbench(tmp_path, initial_query="heron"), SMALL) as (pilot, screen):
        pane = screen.link_pane
        pane.styles.height = 7  # with its frame
        await settled(pilot)
        for rows in (6, 4):
            assert f"rows 1–{rows} of {len(pane.drawn)} · J K scroll" in frame(pane), (
                "also after a list above it has grown"
            )
            pane.styles.height = 5
            await settled(pilot)
        pane.styles.height = "1fr"
        assert screen.chain.region and screen.link_pane.region
        assert not screen.faults.region
        await press(pilot, "tab")
        assert screen.faults.has_focus and screen.faults.region and screen.last.region
        assert not screen.chain.region
        assert frame(screen.faults).rstrip().endswith(" · in use: static, BM25"), "what answers"
        await press(pilot, "space")
        assert frame(screen.faults).rstrip().endswith("of 12 · in use: BM25"), "with the fault"
        await press(pilot, "space")
        await pilot.resize_terminal(*LARGE)
        await settled(pilot)
        assert "in use" not in frame(screen.faults) and "● active" in screen.chain.text, "beside it"
        await pilot.resize_terminal(*SMALL)
        await settled(pilot)
        await press(pilot, "G")
        seen = [screen.faults.render_line(y).text for y in range(screen.faults.size.height)]
        assert any("no-fts5" in row for row in seen)
        await press(pilot, "tab")
        assert screen.chain.has_focus and screen.chain.region
        assert "tab faults" in screen.query_one(KeyBar).text
        await press(pilot, "space")
        assert not screen.search.view.faults and screen.faults.region, "it could not be seen"
        assert "space switches the selected one" in screen.query_one("#status", Pane).text
        assert "space on/off" in screen.query_one(KeyBar).text
        await press(pilot, "space")
        assert screen.search.view.faults == {"qmd-exit"}
        assert screen.last.max_scroll_y == 0, "what the fault did is in sight"
        await pilot.resize_terminal(60, 16)
        await settled(pilot)
        shown, lines = screen.last.size.height, len(screen.last.drawn)
        assert f"rows 1–{shown} of {lines} · " in frame(screen.last) and shown < lines
        await press(pilot, "space", "tab")
        assert not screen.search.view.faults and screen.chain.has_focus
        for size in (LARGE, (60, 16), (40, 10), (200, 50), SMALL):
            await pilot.resize_terminal(*size)
            await settled(pilot)
            assert screen.chain.region.height > 2
            assert "tab" not in frame(screen.chain), "the key bar has it"


async def test_both_lists_are_filtered(tmp_path: Path) -> None:
    async with opened(world.workbench(tmp_path, initial_query="heron")) as (pilot, screen):
        await press(pilot, "f", *"bm25", "enter")
        assert screen.selected[0].name == "bm25" and "static" not in screen.chain.text
        assert "filter bm25 · 1 of 3" in str(screen.chain.border_subtitle)
        await press(pilot, "tab", "slash", *"no-fts", "enter", "space")
        assert screen.search.view.faults == {"no-fts5"}
        await press(pilot, "f", *"nothing has this", "enter", "space")
        assert screen.search.view.faults == {"no-fts5"}, "no fault is under the cursor"
        await press(pilot, "escape", "U")
        assert screen.faults.text.count("[ ]") == len(FAULTS)


async def test_vectors_of_another_space_are_shown_beside(remote: World) -> None:
    with running_server() as server:
        configure(remote, server, 'also = ["static"]')
        app = Workbench(factory(remote), initial_query=QUERY)
        async with app.run_test(size=LARGE) as pilot:
            await settled(pilot)
            screen = lab(app)
            assert "also" in screen.waterfall.text and "not fused" in screen.waterfall.text
            assert "static-minilm" in screen.waterfall.text
            await press(pilot, "p", "home", "down", "down")
            assert screen.knob_panel.name_at_cursor == "vector_space"
            await press(pilot, "right")
            assert "second vectors" in screen.strip.text
            assert "(static-mini…)" in screen.funnel.text
            assert "hash-bow-256" in screen.waterfall.text and "not fused" in screen.waterfall.text
            await press(pilot, "escape", "2")
            rows = providers(app).chain.text
            assert "also" in rows and "○ ready" in rows


async def test_the_fallback_provider_answers_and_is_named(remote: World) -> None:
    with running_server() as server:
        configure(remote, server, 'fallback = "static"')
        app = Workbench(factory(remote), initial_query=QUERY, clock=remote.clock)
        async with app.run_test(size=LARGE) as pilot:
            await settled(pilot)
            server.forever = unauthorized()
            await press(pilot, "slash", "x", "enter")
            screen = lab(app)
            assert (
                "openai embeddings failed: 401" in screen.notes.text
                and "vectors of static-minilm-256-int8 since" in screen.notes.text
            )
            assert "(static-minilm" in screen.funnel.text
            assert SECRET not in screen.notes.text
            await press(pilot, "2")
            rows = providers(app).chain.text.splitlines()
            assert any("openai" in row and "✗ paused" in row for row in rows)
            assert any("static" in row and "fallback" in row and "● active" in row for row in rows)
            assert "401" not in providers(app).last.text, "the details of the provider have the reason"


def test_each_provider_that_is_not_selected_says_where_text_would_go() -> None:
    reasons = (("openai", "no key for OpenAI"), ("voyage", "no key for OpenAI"), ("local", "no model file"))
    group = [ProviderState(name, "not-selected", "not-selected", why) for name, why in reasons]
    chain = ChainState(prospects={"voyage": "api.voyageai.com; set VOYAGE_API_KEY"})
    assert [text_of(row) for row in render.detail(group, chain, 80)] == [
        "openai    no key for OpenAI",
        "voyage    api.voyageai.com; set VOYAGE_API_KEY",
        "local     no model file",
        "select    provider.name in config.toml, or --provider NAME",
    ]


def test_a_damaged_index_is_repaired_with_a_key_here_too() -> None:
    error, link = str(damaged("malformed", "main.sqlite")), ProviderState("static", "primary", "active", "")
    view = View(Knobs(), Knobs())
    asked = replace(view, query=QUERY, error=error)
    probed = ChainState(links=(link,), probed={key_of(link): error}, said=error)
    for drawn in (
        answer.last_query(asked, 0, 300),
        render.detail((link,), probed, 300),
        [render.status(probed, view, Activity("ready"), 300)],
    ):
        text = " ".join(map(text_of, drawn))
        assert "The index is damaged. F repairs it." in text and "F: " not in text
        assert "openclaw-mem" not in text
