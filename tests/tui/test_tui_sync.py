"""Syncs that meet, are stopped, fail or have something to remark: the edges of the screen stay true."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lab_world import LARGE, first_index, lab, make, press, settled, until

from openclaw_mem_engine.cancellation import CancelToken
from openclaw_mem_engine.errors import Cancelled, ProviderError
from openclaw_mem_engine.model import Note, Progress
from openclaw_mem_engine.ranking.pool import Pool
from openclaw_mem_engine.stores.findings import DoctorReport, Finding
from openclaw_mem_engine.stores.sqlite.chunks import all_chunks
from openclaw_mem_engine.sync.report import DEFAULT_REQUEST, SyncReport, SyncRequest
from openclaw_mem_tui.app import Workbench
from support.embed_server import hang, running_server
from support.providers import make_world


class SlowSync(make.SteadyMemory):  # type: ignore[misc, name-defined]
    """Counts its syncs; each waits until it is cancelled or let go."""

    def sync(
        self,
        request: SyncRequest = DEFAULT_REQUEST,
        progress: Progress | None = None,
        cancel: CancelToken | None = None,
    ) -> SyncReport:
        type(self).syncs += 1
        end = time.monotonic() + make.HANGS_S
        while self.held and time.monotonic() < end:
            if cancel is not None and cancel.is_set():
                assert type(self).may_stop.wait(make.HANGS_S)  # an engine that needs a moment to stop
                raise Cancelled("Indexing was stopped.")
            time.sleep(0.005)
        if self.failure is not None:
            raise self.failure
        report: SyncReport = super().sync(request, progress, cancel)
        report.notes.extend(self.notes)
        return report


def slow_sync(**attributes: object) -> Any:
    base = {"syncs": 0, "held": False, "failure": None, "notes": (), "may_stop": threading.Event()}
    made = type("SlowSyncHere", (SlowSync,), {**base, **attributes})
    made.may_stop.set()  # type: ignore[attr-defined]
    return made


async def test_syncs_that_meet_run_once_more_and_esc_stops_them_all(tmp_path: Path) -> None:
    kind = slow_sync()
    app = Workbench(make.demo_memory(tmp_path, kind), initial_query="heron")
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        screen, before = lab(app), kind.syncs
        kind.held = True
        await pilot.press("r", "r", "r")
        await until(pilot, lambda: kind.syncs > before)
        assert kind.syncs == before + 1
        kind.held = False
        await settled(pilot)
        assert kind.syncs == before + 2 and screen.search.activity.phase == "ready"
        kind.held = True
        kind.may_stop.clear()
        await pilot.press("r", "r")
        await until(pilot, lambda: kind.syncs > before + 2)
        await pilot.press("escape")
        await pilot.pause(0.05)
        assert screen.search.activity.phase == "syncing"
        kind.may_stop.set()
        await settled(pilot)
        assert kind.syncs == before + 3 and screen.search.activity.phase == "ready"
        assert "Indexing was stopped." in screen.status_line.text


async def test_a_query_waits_for_the_first_index(tmp_path: Path) -> None:
    answered: list[Pool] = []

    class Counting(slow_sync(held=True)):  # type: ignore[misc]
        def retrieve(self, *args: Any, **options: Any) -> Pool:
            pool: Pool = super().retrieve(*args, **options)
            answered.append(pool)
            return pool

    app = Workbench(first_index(tmp_path, Counting), initial_query="heron")
    async with app.run_test(size=LARGE) as pilot:
        await until(pilot, lambda: answered and not lab(app).search.activity.searching)
        screen = lab(app)
        assert answered[-1].freshness is not None and answered[-1].freshness.state == "empty"
        assert screen.search.view.pending and screen.search.view.trace is None
        assert "Building the index; then this query is answered." in screen.hits.text
        assert not screen.notes.display, "no warning of what is being repaired"
        await pilot.press("escape")
        assert screen.search.view.error == "Search cancelled.", "there are no rows below"
        Counting.held = False
        await settled(pilot)
        assert "heron" in screen.preview.text and not screen.notes.display


async def test_after_a_stopped_or_failed_sync_the_footer_is_true(tmp_path: Path) -> None:
    kind = slow_sync()
    app = Workbench(make.demo_memory(tmp_path, kind, own_notes=True), initial_query="heron")
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        screen = lab(app)
        screen.workers.cancel_group(screen, "watch")
        (tmp_path / "demo" / "workspace" / "memory" / "extra.md").write_text("a heron\n")
        kind.held = True
        syncs = kind.syncs
        await pilot.press("r")
        await until(pilot, lambda: kind.syncs > syncs)
        await pilot.press("escape")
        await settled(pilot)
        assert "stale" in screen.status_line.text
        kind.held, kind.failure = False, ProviderError("The provider answered 500.")
        await pilot.press("r")
        await settled(pilot)
        assert "stale" in screen.status_line.text and "answered 500" in screen.notes.text
        assert screen.status_line.text.startswith(" ✗ the sync failed")
        # What the doctor found then lets no sync run: one that runs has ended it.
        unwritable = Finding("not-writable", "error", "This user cannot write.")
        screen.search.sync.take_report(DoctorReport((unwritable,), (), False))
        assert screen.search.activity.errors == 1
        kind.failure = None
        await pilot.press("r")
        await settled(pilot)
        assert not screen.search.activity.errors and "✗" not in screen.status_line.text


def screen_says(app: Workbench) -> str:
    """The message of the status line, without the state of the index."""
    return lab(app).status_line.text.strip().split("   ")[0]


async def test_what_a_sync_remarks_is_shown(tmp_path: Path) -> None:
    remarks = (
        Note("embedding-failed", "No vectors for 3 chunks.", "warning"),
        Note("rebuilt", "Settings changed (model): the index was rebuilt."),
    )
    app = Workbench(make.demo_memory(tmp_path, slow_sync(notes=remarks)), initial_query="heron")
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        drawn = lab(app).notes.text
        assert "! No vectors for 3 chunks." in drawn and "the index was rebuilt" in drawn
        await press(pilot, "r")
        assert screen_says(app) == "✗ vectors are missing", "and not that it is up to date"


async def test_rows_that_a_knob_needs_are_not_begun_anew_by_typing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = list[str](), threading.Event()

    def held(connection: Any) -> Iterator[Any]:
        begun.append("rows")
        assert go_on.wait(make.HANGS_S)
        yield from all_chunks(connection)

    monkeypatch.setattr("openclaw_mem_engine.stores.sqlite.store.all_chunks", held)
    app = Workbench(make.demo_memory(tmp_path, make.SteadyMemory), initial_query="heron")
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        screen = lab(app)
        screen.tune(screen.search.view.knobs.set({"lexical_index": "plain", "name_weight": 0.0}))
        await until(pilot, lambda: begun)
        screen.query_line.value = "heron pond"
        await pilot.pause(0.1)
        go_on.set()
        await settled(pilot)
        await until(pilot, lambda: screen.search.view.query == "heron pond")
        await until(pilot, lambda: screen.search.view.trace and not screen.search.view.pending)
        assert begun == ["rows"]


async def test_a_query_is_answered_while_a_first_index_waits_for_its_provider(tmp_path: Path) -> None:
    remote = make_world(tmp_path)
    with running_server(forever=hang(60)) as server:
        remote.use(server)
        app = Workbench(lambda faults: remote.memory(faults, resident=True), initial_query="bicycle")
        async with app.run_test(size=LARGE) as pilot:
            await until(pilot, lambda: lab(app).search.view.answers)
            screen = lab(app)
            assert screen.search.activity.phase == "syncing" and "bicycle" in screen.preview.text
            await until(pilot, lambda: "sync  waiting for 127.0.0.1:" in screen.status_line.text)
            assert " s " in screen.status_line.text and "4 files" in screen.status_line.text
            await pilot.press("escape")
            await until(pilot, lambda: screen.search.activity.phase == "ready")
            assert "Indexing was stopped; the index holds 4 files" in screen.status_line.text
