"""What the workbench tests share: the demo as a memory, a pool made by hand, and small helpers."""

from __future__ import annotations

import asyncio
import atexit
import functools
import importlib.util
import shutil
import sys
import tempfile
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

import apsw
import pytest
from rich.console import RenderableType
from textual._compositor import Compositor
from textual.content import Content
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input

from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.model import Freshness, Note
from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.pool import Candidate, CandidateList, ListRow, Pool, Signal
from openclaw_mem_tui.app import Workbench
from openclaw_mem_tui.features.search.screen import SearchScreen
from openclaw_mem_tui.features.search.state import View, answered, asked
from openclaw_mem_tui.service import Service
from support.memories import copy_indexed

ROOT = Path(__file__).resolve().parents[2]
LARGE, SMALL = (120, 36), (80, 24)
NOW = 1_774_980_000.0
DAY = 86_400.0


def _load_scenes() -> ModuleType:
    spec = importlib.util.spec_from_file_location("screenshots_make", ROOT / "screenshots" / "make.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


make = _load_scenes()
until = make.until
first_index = make.demo_memory


def demo_memory(
    root: Path, *given: Any, own_notes: bool = False, **options: Any
) -> Callable[[frozenset[str]], Memory]:
    """``make.demo_memory`` over the demo that was indexed once for this process: with a copy of the index in
    ``root``, and with ``own_notes`` for tests that change notes, which they do in ``root``/demo."""
    indexed = _indexed_demo()
    if not own_notes:
        options["notes"] = indexed / "demo"
    if not (root / "data").exists():
        if own_notes:
            copy_indexed(indexed, root, "demo/workspace")
        else:
            shutil.copytree(indexed / "data" / "indexes", root / "data" / "indexes")
    factory: Callable[[frozenset[str]], Memory] = first_index(root, *given, **options)
    return factory


@functools.cache
def _indexed_demo() -> Path:
    root = Path(tempfile.mkdtemp(prefix="openclaw-mem-demo-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    with first_index(root)(frozenset()) as memory:
        memory.sync()
    index = next((root / "data").glob("indexes/*/main.sqlite"))
    with apsw.Connection(str(index)) as connection:
        # As if checked seconds after they were written: notes are read again when that is more recent.
        connection.execute("UPDATE files SET checked_ns = checked_ns + 5000000000")
    return root


make.demo_memory = demo_memory  # type: ignore[attr-defined]


_paint = Compositor.render_update


def _paint_later(
    compositor: Compositor,
    full: bool = False,
    screen_stack: list[Screen[Any]] | None = None,
    simplify: bool = False,
) -> RenderableType | None:
    """Frames go nowhere in a test and are a quarter of its CPU time: what changed stays marked until
    ``settled`` paints it. A whole screen is painted when it is asked for (a screenshot)."""
    return _paint(compositor, True, screen_stack, simplify) if full else None


Compositor.render_update = _paint_later  # type: ignore[assignment]


_parse = Stylesheet._parse_rules
_parsed: dict[Hashable, list[RuleSet]] = {}


def _parse_once(stylesheet: Stylesheet, *source: Any, **options: Any) -> list[RuleSet]:
    """Rules are parsed once for all applications of this process that have the same colours."""
    key = (frozenset(stylesheet._variables.items()), source, frozenset(options.items()))
    if key not in _parsed:
        _parsed[key] = _parse(stylesheet, *source, **options)
    return _parsed[key]


Stylesheet._parse_rules = _parse_once  # type: ignore[method-assign, assignment]


async def settled(pilot: Pilot[int]) -> None:
    """Wait until nothing is left to do, and paint what changed."""
    await make.settled(pilot)
    _paint(pilot.app.screen._compositor, screen_stack=pilot.app._background_screens)


async def press(pilot: Pilot[int], *keys: str) -> None:
    """Press keys, each once all is done that the one before asked for, and paint the last screen; text comes
    in one burst."""
    for key, following in zip(keys, (*keys, "")[1:], strict=True):
        await pilot.press(key)
        is_typing = isinstance(pilot.app.focused, Input) and len(key) == len(following) == 1
        if not is_typing:
            await make.settled(pilot)
    _paint(pilot.app.screen._compositor, screen_stack=pilot.app._background_screens)


def held(monkeypatch: pytest.MonkeyPatch, service: Service, name: str) -> asyncio.Event:
    """Calls of a method of the service wait until the event is set."""
    go_on, call = asyncio.Event(), getattr(service, name)

    async def waits(*asked: Any, **options: Any) -> Any:
        await go_on.wait()
        return await call(*asked, **options)

    monkeypatch.setattr(service, name, waits)
    return go_on


def lab(app: Workbench) -> SearchScreen:
    """The screen of the search lab, also while a dialog covers it."""
    return next(screen for screen in app.screen_stack if isinstance(screen, SearchScreen))


def workbench(root: Path, *, own_notes: bool = False, **options: Any) -> Workbench:
    """The workbench over the demo, with its data in ``root`` (see ``demo_memory``)."""
    return Workbench(make.demo_memory(root, own_notes=own_notes), **options)


def candidate(number: int, text: str, path: str | None = None, age: float | None = None) -> Candidate:
    lines = text.count("\n")
    return Candidate(
        f"c{number}",
        path or f"memory/note-{number}.md",
        10,
        10 + lines,
        text,
        "memory",
        None if age is None else NOW - age * DAY,
        "evergreen" if age is None else "dated",
    )


def pool(
    texts: Sequence[str] = ("router vlan ten", "the gateway of the router", "nothing to do with it"),
    *,
    query: str = "router vlan",
    bm25: Sequence[tuple[int, float]] = ((0, 7.0), (1, 4.0)),
    vector: Sequence[tuple[int, float]] = ((1, 0.81), (0, 0.72), (2, 0.2)),
    ages: Sequence[float | None] = (12, None, 400),
    paths: Sequence[str | None] = (),
    notes: tuple[Note, ...] = (),
    kinds: tuple[str, ...] = ("vector", "lexical"),
    signals: Mapping[str, Mapping[str, Signal]] = MappingProxyType({}),
    starts: Sequence[int] = (),
) -> Pool:
    """Three chunks that both lists know something about; every number can be set."""
    made = {}
    for number, text in enumerate(texts):
        path = paths[number] if number < len(paths) else None
        found = candidate(number, text, path, ages[number % len(ages)])
        start = starts[number] if number < len(starts) else found.start_line
        made[f"c{number}"] = found._replace(start_line=start, end_line=start + text.count("\n"))
    near = tuple(ListRow(f"c{n}", s) for n, s in vector)
    matching = tuple(ListRow(f"c{n}", s) for n, s in bm25)
    lists = (
        CandidateList("vector", "vector", query, near, milliseconds=0.3, space_number=0),
        CandidateList("bm25", "lexical", '"router" OR "vlan"', matching, milliseconds=0.4),
    )
    return Pool(
        query,
        tuple(found for found in lists if found.kind in kinds),
        made,
        NOW,
        provider="static",
        model="test",
        freshness=Freshness("fresh", 1, NOW),
        notes=notes,
        signals=signals,
    )


def view(knobs: Knobs | None = None, defaults: Knobs | None = None, **options: Any) -> View:
    """An answered view of the pool made by hand."""
    made = pool(**options)
    defaults = defaults or Knobs()
    return answered(asked(View(defaults, knobs or defaults), made.query), made)


def frame(widget: Widget) -> str:
    """What is on the edges of a frame, without its markup."""
    return f"{plain(widget.border_title)} {plain(widget.border_subtitle)}"


def plain(markup: str | None) -> str:
    """What is read of a text on a frame."""
    return Content.from_markup(markup or "").plain


def failing(error: Exception) -> Callable[[frozenset[str]], Memory]:
    """A factory that cannot open anything."""

    def factory(faults: frozenset[str]) -> Memory:
        raise error

    return factory
