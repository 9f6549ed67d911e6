"""Errors, slow engines and hostile notes: a readable line each time, and the screen stays alive."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, get_args

import lab_world as world
import pytest
from lab_world import LARGE, SMALL, lab, make, press, settled, until

from openclaw_mem_engine.cancellation import CancelToken
from openclaw_mem_engine.errors import (
    Cancelled,
    IndexDamaged,
    IndexLocked,
    IndexUnavailable,
    PathRefused,
    ProviderError,
)
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.model import Excerpt, Fallback, Note
from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.pool import Pool
from openclaw_mem_engine.sync.report import SyncRequest
from openclaw_mem_tui.app import Workbench
from openclaw_mem_tui.service import Service, Subject
from openclaw_mem_tui.widgets.dialogs import HelpText, TextScreen

SAMPLES = (
    "\x1b[31mrouter in red\x1b[0m",
    "\x1b]8;;http://evil.example\x1b\\router link\x1b]8;;\x1b\\",
    "[bold red]router[/] [@click=app.bell]markup[/]",
    "router \u202edlrow\u202c bidi \u2066x\u2069",
    "router \x9b2J \x07 bell",
    "router zero\u200bwidth \ufeff",
)


def hostile_memory(root: Path) -> Memory:
    workspace = root / "hostile"
    notes = workspace / "memory"
    notes.mkdir(parents=True)
    (workspace / "MEMORY.md").write_text("# Memory\n\n" + "\n".join(SAMPLES) + "\n", encoding="utf-8")
    (notes / "long.md").write_text("router " + "x" * 1_000_000 + "\n", encoding="utf-8")
    (notes / "[red]name[b].md").write_text("router under an odd name\n", encoding="utf-8")
    (notes / "日本.md").write_text("router 日本語の長い行" + "東京都" * 60 + "\n", encoding="utf-8")
    return _open(root, workspace)


def _open(root: Path, workspace: Path, kind: type[Memory] = Memory) -> Memory:
    from openclaw_mem_engine.config.load import load_settings
    from openclaw_mem_engine.config.sources import UserFolders

    settings = load_settings(
        workspace=workspace,
        provider="static",
        environ={"OPENCLAW_MEM_HOME": str(root / "data")},
        home=root,
        cwd=root,
        folders=UserFolders(root / "data", root / "config"),
    )
    return kind.open(settings, resident=True)


@pytest.mark.parametrize("size", [LARGE, SMALL])
async def test_hostile_notes_are_inert(tmp_path: Path, size: tuple[int, int]) -> None:
    app = Workbench(lambda faults: hostile_memory(tmp_path), initial_query="router")
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        screen = lab(app)
        await pilot.press("p", "home", "escape")
        seen = ""
        for keys in (
            ["down"],
            ["enter"],
            ["m"],
            ["escape", "v"],
            ["down"],
            ["enter"],
            ["down"],
            ["m"],
            ["tab"],
        ):
            for key in keys:
                await pilot.press(key)
                await settled(pilot)
            seen += screen.preview.text + screen.hits.text + screen.waterfall.text
            svg = app.export_screenshot(simplify=True)
            for bad in ("\x1b", "\x9b", "\u202e", "\u200b", "\x07", "\x00"):
                assert bad not in svg
                assert bad not in seen
        assert "^[[31mrouter in red" in seen
        assert "[@click=app.bell]markup[/]" in seen.replace("\n", "")
        assert "[red]name[b].md" in seen
        assert "<U+202E>" in seen


class Scripted(make.SteadyMemory):  # type: ignore[misc, name-defined]
    """The real engine with one call that behaves as a test wants."""

    error: Exception | None = None
    get_error: Exception | None = None
    delay = 0.0
    pool_changes: ClassVar[dict[str, Any]] = {}
    calls = 0
    interrupted = threading.Event()

    def retrieve(
        self, query: str, knobs: Knobs | None = None, cancel: CancelToken | None = None, **options: Any
    ) -> Pool:
        type(self).calls += 1
        if self.error is not None:
            raise self.error
        end = time.monotonic() + self.delay
        while time.monotonic() < end:
            if cancel is not None and cancel.is_set():
                raise Cancelled("stopped")
            time.sleep(0.005)
        pool: Pool = super().retrieve(query, knobs, cancel, **options)
        return replace(pool, **self.pool_changes)

    def get(self, path: str, start: int | None = None, lines: int | None = None) -> Excerpt:
        if self.get_error is not None:
            raise self.get_error
        return super().get(path, start, lines)  # type: ignore[no-any-return]

    def interrupt(self) -> None:
        self.interrupted.set()
        super().interrupt()


def scripted(**attributes: object) -> type[Memory]:
    kind: type[Memory] = type("ScriptedHere", (Scripted,), {"interrupted": threading.Event(), **attributes})
    return kind


async def test_an_index_that_cannot_be_opened_is_said_and_can_be_tried_again(tmp_path: Path) -> None:
    broken = [True]

    def factory(faults: frozenset[str]) -> Memory:
        if broken[0]:
            raise IndexLocked("The index is locked by another process: close it, or wait.")
        memory: Memory = make.demo_memory(tmp_path)(faults)
        return memory

    app = Workbench(factory, initial_query="heron")
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        screen = lab(app)
        assert "index cannot be opened" in screen.hits.text
        await pilot.press("escape")
        await settled(pilot)
        assert "locked by another process" in screen.hits.text and not screen.notes.display
        assert "r tries again." in screen.hits.text and "cancelled" not in screen.hits.text
        broken[0] = False
        await pilot.press("r")
        await settled(pilot)
        assert "heron" in screen.preview.text
        assert not screen.notes.display


async def test_a_message_that_is_cut_says_so_and_a_key_opens_it(tmp_path: Path) -> None:
    path = "/home/someone" + "/a-long-folder" * 12
    error = IndexUnavailable(f"The index {path}/main.sqlite cannot be used. `openclaw-mem doctor` names why.")
    kind = scripted()
    app = Workbench(make.demo_memory(tmp_path, kind), initial_query="heron")
    async with app.run_test(size=SMALL) as pilot:
        await settled(pilot)
        kind.error = error  # type: ignore[attr-defined]
        await press(pilot, "i", *" gull")
        notes = lab(app).notes
        assert notes.text.rstrip().endswith("… esc then ! show all"), (
            "not silently, with the keys that work while typing"
        )
        assert len(notes.text.splitlines()) == notes.region.height
        for keys in (("escape", "exclamation_mark"), ("escape", "3", "exclamation_mark")):
            await press(pilot, *keys)
            assert isinstance(app.screen, TextScreen)
            assert not notes.text or notes.text.rstrip().endswith("… ! show all")
            opened = "".join(app.screen.query_one(HelpText).text.split())
            assert "✗conscreen3:" in opened
            assert f"{path}/main.sqlitecannotbeused.conscreen3nameswhy." in opened
        await press(pilot, "escape")
        assert not isinstance(app.screen, TextScreen)


async def test_why_the_index_cannot_be_opened_is_said_in_full_in_place_of_the_results(tmp_path: Path) -> None:
    path = "/home/someone" + "/a-long-folder" * 12
    error = IndexUnavailable(f"The index {path}/main.sqlite cannot be used. `openclaw-mem doctor` names why.")
    app = Workbench(world.failing(error))
    async with app.run_test(size=SMALL) as pilot:
        await settled(pilot)
        said = "".join(lab(app).hits.text.split())
        assert f"{path}/main.sqlitecannotbeused." in said and said.endswith("why.rtriesagain.")
        assert not lab(app).notes.text, "nor is it said twice"
        await press(pilot, "escape", "exclamation_mark")
        assert f"{path}/main.sqlitecannotbeused." in "".join(app.screen.query_one(HelpText).text.split())


async def test_a_failing_search_shows_no_other_answer_and_says_why(tmp_path: Path) -> None:
    kind = scripted()
    app = Workbench(make.demo_memory(tmp_path, kind), initial_query="heron")
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        screen = lab(app)
        for error in (ProviderError("The provider answered 401: check the key."), ValueError("a [defect]")):
            kind.error = error  # type: ignore[attr-defined]
            await press(pilot, "i", *" gull")
            assert str(error).split(":")[0] in screen.notes.text
            view = screen.search.view
            assert view.pending or view.trace is None, "the rows of another query are dimmed or gone"
            if view.error:
                assert "The search failed" in screen.hits.text and "memory/" not in screen.hits.text
                assert "memory/" not in screen.waterfall.text + screen.preview.text
            kind.error = None  # type: ignore[attr-defined]
            await press(pilot, "x")
            assert screen.search.view.answers and not screen.search.view.error


async def test_a_refused_read_is_shown(tmp_path: Path) -> None:
    kind = scripted(get_error=PathRefused("memory/x.md is a symbolic link: not read."))
    app = Workbench(make.demo_memory(tmp_path, kind), initial_query="heron")
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        await pilot.press("enter")
        await settled(pilot)
        assert "Refused. memory/x.md is a symbolic link" in lab(app).preview.text


async def test_a_slow_search_never_blocks_typing_and_can_be_cancelled(tmp_path: Path) -> None:
    kind = scripted()
    app = Workbench(make.demo_memory(tmp_path, kind), initial_query="heron")
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        screen = lab(app)
        kind.delay = 30.0  # type: ignore[attr-defined]
        start = time.monotonic()
        await pilot.press("i", *" router")
        await until(pilot, lambda: "searching" in screen.status_line.text and screen.hits.stale)
        assert time.monotonic() - start < 20, "less than the search takes"
        assert screen.query_line.value == "heron router"
        assert "searching" in screen.status_line.text
        assert screen.hits.stale
        await pilot.press("escape", "escape")
        await settled(pilot)
        assert "cancelled" in screen.notes.text
        assert kind.interrupted.wait(2)  # type: ignore[attr-defined]


async def test_fast_typing_asks_the_engine_once(tmp_path: Path) -> None:
    kind = scripted()
    app = Workbench(make.demo_memory(tmp_path, kind))
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        screen = lab(app)
        screen.query_line.value = "h"
        screen.query_line.value = "he"
        screen.query_line.value = "heron"
        await settled(pilot)
        assert screen.search.view.query == "heron" and kind.calls == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("subject", get_args(Subject))
async def test_damage_that_a_long_call_meets_is_reported(subject: Subject, tmp_path: Path) -> None:
    service, met = Service(make.demo_memory(tmp_path)), list[IndexDamaged]()
    service.on_damage = met.append
    await service.open()

    def work(memory: Memory, stop: threading.Event) -> None:
        raise IndexDamaged("malformed")

    with pytest.raises(IndexDamaged):
        await service.long(subject, work)
    assert [str(error) for error in met] == ["malformed"]
    assert await service.close()


async def test_history_and_knobs_answer_from_kept_pools(tmp_path: Path) -> None:
    kind = scripted()
    service = Service(make.demo_memory(tmp_path, kind))
    await service.open()
    await service.sync(lambda done, total, label: None, SyncRequest())
    first = await service.retrieve("heron", Knobs())
    assert await service.retrieve("heron", Knobs().set({"min_score": 0.9})) is first
    assert await service.retrieve("heron", Knobs().set({"lexical_form": "and"})) is not first
    await service.sync(lambda done, total, label: None, SyncRequest())
    assert await service.retrieve("heron", Knobs()) is not first
    await service.close()
    await service.close()


async def test_a_pool_from_before_a_sync_or_of_a_worse_service_is_not_kept(tmp_path: Path) -> None:
    kind = scripted(delay=0.2)
    service = Service(make.demo_memory(tmp_path, kind))
    await service.open()
    search = asyncio.ensure_future(service.retrieve("heron", Knobs()))
    await asyncio.sleep(0.05)
    service.forget_pools()
    old = await search
    kind.delay = 0.0  # type: ignore[attr-defined]
    assert await service.retrieve("heron", Knobs()) is not old
    for worse in (
        {"fallback": Fallback("openai", "HTTP 401")},
        {"notes": (Note("embedding-failed", "", "warning"),)},
    ):
        kind.pool_changes = worse  # type: ignore[attr-defined]
        got = await service.retrieve("gull", Knobs())
        assert await service.retrieve("gull", Knobs()) is not got
    await service.close()


async def test_degraded_service_has_its_line(tmp_path: Path) -> None:
    class Degraded(make.SteadyMemory):  # type: ignore[misc, name-defined]
        def retrieve(
            self, query: str, knobs: Knobs | None = None, cancel: CancelToken | None = None, **options: Any
        ) -> Pool:
            pool: Pool = super().retrieve(query, knobs, cancel, **options)
            note = Note("stale", "3 notes changed since the last sync: \x1b[31mx.md.", "warning")
            return replace(pool, fallback=Fallback("openai", "HTTP 401"), notes=(*pool.notes, note))

    app = Workbench(make.demo_memory(tmp_path, Degraded), initial_query="heron")
    async with app.run_test(size=SMALL) as pilot:
        await settled(pilot)
        drawn = " ".join(lab(app).notes.text.split())
        assert "BM25 only instead of openai" in drawn and "HTTP 401" in drawn
        assert "3 notes changed since the last sync: ^[[31mx.md." in drawn


async def test_a_query_without_vectors_says_so(tmp_path: Path) -> None:
    app = world.workbench(tmp_path, initial_query="防水ケースの納期は")
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        screen = lab(app)
        assert "BM25 only" in screen.notes.text and screen.notes.display
        assert "min score not applied" in screen.funnel.text


async def test_an_empty_workspace_says_what_would_count(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    app = Workbench(lambda faults: _open(tmp_path, tmp_path / "empty"))
    async with app.run_test(size=SMALL) as pilot:
        await settled(pilot)
        screen = lab(app)
        assert "no note to search yet" in screen.hits.text
        await pilot.resize_terminal(60, 20)
        await settled(pilot)
        assert "Write MEMORY.md or memory/*.md there." in " ".join(screen.hits.text.split())
        await pilot.press(*"heron", "enter")
        await settled(pilot)
        assert "There is no note to search." in screen.hits.text


async def test_a_note_that_vanished_can_neither_be_read_nor_edited(tmp_path: Path) -> None:
    app = world.workbench(tmp_path, own_notes=True, initial_query="restore drill")
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        screen = lab(app)
        screen.workers.cancel_group(screen, "watch")
        assert screen.hits.selected is not None
        (tmp_path / "demo" / "workspace" / screen.hits.selected.path).unlink()
        await pilot.press("enter")
        await settled(pilot)
        assert "is deleted" in screen.preview.text
        await pilot.press("e")
        await settled(pilot)
        said = screen.status_line.text
        assert " ✗ " in said and "is not a file in the workspace" in said


async def test_a_bad_theme_is_said_and_ours_is_used(tmp_path: Path) -> None:
    app = world.workbench(tmp_path, theme="no-such-theme")
    async with app.run_test(size=LARGE) as pilot:
        await pilot.pause()
        await settled(pilot)
        assert app.theme == "claw-dark" and "no-such-theme" in lab(app).notes.text


@pytest.mark.parametrize("theme", ["claw-light", "claw-contrast", "nord", "ansi-dark", "textual-light"])
async def test_themes_of_others_work_too(tmp_path: Path, theme: str) -> None:
    app = world.workbench(tmp_path, theme=theme, initial_query="heron")
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        assert app.theme == theme and "heron" in lab(app).preview.text
