"""Undo and redo of a step of the knobs, the faults or the baseline, or of starting over, in words. No Textual
here."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Literal

from openclaw_mem_tui.bindings import key
from openclaw_mem_tui.features.search.baseline import EDITED, PINNED
from openclaw_mem_tui.features.search.presenter import FAULT_BASELINE
from openclaw_mem_tui.features.search.remembered import bring_back, left_now
from openclaw_mem_tui.features.search.render.knobs import changed_words
from openclaw_mem_tui.features.search.start_page import takes_back
from openclaw_mem_tui.render import format as fmt

if TYPE_CHECKING:
    from openclaw_mem_engine.api import Knobs
    from openclaw_mem_tui.features.search.baseline import Pin
    from openclaw_mem_tui.features.search.lab import Lab
    from openclaw_mem_tui.features.search.presenter import SearchPresenter
    from openclaw_mem_tui.features.search.remembered import Left
    from openclaw_mem_tui.render.reports import Done

#: Cells of a query that a message names.
_LONGEST = 40


def take_step(lab: Lab, word: Literal["undo", "redo"]) -> str:
    """Undo or redo the last step. What that changed, as a sentence."""
    steps, now = lab.search.steps, left_now(lab)
    before = now.view.tried._replace(left=now, cleared=(now.view.last_pin, now.view.against))
    back = word == "undo"
    if (after := (steps.undo if back else steps.redo)(before)) is None:
        return _nothing(lab.search) if back else "nothing to redo"
    if after.left is not None:
        _bring_back(lab, after.left)
        changed = _there_again(after.left, before.knobs) if back else "started over"
    elif after.cleared is not None:
        pin, against = after.cleared
        _compare(lab, pin.asked(now.view.query) if pin is not None else None, against)
        changed = f"baseline: {lab.search.view.baseline_name}"
    elif after.faults != before.faults:
        lab.switch_faults(after.faults, by_step=True)
        changed = f"simulated faults: {', '.join(sorted(after.faults)) or 'none'}"
    else:
        if after.by_swap and after.knobs == lab.search.view.baseline_knobs:
            if lab.search.swap(by_step=True):
                lab.search_soon(0.0)
        else:
            lab.tune(after.knobs, by_step=True)
        changed = f"{'back to ' * back}{changed_words(before.knobs, after.knobs)}"
    other = f"{key('redo_knob')} redoes it" if back else f"{key('undo_knob')} undoes it"
    return f"{word}: {changed}; {other}{_kept(lab.search) if after.knobs != before.knobs else ''}"


def clear_baseline(lab: Lab) -> None:
    """Back to the configured baseline, which is a step; says so, or that a fault has its own."""
    search, view = lab.search, lab.search.view
    if view.shown_faults:
        search.say(FAULT_BASELINE)
        return
    is_step = (view.pin, view.against) != (None, None)
    if is_step:
        search.steps.made(view.tried._replace(cleared=(view.last_pin, view.against)))
    _compare(lab)
    search.say("the configured defaults are the baseline" + f"; {key('undo_knob')} undoes it" * is_step)


def note_written(search: SearchPresenter, said: str, done: Done) -> str:
    """The run before a change of a note that was written just now becomes the baseline. ``said`` with that,
    which the next sync says behind what was ``done`` too."""
    pin = search.view.pin
    if search.pin_run(EDITED):
        instead = " instead of the pinned run" if pin is not None and pin.name == PINNED else ""
        kept = f"the run before the edit is the baseline{instead}"
        said, done = f"{said}; {kept}", done._replace(then=fmt.join((done.then, kept), "; "))
    search.sync.done = done
    return said


def _compare(lab: Lab, pin: Pin | None = None, against: Knobs | None = None) -> None:
    if lab.search.compare_with(pin, against):
        lab.search_soon(0.0)


def _bring_back(lab: Lab, left: Left) -> None:
    """Show all that was left, of the backend that answered."""
    backend = left.view.backend
    if not lab.search.uses(backend):
        lab.use_backend(backend, partial(_bring_back, lab, left))
        return
    bring_back(lab.search, left)
    lab.preview.citations = left.citations
    lab.query_line.put(left.view.query)
    if left.row is not None:
        lab.opens_on = (left.row.path, left.row.start_line)
    lab.search_soon(0.0)


def _there_again(left: Left, knobs: Knobs) -> str:
    """``back to “router vlan”, min score .50``: the query, and the knobs that differ from these."""
    query = left.view.query.strip()
    parts = [f"“{fmt.crop(fmt.inert(query), _LONGEST)}”"] * bool(query)
    parts += [changed_words(knobs, left.view.knobs)] * (knobs != left.view.knobs)
    return f"back to {', '.join(parts) or 'what was left'}"


def _nothing(search: SearchPresenter) -> str:
    """That there is no step to undo, and what else takes a change back."""
    view = search.view
    if search.steps.undone:
        return f"nothing more to undo; {key('redo_knob')} redoes the last step"
    other = f"{key('undo_edit')} undoes a change of notes"
    if view.knobs != view.defaults and not view.shown_faults:
        other = f"{key('reset_all')} resets the knobs to the configuration"
    return f"nothing to undo here; {other}"


def _kept(search: SearchPresenter) -> str:
    """What a step leaves in the file that this session wrote, where the knobs are others now."""
    view, written = search.view, search.steps.written
    if written is None or written[1] != view.defaults or view.knobs == view.defaults:
        return ""
    name = fmt.inert(search.service.settings.own_file.name)
    does = "undoes that write" if takes_back(search) else "writes these knobs"
    keeps = changed_words(view.knobs, view.defaults)
    return f"; {name} keeps {keeps}: {key('apply_knobs')} {does}"
