"""``openclaw-mem qmd collection`` and ``context``: what is indexed, and what is said of it."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from openclaw_mem_engine.cli.qmd_opening import opened
from openclaw_mem_engine.cli.terminal import printed
from openclaw_mem_engine.cli.text_format import duration
from openclaw_mem_engine.commands import advice
from openclaw_mem_engine.errors import UsageError
from openclaw_mem_engine.model import as_json
from openclaw_mem_engine.qmd.collections import Collection
from openclaw_mem_engine.qmd.documents import VirtualPath
from openclaw_mem_engine.sanitize import counted

if TYPE_CHECKING:
    from openclaw_mem_engine.stores.qmd.maintenance import CollectionStatus
    from openclaw_mem_engine.stores.qmd.store import QmdStore


def show_all(arguments: Namespace) -> int:
    """Print every collection."""
    with opened(arguments) as (_, backend):
        status, collections = backend.store.status(), backend.store.collections()
        facts = [collection_facts(backend.store, one.name) for one in collections]
    lines = [f"Collections ({len(collections)}):\n"]
    for one, held in zip(collections, status.collections, strict=True):
        marks = " [excluded]" * (not one.included) + " [from the settings of memory.qmd]" * one.configured
        lines += (f"{one.name} ({VirtualPath(one.name, '')}){marks}", f"  Pattern:  {one.pattern}")
        lines += [f"  Ignore:   {', '.join(one.ignore)}"] if one.ignore else []
        lines += (f"  Files:    {held.files}", f"  Updated:  {ago(held)}\n")
    return printed(arguments, facts, lines)


def show_one(arguments: Namespace) -> int:
    """Print one collection."""
    with opened(arguments) as (_, backend):
        one = backend.store.collection(arguments.name)
        facts = collection_facts(backend.store, one.name)
    lines = [f"Collection: {one.name}\n  Path:     {one.root}\n  Pattern:  {one.pattern}"]
    lines.append(f"  Include:  {'yes (default)' if one.included else 'no'}")
    lines += [f"  Update:   {one.update_command}"] if one.update_command else []
    return printed(arguments, facts, lines)


def collection_facts(store: QmdStore, name: str) -> dict[str, object]:
    """A collection for JSON."""
    one = store.collection(name)
    held = next(found for found in store.status().collections if found.name == name)
    return as_json(one, root="", source="") | {
        "path": str(one.root),
        "contexts": dict(one.contexts),
        "updateCommand": one.update_command or None,
        "files": held.files,
        "updatedAt": held.updated_at or None,
    }


def remove(arguments: Namespace) -> int:
    """Remove a collection; its files stay."""
    with opened(arguments) as (_, backend), backend.writing() as store:
        _changeable(store, arguments.name, "remove it there")
        removed = store.remove_collection(arguments.name)
    lines = f"Removed collection '{arguments.name}'", f"  Deleted {counted(removed, 'document')}"
    return printed(arguments, {"removed": arguments.name, "documents": removed}, lines)


def rename(arguments: Namespace) -> int:
    """Give a collection another name."""
    with opened(arguments) as (_, backend), backend.writing() as store:
        _changeable(store, arguments.name, "rename it there")
        store.rename_collection(arguments.name, arguments.new)
        facts = collection_facts(store, arguments.new)
    old, new = VirtualPath(arguments.name, ""), VirtualPath(arguments.new, "")
    said = f"Renamed collection '{arguments.name}' to '{arguments.new}'"
    return printed(arguments, facts, (said, f"  Virtual paths updated: {old} → {new}"))


def _changeable(store: QmdStore, name: str, do: str) -> None:
    """Raise UsageError for a collection of the configuration: the next command would bring it back."""
    if store.collection(name).configured:
        raise UsageError(
            f"The collection {name!r} comes from the settings memory.qmd.includeDefaultMemory, "
            f"memory.qmd.paths or memory.qmd.sessions: {do}. `openclaw-mem config` names the file."
        )


def include(arguments: Namespace) -> int:
    """Whether a collection is searched when none is named."""
    included = arguments.action == "include"
    with opened(arguments) as (_, backend), backend.writing() as store:
        store.add_collection(replace(store.collection(arguments.name), included=included), replaces=True)
        facts = collection_facts(store, arguments.name)
    words = "included in" if included else "excluded from"
    return printed(arguments, facts, [f"Collection '{arguments.name}' {words} default queries"])


def update_command(arguments: Namespace) -> int:
    """Set or clear the shell command that an update runs first."""
    command = " ".join(arguments.words).strip()
    with opened(arguments) as (_, backend), backend.writing() as store:
        one = replace(store.collection(arguments.name), update_command=command)
        store.add_collection(one, replaces=True)
        facts = collection_facts(store, one.name)
    done = f"Set update command for '{one.name}': {command}" if command else ""
    return printed(arguments, facts, [done or f"Cleared update command for '{one.name}'"])


# -- contexts -----------------------------------------------------------------------------------------------


def context_add(arguments: Namespace) -> int:
    """Say what a folder holds. Raises UsageError for a path in no collection, and a blank text."""
    text = arguments.text.strip()
    if not text:
        raise UsageError("The text of a context is blank: write what the folder holds.")
    with opened(arguments) as (_, backend), backend.writing() as store:
        name, prefix = _place(store, arguments.path)
        store.set_context(name, prefix, text)
    what = f"Added context for: {VirtualPath(name, prefix)}" if name else "Set global context"
    data = {"path": str(VirtualPath(name, prefix)) if name else "/", "context": text}
    root = " (collection root)" if name and not prefix else ""
    return printed(arguments, data, (f"{what}{root}", f"Context: {text}"))


def context_list(arguments: Namespace) -> int:
    """Print every context."""
    with opened(arguments) as (_, backend):
        above, collections = backend.store.global_context(), backend.store.collections()
    found = {one.name: dict(one.contexts) for one in collections if one.contexts}
    none = advice("No contexts configured. Use `openclaw-mem qmd context add` to add one.")
    lines = list(_context_lines(above, collections))
    head = "\nConfigured Contexts\n" if lines else none
    return printed(arguments, {"global": above or None, "collections": found}, (head, *lines))


def _context_lines(above: str, collections: tuple[Collection, ...]) -> Iterator[str]:
    if above:
        yield from ("*", "  /", f"    {above}")
    for one in collections:
        if one.contexts:
            yield one.name
        for prefix, text in one.contexts.items():
            yield from (f"  {prefix.strip('/') or '/ (root)'}", f"    {text}")


def context_rm(arguments: Namespace) -> int:
    """Remove a context. Raises UsageError when there is none."""
    with opened(arguments) as (_, backend), backend.writing() as store:
        name, prefix = _place(store, arguments.path)
        if not name and not store.global_context():
            raise UsageError("There is no global context to remove.")
        store.set_context(name, prefix, "")
    path = str(VirtualPath(name, prefix)) if name else "/"
    return printed(arguments, {"path": path, "context": None}, [f"Removed context for: {path}"])


def _place(store: QmdStore, text: str | None) -> tuple[str, str]:
    """Collection and path that ``/`` (all: "" and ""), a virtual path or a folder on disk (None: the current
    one) names. Raises UsageError."""
    if text == "/":
        return "", ""
    virtual = VirtualPath.parse(text) if text else None
    if virtual is not None:
        return store.collection(virtual.collection).name, virtual.path.strip("/")
    folder = Path(text or os.curdir).expanduser().resolve()
    fitting = [one for one in store.collections() if folder.is_relative_to(one.root)]
    if not fitting:
        names = ", ".join(f"qmd://{one.name}/" for one in store.collections()) or "none"
        raise UsageError(f"{folder} is in no collection. Collections: {names}.")
    one = max(fitting, key=lambda found: len(found.root.parts))
    return one.name, folder.relative_to(one.root).as_posix().removeprefix(".")


def ago(held: CollectionStatus) -> str:
    """When the latest document was modified."""
    if not held.updated_at:
        return "never"
    then = datetime.fromisoformat(held.updated_at)
    return f"{duration((datetime.now(then.tzinfo) - then).total_seconds())} ago"
