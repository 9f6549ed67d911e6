"""The index as a whole: what it is, how it stands, and what goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openclaw_mem_tui.features.index.presenter import HealthLook
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.spans import Line, Span, line, spread, width, wrapped
from openclaw_mem_tui.render.status import SPINNER, Activity, doing

if TYPE_CHECKING:
    from openclaw_mem_engine.inspection import FileState, Overview
    from openclaw_mem_engine.stores.base import Fingerprint

_LABEL = 9
#: How files stand that the next sync reads or forgets.
_WAITING: tuple[FileState, ...] = ("changed", "new", "gone")


def facts(look: HealthLook, activity: Activity, cells: int, short: bool) -> list[Line]:
    """What the index is, in a line or two where there is little room, else in four."""
    overview = look.overview
    if overview is None:
        trouble = look.trouble or (activity.trouble if activity.phase == "failed" else "")
        mark = (" ✗ ", "bad") if trouble else (" ◐ ", "accent")
        return wrapped(line(mark, fmt.inert(trouble or "The index is being read.")), cells - 1, 3)
    unsure = _unsure(look, activity)
    if short:
        state = line("  ", *(unsure or _in_short(look, overview)), " ")
        made = [spread((Span(" "), *_fitting(_held(overview), cells - width(state) - 1)), state, cells)]
        if overview.differences:
            made.append(spread((), _agrees(overview), cells))
        return made
    sizes, agrees = line(*_sizes(look, overview), " "), line(*_agrees(overview), " ")
    path = fmt.crop_left(fmt.inert(str(overview.path)), max(8, cells - _LABEL - width(sizes) - 4))
    return [
        spread(_row("index", line(path)), sizes, cells),
        spread(_row("built", _built(overview)), agrees, cells),
        spread(_row("holds", _fitting(_held(overview), cells - _LABEL - 2)), (), cells),
        spread(_row("state", unsure or _state(look, overview)), (), cells),
    ]


def _row(label: str, parts: Line) -> Line:
    return (Span(" " + fmt.left(label, _LABEL), "dim"), *parts)


def _fitting(parts: Line, cells: int) -> Line:
    """As many whole parts as there is room for."""
    kept: list[Span] = []
    for part in parts:
        if width((*kept, part)) + 1 > cells and kept:
            break
        kept.append(part)
    return tuple(kept)


def _sizes(look: HealthLook, overview: Overview) -> Line:
    fresh = overview.freshness
    synced = "never synced"
    if fresh.synced_at is not None:
        synced = f"synced {fmt.clock(fresh.synced_at, look.at, True)}"
    total = fmt.megabytes(overview.bytes + overview.log_bytes)
    return line((fmt.join((total, f"generation {fresh.generation:,}", synced)), "dim"))


def _held(overview: Overview) -> Line:
    """Each part with its own separator, so that one that does not fit can go."""
    counts = overview.counts
    parts = [Span(fmt.count(counts.files, "file")), Span(f" · {fmt.count(counts.chunks, 'chunk')}")]
    primary = overview.present.space if overview.present is not None else None
    own = next((size.vectors for size in overview.spaces if size.space == primary), 0)
    if primary is not None and primary.provider != "none":
        parts.append(Span(f" · {own:,} of {counts.chunks:,} vectors", "" if own >= counts.chunks else "warn"))
    for size in overview.spaces:
        if size.space != primary:
            parts.append(Span(f" · {size.vectors:,} of {fmt.inert(size.space.label)}", "dim"))
    parts.append(Span(f" · {fmt.count(counts.cached, 'cached embedding')}", "dim"))
    return tuple(parts)


def _built(overview: Overview) -> Line:
    if overview.present is None:
        return line(("with nothing yet", "dim"))
    return line(_fingerprint(overview.present))


def _fingerprint(known: Fingerprint) -> str:
    model = fmt.inert(known.space.label) if known.provider != "none" else "keywords only"
    cut = f"chunks of {known.chunk_tokens} tokens, {known.chunk_overlap} overlap"
    return fmt.join((model, cut, " + ".join(known.sources)))


def _agrees(overview: Overview) -> Line:
    if overview.present is None:
        return ()
    if not overview.differences:
        return line((" = ", "good"), ("as configured", "dim"))
    return line((" ≠ ", "bad"), ("built with other settings: the next sync rebuilds (y) ", "warn"))


def _unsure(look: HealthLook, activity: Activity) -> Line:
    """While a sync is at work, or after a look at the files has failed, nobody knows how it stands."""
    if look.trouble:
        return line(("not known: ", "warn"), "the last look at the files failed")
    if activity.phase == "syncing" and look.overview is not None and not look.overview.number(*_WAITING):
        return line(("being brought up to date", "warn"))
    return ()


def _errors(look: HealthLook) -> Line:
    """What the doctor found that makes answers wrong; empty when there is nothing."""
    report = look.report
    if report is None or not report.errors:
        return ()
    fixable = sum(finding.severity == "error" for finding in report.fixable)
    fix = f" (f fixes {fixable})" if fixable else ""
    return line((f"✗ {fmt.count(report.errors, 'error')}", "strong bad"), (fix, "dim"))


def _in_short(look: HealthLook, overview: Overview) -> Line:
    """How the index stands, in a few words."""
    state = overview.freshness.state
    waiting, out = overview.number(*_WAITING), overview.number("refused", "left-out")
    parts = (f"{waiting:,} to sync (y)" if waiting else "", f"{out:,} left out" if out else "")
    told = fmt.join((state if state != "partial" else "", *parts))
    errors = _errors(look)
    return line(*errors, (" · " if errors else "", "faint"), (told, "good" if state == "fresh" else "warn"))


def _state(look: HealthLook, overview: Overview) -> Line:
    """Errors first; then fresh, or what is not and since when."""
    fresh = overview.freshness
    if fresh.state == "empty":
        return line(("empty", "warn"), (": y builds the index", "dim"))
    waiting = overview.number(*_WAITING)
    out = overview.number("refused", "left-out")
    parts: list[Span] = [*_errors(look)]
    if parts:
        parts.append(Span(" · ", "faint"))
    if fresh.state == "stale":
        since = f" since {fmt.clock(fresh.stale_since, look.at, True)}" if fresh.stale_since else ""
        parts.append(Span(f"stale{since}", "warn"))
        if waiting:
            parts.append(Span(f": {fmt.count(waiting, 'file')} to sync (y)"))
        elif overview.differences:
            parts.append(Span(f": {'; '.join(map(fmt.inert, overview.differences))}"))
    else:
        parts.append(Span("fresh", "good"))
    if out:
        parts += [Span(" · ", "faint"), Span(f"{fmt.count(out, 'file')} left out", "warn")]
    return tuple(parts)


# -- the bottom -------------------------------------------------------------------------------------------


def status(look: HealthLook, activity: Activity, told: str, cells: int, frame: int) -> Line:
    """What goes on, or what has just happened; how the index stands at the right."""
    working = doing(activity, frame, "y")
    if look.said and activity.phase == "failed":
        return spread(line((" · ", "warn"), fmt.inert(look.said)), (), cells)
    if working and activity.phase == "syncing":
        return spread((*working, Span("  esc stops", "faint")), (), cells)
    if working:
        return spread(working, (), cells)
    if look.doing:
        spin = SPINNER[frame % len(SPINNER)]
        parts = [Span(f" {spin} ", "accent"), Span(look.doing, "dim")]
        if told:
            parts.append(Span(f"  {fmt.crop(fmt.inert(told), 60)}", "dim"))
        return spread((*parts, Span("  esc stops", "faint")), (), cells)
    trouble = look.trouble or activity.trouble
    if trouble:
        return spread(line((" ✗ " if look.trouble else " ! ", "bad"), fmt.inert(trouble)), (), cells)
    if look.overview is None:
        return spread(line((" ◐ ", "accent"), ("reading the index", "dim")), (), cells)
    # What was said last is no proof of how the index is now.
    well = look.overview.freshness.state == "fresh" and (look.report is None or not look.report.errors)
    said = look.said or activity.said or "nothing runs"
    return spread(line((" ● " if well else " · ", "good" if well else "warn"), fmt.inert(said)), (), cells)
