"""``openclaw-mem get``: lines of a note, as the tool of agents gives them."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from typing import TYPE_CHECKING
from unicodedata import normalize

from openclaw_mem_engine.cli.opening import warned_settings
from openclaw_mem_engine.cli.parser import whole_number
from openclaw_mem_engine.cli.terminal import is_terminal, one_line, out, out_bytes, print_json, say
from openclaw_mem_engine.errors import PathRefused
from openclaw_mem_engine.model import as_json
from openclaw_mem_engine.sanitize import visible

if TYPE_CHECKING:
    from openclaw_mem_engine.config.settings import Settings
    from openclaw_mem_engine.model import Excerpt
    from openclaw_mem_engine.workspace.opening import NoteRefused


def run(arguments: Namespace) -> int:
    """Print lines of a note. The index takes no part: a note can be read while that is locked or lost."""
    from openclaw_mem_engine.workspace.opening import NoteRefused
    from openclaw_mem_engine.workspace.reading import parse_location, past_end

    start = whole_number(arguments.start, "--from", 1)
    lines = whole_number(arguments.lines, "--lines", 1)
    settings = warned_settings(arguments)
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
        raise refused(settings, refusal, where.path) from refusal
    if not excerpt.found:
        say(f"There is no note {where.path}. {_near_names(settings, where.path)}")
    elif not excerpt.text and start is not None and start > excerpt.total_lines:
        say(past_end(excerpt.path, excerpt.total_lines, start))
    if arguments.json:
        print_json(as_json(excerpt))
        return 0
    # The newline of the last line is not in the text where more of the file follows.
    text = excerpt.text + "\n" * (excerpt.end_line < excerpt.total_lines)
    if is_terminal(sys.stdout):  # for a person nothing that acts on the terminal
        out(visible(text), end="" if text.endswith("\n") or not text else "\n")
    else:  # for a program exactly what the file holds
        out_bytes(text.encode("utf-8", "surrogateescape"))
    return 0


def _read(settings: Settings, path: str, start: int | None, lines: int | None) -> Excerpt:
    """The lines asked for. A name may be spelled with separate accents (as some systems paste it) or without:
    both mean the file that is there."""
    from openclaw_mem_engine.sidecar.paths import excerpt

    excerpts = []
    for spelled in dict.fromkeys((path, normalize("NFC", path), normalize("NFD", path))):
        found = excerpt(settings, spelled, start, lines)
        if found.found:
            return found
        excerpts.append(found)
    return excerpts[0]


def refused(settings: Settings, refusal: NoteRefused, wrong: str) -> PathRefused:
    """The refusal of the path that was asked for, with what to do next where another path is needed."""
    from openclaw_mem_engine.workspace.reading import takes_in
    from openclaw_mem_engine.workspace.rules import NOTE_SUFFIX

    if more := takes_in(refusal, settings.workspace):
        return PathRefused(f"{refusal}; {more}.")
    path, _, line = wrong.rpartition(":")
    if path.endswith(NOTE_SUFFIX):
        return PathRefused(f"{one_line(line)[:60]!r} is not a line: write {path}:3 or {path}:3-8.")
    elsewhere = refusal.kind in ("missing", "not-memory", "not-markdown")
    return PathRefused(f"{refusal}. {_near_names(settings, wrong) if elsewhere else ''}".rstrip())


def _near_names(settings: Settings, wrong: str) -> str:
    """A question that names files of similar names, or where all of them are listed."""
    from openclaw_mem_engine.sync.changes import listed
    from openclaw_mem_engine.workspace.reading import suggest_paths

    if os.path.isdir(settings.workspace / wrong):  # noqa: PTH112  # False for what cannot be a path, too
        return "It is a folder: `openclaw-mem files` lists all memory files."
    near = suggest_paths(wrong, [file.path for file in listed(settings).files], 3)
    named = " or ".join(map(one_line, near))
    return f"Did you mean {named}?" if near else "`openclaw-mem files` lists all memory files."
