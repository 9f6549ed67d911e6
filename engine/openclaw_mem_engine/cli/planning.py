"""What an index run would do and cost: for ``index --dry-run``, and before text leaves the machine."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from openclaw_mem_engine.cli.terminal import hanging, marked, one_line, say, strong, table
from openclaw_mem_engine.cli.text_format import destination, dollars, excluded_lines
from openclaw_mem_engine.sanitize import counted
from openclaw_mem_engine.sync.report import DEFAULT_REQUEST, SyncRequest

if TYPE_CHECKING:
    from openclaw_mem_engine.memory import Memory
    from openclaw_mem_engine.ranking.knobs import Knobs
    from openclaw_mem_engine.sync.plan import Plan, PlannedSpace


def plan_lines(plan: Plan, *, chunks: bool = True) -> list[str]:
    """A plan for people. ``chunks``: the index is one of chunks, not of whole documents."""
    lines = [strong("Dry run: nothing is sent, nothing is written.")]
    if plan.rebuild:
        lines.append(f"The index would be rebuilt: {one_line(plan.rebuild)}.")
    lost = f" ({counted(plan.removed_chunks, 'chunk')})" if chunks else ""
    gone = f"; {plan.removed:,} to take out of the index{lost}" if plan.removed else ""
    made = f", {counted(plan.chunks, 'chunk')}" if chunks else ""
    lines.append(f"{counted(plan.files, 'file')} to read{made}{gone}")
    if plan.credentials:
        seem = counted(plan.credentials, "chunk seems", "chunks seem")
        lines.append(
            f"{seem} to hold credentials. They are redacted in what is sent. Lines: `openclaw-mem doctor`"
        )
    if plan.spaces:
        rows = [("vectors of", "to embed", "from cache", "tokens", "cost", "text goes to", "price")]
        for space in plan.spaces:
            label, texts = one_line(space.space.label), counted(space.texts, "text")
            tokens = f"about {space.tokens:,}" if space.tokens else "0"
            host = destination(space.space.provider, space.host)
            price = dollars(space.usd), host, one_line(space.price)
            rows.append((label, texts, f"{space.cached:,}", tokens, *price))
        lines += table(rows)
        for space in plan.spaces:
            if space.why_not:
                why = hanging(f"not now: {one_line(f'{space.space.label}: {space.why_not}')}", 2)
                lines += (why[0].replace("not now", marked("not now"), 1), *why[1:])
    else:
        lines.append("BM25 only: no vectors (provider = none).")
    return [*lines, *excluded_lines(plan.excluded)]


def announce(memory: Memory, token: threading.Event, request: SyncRequest = DEFAULT_REQUEST) -> None:
    """Say on stderr, before the sync of ``request``, which text will leave this process and to which host.
    Costs nothing unless an embedder in use is reached by an address."""
    if not memory.hosts:
        return
    chain = [link for link in memory.chain() if link.in_use]
    links = [link for link in chain if link.state != "failed" or link.next_retry is not None]
    # A rebuild also asks one whose vectors have another length now.
    if not any(link.host for link in (chain if request.force else links)):
        return
    primary = next((link for link in links if link.role == "primary"), None)
    if request.budget_s is not None and primary is not None and (primary.next_retry or 0) > time.time():
        return  # nor does a search ask a provider that is paused
    plan = memory.plan(request, token)
    if plan.rebuild and request.budget_s is not None:
        return  # a search leaves a rebuild to `openclaw-mem index`
    sent = [space for space in plan.spaces if space.host and space.texts and not space.why_not]
    for space in sent:
        host = destination(space.space.provider, space.host)
        say(f"Sending {counted(space.texts, 'text')} ({_price(space)}) to {host}.")
    for link in links:
        if sent and link.role == "fallback" and link.host and primary is not None:
            host = destination(link.name, link.host)
            say(f"If {primary.name} fails, they are sent to {host} instead ({link.price}).")


def announce_reranking(memory: Memory, knobs: Knobs) -> None:
    """Say on stderr, before a search with these knobs, when note text goes to a reranker elsewhere."""
    for one in memory.services() if knobs.rerank else ():
        if one.use == "rerank" and one.host and not one.missing:
            most = counted(knobs.rerank_top, "candidate")
            say(f"Passages of up to {most} are sent to {one_line(one.host)} for reranking.")


def _price(space: PlannedSpace) -> str:
    tokens = f"about {counted(space.tokens, 'token')}"
    # Without a sum the reason is shown: no list price is known, or there is nothing to pay.
    return f"{tokens}, {dollars(space.usd)}" if space.usd else f"{tokens}, {one_line(space.price)}"
