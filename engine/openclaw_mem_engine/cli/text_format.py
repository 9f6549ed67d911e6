"""Words for figures: how many, when, what it costs, where text goes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from openclaw_mem_engine.cli.terminal import indented, one_line
from openclaw_mem_engine.sanitize import capital, counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openclaw_mem_engine.model import ExcludedFile, Fallback
    from openclaw_mem_engine.sync.report import SyncReport

_DAY_S = 86_400


def duration(seconds: float) -> str:
    """``0.4 s``, ``12 s``, ``3 min``, ``5 h``, ``12 days``"""
    if seconds < 10:
        return f"{max(0.0, seconds):.1f} s"
    for limit, unit, name in ((90, 1, "s"), (5400, 60, "min"), (36 * 3600, 3600, "h")):
        if seconds < limit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds / 86400:.0f} days"


def moment(then: float, now: float) -> str:
    """A time and how long ago that was: ``08:31:05 (2 min ago)``, with the date when it is not of the last
    day. Both are epoch seconds."""
    form = "%H:%M:%S" if 0 <= now - then < _DAY_S else "%Y-%m-%d %H:%M"
    return f"{clock_text(then, form)} ({duration(now - then)} ago)"


def clock_text(at: float, form: str) -> str:
    """Epoch seconds as local time, in the form of ``strftime``."""
    try:
        return time.strftime(form, time.localtime(at))
    except (OverflowError, OSError, ValueError):  # beyond what the system's calendar knows
        return "an unknown time"


def retry(next_retry: float | None, now: float) -> str:
    """When a provider is requested again; "" where it is not paused."""
    if next_retry is None:
        return ""
    return f"retry {'with the next search' if next_retry <= now else f'in {duration(next_retry - now)}'}"


def failing(since: float | None, next_retry: float | None, now: float) -> str:
    """``since 08:31:05 (2 min ago), retry in 12 s``"""
    began = f"since {moment(since, now)}" if since is not None else ""
    return ", ".join(part for part in (began, retry(next_retry, now)) if part)


def fallback_words(fallback: Fallback, now: float) -> str:
    """What is used instead of which provider, since when and until when; without the reason."""
    when = failing(fallback.since, fallback.next_retry, now)
    return one_line(f"{fallback.words}, {when}" if when else fallback.words)


def dollars(usd: float | None) -> str:
    """``about $0.0021``, ``free``, or ``unknown``"""
    if usd is None:
        return "unknown"
    if usd == 0:
        return "free"
    return f"about ${usd:.2f}" if usd >= 1 else f"about ${usd:.4f}" if usd >= 0.0001 else "below $0.0001"


def token_count(tokens: int, *, estimated: bool) -> str:
    """``1,200``, or ``about 1,200`` for an estimate."""
    return f"about {tokens:,}" if estimated else f"{tokens:,}"


def excluded_words(file: ExcludedFile, report: SyncReport | None = None) -> str:
    """``memory/a.md: is not text (its old text was removed)``"""
    removed = " (its old text was removed)" if report and file.path in report.removed else ""
    return one_line(f"{file.text}{removed}")


def excluded_lines(excluded: Sequence[ExcludedFile], report: SyncReport | None = None) -> list[str]:
    """What is said of the workspace as a whole, then the files and folders that are excluded, counted."""
    files = [excluded_words(file, report) for file in excluded if not file.of_workspace]
    head = [f"{counted(len(files), 'file or folder', 'files or folders')} excluded:"] if files else []
    whole = [f"warning: {capital(excluded_words(file))}." for file in excluded if file.of_workspace]
    return [*whole, *head, *indented(files)]


def destination(provider: str, host: str) -> str:
    """Where the text sent to a provider goes; ``host`` is empty for what runs on this machine."""
    if host:
        return one_line(host)
    from openclaw_mem_engine.providers.prices import IN_PROCESS

    return "local only" if provider in IN_PROCESS else "a server on this machine"
