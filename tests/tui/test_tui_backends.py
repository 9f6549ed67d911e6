"""The other backend beside the configured one, rerank scores that arrive later, and the external qmd."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lab_world as world
from lab_world import LARGE, SMALL, frame, lab, press, settled, until
from textual.events import Key

from openclaw_mem_engine.answer import stem
from openclaw_mem_engine.api import Change, redacted, with_backend
from openclaw_mem_engine.memory import Memory
from openclaw_mem_tui.app import Workbench
from openclaw_mem_tui.features.index.screen import IndexScreen
from openclaw_mem_tui.features.providers.screen import ProvidersScreen
from openclaw_mem_tui.features.search.comparison import compared, lost
from openclaw_mem_tui.features.why_not.screen import WhyNotScreen
from openclaw_mem_tui.widgets.dialogs import Choices
from openclaw_mem_tui.widgets.edges import Banner, KeyBar
from openclaw_mem_tui.widgets.line_view import Pane
from support.memories import settings_for, write_notes
from support.qmd_world import QmdWorld

DRILL = "how long did the last restore drill take"


async def test_starting_over_ends_what_no_configuration_asks_for(tmp_path: Path) -> None:
    app = world.workbench(tmp_path, initial_query=DRILL)
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        screen = lab(app)
        screen.tune(screen.search.view.knobs.set({"max_results": 3}))
        await press(pilot, "o")
        screen.tune(screen.search.view.knobs.set({"max_results": 2}))
        screen.switch_faults(frozenset({"embeddings-401"}))
        await settled(pilot)
        await press(pilot, "t")
        assert screen.preview.citations == "on"
        await press(pilot, "0")
        view = screen.search.view
        assert view.backend == app.service.backend == "builtin" and not view.query and view.pin is None
        assert not view.faults and not view.changed_knobs(), "also those that builtin had"
        assert screen.preview.citations == "auto" and "started over" in screen.status_line.text
        await press(pilot, "escape", "z")
        view = screen.search.view
        assert view.backend == app.service.backend == "qmd" and view.query == DRILL and view.answers
        assert view.knobs.max_results == 2 and view.pool_faults == {"embeddings-401"}, "all of it"
        assert view.pin is not None and view.pin.knobs.max_results == 3 and screen.preview.citations == "on"
        await press(pilot, "Z")
        assert screen.search.view.backend == "builtin" and not screen.search.view.faults
        await press(pilot, "o")
        assert screen.search.view.backend == "qmd" and not screen.search.view.changed_knobs()


async def test_the_other_backend_is_compared_with_the_one_before(tmp_path: Path) -> None:
    app = world.workbench(tmp_path, initial_query=DRILL)
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        screen, before = lab(app), lab(app).search.view
        assert before.trace is not None
        await press(pilot, "o")
        view = screen.search.view
        assert view.pool is not None and view.pool.backend == "qmd" and view.trace is not None
        assert view.defaults.profile == "qmd-documented" == view.knobs.profile
        assert view.baseline is not None and view.baseline.name == "builtin" and view.baseline.by_file
        assert view.baseline.trace is before.trace
        header = app.screen.query_one("#top").text  # type: ignore[attr-defined]
        assert "· qmd ·" in header and "baseline: builtin" in screen.funnel.text
        assert "backend: qmd; baseline: builtin" in screen.status_line.text
        assert screen.preview.size.height >= 8 and screen.waterfall.size.height >= 12, "both can be read"
        seen = compared(view)
        assert seen is not None and seen.same == 2, "by file: the two that builtin returns"
        assert lost(view) == [] and "▼1" in screen.hits.text
        selected = screen.hits.selected
        assert selected is not None and selected.path == before.trace.returned[0].path, "the same file"
        assert not screen.query_one(Banner).display
        assert app.service.settings.openclaw.backend == "builtin", "the configuration stays"
        # The expansion and its lists can be read.
        drawn = " ".join(screen.waterfall.text.split())
        assert "v1 variant “" in drawn and "variant 1" not in drawn, "one name of a variant"
        fused = [row for row in screen.waterfall.text.splitlines() if "/(60+" in row]
        assert len({row.index("/(60+") for row in fused}) == 1 < len(fused), "below each other"
        assert "rerank" not in drawn, "the note below says why"
        assert "rerank 30" not in screen.strip.text and "snippet chars" not in screen.strip.text
        assert "vector" in screen.hits.text and "rerank" not in screen.hits.text, "no row has a rerank score"
        # BM25 found nothing with "how", "did" and "the": its variants did, and only their words are marked.
        matches = screen.hits.marker.matches
        assert matches and matches.stems == tuple(map(stem, ("long", "last", "restore", "drill", "take")))
        await press(pilot, "enter")
        assert screen.preview.kind == "get"
        # Another query is asked of both, too.
        await press(pilot, "slash", "end", "ctrl+u", *"router vlan", "enter")
        view = screen.search.view
        assert view.baseline is not None and view.baseline.name == "builtin" and view.baseline.by_file
        assert view.baseline.trace.query == "router vlan" and view.baseline.trace.knobs == before.knobs
        await press(pilot, "3")
        assert "· builtin ·" in app.screen.query_one("#top").text, "the index shown is the configured one"  # type: ignore[attr-defined]
        screen.tune(screen.search.view.knobs.set({"max_results": 3}))
        await press(pilot, "escape", "o")
        view = screen.search.view
        assert view.pool is not None and view.pool.backend == "builtin" and view.knobs == before.knobs
        await press(pilot, "o")
        assert screen.search.view.knobs.max_results == 3, "each backend keeps its knobs"
        await press(pilot, "o")
        view = screen.search.view
        assert view.baseline is not None and view.baseline.name == "qmd"
        assert "only in qmd: " in screen.hits.text
        _, rule, others = screen.hits.text.partition("── not returned: ")
        assert rule and " out " not in others, "another chunk of its file is returned, or above"
    assert [worker.error for worker in app.workers if worker.error] == []


class Gated:
    """A reranker that answers when it is let."""

    id, model, host = "gated", "by-word", ""

    def __init__(self) -> None:
        self.asked, self.let, self.cancelled = threading.Event(), threading.Event(), threading.Event()

    def scores(self, query: str, texts: Sequence[str], cancel: Any = None) -> list[float]:
        self.asked.set()
        while not self.let.wait(0.005):
            if cancel is not None and cancel.is_set():
                self.cancelled.set()
                break
        return [0.9 if "late" in text else 0.1 for text in texts]

    def close(self) -> None:
        self.let.set()


async def test_of_keys_in_one_burst_the_last_decides_about_the_backend(tmp_path: Path) -> None:
    app = world.workbench(tmp_path, initial_query=DRILL)
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        for keys, backend in (("oo", "builtin"), ("ooo", "qmd"), ("oo", "qmd"), ("oo0", "builtin")):
            for key in keys:
                app.post_message(Key(key, key))
            await settled(pilot)
            assert lab(app).search.view.backend == app.service.backend == backend, keys
            if "0" not in keys:
                assert lab(app).search.view.answers, keys
                assert f"backend: {backend}" in lab(app).status_line.text, keys


async def test_rerank_scores_move_rows_when_they_arrive(tmp_path: Path) -> None:
    notes = {"memory/a.md": "heron heron heron\n", "memory/b.md": "heron, late\n", "memory/c.md": "tea\n"}
    workspace = write_notes(tmp_path / "ws", notes)
    settings, reranker = settings_for(workspace, tmp_path / "home", OPENCLAW_MEM_PROVIDER="none"), Gated()
    app = Workbench(lambda faults: Memory.open(settings, resident=True, faults=faults, reranker=reranker))
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        screen = lab(app)
        screen.tune(screen.search.view.knobs.set({"rerank": "on"}))
        await pilot.press(*"heron")
        await until(pilot, lambda: screen.search.view.scoring and screen.search.view.query == "heron")
        view = screen.search.view
        assert view.trace is not None and not view.pending and screen.search.activity.searching
        assert [row.path for row in view.trace.returned] == ["memory/a.md", "memory/b.md"]
        assert "not reranked: its score is pending" in " ".join(screen.waterfall.text.split())
        reranker.let.set()
        await settled(pilot)
        view = screen.search.view
        assert view.trace is not None and not view.scoring
        assert [row.path for row in view.trace.returned] == ["memory/b.md", "memory/a.md"]
        # Typing stops the reranker.
        reranker.let.clear()
        reranker.asked.clear()
        await pilot.press("space", *"late")
        await until(pilot, reranker.asked.is_set)
        await until(pilot, lambda: screen.search.view.scoring)
        await pilot.press("x")
        await until(pilot, reranker.cancelled.is_set)
        reranker.let.set()
        await settled(pilot)
        # And so does esc: the rows say that they are not reranked.
        reranker.let.clear()
        await pilot.press("y")
        await until(pilot, lambda: screen.search.view.scoring)
        await pilot.press("escape")
        screen.cancel_work()
        await settled(pilot)
        assert "Reranking cancelled" in screen.search.view.error and not screen.search.view.scoring
        assert "not reranked: the search was stopped" in " ".join(screen.waterfall.text.split())


async def test_the_providers_screen_shows_the_external_qmd(tmp_path: Path) -> None:
    made = QmdWorld(tmp_path)
    app = Workbench(
        lambda faults: Memory.open(made.settings(), clock=made.clock, faults=faults),
        initial_query="Nadia tea",
        clock=made.clock,
    )
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        pool = lab(app).search.view.pool
        assert pool is not None and pool.backend == "qmd", pool and (pool.fallback, pool.notes)
        await press(pilot, "w")
        assert isinstance(app.screen, WhyNotScreen) and app.screen.answer is not None
        assert "rank 1 of its 3 results" in app.screen.query_one("#walk", Pane).text
        await press(pilot, "escape", "3")
        assert isinstance(app.screen, IndexScreen) and not app.screen.presenter.state.trouble
        assert app.screen.presenter.state.files and "enter chunks" in app.screen.query_one(KeyBar).text
        await press(pilot, "2")
        screen = app.screen
        assert isinstance(screen, ProvidersScreen)
        assert "backend  ● active" in screen.chain.text
        assert "command   /" in screen.link_pane.text
        assert "version   1.0.7" in screen.link_pane.text and "updated" in screen.link_pane.text
        made.qmd.answers(search={"code": 3, "stderr": "no disk"})
        await press(pilot, "1", "i", *" grey", "enter")
        assert "built-in index since " in lab(app).notes.text
        view = lab(app).search.view
        assert view.trace is not None and view.pool is not None and view.pool.fallback is not None
        with made.memory() as memory:
            assert view.knobs.profile == "qmd-process" == memory.knobs.profile
            searched = memory.search(view.query).trace
        assert view.trace.knobs == searched.knobs and searched.knobs.profile == "documented"
        listed = [(row.chunk_id, row.scores["final"]) for row in view.trace.returned]
        assert listed == [(row.chunk_id, row.scores["final"]) for row in searched.returned]
        await press(pilot, "2")
        shown = " ".join(screen.link_pane.text.split())
        assert "✗ paused" in screen.chain.text and "exit code 3: no disk" in shown
        assert "retry after" in shown


async def test_a_lesson_of_qmd_asks_qmd_and_the_next_one_the_configured_backend(tmp_path: Path) -> None:
    guide = world.make.demo_guide()
    number = next(at for at, lesson in enumerate(guide) if lesson.backend == "qmd")
    app = world.workbench(tmp_path, demo=guide)
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        screen = lab(app)
        screen.load_lesson(number)
        await settled(pilot)
        view = screen.search.view
        assert view.backend == "qmd" and view.answers and view.baseline is not None
        assert view.baseline.name == "of the lesson" and not view.baseline.by_file
        assert view.trace is not None and view.trace.returned[0].path == "memory/projects/lantern.md"
        assert guide[number].title in screen.lesson.text
        await press(pilot, "right_square_bracket")
        view = screen.search.view
        assert view.backend == "builtin" and view.knobs.profile == "openclaw-2026.2" and view.answers
        for _ in range(3):  # the last two are pressed before the backend of the first is there
            app.post_message(Key("left_square_bracket", "["))
        await settled(pilot)
        assert screen.search.lesson_at == number - 2 and screen.search.view.backend == "builtin"
        await press(pilot, "o")
        assert screen.search.view.backend == "qmd" and not screen.search.view.knobs.changes_from(
            screen.search.view.defaults
        )
        assert screen.search.lesson_at is None and not screen.lesson.display, (
            "its knobs are gone, and so is it"
        )


async def test_scope_and_citations_are_those_of_the_session_that_asks(tmp_path: Path) -> None:
    root = write_notes(tmp_path / "ws", {"MEMORY.md": "# Heron\n\nThe heron is grey.\n"})
    settings = with_backend(settings_for(root, tmp_path / "home", OPENCLAW_MEM_PROVIDER="none"), "qmd")
    group = "agent:main:telegram:group:1"
    app = Workbench(
        lambda faults: Memory.open(settings, faults=faults), initial_query="heron", session_key=group
    )
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        screen = lab(app)
        denial = "no rule of memory.qmd.scope matches channel telegram, chat type group; the default is deny"
        assert f"denied by its scope: {denial}" in " ".join(screen.answer.text.split())
        assert "denied" not in screen.notes.text, "once is enough"
        assert screen.query_line.border_title == f"query · session {group}: channel telegram, chat type group"
        assert "Not searched: the scope denies this session." in screen.hits.text
        assert "Nothing matches" not in screen.hits.text
        await press(pilot, "W", *"MEMORY.md:3", "enter")
        why = app.screen
        assert isinstance(why, WhyNotScreen) and why.answer is not None and why.answer.stage == "session"
        assert "✗ session" in why.query_one("#walk", Pane).text
        await press(pilot, "full_stop", "escape")
        assert "expected ✗ MEMORY.md:3 The search was denied by its scope" in screen.answer.text
        await press(pilot, "S")
        offered = app.screen.query_one(Choices).text
        assert f"▌ {group}" in offered and f"qmd denies it: {denial}" in " ".join(offered.split())
        await press(pilot, *"agent:main:signal:dm:7", "enter")
        view = screen.search.view
        assert view.trace is not None and len(view.trace.returned) == 1 and "scope" not in screen.notes.text
        assert "channel signal, chat type direct" in str(screen.query_line.border_title)
        screen.search.pin_baseline()
        await press(pilot, "S", *group, "enter")
        (gone,) = lost(screen.search.view)
        assert "denied by its scope" in str(gone.outcome.reason), "no retriever ran"
        await press(pilot, "B", "S", *"agent:main:signal:dm:7", "enter")
        assert "Source: MEMORY.md#L" in screen.preview.text
        await press(pilot, "S", "down", "enter")
        assert not screen.search.view.session_key
        assert "query · no session (S sets one)" in frame(screen.query_line)
        assert redacted(frame(screen.query_line)) == frame(screen.query_line), "in pictures too"
        await pilot.resize_terminal(*SMALL)
        await settled(pilot)
        assert "i no session" in screen.notes.text, "where there is no frame"
        await pilot.resize_terminal(*LARGE)
        await settled(pilot)
        # The built-in index has no scope, but an agent in a group gets no citations.
        await press(pilot, "o", "S", *group, "enter")
        view = screen.search.view
        assert view.trace is not None and len(view.trace.returned) == 1 and view.backend == "builtin"
        assert "Source:" not in screen.preview.text
    assert [worker.error for worker in app.workers if worker.error] == []


async def test_with_qmd_configured_every_screen_shows_what_there_is(tmp_path: Path) -> None:
    root = write_notes(tmp_path / "ws", {"MEMORY.md": "# Heron\n\nIt is grey.\n", "memory/a.md": "heron\n"})
    settings = with_backend(settings_for(root, tmp_path / "home", OPENCLAW_MEM_PROVIDER="static"), "qmd")
    app = Workbench(lambda faults: Memory.open(settings, faults=faults), initial_query="heron")
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        await press(pilot, "full_stop", "w")
        why = app.screen
        assert isinstance(why, WhyNotScreen) and why.answer is not None and not why.trouble
        assert "expected ✓ MEMORY.md:1 rank 1" in lab(app).answer.text
        assert "collection" in why.query_one("#walk", Pane).text
        await press(pilot, "escape", "p")
        lab(app).tune(lab(app).search.view.knobs.set({"max_results": 1}))
        await press(pilot, "escape", "W", *"memory/a.md:1", "enter")
        why = app.screen
        assert isinstance(why, WhyNotScreen) and why.answer is not None
        assert why.answer.stage == "max_results" and "max results: 1 → 2" in why.changes.text
        change = why.answer.changes[0]
        assert isinstance(change, Change)
        await press(pilot, "enter")
        assert app.screen is lab(app)
        assert all(getattr(lab(app).search.view.knobs, name) == to for name, to in change.set.items())
        await press(pilot, "2")
        assert isinstance(app.screen, ProvidersScreen)
        assert "static   primary  ● active" in app.screen.chain.text
        assert "vectors   2 of 2 chunks" in app.screen.link_pane.text
        assert "none: qmd keeps the vectors" in app.screen.query_one("#cache", Pane).text
        await press(pilot, "3")
        screen = app.screen
        assert isinstance(screen, IndexScreen)
        facts = screen.query_one("#facts", Pane).text
        assert "static-minilm-256-int8 · whole documents of " in facts and "cached" not in facts
        assert "2 files · 2 chunks, 2 with vectors" in facts and "state    fresh" in facts
        assert [row.path for row in screen.presenter.state.files] == ["MEMORY.md", "memory/a.md"]
        assert " checks without findings" in screen.doctor.text
        assert "sync" in screen.events.text and not screen.presenter.state.trouble
        assert "chunks    1: the whole document" in screen.detail.text
        await press(pilot, "enter")
        assert (
            app.screen is screen and "there are no chunks to show" in screen.query_one("#status", Pane).text
        )
        await press(pilot, "R")
        assert "every file is read again" in " ".join(app.screen.query_one(".said", Pane).text.split())
        await press(pilot, "escape", "escape", "o", "w")
        assert isinstance(app.screen, WhyNotScreen) and app.screen.answer is not None
        await press(pilot, "escape", "2")
        assert "static-minilm-256-int8 2 embeddings" in app.screen.query_one("#cache", Pane).text
        assert "· builtin ·" in app.screen.query_one("#top", Pane).text
        await press(pilot, "3")
        assert "· qmd ·" in app.screen.query_one("#top", Pane).text
        title = str(app.screen.query_one("#files").border_title)
        assert title.endswith("index of qmd, as configured; builtin answers")
        assert "whole documents" in app.screen.query_one("#facts", Pane).text
    assert [worker.error for worker in app.workers if worker.error] == []
