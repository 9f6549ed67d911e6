"""``openclaw-mem doctor``."""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

from openclaw_mem_engine.cli.formats import print_json
from openclaw_mem_engine.cli.opening import settings_of
from openclaw_mem_engine.cli.progress import ProgressLine
from openclaw_mem_engine.cli.terminal import Style, aligned, one_line, out, stoppable
from openclaw_mem_engine.cli.text_format import count
from openclaw_mem_engine.errors import Cancelled, IndexUnavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openclaw_mem_engine.config.settings import Settings
    from openclaw_mem_engine.stores.findings import Finding, Report
    from openclaw_mem_engine.sync.journal import Journal


def run(arguments: Namespace) -> int:
    """Look at everything, mend when asked to, and print what there is. Makes no index."""
    settings = settings_of(arguments)
    from openclaw_mem_engine.sync.journal import Journal

    with closing(Journal.of(settings)) as journal:
        report, done = _examined(settings, journal, deep=arguments.deep, mend=arguments.fix)
    if arguments.json:
        print_json({"indexPath": str(settings.index_path)} | report.to_dict() | {"fixed": done})
    else:
        for line in report_lines(report, done, Style.of(sys.stdout)):
            out(line)
    return IndexUnavailable.exit_code if report.errors else 0


class _Line(ProgressLine):
    """Checks are told by name; those that go through files also by count."""

    def _text(self, done: int, total: int, label: str, now: float) -> str:
        if total > 0:
            return super()._text(done, total, label, now)
        self._began = now
        return one_line(label)


def _examined(settings: Settings, journal: Journal, *, deep: bool, mend: bool) -> tuple[Report, list[str]]:
    """What there is, after mending when that is asked for, and what was mended; the log is told of both."""
    from openclaw_mem_engine.doctor.examination import examine, fix
    from openclaw_mem_engine.providers.factory import ProviderSet

    lineup = ProviderSet(settings, read_only=True)
    try:
        with stoppable() as token, _Line() as progress:
            look = partial(examine, settings, lineup.embedders, deep=deep, progress=progress, cancel=token)
            done: list[str] = []
            started = time.perf_counter()
            report = look()
            if mend and report.fixable:
                began = time.perf_counter()
                done = fix(settings, report, token, killed=journal.killed)
                started = time.perf_counter()
                journal.mended(done, started - began)
                try:
                    report = look()
                except Cancelled as error:
                    told = f"Mended: {'; '.join(done)}. The examination after that was stopped."
                    raise Cancelled(told if done else str(error)) from error
            journal.examined(report, time.perf_counter() - started)
            return report, done
    finally:
        lineup.close()


def report_lines(report: Report, done: Sequence[str], style: Style) -> list[str]:
    """Checks, findings with evidence and repair, and a sum, for people."""
    rows = [
        ("ok" if check.ok else "look", one_line(check.name), one_line(check.detail))
        for check in report.checks
    ]
    lines = [style.strong("checks"), *(f"  {line}" for line in aligned(rows))]
    if done:
        lines += ["", style.strong("mended"), *(f"  {one_line(text)}" for text in done)]
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


def _sum(report: Report) -> str:
    counts = [
        count(sum(finding.severity == severity for finding in report.findings), noun, plural)
        for severity, noun, plural in (
            ("error", "error", "errors"),
            ("warning", "warning", "warnings"),
            ("info", "remark", "remarks"),
        )
    ]
    told = f"{', '.join(counts)} from {count(len(report.checks), 'check')}."
    if report.fixable:
        told += f" `openclaw-mem doctor --fix` mends {len(report.fixable):,} of them."
    return told
