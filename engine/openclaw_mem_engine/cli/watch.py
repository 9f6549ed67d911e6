"""``openclaw-mem watch``."""

from __future__ import annotations

import time
from argparse import Namespace
from typing import TYPE_CHECKING, Any

from openclaw_mem_engine.cli.opening import open_memory, warned_settings
from openclaw_mem_engine.cli.planning import announce
from openclaw_mem_engine.cli.progress import ProgressLine
from openclaw_mem_engine.cli.terminal import flush_out, json_text, one_line, out, stoppable
from openclaw_mem_engine.cli.text_format import duration, excluded_words
from openclaw_mem_engine.commands import advice
from openclaw_mem_engine.sanitize import counted
from openclaw_mem_engine.sync.report import first_few

if TYPE_CHECKING:
    from openclaw_mem_engine.config.settings import Settings
    from openclaw_mem_engine.model import Progress
    from openclaw_mem_engine.sync.follow import FollowEvent, Reason
    from openclaw_mem_engine.sync.report import SyncReport

#: The lists of paths of a JSON line, and how many each names; the counts are always exact.
_LISTS = (
    "changed",
    "withoutText",
    "removed",
    "notIncluded",
    "excluded",
    "newlyExcluded",
    "noLongerExcluded",
)
_NAMED_JSON = 50


def run(arguments: Namespace) -> int:
    """Follow the workspace until Ctrl-C or SIGTERM, which is how it is meant to end: exit code 0."""
    settings = warned_settings(arguments)

    def show(event: FollowEvent) -> None:
        out(json_line(event, settings) if arguments.json else text_line(event, settings))
        flush_out()  # a reader may wait for it

    with open_memory(settings) as memory, stoppable(terminated=True) as stop:

        def sync(reason: Reason, progress: Progress) -> SyncReport:
            if reason == "start":
                announce(memory, stop)
            with ProgressLine() as line:

                def both(done: int, total: int, label: str) -> None:
                    line(done, total, label)
                    progress(done, total, label)

                return memory.sync(progress=both, cancel=stop)

        memory.follow(show, stop, sync=sync)
    return 0


def text_line(event: FollowEvent, settings: Settings) -> str:
    """``10:31:06  indexed memory/a.md · 1 text embedded · 1,204 files, 3,400 chunks · 0.2 s``"""
    clock = time.strftime("%H:%M:%S", time.localtime(event.time))
    return f"{clock}  {one_line(advice(_words(event, settings)))}"


def _words(event: FollowEvent, settings: Settings) -> str:
    if event.event == "watching":
        return f"watching {settings.workspace} ({', '.join(settings.sources)}); Ctrl-C ends it"
    if event.report is not None:
        return _report_words(event.report, event)
    if event.note is not None:
        return f"{event.note.level}: {event.note.text}"
    if event.event == "failed":
        again = f" Next try in {duration(event.retry_s)}." if event.retry_s else ""
        return f"failed: {event.text}{again}"
    return event.text or event.event


def _report_words(report: SyncReport, event: FollowEvent) -> str:
    did = ["rebuilt"] if report.rebuilt else []
    if report.changed:
        did.append(f"indexed {first_few(report.changed)}")
    if report.deleted:
        did.append(f"deleted: {first_few(report.deleted)}")
    if report.not_included:
        did.append(f"not included now: {first_few(report.not_included)}")
    if event.newly_excluded:
        did.append(f"excluded {first_few([excluded_words(file, report) for file in event.newly_excluded])}")
    named = {*report.changed, *report.removed}
    if back := [path for path in event.included if path not in named]:
        did.append(f"no longer excluded: {first_few(back)}")
    parts = ["; ".join(did) or "up to date"]
    if report.embedded or report.cache_hits:
        parts.append(f"{counted(report.embedded, 'text')} embedded, {report.cache_hits:,} from the cache")
    if report.beside:
        parts.append(f"{counted(report.beside, 'text')} embedded for other models")
    parts.append(f"{counted(report.files, 'file')}, {counted(report.chunks, 'chunk')}")
    if left_out := sum(not file.by_rule for file in report.excluded):
        parts.append(f"{left_out:,} excluded")
    return " · ".join([*parts, duration(report.seconds)])


def json_line(event: FollowEvent, settings: Settings) -> str:
    """One JSON object. ``time`` is epoch seconds; a sync has the keys of ``index --json``, and what became
    left out and what is so no longer, with at most 50 paths in each list and the counts beside them."""
    found: dict[str, Any] = {"time": round(event.time, 3), "event": event.event}
    if event.event == "watching":
        found |= {"workspace": str(settings.workspace), "sources": list(settings.sources)}
    if event.reason is not None:
        found["reason"] = event.reason
    if event.report is not None:
        removed = set(event.report.removed)
        report = event.report.to_dict() | {
            "newlyExcluded": [
                file.to_dict() | {"textRemoved": file.path in removed} for file in event.newly_excluded
            ],
            "noLongerExcluded": list(event.included),
        }
        for key in _LISTS:
            listed = report[key]
            assert isinstance(listed, list)
            report |= {key: listed[:_NAMED_JSON], f"{key}Count": len(listed)}
        found |= report
    if event.note is not None:
        found |= event.note.to_dict()
    if event.text:
        found["text"] = event.text
    if event.retry_s is not None:
        found["retrySeconds"] = round(event.retry_s, 1)
    return json_text(found)
