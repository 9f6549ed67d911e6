"""``openclaw-mem doctor`` and ``cache``: whether the index is whole, and what its embeddings take."""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from contextlib import closing
from typing import TYPE_CHECKING, Any

from openclaw_mem_engine.api import Cancelled, IndexUnavailable, UsageError
from openclaw_mem_engine.cli.arguments import whole_number
from openclaw_mem_engine.cli.opening import open_memory, settings_of
from openclaw_mem_engine.cli.progress import ProgressLine
from openclaw_mem_engine.cli.terminal import Style, aligned, one_line, out, print_json, stoppable
from openclaw_mem_engine.cli.text_format import byte_size, count, moment
from openclaw_mem_engine.stores.sqlite.files import index_is_there

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openclaw_mem_engine.api import CacheSize, DoctorReport, Finding, Settings
    from openclaw_mem_engine.sync.events import Journal


def run(arguments: Namespace) -> int:
    """Run every check, repair when asked to, and print what there is. Makes no index."""
    settings = settings_of(arguments)
    from openclaw_mem_engine.sync.events import Journal

    with closing(Journal(settings)) as journal:
        report, done = _examined(settings, journal, deep=arguments.deep, fix=arguments.fix)
    if arguments.json:
        print_json({"indexPath": str(settings.index_path)} | report.to_dict() | {"fixed": done})
    else:
        for line in report_lines(report, done, Style.of(sys.stdout)):
            out(line)
    return IndexUnavailable.exit_code if report.errors else 0


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
                repaired = f"Repaired: {'; '.join(done)}. " if done else ""
                raise Cancelled(f"{repaired}The examination after that was stopped.")
            return after, done
    finally:
        lineup.close()


def report_lines(report: DoctorReport, done: Sequence[str], style: Style) -> list[str]:
    """Checks, findings with evidence and repair, and their number, for people."""
    rows = [
        ("ok" if check.ok else "see below", one_line(check.name), one_line(check.detail))
        for check in report.checks
    ]
    lines = [style.strong("checks"), *(f"  {line}" for line in aligned(rows))]
    if done:
        lines += ["", style.strong("repaired"), *(f"  {one_line(text)}" for text in done)]
    if report.findings:
        lines += ["", style.strong("findings")]
        for finding in report.findings:
            lines += _finding(finding, style)
    return [*lines, "", _sum(report)]


def _finding(finding: Finding, style: Style) -> list[str]:
    lines = [f"  {style.mark(finding.severity)} {finding.code}: {one_line(finding.text)}"]
    lines += [f"      {style.dim(one_line(item))}" for item in finding.evidence]
    if finding.repair:
        lines.append(f"      repair: {one_line(finding.repair)}")
    return lines


def _sum(report: DoctorReport) -> str:
    nouns = {"error": "error", "warning": "warning", "info": "notice"}
    severities: list[str] = [finding.severity for finding in report.findings]
    counts = [count(severities.count(severity), noun) for severity, noun in nouns.items()]
    text = f"{', '.join(counts)} from {count(len(report.checks), 'check')}."
    if report.fixable:
        text += f" `openclaw-mem doctor --fix` repairs {len(report.fixable):,} of them."
    return text


def run_cache(arguments: Namespace) -> int:
    """Print the sizes of the embedding cache, or prune it. Without an index there is no cache, and none is
    made."""
    most, prune = whole_number(arguments.max, "--max", 0), arguments.action == "prune"
    if most is not None and not prune:
        raise UsageError("--max belongs to `openclaw-mem cache prune`.")
    settings = settings_of(arguments)
    kept = settings.cache.max_entries if settings.cache.enabled else 0
    most = kept if most is None else most
    exists, removed = index_is_there(settings.index_path), 0
    sizes: Sequence[CacheSize] = ()
    if exists:
        with open_memory(settings) as memory, stoppable() as token:
            removed = memory.prune_cache(most, token) if prune else 0
            sizes = memory.cache_sizes()
    entries, live = sum(size.entries for size in sizes), sum(size.live for size in sizes)
    spared = max(0, entries - most)
    if arguments.json:
        figures = {"max": most, "removed": removed, "spared": spared, "entries": entries, "live": live}
        data = {"indexPath": str(settings.index_path), "exists": exists}
        print_json(data | (figures if prune else _cache_dict(sizes, kept)))
    elif not exists:
        out(
            f"There is no index yet ({one_line(str(settings.index_path))}), so there is no cache: "
            "`openclaw-mem index` makes both."
        )
    elif prune:
        out(
            f"{count(removed, 'embedding')} forgotten; {entries:,} stay, {live:,} of them needed by passages."
        )
        if spared:
            out(f"That is {spared:,} more than {most:,}: what a passage needs is spared.")
    else:
        for line in cache_lines(sizes, kept, Style.of(sys.stdout), time.time()):
            out(line)
    return 0


def _cache_dict(sizes: Sequence[CacheSize], kept: int) -> dict[str, Any]:
    rows = [size._asdict() for size in sizes]
    spaces = [(row.pop("space"), row) for row in rows]
    return {
        "entries": sum(size.entries for size in sizes),
        "live": sum(size.live for size in sizes),
        "bytes": sum(size.bytes for size in sizes),
        "maxEntries": kept,
        "spaces": [{"provider": space.provider, "model": space.model} | row for space, row in spaces],
    }


def cache_lines(sizes: Sequence[CacheSize], kept: int, style: Style, now: float) -> list[str]:
    """The cache space by space, for people; a sync keeps ``kept`` embeddings; ``now`` is epoch seconds."""
    if not sizes:
        return ["The cache holds no embeddings yet: `openclaw-mem index` fills it."]
    rows = [("embeddings of", "entries", "needed", "size", "oldest", "newest")]
    for size in sizes:
        counts = (f"{size.entries:,}", f"{size.live:,}", byte_size(size.bytes))
        rows.append((one_line(size.space.label), *counts, moment(size.oldest, now), moment(size.newest, now)))
    head, *lines = aligned(rows)
    entries = count(sum(size.entries for size in sizes), "embedding")
    total = f"{entries}, {byte_size(sum(size.bytes for size in sizes))}"
    rule = f"an index run keeps at most {kept:,}, and always those that passages need."
    return [style.strong(head), *lines, f"{total}; {rule}"]
