"""``openclaw-mem doctor`` and ``cache``: whether the index is whole, and what its embeddings take."""

from __future__ import annotations

import time
from argparse import Namespace
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from openclaw_mem_engine.cli.opening import open_memory, settings_of, warned_settings
from openclaw_mem_engine.cli.parser import whole_number
from openclaw_mem_engine.cli.progress import ProgressLine
from openclaw_mem_engine.cli.terminal import (
    aligned,
    dim,
    hanging,
    indented,
    marked,
    one_line,
    say,
    show,
    stoppable,
    strong,
    table,
)
from openclaw_mem_engine.cli.text_format import moment
from openclaw_mem_engine.commands import advice
from openclaw_mem_engine.errors import (
    Cancelled,
    IndexUnavailable,
    OpenClawMemError,
    UsageError,
    WorkspaceError,
)
from openclaw_mem_engine.sanitize import byte_size, counted
from openclaw_mem_engine.stores import is_there

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openclaw_mem_engine.config.settings import Settings
    from openclaw_mem_engine.stores.base import CacheSize
    from openclaw_mem_engine.stores.findings import DoctorReport
    from openclaw_mem_engine.sync.events import Journal


def run(arguments: Namespace) -> int:
    """Run every check, repair when asked to, and print what there is. Makes no index."""
    settings = settings_of(arguments)
    from openclaw_mem_engine.cli.tui import wrong_keys
    from openclaw_mem_engine.stores.findings import SEVERITIES, Finding
    from openclaw_mem_engine.sync.events import Journal

    with closing(Journal(settings)) as journal:
        report, done = _examined(settings, journal, deep=arguments.deep, fix=arguments.fix)
        code = 0
        if arguments.fix and report.synced:
            synced, code = _synced(settings, report)
            done += synced
            report, _ = _examined(settings, journal, deep=arguments.deep, fix=False)
    if refused := wrong_keys(settings):
        findings = (*report.findings, *(Finding("keys", "warning", text) for text in refused))
        report = replace(report, findings=tuple(sorted(findings, key=lambda f: SEVERITIES.index(f.severity))))
    data = {"indexPath": settings.index_name} | report.to_dict() | {"fixed": done}
    show(data, _report_lines(report, done, arguments.fix), as_json=arguments.json)
    errors = {finding.code for finding in report.findings if finding.severity == "error"}
    if errors == {"workspace"}:
        return WorkspaceError.exit_code
    return IndexUnavailable.exit_code if errors else code


class _Line(ProgressLine):
    """Names the check; those that go through files also count."""

    def _text(self, done: int, total: int, label: str, now: float) -> str:
        if total > 0:
            return super()._text(done, total, label, now)
        self._began = now
        return one_line(label)


def _examined(
    settings: Settings, journal: Journal, *, deep: bool, fix: bool
) -> tuple[DoctorReport, list[str]]:
    """The report, after the repair when that is asked for, and what was repaired; written into the log."""
    from openclaw_mem_engine.doctor import examine, repair
    from openclaw_mem_engine.providers.factory import ProviderSet

    lineup = ProviderSet(settings, read_only=True)
    try:
        with stoppable() as token, _Line() as progress:
            started = time.perf_counter()
            report = examine(settings, lineup.embedders, deep=deep, progress=progress, cancel=token)
            if not (fix and report.fixable):
                journal.examined(report, time.perf_counter() - started)
                return report, []
            done, after = repair(settings, lineup.embedders, journal, report, progress, token)
            if after is None:
                repaired = f"Repaired: {'; '.join(done).removesuffix('.')}. " if done else ""
                raise Cancelled(f"{repaired}The checks after that were stopped.")
            return after, done
    finally:
        lineup.close()


def _synced(settings: Settings, report: DoctorReport) -> tuple[list[str], int]:
    """Sync, or rebuild where that is the repair of a finding: what was done, and the exit code; why not is
    printed."""
    from openclaw_mem_engine.cli.index import sync
    from openclaw_mem_engine.commands import REBUILD
    from openclaw_mem_engine.sync.report import SyncRequest

    force = any(finding.repair == REBUILD for finding in report.synced)
    try:
        done = sync(settings, SyncRequest(force, verify=True, tails=True))
    except Cancelled:
        raise
    except OpenClawMemError as error:
        say(str(error))
        return [], error.exit_code
    for note in done.incomplete:
        say(note.text)
    made = f"the index was {'rebuilt' if done.rebuilt else 'synced'}: it has {counted(done.files, 'file')}"
    return [made], 0


def _report_lines(report: DoctorReport, done: Sequence[str], asked: bool) -> Iterator[str]:
    """Checks, findings with evidence and repair, and their number; what a repair that was ``asked`` for has
    left."""
    from openclaw_mem_engine.stores.findings import SEVERITIES

    yield strong("checks")
    rows = [("ok" if c.ok else c.worst, one_line(c.name), one_line(c.detail)) for c in report.checks]
    for line in indented(aligned(rows)):
        yield from hanging(line, 30)
    if done:
        yield from ("", strong("repaired"))
        for text in done:
            yield from hanging(advice(f"  {one_line(text)}"), 4)
    if report.findings:
        yield from ("", strong("findings"))
    for finding in report.findings:
        head, *more = hanging(advice(f"  {finding.severity} {finding.code}: {one_line(finding.text)}"), 6)
        yield from (head.replace(finding.severity, marked(finding.severity), 1), *more)
        for item in finding.evidence:
            yield from map(dim, hanging(f"      {one_line(item)}", 8))
        if finding.repair and f"`{finding.repair}`" not in finding.text:  # which names it
            yield from hanging(advice(f"      to do: {one_line(finding.repair)}"), 8)
    severities: list[str] = [finding.severity for finding in report.findings]
    plurals = {"info": "info"}
    counts = [counted(severities.count(one), one, plurals.get(one)) for one in SEVERITIES]
    total = f"{', '.join(counts)} from {counted(len(report.checks), 'check')}."
    left = [finding for finding in report.findings if finding.repair and finding.severity != "info"]
    if asked and left:
        repairs = dict.fromkeys(f"`{finding.repair}`" for finding in left)
        names = dict.fromkeys(finding.code for finding in left)
        total += f"\nnot repaired: {', '.join(names)}. To do: {', '.join(repairs)}."
    elif fixed := len({*report.fixable, *report.synced}):
        again = report.synced or any(finding.replaces for finding in report.fixable)
        embeds = ", and may embed text again" if again else ""
        total += f" `openclaw-mem doctor --fix` repairs {counted(fixed, 'finding')}{embeds}."
    yield ""
    for line in total.split("\n"):
        yield from hanging(advice(line), 2)


def run_cache(arguments: Namespace) -> int:
    """Print the sizes of the embedding cache, or prune it. Without an index there is no cache, and none is
    made."""
    prune = arguments.action == "prune"
    most = whole_number(arguments.max, "--max", 0) if prune else None
    settings = warned_settings(arguments)
    kept = settings.cache.max_entries if settings.cache.enabled else 0
    most = kept if most is None else most
    if settings.qmd_in_process:
        raise UsageError(
            "The backend qmd has no cache of embeddings: the vectors of a text are in the index, until "
            "`openclaw-mem qmd cleanup` removes those of texts that no file has."
        )
    exists, removed = is_there(settings), 0
    sizes: Sequence[CacheSize] = ()
    if exists:
        with open_memory(settings) as memory, stoppable() as token:
            removed = memory.prune_cache(most, token) if prune else 0
            sizes = memory.cache_sizes()
    entries, live = sum(size.entries for size in sizes), sum(size.live for size in sizes)
    spared = max(0, entries - most)
    data: dict[str, Any] = {"indexPath": settings.index_name, "exists": exists}
    if prune:
        data |= {"max": most, "removed": removed, "spared": spared, "entries": entries, "live": live}
        lines = [
            f"{counted(removed, 'embedding')} removed; {entries:,} remain, {live:,} of them needed by chunks."
        ]
        if spared:
            lines.append(f"That is {spared:,} more than {most:,}: what chunks need is kept.")
    else:
        data |= {"entries": entries, "live": live, "bytes": sum(size.bytes for size in sizes)}
        data |= {"maxEntries": kept, "spaces": [_cache_dict(size) for size in sizes]}
        lines = _cache_lines(sizes, kept)
    if not exists:
        path = one_line(settings.index_name)
        lines = [f"There is no index yet ({path}), so there is no cache: `openclaw-mem index` makes both."]
    show(data, lines, as_json=arguments.json)
    return 0


def _cache_dict(size: CacheSize) -> dict[str, Any]:
    row = size._asdict()
    space = row.pop("space")
    return {"provider": space.provider, "model": space.model} | row


def _cache_lines(sizes: Sequence[CacheSize], kept: int) -> list[str]:
    """The cache space by space; a sync keeps ``kept`` embeddings."""
    now = time.time()
    if not sizes:
        return ["The cache holds no embeddings yet: `openclaw-mem index` fills it."]
    rows = [("embeddings of", "entries", "needed", "size", "oldest", "newest")]
    for size in sizes:
        counts = (f"{size.entries:,}", f"{size.live:,}", byte_size(size.bytes))
        rows.append((one_line(size.space.label), *counts, moment(size.oldest, now), moment(size.newest, now)))
    entries = counted(sum(size.entries for size in sizes), "embedding")
    total = f"{entries}, {byte_size(sum(size.bytes for size in sizes))}"
    rule = f"`openclaw-mem index` keeps {kept:,} at most, or more if chunks need them."
    return [*table(rows), *hanging(f"{total}; {rule}", 2)]
