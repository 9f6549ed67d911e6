"""The rows of what can be picked from: one line each, and the selected one in full. No Textual here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.spans import Line, fit, line, spread, width, wrapped

#: Cells of the name of a section.
SECTION = 11
#: Lines of the selected row.
_MOST = 5


class Choice(NamedTuple):
    """``key`` is returned; a ``letter`` picks it at once. Those of a ``section`` are under its name, with
    their ``detail`` at the right edge."""

    key: str
    title: str
    detail: str = ""
    letter: str = ""
    section: str = ""


def choice_rows(
    choices: Sequence[Choice], empty: str, cells: int, cursor: int, about: str = ""
) -> tuple[list[Line], list[list[Line]]]:
    """What is above the rows, with what there is to know ``about`` them, and the lines of each."""
    said = [about, *([] if choices else [empty])]
    above = [row for text in said if text for row in wrapped(line((f"  {text}", "dim")), cells - 1, 2)]
    if not choices:
        return above, []
    if any(choice.section for choice in choices):
        return above, [[row] for row in _sectioned(choices, cells, cursor)]
    letters = 3 if any(choice.letter for choice in choices) else 0
    wide = min(max(fmt.width_of(choice.title) for choice in choices) + 2, cells * 3 // 5)
    room, name = cells - 2 - letters - wide, wide - 2

    def drawn(choice: Choice, selected: bool) -> list[Line]:
        head = line(("▌ " if selected else "  ", "accent"), (fmt.left(choice.letter, letters), "key"))
        title, detail = fmt.inert(choice.title), fmt.inert(choice.detail)
        fits = fmt.width_of(title) <= (name if detail else cells - 3) and fmt.width_of(detail) <= room
        if selected and not fits:
            aligned = fmt.width_of(title) <= name  # then the detail is below those of the other rows
            text = fmt.left(title, wide) if aligned else f"{title}  "
            indent = width(head) + wide * aligned
            rows = wrapped(line(*head, text, (detail, "dim")), cells - 1, indent)
            if len(rows) > _MOST:
                rows[_MOST - 1 :] = [fit((*rows[_MOST - 1], *rows[_MOST]), cells - 1)]
            return rows
        shown = f"{fmt.left(title, name)}  " if detail else fmt.crop(title, cells - 3)
        return [line(*head, shown, (fmt.crop(detail, room), "dim"))]

    return above, [drawn(choice, at == cursor) for at, choice in enumerate(choices)]


def _sectioned(choices: Sequence[Choice], cells: int, cursor: int) -> Iterator[Line]:
    before = ""
    for at, choice in enumerate(choices):
        section = choice.section if choice.section != before else ""
        before = choice.section
        mark = ("▌ " if at == cursor else "  ", "accent")
        start = line(mark, (fmt.left(section, SECTION), "strong accent"), fmt.inert(choice.title))
        yield spread(start, line((f" {choice.detail} ", "key")), cells)
