"""``openclaw-mem doctor``."""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from contextlib import closing
from typing import TYPE_CHECKING

from openclaw_mem_engine.api import Cancelled, IndexUnavailable
from openclaw_mem_engine.cli.formats import print_json
from openclaw_mem_engine.cli.opening import settings_of
from openclaw_mem_engine.cli.progress import ProgressLine
from openclaw_mem_engine.cli.terminal import Style, aligned, one_line, out, stoppable
from openclaw_mem_engine.cli.text_format import count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openclaw_mem_engine.api import DoctorReport, Finding, Settings
    from openclaw_mem_engine.sync.events import Journal


def run(arguments: Namespace) -> int:
    """Run every check, repair when asked to, and print what there is. Makes no index."""
    settings = settings_of(arguments)
    from openclaw_mem_engine.sync.events import Journal

    with closing(Journal.of(settings)) as journal:
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
    counts = [
        count(sum(finding.severity == severity for finding in report.findings), noun, plural)
        for severity, noun, plural in (
            ("error", "error", "errors"),
            ("warning", "warning", "warnings"),
            ("info", "notice", "notices"),
        )
    ]
    text = f"{', '.join(counts)} from {count(len(report.checks), 'check')}."
    if report.fixable:
        text += f" `openclaw-mem doctor --fix` repairs {len(report.fixable):,} of them."
    return text
