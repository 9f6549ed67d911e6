"""The lessons of ``openclaw-mem demo``: what each asks, and its text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from openclaw_mem_engine.api import Knobs, changed, parse_settings
from openclaw_mem_tui.bindings import key, reach, typing
from openclaw_mem_tui.features.search.comparison import lost
from openclaw_mem_tui.features.search.render.above import in_full, in_short
from openclaw_mem_tui.features.search.render.funnel import baseline_names, strip
from openclaw_mem_tui.features.search.render.knobs import changed_words, knob_value
from openclaw_mem_tui.features.search.state import View, asked
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.spans import Line, Span, balanced, cut, fit, line, width

if TYPE_CHECKING:
    from openclaw_mem_engine.api import Row, SuggestedQuery
    from openclaw_mem_tui.features.search.lab import Lab
    from openclaw_mem_tui.features.search.presenter import SearchPresenter


#: Lines that the screen has for a lesson.
MOST_LINES = 4
#: The lessons in their order.
Guide = Sequence["SuggestedQuery"]


def with_lesson(view: View, lesson: SuggestedQuery) -> View:
    """The view that asks a lesson's query with its knobs, against its baseline. Raises UsageError."""
    knobs = _with_settings(view.defaults, lesson.settings)
    against = _with_settings(view.defaults, lesson.against)
    view = replace(view, knobs=knobs, against=against, last_pin=None, trace=None, baseline=None)
    return asked(view, lesson.query)


def left_lesson(view: View, lesson: SuggestedQuery) -> View:
    """Another query was asked: the lesson's baseline is removed, and its knobs too unless they were
    changed."""
    knobs = view.defaults if _is_taught(view, lesson) else view.knobs
    return replace(view, knobs=knobs, against=None, baseline=None)


def left_said() -> str:
    """What that has done to the knobs, while the query is typed."""
    with typing(letters=True):
        return f"the knobs are as configured; {reach('undo_knob')} brings those of the lesson back"


def _is_taught(view: View, lesson: SuggestedQuery) -> bool:
    """Whether the knobs are those of the lesson, or of its baseline."""
    return view.knobs in [_with_settings(view.defaults, made) for made in (lesson.settings, lesson.against)]


def opens_on(search: SearchPresenter) -> list[Row]:
    """The rows that only the baseline returned; of these first the one that the shown lesson is about."""
    guide, number, view = search.guide, search.lesson_at, search.view
    quote = guide[number].quote if guide is not None and number is not None else ""

    def is_other(row: Row) -> bool:
        found = view.candidate(row.chunk_id)
        return found is None or quote not in found.text

    return sorted(lost(view), key=is_other)


def taught(search: SearchPresenter) -> bool:
    """Whether the lesson that is shown has set the knobs as they are."""
    guide, number = search.guide, search.lesson_at
    return guide is not None and number is not None and _is_taught(search.view, guide[number])


def knob_strip(search: SearchPresenter, cells: int) -> Line:
    """The knobs of the shown run in one line; no value before the configuration is known."""
    if not search.service.is_open:
        why = "not known: the index cannot be opened" if search.activity.phase == "failed" else ""
        return line((f" {'profile':<9}{why}", "dim"))
    view, resets = search.view, not search.view.shown_faults
    of_lesson, backend = taught(search), view.backend
    return strip(
        view.knobs, view.defaults, cells, view.trace, backend=backend, taught=of_lesson, resets=resets
    )


def run_in_short(search: SearchPresenter, view: View, room: int) -> tuple[list[str], int]:
    """Which knobs of the run are changed or how many, unless a lesson names them; its baseline; the cells
    that are left of the ``room``."""
    made = list[str]()
    names = [f"baseline: {name}" for name in baseline_names(view)]
    changed = () if taught(search) else view.knobs.changed_names(view.defaults)
    if changed:
        named = ", ".join(knob_value(name, view.knobs) for name in changed)
        many = f"{fmt.count(len(changed), 'knob')} changed"
        made.append(named if fmt.width_of(named) + 3 <= room else many)
        room -= fmt.width_of(made[0]) + 3
    for said in [name for name in names if fmt.width_of(name) + 3 <= room][:1]:
        made.append(said)
        room -= fmt.width_of(said) + 3
    return made, room


def _with_settings(base: Knobs, settings: Sequence[str]) -> Knobs:
    return changed(base, parse_settings(list(settings)))


def lines_above(lab: Lab) -> int:
    """How many lines above the hits a sentence takes: one on a low screen, more where nothing is returned,
    and none there beside a lesson, whose text and hits show what it would say."""
    trace, lesson = lab.search.view.trace, lab.search.lesson_at is not None
    if lesson and lab.low and trace is not None and trace.results:
        return 0
    few = lab.has_class("-few") or lab.has_class("-tiny")
    if trace is not None and not (trace.results or lesson or few):
        return 3  # there are rows to spare, and why it is empty is what matters
    return 1 if lab.low or few or (lab.has_class("-lesson") and lab.size.height < 30) else 2


def lesson_title(guide: Guide, number: int, view: View, cells: int, *, brief: bool = False) -> Line:
    """Title of a lesson, and beside it what distinguishes the knobs from those of the baseline, and the key
    that swaps them. ``brief``: also the key that shows the text."""
    lesson, against = guide[number], view.baseline_knobs
    head = [*line((" ◆ ", "accent"), (lesson.title, "strong accent"))]
    own = "" if _is_taught(view, lesson) else " · knobs changed"  # its text is about those that it set
    count = line((f"  lesson {number + 1} of {len(guide)}", "dim"))
    swaps = against != view.knobs and not view.other_backend
    now, other = changed_words(against, view.knobs), changed_words(view.knobs, against)
    shown = line((f" · now: {now}", "dim")) if swaps else ()  # the key is at the bottom, too
    both = (*shown, *line((" · ", "dim"), (key("swap"), "key"), (f": {other}", "dim"))) if swaps else ()
    reads = line("  ", (key("messages"), "key"), (" text", "dim")) if brief else ()
    head += line((own, "dim"))
    short = line((f"  {number + 1}/{len(guide)}", "dim"))
    # The number is always there; the last cell stays blank.
    ways = (count, both), (count, shown), (short, both), (short, shown), (count,), (short,)
    for way in ways:
        if width(head) + width(reads) + sum(map(width, way)) < cells:
            return fit([*head, *reads, *chain.from_iterable(way)], cells)
    return (*fit(head, cells - width(short) - 1), *short, Span(" "))


def lesson_lines(
    guide: Guide, number: int, view: View, cells: int, most: int = MOST_LINES, *, also: bool = True
) -> list[Line]:
    """Title and text of a lesson; one that needs more than ``most`` lines ends with the key that shows it."""
    shown = lesson_text(guide[number], view, max(20, min(cells - 1, 140)), also=also)
    if len(shown) > most - 1:
        shown[most - 2 :] = [cut(shown[most - 2], cells - 1)]
    return [lesson_title(guide, number, view, cells), *shown]


def also_set(lesson: SuggestedQuery, view: View) -> Line:
    """The knobs that the lesson has set for both of its runs, which its text need not name."""
    names = set(view.knobs.changed_names(view.defaults)) if _is_taught(view, lesson) else set[str]()
    both = sorted(names - set(view.knobs.changed_names(view.baseline_knobs)))
    said = ", ".join(knob_value(name, view.knobs) for name in both)
    return line((f" In\xa0both\xa0runs: {said}." if said else "", "dim"))


def lesson_text(lesson: SuggestedQuery, view: View, cells: int, *, also: bool = True) -> list[Line]:
    """What it says, in full, and ``also`` which knobs it has set for both runs."""
    said = line("   ", fmt.numbers(fmt.inert(lesson.lesson)))
    return balanced((*said, *(also_set(lesson, view) if also else ())), cells, 3)


def over_hits(
    search: SearchPresenter,
    cells: int,
    brief: bool = False,
    low: bool = False,
    full: bool = False,
    profile: bool = False,
) -> list[Line]:
    """The lesson that is shown, on a ``low`` screen with two lines of its text, without what the row of the
    ``profile`` has where that is drawn; with all of it when ``full``, then all that is said of the answer.
    Under a fault what that did to the answer: what a lesson says need not be true then, and its baseline is
    not the one shown."""
    view, guide, number = search.view, search.guide, search.lesson_at
    if view.pool_faults and view.compares:
        return [in_short(view, cells), *(in_full(view, cells) if full else ())]
    if guide is None or number is None:
        return in_full(view, cells) if full else []
    if not (brief or full):
        return lesson_lines(guide, number, view, cells, 3 if low else MOST_LINES, also=not profile)
    title = lesson_title(guide, number, view, cells, brief=brief)
    if not full:
        return [title]
    return [title, *lesson_text(guide[number], view, cells - 1), (), *in_full(view, cells)]
