"""``openclaw-mem watch``."""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

from openclaw_mem_engine.cli.following import Follower
from openclaw_mem_engine.cli.opening import say_warnings, settings_of
from openclaw_mem_engine.cli.progress import duration
from openclaw_mem_engine.cli.terminal import flush_out, one_line, out, speaks_utf8
from openclaw_mem_engine.cli.text_format import count, left_out_words

if TYPE_CHECKING:
    from openclaw_mem_engine.cli.following import Happening
    from openclaw_mem_engine.config.settings import Settings
    from openclaw_mem_engine.sync.report import SyncReport

#: How many paths a line names; the counts are always exact.
_NAMED, _NAMED_JSON = 3, 50


def run(arguments: Namespace) -> int:
    """Follow the workspace until Ctrl-C or SIGTERM, which is how it is meant to end: exit code 0."""
    settings = settings_of(arguments)
    say_warnings(settings)

    def tell(happening: Happening) -> None:
        line = json_line(happening, settings) if arguments.json else text_line(happening, settings)
        out(line)
        flush_out()  # somebody waits for it

    follower = Follower(settings, tell)
    with _stopping(follower.stop):
        follower.run()
    return 0


@contextmanager
def _stopping(stop: Callable[[], None]) -> Iterator[None]:
    """The first Ctrl-C, or SIGTERM, stops; the second Ctrl-C interrupts as usual."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def asked(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, before[signal.SIGINT])
        stop()

    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, asked) for number in numbers}
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, before[number])


def text_line(happening: Happening, settings: Settings) -> str:
    """``10:31:06  indexed memory/a.md · 1 text embedded · 1,204 files, 3,400 chunks · 0.2 s``"""
    told = one_line(_words(happening, settings))
    return f"{time.strftime('%H:%M:%S', time.localtime(happening.time))}  {told}"


def _words(happening: Happening, settings: Settings) -> str:
    if happening.event == "watching":
        return f"watching {settings.workspace} ({', '.join(settings.sources)}); Ctrl-C ends it"
    if happening.event == "sync" and happening.report is not None:
        return _report_words(happening.report, happening)
    if happening.event == "note" and happening.note is not None:
        return f"{happening.note.level}: {happening.note.text}"
    if happening.event == "failed":
        again = f" Tried again in {duration(happening.retry_s)}." if happening.retry_s else ""
        return f"failed: {happening.text}{again}"
    return happening.text or happening.event


def _report_words(report: SyncReport, happening: Happening) -> str:
    did = ["built anew"] if report.rebuilt else []
    if report.changed:
        did.append(f"indexed {_names(report.changed)}")
    if report.gone:
        did.append(f"gone: {_names(report.gone)}")
    if happening.left_out:
        did.append(f"left out {_names([left_out_words(file, report) for file in happening.left_out])}")
    told = {*report.changed, *report.gone}
    if back := [path for path in happening.back if path not in told]:
        did.append(f"no longer left out: {_names(back)}")
    parts = ["; ".join(did) or "up to date"]
    if report.embedded or report.cache_hits:
        parts.append(f"{count(report.embedded, 'text')} embedded, {report.cache_hits:,} from the cache")
    if report.beside:
        parts.append(f"{count(report.beside, 'text')} embedded beside")
    parts.append(f"{count(report.files, 'file')}, {count(report.chunks, 'chunk')}")
    left_out = sum(not skipped.by_rule for skipped in report.skipped)
    if left_out:
        parts.append(f"{left_out:,} left out")
    return " · ".join([*parts, duration(report.seconds)])


def _names(paths: Sequence[str]) -> str:
    more = len(paths) - _NAMED
    return ", ".join(paths[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def json_line(happening: Happening, settings: Settings) -> str:
    """One JSON object. ``time`` is epoch seconds; a sync has the keys of ``index --json``, and what became
    left out and what is so no longer, with at most 50 paths in each list and the counts beside them."""
    told: dict[str, Any] = {"time": round(happening.time, 3), "event": happening.event}
    if happening.event == "watching":
        told |= {"workspace": str(settings.workspace), "sources": list(settings.sources)}
    if happening.reason is not None:
        told["reason"] = happening.reason
    if happening.report is not None:
        removed = set(happening.report.removed)
        report = happening.report.to_dict() | {
            "leftOut": [
                file.to_dict() | {"textRemoved": file.path in removed} for file in happening.left_out
            ],
            "noLongerLeftOut": list(happening.back),
        }
        for key in ("changed", "refused", "removed", "skipped", "leftOut", "noLongerLeftOut"):
            listed = report[key]
            assert isinstance(listed, list)
            report |= {key: listed[:_NAMED_JSON], f"{key}Count": len(listed)}
        told |= report
    if happening.note is not None:
        told |= happening.note.to_dict()
    if happening.text:
        told["text"] = happening.text
    if happening.retry_s is not None:
        told["retrySeconds"] = round(happening.retry_s, 1)
    return json.dumps(told, ensure_ascii=not speaks_utf8(sys.stdout))
