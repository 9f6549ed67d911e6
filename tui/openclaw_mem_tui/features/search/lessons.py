"""The lessons of ``openclaw-mem demo``: what each asks, and its text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from openclaw_mem_engine.api import Knobs, parse_settings
from openclaw_mem_tui.features.search.state import View, asked
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.spans import Line, Span, fit, line, width, wrapped


class Lesson(Protocol):
    """A suggested query of the demo (``SuggestedQuery``): ``settings`` are the knobs of the shown run,
    ``against`` those of its baseline, both as ``knob=value``; ``backend`` is asked ("": the configured
    one)."""

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
    @property
    def backend(self) -> str: ...


#: Lines that the screen has for a lesson.
MOST_LINES = 4
#: The lessons in their order.
Guide = Sequence[Lesson]


def with_lesson(view: View, lesson: Lesson) -> View:
    """The view that asks a lesson's query with its knobs, against its baseline. Raises UsageError."""
    knobs = _with_settings(view.defaults, lesson.settings)
    against = _with_settings(view.defaults, lesson.against)
    view = replace(view, knobs=knobs, against=against, pin=None, trace=None, baseline=None)
    return asked(view, lesson.query)


def left_lesson(view: View, lesson: Lesson) -> View:
    """Another query was asked: the lesson's baseline is removed, and its knobs too unless they were
    changed."""
    taught = _with_settings(view.defaults, lesson.settings)
    knobs = view.defaults if view.knobs == taught else view.knobs
    return replace(view, knobs=knobs, against=None, baseline=None)


def _with_settings(base: Knobs, settings: Sequence[str]) -> Knobs:
    return base.set(parse_settings(list(settings)))


def lesson_lines(guide: Guide, number: int, cells: int) -> list[Line]:
    """Title, knobs and text of a lesson; a text that needs more than ``MOST_LINES`` ends with an ellipsis."""
    lesson = guide[number]
    knobs, against = ", ".join(lesson.settings), ", ".join(lesson.against)
    head = [*line((" ◆ ", "accent"), (lesson.title, "strong accent"))]
    # A part that does not fit is not shown at all.
    for text, role in (
        (f"  lesson {number + 1} of {len(guide)}", "dim"),
        (f" · {knobs}" if knobs else "", "dim"),
        (f" against {against}" if against else "", "faint"),
    ):
        if width(head) + fmt.width_of(text) > cells:
            break
        head.extend(line((text, role)))
    paragraph = line("   ", fmt.inert(lesson.lesson))
    shown = wrapped(paragraph, max(20, min(cells - 1, 140)), 3)
    if len(shown) > MOST_LINES - 1:
        last = shown[MOST_LINES - 2]
        shown[MOST_LINES - 2 :] = [(*fit(last, min(width(last), cells - 3)), Span(" …", "dim"))]
    return [fit(head, cells), *shown]
