"""What the doctor found, and what it looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openclaw_mem_engine.api import INDEX, REBUILD, VERIFY, Check, DoctorReport, Finding
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.spans import Line, Span, labelled, line, spread, width, wrapped

if TYPE_CHECKING:
    from openclaw_mem_tui.features.index.presenter import HealthLook

#: Mark and role of each severity: never told by colour alone.
_SEVERITIES = {"error": ("✗", "bad"), "warning": ("!", "warn"), "info": ("i", "dim")}
#: The key of this screen that does what a command does.
_KEYS = {INDEX: "y", VERIFY: "v", REBUILD: "Y"}
_CHECK = 17
_LABEL = 9


def key_of(finding: Finding) -> str:
    """The key that repairs it; "" when none does."""
    return "f" if finding.fixable else _KEYS.get(finding.repair, "")


def item_row(item: Finding | Check, cells: int, selected: bool) -> Line:
    """One finding, or one check, in a line; the key that repairs it at the right."""
    bar = ("▌ " if selected else "  ", "accent")
    cells -= 1  # the scroll bar touches no text
    if isinstance(item, Finding):
        mark, role = _SEVERITIES[item.severity]
        key = key_of(item)
        end = line((f" {key}", "key")) if key else ()
        text = fmt.crop(fmt.inert(item.text), cells - 4 - width(end))
        return spread(line(bar, (f"{mark} ", f"strong {role}"), text), end, cells)
    mark, role = ("✓ ", "good") if item.ok else ("✗ ", "bad")
    name = fmt.left(fmt.inert(item.name), _CHECK)
    return line(bar, (mark, role), (name + " ", "" if item.ok else "strong"), _cropped(item.detail, cells))


def _cropped(detail: str, cells: int) -> tuple[str, str]:
    return fmt.crop(fmt.inert(detail), max(0, cells - 5 - _CHECK)), "dim"


def item_detail(item: Finding | Check | None, cells: int) -> list[Line]:
    """Everything about one finding or check; every text in full."""
    if item is None:
        return wrapped(line(("The doctor has not looked yet: d lets it.", "dim")), cells)
    made: list[Line] = []

    def say(label: str, *parts: Span | tuple[str, str] | str) -> None:
        made.extend(labelled(label, line(*parts), cells - 1, _LABEL))

    if isinstance(item, Check):
        say(
            "check",
            fmt.inert(item.name),
            (" · ok" if item.ok else " · not well", "good" if item.ok else "bad"),
        )
        say("seen", fmt.inert(item.detail))
        return made
    mark, role = _SEVERITIES[item.severity]
    say("finding", (f"{mark} {item.severity}", f"strong {role}"), (f" · {item.code}", "dim"))
    say("what", fmt.inert(item.text))
    for at, evidence in enumerate(item.evidence):
        say("" if at else "evidence", (fmt.inert(evidence), "dim"))
    key = key_of(item)
    if item.fixable:
        say("fix", (key, "key"), " from what is on this machine; notes are not touched")
    elif key:
        say("fix", (key, "key"))
    if item.repair:
        say("command", (fmt.inert(item.repair), "dim"))
    if not item.fixable and not item.repair:
        say("fix", ("nothing need be done", "dim"))
    return made


def title(look: HealthLook) -> str:
    """Over the list, as markup of our own."""
    report = look.report
    if report is None:
        return "doctor"
    return fmt.join(("doctor", *_counted(report), "deep" if report.deep else ""))


def _counted(report: DoctorReport) -> tuple[str, ...]:
    """Errors and warnings in their colours, or that there are none."""
    warnings = sum(finding.severity == "warning" for finding in report.findings)
    errors = f"[$error]{fmt.count(report.errors, 'error')}[/]" if report.errors else ""
    told = f"[$warning]{fmt.count(warnings, 'warning')}[/]" if warnings else ""
    return (errors, told) if errors or told else (f"healthy, {fmt.count(len(report.checks), 'check')}",)


def subtitle(look: HealthLook) -> str:
    """Under the list: when the doctor looked, and the keys."""
    report = look.report
    if report is None:
        return "d looks"
    fixes = f" · f fixes {len(report.fixable)}" if report.fixable else ""
    when = "before the last sync" if look.stale else f"at {fmt.clock(look.examined_at, look.at)}"
    return f"looked {when} · d again{fixes}"
