"""``openclaw-mem get``."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING
from unicodedata import normalize

from openclaw_mem_engine.api import visible
from openclaw_mem_engine.cli.arguments import whole_number
from openclaw_mem_engine.cli.opening import settings_of
from openclaw_mem_engine.cli.terminal import is_terminal, out_bytes, print_json, say

if TYPE_CHECKING:
    from openclaw_mem_engine.api import Excerpt, Settings


def run(arguments: Namespace) -> int:
    """Print lines of a note. The index takes no part: a note can be read while that is locked or lost."""
    from openclaw_mem_engine.workspace.opening import NoteRefused
    from openclaw_mem_engine.workspace.reading import parse_location

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
    try:
        excerpt = _read(settings, where.path, start, lines)
    except NoteRefused as refusal:
        if refusal.kind in ("not-memory", "not-markdown") and (near := _near(settings, where.path)):
            say(f"Did you mean {' or '.join(near)}?")
        raise
    if not excerpt.found:
        near = _near(settings, where.path)
        say(f"no such memory file: {where.path}." + (f" Did you mean {' or '.join(near)}?" if near else ""))
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


def _read(settings: Settings, path: str, start: int | None, lines: int | None) -> Excerpt:
    """The lines asked for. A name may be spelled with separate accents (as some systems paste it) or without:
    both mean the file that is there."""
    from openclaw_mem_engine.workspace.reading import get_excerpt

    excerpts = []
    for spelled in dict.fromkeys((path, normalize("NFC", path), normalize("NFD", path))):
        found = get_excerpt(
            settings.workspace, spelled, start, lines, settings.extra_paths, settings.max_file_bytes
        )
        if found.found:
            return found
        excerpts.append(found)
    return excerpts[0]


def _near(settings: Settings, wrong: str) -> list[str]:
    from openclaw_mem_engine.workspace.listing import list_memory
    from openclaw_mem_engine.workspace.reading import suggest_paths

    listing = list_memory(settings.workspace, settings.extra_paths, settings.max_file_bytes)
    return suggest_paths(wrong, [file.path for file in listing.files], 3)
