"""The lessons of ``openclaw-mem demo``: what each asks, and its text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from openclaw_mem_engine.api import Knobs, parse_settings
from openclaw_mem_tui.features.search.state import View, asked
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.spans import Line, fit, line, width, wrapped


class Lesson(Protocol):
    """A suggested query of the demo (``SuggestedQuery``): ``settings`` are the knobs of the shown run,
    ``against`` those of its baseline, both as ``knob=value``."""

    @property
    def query(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def lesson(self) -> str: ...
    @property
    def settings(self) -> Sequence[str]: ...
    @property
    def against(self) -> Sequence[str]: ...


@dataclass(frozen=True, slots=True)
class DemoGuide:
    """The lessons in their order; ``start`` is the one that is loaded first."""

    lessons: Sequence[Lesson]
    start: int = 0


def with_lesson(view: View, lesson: Lesson) -> View:
    """The view that asks a lesson's query with its knobs, against its baseline."""
    knobs = _with_settings(view.defaults, lesson.settings)
    against = _with_settings(view.defaults, lesson.against)
    return asked(
        replace(view, knobs=knobs, against=against, pin=None, trace=None, baseline=None), lesson.query
    )


def left_lesson(view: View, lesson: Lesson) -> View:
    """Another query was asked: the lesson's baseline is removed, and its knobs too unless they were
    changed."""
    taught = _with_settings(view.defaults, lesson.settings)
    knobs = view.defaults if view.knobs == taught else view.knobs
    return replace(view, knobs=knobs, against=None, baseline=None)


def _with_settings(base: Knobs, settings: Sequence[str]) -> Knobs:
    """Knob settings over a configuration. Raises UsageError."""
    return base.set(parse_settings(list(settings)))


def lesson_lines(guide: DemoGuide, number: int, cells: int) -> list[Line]:
    """Title, knobs and text of a lesson."""
    lesson = guide.lessons[number]
    knobs = ", ".join(lesson.settings)
    against = ", ".join(lesson.against)
    head = [*line((" ◆ ", "accent"), (lesson.title, "strong accent"))]
    # A part that does not fit is not shown at all.
    for text, role in (
        (f"  lesson {number + 1} of {len(guide.lessons)}", "dim"),
        (f" · {knobs}" if knobs else "", "dim"),
        (f" against {against}" if against else "", "faint"),
    ):
        if width(head) + fmt.width_of(text) > cells:
            break
        head.extend(line((text, role)))
    made = [fit(head, cells)]
    made.extend(wrapped(line("   ", fmt.inert(lesson.lesson)), max(20, min(cells - 1, 140)), 3))
    return made
