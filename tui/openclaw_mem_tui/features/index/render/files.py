"""The files of the index: one row a file, and everything about the selected one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from openclaw_mem_tui.features.index.presenter import HealthLook
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.spans import Line, Span, labelled, line

if TYPE_CHECKING:
    from openclaw_mem_engine.inspection import FileRow, FileState

#: Mark, words and role of each standing: never told by colour alone.
_STANDINGS: dict[FileState, tuple[str, str, str]] = {
    "changed": ("◌", "changed", "warn"),
    "new": ("+", "new", "warn"),
    "gone": ("−", "gone", "warn"),
    "refused": ("⊘", "left out", "warn"),
    "left-out": ("⊘", "left out", "warn"),
    "indexed": ("●", "indexed", ""),
}
STATE_WORDS: dict[FileState, str] = {standing: words for standing, (_, words, _) in _STANDINGS.items()}
_WHAT: dict[FileState, str] = {
    "changed": "the file differs from what is indexed: searches find the old text until the next sync (y)",
    "new": "not in the index yet: no search finds it until the next sync (y)",
    "gone": "not on disk any more: searches still find it until the next sync (y)",
    "refused": "found, and not indexed: no search finds it",
    "left-out": "found, and not indexed: no search finds it",
    "indexed": "what is indexed is what is on disk",
}
_CHUNKS, _SIZE, _STATE, _TIME = 6, 8, 20, 10
_LABEL = 9


def title(look: HealthLook) -> str:
    """Over the table: how many there are, and how many of them do not take part."""
    if look.overview is None:
        return "files"
    out = look.overview.number("refused", "left-out")
    return f"files · {len(look.files) - out:,}" + (f" + {out:,} left out" if out else "")


class _Columns(NamedTuple):
    """Cells for each column of the table; 0 for one that there is no room for."""

    path: int
    chunks: int
    size: int
    written: int


def _columns(cells: int) -> _Columns:
    cells -= 1  # the scroll bar touches no text
    sized = cells >= 50
    chunks, size = (_CHUNKS + 1, _SIZE + 1) if sized else (0, 0)
    written = _TIME if cells >= 68 else 0
    return _Columns(max(8, cells - 2 - chunks - size - _STATE - 2 - written), chunks, size, written)


def header(cells: int) -> Line:
    """Titles of the columns."""
    wide = _columns(cells)
    titles = (
        f"  {fmt.left('file', wide.path)}{fmt.right('chunks', wide.chunks)}{fmt.right('size', wide.size)}"
    )
    titles += f"  {fmt.left('state', _STATE)}{fmt.right('written', wide.written)}"
    return line((fmt.crop(titles, cells), "dim"))


def file_row(row: FileRow, look: HealthLook, cells: int, selected: bool) -> Line:
    """One file: where, how many chunks, how large, how it stands, when it was written."""
    mark, _, role = _STANDINGS[row.state]
    wide = _columns(cells)
    size = "" if row.size is None else fmt.bytes_of(row.size)
    written = fmt.day(row.mtime, look.at) if row.mtime is not None else ""
    path = fmt.left(fmt.crop_left(fmt.inert(row.path), wide.path), wide.path)
    return line(
        ("▌ " if selected else "  ", "accent"),
        (path, "faint" if row.state == "left-out" else ""),
        fmt.right(f"{row.chunks:,}" if row.chunks else "", wide.chunks),
        (fmt.right(size, wide.size), "dim"),
        (f"  {mark} ", role or "good"),
        (fmt.left(_standing(row), _STATE - 2), role or "dim"),
        (fmt.right(written, wide.written), "dim"),
    )


def _standing(row: FileRow) -> str:
    """``changed +512 B``"""
    words = _STANDINGS[row.state][1]
    if row.state == "indexed" and row.delta > 0:
        return f"{words} {fmt.bytes_of(row.delta)} wait"
    if row.state != "changed":
        return words
    if not row.delta:
        return f"{words} same size"
    return f"{words} {'+' if row.delta > 0 else '−'}{fmt.bytes_of(abs(row.delta))}"


def file_detail(row: FileRow | None, look: HealthLook, cells: int) -> list[Line]:
    """Everything about one file; every text in full."""
    if row is None:
        return [line(("The index holds no file yet.", "dim"))] if look.overview is not None else []
    made: list[Line] = []

    def say(label: str, *parts: Span | tuple[str, str] | str) -> None:
        made.extend(labelled(label, line(*parts), cells - 1, _LABEL))

    mark, words, role = _STANDINGS[row.state]
    say("file", fmt.inert(row.path), (" · transcript" if row.source == "sessions" else "", "dim"))
    say("state", (f"{mark} {words}", f"strong {role}".strip()), (f": {_WHAT[row.state]}", "dim"))
    if row.state == "indexed" and row.delta > 0:
        told = "indexed when there is more of it, when the conversation was quiet for a while, or with y"
        say("waits", f"{fmt.bytes_of(row.delta)} of new messages", (f": {told}", "dim"))
    if row.state == "left-out" and row.chunks:
        say("found", ("by the text of its last reading, until it can be read again", "warn"))
    if row.why:
        say("why", (fmt.inert(row.why), role))
    if row.size is not None:
        told = fmt.bytes_of(row.size)
        if row.state == "changed" and row.indexed_size is not None:
            told = f"{told} on disk, {fmt.bytes_of(row.indexed_size)} when it was indexed"
        say("size", told)
    if row.mtime is not None:
        say("written", fmt.clock(row.mtime, look.at, True))
    if row.indexed_size is not None and not row.why:
        say("chunks", f"{row.chunks:,}", ("; enter draws them on the text" if row.chunks else "", "dim"))
    if row.hash:
        say("hash", (row.hash[:16], "dim"), ("… of the indexed text", "faint"))
    return made
