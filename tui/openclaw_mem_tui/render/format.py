"""Numbers, arrows, bars and foreign text as characters on a screen. Pure: no Textual, no I/O.

Text of notes is data. ``inert`` is the one gate that it passes on its way to the screen.
"""

from __future__ import annotations

import re
import time
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from rich.cells import cell_len, set_cell_size

from openclaw_mem_engine.api import DOCTOR, FIX, INDEX, PRUNE, REBUILD, VERIFY, advice, counted, visible_line
from openclaw_mem_tui.bindings import key, reach

#: No more characters than this of one line are ever looked at for display.
LINE_LIMIT = 4_000

#: Mark and role of each severity of a finding: never distinguished by colour alone.
SEVERITIES = {"error": ("✗", "bad"), "warning": ("!", "warn"), "info": ("i", "dim")}
#: Mark and role of work that did not end as it should.
ENDED = {"failed": ("✗", "bad"), "stopped": ("!", "warn"), "killed": ("!", "warn")}
#: What is left of a row by whether it is selected, with its role.
POINTER = ("  ", "accent"), ("▌ ", "accent")
_EIGHTHS = ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")
# Combining marks in a row that are still writing; more is a drawing over the neighbouring rows.
_MARKS_IN_A_ROW = 3

# On a screen of cells: tabs become blanks; joiners and the emoji variation selectors only make widths
# uncertain, and without them the same signs are drawn.
_ON_SCREEN = str.maketrans({"\t": "    ", "\u200c": "", "\u200d": "", "\ufe0e": "", "\ufe0f": ""})


def inert(text: str, limit: int = LINE_LIMIT) -> str:
    """One line in which every character is seen and none acts.

    Control characters (escape sequences, C1), bidirectional and zero-width controls, lone surrogates and
    unassigned code points become visible notation (``^[``, ``<U+202E>``); a newline becomes ``⏎``; what is
    past ``limit`` characters is replaced by a count.
    """
    cut = len(text) - limit
    if cut > 0:
        text = text[:limit]
    if not (text.isascii() and text.isprintable()):
        text = _tame_marks(visible_line(text).translate(_ON_SCREEN))
    return f"{text} … {cut:,} more characters" if cut > 0 else text


#: What begins after so many characters of a message, a line may not show.
_IN_SIGHT = 48
#: Actions of the index screen that do what a command does.
COMMAND_ACTIONS = {
    INDEX: "sync_now",
    VERIFY: "verify",
    REBUILD: "repair",  # where something is wrong with the index
    PRUNE: "prune",
    FIX: "repair",
    DOCTOR: "examine",
}


def _actions(text: str) -> dict[str, str]:
    """The actions for commands in a message: a rebuild is a repair only of what is damaged."""
    return COMMAND_ACTIONS if "damaged" in text else COMMAND_ACTIONS | {REBUILD: "rebuild"}


def message(text: str, limit: int = LINE_LIMIT) -> str:
    """A message of the engine, inert, with keys instead of the commands that they do. Keys that it names late
    are also its first words, so that no cut of a line hides them."""
    late = [name for command, name in _actions(text).items() if text.find(f"`{command}`") > _IN_SIGHT]
    keys = inert(" or ".join(dict.fromkeys(reach(name, "index") for name in late)))
    return f"{keys and f'{keys}: '}{message_here(text, limit, partial(reach, screen='index'))}"


def message_here(text: str, limit: int = LINE_LIMIT, named: Callable[[str], str] = key) -> str:
    """A message on the index screen: its keys instead of the commands that they do, and the other commands
    with the options that chose this index."""
    for command, name in _actions(text).items():
        for run, press in (("Run ", "Press "), ("run ", "press "), ("", "")):
            text = text.replace(f"{run}`{command}`", f"{press}{named(name)}")
    return numbers(inert(advice(text), limit))


def with_reason(text: str, why: str) -> str:
    """``A search failed. The index is damaged.``: what failed, and the first sentence of ``why``."""
    first = message_here(why).partition(". ")[0].removesuffix(".")
    return f"{inert(text)} {first}." if first else inert(text)


def inert_lines(text: str, limit: int = LINE_LIMIT) -> list[str]:
    """The lines of a text (they end at ``\\n``; a ``\\r`` before it is dropped), each inert."""
    return [inert(line.removesuffix("\r"), limit) for line in text.split("\n")]


def _tame_marks(text: str) -> str:
    kept: list[str] = []
    marks = 0
    for char in text:
        marks = marks + 1 if unicodedata.combining(char) else 0
        if marks <= _MARKS_IN_A_ROW:
            kept.append(char)
    return "".join(kept)


# -- widths -----------------------------------------------------------------------------------------------


#: Cells that a text takes on a terminal.
width_of = cell_len


def crop(text: str, width: int) -> str:
    """The text, or its beginning with an ellipsis, in at most ``width`` cells."""
    if cell_len(text) <= width:
        return text
    if width <= 0:
        return ""
    return set_cell_size(text, width - 1).rstrip() + "…"


def crop_left(text: str, width: int) -> str:
    """The text, or its end after an ellipsis, in at most ``width`` cells (paths: the end says most)."""
    return crop(text[::-1], width)[::-1]


def location(text: str, width: int) -> str:
    """``memory/a.md:1-18`` (inert) in at most ``width`` cells: a cut path, and all of its lines."""
    before, colon, lines = text.rpartition(":")
    return path(before, max(1, width - cell_len(colon + lines))) + colon + lines


_WORD = re.compile(r"(?<![^-_ /])[^-_ /]")


def path(text: str, width: int) -> str:
    """A path (inert) in at most ``width`` cells: whole, else with ``…/`` for the folders that there is no
    room for; at last the end of the name after ``…``, from a word of it on. A bare name is that of a file in
    the root."""
    shown, rest = text, text
    while cell_len(shown) > width and "/" in rest:
        rest = rest.partition("/")[2]
        shown = f"…/{rest}"
    if cell_len(shown) <= width:
        return shown
    end = crop_left(text, width)
    word = _WORD.search(text, len(text) - len(end) + 1)
    return f"…{text[word.start() :]}" if word and 2 * (len(text) - word.start()) > width else end


def left(text: str, width: int) -> str:
    """Cropped or padded on the right to exactly ``width`` cells."""
    text = crop(text, width)
    return text + " " * (width - cell_len(text))


def right(text: str, width: int) -> str:
    """Cropped or padded on the left to exactly ``width`` cells."""
    text = crop(text, width)
    return " " * (width - cell_len(text)) + text


# -- numbers ----------------------------------------------------------------------------------------------


def score(value: float | None, digits: int = 3) -> str:
    """``.851``, ``1.000``, ``−.050``; a middle dot where there is none."""
    if value is None:
        return "·"
    text = f"{abs(value):.{digits}f}".removeprefix("0")
    return f"−{text}" if value < 0 and text.strip(".0") else text


def signed(value: float, digits: int = 3) -> str:
    """``+.567``, ``−.099``, ``±.000``."""
    text = score(abs(value), digits)
    if not text.strip(".0"):
        return f"±{text}"
    return f"{'−' if value < 0 else '+'}{text}"


def summands(parts: Sequence[float], total: float, digits: int = 3) -> list[float]:
    """The parts of a total, rounded so that they add up to the rounded total: each to the nearest, and then
    the last digit of those that rounding changed most."""
    unit = 10**digits
    shown = [round(part * unit) for part in parts]
    missing = round(total * unit) - sum(shown)
    sign = 1 if missing > 0 else -1
    most = sorted(range(len(parts)), key=lambda at: sign * (shown[at] - parts[at] * unit))
    for at in most[: abs(missing)]:
        shown[at] += sign
    return [number / unit for number in shown]


def ranked(rank: int | None) -> str:
    """``#3``, or a middle dot."""
    return "·" if rank is None else f"#{rank}"


def setting(value: float) -> str:
    """A number that was set: ``.35``, ``.375``, ``1.00``; two digits, more only where they say something."""
    text = score(value, 3)
    return text[:-1] if text.endswith("0") else text


def numbers(text: str) -> str:
    """A sentence of the engine with its numbers as everywhere here: ``0.324`` becomes ``.324``,
    ``-0.05`` ``−.05``, ``0.4`` ``.40``, ``min score 0`` ``min score .00``; measures, versions and commands
    stay."""
    text = _WHOLE.sub(lambda m: setting(float(m[0])), text)
    return _NUMBER.sub(lambda m: f"{'−' * len(m[1])}{m[2]:0<3}" if m[2] else m[0], text)


_WHOLE = re.compile(r"(?<=min score )[01]\b(?!\.\d)")
_NUMBER = re.compile(r"`[^`]*`|(?<![\w./:-])(-?)0(\.\d+)(?!\w|\.\w| (?:s|ms|[KMG]B)\b)")


def milliseconds(value: float) -> str:
    """``0.4 ms``, ``17 ms``, ``1.2 s``: as precise as it is of use."""
    if value >= 1000:
        return f"{value / 1000:.1f} s"
    return f"{value:.0f} ms" if value >= 10 else f"{value:.1f} ms"


#: ``1 file``, ``1,904 chunks``.
count = counted


def age(seconds: float) -> str:
    """A length of time in its largest fitting unit: ``3 s``, ``5 min``, ``2 h``, ``12 d``."""
    if seconds < 90:
        return f"{max(0, seconds):.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    if seconds < 36 * 3600:
        return f"{seconds / 3600:.0f} h"
    return f"{seconds / 86400:.0f} d"


def clock(at: float, now: float, seconds: bool = False) -> str:
    """A moment (epoch seconds) in local time: ``14:02``, ``14:02:20``; with its date when not today."""
    today = "%H:%M:%S" if seconds else "%H:%M"
    return _moment(at, now, today, f"%Y-%m-%d {today}")


def day(at: float, now: float) -> str:
    """A moment (epoch seconds) in at most ten cells: ``14:02`` today, else ``2026-03-30``."""
    return _moment(at, now, "%H:%M", "%Y-%m-%d")


def stamp(at: float, now: float, wide: bool = True) -> str:
    """A moment (epoch seconds) in eleven cells: ``   14:02:20`` today, else ``03-30 14:02``; where there is
    no room for them, in five: ``14:02`` or ``03-30``."""
    return _moment(at, now, *(("   %H:%M:%S", "%m-%d %H:%M") if wide else ("%H:%M", "%m-%d")))


def _moment(at: float, now: float, today: str, earlier: str) -> str:
    moment = time.localtime(at)
    return time.strftime(today if moment[:3] == time.localtime(now)[:3] else earlier, moment)


def seconds(value: float) -> str:
    """How long something took: ``0.2 s``, ``12 s``, ``3 min``."""
    return f"{value:.1f} s" if value < 10 else age(value)


def dollars(amount: float) -> str:
    """``$0.13``; small amounts with as many digits as say something."""
    if amount >= 0.1:
        return f"${amount:,.2f}"
    return f"${amount:.4f}" if amount >= 0.0001 else "less than $0.0001"


def arrow(before: int | None, now: int | None) -> str:
    """How a rank changed: ``▲2`` (better), ``▼1``, ``=``, ``new``, ``out``, or nothing when it never was."""
    if now is None:
        return "out" if before is not None else ""
    if before is None:
        return "new"
    if before == now:
        return "="
    return f"▲{before - now}" if before > now else f"▼{now - before}"


# -- bars -------------------------------------------------------------------------------------------------


def bar(start: float, end: float, width: int, fill: str = "█") -> tuple[int, str]:
    """A bar from ``start`` to ``end`` on an axis 0..1 of ``width`` cells: its first cell and its characters.

    The end is exact to an eighth of a cell, the start to a half; what is not zero has at least a sliver.
    """
    low, high = sorted((min(1.0, max(0.0, start)), min(1.0, max(0.0, end))))
    begin, finish = low * width, high * width
    first = min(int(begin), max(0, width - 1))
    if fill != "█":
        cells = max(1, round(finish) - round(begin)) if high > low else 0
        first = min(round(begin), width - cells)
        return first, fill * cells
    if high <= low:
        return first, ""
    offset = begin - first
    head = ""
    if offset >= 0.75:
        first, offset = first + 1, 0.0
    elif offset >= 0.25 and finish >= first + 1:
        head, offset = "▐", 0.0
    room = finish - first - len(head)
    whole, eighths = divmod(round(max(0.0, room) * 8), 8)
    text = head + "█" * int(whole) + _EIGHTHS[int(eighths)]
    return min(first, width - 1), text or "▏"


def join(parts: Iterable[str], separator: str = " · ") -> str:
    """The parts that are not empty."""
    return separator.join(part for part in parts if part)
