"""``openclaw-mem status``."""

from __future__ import annotations

import dataclasses
import sys
import time
from argparse import Namespace
from typing import TYPE_CHECKING

from openclaw_mem_engine.cli.formats import print_json
from openclaw_mem_engine.cli.opening import looking, settings_of
from openclaw_mem_engine.cli.progress import duration
from openclaw_mem_engine.cli.terminal import Style, aligned, one_line, out
from openclaw_mem_engine.cli.text_format import (
    count,
    destination,
    dollars,
    failing,
    fallback_words,
    moment,
    token_count,
)
from openclaw_mem_engine.providers.spent import Spent, summed
from openclaw_mem_engine.stores.sqlite.files import index_is_there

if TYPE_CHECKING:
    from collections.abc import Iterable

    from openclaw_mem_engine.config.settings import Settings
    from openclaw_mem_engine.model import Freshness
    from openclaw_mem_engine.providers.provider_state import ProviderState
    from openclaw_mem_engine.status import Status

_NAMED = 3


def run(arguments: Namespace) -> int:
    """Print what is configured and what is there. Changes nothing, makes nothing."""
    status = status_of(settings_of(arguments))
    if arguments.json:
        print_json(status.to_dict())
        return 0
    style = Style.of(sys.stdout)
    for line in status_lines(status, style, time.time()):
        out(line)
    return 0


def status_of(settings: Settings) -> Status:
    """The state of a memory. One that was never indexed is asked by way of an index that is thrown away,
    so that looking leaves nothing behind."""
    exists = index_is_there(settings.index_path)
    with looking(settings) as memory:
        status = memory.status()
    if exists:
        return status
    return dataclasses.replace(status, index_path=str(settings.index_path), index_bytes=0)


def status_lines(status: Status, style: Style, now: float) -> list[str]:
    """The report for people; ``now`` is epoch seconds."""
    fresh = status.freshness
    synced = "never" if fresh.synced_at is None else f"{duration(now - fresh.synced_at)} ago"
    asked = status.requested_provider
    provider = status.provider if asked == status.provider else f"{status.provider} (configured: {asked})"
    rows = [
        ("agent", one_line(status.agent)),
        ("workspace", one_line(status.workspace)),
        ("index", f"{one_line(status.index_path)} ({_size(status.index_bytes)})"),
        ("state", f"{_state(fresh, now)}, last brought up to date: {synced}"),
        *([("", _changes(status))] if fresh.changed_count else []),
        ("files", f"{status.files:,}" + (f", {len(fresh.skipped):,} left out" if fresh.skipped else "")),
        ("chunks", f"{status.chunks:,}, {status.vectors:,} with a vector"),
        ("provider", provider),
        ("model", f"{status.model or '–'} · languages: {status.languages}"),
        ("cache", count(status.cached, "embedding")),
        ("keywords", "ready" if status.full_text else "not available: SQLite has no FTS5"),
        ("vectors", "keywords only" if status.provider == "none" else status.vector_search),
        ("backend", status.backend),
        ("profile", status.profile),
    ]
    if status.fallback is not None:
        rows.append(("fallback", f"from {status.fallback.origin}: {one_line(status.fallback.reason)}"))
        rows.append(("", fallback_words(status.fallback, now)))
    rows += _headed("in use", (_link(link, now) for link in [link for link in status.chain if link.in_use]))
    rows += _headed("used today", (_spent(item) for item in _today(status, now)))
    lines = aligned(rows)
    lines += [f"{style.mark(note.level)}: {one_line(note.text)}" for note in status.notes]
    if fresh.skipped:
        lines.append("left out:")
        lines += [f"  {one_line(skipped.path)}: {one_line(skipped.reason)}" for skipped in fresh.skipped]
    if fresh.state in ("empty", "stale"):
        lines.append(style.dim("`openclaw-mem index` brings it up to date; so does the next search."))
    return lines


def _headed(name: str, texts: Iterable[str]) -> list[tuple[str, str]]:
    """Rows below one name."""
    return [("" if place else name, text) for place, text in enumerate(texts)]


def _link(link: ProviderState, now: float) -> str:
    """``openai (primary): serving · 4 of 4 passages have its vectors · text goes to api.openai.com``"""
    told = [f"{link.name} ({link.role}): {link.state}"]
    if link.state == "failed":
        told[0] = f"{told[0]} {failing(link.since, link.next_retry, now)}".rstrip()
    told.append(f"{link.vectors:,} of {count(link.chunks, 'passage')} with its vectors")
    told.append(f"text goes to {destination(link.name, link.host)}" if link.host else "")
    return " · ".join(part for part in told if part)


def _today(status: Status, now: float) -> list[Spent]:
    day = time.strftime("%Y-%m-%d", time.localtime(now))
    return summed(status.usage, [link for link in status.chain if link.in_use], since=day)


def _spent(item: Spent) -> str:
    tokens = token_count(item.tokens, estimated=item.estimated)
    counts = f"{count(item.requests, 'request')}, {count(item.texts, 'text')}, {tokens} tokens"
    cost = "" if item.usd is None else f", {dollars(item.usd)}"
    return one_line(f"{item.provider} {item.model}: {counts}{cost}")


def _state(fresh: Freshness, now: float) -> str:
    """``stale since 08:31:05 (2 min ago)``; just the word where nothing tells since when."""
    if fresh.state != "stale" or fresh.stale_since is None:
        return fresh.state
    return f"stale since {moment(fresh.stale_since, now)}"


def _changes(status: Status) -> str:
    fresh = status.freshness
    named = ", ".join(one_line(path) for path in fresh.changed[:_NAMED])
    more = fresh.changed_count - min(_NAMED, len(fresh.changed))
    return f"{count(fresh.changed_count, 'change')}: {named}" + (f" and {more:,} more" if more else "")


def _size(size: int) -> str:
    if not size:
        return "not there yet"
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.0f} kB"
