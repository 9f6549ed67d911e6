"""The index as a whole: what it is, its state, what runs, and what a rebuild would do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from openclaw_mem_engine.api import (
    IN_PROCESS,
    KEEP_DAMAGED,
    Overview,
    Plan,
    PlannedSpace,
    byte_size,
)
from openclaw_mem_tui.bindings import key
from openclaw_mem_tui.features.index.presenter import IndexState
from openclaw_mem_tui.features.index.render.doctor import items, repairable
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render import spans
from openclaw_mem_tui.render.damage import DAMAGED, in_full
from openclaw_mem_tui.render.reports import cause
from openclaw_mem_tui.render.spans import Line, Span, brief, keyed, line, reported, spread, width, wrapped
from openclaw_mem_tui.render.status import SPINNER, Activity, doing

_LABEL = 9
#: Cells that a number of files takes, with the blanks around it.
_FILES = 14


def facts(state: IndexState, activity: Activity, cells: int, short: bool) -> list[Line]:
    """What the index is, in a line or two where there is little room, else in four."""
    overview = state.overview
    if overview is None:
        trouble = state.unreadable or (activity.trouble if activity.phase == "failed" else "")
        trouble = trouble or str(activity.damage or "")
        mark = (" ✗ ", "bad") if trouble else (" ◐ ", "accent")
        return wrapped(line(mark, fmt.message_here(trouble or "The index is being read.")), cells - 1, 3)
    if state.is_gone:  # this process still knows what it was built with
        overview = replace(overview, present=None)
    unsure = _unsure(state, activity)
    unknown = activity.damage is not None or state.unsure
    if short:
        end = line("  ", *(unsure or _in_short(state, overview, cells - _FILES)), " ")
        made = [spread((Span(" "), *_fitting(_held(overview, unknown), cells - width(end) - 1)), end, cells)]
        if overview.differences:
            made.append(spread((), _agrees(overview), cells))
        return made
    sizes = _sizes(state, overview)
    path = fmt.path(fmt.inert(overview.location), max(8, cells - _LABEL - width(sizes) - 4))
    rows = (
        ("index", line(path), sizes),
        ("built", _built(overview), line(*_agrees(overview), " ")),
        ("holds", _fitting(_held(overview, unknown), cells - _LABEL - 2), ()),
        ("state", unsure or _state(state, overview), ()),
    )
    return [spread(line((f" {label:{_LABEL}}", "dim"), *start), end, cells) for label, start, end in rows]


def _by(does: str, name: str = "sync_now") -> Line:
    """The key of an action, behind what it is for."""
    return keyed(f" (`{key(name)}` {does})")


def _fitting(parts: Line, cells: int) -> Line:
    """As many whole parts as there is room for."""
    kept: list[Span] = []
    for part in parts:
        if width((*kept, part)) + 1 > cells and kept:
            break
        kept.append(part)
    return tuple(kept)


def _sizes(state: IndexState, overview: Overview) -> Line:
    fresh = overview.freshness
    if state.is_gone:
        return line(("no index", "warn"), " ")
    synced = "never synced"
    if fresh.synced_at is not None:
        synced = f"synced {fmt.clock(fresh.synced_at, state.at)}"
    total = byte_size(overview.bytes + overview.log_bytes)
    return line((fmt.join((total, synced)), "dim"), " ")


def _held(overview: Overview, unknown: bool) -> Line:
    """Each part with its own separator, so that one that does not fit can go. Of an index that is damaged or
    cannot be read what it had recorded, which need not be there any more."""
    counts, (known, own) = overview.counts, _vectors(overview)
    if overview.freshness.state == "empty":
        return (Span("nothing"),)
    if unknown:
        recorded = f"{fmt.count(counts.files, 'file')} · {fmt.count(counts.chunks, 'chunk')} recorded"
        return (Span(recorded), Span(" · what can be read is not known", "warn"))
    parts = [Span(fmt.count(counts.files, "file")), Span(f" · {fmt.count(counts.chunks, 'chunk')}")]
    if known:
        parts.append(Span(f", {own:,} with vectors", "" if own >= counts.chunks else "warn"))
    for size in overview.spaces:
        if overview.present is None or size.space != overview.present.space:
            parts.append(
                Span(f" · {fmt.count(size.vectors, 'vector')} of {fmt.inert(size.space.label)}", "dim")
            )
    if overview.wanted.chunk_tokens:  # else the index keeps no cache
        parts.append(Span(f" · {fmt.count(counts.cached, 'cached embedding')}", "dim"))
    return tuple(parts)


def _vectors(overview: Overview) -> tuple[bool, int]:
    """Whether the index is one with vectors, and how many of its chunks have one."""
    primary = overview.present.space if overview.present is not None else None
    own = next((size.vectors for size in overview.spaces if size.space == primary), 0)
    return primary is not None and primary.provider != "none", own


def _lacking(state: IndexState, overview: Overview) -> Line:
    """Vectors that the next sync makes; it makes none that the doctor found no repair for."""
    known, own = _vectors(overview)
    if overview.freshness.state != "partial" or not known or own >= overview.counts.chunks:
        return ()
    chunks = fmt.count(overview.counts.chunks - own, "chunk")
    found = state.report.findings if state.report is not None else ()
    fails = any(each.code == "vectors-awaited" and not each.repair for each in found)
    does = "embeds, once the provider answers" if fails else "embeds"
    return line((f"{chunks} without vector", "warn"), *_by(does))


def _built(overview: Overview) -> Line:
    known = overview.present
    if known is None:
        return line(("not yet", "dim"))
    model = fmt.inert(known.space.label) if known.provider != "none" else "BM25 only"
    if not known.chunk_tokens:
        return line(fmt.join((model, f"whole documents of {fmt.count(len(known.sources), 'collection')}")))
    cut = f"chunk limit {known.chunk_tokens} tokens, overlap {known.chunk_overlap}"
    sources = f"source{'s' * (len(known.sources) != 1)} {' and '.join(known.sources)}"
    return line(fmt.join((model, cut, sources)))


def _agrees(overview: Overview) -> Line:
    if overview.present is None:
        return ()
    if not overview.differences:
        return line((" = ", "good"), ("matches the configuration", "dim"))
    return line((" ≠ ", "bad"), ("built with other settings", "warn"), *_by("rebuilds it"), " ")


def _unsure(state: IndexState, activity: Activity) -> Line:
    """While a sync runs, or after the index could not be read, the state is not known."""
    if activity.damage is not None:
        return line(("✗ damaged", "strong bad"), *_by("repairs", "repair"))
    if state.trouble or state.unreadable:
        return line(("not known: ", "warn"), (key("messages"), "key"), " shows why")
    if (
        activity.phase == "syncing"
        and state.overview is not None
        and not (state.overview.waiting or state.overview.number("stale"))
    ):
        return line(("not known: a sync is running", "warn"))
    return ()


def _errors(state: IndexState) -> Line:
    """What the doctor found that makes answers wrong; empty when there is nothing."""
    report = state.report
    if report is None or not report.errors:
        return ()
    found = repairable(report)
    by_key = _by("repairs", "repair") if any(f.severity == "error" for f in found) else ()
    return line((f"✗ {fmt.count(report.errors, 'error')}", "strong bad"), *by_key)


def _warnings(state: IndexState) -> Line:
    """How many findings of the doctor are warnings: their list is out of sight where there is one column."""
    many = state.report.warnings if state.report is not None else 0
    return line((fmt.count(many, "warning"), "warn")) if many else ()


def _in_short(state: IndexState, overview: Overview, cells: int) -> Line:
    """The state of the index in a few words, the worst ones where there is no room for all."""
    freshness = overview.freshness.state
    waiting, out = overview.waiting, overview.number("excluded")
    role = "good" if freshness == "fresh" else "warn"
    by_key = _by(f"syncs {waiting:,}") if waiting else ()
    stale = line(("no index" if state.is_gone else freshness, role), *by_key)
    parts = [
        _errors(state),
        _lacking(state, overview) or stale,
        line((f"{out:,} excluded", "dim")) if out else (),
        _warnings(state),
    ]
    while len(parts) > 1 and width(spans.worst_first(*parts)) > cells:
        del parts[-1]
    return spans.worst_first(*parts)


def _state(state: IndexState, overview: Overview) -> Line:
    """Errors first; then fresh, partial, or what is not and since when."""
    fresh, errors = overview.freshness, _errors(state)
    if fresh.state == "empty":
        what = "no index" if state.is_gone else "empty"
        return spans.worst_first(
            errors, line((what, "warn"), ": ", (key("sync_now"), "key"), (" builds the index", "dim"))
        )
    waiting, out = overview.waiting, overview.number("excluded")
    lacking = _lacking(state, overview)
    shown = (str(fresh.state), "good" if fresh.state == "fresh" else "warn")
    why: Line = ()
    if fresh.state == "stale":
        since = f" since {fmt.clock(fresh.stale_since, state.at)}" if fresh.stale_since else ""
        shown = (f"stale{since}", "warn")
        if fresh.emptied:
            why = line(", kept (", (key("prune"), "key"), f" removes it): {cause(fresh.emptied)}")
        elif waiting:
            why = line((f": {fmt.count(waiting, 'file')} to sync", "warn"), *_by("syncs"))
        elif overview.differences:
            why = line(f": {'; '.join(map(fmt.inert, overview.differences))}")
    excluded = line((f"{fmt.count(out, 'file')} excluded", "dim")) if out else ()
    return spans.worst_first(errors, line(shown, *why), lacking, excluded)


# -- the bottom -------------------------------------------------------------------------------------------


def status(state: IndexState, activity: Activity, progress: str, cells: int, frame: int) -> Line:
    """What runs, or what has just happened."""
    working = doing(activity, frame)
    trouble = state.unreadable or state.trouble or activity.trouble
    stops = keyed(f"  `{key('leave')}` stops", "faint")
    if state.said and activity.phase == "failed":
        shown = line(spans.DEGRADED, fmt.inert(state.said))
    elif working:
        shown = line(*working, *stops * (activity.phase == "syncing"))
    elif state.doing:
        spin = SPINNER[frame % len(SPINNER)]
        far = f"  {fmt.crop(fmt.inert(progress), 60)}" if progress else ""
        shown = line((f" {spin} ", "accent"), (state.doing, "dim"), (far, "dim"), *stops)
    elif trouble and state.overview is None and state.unreadable:  # above in full
        again = f"the index cannot be read; {key('sync_now')} tries again"
        again = in_full(DAMAGED) if activity.damage is not None or state.names_damage else again
        shown = line(spans.BROKEN, fmt.inert(state.said or again))
    elif trouble:
        sign = spans.BROKEN if state.unreadable or state.trouble else spans.DEGRADED
        shown = line(sign, fmt.message_here(trouble))
    elif state.overview is None and activity.damage is None:
        shown = line((" ◐ ", "accent"), ("reading the index", "dim"))
    else:
        # The last message says nothing about the present state of the index.
        errors = activity.errors or (state.report.errors if state.report is not None else 0)
        broken = activity.damage is not None or errors > 0
        fresh = "not read" if state.overview is None else str(state.overview.freshness.state)
        mark = spans.BROKEN if broken else spans.GOOD if fresh == "fresh" else spans.DEGRADED
        idle = {"fresh": "idle", "empty": "no index" if state.is_gone else "empty"}.get(fresh, fresh)
        idle = fmt.count(errors, "error") if errors else idle
        said = state.said or activity.said or (DAMAGED if activity.damage is not None else idle)
        shown = reported(in_full(said), mark)
    return brief(shown, cells)


# -- before a rebuild --------------------------------------------------------------------------------------


def repair_plan(
    found: Sequence[str],
    readable: tuple[int, int | None] | None,
    hosts: Sequence[str],
    cells: int,
) -> list[Line]:
    """What was ``found``, and what the repair of a damaged index keeps: so many embeddings that are
    ``readable``, of how many, as far as that is known. ``hosts`` are those that texts without one are sent
    to."""
    text = "The index is damaged. A new one will be built from your notes, which are not changed."
    text += (
        f" The damaged file is kept beside it; you can delete it. At most {KEEP_DAMAGED} such files are kept."
    )
    made = [*wrapped(line(text), cells), (), *items(found, cells), *[()] * bool(found)]
    count, held = readable or (0, None)
    whole = count == held and count > 0
    many = f"{count:,} of {held:,}" if held else f"{count:,}"
    kept = f"{'All ' * whole}{count:,}" if whole else many
    kept += f" embedding{'s' * ((held or count) != 1)} can be read and are kept."
    if readable is None:
        kept = "Its embeddings are kept as far as they can be read; how many is not known."
    elif not count:
        kept = "None of its embeddings can be read."
    texts = "All texts" if readable is not None and not count else "Texts without one"
    rest = f"{texts} are embedded on this machine, free of charge."
    if hosts:
        rest = f"{texts} are sent to {', '.join(map(fmt.inert, hosts))}."
    elif whole:
        rest = ""
    return [*made, *wrapped(line(fmt.join((kept, rest), " ")), cells)]


def rebuild_plan(plan: Plan, cells: int) -> list[Line]:
    """What a rebuild reads, embeds and costs."""
    if not plan.rebuild:  # an index that is brought up to date in place
        text = "Every file is read again. Vectors of unmodified texts are kept. Searches keep working."
        return [
            *wrapped(line(text), cells),
            *(made for s in plan.spaces for made in wrapped(_space(s), cells, 2)),
        ]
    files, chunks = fmt.count(plan.files, "file"), fmt.count(plan.chunks, "chunk")
    made = wrapped(line(f"{files} will be read again, and a new index will be built from {chunks}."), cells)
    if plan.rebuild and plan.rebuild != "asked for":
        made += wrapped(line(("Reason: ", "dim"), fmt.inert(plan.rebuild)), cells)
    note = "Searches keep using the old index until the new one is ready. "
    note += f"While it is built, `{key('leave')}` stops it."
    made += [*wrapped(keyed(note), cells), ()]
    for space in plan.spaces:
        made += wrapped(_space(space), cells, 2)
    if not plan.spaces:
        made += wrapped(line("Nothing is embedded: BM25 only."), cells)
    if out := sum(not file.of_workspace for file in plan.excluded):
        made += wrapped(line((f"{fmt.count(out, 'file')} excluded.", "dim")), cells)
    return made


def prune_plan(plan: Plan, cells: int) -> list[Line]:
    """What forgetting the notes of an emptied workspace removes from the index."""
    files, chunks = fmt.count(plan.removed, "file"), fmt.count(plan.removed_chunks, "chunk")
    made = wrapped(line(f"{files} with {chunks} are removed from the index and from searches."), cells)
    note = "Cancel if they will come back (a disk is not mounted, --include was not given): then the index"
    note += " matches them again."
    return [*made, (), *wrapped(line((note, "dim")), cells)]


def _space(space: PlannedSpace) -> Line:
    target = ("", "")
    if not space.host:
        target = (
            "; no text leaves this machine"
            if space.space.provider in IN_PROCESS
            else "; sent to a server on this machine",
            "dim",
        )
    elif space.texts:
        target = (f"; sent to {fmt.inert(space.host)}", "warn")
    cost = ""
    if space.texts and space.usd != 0:
        price = fmt.dollars(space.usd) if space.usd is not None else "price unknown"
        cost = f", about {fmt.count(space.tokens, 'token')}, {price}"
    return line(
        (fmt.inert(space.space.label), "strong"),
        f": {fmt.count(space.texts, 'text')} to embed, {space.cached:,} from the cache",
        target,
        (cost, "warn"),
        (f"; not possible now: {fmt.inert(space.why_not)}" if space.why_not else "", "bad"),
    )
