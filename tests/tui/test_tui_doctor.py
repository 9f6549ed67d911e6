"""The doctor on the index screen."""

from __future__ import annotations

import time
from pathlib import Path

import apsw
import pytest
from lab_world import lab, make, press, settled, until
from test_tui_index import notes, opened, shown, unwatched

from openclaw_mem_engine.cancellation import CancelToken
from openclaw_mem_engine.errors import IndexUnavailable
from openclaw_mem_engine.model import Progress
from openclaw_mem_engine.stores.findings import DoctorReport, Finding
from openclaw_mem_engine.sync.report import DEFAULT_REQUEST, SyncReport, SyncRequest
from openclaw_mem_tui.features.index import presenter
from openclaw_mem_tui.features.index.chunks_screen import ChunksScreen
from openclaw_mem_tui.features.index.render import doctor
from openclaw_mem_tui.render.spans import text_of
from openclaw_mem_tui.widgets.dialogs import ConfirmScreen, HelpText
from openclaw_mem_tui.widgets.edges import KeyBar


async def test_damage_is_found_shown_and_mended_after_a_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presenter, "QUICK_S", 1e-9)  # the checks are slow, as those of a large index
    async with opened(unwatched(tmp_path)) as (pilot, screen):
        index = next((tmp_path / "data").glob("indexes/*/main.sqlite"))
        with apsw.Connection(str(index)) as connection:
            connection.execute("DELETE FROM chunks_fts_stemmed WHERE rowid < 10")
        await press(pilot, "c")
        assert "error" in str(screen.doctor.border_title)
        await press(pilot, "tab")
        drawn = " ".join(screen.detail.text.split())
        listed = " ".join(screen.doctor.text.split())
        assert "9 chunks are missing from the BM25 index: no keyword finds them" in listed
        assert (
            "✗ error" in drawn
            and "repair F builds a new index; notes are not changed" in drawn
            and "full-text-missing" in drawn
            and "9 chunks are missing from the BM25 index: no keyword finds them" not in drawn
            and "openclaw-mem doctor --fix" in drawn
        )
        await press(pilot, "F")
        assert isinstance(pilot.app.screen, ConfirmScreen)
        plan = " ".join(pilot.app.screen.query_one("Pane").text.split())  # type: ignore[attr-defined]
        assert "A new one will be built from your notes, which are not changed" in plan
        assert "9 chunks are missing from the BM25 index" in plan and "102 embeddings can be read" in plan
        assert "All 102" in plan and "Texts without one" not in plan, "there is none"
        await press(pilot, "escape")
        assert "error" in str(screen.doctor.border_title), "nothing is mended without a yes"
        await press(pilot, "tab", "tab", "enter")
        chunks = pilot.app.screen
        assert isinstance(chunks, ChunksScreen) and "✗ no" in chunks.pieces.text
        assert "BM25 0 of 7 · vector 7 of 7" in chunks.query_one("#status").text
        await press(pilot, "escape", "F", "enter")
        assert "doctor · [$warning]3 warnings" in str(screen.doctor.border_title)
        assert "repaired: 102 embeddings reused, 0 made; main.sqlite.damaged is kept" in shown(
            screen, "#status"
        )
        assert "rebuild" in screen.events.text.splitlines()[0] and "new or modified" not in screen.events.text
        await press(pilot, "F")
        assert "F repairs none of these findings; enter opens one" in shown(screen, "#status")
        assert screen.doctor.has_focus, "the warnings"


async def test_after_a_repair_nothing_is_said_of_the_index_before(tmp_path: Path) -> None:
    async with opened(unwatched(tmp_path)) as (pilot, screen):
        index = next((tmp_path / "data").glob("indexes/*/main.sqlite"))
        with apsw.Connection(str(index)) as connection:
            connection.execute("UPDATE chunks SET text = text || ' x' WHERE seq = 1")
        await press(pilot, "C")
        assert "error" in str(screen.doctor.border_title) and "deep" in str(screen.doctor.border_title)
        assert "up to date" not in screen.files.text and "F repairs" in shown(screen, "#facts")
        await press(pilot, "1")
        bottom = lab(pilot.app).status_line.text  # type: ignore[arg-type]
        assert "screen 3: " in bottom and "error" in bottom
        assert "F repair" in pilot.app.screen.query_one(KeyBar).text
        await press(pilot, "F", "enter")
        assert pilot.app.screen is screen
        await until(pilot, lambda: "repaired:" in shown(screen, "#status"))
        await until(pilot, lambda: "error" not in str(screen.doctor.border_title))
        assert "● up to date" in screen.files.text and "fresh" in shown(screen, "#facts")
        assert "F repair" not in screen.query_one(KeyBar).text


async def test_what_another_program_writes_is_found_by_the_checks_without_a_key(tmp_path: Path) -> None:
    async with opened(unwatched(tmp_path)) as (pilot, screen):
        index = next((tmp_path / "data").glob("indexes/*/main.sqlite"))
        assert screen.presenter.state.report is not None and "fresh" in shown(screen, "#facts")
        with index.open("r+b") as file:
            file.seek(32_768)
            file.write(b"\xa5" * (index.stat().st_size - 32_768))
        await until(pilot, lambda: screen.search.activity.damage is not None)
        await until(pilot, lambda: "? not known" in screen.files.text)
        assert "damaged (F repairs)" in shown(screen, "#facts") and "fresh" not in shown(screen, "#facts")
        assert "the text" in (said := " ".join(screen.detail.text.split())) and "in the text" not in said
        await press(pilot, "enter")
        chunks = pilot.app.screen
        assert isinstance(chunks, ChunksScreen) and "? not known" in str(chunks.pieces.border_title)
        assert chunks.text.text.strip(), "the text needs no index"


async def test_a_repair_that_drops_vectors_is_followed_by_a_sync_that_makes_them(tmp_path: Path) -> None:
    async with opened(unwatched(tmp_path)) as (pilot, screen):
        index = next((tmp_path / "data").glob("indexes/*/main.sqlite"))
        with apsw.Connection(str(index)) as connection:
            connection.execute("UPDATE embedding_cache SET embedding = zeroblob(4) WHERE id < 5")
        await press(pilot, "c", "F", "enter")
        assert "repaired: 98 embeddings reused, 4 made" in shown(screen, "#status")
        assert "fresh" in shown(screen, "#facts") and "without vector" not in shown(screen, "#facts")
        with apsw.Connection(str(index)) as connection:
            connection.execute("DELETE FROM embedding_cache WHERE id < 7")
        await press(pilot, "c")
        await until(pilot, lambda: "partial" in shown(screen, "#facts"))
        facts = shown(screen, "#facts")
        assert "chunks without vector (r embeds)" in facts and "fresh" not in facts
        down = Finding("vectors-awaited", "warning", "6 chunks have no vector yet. It does not answer.")
        screen.presenter.update(report=DoctorReport((down,), ()))
        await settled(pilot)
        assert "(r embeds, once the provider answers)" in shown(screen, "#facts")
        await press(pilot, "r")
        await until(pilot, lambda: "fresh" in shown(screen, "#facts"))
        assert "vectors made" in shown(screen, "#status")


async def test_an_index_that_is_removed_meanwhile_is_none_until_a_sync(tmp_path: Path) -> None:
    async with opened(unwatched(tmp_path)) as (pilot, screen):
        index = next((tmp_path / "data").glob("indexes/*/main.sqlite"))
        await press(pilot, "c")
        for part in index.parent.glob("main.sqlite*"):
            part.unlink()
        await until(pilot, lambda: "state    no index: r builds" in shown(screen, "#facts"))
        facts = shown(screen, "#facts")
        assert "fresh" not in facts and "holds    nothing" in facts and "built    not yet" in facts
        assert " KB" not in facts and " MB" not in facts and "synced" not in facts
        fresh = screen.search.activity.freshness
        assert fresh is not None and fresh.state == "empty", "the other screens say so too"
        await press(pilot, "c")
        assert "no index yet" in " ".join(screen.doctor.text.split())
        assert "no index" in (title := str(screen.doctor.border_title)) and "healthy" not in title
        assert "not indexed" in screen.files.text and "up to date" not in screen.files.text
        await press(pilot, "F")
        await until(pilot, lambda: isinstance(pilot.app.screen, ConfirmScreen))
        plan = " ".join(pilot.app.screen.query_one("Pane").text.split())  # type: ignore[attr-defined]
        assert "Every file is read again." in plan and "to embed" in plan and not index.exists()
        await press(pilot, "enter")
        await until(pilot, lambda: "fresh" in shown(screen, "#facts") and index.exists())
        await until(pilot, lambda: "no index yet" not in screen.doctor.text)


async def test_files_are_not_known_while_a_folder_is_at_the_path_of_the_index(tmp_path: Path) -> None:
    async with opened(unwatched(tmp_path)) as (pilot, screen):
        index = next((tmp_path / "data").glob("indexes/*/main.sqlite"))
        assert "● up to date" in screen.files.text
        aside = index.rename(index.with_name("aside"))
        index.mkdir()
        await until(pilot, lambda: "? not known" in screen.files.text)
        screen.presenter.update(at=0.0)
        await press(pilot, "r")
        assert screen.presenter.state.at, "the events are of today also where the index cannot be read"
        failed = [row for row in screen.events.text.splitlines() if "sync failed" in row]
        assert failed and all("✗" in row and "●" not in row for row in failed)
        with pytest.raises(IndexUnavailable, match="is a folder"):
            await screen.search.service.read(lambda memory: memory.anatomy("MEMORY.md"))
        await press(pilot, "c")
        assert "up to date" not in screen.files.text and "matches disk" not in screen.detail.text
        keys = screen.query_one(KeyBar).text
        assert "R rebuild" not in keys and "V verify" not in keys and "r try again" in keys, (
            "those need an index"
        )
        facts = shown(screen, "#facts")
        assert "what can be read is not known" in facts and "vectors" not in facts and "fresh" not in facts
        await press(pilot, "exclamation_mark")
        assert "! shows why" in facts and "is a folder" in pilot.app.screen.query_one(HelpText).text
        await press(pilot, "escape")
        assert "✗ The path of the index is a folder" in screen.doctor.text
        screen.presenter.update(overview=None, files=())  # as where the screen is opened only now
        await press(pilot, "c")
        assert "is a folder, not an index: move it away" in " ".join(shown(screen, "#facts").split())
        assert "? not known" in str(screen.query_one("#files").border_title)
        why = "Files not known: the index cannot be read; r tries again"
        assert why in text_of(screen.files.line_at(-1)[0]) and why not in shown(screen, "#detail")
        for key, said in (("R", "the index cannot be read: r tries again"), ("enter", "no row is selected")):
            await press(pilot, key)
            assert said in shown(screen, "#status")
        index.rmdir()
        aside.rename(index)
        await press(pilot, "r")
        await until(pilot, lambda: "● up to date" in screen.files.text)
        assert "r sync" in screen.query_one(KeyBar).text


async def test_esc_stops_what_runs_and_then_leaves(tmp_path: Path) -> None:
    class Slow(make.SteadyMemory):  # type: ignore[misc, name-defined]
        held = False

        def sync(
            self,
            request: SyncRequest = DEFAULT_REQUEST,
            progress: Progress | None = None,
            cancel: CancelToken | None = None,
        ) -> SyncReport:
            end = time.monotonic() + make.HANGS_S
            while type(self).held and time.monotonic() < end:
                if progress is not None:
                    progress(3, 12, "memory/x.md")
                if cancel is not None and cancel.is_set():
                    break
                time.sleep(0.005)
            report: SyncReport = super().sync(request, progress, cancel)
            return report

    async with opened(unwatched(tmp_path, Slow)) as (pilot, screen):
        Slow.held = True
        (notes(tmp_path) / "MEMORY.md").write_text("Other.\n")
        await pilot.press("r")
        await until(pilot, lambda: "sync 3 of 12" in shown(screen, "#status"))
        status = shown(screen, "#status")
        assert "sync 3 of 12" in status and "esc stops" in status
        await pilot.press("c")
        await pilot.pause(0.05)
        assert "esc stops" in shown(screen, "#status"), "the doctor waits for no sync, and does not join in"
        await press(pilot, "escape")
        assert "Indexing was stopped; the index holds" in shown(screen, "#status")
        Slow.held = False
        assert pilot.app.screen is screen
        await press(pilot, "escape")
        assert pilot.app.screen is lab(pilot.app)  # type: ignore[arg-type]


def test_what_is_never_shown_has_a_key_and_a_reason_is_short() -> None:
    text = "28% of your notes' text can never appear in a search result. Why."
    (row,) = doctor.item_rows(Finding("unshown", "warning", text, ("a.md: 3%",), ""), 90, False)
    assert text_of(row).endswith("a search result.  enter\xa0open")
    why = ("a.md: is a link; links are not followed",)
    link = Finding("files-excluded", "info", "1 file is excluded.", why)
    (row,) = doctor.item_rows(link, 90, False)
    assert text_of(row).endswith("1 file is excluded: a.md (a link)")


def test_a_path_that_is_too_long_for_a_row_is_cut_and_not_left_out() -> None:
    path = "/tmp/home/data/indexes/workspace-0123456789abcdef/main.sqlite"
    found = Finding("no-index", "info", "There is no index yet.", (path,), "openclaw-mem index")
    for cells in range(30, 60):
        first, second = [text_of(row) for row in doctor.item_rows(found, cells, False)]
        assert first.startswith("  i There is no index yet:") and "/tmp/home/" in second and "…" in second
