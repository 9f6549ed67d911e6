"""``openclaw-mem get``."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from openclaw_mem_engine.cli.arguments import whole_number
from openclaw_mem_engine.cli.formats import print_json
from openclaw_mem_engine.cli.opening import settings_of
from openclaw_mem_engine.cli.terminal import is_terminal, out_bytes, say
from openclaw_mem_engine.inert import visible

if TYPE_CHECKING:
    from openclaw_mem_engine.config.settings import Settings
    from openclaw_mem_engine.model import Excerpt


def run(arguments: Namespace) -> int:
    """Print lines of a note. The index takes no part: a note can be read while that is locked or lost."""
    from openclaw_mem_engine.workspace.reading import get_excerpt, parse_location

    start = whole_number(arguments.start, "--from", 1)
    lines = whole_number(arguments.lines, "--lines", 1)
    settings = settings_of(arguments)
    where = parse_location(arguments.location)
    if start is None and where.start_line is not None:
        start = where.start_line
        # `x.md:12` says where to begin, as --from does; `x.md:12-20` and the citation `x.md#L12` say all.
        mark = arguments.location.strip()[len(where.path) :]
        if lines is None and where.end_line is not None and ("-" in mark or "#" in mark):
            lines = where.end_line - where.start_line + 1
    excerpt = get_excerpt(
        settings.workspace, where.path, start, lines, settings.extra_paths, settings.max_file_bytes
    )
    if not excerpt.found:
        _suggest(settings, where.path)
    elif not excerpt.text and start is not None and start > excerpt.total_lines:
        say(f"{excerpt.path} has {excerpt.total_lines} lines.")
    if arguments.json:
        print_json(
            {
                "path": excerpt.path,
                "text": excerpt.text,
                "startLine": excerpt.start_line,
                "endLine": excerpt.end_line,
                "totalLines": excerpt.total_lines,
                "found": excerpt.found,
            }
        )
    else:
        _print_text(excerpt)
    return 0


def _print_text(excerpt: Excerpt) -> None:
    """Exactly the text for a program; for a person nothing that acts on the terminal."""
    if is_terminal(sys.stdout):
        text = visible(excerpt.text)
        sys.stdout.write(text if text.endswith("\n") or not text else text + "\n")
    else:
        out_bytes(excerpt.text.encode("utf-8", "surrogateescape"))


def _suggest(settings: Settings, wrong: str) -> None:
    from openclaw_mem_engine.workspace.listing import list_memory
    from openclaw_mem_engine.workspace.suggest import suggest_paths

    listing = list_memory(settings.workspace, settings.extra_paths, settings.max_file_bytes)
    near = suggest_paths(wrong, [file.path for file in listing.files], 3)
    say(f"no such memory file: {wrong}." + (f" Did you mean {' or '.join(near)}?" if near else ""))
