"""Checks of the index against the files it was made from. Notes are read, never written."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import astuple, dataclass, field
from itertools import islice
from pathlib import Path

from openclaw_mem_engine.cancellation import CancelToken
from openclaw_mem_engine.chunking.line_chunker import UNITS_PER_TOKEN
from openclaw_mem_engine.commands import FIX, INDEX, REBUILD, VERIFY
from openclaw_mem_engine.config.knobs import own_knobs
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.doctor.opened import Examined
from openclaw_mem_engine.errors import Cancelled
from openclaw_mem_engine.model import WHOLE, MemoryFile, Progress, utf16_length
from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.unshown import (
    Unshown,
    cause,
    form_of,
    never_shown,
    percent,
    total,
    unshown_by_file,
)
from openclaw_mem_engine.sanitize import capital, counted, counted_are
from openclaw_mem_engine.stores.base import FileState, StoredChunk
from openclaw_mem_engine.stores.findings import Outcome, Severity
from openclaw_mem_engine.stores.sqlite.snapshot import Snapshot
from openclaw_mem_engine.sync.changes import changes_of, is_on_disk, keeping, listed
from openclaw_mem_engine.sync.index_update import chunks_of, read_source
from openclaw_mem_engine.sync.transcript_changes import cut_files
from openclaw_mem_engine.workspace.listing import notes_not_included
from openclaw_mem_engine.workspace.opening import NoteRefused
from openclaw_mem_engine.workspace.reading import BUDGET_LINES, BUDGET_SEVERITY, bootstrap_cut, read_note
from openclaw_mem_engine.workspace.rules import MEMORY_FOLDER, ROOT_FILES, is_ignored_folder, machine_folder

_DATABASE = re.compile(r"\.(?:sqlite3?|db|lance|jsonl)(?:-wal|-shm|-journal)?\Z", re.IGNORECASE)
#: What an exported conversation begins with: that of the session hook, and that of a transcript export.
_EXPORT = re.compile(r"# Session(?:: .*\n\n?- \*\*Session Key\*\*: | \S+\n\n(?:User|Assistant): )")
_MANY = 0.5
#: The most entries below memory/ that are searched for databases.
_MOST_ENTRIES = 50_000


@dataclass(slots=True)
class Disk:
    """What the disk holds now, compared with what the index knows of it. ``present`` are listed files by path
    whose size and time are as recorded, so that their content must be as recorded too."""

    settings: Settings
    snap: Examined
    progress: Progress | None = None
    cancel: CancelToken | None = None
    known: dict[str, FileState] = field(default_factory=dict)
    present: dict[str, MemoryFile] = field(default_factory=dict)

    def each(self, what: str) -> Iterator[tuple[MemoryFile, FileState]]:
        """The present files that hold text, with progress. Raises Cancelled."""
        for done, file in enumerate(self.present.values(), 1):
            if self.cancel is not None and self.cancel.is_set():
                raise Cancelled("The checks were stopped.")
            state = self.known[file.path]
            if not state.refusal:
                yield file, state
            if self.progress is not None:
                self.progress(done, len(self.present), f"{what} {file.path}")


def check_files(disk: Disk, out: Outcome) -> None:
    """Which files are new, edited or gone. Raises WorkspaceError."""
    known = disk.known = disk.snap.files()
    listing = keeping(disk.settings, listed(disk.settings), known)
    changes, excluded = changes_of(disk.settings, listing, known), listing.excluded
    changed = {file.path for file in changes.changed}
    removed = {state.path for state in changes.removed}
    excluded_now = {path for path in removed if is_on_disk(disk.settings, path)}
    seen = known | {state.path: state for state in changes.touched}
    disk.present = {
        file.path: file
        for file in listing.files
        if file.path in known and file.path not in changed and _as_recorded(file, seen[file.path])
    }
    out.detail = f"{counted(len(known), 'file')} indexed, {len(disk.present):,} as on disk"
    for code, paths, state, found in (
        ("files-changed", changed & known.keys(), "modified on disk", "Searches find the old text"),
        ("files-not-indexed", changed - known.keys(), "not indexed", "No search finds the text"),
        ("files-deleted", removed - excluded_now, "deleted on disk", "Searches find the text"),
        ("files-not-included", excluded_now, "not included any more", "Searches find the text"),
    ):
        if paths:
            text = f"{counted_are(len(paths), 'file')} {state}. {found} until the next sync."
            out.add(code, "warning", text, sorted(paths), INDEX)
    for file in excluded:
        if file.of_workspace:
            text, kept = f"{capital(file.text)}.", file.path == WHOLE
            out.add(*(("workspace-empty", "warning") if kept else ("notes-not-included", "info")), text)
    if not_included := notes_not_included(disk.settings):
        out.add("notes-not-included", "info", not_included)
    unreadable = [file.text for file in excluded if file.transient and not file.of_workspace]
    others = [file.text for file in excluded if not (file.transient or file.of_workspace)]
    for source, group in (("memory", unreadable), ("sessions", others)):
        group += [f"{s.path}: {s.refusal}" for s in known.values() if s.refusal and s.source == source]
    if unreadable:
        number = counted(len(unreadable), "file or folder", "files or folders")
        text = f"{number} cannot be read. Searches find the text that an earlier sync has read, or none."
        out.add("files-unreadable", "warning", text, unreadable)
    if others:
        folders = any("folder" in text for text in others)
        nouns = ("file or folder", "files or folders") if folders else ("file", "files")
        number = counted_are(len(others), *nouns)
        out.add("files-excluded", "info", f"{number} excluded.", others)
    if partly := [file.text for file in cut_files(known.values())]:
        text = f"{counted_are(len(partly), 'conversation')} too long to be indexed whole."
        out.add("transcripts-cut", "info", text, partly)


def _as_recorded(file: MemoryFile, state: FileState) -> bool:
    """Whether a file is still as it was when it was compared. A transcript may have grown."""
    if (file.source, file.inode) != (state.source, state.inode):
        return False
    if file.source == "sessions":
        return file.size >= state.size
    return (file.size, file.mtime_ns) == (state.size, state.mtime_ns)


def check_hashes(disk: Disk, out: Outcome) -> None:
    """Files that look untouched hold what was indexed."""
    stale, looked_at = [], 0
    for file, state in disk.each("comparing"):
        try:
            read = read_source(disk.settings, file, until=state.size)
        except NoteRefused:
            continue  # a finding of the check "files"
        as_listed = (read.size, read.mtime_ns) == (file.size, file.mtime_ns) and read.checked_ns
        if file.source == "memory" and not as_listed:
            continue  # written to a moment ago: the next sync sees it
        looked_at += 1
        if read.hash != state.hash:
            stale.append(file.path)
    out.detail = f"{counted(looked_at, 'file')} read and compared with the recorded hash"
    if stale:
        text = (
            f"The text of {counted(len(stale), 'file')} differs from the index. Size and time are the same, "
        )
        text += "so only a sync that reads every file notices."
        out.add("stale-hash", "error", text, stale, VERIFY)


def check_notes(disk: Disk, out: Outcome, max_input_bytes: int | None) -> None:
    """Cut every file again and compare each chunk with the index, byte for byte."""
    space, wrong, chunks = disk.snap.space(), [], 0
    for file, state in disk.each("cutting"):
        try:
            made, pieces = chunks_of(disk.settings, file, space, max_input_bytes)
        except NoteRefused:
            continue
        if made.hash != state.hash:
            continue  # a finding of the check "hashes", or a transcript that has grown
        wanted = {chunk.chunk_id: chunk for chunk in pieces}
        rows = disk.snap.stored(file.path, file.source)
        held = {row[0]: StoredChunk(*row) for row in rows}
        chunks += len(wanted)
        for chunk_id in sorted(wanted.keys() | held.keys()):
            mine, theirs = wanted.get(chunk_id), held.get(chunk_id)
            if mine != theirs:
                chunk = mine or theirs
                assert chunk is not None
                what = "lacks" if theirs is None else "has too much" if mine is None else "has altered"
                wrong.append(f"the index {what} {chunk.path}:{chunk.start_line}-{chunk.end_line}")
    out.detail = f"{counted(chunks, 'chunk')} of {counted(len(disk.present), 'file')} made again and compared"
    if wrong:
        text = f"The index differs from the notes in {counted(len(wrong), 'chunk')}."
        out.add("differs-from-notes", "error", text, wrong, REBUILD)


# -- what no search can show --------------------------------------------------------------------------------


def check_snippets(settings: Settings, snap: Examined, out: Outcome) -> dict[str, Unshown]:
    """The agent can be shown every line. Returns, by file, how much it cannot."""
    knobs = own_knobs(settings)
    files = unshown_by_file(snap.passages(), knobs)
    kept = snap.counts_kept(form_of(knobs))
    if wrong := [path for path, *counts in kept if path in files and (*counts,) != astuple(files[path])]:
        text = f"The index has wrong counts of unshown text for {counted(len(wrong), 'file')}."
        out.add("unshown-differs", "warning", text, wrong, FIX)
    whole = total(files.values())
    out.detail = f"{percent(whole.share)} of the text can never be sent (snippet={knobs.snippet})"
    hidden = [path for path, found in files.items() if found.hidden_lines]
    if hidden and knobs.snippet == "head":
        hidden.sort(key=lambda path: -files[path].hidden_characters)
        said, one = never_shown(whole.share, "your notes' text"), len(hidden) == 1
        longer = f"{counted(len(hidden), 'file')} {'has' if one else 'have'} longer chunks"
        text = f"{said[:1].upper()}{said[1:]}. Whatever the query, "
        text += f"{cause(knobs.snippet_chars)} of a chunk. {longer}. {_advice(settings, knobs)}"
        out.add("unshown", "warning", text, (f"{path}: {files[path].text}" for path in hidden))
    return files


def _advice(settings: Settings, knobs: Knobs) -> str:
    """The configuration that shows more; docs/ranking.md, "Snippets", has what it brings and costs."""
    best = 'To show the best lines of chunks instead: query.snippet = "packed", as in the profile workbench.'
    tokens = knobs.snippet_chars // UNITS_PER_TOKEN
    if settings.chunking.tokens <= tokens:
        return best
    sizes = json.dumps({"tokens": tokens, "overlap": tokens // 5})
    return f"{best} For OpenClaw itself, shorter chunks: agents.defaults.memorySearch.chunking = {sizes}."


# -- what is no memory, and what is too much of it ----------------------------------------------------------


def check_by_products(settings: Settings, snap: Snapshot, out: Outcome) -> None:
    """What agents' own machinery wrote is not among the memory."""
    sql = "SELECT path, count(*) FROM chunks WHERE source = 'memory' GROUP BY path"
    chunks: dict[str, int] = dict(snap.rows(sql))
    total = sum(chunks.values())
    machine = {path for path in chunks if machine_folder(path)}
    out.detail = f"{counted(len(chunks), 'note')} read"
    starts = snap.rows(
        "SELECT path, substr(text, 1, 400) FROM chunks WHERE source = 'memory' AND start_line = 1"
    )
    exports = {str(path) for path, text in starts if _EXPORT.match(str(text))} - machine

    def share(paths: set[str]) -> str:
        number = sum(chunks[path] for path in paths)
        return f"({number:,} of {counted(total, 'chunk')}, {100 * number / max(1, total):.0f}%)"

    if machine:
        files = counted_are(len(machine), "file")
        text = f"{files} generated by the agent's tools. Searches find them as memory {share(machine)}."
        text += " The setting exclude in config.toml excludes them."
        out.add("by-products", "warning", text, sorted(machine), _out_of_memory(settings, machine))
    if exports:
        what = "an exported conversation" if len(exports) == 1 else "exported conversations"
        text = f"{counted_are(len(exports), 'note')} {what}. Such text may displace notes in results"
        much = sum(chunks[path] for path in exports) > _MANY * total
        severity: Severity = "warning" if much else "info"
        out.add("session-exports", severity, f"{text} {share(exports)}.", sorted(exports))
    _check_databases(settings, out)


def _out_of_memory(settings: Settings, paths: Iterable[str]) -> str:
    """What takes these by-products out of memory and leaves the files where their program looks for them."""
    paths = set(paths)
    # A sync leaves ignored folders out by itself: an index that has them was made by an older program.
    folders = {machine_folder(path) for path in paths if not any(map(is_ignored_folder, path.split("/")))}
    if not folders:
        return INDEX
    globs = [folder if folder in paths else f"{folder}/**" for folder in sorted(folders)]
    return f"exclude = {json.dumps([*settings.exclude, *globs], ensure_ascii=False)}"


def _check_databases(settings: Settings, out: Outcome) -> None:
    walk = os.walk(settings.workspace / MEMORY_FOLDER)  # the check "files" names what cannot be read
    entries = (Path(parent, name) for parent, folders, files in walk for name in (*folders, *files))
    found = [path for path in islice(entries, _MOST_ENTRIES) if _DATABASE.search(path.name)]
    if found:
        files = counted(len(found), "database or log", "databases or logs")
        text = f"{files} among the notes. Searches do not read them."
        names = sorted(path.relative_to(settings.workspace).as_posix() for path in found)
        out.add("database-in-memory", "info", text, names)
    if settings.index_path.is_relative_to(settings.workspace):
        text = (
            f"The index is in the workspace, where each sync changes what it watches: {settings.index_path}"
        )
        repair = "export OPENCLAW_MEM_HOME=~/.openclaw-mem"
        out.add("index-in-workspace", "warning", text, repair=repair)


def check_bootstrap(settings: Settings, out: Outcome) -> None:
    """The root files reach the agent whole."""
    sizes = []
    for name in ROOT_FILES:
        path = settings.workspace / name
        if name == ROOT_FILES[1] and _one_file(path, settings.workspace / ROOT_FILES[0]):
            continue  # on a disk that ignores case
        try:
            text = read_note(str(path), str(settings.workspace), settings.max_file_bytes).text
        except NoteRefused as refusal:
            sizes += [f"{name}: {refusal.reason}"] if refusal.kind != "missing" else []
            continue
        limit = settings.bootstrap.max_chars
        cut = bootstrap_cut(text, limit)
        lines = text.rstrip().count("\n") + 1
        sizes.append(
            f"{name} {utf16_length(text.rstrip()):,} of {limit:,} characters, {counted(lines, 'line')} "
            f"({BUDGET_LINES} advised)"
        )
        if lines > BUDGET_LINES:
            long = f"{name} has {lines} lines ({BUDGET_LINES} advised). Every direct chat begins with it."
            out.add("memory-long", BUDGET_SEVERITY, long, repair="openclaw-mem curate")
        if cut is None:
            continue
        text = (
            f"{name} has {cut.units:,} characters; the limit is {limit:,}. A direct chat begins with lines "
            f"1-{cut.last_line} and from line {cut.next_line} on, without what is between them."
        )
        evidence = [f"{name}:{cut.last_line} is the last line before the cut"]
        out.add("bootstrap-cut", BUDGET_SEVERITY, text, evidence, f"openclaw-mem get {name}:{cut.last_line}")
    out.detail = ", ".join(sizes) or "none"


def _one_file(path: Path, other: Path) -> bool:
    with suppress(OSError):
        return path.samefile(other)
    return False
