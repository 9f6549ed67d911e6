"""``openclaw-mem chunks``."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from openclaw_mem_engine.api import visible
from openclaw_mem_engine.cli.formats import print_json
from openclaw_mem_engine.cli.opening import looking, settings_of
from openclaw_mem_engine.cli.terminal import Style, aligned, one_line, out
from openclaw_mem_engine.cli.text_format import count

if TYPE_CHECKING:
    from openclaw_mem_engine.api import Anatomy, AnatomyState, Piece

_STATES: dict[AnatomyState, str] = {
    "indexed": "as indexed",
    "changed": "changed since it was indexed: these chunks are what the next sync makes",
    "new": "not indexed yet: these chunks are what the next sync makes",
    "gone": "not on disk any more: this is what the index still holds",
    "refused": "cannot be read: this is what the index still holds",
}


def run(arguments: Namespace) -> int:
    """Print the chunks of one file. Changes nothing, makes nothing."""
    from openclaw_mem_engine.workspace.reading import parse_location

    path = parse_location(arguments.path).path  # a line is as good as its file
    with looking(settings_of(arguments)) as memory:
        anatomy = memory.health.anatomy(path)
    if arguments.json:
        print_json(anatomy.to_dict())
        return 0
    style = Style.of(sys.stdout)
    for line in [*summary_lines(anatomy, style), *(text_lines(anatomy, style) if arguments.text else [])]:
        out(line)
    return 0


def summary_lines(anatomy: Anatomy, style: Style) -> list[str]:
    """One line a chunk."""
    rows = [
        (
            f"#{number}",
            f"lines {_lines(piece)}",
            count(piece.tokens, "token"),
            f"{count(piece.overlap, 'token')} overlap" if piece.overlap else "",
            "part of a line" if piece.partial else "",
            "keywords" if piece.keyword else "no keywords",
            "vector" if piece.embedded else "no vector",
        )
        for number, piece in enumerate(anatomy.pieces, 1)
    ]
    state = _STATES[anatomy.state]
    if anatomy.state == "refused" and not anatomy.stored:
        state = "left out; nothing of it is in the index"
    title = f"{one_line(anatomy.path)}: {state}"
    lines = [style.strong(title), *([one_line(anatomy.why)] if anatomy.why else [])]
    lines += [f"  {line.rstrip()}" for line in aligned(rows)]
    cut = f"{count(len(rows), 'chunk')} of {anatomy.chunk_tokens} tokens, {anatomy.chunk_overlap} overlap."
    return [*lines, style.dim(cut)]


def _lines(piece: Piece) -> str:
    first, last = piece.start_line, piece.end_line
    return f"{first}-{last}" if last > first else str(first)


def text_lines(anatomy: Anatomy, style: Style) -> list[str]:
    """The text with the numbers of the chunks that hold each line; lines of two chunks are shared."""
    holders: list[list[int]] = [[] for _ in anatomy.lines]
    for number, piece in enumerate(anatomy.pieces, 1):
        for index in range(piece.first, piece.last + 1):
            holders[index].append(number)
    numbers = [_holding(held) for held in holders]
    wide = max(map(len, numbers), default=0)
    return [
        "",
        *(
            f"{style.dim(f'{held:>{wide}} {line.number:>5} ')}{visible(line.text).expandtabs(4).rstrip()}"
            for held, line in zip(numbers, anatomy.lines, strict=True)
        ),
    ]


def _holding(numbers: list[int]) -> str:
    """``#2``, ``#1 #2``; an over-long line is in many."""
    if len(numbers) > 3:
        return f"#{numbers[0]}-#{numbers[-1]}"
    return " ".join(f"#{number}" for number in numbers)
