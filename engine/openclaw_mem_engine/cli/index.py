"""``openclaw-mem index``."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from openclaw_mem_engine.cli.formats import print_json
from openclaw_mem_engine.cli.opening import open_memory, say_warnings, settings_of
from openclaw_mem_engine.cli.progress import ProgressLine, duration
from openclaw_mem_engine.cli.stopping import stoppable
from openclaw_mem_engine.cli.terminal import Style, one_line, out, say
from openclaw_mem_engine.cli.words import count
from openclaw_mem_engine.errors import IndexDamaged, ProviderError, UsageError
from openclaw_mem_engine.index.aside import set_aside
from openclaw_mem_engine.sync.lock import SyncLock

if TYPE_CHECKING:
    from openclaw_mem_engine.config.settings import Settings
    from openclaw_mem_engine.sync.indexer import SyncReport


def run(arguments: Namespace) -> int:
    """Bring the index up to date and print what was done."""
    settings = settings_of(arguments)
    say_warnings(settings)
    if arguments.dry_run and arguments.verify:
        raise UsageError("--dry-run reads only what its time or size says has changed: leave --verify out.")
    if arguments.dry_run:
        return _dry_run(settings, arguments)
    try:
        report = _sync(settings, force=arguments.force, verify=arguments.verify)
    except IndexDamaged as error:
        if not arguments.force:
            raise
        with SyncLock(settings.index_path, "setting a damaged index aside").holding():
            damaged = set_aside(settings.index_path)
        say(f"{error} It is now {damaged.name}; a new index is built.")
        report = _sync(settings, force=False, verify=False)
    if arguments.json:
        print_json(report.to_dict())
    else:
        for line in report_lines(report):
            out(line)
    # Keywords find the new text already, but what was asked for is not done.
    failures = [note for note in report.notes if note.code == "embedding-failed"]
    for note in failures:
        say(note.text)
    return ProviderError.exit_code if failures else 0


def _dry_run(settings: Settings, arguments: Namespace) -> int:
    from openclaw_mem_engine.cli.planning import dry_plan, plan_lines

    plan = dry_plan(settings, force=arguments.force)
    if arguments.json:
        print_json(plan.to_dict())
        return 0
    for line in plan_lines(plan, Style.of(sys.stdout)):
        out(line)
    return 0


def _sync(settings: Settings, *, force: bool, verify: bool) -> SyncReport:
    from openclaw_mem_engine.cli.planning import announce

    with open_memory(settings) as memory, stoppable() as token:
        announce(memory, token, force=force)
        with ProgressLine() as progress:
            return memory.sync(progress, token, force=force, verify=verify)


def report_lines(report: SyncReport) -> list[str]:
    """What a sync did, for people."""
    made = "Built anew" if report.rebuilt else "Indexed" if report.changed or report.removed else "Up to date"
    lines = [
        f"{made}: {count(report.files, 'file')}, {count(report.chunks, 'chunk')} "
        f"in {duration(report.seconds)}."
    ]
    if not report.rebuilt and (report.changed or report.removed):
        lines.append(f"  {len(report.changed):,} new or changed, {len(report.removed):,} gone")
    if report.embedded or report.cache_hits:
        lines.append(
            f"  {count(report.embedded, 'text')} embedded, {report.cache_hits:,} taken from the cache"
        )
    if report.verified:
        lines.append(f"  {count(report.verified, 'file')} read and compared, whatever the times say")
    if report.beside:
        lines.append(f"  {count(report.beside, 'text')} embedded for vectors beside the primary's")
    # A failure is told on stderr, where whoever looks only there finds it.
    told = [note for note in report.notes if note.code != "embedding-failed"]
    lines += [f"  {note.level}: {one_line(note.text)}" for note in told]
    if report.skipped:
        lines.append(f"{count(len(report.skipped), 'file or folder', 'files or folders')} left out:")
        lines += [f"  {one_line(skipped.path)}: {one_line(skipped.reason)}" for skipped in report.skipped]
    return lines
