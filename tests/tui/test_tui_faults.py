"""Faults in the workbench: they change the answer, are named on every screen, and leave no trace."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lab_world as world
import pytest
from lab_world import LARGE, SMALL, lab, make, press, settled, until
from textual.pilot import Pilot

from openclaw_mem_engine.cancellation import Deadline
from openclaw_mem_engine.errors import IndexLocked
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.providers.faults import FAULTS
from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.retrieval import qmd_process
from openclaw_mem_engine.sync.report import SyncRequest
from openclaw_mem_tui.app import Workbench
from openclaw_mem_tui.features.providers.screen import ProvidersScreen
from openclaw_mem_tui.features.search.comparison import Compared, compared
from openclaw_mem_tui.features.search.render.above import overlap
from openclaw_mem_tui.features.search.state import HEALTHY_RUN
from openclaw_mem_tui.render.spans import text_of
from openclaw_mem_tui.service import Service
from openclaw_mem_tui.widgets.edges import Banner, KeyBar, Top, fault_banner
from openclaw_mem_tui.widgets.help import HelpScreen

DRILL = "how long did the last restore drill take"
NAMES = tuple(FAULTS)
#: What names each fault, beside the banner.
SAID = {
    "embeddings-401": "401 Incorrect API key provided (simulated fault)",
    "embeddings-429": "429 Rate limit reached (simulated fault)",
    "embeddings-timeout": "no answer, waited 60 s (simulated fault)",
    "embeddings-garbage": "sent something that is not JSON",
    "zero-vector": "returns a vector of zeros, which cannot be compared.",
    "wrong-dimension": "now sends vectors of 7 dimensions, the index holds 256",
    "no-sqlite-vec": "sqlite-vec is not in use (not loaded): vectors are compared",
    "no-fts5": "Full-text search is not available",
    "qmd-missing": "The program qmd-missing cannot be run (was not found)",
    "qmd-timeout": "did not end within",
    "qmd-json": "other than a JSON list of results",
    "qmd-exit": "failed with exit code 1",
}


async def switch(pilot: Pilot[int], name: str) -> None:
    """From the lab: switch one fault, and go back."""
    await press(pilot, "2")
    screen = providers(pilot.app)
    if not screen.faults.has_focus:
        await press(pilot, "tab")
    screen.faults.action_go(NAMES.index(name) - screen.faults.cursor)
    await press(pilot, "space")
    assert pilot.app.screen is screen, "it stays, and shows what changed"
    await press(pilot, "enter")


def providers(app: object) -> ProvidersScreen:
    screen = app.screen  # type: ignore[attr-defined]
    assert isinstance(screen, ProvidersScreen)
    return screen


def first_line(app: Workbench) -> str:
    screen = app.screen
    return "".join(segment.text for segment in screen._compositor.render_strips()[0])


async def test_every_fault_has_its_banner_and_its_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = world.workbench(tmp_path, initial_query=DRILL)

    def soon(seconds: float) -> Deadline:
        """What hangs need not do so for 4 s; what answers has all its time."""
        return Deadline(0.5 if app.service.faults == {"qmd-timeout"} else seconds)

    monkeypatch.setattr(qmd_process, "Deadline", soon)
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        screen, healthy = lab(app), lab(app).search.view
        assert healthy.trace is not None
        for name in NAMES:
            await switch(pilot, name)
            assert app.screen is screen, "enter opens the comparison"
            assert f"SIMULATED FAULT: {name}" in first_line(app) and "· U switches it off" in first_line(app)
            view = screen.search.view
            assert view.answers and view.pool_faults == {name}
            assert view.pool is not None and view.other_pool is not None
            assert view.baseline is not None and view.baseline.name == HEALTHY_RUN
            assert [row.chunk_id for row in view.baseline.trace.returned] == [
                row.chunk_id for row in healthy.trace.returned
            ]
            assert "baseline: no fault" in screen.funnel.text
            seen = compared(view)
            assert seen is not None and seen.of
            assert (" more result" in screen.lesson.text) == bool(seen.new and not seen.lost)
            if seen.why:
                dropped = [view.baseline.row(row) for row in seen.new]
                assert all(row is not None and row.outcome.stage == "min_score" for row in dropped)
                assert "than the baseline: min score not applied (" in screen.lesson.text
                assert "min score not applied" in screen.funnel.text, "it is a stage of this run"
            assert screen.hits.cursor == 0
            if name == "no-sqlite-vec":
                assert seen.same == seen.of, "vectors are compared in the process, with the same outcome"
            elif name.startswith("qmd-"):
                assert seen.same == seen.of
                assert view.pool.fallback is not None and view.pool.fallback.active == "builtin"
                assert "built-in index since 18:00:00, retry after " in " ".join(screen.notes.text.split()), (
                    name
                )
            elif name == "no-fts5":
                assert view.pool.first("lexical") is None and "only answered" in screen.lesson.text
            else:
                assert view.pool.first("vector") is None, name
                once = f"{screen.notes.text}{screen.status_line.text}"
                assert once.count("BM25 only") == 1, "in one place; the effect may name it as a cause"
                assert "min score not applied" in screen.funnel.text
            await press(pilot, "2")
            if name.startswith("embeddings-") or name in ("wrong-dimension", "zero-vector"):
                # What does not fit this index alone is no failure of the provider, which is asked again.
                fits = name != "wrong-dimension"
                since = "since 18:00:00, retry after " if fits else "instead of static"
                assert f"BM25 only {since}" in " ".join(screen.notes.text.split()), name
                chain = app.screen.chain.text  # type: ignore[attr-defined]
                assert f"✗ {'paused' if fits else 'failed'}" in chain and "● active" in chain, (
                    "the chain says so too"
                )
                assert "in use now (simulated)" in app.screen.link_pane.text, name  # type: ignore[attr-defined]
                assert SAID[name][:20] in " ".join(app.screen.link_pane.text.split())  # type: ignore[attr-defined]
            drawn = " ".join(app.screen.query_one("#last").text.split())  # type: ignore[attr-defined]
            noted = " ".join(screen.notes.text.split())
            link = " ".join(app.screen.link_pane.text.split())  # type: ignore[attr-defined]
            assert (SAID[name] in drawn) != (SAID[name] in link), "in one place"
            assert noted.count(SAID[name]) < 2, name
            await press(pilot, "U")
            assert screen.search.view.faults == frozenset()
            assert "simulated faults: none" in first_status(app)
            await press(pilot, "escape")
            after = screen.search.view
            assert not screen.query_one(Banner).display and after.pool_faults == frozenset()
            assert after.trace is not None and after.trace.rows == healthy.trace.rows
        assert [worker.error for worker in app.workers if worker.error] == []


def first_status(app: Workbench) -> str:
    return str(app.screen.query_one("#status").text)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("lost", "new", "said"),
    [
        (0, 0, "the same 3 results as the baseline"),
        (0, 5, "5 more results than the baseline"),
        (2, 2, "3 of 5 baseline results are returned; 2 are new"),
        (2, 0, "3 of 5 baseline results are returned"),
    ],
)
def test_only_what_is_lost_is_bad(lost: int, new: int, said: str) -> None:
    view = world.view()
    assert view.trace is not None
    row = view.trace.rows[0]
    seen = Compared(3, 3 + max(lost, new), 0, (row,) * lost, (row,) * new)
    drawn = overlap(seen)
    assert text_of(drawn) == said and ("bad" in drawn[0].role) == bool(lost)
    assert not any("warn" in span.role for span in drawn)
    reasoned = text_of(overlap(seen._replace(why="a reason")))
    assert (": a reason" in reasoned) == bool(new), "the reason is that of the new ones"
    moved = text_of(overlap(Compared(2, 3, 1, (), (row,))))
    assert moved == "1 more result than the baseline (1 at another rank)"


async def test_the_screen_tells_what_the_fault_did(tmp_path: Path) -> None:
    app = world.workbench(tmp_path, demo=make.demo_guide())
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        assert "lesson 1 of 15" in lab(app).lesson.text
        await switch(pilot, "embeddings-401")
        assert "lesson" not in lab(app).lesson.text
        await press(pilot, "2")
        screen = providers(app)
        assert "SIMULATED FAULT: embeddings-401" in first_line(app) and "· U switches it off" in first_line(
            app
        )
        assert screen.query_one(Top).text.rstrip().endswith(" · BM25 only")
        assert "[x] embeddings-401" in screen.faults.text
        drawn = screen.last.text
        assert "same 6 results as the baseline" in drawn and "BM25 only" in drawn
        assert "static-minilm" in drawn
        assert "static paused" in first_status(app), "the same where the fault was on from the start"
        assert screen.last.border_title == "last query with this fault"
        chain = screen.chain.text.splitlines()
        assert any("static" in row and "✗ paused" in row for row in chain)
        assert any("BM25" in row and "● active" in row for row in chain)
        await press(pilot, "space")
        assert app.screen is screen, "switching off stays"
        await press(pilot, "z")
        assert "[x] embeddings-401" in screen.faults.text and screen.query_one(Banner).display
        assert "undo: simulated faults: embeddings-401; Z redoes it" in first_status(app)
        await press(pilot, "U")
        assert "simulated faults: none; z undoes it" in first_status(app)
        await press(pilot, "z", "Z")
        assert "redo: simulated faults: none; z undoes it" in first_status(app)
        assert "[x]" not in screen.faults.text and not screen.query_one(Banner).display
        assert screen.last.border_title == "last query"
        assert any("static" in row and "● active" in row for row in screen.chain.text.splitlines())
        await press(pilot, "enter")
        assert app.screen is lab(app) and "lesson 1 of 15" in lab(app).lesson.text


@pytest.mark.parametrize(
    ("fault", "provider", "why"),
    [
        ("embeddings-401", "static", "401 Incorrect API key provided (simulated fault)"),
        ("no-fts5", "bm25", "full-text search is not available"),
        ("qmd-exit", "qmd", "failed with exit code 1"),
    ],
)
async def test_the_details_are_those_of_the_provider_that_the_fault_is_about(
    tmp_path: Path, fault: str, provider: str, why: str
) -> None:
    app = world.workbench(tmp_path, initial_query=DRILL)
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        await press(pilot, "2", "G")
        screen = providers(app)
        assert "needs OPENAI_API_KEY" in screen.link_pane.text, "of those that are not selected"
        await press(pilot, "tab")
        screen.faults.action_go(NAMES.index(fault) - screen.faults.cursor)
        await press(pilot, "space")
        assert [link.name for link in screen.selected] == [provider]
        assert why in " ".join(screen.link_pane.text.split()) and screen.faults.has_focus
        await press(pilot, "shift+tab", "G", "tab", "space")
        assert screen.selected[0].name == ("static" if provider == "qmd" else provider), "switched off"


async def test_several_faults_at_once_and_turned_knobs(tmp_path: Path) -> None:
    app = world.workbench(tmp_path, initial_query=DRILL)
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        for name in ("embeddings-429", "no-sqlite-vec", "no-fts5"):
            await switch(pilot, name)
        assert "SIMULATED FAULTS: embeddings-429, no-sqlite-vec, no-fts5" in first_line(app)
        screen = lab(app)
        assert screen.search.view.trace is not None and not screen.search.view.trace.returned
        assert "only in the run without faults, in its order: " in screen.hits.text
        assert "No candidate list could be made" in screen.hits.text
        assert "no retriever since " in screen.notes.text and screen.funnel.text.startswith(
            " stages   pool 0 → 0 returned "
        )
        row = screen.hits.selected
        assert (
            row is not None
            and row.outcome.stage == "gone"
            and "in no candidate list" in screen.waterfall.text
        )
        assert "restore" in screen.preview.text.lower(), "the text of a hit that is gone can be read"
        await press(pilot, "enter")
        assert screen.preview.kind == "get"
        await press(pilot, "m", "y", "Y", "escape")
        await switch(pilot, "no-fts5")
        await press(pilot, "escape", "p", "left", "left", "escape")
        view = screen.search.view
        assert view.baseline is not None and view.baseline.trace.knobs == view.knobs
        assert view.knobs != view.defaults and view.baseline.name == HEALTHY_RUN
        await press(pilot, "b")
        assert view.pin is None and "run without it is the baseline" in screen.status_line.text
        await press(pilot, "B")
        assert screen.search.view.baseline is not None and screen.search.view.baseline.name == HEALTHY_RUN
        await press(pilot, "p", "home", "right", "escape")
        view = screen.search.view
        assert view.answers and view.baseline is not None and view.baseline.trace.knobs == view.knobs
        assert [choice.title for choice in app.commands(app.screen)].count(
            "Switch off all simulated faults"
        ) == 1
        tuned = view.knobs
        assert "U" not in screen.strip.text and "U reset" not in screen.query_one(KeyBar).text
        await press(pilot, "p", "U")
        assert not screen.query_one(Banner).display and screen.search.view.answers
        assert "simulated faults: none; z undoes it" in screen.status_line.text
        await press(pilot, "z")
        assert screen.search.view.faults == view.faults and screen.query_one(Banner).display
        said = f"undo: simulated faults: {', '.join(sorted(view.faults))}; Z redoes it"
        assert said in screen.status_line.text and screen.search.view.knobs == tuned
        await press(pilot, "Z")
        assert screen.search.view.faults == frozenset() and screen.search.view.answers
        assert screen.search.view.knobs == tuned != view.defaults, "one thing at a time: first the faults"
        assert "U reset" in screen.strip.text and "U reset all" in screen.query_one(KeyBar).text
        await press(pilot, "U")
        assert screen.search.view.knobs == view.defaults, "then the knobs"
        await switch(pilot, "no-fts5")
        for key in "345":
            await press(pilot, key)
            assert "· U switches it off" in first_line(app), key
        await press(pilot, "question_mark", "f", *"faults", "enter", "enter")
        assert not screen.query_one(Banner).display and screen.search.view.faults == frozenset()
        await press(pilot, "U")
        assert "does nothing here; on 1 lab: reset all knobs" in app.screen.query_one("#status").text  # type: ignore[attr-defined]


async def test_without_a_query_the_first_lesson_is_asked(tmp_path: Path) -> None:
    app = world.workbench(tmp_path, demo=make.demo_guide())
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        await press(pilot, "slash", "end", "ctrl+u", "escape")
        assert not lab(app).search.view.query
        await switch(pilot, "zero-vector")
        assert lab(app).search.view.query == make.demo_guide()[0].query
        assert lab(app).search.view.pool_faults == {"zero-vector"}


async def test_a_fault_is_undone_whatever_lesson_was_loaded_since(tmp_path: Path) -> None:
    """A lesson sets knobs of its own: what a step changed of the faults can be undone still."""
    app = world.workbench(tmp_path, demo=make.demo_guide())
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        await press(pilot, "p", "right", "p")
        await switch(pilot, "embeddings-401")
        await press(pilot, "right_square_bracket", "slash", *"heron", "enter", "2")
        view, screen = lab(app).search.view, providers(app)
        assert view.shown_faults == {"embeddings-401"} and lab(app).search.lesson_at is None
        await press(pilot, "z")
        assert lab(app).search.view.changed_knobs(), "another query had reset those of the lesson"
        await press(pilot, "z")
        assert not lab(app).search.view.faults and "simulated faults: none" in screen.status_line.text
        await press(pilot, "z")
        assert "nothing more to undo" in screen.status_line.text, "the knobs of the first lesson are not back"
        await press(pilot, "Z")
        assert lab(app).search.view.faults == {"embeddings-401"}


async def test_a_fault_is_named_until_its_banner_is_clicked(tmp_path: Path) -> None:
    app = world.workbench(tmp_path, initial_query=DRILL, faults=frozenset({"embeddings-401"}))
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        await press(pilot, "slash", "ctrl+u", "escape")
        top = lab(app).query_one(Top)
        assert lab(app).search.view.trace is None and top.text.rstrip().endswith(" · BM25 only")
        await pilot.click(Banner, offset=(first_line(app).index("switches it off"), 0))
        await settled(pilot)
        assert not lab(app).search.view.shown_faults and "BM25 only" not in top.text


async def test_without_any_query_the_fault_waits_for_one(tmp_path: Path) -> None:
    app = world.workbench(tmp_path)
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        await press(pilot, "escape")
        await switch(pilot, "embeddings-timeout")
        assert "SIMULATED FAULT" in first_line(app) and "type a query" in lab(app).status_line.text
        assert app.service.faults == {"embeddings-timeout"}
        await press(pilot, "slash", *"heron", "enter")
        assert lab(app).search.view.pool_faults == {"embeddings-timeout"} and lab(app).search.view.compares


@pytest.mark.parametrize("size", [LARGE, SMALL])
async def test_a_fault_from_the_start(tmp_path: Path, size: tuple[int, int]) -> None:
    app = world.workbench(tmp_path, demo=make.demo_guide(), faults=frozenset({"embeddings-garbage"}))
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        assert "SIMULATED FAULT: embeddings-garbage" in first_line(app)
        await settled(pilot)
        assert app.screen is lab(app) and "same 6 results as the baseline" in lab(app).lesson.text
        assert lab(app).hits.region.height >= 5
        assert "baseline" in lab(app).waterfall.text


async def test_the_banner_is_on_every_screen(tmp_path: Path) -> None:
    app = world.workbench(tmp_path, demo=make.demo_guide(), faults=frozenset({"no-fts5"}))
    async with app.run_test(size=SMALL) as pilot:
        await settled(pilot)
        for keys, back in (
            (["question_mark"], "escape"),
            (["g"], "escape"),
            (["x"], "escape"),
            (["R"], "escape"),
            (["ctrl+p"], "escape"),
            (["2"], ""),
            (["question_mark"], "escape"),
        ):
            await press(pilot, *keys)
            assert "SIMULATED FAULT: no-fts5" in first_line(app), keys
            if back:
                await press(pilot, back)
        assert isinstance(app.screen, ProvidersScreen)
        for size in ((60, 16), (50, 12), (30, 8)):
            await pilot.resize_terminal(*size)
            await settled(pilot)
            assert "SIMULATED FAULT" in first_line(app)


def test_the_banner_fits_any_width() -> None:
    everything = frozenset(FAULTS)
    for cells in (20, 40, 60, 80, 120, 300):
        for faults in (frozenset({"zero-vector"}), everything):
            drawn = text_of(fault_banner(faults, cells))
            assert len(drawn) == cells and "FAULT" in drawn
    assert fault_banner(frozenset(), 80) == ()
    assert "+8 · U switches them off" in text_of(fault_banner(everything, 120))


class Counting(make.SteadyMemory):  # type: ignore[misc, name-defined]
    """Tells which memories are open, and can be slow."""

    open_now: int = 0
    delay = 0.0

    @classmethod
    def open(cls, *args: Any, **options: Any) -> Any:
        cls.open_now += 1
        made = super().open(*args, **options)
        made.faults = options["faults"]
        return made

    def retrieve(self, query: str, knobs: Knobs | None = None, cancel: Any = None, **options: Any) -> Any:
        import time

        end = time.monotonic() + self.delay
        while time.monotonic() < end and not (cancel is not None and cancel.is_set()):
            time.sleep(0.005)
        return super().retrieve(query, knobs, cancel, **options)

    def close(self) -> None:
        type(self).open_now -= 1
        super().close()


def counting() -> Any:
    return type("CountingHere", (Counting,), {})


async def test_switching_while_searching_and_quitting_with_a_fault_leaves_nothing_open(
    tmp_path: Path,
) -> None:
    kind = counting()
    app = Workbench(make.demo_memory(tmp_path, kind), initial_query=DRILL)
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        assert kind.open_now == 1
        kind.delay = 0.3
        for fault in (
            frozenset({"embeddings-401"}),
            frozenset({"no-fts5"}),
            frozenset(),
            frozenset({"zero-vector"}),
        ):
            lab(app).switch_faults(fault)
            await pilot.pause(0.02)
        await until(pilot, lambda: lab(app).search.view.answers)
        await settled(pilot)
        view = lab(app).search.view
        assert view.answers and view.pool_faults == {"zero-vector"} == app.service.faults
        assert view.baseline is not None and view.baseline.name == HEALTHY_RUN
        await until(pilot, lambda: kind.open_now == 2)
        assert kind.open_now == 2, "the healthy one and that with the fault"
        lab(app).query_line.value = "heron"
        await pilot.pause(0.1)
    assert kind.open_now == 0


async def test_a_fault_that_cannot_be_switched_on_changes_nothing(tmp_path: Path) -> None:
    good: Callable[[frozenset[str]], Memory] = make.demo_memory(tmp_path)

    def factory(faults: frozenset[str]) -> Memory:
        if faults:
            raise IndexLocked("The index is locked by another process.")
        return good(faults)

    app = Workbench(factory, initial_query=DRILL)
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        await switch(pilot, "no-fts5")
        screen = lab(app)
        assert not screen.query_one(Banner).display and screen.search.view.answers
        assert "could not be switched on" in screen.notes.text and "locked" in screen.notes.text


async def primary_states(service: Service) -> list[str]:
    links = await service.read(lambda memory: memory.chain(), answering=True)
    return [link.state for link in links if link.role == "primary"]


async def test_pools_of_the_two_memories_never_mix(tmp_path: Path) -> None:
    service = Service(make.demo_memory(tmp_path))
    await service.open()
    await service.sync(lambda done, total, label: None, SyncRequest())
    healthy = await service.retrieve(DRILL, Knobs())
    await service.set_faults(frozenset({"zero-vector"}))
    faulted = await service.retrieve(DRILL, Knobs())
    assert faulted is not healthy and faulted.first("vector") is None
    assert await service.retrieve(DRILL, Knobs(), healthy=True) is healthy
    assert await primary_states(service) == ["failed"]
    await service.set_faults(frozenset({"embeddings-429"}))
    assert (await service.retrieve(DRILL, Knobs())).fallback is not None
    assert await primary_states(service) == ["failed"]
    await asyncio.gather(service.set_faults(frozenset({"no-fts5"})), service.set_faults(frozenset()))
    assert service.faults == frozenset() and await service.retrieve(DRILL, Knobs()) is healthy
    assert await primary_states(service) == ["active"]
    with pytest.raises(Exception, match="There is no fault"):
        await service.set_faults(frozenset({"nope"}))
    assert service.faults == frozenset()
    await service.close()
    await service.close()


async def test_a_note_edited_under_a_fault_is_found(tmp_path: Path) -> None:
    app = world.workbench(
        tmp_path, own_notes=True, initial_query="zebra crossing", faults=frozenset({"embeddings-401"})
    )
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        note = tmp_path / "demo" / "workspace" / "memory" / "projects" / "lantern.md"
        note.write_text(note.read_text() + "\n- a zebra crossing was painted\n")
        await until(pilot, lambda: "lantern.md indexed" in lab(app).search.activity.said)
        await settled(pilot)
        view = lab(app).search.view
        assert view.pool_faults == {"embeddings-401"}
        assert "lantern.md" in lab(app).hits.text.splitlines()[1]


async def test_help_under_a_fault_keeps_the_banner_above_it(tmp_path: Path) -> None:
    app = world.workbench(tmp_path, initial_query="heron", faults=frozenset({"no-fts5"}))
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        await press(pilot, "question_mark")
        assert isinstance(app.screen, HelpScreen)
        assert app.screen.query_one("#help-rows").region.y > 0
