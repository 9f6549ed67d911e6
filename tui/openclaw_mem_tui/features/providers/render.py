"""Text of the providers screen: chain, one provider, cache; faults, and what they did to an answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from openclaw_mem_engine.api import FAULTS, IN_PROCESS, Row, Spent
from openclaw_mem_tui.bindings import key
from openclaw_mem_tui.features.providers.presenter import ChainState, key_of
from openclaw_mem_tui.features.search.comparison import answered_by, compared
from openclaw_mem_tui.features.search.render.above import overlap
from openclaw_mem_tui.features.search.render.hits import path_spans
from openclaw_mem_tui.features.search.state import View
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.spans import Details, Line, Span, line, spread, width, wrapped
from openclaw_mem_tui.render.status import Activity, reason

if TYPE_CHECKING:
    from openclaw_mem_engine.api import ProviderState

#: Mark and role of each state: never distinguished by colour alone.
_STATES = {
    "serving": ("●", "good"),
    "ready": ("○", ""),
    "idle": ("◌", "warn"),
    "failed": ("✗", "bad"),
    "skipped": ("·", "faint"),
}
_PROBING = ("◐", "probing", "accent")
#: Cells of the columns, and of the labels before details.
_NAME, _ROLE, _STATE, _LABEL, _INDENT = 9, 9, 14, 9, 4
#: From so many cells a reason has room beside its provider.
_WHY = 60


def header(cells: int) -> Line:
    """Titles of the chain's columns."""
    names = [("provider", _NAME), ("role", _ROLE), ("state", _STATE)]
    if cells >= _WHY:
        names.append(("why", 3))
    return line((fmt.crop(f"  {' '.join(fmt.left(*name) for name in names)}", cells), "dim"))


def grouped(links: Sequence[ProviderState]) -> list[Sequence[ProviderState]]:
    """The rows of the chain: each provider, and last all that are not selected as one."""
    unused = [link for link in links if link.state == "skipped"]
    return [*([link] for link in links if link.state != "skipped"), *([unused] if unused else [])]


def link_row(chain: ChainState, group: Sequence[ProviderState], cells: int, selected: bool) -> list[Line]:
    """One provider: name, role, state, and why it is in that state, below them where there is no room for it
    beside them. Several that are not selected: names."""
    link, why = group[0], fmt.message(group[0].why, 600)
    mark, role = _STATES["serving" if link.label == "active" else link.state]
    words = link.label
    if link.next_retry is not None and link.next_retry > chain.at and link.state == "failed":
        why = f"until {fmt.clock(link.next_retry, chain.at, True)}; {why}"
    if key_of(link) in chain.probing:
        mark, words, role = _PROBING
    quiet = "faint" if link.state == "skipped" else ""
    said = line((_names(group) if group[1:] else why, "faint" if quiet else "dim"))
    row = line(
        ("▌ " if selected else "  ", "accent"),
        (fmt.left(_name(group), _NAME) + " ", quiet or "strong"),
        (fmt.left("" if link.role in ("skipped", "keywords") else link.role, _ROLE) + " ", "dim"),
        (fmt.left(f"{mark} {words}", _STATE) + " ", role),
    )
    if width(row) + width(said) <= cells:
        return [(*row, *said)]
    return [row, *wrapped((Span(" " * _INDENT), *said), cells - 1, _INDENT)]


def _name(group: Sequence[ProviderState]) -> str:
    return f"{len(group)} more" if group[1:] else fmt.inert(group[0].name)


def _names(group: Sequence[ProviderState]) -> str:
    return ", ".join(fmt.inert(link.name) for link in group)


def detail(group: Sequence[ProviderState], chain: ChainState, cells: int) -> list[Line]:
    """Everything about one provider, or why several are not selected; every text in full."""
    if not group:
        if chain.trouble:
            return [line(("The chain could not be read; the reason is below.", "dim"))]
        return [line(("The chain is being read.", "dim"))]
    details = Details(cells)
    say, link = details.say, group[0]
    mark, role = _STATES["serving" if link.label == "active" else link.state]
    if group[1:]:
        say("others", (f"{mark} {link.label}", role))
        for number, why in enumerate(dict.fromkeys(one.why for one in group)):
            names = _names([one for one in group if one.why == why])
            say("" if number else "why", names, (f": {fmt.message(why)}", "dim"))
        return details.lines
    say("state", (f"{mark} {link.label}", f"strong {role}".strip()), *_when(link, chain))
    say("why", fmt.message(link.why))
    found = chain.probed.get(key_of(link))
    if isinstance(found, float):
        say("probe", ("answered ", "good"), f"in {fmt.milliseconds(found)}")
    elif found is not None and found != link.why:
        say("probe", ("no answer: ", "bad"), fmt.inert(found))
    if link.role == "backend":
        _say_qmd(details, chain)
        return details.lines
    if link.role == "keywords":
        say("location", "this machine: SQLite's full-text search, no vectors")
        return details.lines
    if link.model:
        say("model", fmt.inert(link.model))
    if link.host:
        say("host", fmt.inert(link.host), (" receives queries and notes" if link.in_use else "", "dim"))
    elif link.in_use:
        faulty = "; the simulated fault fails it as if it were a remote provider"
        local = "local only" if link.name in IN_PROCESS else "sent to a server on this machine"
        say("data", local, (faulty if "(simulated fault)" in link.why else "", "warn"))
    if link.key_origin:
        say("key", fmt.inert(link.key_origin))
    if link.price:
        say("price", fmt.inert(link.price))
    if not link.in_use:
        return details.lines
    embedded = f"{link.vectors:,} of {fmt.count(link.chunks, 'passage')}"
    if link.vectors >= link.chunks:
        say("vectors", embedded)
    else:
        say("vectors", (embedded, "warn"), ("; r in the search lab embeds the rest", "dim"))
    if link.last_ok is not None:  # at most one in a minute is recorded
        spent = f", {fmt.milliseconds(link.last_ms)}" if link.last_ms is not None else ""
        say("answered", f"recorded at {fmt.clock(link.last_ok, chain.at, True)}{spent}")
    month = chain.used(link, 30)
    if link.host or month is not None:
        say("today", *_used(chain.used(link, 1)))
        say("30 days", *_used(month))
    return details.lines


def _say_qmd(details: Details, chain: ChainState) -> None:
    """The external program, apart from its failure: what it is, and its last update."""
    if (facts := chain.qmd) is None:
        details.say("command", ("not configured; the simulated fault runs its own program", "dim"))
        return
    details.say("command", fmt.inert(chain.qmd_command))
    details.say("version", ".".join(map(str, facts.version)) or "not known")
    details.say(
        "updated", fmt.clock(facts.updated_at, chain.at, True) if facts.updated_at else "not by openclaw-mem"
    )
    for error in (facts.update_error, facts.embed_error):
        if error:
            details.say("failed", (fmt.message(error), "bad"))


def _when(link: ProviderState, chain: ChainState) -> list[tuple[str, str]]:
    """Since when a provider fails, and when it is tried again."""
    if link.state != "failed":
        return []
    since = f" since {fmt.clock(link.since, chain.at, True)}" if link.since is not None else ""
    if link.next_retry is None:
        retry = "no automatic retry"
    elif link.next_retry <= chain.at:
        retry = "retry with the next search"
    else:
        retry = f"retry at {fmt.clock(link.next_retry, chain.at, True)}"
    return [(since, ""), (f"; {retry}", "dim")]


def _used(used: Spent | None) -> list[tuple[str, str]]:
    if used is None:
        return [("no request", "dim")]
    tokens = ("about " if used.estimated else "") + fmt.count(used.tokens, "token")
    counts = ", ".join((fmt.count(used.requests, "request"), fmt.count(used.texts, "text"), tokens))
    if used.usd is None:
        return [(counts, ""), (", cost unknown", "dim")]
    return [(counts, ""), (", free" if not used.usd else f", about {fmt.dollars(used.usd)}", "dim")]


def cache(chain: ChainState, cells: int) -> Line:
    """The embedding cache in one line: entries and size by vector space, the largest first."""
    start = [Span(" embedding cache  ", "dim")]
    if chain.caches is None:
        text = "none: qmd keeps the vectors of its documents in its index"
        return spread([*start, Span(text, "dim")], (), cells)
    if not chain.caches:
        return spread([*start, Span("empty" if chain.links else "", "dim")], (), cells)
    total = sum(size.bytes for size in chain.caches)
    end = line((f"{fmt.megabytes(total)} ", "dim")) if len(chain.caches) > 1 else ()
    parts = start
    sizes = sorted(chain.caches, key=lambda size: -size.bytes)
    for at, size in enumerate(sizes):
        entry = line(
            (" · " if at else "", "faint"),
            f"{fmt.inert(size.space.label)} ",
            (f"{size.entries:,} entries, {fmt.megabytes(size.bytes)}", "dim"),
        )
        rest = f" · {len(sizes) - at} more"
        after = len(rest) if at < len(sizes) - 1 else 0
        if at and width(parts) + width(entry) + width(end) + after > cells:
            parts.append(Span(rest, "dim"))
            break
        parts.extend(entry)
    return spread(parts, end, cells)


def title(group: Sequence[ProviderState]) -> str:
    """Title of the pane of one provider, or of several that are not selected."""
    if not group or group[1:]:
        return "not selected" if group else "provider"
    role = group[0].role
    return fmt.join((fmt.inert(group[0].name), "" if role in ("keywords", "skipped") else role))


def status(chain: ChainState, view: View, activity: Activity, cells: int) -> Line:
    """What runs, or what has just happened; the active provider at the right."""
    active = next((link for link in chain.links if link.state == "serving"), None)
    end = line((f"{fmt.inert(active.name)} active ", "dim")) if active is not None else ()
    if chain.trouble or activity.phase == "failed":
        return spread(line((" ✗ ", "bad"), fmt.message(chain.trouble or activity.trouble)), (), cells)
    if chain.probing:
        names = ", ".join(sorted({name for name, _, _ in chain.probing}))
        start = line((" ◐ ", "accent"), f"probing {fmt.inert(names)} ", ("esc cancels", "faint"))
    elif view.pending:
        start = line((" ◐ ", "accent"), ("searching the last query again", "dim"))
    elif not chain.links:
        start = line((" ◐ ", "accent"), ("reading the chain", "dim"))
    else:
        failed = ", ".join(fmt.inert(link.name) for link in chain.links if link.state == "failed")
        idle = ", ".join(fmt.inert(link.name) for link in chain.links if link.state == "idle")
        trouble = fmt.join((failed and f"{failed} failed", idle and f"{idle} not indexed yet"))
        summary = trouble or "no provider in use has failed"
        # The sign is the state, whatever the last message is.
        message = (fmt.inert(chain.said), "") if chain.said else (summary, "dim")
        start = line((" ● ", "warn" if trouble else "good"), message)
    return spread(start, end, cells)


# -- simulated faults --------------------------------------------------------------------------------------

#: Cells from which a fault and its explanation are on one line.
_ONE_LINE = 66
#: Hits shown of those that only one of two runs returned.
_HITS_SHOWN = 6


def fault_rows(simulated: frozenset[str], name: str, cells: int, selected: bool) -> list[Line]:
    """A check box, the name and what it does; in a narrow pane below it, and only of one selected or on."""
    on = name in simulated
    mark = Span("▌ " if selected else "  ", "accent")
    box = line(("[", "dim"), ("x" if on else " ", "strong bad"), ("] ", "dim"))
    label = Span(name, "strong bad" if on else "strong" if selected else "")
    if cells >= _ONE_LINE:
        pad = " " * (max(map(len, FAULTS)) + 2 - len(name))
        whole = (mark, *box, label, Span(pad), Span(FAULTS[name], "dim"))
        return wrapped(whole, cells - 1, _INDENT + 2 + max(map(len, FAULTS)) + 2)
    effect = wrapped((Span(" " * (_INDENT + 2)), Span(FAULTS[name], "dim")), cells - 1, _INDENT + 2)
    return [line(mark, *box, label), *(effect if on or selected else ())]


def last_query(view: View, cells: int) -> list[Line]:
    """What answered the last query, how far that is from the baseline, and why."""
    if not view.query.strip():
        return wrapped(
            line(("No query yet. ", "strong"), (key("compare"), "key"), (" opens the search lab.", "dim")),
            cells,
        )
    details = Details(cells)
    say, made = details.say, details.lines
    query = fmt.crop(fmt.inert(view.query, 300), cells - 4)
    made.append(line(("“", "faint"), (query, "strong"), ("”", "faint")))
    if view.error:
        say("failed", (fmt.inert(view.error), "bad"))
    if view.pending:
        say("", ("searching again …", "accent"))
        return made
    pool = view.pool
    if pool is None:
        return made
    seen = compared(view) if view.pool_faults else None
    if seen is not None:
        made.extend(wrapped(overlap(seen), cells - 1))
        made.extend(
            wrapped(line((_more_without_cut(view), "dim")), cells - 1) if _more_without_cut(view) else ()
        )
    role = "warn" if pool.fallback is not None else ""
    say("answered", (fmt.inert(answered_by(pool)), role))
    if view.pool_faults and view.other_pool is not None:
        say("baseline", fmt.inert(answered_by(view.other_pool)))
    why = reason(pool) or _warnings(view)
    if why:
        say("why", fmt.message(why))
    returned = view.trace.returned if view.trace is not None else ()
    for label, rows in [("returned", returned)] if seen is None else [("lost", seen.lost), ("new", seen.new)]:
        if rows:
            made.extend(_only_in_one(label, rows, cells))
    if not view.pool_faults:
        made.extend(
            wrapped(
                line(
                    (key("toggle_fault"), "key"), (" on a fault searches this again with the fault.", "dim")
                ),
                cells - 1,
            )
        )
    return made


def _more_without_cut(view: View) -> str:
    """Why there are more results than in the baseline, where ``min_score`` took them away there."""
    now, before = view.trace, view.baseline.trace if view.baseline is not None else None
    if now is None or before is None or before.cut is None or now.cut is not None:
        return ""
    more, fewer = len(now.results), len(before.results)
    if more <= fewer or any(lst.source.kind == "vector" for lst in now.lists):
        return ""
    gone = {row.chunk_id for row in before.dropped if row.outcome.stage == before.cut.name}
    if not any(row.chunk_id in gone for row in now.returned):
        return ""
    return f"{more} results instead of {fewer}: without vectors min score does not apply"


def _only_in_one(label: str, rows: Sequence[Row], cells: int) -> list[Line]:
    """The first hits that only one of the runs returned."""
    made = []
    for at, row in enumerate(rows[:_HITS_SHOWN]):
        rank = Span(fmt.left(fmt.ranked(row.outcome.rank), 4), "bad" if label == "lost" else "good")
        start = line((fmt.left("" if at else label, _LABEL) + " ", "dim"), rank)
        more = len(rows) - _HITS_SHOWN if at == _HITS_SHOWN - 1 else 0
        end = line((f" and {more} more", "dim")) if more > 0 else ()
        room = cells - 1 - width(start) - width(end)
        made.append(spread((*start, *path_spans(row, room)), end, cells - 1))
    return made


def _warnings(view: View) -> str:
    """The warnings of an answer that no fallback explains, and what a simulated fault has changed in it."""
    notes = view.trace.notes if view.trace is not None else ()
    said = [n for n in notes if n.level == "warning" or n.code in view.pool_faults]
    return " ".join(dict.fromkeys(n.text for n in said if n.code != "fault"))
