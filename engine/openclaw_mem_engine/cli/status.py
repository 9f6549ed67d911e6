"""``openclaw-mem status``, ``files`` and ``chunks``: the index, its files, and one file of it."""

from __future__ import annotations

import dataclasses
import time
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from openclaw_mem_engine.cli.opening import check_workspace, looking, settings_of, warned_settings
from openclaw_mem_engine.cli.terminal import (
    aligned,
    dim,
    hanging,
    indented,
    marked,
    one_line,
    out,
    show,
    strong,
)
from openclaw_mem_engine.cli.text_format import (
    clock_text,
    destination,
    dollars,
    duration,
    excluded_lines,
    failing,
    fallback_words,
    moment,
    token_count,
)
from openclaw_mem_engine.errors import IndexDamaged, IndexUnavailable
from openclaw_mem_engine.model import Note, index_state, says_damage
from openclaw_mem_engine.providers.prices import Spent, summed
from openclaw_mem_engine.ranking.unshown import Unshown, by_file, total
from openclaw_mem_engine.sanitize import byte_size, counted, visible
from openclaw_mem_engine.stores import is_there

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openclaw_mem_engine.answer import Status
    from openclaw_mem_engine.config.settings import Settings
    from openclaw_mem_engine.inspection import FileRow, Overview
    from openclaw_mem_engine.inspection.file_chunks import Anatomy, AnatomyState, Piece
    from openclaw_mem_engine.providers.factory import ProviderState
    from openclaw_mem_engine.retrieval import Capabilities

_NAMED = 3
#: Columns of the name of a fact, with the blanks after it.
_NAME_WIDTH = 11
#: What is counted in an index.
_COUNTED = frozenset({"files", "chunks", "unshown", "cache", "BM25", "vectors"})
_STATES: dict[AnatomyState, str] = {
    "up-to-date": "up to date",
    "modified": "modified since it was indexed: the next sync makes these chunks",
    "not-indexed": "not indexed yet: the next sync makes these chunks",
    "deleted": "deleted on disk: the index still has these chunks",
    "not-included": "not included any more: the index still has these chunks",
    "excluded": "cannot be read: the index still has these chunks",
}


def run(arguments: Namespace) -> int:
    """Print what is configured and what is there. Changes nothing, makes nothing."""
    from openclaw_mem_engine.retrieval.freshness import note_no_notes
    from openclaw_mem_engine.workspace.listing import notes_not_included

    settings = settings_of(arguments)
    try:
        if not (exists := is_there(settings)):
            check_workspace(settings)
        with looking(settings) as memory:
            status, unshown, can = memory.status(), memory.unshown(), memory.capabilities
    except IndexUnavailable:
        if not arguments.json:
            show(None, _configured(settings), as_json=False)
        raise
    if not exists:  # the temporary one is of no interest
        status = dataclasses.replace(status, index_path=str(settings.index_path), index_bytes=0)
    notes = _checked(settings, status.notes)
    if not status.files:
        note_no_notes(settings, status.freshness, notes)
    if not_included := notes_not_included(settings):
        notes.append(Note("notes-not-included", not_included))
    status = dataclasses.replace(status, notes=tuple(notes))
    # Not made in vain: with thousands of files it takes as long as all else.
    data = status.to_dict() | {"unshown": by_file(unshown)} if arguments.json else {}
    lines = _status_lines(status, total(unshown.values()), can)
    show(data, lines, as_json=arguments.json)
    return _exit_code(index_state(status.freshness, status.notes))


def _checked(settings: Settings, notes: Sequence[Note]) -> list[Note]:
    """These notes of an index, and that of its damage."""
    from openclaw_mem_engine.stores.damage import damage_note, file_damage

    damage = file_damage(settings)
    return [*notes] if damage is None else [*notes, damage_note(damage)]


def _exit_code(state: str) -> int:
    """What a script expects of a command that says the state of the index: that of doctor."""
    return IndexDamaged.exit_code if state == "damaged" else 0


def _configured(settings: Settings) -> list[str]:
    """What is known without the index."""
    rows = [
        ("agent", one_line(settings.agent)),
        ("workspace", one_line(str(settings.workspace))),
        ("index", f"{one_line(settings.index_name)} (cannot be read)"),
        ("provider", settings.provider.provider),
        ("backend", settings.openclaw.backend),
        ("profile", settings.query.profile),
    ]
    return [*aligned(rows), *(f"{marked(note.level)}: {one_line(note.text)}" for note in settings.warnings)]


def _status_lines(status: Status, unshown: Unshown, can: Capabilities) -> list[str]:
    now = time.time()
    fresh = status.freshness
    state, since = index_state(fresh, status.notes), ""
    if state == "stale" and fresh.stale_since is not None:
        since = f" since {moment(fresh.stale_since, now)}"
    elif state == "stale" and not fresh.changed_count and fresh.emptied is None:
        since = " (the settings changed)"
    synced = "never" if fresh.synced_at is None else f"{duration(now - fresh.synced_at)} ago"
    asked = status.requested_provider
    provider = status.provider if asked == status.provider else f"{status.provider} (configured: {asked})"
    damaged = state == "damaged"
    size = byte_size(status.index_bytes) if status.index_bytes else "not built yet"
    if not status.index_bytes and Path(status.index_path).is_file():
        size = "empty: 0 bytes"
    excluded, unit = sum(not file.of_workspace for file in fresh.excluded), "chunk" if can.chunks else "text"
    with_vector = f", {status.vectors:,} with a vector of {one_line(status.provider)}"
    rows = [
        ("agent", one_line(status.agent)),
        ("workspace", one_line(status.workspace)),
        ("index", f"{one_line(status.index_path)} ({size})"),
        ("state", f"{state}{since}, last synced: {synced}"),
        *([("", "what it holds is not known")] if damaged else []),
        *([("", _changes(status))] if fresh.changed_count and not damaged else []),
        ("files", f"{status.files:,}" + (f", {excluded:,} excluded" if excluded else "")),
        (f"{unit}s", f"{status.chunks:,}{'' if status.provider == 'none' else with_vector}"),
        *([("unshown", _never_shown(unshown))] if can.chunks and status.chunks else []),
        ("provider", provider),
        ("model", f"{status.model or '–'} · languages: {status.languages}"),
        *([("cache", counted(status.cached, "embedding"))] if can.cache else []),
        ("BM25", "ready" if status.full_text else "not available: SQLite has no FTS5"),
        ("vectors", "BM25 only" if status.provider == "none" else status.vector_search),
        ("backend", status.backend),
        ("profile", status.profile),
    ]
    if damaged:
        rows = [row for row in rows if row[0] not in _COUNTED]
    if status.fallback is not None:
        rows.append(("fallback", f"from {status.fallback.origin}: {one_line(status.fallback.reason)}"))
        rows.append(("", fallback_words(status.fallback, now)))
    used = [link for link in status.chain if link.in_use]
    hosts = {(link.name, link.model): link.host for link in used}
    today = summed(status.usage, hosts, since=clock_text(now, "%Y-%m-%d"))
    for name, texts in (
        ("providers", [_link(link, now, damaged, unit) for link in used]),
        ("used today", map(_spent, today)),
    ):
        rows += [("" if number else name, text) for number, text in enumerate(texts)]
    lines = [part for line in aligned(rows) for part in hanging(line, _NAME_WIDTH)]
    lines += [f"{marked(note.level)}: {one_line(note.text)}" for note in status.notes]
    lines += excluded_lines(fresh.excluded)
    # Notes that are all gone are kept: neither does anything about them. Nor about a provider that fails.
    only_vectors = status.fallback is not None and not fresh.changed_count
    unable = damaged or any(note.code == "read-only-index" for note in status.notes)
    if fresh.state in ("empty", "stale") and fresh.emptied is None and not (only_vectors or unable):
        lines.append(dim("`openclaw-mem index` updates it; so does the next search."))
    return lines


def _never_shown(unshown: Unshown) -> str:
    """What no search can show the agent."""
    return unshown.text if unshown.hidden_lines else "every line can appear in a result"


def _link(link: ProviderState, now: float, damaged: bool, unit: str) -> str:
    """``openai (primary): active · 4 of 4 chunks with its vectors · text is sent to api.openai.com``"""
    parts = [f"{link.name} ({link.role}): {link.label}"]
    if link.state == "failed":
        parts[0] = f"{parts[0]} {failing(link.since, link.next_retry, now)}".rstrip()
    if not damaged:
        parts.append(f"{link.vectors:,} of {counted(link.chunks, unit)} with its vectors")
    if link.host:
        parts.append(f"text is sent to {destination(link.name, link.host)}")
    return " · ".join(parts)


def _spent(item: Spent) -> str:
    tokens = token_count(item.tokens, estimated=item.estimated)
    counts = f"{counted(item.requests, 'request')}, {counted(item.texts, 'text')}, {tokens} tokens"
    cost = "" if item.usd is None else f", {dollars(item.usd)}"
    return one_line(f"{item.provider} {item.model}: {counts}{cost}")


def _changes(status: Status) -> str:
    fresh = status.freshness
    named = ", ".join(one_line(path) for path in fresh.changed[:_NAMED])
    more = fresh.changed_count - min(_NAMED, len(fresh.changed))
    return f"{counted(fresh.changed_count, 'change')}: {named}" + (f" and {more:,} more" if more else "")


def run_files(arguments: Namespace) -> int:
    """Print the state of each file. Changes nothing, makes nothing."""
    settings = warned_settings(arguments)
    with looking(settings) as memory:
        overview, notes = memory.overview(), memory.notes
    state = index_state(overview.freshness, _checked(settings, notes))
    rows = [row for row in overview.files if row.state != "up-to-date" or not arguments.changed]
    files, differences = [row.to_dict() for row in rows], list(overview.differences)
    data = {"state": state, "files": files, "differences": differences}
    show(data, _file_lines(overview, rows, state), as_json=arguments.json)
    return _exit_code(state)


def _file_lines(overview: Overview, rows: Sequence[FileRow], state: str) -> list[str]:
    """A table, and totals with the ``state`` of the index."""

    cells, whole = [], [file for file in overview.freshness.excluded if file.of_workspace]
    for row in rows:
        if row.path in {file.path for file in whole}:
            continue
        chunks = counted(row.chunks, "chunk") if row.chunks else "–"
        cells.append((row.words, one_line(row.path), chunks, _file_size(row), one_line(row.why)))
    counts = overview.counts
    text = f"{counted(counts.files, 'file')} with {counted(counts.chunks, 'chunk')} in the index"
    if state == "damaged":
        text = "the index is damaged, what it holds is not known: `openclaw-mem doctor --fix` repairs it"
    elif overview.waiting:
        text += f", {counted(overview.waiting, 'file')} to sync: `openclaw-mem index`"
    elif overview.differences:
        text += ", built with other settings: `openclaw-mem index` rebuilds it"
    elif state == "fresh":
        text += ", up to date"
    not_included = [one_line(overview.not_included)] if overview.not_included else []
    return [*aligned(cells), *excluded_lines(whole), *not_included, dim(f"{text}.")]


def _file_size(row: FileRow) -> str:
    """Its size on disk, and by how much it differs from what is indexed."""
    if row.size is None:
        return "–"
    delta = f" ({row.delta:+,} B)" if row.state == "modified" and row.delta else ""
    return byte_size(row.size) + delta


def run_chunks(arguments: Namespace) -> int:
    """Print the chunks of one file. Changes nothing, makes nothing."""
    from openclaw_mem_engine.workspace.reading import checked_path, parse_location

    path = parse_location(checked_path(arguments.path)).path  # a line is as good as its file
    settings = warned_settings(arguments)
    with looking(settings) as memory:
        anatomy, notes = memory.anatomy(path), _checked(settings, memory.notes)
    damage = [one_line(note.text) for note in notes if says_damage((note,))]
    data = anatomy.to_dict() | {"damage": damage}
    show(data, _summary_lines(anatomy, damage), as_json=arguments.json)
    for line in _text_lines(anatomy) if arguments.text and not arguments.json else ():
        out(line)
    return _exit_code("damaged") if damage else 0


def _summary_lines(anatomy: Anatomy, damage: list[str]) -> list[str]:
    """One line a chunk; what an index with ``damage`` has of it is not known."""
    rows = [
        (
            f"#{number}",
            f"lines {_lines(piece)}",
            counted(piece.tokens, "token"),
            f"{counted(piece.overlap, 'token')} overlap" if piece.overlap else "",
            "part of a line" if piece.partial else "",
            "" if damage else "BM25" if piece.keyword else "no BM25",
            "" if damage else "vector" if piece.embedded else "no vector",
        )
        for number, piece in enumerate(anatomy.pieces, 1)
    ]
    state = _STATES[anatomy.state]
    if anatomy.state == "excluded" and not anatomy.stored:
        state = "excluded: not in the index"
    title = f"{one_line(anatomy.path)}: {'in an index that is damaged' if damage else state}"
    lines = [strong(title), *damage, *([one_line(anatomy.why)] if anatomy.why else [])]
    lines += indented(aligned(rows))
    limits = f"of at most about {anatomy.chunk_tokens} tokens, overlap {anatomy.chunk_overlap}"
    cut = f"{counted(len(rows), 'chunk')} {limits}."
    return [*lines, dim(cut), *hanging(f"unshown: {_never_shown(anatomy.unshown)}", 2)]


def _lines(piece: Piece) -> str:
    first, last = piece.start_line, piece.end_line
    return f"{first}-{last}" if last > first else str(first)


def _text_lines(anatomy: Anatomy) -> list[str]:
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
            f"{dim(f'{held:>{wide}} {line.number:>5} ')}{visible(line.text).expandtabs(4).rstrip()}"
            for held, line in zip(numbers, anatomy.lines, strict=True)
        ),
    ]


def _holding(numbers: list[int]) -> str:
    """``#2``, ``#1 #2``; an over-long line is in many."""
    if len(numbers) > 3:
        return f"#{numbers[0]}-#{numbers[-1]}"
    return " ".join(f"#{number}" for number in numbers)
