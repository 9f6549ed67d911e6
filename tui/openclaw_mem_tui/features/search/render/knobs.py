"""The knob panel: every knob with its value, and the default where it differs."""

from __future__ import annotations

from functools import lru_cache

from openclaw_mem_engine.api import KNOBS, SELECTABLE, Knobs, KnobSpec, KnobValue, knob_words, usual_knobs
from openclaw_mem_tui.features.search.state import PROFILE
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.spans import Line, Span, fit, line, width, wrapped

_NAME = 21
_VALUE = 12
#: So many knobs are named that one step changes.
NAMED = 3


@lru_cache(maxsize=256, typed=True)
def knob(name: str, value: KnobValue, default: KnobValue, idle: bool, cells: int, selected: bool) -> Line:
    """One row: name, value, and the configured value where it differs. ``idle``: turning it changes
    nothing."""
    changed = value != default
    plain = "faint" if idle else ""
    parts = [Span(*fmt.POINTER[selected])]
    parts.append(Span(fmt.left(knob_words(name), _NAME), plain or ("strong" if changed else "")))
    wide = max(_VALUE, cells - 2 - _NAME - 1) if name == PROFILE and not changed else _VALUE
    shown = value_text(name, value)
    if selected:
        role = "strong accent" if changed else "strong"
        less, more = (Span(" ") if at_end(name, value, step) else arrow for step, arrow in _ARROWS)
        parts += [less, Span(shown, role), more]
        parts.append(Span(" " * max(0, wide - fmt.width_of(shown) - 2)))
    else:
        parts.append(Span(" " + fmt.left(shown, wide - 1), plain or ("strong accent" if changed else "")))
    room = cells - width(parts) - 1
    if changed:
        was = value_text(name, default)
        texts = (f" was {was}", f" {was}", "")
        parts.append(Span(next(text for text in texts if fmt.width_of(text) <= room + 1), "dim"))
    elif room >= 10 and name != PROFILE and not KNOBS[name].free:
        parts.append(Span(" retrieves", "faint"))
    return fit(parts, cells)


_ARROWS = (-1, Span("◂", "accent", "do('less')")), (1, Span("▸", "accent", "do('more')"))


def at_end(name: str, value: KnobValue, direction: int) -> str:
    """That a step in a direction changes nothing, and why: the value is the last one there; else empty."""
    if name == PROFILE or not direction or KNOBS[name].nudge(value, direction) != value:
        return ""
    end = "smallest" if direction < 0 else "largest"
    return f"{knob_words(name)} {value_text(name, value)} is the {end} value"


def changed_words(before: Knobs, after: Knobs) -> str:
    """``min score .35``: the knobs that differ, as they are after, without those that have no effect then; of
    many, the other profile, or how many there are."""
    names = after.changed_names(before)
    names = tuple(name for name in names if not idle(name, after)) or names
    if len(names) > NAMED:
        return f"profile {after.profile}" if after.profile != before.profile else f"{len(names)} knobs"
    return ", ".join(knob_value(name, after) for name in names)


def knob_value(name: str, knobs: Knobs) -> str:
    """``min score .35``: a knob with its value."""
    return f"{knob_words(name)} {value_text(name, getattr(knobs, name))}"


def value_text(name: str, value: KnobValue) -> str:
    """A value as all screens show it: ``.35``, ``on``, ``none`` for a limit of 0."""
    if name == PROFILE:
        return str(value)
    spec = KNOBS[name]
    if isinstance(value, float) and spec.step < 1:
        return fmt.setting(value)
    if isinstance(value, bool):
        return "on" if value else "off"
    return spec.meaning(value) or (f"{value:g}" if isinstance(value, float) else str(value))


def panel_row(knobs: Knobs, defaults: Knobs, name: str, cells: int, selected: bool) -> Line:
    """The row of one knob."""
    value, default = getattr(knobs, name), getattr(defaults, name)
    return knob(name, value, default, bool(idle(name, knobs)), cells, selected)


def meaning(name: str) -> str:
    """What a knob does."""
    return "sets the knobs that are not configured" if name == PROFILE else KNOBS[name].help


def idle(name: str, knobs: Knobs) -> str:
    """Why turning a knob changes nothing with the others as they are; empty when it does change something."""
    return "" if name == PROFILE else knobs.missing_need(name)


def hint(name: str, cells: int, knobs: Knobs, most: int = 0, backend: str = "") -> list[Line]:
    """What the selected knob means and which values it takes; first of all, why it has no effect now; of the
    profile what differs from it as the ``backend`` has it; nothing for no ``name``. In ``most`` lines (0: in
    as many as needed) with an ellipsis where there are more."""
    made = _hint(name, cells, knobs, backend) if name else []
    if not 0 < most < len(made):
        return made
    return [*made[: most - 1], fit((*made[most - 1], Span(" "), *made[most]), cells)]


def _hint(name: str, cells: int, knobs: Knobs, backend: str) -> list[Line]:
    title = (f"{knob_words(name)}: ", "accent")
    if name == PROFILE:
        own = changed_words(usual_knobs(knobs.profile, backend), knobs)
        with_own = f"{knobs.profile} with {own} · " if own else ""
        return wrapped(line(title, with_own, (f"{meaning(name)}: {', '.join(SELECTABLE)}", "dim")), cells)
    spec: KnobSpec = KNOBS[name]
    tail = "" if spec.free else " · new retrieval"
    reason = idle(name, knobs)
    why = f"no effect: {reason} · " if reason else ""
    return wrapped(
        line(title, (why, "warn"), (meaning(name), ""), (f" · {spec.explained}{tail}", "dim")), cells
    )
