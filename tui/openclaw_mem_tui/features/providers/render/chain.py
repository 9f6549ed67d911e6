"""The chain of providers: one row a link, everything about the selected one, and the embedding cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openclaw_mem_tui.features.providers.presenter import Look, key_of
from openclaw_mem_tui.features.search.state import View
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.spans import Line, Span, labelled, line, spread, width
from openclaw_mem_tui.render.status import Activity

if TYPE_CHECKING:
    from openclaw_mem_engine.providers.factory import ProviderState
    from openclaw_mem_engine.providers.prices import Spent

#: Mark and role of each state: never told by colour alone.
_STATES = {
    "serving": ("●", "good"),
    "ready": ("○", ""),
    "idle": ("◌", "warn"),
    "failed": ("✗", "bad"),
    "skipped": ("·", "faint"),
}
_ASKING = ("◐", "accent")

_NAME, _ROLE, _STATE = 9, 9, 10
_LABEL = 9


def header(cells: int) -> Line:
    """Titles of the chain's columns."""
    titles = f"  {fmt.left('provider', _NAME)} {fmt.left('role', _ROLE)} {fmt.left('state', _STATE)} why"
    return line((fmt.crop(titles, cells), "dim"))


def link_row(link: ProviderState, look: Look, cells: int, selected: bool) -> Line:
    """One link: who, in which role, how it stands, and why."""
    mark, role = _STATES[link.state]
    state: str = link.state
    if key_of(link) in look.asking:
        (mark, role), state = _ASKING, "asking"
    quiet = "faint" if link.state == "skipped" else ""
    room = cells - 2 - _NAME - _ROLE - _STATE - 3
    return line(
        ("▌ " if selected else "  ", "accent"),
        (fmt.left(fmt.inert(link.name), _NAME) + " ", quiet or "strong"),
        (fmt.left("" if link.role in ("skipped", "keywords") else link.role, _ROLE) + " ", "dim"),
        (fmt.left(f"{mark} {state}", _STATE) + " ", role),
        (fmt.crop(fmt.inert(link.why, 600), room), "faint" if quiet else "dim"),
    )


def detail(link: ProviderState | None, look: Look, cells: int) -> list[Line]:
    """Everything about one link; every text in full."""
    if link is None:
        return [line(("The chain is being read.", "dim"))]
    made: list[Line] = []

    def say(label: str, *parts: Span | tuple[str, str] | str) -> None:
        made.extend(labelled(label, line(*parts), cells - 1, _LABEL))

    mark, role = _STATES[link.state]
    say("state", (f"{mark} {link.state}", f"strong {role}".strip()), *_when(link, look))
    say("why", fmt.inert(link.why))
    found = look.asked.get(key_of(link))
    if isinstance(found, float):
        say("asked", ("answered ", "good"), f"in {fmt.milliseconds(found)}")
    elif found is not None and found != link.why:
        say("asked", ("no answer: ", "bad"), fmt.inert(found))
    if link.role == "keywords":
        say("place", "this machine: SQLite's full-text search, no vectors")
        return made
    if link.model:
        say("model", fmt.inert(link.model))
    if link.in_use:
        say("place", *_place(link))
    elif link.host:
        say("place", fmt.inert(link.host))
    if link.key_origin:
        say("key", fmt.inert(link.key_origin))
    if link.price:
        say("price", fmt.inert(link.price))
    if not link.in_use:
        return made
    full = link.vectors >= link.chunks
    told = f"{link.vectors:,} of {fmt.count(link.chunks, 'passage')}"
    say("vectors", (told, "" if full else "warn"), ("" if full else "; r in the lab makes the rest", "dim"))
    if link.last_ok is not None:
        spent = f", {fmt.milliseconds(link.last_ms)}" if link.last_ms is not None else ""
        say("answered", f"last at {fmt.clock(link.last_ok, look.at, True)}{spent}")
    month = look.used(link, 30)
    if link.host or month is not None:
        say("today", *_used(look.used(link, 1)))
        say("30 days", *_used(month))
    return made


def _when(link: ProviderState, look: Look) -> list[tuple[str, str]]:
    """Since when a link fails, and when it is asked again."""
    if link.state != "failed":
        return []
    told = [(f" since {fmt.clock(link.since, look.at, True)}", "")] if link.since is not None else []
    if link.next_retry is None:
        return [*told, ("; not asked again by itself", "dim")]
    if link.next_retry <= look.at:
        return [*told, ("; the next search asks again", "dim")]
    return [*told, (f"; next try at {fmt.clock(link.next_retry, look.at, True)}", "dim")]


def _place(link: ProviderState) -> list[tuple[str, str]]:
    if not link.host:
        return [("stays on this machine", "")]
    return [(fmt.inert(link.host), ""), (" gets queries and notes", "dim")]


def _used(used: Spent | None) -> list[tuple[str, str]]:
    if used is None:
        return [("no request", "dim")]
    about = "about " if used.estimated else ""
    told = fmt.join(
        (
            fmt.count(used.requests, "request"),
            fmt.count(used.texts, "text"),
            about + fmt.count(used.tokens, "token"),
        ),
        ", ",
    )
    if used.usd is None:
        return [(told, ""), (", cost unknown", "dim")]
    return [(told, ""), (", free" if not used.usd else f", about {dollars(used.usd)}", "dim")]


def dollars(amount: float) -> str:
    """``$0.13``; small amounts with as many digits as say something."""
    if amount >= 0.1:
        return f"${amount:,.2f}"
    return f"${amount:.4f}" if amount >= 0.0001 else "less than $0.0001"


def cache(look: Look, cells: int) -> Line:
    """The embedding cache in one line: entries and size by vector space, the largest first."""
    start = [Span(" embedding cache  ", "dim")]
    if not look.caches:
        return spread([*start, Span("empty" if look.links else "", "dim")], (), cells)
    total = sum(size.bytes for size in look.caches)
    end = line((f"{fmt.megabytes(total)} ", "dim")) if len(look.caches) > 1 else ()
    parts = list(start)
    sizes = sorted(look.caches, key=lambda size: -size.bytes)
    for at, size in enumerate(sizes):
        told = line(
            (" · " if at else "", "faint"),
            f"{fmt.inert(size.space.label)} ",
            (f"{size.entries:,} entries, {fmt.megabytes(size.bytes)}", "dim"),
        )
        rest = f" · {len(sizes) - at} more"
        if width(parts) + width(told) + width(end) + (len(rest) if at < len(sizes) - 1 else 0) > cells and at:
            parts.append(Span(rest, "dim"))
            break
        parts.extend(told)
    return spread(parts, end, cells)


def title(link: ProviderState) -> str:
    """Over the pane of one link."""
    return fmt.join((fmt.inert(link.name), "" if link.role == "keywords" else link.role))


def status(look: Look, view: View, activity: Activity, cells: int) -> Line:
    """What goes on, or what has just happened; who answers at the right."""
    serving = next((link for link in look.links if link.state == "serving"), None)
    verb = "answer" if serving is not None and serving.role == "keywords" else "serves"
    end = line((f"{fmt.inert(serving.name)} {verb} ", "dim")) if serving is not None else ()
    if look.trouble or activity.phase == "failed":
        told = look.trouble or activity.trouble
        return spread(line((" ✗ ", "bad"), fmt.inert(told)), (), cells)
    if look.asking:
        names = ", ".join(sorted({name for name, _, _ in look.asking}))
        return spread(
            line((" ◐ ", "accent"), f"asking {fmt.inert(names)} ", ("esc leaves it", "faint")), end, cells
        )
    if view.pending:
        return spread(line((" ◐ ", "accent"), ("asking the last query again", "dim")), end, cells)
    if look.said:
        return spread(line((" ● ", "good"), fmt.inert(look.said)), end, cells)
    if not look.links:
        return spread(line((" ◐ ", "accent"), ("reading the chain", "dim")), end, cells)
    failed = ", ".join(fmt.inert(link.name) for link in look.links if link.state == "failed")
    idle = ", ".join(fmt.inert(link.name) for link in look.links if link.state == "idle")
    trouble = fmt.join((f"{failed} failed" if failed else "", f"{idle} has no vectors yet" if idle else ""))
    told = trouble or "every provider in use answers"
    return spread(line((" ● ", "warn" if trouble else "good"), (told, "dim")), end, cells)
