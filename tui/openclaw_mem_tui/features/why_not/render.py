"""The walk of a passage through a search, and what would bring it in, as lines."""

from __future__ import annotations

from typing import TypeAlias

from openclaw_mem_engine.api import Change, Knobs, Step, TextChange, WhyNot
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.spans import Line, Span, line, wrapped

#: One item of the list of changes.
AnyChange: TypeAlias = Change | TextChange

_NAME = 12
_SETTING = 34
#: Displaced passages that are named; the others are counted.
_NAMED = 2


def heading(query: str, answer: WhyNot | None, location: str, cells: int) -> list[Line]:
    """The passage, the query, and the one sentence on them."""
    at = answer.passage.location if answer is not None else location
    parts = line(" ", (fmt.inert(at), "strong"), ("  for  ", "dim"), fmt.inert(query, 300))
    made = wrapped(parts, cells, 1)
    if answer is not None:
        sign = (" ✓ ", "good") if all(step.ok for step in answer.steps) else (" ✗ ", "bad")
        made += wrapped(line(sign, (sentence(answer.verdict), "strong")), cells - 1, 3)
    return made


def walk(steps: tuple[Step, ...], cells: int) -> list[Line]:
    """One line a step, or more; the first no, which is the last step, stands out."""
    made: list[Line] = []
    for step in steps:
        sign, role = ("✓ ", "good") if step.ok else ("✗ ", "bad")
        name = fmt.left(step.name.replace("_", " "), _NAME)
        text = line((sign, role), (name, "dim" if step.ok else "strong bad"))
        made += wrapped((*text, Span(sentence(step.text), "" if step.ok else "strong")), cells - 1, _NAME + 2)
    return made


def changes(answer: WhyNot) -> tuple[AnyChange, ...]:
    """What the cursor moves over: changes of knobs, then those of the text."""
    return (*answer.changes, *answer.text_changes)


def change_rows(answer: WhyNot, knobs: Knobs, cells: int, cursor: int) -> tuple[list[Line], list[list[Line]]]:
    """The notes, and every change with the rank that it gives and what it costs."""
    head: list[Line] = []
    for note in answer.notes:
        head += wrapped(line((f"· {sentence(note.text)}", "dim")), cells - 1, 2)
    items = [_item(change, knobs, cells - 1, at == cursor) for at, change in enumerate(changes(answer))]
    if not items and not head:
        none = "nothing to change: it is returned" if answer.returned else "no change is known"
        head = [line((none, "dim"))]
    return head, items


def _item(change: AnyChange, knobs: Knobs, cells: int, selected: bool) -> list[Line]:
    mark = Span("▌ " if selected else "  ", "accent")
    if isinstance(change, TextChange):
        return wrapped(line(mark, ("note  ", "dim"), sentence(change.text)), cells, 8)
    text = setting(change, knobs)
    wide = max(_SETTING, fmt.width_of(text) + 2)
    return wrapped(
        line(mark, (fmt.left(text, wide), "strong"), (f"rank {change.rank}", "good"), (_cost(change), "dim")),
        cells,
        4,
    )


def setting(change: Change, knobs: Knobs) -> str:
    """``half life days 30 → 338``; of several knobs joined."""
    parts = [
        f"{name.replace('_', ' ')} {_value(getattr(knobs, name))} → {_value(value)}"
        for name, value in change.set.items()
    ]
    return ", ".join(parts)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return fmt.numbers(f"{value:.10g}") if isinstance(value, float) else str(value)


def _cost(change: Change) -> str:
    """What the change does to the other results."""
    parts = [
        f"{verb} {', '.join(fmt.inert(name) for name in names[:_NAMED])}"
        + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
        for verb, names in (("loses", change.lost), ("also brings", change.gained))
        if names
    ]
    return "  " + (" · ".join(parts) or "the other results stay")


def sentence(text: str) -> str:
    """A text of the engine with its numbers as everywhere here, safe to draw."""
    return fmt.numbers(fmt.message(text, 2_000))
