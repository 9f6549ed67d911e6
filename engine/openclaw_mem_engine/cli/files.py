"""``openclaw-mem files``."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from openclaw_mem_engine.cli.formats import print_json
from openclaw_mem_engine.cli.opening import looking, settings_of
from openclaw_mem_engine.cli.terminal import Style, aligned, one_line, out
from openclaw_mem_engine.cli.text_format import byte_size, count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openclaw_mem_engine.api import FileRow, Overview


def run(arguments: Namespace) -> int:
    """Print the state of each file. Changes nothing, makes nothing."""
    with looking(settings_of(arguments)) as memory:
        overview = memory.health.overview()
    rows = [row for row in overview.files if row.state != "indexed" or not arguments.changed]
    if arguments.json:
        print_json(
            {"state": overview.freshness.state, "files": [row.to_dict() for row in rows]}
            | {"differences": list(overview.differences)}
        )
        return 0
    for line in file_lines(overview, rows, Style.of(sys.stdout)):
        out(line)
    return 0


def file_lines(overview: Overview, rows: Sequence[FileRow], style: Style) -> list[str]:
    """A table for people, and totals."""
    table = [(row.state, one_line(row.path), _chunks(row), _size(row), one_line(row.why)) for row in rows]
    lines = [line.rstrip() for line in aligned(table)]
    counts = overview.counts
    text = f"{count(counts.files, 'file')} with {count(counts.chunks, 'chunk')} in the index"
    waiting = overview.number("changed", "new", "gone")
    if waiting:
        text += f", {count(waiting, 'file')} to sync: `openclaw-mem index`"
    elif overview.differences:
        text += ", built with other settings: `openclaw-mem index` builds it anew"
    return [*lines, style.dim(f"{text}.")]


def _chunks(row: FileRow) -> str:
    return count(row.chunks, "chunk") if row.chunks else "–"


def _size(row: FileRow) -> str:
    """Its size on disk, and by how much it differs from what is indexed."""
    if row.size is None:
        return "–"
    delta = f" ({row.delta:+,} B)" if row.state == "changed" and row.delta else ""
    return byte_size(row.size) + delta
