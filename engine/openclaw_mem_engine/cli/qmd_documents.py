"""``openclaw-mem qmd get``, ``multi-get`` and ``ls``: documents of the index, as QMD prints them."""

from __future__ import annotations

import time
from argparse import Namespace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from openclaw_mem_engine.cli.parser import whole_number
from openclaw_mem_engine.cli.qmd_formats import DocumentRow, documents_text
from openclaw_mem_engine.cli.qmd_opening import Contexts, format_of, opened, out_formatted
from openclaw_mem_engine.cli.terminal import out, printed, say
from openclaw_mem_engine.errors import UsageError
from openclaw_mem_engine.qmd.documents import VirtualPath, split_masks
from openclaw_mem_engine.qmd.globs import is_glob
from openclaw_mem_engine.qmd.lookup import MAX_BYTES, Reference
from openclaw_mem_engine.qmd.snippets import numbered
from openclaw_mem_engine.sanitize import counted, visible

if TYPE_CHECKING:
    from openclaw_mem_engine.stores.qmd.maintenance import Entry
    from openclaw_mem_engine.stores.qmd.searching import Document

_RULE = "=" * 60
_RECENT_S = 182 * 86_400


def get(arguments: Namespace) -> int:
    """Print one document, or some lines of it. Raises UsageError with proposals when there is none."""
    start = whole_number(arguments.start, "--from", 1)
    most = whole_number(arguments.lines, "-l", 1)
    if not arguments.reference.strip():
        raise UsageError("A document is required: a path, a qmd:// path or a #docid.")
    with opened(arguments) as (memory, backend):
        find = backend.store.find
        # As the agent writes it: relative to the workspace.
        inside = backend.settings.workspace / arguments.reference
        document = find(arguments.reference) or find(str(inside))
        if document is None:
            why = visible(backend.store.why_missing(arguments.reference))
            listed = "`openclaw-mem qmd ls` lists the collections, `qmd ls NAME` the documents of one."
            raise UsageError(f"{why} {listed}")
        context = Contexts(memory, backend).of(document)
    asked = Reference.parse(arguments.reference)
    named = asked.text != arguments.reference and not document.path.endswith(arguments.reference)
    first = start or max(1, (asked.first if named else None) or 1)
    most = most or (asked.lines if named else None)
    lines = document.text.split("\n")
    shown = lines[first - 1 :][:most]
    if not shown:
        say(f"{document.uri} has {counted(len(lines), 'line')}.")
    text = "\n".join(shown)
    data: dict[str, Any] = {"docid": f"#{document.docid}", "file": document.uri, "title": document.title}
    data |= {"context": context} if context else {}
    said = [f"{document.uri}  #{document.docid}", *([f"Folder Context: {context}"] if context else [])]
    body = [text if arguments.no_line_numbers else numbered(text, first)] if shown else []
    data |= {"line": first, "lines": len(lines), "body": text}
    return printed(arguments, data, (*said, "---\n", *body))


def multi_get(arguments: Namespace) -> int:
    """Print documents of a list or glob; a sentence on stderr for each part that fits none. Raises UsageError
    when nothing fits."""
    kind = format_of(arguments)
    most = whole_number(arguments.lines, "-l", 1)
    max_bytes = whole_number(arguments.max_bytes, "--max-bytes", 1) or MAX_BYTES
    with opened(arguments) as (memory, backend):
        store, workspace, parts = backend.store, backend.settings.workspace, []
        for part in split_masks(arguments.pattern):
            known = is_glob(part) or not part.strip() or store.find(part.strip())
            # As the agent writes it: relative to the workspace.
            inside = None if known else store.find(str(workspace / part.strip()))
            parts.append(part if inside is None else inside.id)
        documents, problems = store.multi_get(",".join(parts), max_bytes)
        contexts = Contexts(memory, backend)
        rows = [
            DocumentRow(
                one.uri,
                one.title,
                "" if skipped else _body(one, most, plain=arguments.no_line_numbers),
                contexts.of(one),
                one.docid,
                skipped,
            )
            for one, skipped in documents
        ]
    if not rows:
        raise UsageError(
            visible("; ".join(problems)) or "The pattern is blank: name a glob, paths or docids."
        )
    for problem in problems:
        say(problem)
    if kind != "cli":
        out_formatted(documents_text(rows, kind), kind)
        return 0
    for row in rows:
        out(visible(f"\n{_RULE}\nFile: {row.file}  #{row.docid}\n{_RULE}\n"))
        if row.skipped:
            out(f"[SKIPPED: {row.skipped}]")
            continue
        if row.context:
            out(visible(f"Folder Context: {row.context}\n---\n"))
        out(visible(row.text))
    return 0


def _body(document: Document, most: int | None, *, plain: bool) -> str:
    """The text, or its first lines and how many more there are; with line numbers unless ``plain``."""
    lines = document.text.split("\n")
    text = "\n".join(lines[:most])
    if most is not None and len(lines) > most:
        text += f"\n\n[... truncated {len(lines) - most} more lines]"
    return text if plain else numbered(text)


def ls(arguments: Namespace) -> int:
    """Print the collections, or the documents of one. Raises UsageError for an unknown one."""
    with opened(arguments) as (_, backend):
        if arguments.path is None:
            collections = backend.store.status().collections
            found = [{"name": one.name, "files": one.files} for one in collections]
            head = "Collections:\n" if collections else "There are no collections."
            of = (f"  {VirtualPath(one.name, '')}  ({counted(one.files, 'file')})" for one in collections)
            return printed(arguments, found, (head, *of))
        virtual = VirtualPath.parse(arguments.path)
        name, _, folder = arguments.path.partition("/")
        if virtual is not None:
            name, folder = virtual.collection, virtual.path
        entries = backend.store.ls(name, folder.rstrip("/"))
    rows = [{"file": one.uri, "size": one.size, "modifiedAt": one.modified_at} for one in entries]
    sizes = [_size(one.size) for one in entries]
    width = max(map(len, sizes), default=0)
    lines = [f"{size:>{width}}  {_date(one)}  {one.uri}" for size, one in zip(sizes, entries, strict=True)]
    return printed(arguments, rows, lines or [f"No files found under {VirtualPath(name, folder)}"])


def _size(number: int) -> str:
    """``436 B``, ``1.2 KB``: characters."""
    for unit in ("B", "KB", "MB"):
        if number < 1024 or unit == "MB":
            break
        number /= 1024  # type: ignore[assignment]
    return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"


def _date(entry: Entry) -> str:
    """As ``ls -l`` prints it: the time of this half year, else the year."""
    then = datetime.fromisoformat(entry.modified_at).astimezone()
    recent = 0 <= time.time() - then.timestamp() < _RECENT_S
    return f"{then:%b} {then.day:>2} {then:%H:%M}" if recent else f"{then:%b} {then.day:>2}  {then.year}"
