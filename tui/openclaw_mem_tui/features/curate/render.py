"""Curation as lines: the budget of MEMORY.md, one row each for candidates and files, and everything about the
selected one: evidence, change and effect, or the text with its cut line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openclaw_mem_engine.api import BUDGET_LINES, BUDGET_SEVERITY, byte_size, masked_diff, never_shown
from openclaw_mem_tui.bindings import key
from openclaw_mem_tui.features.curate.presenter import REJECTED, CurateState
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.damage import in_full
from openclaw_mem_tui.render.spans import (
    Details,
    Line,
    Span,
    brief,
    diff_lines,
    fit,
    hanging,
    keyed,
    line,
    spoken,
    width,
    wrapped,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openclaw_mem_engine.api import Budget, FileUse, NoteCandidate, NoteEdit

#: Mark and role by kind, and for the filter its letter and meaning; the mark alone tells urgent ones from
#: advice.
KINDS = {
    "secret": ("✗", "bad", "s", "lines that look like credentials"),
    "outdated": ("!", "warn", "o", "a later dated note gives another value"),
    "duplicate": ("=", "warn", "d", "entries that repeat another one"),
    "over-budget": ("▼", "warn", "b", "sections to move out of a MEMORY.md that is too long"),
    "recalled": ("+", "good", "c", "entries of old logs that are retrieved often"),
    "repeated": ("+", "good", "r", "what several daily logs say"),
    "unshown": ("i", "dim", "h", "text that can never appear in a search result"),
}
_KIND, _SEARCHES = 12, 9
#: Of what exceeds the budget, as in the list of the doctor.
_OVER_BUDGET = fmt.SEVERITIES[BUDGET_SEVERITY][1]
#: Most cells past the mark of a gauge.
_OVER = 4
#: Lines of MEMORY.md and of a change that are drawn.
_MOST_LINES = 3_000


# -- the top ----------------------------------------------------------------------------------------------


def facts(state: CurateState, waits: Line, cells: int, *, brief: bool = False) -> list[Line]:
    """The budget of MEMORY.md, and the agent's searches; ``brief``: they are in the status line. Then what
    ``waits`` for the index: before the notes were read, all."""
    material = state.material
    if material is None and waits and not state.reading:
        return [*wrapped((Span(" "), *waits), cells), ()]
    if material is None:
        said = " The notes could not be read." if state.trouble else " The notes are being read."
        return [line((said, "dim")), ()]
    budget = material.budget
    if budget.unread:
        first = line((f" {fmt.inert(budget.unread)}", "bad"))
    elif not budget.path:
        first = keyed(f" There is no MEMORY.md yet: `{key('remember')}` writes its first entry.", "warn")
    else:
        head = line((f" {fmt.inert(budget.path)}", "strong"))
        cut = line((f"  cut after line {budget.cut_after:,}" if budget.cut_after else "", _OVER_BUDGET))
        gauges = _sizes(budget)
        sizes = (24, 16, 12, 8, 0)
        lines = [(*head, *(s for one in gauges for s in _gauge(*one, bars)), *cut) for bars in sizes]
        first = next((made for made in lines if width(made) < cells), fit(lines[-1], cells))
    share, second = material.hidden_share, f" {material.searches_sentence}"
    hidden = f" · {never_shown(share, 'MEMORY.md')}" if share else ""
    second += hidden if fmt.width_of(second + hidden) <= cells else ""
    way = f"{second}; `{key('open_note')}` on MEMORY.md shows it" * second.endswith(hidden or " ")
    said = way if way and fmt.width_of(way) <= cells else fmt.crop(second, cells)
    lines = [first] if brief else [first, keyed(said)]
    lines += wrapped((Span(" "), *waits), cells - 1, 1) if waits else []
    for note in material.unread[:2]:
        lines += wrapped(line((f" ! {fmt.message(note)}", "warn")), cells, 3)[:2]
    return lines


def _sizes(budget: Budget) -> tuple[tuple[str, int, int], ...]:
    """The lines and the characters of MEMORY.md in words, and the numbers to compare."""
    return (
        (f"{fmt.count(budget.lines, 'line')} ({BUDGET_LINES} advised)", budget.lines, BUDGET_LINES),
        (f"{budget.characters:,} of {budget.limit:,} characters", budget.characters, budget.limit),
    )


def _gauge(words: str, number: int, limit: int, bars: int) -> Line:
    """How much of a limit is used: ``bars`` cells are all of it, what is over is past its mark. Without
    cells the words alone."""
    over = number > limit
    said = line(f"   {words}" if not over else ("   " + words, f"{_OVER_BUDGET} strong"))
    if not bars:
        return said
    used = max(number > 0, min(bars, round(number / limit * bars)))
    past = max(over, min(_OVER, round((number - limit) / limit * bars)))
    empty, mark = ("─" * (bars - used), "faint"), ("┃", _OVER_BUDGET if over else "dim")
    return (*said, *line((" " + "━" * used, "sum"), empty, mark, ("━" * past, _OVER_BUDGET)))


def status(state: CurateState, position: str, cells: int, *, counted: bool = False) -> Line:
    """What went wrong, was said last, or runs; else the ``position`` in the list, and where it is ``counted``
    here the agent's searches."""
    measuring = "measuring the effect on a copy …" if state.measuring else ""
    runs = "reading notes …" if state.reading else measuring
    idle = not (state.trouble or state.said or runs)
    there = f"{state.material.searches_sentence} " if counted and idle and state.material else ""
    shown = spoken(state.trouble, in_full(state.said), runs, position)
    room = cells - fmt.width_of(there)
    return (*brief(shown, room), Span(there, "dim")) if width(shown) < room else brief(shown, cells)


# -- rows -------------------------------------------------------------------------------------------------


def candidate_row(candidate: NoteCandidate, cells: int, selected: bool) -> list[Line]:
    """Kind and title, which is wrapped."""
    mark, role, *_ = KINDS[candidate.kind]
    row = line(
        fmt.POINTER[selected],
        (f"{mark} ", role),
        (fmt.left(candidate.kind, _KIND) + " ", ""),
        (fmt.inert(candidate.title), "" if selected else "dim"),
    )
    return wrapped(row, cells - 1, 5 + _KIND)


def file_row(now: float, file: FileUse, cells: int, selected: bool) -> Line:
    """Path, size, time of its last change, whether it decays, and how many searches returned it."""
    modified = fmt.day(file.modified, now)
    end = _columns(byte_size(file.bytes), modified, "decays" if file.day else "evergreen", cells)
    path = max(6, cells - 3 - fmt.width_of(end) - _SEARCHES)
    found = (f"{file.searches:,}", "") if file.searches else ("·", "faint")
    return line(
        fmt.POINTER[selected],
        fmt.left(fmt.path(fmt.inert(file.path), path), path),
        (end, "dim"),
        (fmt.right(found[0], _SEARCHES), found[1]),
    )


def _columns(size: str, modified: str, decay: str, cells: int) -> str:
    """What is between the path and the searches, as far as there is room; the details say all of it."""
    modified = f"  {fmt.right(modified, 10)}" if cells >= 50 else ""
    return f" {fmt.right(size, 8)}{modified}" + (f"  {fmt.left(decay, 9)}" if cells >= 66 else "")


def file_head(cells: int) -> Line:
    """Titles of the columns of ``file_row``."""
    end = _columns("size", "modified", "decay", cells)
    path = max(6, cells - 3 - fmt.width_of(end) - _SEARCHES)
    titles = f"  {fmt.left('file', path)}{end}{fmt.right('searches', _SEARCHES)}"
    return line((fmt.crop(titles, cells), "dim"))


# -- details ----------------------------------------------------------------------------------------------


def candidate_detail(state: CurateState, candidate: NoteCandidate | None, cells: int) -> list[Line]:
    """Why, what would change, and what that does; what it is, is in the row of the list, in full."""
    if candidate is None:
        return []
    details = Details(cells)
    say = details.say
    for number, fact in enumerate(candidate.evidence):
        say("" if number else "evidence", fmt.inert(fact))
    material = state.material
    after = material.budget_after(candidate.edits) if material is not None else None
    if after is not None:
        say("MEMORY.md", *budget_after(after))
    say("effect", *_effect(state, candidate))
    lines = details.lines
    if candidate.edits:
        lines += change(candidate.edits, cells)
    return lines


def budget_after(after: Budget) -> list[tuple[str, str]]:
    """The size of MEMORY.md after a change, in words; what exceeds its limit is marked."""
    lines, size = (
        (words, _OVER_BUDGET if number > limit else "good") for words, number, limit in _sizes(after)
    )
    return [("then has ", "dim"), lines, (", ", "dim"), size]


def _effect(state: CurateState, candidate: NoteCandidate) -> list[tuple[str, str]]:
    if not candidate.edits:
        return [("advice only: there is nothing to write", "dim")]
    found = state.effects.get(candidate.edits)
    if found is None:
        if state.measuring == candidate.edits:
            return [("still being measured on a copy …", "dim")]
        if state.hosts:
            sends = f" measures it and sends text to {', '.join(state.hosts)}"
            return [("not measured; ", "dim"), (key("measure"), "key"), (sends, "dim")]
        return [("not measured yet", "dim")]
    if isinstance(found, str):
        return [(fmt.message(found), "warn"), (f" {key('measure')}", "key"), (" measures again", "dim")]
    role = "good" if (found.shown_after, found.mrr_after) >= (found.shown_before, found.mrr_before) else "bad"
    return [(fmt.numbers(fmt.inert(found.sentence)), role if found.judged else "")]


def change(edits: Sequence[NoteEdit], cells: int) -> list[Line]:
    """The unified differences, credentials masked."""
    return diff_lines(masked_diff(edits), cells, _MOST_LINES)


def file_detail(state: CurateState, file: FileUse | None, cells: int) -> list[Line]:
    """One file; of MEMORY.md its text, with the budget and the cut line drawn."""
    material = state.material
    if material is None:
        return []
    if file is None:
        return [line(("No note is selected.", "dim"))]
    details = Details(cells)
    say = details.say
    say("path", (fmt.inert(file.path), "strong"), f"  {byte_size(file.bytes)}")
    say("modified", fmt.clock(file.modified, state.at))
    if file.day:
        say("decay", f"a daily log of {file.day}: temporal decay counts from there")
    else:
        say("decay", "evergreen: temporal decay does not apply")
    number = (
        fmt.count(file.searches, "agent search", "agent searches") if file.searches else "no agent search"
    )
    say("searches", f"{number} returned this note")
    of_it = [recall for recall, _, _ in material.recalled.get(file.path, ())]
    for recall in list(dict.fromkeys(reversed(of_it)))[:5]:
        say("", (f"{recall.day}  ", "dim"), fmt.inert(recall.query))
    lines = details.lines
    if material.memory is not None and file.path == material.memory.path:
        lines += [(), *_cut_lines(state, cells)]
    return lines


def _cut_lines(state: CurateState, cells: int) -> list[Line]:
    """The lines of MEMORY.md with their numbers; a rule where the budget and where the prompt ends."""
    material = state.material
    assert material is not None and material.memory is not None
    budget, made = material.budget, list[Line]()
    texts = fmt.inert_lines(material.memory.masked.rstrip())
    for number, text in enumerate(texts[:_MOST_LINES], 1):
        cut = budget.cut_after is not None and number > budget.cut_after
        over = cut or number > BUDGET_LINES
        head = Span(f"{number:5} ", "faint")
        for row in hanging(line((text, "dim" if over else "")), max(8, cells - 7)):
            made.append((head, *row))
            head = Span(" " * 6)
        if number == budget.cut_after:
            made.append(_rule("truncated: the agent gets only the last part", _OVER_BUDGET, cells))
        if number == BUDGET_LINES and len(texts) > number:
            made.append(_rule(f"{number} lines: the rest is over the budget", _OVER_BUDGET, cells))
    if len(texts) > _MOST_LINES:
        made.append(line((f"… {len(texts) - _MOST_LINES:,} more lines", "dim")))
    return made


def _rule(text: str, role: str, cells: int) -> Line:
    room = max(0, cells - 1)
    said = fmt.crop(f"── {text} ", room)
    return line((said + "─" * (room - fmt.width_of(said)), role))


def nothing(state: CurateState, cells: int) -> tuple[list[Line], list[Line]]:
    """What the list of proposals says instead of rows: why there is none."""
    if state.material is None or state.found:
        return [], []
    if state.group == REJECTED:
        text = "No proposal was rejected."
    elif state.group:
        text = f"No proposal is of the kind {state.group}. `{key('which')}` shows others."
    elif state.rejects:
        text = f"No proposals. `{key('which')}` shows the rejected ones."
    elif (budget := state.material.budget).path and not budget.exceeded:
        text = f"No proposals: nothing outdated, repeated or too long was found in {fmt.inert(budget.path)}."
    else:
        text = "No proposals."
    return wrapped(keyed(f" {text}"), cells - 1, 1), []


# -- dialogs ----------------------------------------------------------------------------------------------


def question(state: CurateState, candidate: NoteCandidate, cells: int) -> list[Line]:
    """What is written when the answer is yes."""
    made: list[Line] = []
    for edit in candidate.edits:
        made += wrapped(line((fmt.inert(edit.summary()), "strong")), cells)
    made += wrapped(line(("effect: ", "dim"), *_effect(state, candidate)), cells)
    return [*made, (), *change(candidate.edits, cells)]


def undoing(edits: Sequence[NoteEdit], cells: int) -> list[Line]:
    """What an undo changes."""
    made: list[Line] = []
    for edit in edits:
        said = line((fmt.inert(edit.reason), "strong"), (f"  {fmt.inert(edit.summary())}", "dim"))
        made += wrapped(said, cells)
    return [*made, (), *change(edits, cells)]
