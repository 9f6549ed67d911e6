"""Text of the providers screen: chain, one provider, cache, faults."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from openclaw_mem_engine.api import FAULTS, IN_PROCESS, Spent, byte_size, percent
from openclaw_mem_tui.bindings import key, reach
from openclaw_mem_tui.features.providers.presenter import ChainState, key_of
from openclaw_mem_tui.features.search.state import View
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.damage import DAMAGED, in_full
from openclaw_mem_tui.render.spans import (
    BROKEN,
    DEGRADED,
    GOOD,
    Details,
    Line,
    Span,
    brief,
    keyed,
    line,
    reported,
    spread,
    width,
    wrapped,
)
from openclaw_mem_tui.render.status import Activity

if TYPE_CHECKING:
    from openclaw_mem_engine.api import ProviderState

#: Mark and role of each state: never distinguished by colour alone.
_STATES = {
    "active": ("●", "good"),
    "ready": ("○", ""),
    "not-indexed": ("◌", "warn"),
    "failed": ("✗", "bad"),
    "not-selected": ("·", "faint"),
}
_PROBING = ("◐ probing", "accent")
#: Roles that are not shown.
_UNNAMED = ("not-selected", "bm25")
#: What the details of several providers are.
_UNUSED = "not selected: where text would go"
#: Cells of the columns.
_NAME, _ROLE, _STATE, _VECTORS, _INDENT = 8, 8, 14, 9, 4


def header(cells: int) -> Line:
    """Titles of the chain's columns."""
    start = f"  {fmt.left('provider', _NAME)} {fmt.left('role', _ROLE)} {fmt.left('state', _STATE)} "
    return line((fmt.crop(start + _columns("data", "vectors", cells - fmt.width_of(start)), cells), "dim"))


def _columns(data: str, vectors: str, cells: int) -> str:
    """What is right of the state, as far as there is room; the details say all of it."""
    room = cells - 1 - _VECTORS
    return fmt.left(data, room) + fmt.right(vectors, _VECTORS) if room >= 4 else ""


def _data(link: ProviderState) -> str:
    """Where queries and notes go, in a word."""
    if link.host:
        return fmt.inert(link.host)
    if link.role == "bm25" or (link.in_use and link.name in IN_PROCESS):
        return "local"
    return "this machine" if link.in_use else ""


def grouped(links: Sequence[ProviderState]) -> list[Sequence[ProviderState]]:
    """The rows of the chain: each provider, and last all that are not selected as one (``none`` is no
    provider)."""
    unused = [link for link in links if link.state == "not-selected" and link.name != "none"]
    return [*([link] for link in links if link.state != "not-selected"), *([unused] if unused else [])]


def link_row(
    chain: ChainState, alone: bool, damaged: bool, group: Sequence[ProviderState], cells: int, selected: bool
) -> list[Line]:
    """One provider: name, role, state, where data goes, vectors. ``alone``, without the pane of details: why
    it is in that state below it, of several that are not selected the names."""
    link, why = group[0], fmt.message(group[0].why, 600)
    said, role = _state(link)
    if key_of(link) in chain.probing:
        said, role = _PROBING
    quiet = "faint" if link.state == "not-selected" else ""
    row = line(
        fmt.POINTER[selected],
        (fmt.left(_name(group), _NAME) + " ", quiet or "strong"),
        (fmt.left("" if link.role in _UNNAMED else link.role, _ROLE) + " ", "dim"),
        (fmt.left(said, _STATE) + " ", role),
    )
    vectors = "not known" if damaged else percent(link.vectors / link.chunks) if link.chunks else "·"
    vectors = vectors if link.in_use else ""
    row = (*row, Span(_columns(_data(link), vectors, cells - width(row)), "dim"))
    if not alone:
        return [row]
    below = (_names(group) if group[1:] else why, "faint" if quiet else "dim")
    return [row, *wrapped(line(" " * _INDENT, below), cells - 1, _INDENT)]


def _state(link: ProviderState) -> tuple[str, str]:
    """The state of a provider with its mark, and the role of both."""
    mark, role = _STATES[link.state]
    return f"{mark} {link.label}", role


def answering(links: Sequence[ProviderState]) -> str:
    """What answers a search now; empty where that is not known."""
    names = ", ".join(name_of(link) for link in links if link.state == "active")
    return f"in use: {names}" if names else ""


def _name(group: Sequence[ProviderState]) -> str:
    return f"{len(group)} more" if group[1:] else name_of(group[0])


def name_of(link: ProviderState) -> str:
    """The name of a provider as it is shown."""
    return "BM25" if link.role == "bm25" else fmt.inert(link.name)


def _names(group: Sequence[ProviderState]) -> str:
    return ", ".join(fmt.inert(link.name) for link in group)


def heading(group: Sequence[ProviderState], cells: int) -> Line:
    """The name of the providers that are not selected, above what another row than the selected one has."""
    text = f"── {_name(group)}, {_UNUSED} "
    return line((text + "─" * (cells - 1 - fmt.width_of(text)), "faint"))


def detail(
    group: Sequence[ProviderState], chain: ChainState, cells: int, damaged: bool = False
) -> list[Line]:
    """Everything about one provider, or why several are not selected; every text in full. What a ``damaged``
    index holds of it is not known."""
    if not group:
        if chain.trouble:
            return wrapped(line(("The providers could not be read; the reason is below.", "dim")), cells - 1)
        return wrapped(line(("The providers are being read.", "dim")), cells - 1)
    details = Details(cells)
    say, link = details.say, group[0]
    said, role = _state(link)
    if group[1:]:
        for one in group:
            say(fmt.inert(one.name), fmt.message(chain.prospects.get(one.name, one.why)))
        say("select", "provider.name", (" in config.toml, or ", "dim"), "--provider", (" NAME", "dim"))
        return details.lines
    say("state", (said, f"strong {role}".strip()), *_when(link, chain))
    say("why", fmt.message(link.why))
    found = chain.probed.get(key_of(link))
    if isinstance(found, float):
        say("probe", ("answered ", "good"), f"in {fmt.milliseconds(found)}")
    elif found is not None and found != link.why:
        say("probe", ("no answer: ", "bad"), fmt.message(found))
    if link.role == "backend":
        _say_qmd(details, chain)
        return details.lines
    if link.role == "bm25":
        say("data", "stays on this machine; SQLite's full-text search, no vectors")
        return details.lines
    if link.model:
        say("model", fmt.inert(link.model))
    if link.host:
        say("host", fmt.inert(link.host), (" receives queries and notes" if link.in_use else "", "dim"))
    elif link.in_use:
        faulty = "; the simulated fault makes it fail like a remote provider"
        local = "stays on this machine" if link.name in IN_PROCESS else "sent to a server on this machine"
        say("data", local, (faulty if "(simulated fault)" in link.why else "", "warn"))
    if link.key_origin:
        say("key", fmt.inert(link.key_origin))
    if link.price:
        say("price", fmt.inert(link.price))
    if not link.in_use:
        return details.lines
    embedded = f"{link.vectors:,} of {fmt.count(link.chunks, 'chunk')}"
    if damaged:
        say("vectors", ("not known: the index is damaged", "warn"))
    elif link.vectors >= link.chunks:
        say("vectors", embedded)
    else:
        when = "" if link.state != "failed" else ", once it answers"
        rest = "the rest, but for text that the model cannot read" if link.vectors else "them"
        say("vectors", (embedded, "warn"), *keyed(f"; `{reach('sync', 'search')}` embeds {rest}{when}"))
    if link.last_ok is not None:
        say("last used", fmt.clock(link.last_ok, chain.at))  # one in a minute is recorded
    if link.role == "primary":
        say("fallback", *_fallbacks(chain))
        say("", *_last_fallback(chain))
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


def _fallbacks(chain: ChainState) -> list[tuple[str, str]]:
    """What answers when the primary does not, in this order."""
    names = [fmt.inert(link.name) for link in chain.links if link.role == "fallback" and link.in_use]
    none = "" if names else " (no other provider is set)"
    return [(", then ".join([*names, "BM25 only"]), ""), (none, "dim")]


def _last_fallback(chain: ChainState) -> list[tuple[str, str]]:
    """That a fallback answers now, or when one answered last, and why."""
    if chain.fallback is not None:
        return [("in use now" + " (simulated)" * chain.simulated, "warn")]
    if (event := chain.last_fallback) is None:
        return [("no use recorded", "dim")]
    why = f": {fmt.message(event.reason)}" if event.reason else ""
    return [("last used ", "dim"), (fmt.clock(event.at, chain.at), ""), (why, "dim")]


def _when(link: ProviderState, chain: ChainState) -> list[tuple[str, str]]:
    """Since when a provider fails, and when it is tried again."""
    if link.state != "failed":
        return []
    since = f" since {fmt.clock(link.since, chain.at, True)}" if link.since is not None else ""
    if link.next_retry is None:
        retry = ""
    elif link.next_retry <= chain.at:
        retry = "; retry with the next search"
    else:
        retry = f"; retry\xa0after\xa0{fmt.clock(link.next_retry, chain.at, True)}"
    return [(since, ""), (retry, "dim")]


def _used(used: Spent | None) -> list[tuple[str, str]]:
    if used is None:
        return [("no request", "dim")]
    tokens = ("about " if used.estimated else "") + fmt.count(used.tokens, "token")
    counts = ", ".join((fmt.count(used.requests, "request"), fmt.count(used.texts, "text"), tokens))
    if used.usd is None:
        return [(counts, ""), (", cost unknown", "dim")]
    return [(counts, ""), (", free" if not used.usd else f", about {fmt.dollars(used.usd)}", "dim")]


def cache(chain: ChainState, damaged: bool, cells: int) -> Line:
    """The embedding cache in one line: embeddings and size by vector space, the largest first. That of a
    ``damaged`` index is not known."""
    start = [Span(" embedding cache  ", "dim")]
    if chain.caches is None:
        text = "none: qmd keeps the vectors of its documents in its index"
        return spread([*start, Span(text, "dim")], (), cells)
    if damaged or not chain.caches:
        known = "empty" if chain.links else "not known"
        text = "not known: the index is damaged" if damaged else known
        return spread([*start, Span(text, "dim")], (), cells)
    total = sum(size.bytes for size in chain.caches)
    end = line((f"{byte_size(total)} ", "dim")) if len(chain.caches) > 1 else ()
    parts = start
    sizes = sorted(chain.caches, key=lambda size: -size.bytes)
    for at, size in enumerate(sizes):
        entry = line(
            (" · " if at else "", "faint"),
            f"{fmt.inert(size.space.label)} ",
            (f"{fmt.count(size.entries, 'embedding')}, {byte_size(size.bytes)}", "dim"),
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
        return _UNUSED if group else "provider"
    role = group[0].role
    return fmt.join((name_of(group[0]), "" if role in _UNNAMED else role))


def status(chain: ChainState, view: View, activity: Activity, cells: int) -> Line:
    """What runs, or what has just happened."""
    if chain.trouble or (activity.phase == "failed" and not chain.links):
        return brief(line(BROKEN, fmt.message(chain.trouble or activity.trouble)), cells)
    if chain.probing:
        names = ", ".join(sorted({name for name, _, _ in chain.probing}))
        start = line(
            (" ◐ ", "accent"), f"probing {fmt.inert(names)} ", *keyed(f"`{key('leave')}` cancel", "faint")
        )
    elif view.pending:
        start = line((" ◐ ", "accent"), ("searching the last query again", "dim"))
    elif not chain.links:
        start = line((" ◐ ", "accent"), ("reading the providers", "dim"))
    else:
        links = [link for link in chain.links if link.state in ("failed", "not-indexed")]
        trouble = ", ".join(f"{name_of(link)} {link.label}" for link in links)
        summary = trouble or "no provider is failing"
        # The sign is the state, whatever the last message is; but that of a probe that failed is its own.
        mark = DEGRADED if trouble or chain.said == DAMAGED else GOOD
        said = type(chain.said)(fmt.message(in_full(chain.said)))  # one that failed still says so
        start = reported(said or summary, mark, "" if said else "dim")
        if view.shown_faults and not said and not view.query.strip():
            then = "asks for a query, which is searched with it"
            start = line(mark, *keyed(f"`{key('compare')}` {then}"))
    return brief(start, cells)


# -- simulated faults --------------------------------------------------------------------------------------

#: Cells from which a fault and its explanation are on one line.
_ONE_LINE = 63


def fault_rows(simulated: frozenset[str], name: str, cells: int, selected: bool) -> list[Line]:
    """A check box, the name and what it does; in a narrow pane below it, and only of one selected or on."""
    on = name in simulated
    mark = Span(*fmt.POINTER[selected])
    box = line(("[", "dim"), ("x" if on else " ", "strong bad"), ("] ", "dim"))
    label = Span(name, "strong bad" if on else "strong" if selected else "")
    if cells >= _ONE_LINE:
        pad = " " * (max(map(len, FAULTS)) + 2 - len(name))
        whole = (mark, *box, label, Span(pad), Span(FAULTS[name], "dim"))
        return wrapped(whole, cells - 1, _INDENT + 2 + max(map(len, FAULTS)) + 2)
    effect = wrapped((Span(" " * (_INDENT + 2)), Span(FAULTS[name], "dim")), cells - 1, _INDENT + 2)
    return [line(mark, *box, label), *(effect if on or selected else ())]
