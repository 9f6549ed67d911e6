"""The rows of what can be picked from: a few in full, of many only the selected one. No Textual here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.spans import Line, fit, line, spread, width, wrapped

#: Cells of the name of a section.
SECTION = 11
#: Lines of a row in full; up to so many rows all are.
_MOST, _FEW = 5, 9


class Choice(NamedTuple):
    """``key`` is returned; a ``letter`` picks it at once. Those of a ``section`` are under its name, with
    their ``detail`` at the right edge. Further lines of a title are indented by
    ``indent`` more cells."""

    key: str
    title: str
    detail: str = ""
    letter: str = ""
    section: str = ""
    indent: int = 0


def choice_rows(
    choices: Sequence[Choice], empty: str, cells: int, cursor: int, about: str = ""
) -> tuple[list[Line], list[list[Line]]]:
    """What is above the rows, with what there is to know ``about`` them, and the lines of each."""
    said = [about, *([] if choices else [empty])]
    above = [row for text in said if text for row in wrapped(line((f"  {text}", "dim")), cells - 1, 2)]
    if not choices:
        return above, []
    if any(choice.section for choice in choices):
        return above, [_sectioned(choices, at, cells, at == cursor) for at in range(len(choices))]
    letters = 3 if any(choice.letter for choice in choices) else 0
    most = max(fmt.width_of(choice.detail) for choice in choices)
    wide = max(fmt.width_of(choice.title) for choice in choices) + 2
    wide = min(wide, max(cells // 2, cells - 2 - letters - most))
    room, name = cells - 2 - letters - wide, wide - 2

    def drawn(choice: Choice, selected: bool) -> list[Line]:
        head = line(fmt.POINTER[selected], (fmt.left(choice.letter, letters), "key"))
        title, detail = fmt.inert(choice.title), fmt.inert(choice.detail)
        fits = fmt.width_of(title) <= (name if detail else cells - 3) and fmt.width_of(detail) <= room
        if (selected or len(choices) <= _FEW) and not fits:
            aligned = fmt.width_of(title) <= name  # then the detail is below those of the other rows
            text = fmt.left(title, wide) if aligned else f"{title}  "
            indent = width(head) + (wide if aligned else choice.indent)
            rows = wrapped(line(*head, text, (detail, "dim")), cells - 1, indent)
            if len(rows) > _MOST:
                rows[_MOST - 1 :] = [fit((*rows[_MOST - 1], *rows[_MOST]), cells - 1)]
            return rows
        shown = f"{fmt.left(fmt.path(title, name), name)}  " if detail else fmt.crop(title, cells - 3)
        return [line(*head, shown, (fmt.crop(detail, room), "dim"))]

    return above, [drawn(choice, at == cursor) for at, choice in enumerate(choices)]


def _sectioned(choices: Sequence[Choice], at: int, cells: int, selected: bool) -> list[Line]:
    choice, before = choices[at], choices[at - 1].section if at else ""
    section = choice.section if choice.section != before else ""
    head = line(fmt.POINTER[selected], (fmt.left(section, SECTION), "strong"))
    end = line((f" {choice.detail} ", "key"))
    start = line(*head, fmt.inert(choice.title))
    first, *more = wrapped(start, cells - width(end), width(head)) if selected else [start]
    return [spread(first, end, cells), *more]
