"""The doctor: its findings and checks, and what a repair would do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from openclaw_mem_engine.api import CLOSED, Check, DoctorReport, FileRow, Finding
from openclaw_mem_tui.bindings import action
from openclaw_mem_tui.bindings import key as key_of
from openclaw_mem_tui.features import SCREENS
from openclaw_mem_tui.features.index.presenter import named
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.spans import (
    Details,
    Line,
    Span,
    clauses,
    fit,
    keyed,
    line,
    text_of,
    width,
    wrapped,
)

if TYPE_CHECKING:
    from openclaw_mem_tui.features.index.presenter import IndexState


def action_of(finding: Finding) -> str:
    """The action that repairs it, or shows what it is about; "" when none does."""
    if finding.fixable:
        return "repair"
    command = finding.repair.split()[1:2] if finding.repair.startswith("openclaw-mem ") else []
    screen = next((f"show_{entry.name}" for entry in SCREENS if [entry.name] == command), "")
    return fmt.COMMAND_ACTIONS.get(finding.repair, screen)


def repairable(report: DoctorReport | None) -> list[Finding]:
    """The findings that the key for it repairs."""
    return [] if report is None else [found for found in report.findings if action_of(found) == "repair"]


def rebuilds(findings: Iterable[Finding]) -> bool:
    """Whether one of those that the key repairs takes a new index."""
    by_key = (found for found in findings if action_of(found) == "repair")
    return any(found.replaces or not found.fixable for found in by_key)


def file_of(finding: Finding, rows: Sequence[FileRow]) -> FileRow | None:
    """The first file that its evidence names: alone, with lines or with a text."""
    by_path = {row.path: row for row in rows}
    return next((by_path[path] for path in named(finding) if path in by_path), None)


#: Findings on what the screen of the chunks marks line by line.
_OF_CHUNKS = ("unshown",)
#: A row of the list: a finding, a check that failed, or all without findings.
Item: TypeAlias = Finding | Check | tuple[Check, ...]


def item_rows(item: Item, cells: int, selected: bool) -> list[Line]:
    """One finding with the key that repairs it, one check that failed, or all without findings: two lines at
    most, one in a wide list; the details have all of it."""
    bar = fmt.POINTER[selected]
    cells -= 1  # the scroll bar touches no text
    if isinstance(item, tuple):
        return [line(bar, ("✓ ", "good"), f"{fmt.count(len(item), 'check')} without findings")]
    if isinstance(item, Finding):
        mark, role = fmt.SEVERITIES[item.severity]
        text = line(bar, (f"{mark} ", f"strong {role}"), *_short(item))
        return _cut(text, _repair(item), cells)
    mark, role = fmt.SEVERITIES[item.worst]
    name = (fmt.inert(item.name), "strong")
    return _cut(line(bar, (f"{mark} ", role), name, (f": {fmt.inert(item.detail)}", "dim")), (), cells)


#: From so many cells on, a row of the list is one line.
_WIDE = 60


def _cut(text: Line, end: Line, cells: int) -> list[Line]:
    """As many whole clauses of ``text`` as there is room for, else words, with an ellipsis where some are
    left, and all of ``end``."""
    rows = wrapped((*text, *end), cells, 4)
    if len(rows) <= (1 if cells >= _WIDE else 2):
        return rows
    room = max(8, cells - width(end))
    made = list[Line]()
    if cells < _WIDE:
        first, *more = wrapped(text, cells, 4)
        made.append(first)
        text = (Span("   "), *(part for row in more for part in (Span(" "), *row[1:])))
    kept = clauses(text, room - 2) or wrapped(text, room - 2)[0]
    whole = (*kept, Span(" …", "dim")) if text_of(kept).strip() else text  # one word that is too long
    return [*made, (*fit(whole, room), *end)]


def _repair(finding: Finding) -> Line:
    """``F repair``, as at the bottom of the screen; the key stays with its word when the line is wrapped. Of
    what the screen of the chunks marks, the key that opens that."""
    name = action_of(finding)
    if not name and finding.code in _OF_CHUNKS:
        return line("  ", (key_of("chunks"), "key"), ("\xa0open", "dim"))
    return line("  ", (key_of(name), "key"), (f"\xa0{action(name).footer}", "dim")) if name else ()


def _short(finding: Finding) -> Line:
    """The first sentence, which of an info ends with what it is about; the pane beside has all of it."""
    first, more, _ = fmt.message_here(finding.text).partition(". ")
    if finding.severity == "info" and finding.evidence:
        return line(f"{first.removesuffix('.')}: ", (", ".join(map(_named, finding.evidence)), "dim"))
    return line(f"{first}." if more else first)


def _named(evidence: str) -> str:
    """``memory/shared.md (a link)``: a path and its reason in short."""
    path, _, why = fmt.inert(evidence).partition(": ")
    return f"{path} ({why.partition(';')[0].removeprefix('is ')})" if why else path


def item_detail(item: Item | None, cells: int) -> list[Line]:
    """Everything about one finding or check that its row in the list, as wide as this, does not say."""
    if item is None:
        return wrapped(keyed(f"Not checked yet: `{key_of('examine')}` runs the checks."), cells)
    details = Details(cells)
    say = details.say
    if isinstance(item, tuple):
        for check in item:
            details.lines.extend(
                wrapped(
                    line(("✓ ", "good"), f"{fmt.inert(check.name)}: ", (fmt.inert(check.detail), "dim")),
                    cells,
                    2,
                )
            )
        return details.lines
    if isinstance(item, Check):
        mark, role = fmt.SEVERITIES[item.worst]
        say("check", fmt.inert(item.name), (f" · {mark} {item.worst}", f"strong {role}"))
        say("result", fmt.inert(item.detail))
        return details.lines
    mark, role = fmt.SEVERITIES[item.severity]
    text = fmt.message_here(item.text)
    row = " ".join(" ".join(map(text_of, item_rows(item, cells, False))).split())
    # Its name, where the list has the whole text.
    say(Span(f"{mark} {item.severity}", f"strong {role}"), item.code if text in row else text)
    for at, evidence in enumerate(item.evidence):
        say("" if at else "evidence", (fmt.inert(evidence), "dim"))
    name = action_of(item)
    if name:
        how = " repairs this; notes are not changed" if item.fixable else f" {action(name).footer}"
        how = " builds a new index; notes are not changed" if rebuilds([item]) else how
        say("shows it" if name.startswith("show_") else "repair", (key_of(name), "key"), how)
    if item.repair:
        say("command", (fmt.message_here(item.repair), "dim"))
    elif not name and item.severity == "info":
        say("repair", ("none needed", "dim"))
    return details.lines


def title(state: IndexState, damaged: bool) -> str:
    """Title of the list, as markup of our own."""
    report = state.report
    if report is None:
        return "doctor"
    if damaged and not report.errors:
        return "doctor · [$warning]before the damage[/]"
    warnings = sum(finding.severity == "warning" for finding in report.findings)
    parts = [
        f"[$error]{fmt.count(report.errors, 'error')}[/]" if report.errors else "",
        f"[$warning]{fmt.count(warnings, 'warning')}[/]" if warnings else "",
    ]
    if any(finding.code == "not-there" for finding in report.findings):
        parts.append("no index")
    elif not any(parts):
        parts = [f"healthy, {fmt.count(len(report.checks), 'check')}"]
    return fmt.join(("doctor", *parts, "deep" if report.deep else ""))


def subtitle(state: IndexState) -> str:
    """Below the list: when it was last checked."""
    report = state.report
    if report is None:
        return "not checked yet"
    when = "before the index changed" if state.stale else fmt.clock(state.examined_at, state.at)
    return f"last checked {when}"


def around_nothing(cells: int) -> tuple[list[Line], list[Line]]:
    """What the list says of an index that cannot be opened, before anything was checked."""
    text = "The index cannot be opened."
    return wrapped(line((text, "dim")), cells, 0), []


def repairs(found: Sequence[Finding], cells: int) -> list[Line]:
    """What is repaired without a new index."""
    note = "Notes and the content of the index are not changed; nothing is sent."
    rows = items((finding.text for finding in found), cells)
    closed = [path for finding in found if finding.code in CLOSED for path in finding.evidence]
    if closed:
        rows += [(), *wrapped(line("The repair gives this user access to:"), cells), *items(closed, cells)]
    return [*rows, (), *wrapped(line((note, "dim")), cells)]


def items(texts: Iterable[str], cells: int) -> list[Line]:
    """Each of these texts, with a mark."""
    marked = [line(("· ", "accent"), fmt.message_here(text)) for text in texts]
    return [row for each in marked for row in wrapped(each, cells, 2)]
