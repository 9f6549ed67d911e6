"""``openclaw-mem index``."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from openclaw_mem_engine.cli.opening import check_file, looking, open_memory, replacing, warned_settings
from openclaw_mem_engine.cli.planning import announce, plan_lines
from openclaw_mem_engine.cli.progress import ProgressLine
from openclaw_mem_engine.cli.terminal import one_line, say, show, stoppable
from openclaw_mem_engine.cli.text_format import duration, excluded_lines
from openclaw_mem_engine.errors import IndexDamaged, ProviderError, UsageError
from openclaw_mem_engine.model import WHOLE
from openclaw_mem_engine.sanitize import counted
from openclaw_mem_engine.sync.report import SyncRequest

if TYPE_CHECKING:
    from openclaw_mem_engine.config.settings import Settings
    from openclaw_mem_engine.sync.plan import Plan
    from openclaw_mem_engine.sync.report import SyncReport


def run(arguments: Namespace) -> int:
    """Bring the index up to date and print what was done."""
    if arguments.agents is not None:
        from openclaw_mem_engine.cli.index_agents import run as run_agents

        return run_agents(arguments)
    if arguments.jobs is not None:
        raise UsageError("--jobs needs --agents: it says how many agents are synced at a time.")
    settings = warned_settings(arguments)
    if arguments.dry_run and arguments.verify:
        raise UsageError("--dry-run reads only what its time or size says has changed: leave --verify out.")
    if arguments.dry_run:
        return _dry_run(settings, arguments)
    report = sync(settings, SyncRequest(arguments.force, arguments.verify, arguments.prune, tails=True))
    lines = report_lines(report, chunks=not settings.qmd_in_process)
    show(report.to_dict(), lines, as_json=arguments.json)
    # Keywords find the new text already, but what was asked for is not done.
    for note in report.incomplete:
        say(note.text)
    return ProviderError.exit_code if report.incomplete else 0


def _dry_run(settings: Settings, arguments: Namespace) -> int:
    """Print what the command would do. Sends nothing, and leaves nothing behind."""
    request = SyncRequest(arguments.force, prune=arguments.prune, tails=True)
    try:
        check_file(settings)
        plan = _plan(settings, request)
    except IndexDamaged:
        say("The index file is damaged: `openclaw-mem index` would replace it.")
        plan = _plan(settings, request, damaged=True)
    lines = plan_lines(plan, chunks=not settings.qmd_in_process)
    show(plan.to_dict(), lines, as_json=arguments.json)
    return 0


def _plan(settings: Settings, request: SyncRequest, damaged: bool = False) -> Plan:
    with looking(settings, damaged=damaged) as memory, stoppable() as token:
        return memory.plan(request, token)


def sync(settings: Settings, request: SyncRequest) -> SyncReport:
    """Bring the index up to date, with a line of progress; a damaged one is replaced (see ``replacing``)."""

    def once(request: SyncRequest) -> SyncReport:
        with open_memory(settings) as memory, stoppable() as token:
            announce(memory, token, request)
            with ProgressLine() as progress:
                return memory.sync(request, progress, token)

    return replacing(settings, request, once)


def report_lines(report: SyncReport, *, chunks: bool = True) -> list[str]:
    """What a sync did, for people. ``chunks``: the index is one of chunks, not of whole documents."""
    did = report.changed or report.without_text or report.removed
    # Neither an index without the vectors it should have is up to date, nor one of notes that are all gone.
    made = "Up to date" if report.files else "Nothing to index"
    if did or report.embedded or report.cache_hits:
        made = "Indexed"
    if report.rebuilt:
        made = "Rebuilt"
    elif not did and any(file.path == WHOLE for file in report.excluded):
        made = "Unchanged"
    elif report.incomplete:
        made = "Incomplete"
    held = counted(report.files, "file") + (f", {counted(report.chunks, 'chunk')}" if chunks else "")
    lines = [f"{made}: {held} in {duration(report.seconds)}."]
    if did and not report.rebuilt:
        out = sum(not file.of_workspace for file in report.excluded)  # as below
        left_out = f", {out:,} excluded" if out else ""
        gone = ", ".join(report.taken_out) or "0 deleted"
        lines.append(f"  {len(report.changed):,} new or modified, {gone}{left_out}")
    if report.embedded or report.cache_hits:
        embedded = counted(report.embedded, "text")
        lines.append(f"  {embedded} embedded, {report.cache_hits:,} taken from the cache")
    if report.verified:
        lines.append(f"  {counted(report.verified, 'file')} read and compared")
    if report.beside:
        lines.append(f"  {counted(report.beside, 'text')} embedded for other models (provider.also)")
    # Failures are printed on stderr.
    others = [note for note in report.notes if note not in report.incomplete]
    lines += [f"  {note.level}: {one_line(note.text)}" for note in others]
    return [*lines, *excluded_lines(report.excluded, report)]
