"""Renders every screen of the workbench on the demo: ``uv run python screenshots/make.py [NAME ...]``.

Writes ``NAME.svg`` and ``NAME.png`` beside this file. Date, timings and paths are fixed, so that a second run
gives the same bytes. Tests draw many of the scenes again and compare the text with that of the pictures.
``textual.txt`` records the version of Textual that drew them.
"""

from __future__ import annotations

import asyncio
import datetime
import itertools
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("TEXTUAL_ANIMATIONS", "none")

import textual.app
import textual.pilot
from textual.pilot import Pilot

from openclaw_mem_engine.answer import Status
from openclaw_mem_engine.cancellation import CancelToken
from openclaw_mem_engine.demo import load_queries, write_demo
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.model import Progress
from openclaw_mem_engine.providers.factory import ProviderState
from openclaw_mem_engine.ranking import state as ranking_state
from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.pool import Pool
from openclaw_mem_engine.sync.report import DEFAULT_REQUEST, SyncReport, SyncRequest
from openclaw_mem_tui.app import Workbench
from openclaw_mem_tui.features.search.export import in_cells
from openclaw_mem_tui.features.search.lessons import Guide

if TYPE_CHECKING:
    from openclaw_mem_engine.inspection import Overview
    from openclaw_mem_engine.state.events import Event
    from openclaw_mem_engine.stores.findings import DoctorReport

HERE = Path(__file__).parent
TODAY = datetime.date(2026, 3, 31)
NOW = datetime.datetime(2026, 3, 31, 18, 0, tzinfo=datetime.UTC).timestamp()
#: How long before ``NOW`` the first sync is where files are changed after it, seconds.
SYNCED_BEFORE_S = 3600
#: The path that the screens show instead of a temporary folder.
SHOWN_WORKSPACE = "/home/ines/quillfern"
LARGE, SMALL = (120, 36), (80, 24)
#: Width of a character in the pictures.
CELL = 12.2
#: A screen that is not settled after so many seconds hangs; a loaded machine needs a few.
HANGS_S = 60.0
#: What a screen of Textual leaves to its next frame.
OUTSTANDING = (
    "layout_required",
    "scroll_required",
    "repaint_required",
    "recompose_required",
    "dirty_widgets",
    "callbacks",
)


@dataclass(frozen=True)
class Scene:
    """``keys`` are pressed one after the other, each after all workers have finished. ``demo`` shows the
    lessons; ``query`` is asked at the start, under ``faults``. ``disturbed``: before the first key, files are
    changed without being watched, and the index is damaged a little. ``snapshot``: the tests compare it."""

    name: str
    size: tuple[int, int]
    keys: tuple[str, ...] = ()
    demo: bool = False
    query: str = ""
    theme: str = "claw-dark"
    faults: frozenset[str] = frozenset()
    disturbed: bool = False
    snapshot: bool = False


DRILL = "how long did the last restore drill take"
VLAN = "VLAN numbers of studio and guest network"

SCENES: tuple[Scene, ...] = (
    Scene("lab", LARGE, ("down",), query=DRILL, snapshot=True),
    Scene("demo", LARGE, demo=True, snapshot=True),
    Scene("demo-small", SMALL, demo=True, snapshot=True),
    Scene("diversity", LARGE, ("right_square_bracket",) * 2, demo=True),
    Scene("knobs", LARGE, ("p", "left", "left", "left"), query=VLAN, snapshot=True),
    Scene("knobs-small", SMALL, ("p", "left", "left", "left"), query=VLAN, snapshot=True),
    Scene("get-small", SMALL, ("enter",), query="router vlan", snapshot=True),
    Scene("contributions", LARGE, ("v", "v", "enter"), query="why do the door signs keep a shadow"),
    Scene("empty", LARGE, ("right_square_bracket",), demo=True, snapshot=True),
    Scene("japanese", LARGE, ("right_square_bracket",) * 3, demo=True),
    Scene("lessons", LARGE, ("T",), demo=True),
    Scene("providers", LARGE, ("2",), demo=True, snapshot=True),
    Scene("providers-small", SMALL, ("2",), demo=True, snapshot=True),
    Scene("fault", LARGE, ("2", "tab", "space", "enter"), query=VLAN, snapshot=True),
    Scene("fault-small", SMALL, ("2", "tab", "space", "enter"), query=VLAN),
    Scene("fault-providers", LARGE, ("2", "tab", "space"), query=VLAN),
    Scene(
        "fault-providers-small",
        SMALL,
        ("2",),
        query=VLAN,
        faults=frozenset({"embeddings-401"}),
        snapshot=True,
    ),
    Scene("providers-help", LARGE, ("2", "question_mark"), query=VLAN, faults=frozenset({"no-fts5"})),
    Scene("index", LARGE, ("3", "tab"), query=VLAN, disturbed=True, snapshot=True),
    Scene("index-small", SMALL, ("3",), query=VLAN, disturbed=True, snapshot=True),
    Scene("index-doctor-small", SMALL, ("3", "tab"), query=VLAN, disturbed=True, snapshot=True),
    Scene("index-fresh", LARGE, ("3",), query=VLAN),
    Scene("chunks", LARGE, ("3", "enter", "down"), query=VLAN, snapshot=True),
    Scene("chunks-small", SMALL, ("3", "enter", "down"), query=VLAN, snapshot=True),
    Scene("rebuild", LARGE, ("3", "R"), query=VLAN),
    Scene("index-help", LARGE, ("3", "question_mark"), query=VLAN),
    Scene("timeline", LARGE, ("4", *"jjjjj"), query=VLAN, snapshot=True),
    Scene("timeline-small", SMALL, ("4",), query=VLAN, snapshot=True),
    Scene("timeline-missed", LARGE, ("4", "v", "m"), query=VLAN),
    Scene("curate", LARGE, ("5", "j"), query=VLAN, snapshot=True),
    Scene("curate-small", SMALL, ("5",), query=VLAN, snapshot=True),
    Scene("curate-notes", LARGE, ("5", "tab"), query=VLAN),
    Scene("remember", LARGE, ("M", *"Ines prefers calls after ten"), query=VLAN),
    Scene("why-not", LARGE, ("down", "down", "full_stop", "w"), query=DRILL, snapshot=True),
    Scene("why-not-small", SMALL, ("W", *"MEMORY.md:26", "enter"), query=VLAN, snapshot=True),
    Scene("expected", LARGE, ("down", "full_stop", "p", "right"), query=DRILL, snapshot=True),
    Scene("backend", LARGE, ("o",), query=DRILL, snapshot=True),
    Scene("backend-small", SMALL, ("o", "down"), query=DRILL, snapshot=True),
    Scene("help", LARGE, ("question_mark",), query="router vlan", snapshot=True),
    Scene("light", LARGE, ("right_square_bracket",) * 9, demo=True, theme="claw-light"),
    Scene("contrast", LARGE, ("right_square_bracket",) * 9, demo=True, theme="claw-contrast"),
)


class Clock:
    """``NOW``; where it is not synced, until the first sync is over, a time before that."""

    is_synced = True

    def __call__(self) -> float:
        return NOW if self.is_synced else NOW - SYNCED_BEFORE_S


class SteadyMemory(Memory):
    """The real engine with fixed timings and a fixed path, so that pictures do not differ from run to run."""

    clock = Clock()

    def retrieve(
        self, query: str, knobs: Knobs | None = None, cancel: CancelToken | None = None, **options: Any
    ) -> Pool:
        pool = super().retrieve(query, knobs, cancel, **options)
        lists = tuple(replace(found, milliseconds=0.4 if found.words else 0.3) for found in pool.lists)
        fixed = {"embed": 0.2, "vector": 0.3, "BM25": 0.4, "lines": 0.1, "rerank": 0.5, "expand": 0.1}
        timings = {name: fixed[name] for name in pool.timings}
        return replace(pool, lists=lists, timings=timings)

    def sync(
        self,
        request: SyncRequest = DEFAULT_REQUEST,
        progress: Progress | None = None,
        cancel: CancelToken | None = None,
    ) -> SyncReport:
        report = super().sync(request, progress, cancel)
        report.seconds = 0.2
        self.clock.is_synced = True
        return report

    def chain(self) -> tuple[ProviderState, ...]:
        return tuple(
            replace(link, last_ms=0.3 if link.last_ms is not None else None) for link in super().chain()
        )

    def status(self) -> Status:
        return replace(super().status(), workspace=SHOWN_WORKSPACE)

    def overview(self) -> Overview:
        shown = Path("/home/ines/.local/share/openclaw-mem/indexes/quillfern/main.sqlite")
        seen = super().overview()
        stale = NOW - 60 if seen.freshness.stale_since is not None else None
        fresh = replace(seen.freshness, stale_since=stale)
        return replace(
            seen, location=str(shown), bytes=seen.bytes and 1_700_000, log_bytes=0, freshness=fresh
        )

    def events(self, limit: int) -> list[Event]:
        return [replace(event, seconds=0.2) for event in super().events(limit)]

    def examine(
        self, progress: Progress | None = None, cancel: CancelToken | None = None, *, deep: bool = False
    ) -> DoctorReport:
        report = super().examine(progress, cancel, deep=deep)
        varying = {"sqlite": "SQLite 3.54.1", "size": "index 1.7 MB", "permissions": "12 files and folders"}
        varying |= {"writing": "12 files and folders can be written; 82 GB free"}
        checks = (replace(check, detail=varying.get(check.name, check.detail)) for check in report.checks)
        return replace(report, checks=tuple(checks))


def demo_memory(
    root: Path, kind: type[Memory] = SteadyMemory, *, watch: bool = True, notes: Path | None = None
) -> Callable[[frozenset[str]], Memory]:
    """A factory for a memory over the demo in the folder ``notes`` (None: written into ``root``), at the
    frozen date."""
    written = notes or root / "demo"
    clock = Clock()
    clock.is_synced = watch or not issubclass(kind, SteadyMemory)

    def factory(faults: frozenset[str] = frozenset()) -> Memory:
        from openclaw_mem_engine.cli.demo import demo_settings

        # Written once: a second memory, with faults, must not look like an edit to the watcher.
        workspace = written / "workspace"
        if not workspace.exists():
            write_demo(written, TODAY)
        settings = demo_settings(workspace, root / "data")
        settings = replace(settings, sync=replace(settings.sync, watch=watch))
        memory = kind.open(settings, clock=clock, resident=True, faults=faults)
        if isinstance(memory, SteadyMemory):
            memory.clock = clock
        return memory

    return factory


def disturb(root: Path) -> None:
    """What an agent, an editor and a bad disk may do while the notes are not watched."""
    import apsw

    notes = root / "demo" / "workspace"
    memory = notes / "MEMORY.md"
    memory.write_text(memory.read_text() + "- The kiosk printer moved to 10.40.120.7 today.\n")
    (notes / "memory" / "2026-03-31.md").write_text("# 2026-03-31\n\n- Kiosk printer: new address.\n")
    (notes / "memory" / "2025-08-04.md").unlink()
    (notes / "memory" / "shared.md").symlink_to(memory)
    for changed in (memory, notes / "memory" / "2026-03-31.md"):
        os.utime(changed, (NOW - 60, NOW - 60))
    index = next((root / "data").glob("indexes/*/main.sqlite"))
    with apsw.Connection(str(index)) as connection:
        connection.execute("DELETE FROM chunks_fts_stemmed WHERE rowid IN (3, 4)")


def demo_guide() -> Guide:
    return load_queries(0).suggested


async def until(_: Pilot[int], is_so: Callable[[], object]) -> None:
    """Wait for a state of the screen. Raises TimeoutError when it does not come within ``HANGS_S``."""
    async with asyncio.timeout(HANGS_S):
        await drained()
        while not is_so():
            await asyncio.sleep(0.005)
            await drained()


async def drained(*_: object) -> None:
    """Wait until the event loop has nothing left to run: what is outstanding waits for a thread, a file or a
    timer. All messages between widgets have been handled then, at a fraction of the cost of asking each."""
    ready = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]
    await asyncio.sleep(0)
    while ready:
        await asyncio.sleep(0)


# A pilot waits for a moment in which the process computes little, and sends a message to every widget and
# back, several times a key: more CPU time than most keys take.
textual.pilot.wait_for_idle = textual.app.wait_for_idle = drained  # type: ignore[attr-defined]
Pilot._wait_for_screen = drained  # type: ignore[assignment, method-assign]


async def settled(pilot: Pilot[int]) -> None:
    """Wait until no worker runs except the one that watches the files, that one has nothing to do, and what
    they changed is laid out."""
    app = pilot.app
    search = app.search  # type: ignore[attr-defined]

    def is_settled() -> bool:
        done = all(worker.is_finished or worker.group == "watch" for worker in app.workers)
        following = search.sync.follows or search.activity.phase == "failed"
        # Textual waits for a moment before it takes a new size.
        return done and following and not search.activity.busy and app._resize_event is None

    async with asyncio.timeout(HANGS_S):
        await until(pilot, is_settled)
        while any(getattr(app.screen, f"_{what}") for what in OUTSTANDING):
            app.screen._on_timer_update()
            await until(pilot, is_settled)


@contextmanager
def at_greenwich() -> Iterator[None]:
    """Local times do not depend on the machine."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = "UTC"
    time.tzset()
    try:
        yield
    finally:
        if before is None:
            del os.environ["TZ"]
        else:
            os.environ["TZ"] = before
        time.tzset()


async def render(scene: Scene, root: Path) -> str:
    """One scene as SVG, with a font that is installed instead of a link to one."""
    with at_greenwich():
        return await _render(scene, root)


async def _render(scene: Scene, root: Path) -> str:
    ticks = itertools.count()

    def clock() -> float:
        return next(ticks) * 0.0001

    ranking_state.perf_counter = clock  # type: ignore[attr-defined]
    app = Workbench(
        demo_memory(root, watch=not scene.disturbed),
        demo=demo_guide() if scene.demo else None,
        initial_query=scene.query,
        theme=scene.theme,
        faults=scene.faults,
        clock=lambda: NOW,
    )
    async with app.run_test(size=scene.size) as pilot:
        await settled(pilot)
        if scene.disturbed:
            disturb(root)
        for key in scene.keys:
            await pilot.press(key)
            await settled(pilot)
        return portable(in_cells(app.export_screenshot(title="openclaw-mem", simplify=True)))


def portable(svg: str) -> str:
    """No link to a font on the net; a stack that begins with installed ones; names that do not change."""
    svg = re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.DOTALL)
    svg = re.sub(r"font-family: [^;]+;", "font-family: 'DejaVu Sans Mono', monospace;", svg)
    svg = re.sub(r'font-family="[^"]+"', "font-family=\"'DejaVu Sans Mono', monospace\"", svg)
    svg = re.sub(r"terminal-\d+", "terminal", svg)
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"


def text_of(svg: str) -> list[str]:
    """The characters of a screenshot, row by row, each in its column (what the tests compare)."""
    import html

    from rich.cells import cell_len

    rows: dict[float, list[tuple[float, str]]] = {}
    pattern = r'<text class="[^"]*-r\d+" [^>]*?x="([\d.]+)" y="([\d.]+)"[^>]*>(.*?)</text>'
    for x, y, text in re.findall(pattern, svg):
        rows.setdefault(float(y), []).append((float(x), html.unescape(text).replace("\xa0", " ")))
    made = []
    for _, parts in sorted(rows.items()):
        row = ""
        for x, text in sorted(parts):
            row += " " * (round(x / CELL) - cell_len(row)) + text
        made.append(row.rstrip())
    return made


def as_png(svg: str) -> bytes:
    """With a font of a package for the characters that the fonts of this machine lack."""
    import resvg_py
    from noto_cjk_sans_jp_regular import FONT_PATH

    text = svg.replace("'DejaVu Sans Mono', monospace", "DejaVu Sans Mono")
    return bytes(resvg_py.svg_to_bytes(svg_string=text, font_files=[str(FONT_PATH)]))


def main(names: list[str]) -> int:
    known = {scene.name: scene for scene in SCENES}
    for name in names or list(known):
        if name not in known:
            print(f"There is no scene {name!r}: {', '.join(known)}.", file=sys.stderr)
            return 2
        with tempfile.TemporaryDirectory(prefix="openclaw-mem-screens-") as folder:
            svg = asyncio.run(render(known[name], Path(folder)))
        (HERE / f"{name}.svg").write_text(svg, encoding="utf-8", newline="\n")
        (HERE / f"{name}.png").write_bytes(as_png(svg))
        print(name)
    (HERE / "textual.txt").write_text(textual.__version__ + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
