"""The demo's lessons: what the workbench shows when it was started as ``openclaw-mem demo``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from openclaw_mem_engine.ranking.knobs import Knobs, parse_settings
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


def taken_up(view: View, lesson: Lesson) -> View:
    """The view that asks a lesson's query with its knobs, against its baseline."""
    knobs = laid_over(view.defaults, lesson.settings)
    against = laid_over(view.defaults, lesson.against)
    return asked(
        replace(view, knobs=knobs, against=against, pin=None, trace=None, baseline=None), lesson.query
    )


def left_behind(view: View, lesson: Lesson) -> View:
    """The user asks something else: the lesson's baseline goes, and its knobs too unless they were turned."""
    taught = laid_over(view.defaults, lesson.settings)
    knobs = view.defaults if view.knobs == taught else view.knobs
    return replace(view, knobs=knobs, against=None, baseline=None)


def laid_over(base: Knobs, settings: Sequence[str]) -> Knobs:
    """Knob settings over a configuration. Raises UsageError."""
    return base.set(parse_settings(list(settings)))


def lesson_lines(guide: DemoGuide, place: int, cells: int) -> list[Line]:
    """What a lesson says, with its place among the others."""
    lesson = guide.lessons[place]
    knobs = ", ".join(lesson.settings)
    against = ", ".join(lesson.against)
    head = [*line((" ◆ ", "accent"), (lesson.title, "strong accent"))]
    # What does not fit is left out as a whole.
    for told, role in (
        (f"  lesson {place + 1} of {len(guide.lessons)}", "dim"),
        (f" · {knobs}" if knobs else "", "dim"),
        (f" against {against}" if against else "", "faint"),
    ):
        if width(head) + fmt.width_of(told) > cells:
            break
        head.extend(line((told, role)))
    made = [fit(head, cells)]
    made.extend(wrapped(line("   ", fmt.inert(lesson.lesson)), max(20, min(cells - 1, 140)), 3))
    return made
