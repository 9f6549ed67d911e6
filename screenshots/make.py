"""Renders every screen of the workbench on the demo: ``uv run python screenshots/make.py [NAME ...]``.

Writes ``NAME.svg`` and ``NAME.png`` beside this file. Date, timings and paths are fixed, so that a second run
gives the same bytes; the tests compare a few scenes with the committed files. ``textual.txt`` records the
version of Textual that drew them.
"""

from __future__ import annotations

import asyncio
import datetime
import itertools
import os
import re
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

os.environ.setdefault("TEXTUAL_ANIMATIONS", "none")

from openclaw_mem_engine.demo import load_queries, write_demo
from openclaw_mem_engine.memory import Memory, Status
from openclaw_mem_engine.model import CancelToken, Progress
from openclaw_mem_engine.ranking import cuts, rank
from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.pool import Pool
from openclaw_mem_engine.sync.indexer import SyncReport
from openclaw_mem_tui.app import Workbench
from openclaw_mem_tui.guide import DemoGuide

if TYPE_CHECKING:
    from textual.pilot import Pilot

HERE = Path(__file__).parent
TODAY = datetime.date(2026, 3, 31)
NOW = datetime.datetime(2026, 3, 31, 18, 0, tzinfo=datetime.UTC).timestamp()
#: The path that the screens show instead of a temporary folder.
SHOWN_WORKSPACE = "/home/ines/quillfern"
LARGE, SMALL = (120, 36), (80, 24)


@dataclass(frozen=True)
class Scene:
    """``keys`` are pressed one after the other, each after all workers have finished. ``demo`` shows the
    lessons; ``query`` is asked at the start."""

    name: str
    size: tuple[int, int]
    keys: tuple[str, ...] = ()
    demo: bool = False
    query: str = ""
    theme: str = "claw-dark"


SCENES: tuple[Scene, ...] = (
    Scene("lab", LARGE, ("down",), query="how long did the last restore drill take"),
    Scene("demo", LARGE, demo=True),
    Scene("demo-small", SMALL, demo=True),
    Scene("diversity", LARGE, ("right_square_bracket",) * 2 + ("v",), demo=True),
    Scene("knobs", LARGE, ("p", "left", "left", "left"), query="VLAN numbers of studio and guest network"),
    Scene(
        "knobs-small", SMALL, ("p", "left", "left", "left"), query="VLAN numbers of studio and guest network"
    ),
    Scene("get-small", SMALL, ("enter",), query="router vlan"),
    Scene("contributions", LARGE, ("v", "v", "enter"), query="why do the door signs keep a shadow"),
    Scene("empty", LARGE, ("right_square_bracket",), demo=True),
    Scene("japanese", LARGE, ("right_square_bracket",) * 3, demo=True),
    Scene("lessons", LARGE, ("g",), demo=True),
    Scene("help", LARGE, ("question_mark",), query="router vlan"),
    Scene("light", LARGE, ("right_square_bracket",) * 9, demo=True, theme="claw-light"),
    Scene("contrast", LARGE, ("right_square_bracket",) * 9, demo=True, theme="claw-contrast"),
)


class SteadyMemory(Memory):
    """The real engine with fixed timings and a fixed path, so that pictures do not differ from run to run."""

    def retrieve(self, query: str, knobs: Knobs | None = None, cancel: CancelToken | None = None) -> Pool:
        pool = super().retrieve(query, knobs, cancel)
        legs = tuple(replace(leg, milliseconds=0.4 if leg.kind == "lexical" else 0.3) for leg in pool.legs)
        fixed = {"embed": 0.2, "vector": 0.3, "bm25": 0.4, "lines": 0.1}
        timings = {name: fixed[name] for name in pool.timings}
        return replace(pool, legs=legs, timings=timings)

    def sync(
        self, progress: Progress | None = None, cancel: CancelToken | None = None, *, force: bool = False
    ) -> SyncReport:
        report = super().sync(progress, cancel, force=force)
        report.seconds = 0.2
        return report

    def status(self) -> Status:
        return replace(super().status(), workspace=SHOWN_WORKSPACE)


def demo_memory(root: Path, kind: type[Memory] = SteadyMemory) -> Callable[[], Memory]:
    """A factory for a memory over the demo written into ``root``, at the frozen date."""

    def factory() -> Memory:
        from openclaw_mem_engine.config.load import load_settings

        workspace = write_demo(root / "demo", TODAY)
        settings = load_settings(
            workspace=workspace,
            agent="main",
            provider="static",
            environ={"OPENCLAW_MEM_HOME": str(root / "data"), "OPENCLAW_STATE_DIR": str(root / "demo")},
            home=root,
            cwd=root,
        )
        return kind.open(settings, clock=lambda: NOW, resident=True)

    return factory


def demo_guide() -> DemoGuide:
    return DemoGuide(load_queries(0).suggested)


async def settled(pilot: Pilot[int]) -> None:
    """Wait until no worker runs except the one that watches the files."""
    for _ in range(500):
        await pilot.pause(0.01)
        if all(worker.is_finished or worker.group == "watch" for worker in pilot.app.workers):
            break
    await pilot.pause()


async def render(scene: Scene, root: Path) -> str:
    """One scene as SVG, with a font that is installed instead of a link to one."""
    ticks = itertools.count()

    def clock() -> float:
        return next(ticks) * 0.0001

    rank.perf_counter = cuts.perf_counter = clock  # type: ignore[attr-defined]
    app = Workbench(
        demo_memory(root),
        demo=demo_guide() if scene.demo else None,
        initial_query=scene.query,
        theme=scene.theme,
    )
    async with app.run_test(size=scene.size) as pilot:
        await settled(pilot)
        for key in scene.keys:
            await pilot.press(key)
            await settled(pilot)
        return portable(app.export_screenshot(title="openclaw-mem", simplify=True))


def portable(svg: str) -> str:
    """No link to a font on the net; a stack that begins with installed ones; names that do not change."""
    svg = re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.DOTALL)
    svg = re.sub(r"font-family: [^;]+;", "font-family: 'DejaVu Sans Mono', monospace;", svg)
    svg = re.sub(r'font-family="[^"]+"', "font-family=\"'DejaVu Sans Mono', monospace\"", svg)
    svg = re.sub(r"terminal-\d+", "terminal", svg)
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"


def text_of(svg: str) -> list[str]:
    """The characters of a screenshot, row by row (what the tests compare)."""
    import html

    rows: dict[float, list[tuple[float, str]]] = {}
    for x, y, text in re.findall(r'<text [^>]*?x="([\d.]+)" y="([\d.]+)"[^>]*>(.*?)</text>', svg):
        rows.setdefault(float(y), []).append((float(x), html.unescape(text).replace("\xa0", " ")))
    return ["".join(text for _, text in sorted(parts)).rstrip() for _, parts in sorted(rows.items())]


def as_png(svg: str) -> bytes:
    import resvg_py

    return bytes(
        resvg_py.svg_to_bytes(svg_string=svg.replace("'DejaVu Sans Mono', monospace", "DejaVu Sans Mono"))
    )


def main(names: list[str]) -> int:
    import textual

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
