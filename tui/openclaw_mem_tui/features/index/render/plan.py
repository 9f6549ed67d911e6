"""What is about to be done, before it is done: a rebuild, a fix."""

from __future__ import annotations

from openclaw_mem_engine.api import DoctorReport, Plan, PlannedSpace
from openclaw_mem_tui.features.providers.render.chain import dollars
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.spans import Line, Span, line, wrapped


def rebuild(plan: Plan, cells: int) -> list[Line]:
    """What a rebuild reads, embeds and costs."""
    files, chunks = fmt.count(plan.files, "file"), fmt.count(plan.chunks, "chunk")
    made = wrapped(line(f"{files} are read again, and a new index is built from {chunks}."), cells)
    if plan.rebuild and plan.rebuild != "asked for":
        made += wrapped(line(("because ", "dim"), fmt.inert(plan.rebuild)), cells)
    kept = "Searches go on in the old index until the new one is ready. While it is built, esc aborts it."
    made += [*wrapped(line((kept, "dim")), cells), ()]
    for space in plan.spaces:
        made += wrapped(_space(space), cells, 2)
    if not plan.spaces:
        made += wrapped(line("Nothing is embedded: keywords alone."), cells)
    if plan.skipped:
        made += wrapped(line((f"{fmt.count(len(plan.skipped), 'file')} left out.", "warn")), cells)
    return made


def _space(space: PlannedSpace) -> Line:
    parts = [Span(fmt.inert(space.space.label), "strong")]
    parts.append(Span(f": {fmt.count(space.texts, 'text')} to embed, {space.cached:,} from the cache"))
    if space.place and space.texts:
        parts.append(Span(f"; they are sent to {fmt.inert(space.place)}", "warn"))
    elif not space.place:
        parts.append(Span("; stays on this machine", "dim"))
    if space.texts and space.usd:
        parts.append(Span(f", about {fmt.count(space.tokens, 'token')}, {dollars(space.usd)}", "warn"))
    elif space.texts and space.usd is None:
        parts.append(Span(f", about {fmt.count(space.tokens, 'token')}, price unknown", "warn"))
    if space.why_not:
        parts.append(Span(f"; not possible now: {fmt.inert(space.why_not)}", "bad"))
    return tuple(parts)


def fixing(report: DoctorReport, cells: int) -> list[Line]:
    """What ``f`` would fix."""
    made: list[Line] = []
    for finding in report.fixable:
        made += wrapped(line(("· ", "accent"), fmt.inert(finding.text)), cells, 2)
    kept = "It is made again from what is on this machine. Notes are not touched, nothing is sent."
    return [*made, (), *wrapped(line((kept, "dim")), cells)]
