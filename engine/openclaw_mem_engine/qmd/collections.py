"""A collection: a folder of notes under a name, as QMD indexes them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openclaw_mem_engine.config.qmd import DEFAULT_PATTERN, QmdSettings
from openclaw_mem_engine.model import Note, Source
from openclaw_mem_engine.qmd.documents import split_masks
from openclaw_mem_engine.qmd.globs import glob_regex

#: Folders that are never part of a collection, at any depth.
IGNORED_FOLDERS = frozenset({"node_modules", ".git", ".cache", "vendor", "dist", "build"})


@dataclass(frozen=True, slots=True)
class Collection:
    """The files below ``root`` that match ``pattern`` (globs, joined by commas) and none of ``ignore``.
    ``contexts`` are texts by path prefix ("" is the whole collection). ``update_command`` is a shell command
    of the user, run before an update. ``included``: searched when no collection is named. ``configured``: it
    comes from the configuration, so that commands cannot remove it."""

    name: str
    root: Path
    pattern: str = DEFAULT_PATTERN
    ignore: tuple[str, ...] = ()
    contexts: Mapping[str, str] = field(default_factory=dict)
    update_command: str = ""
    included: bool = True
    source: Source = "memory"
    configured: bool = False

    @property
    def location(self) -> tuple[str, str]:
        """What no two collections of an index share."""
        return os.path.normpath(self.root), self.pattern


def configured_collections(
    qmd: QmdSettings, workspace: Path, agent: str, sessions: Path, exclude: Sequence[str] = ()
) -> tuple[tuple[Collection, ...], tuple[Note, ...]]:
    """The collections of an agent's configuration, named as OpenClaw names them: lower case, other
    characters than letters, digits and ``-`` as ``-``, the agent's id at the end, ``-2`` for a second one
    of the same name; and a warning for each that is not made, as another has its files. ``sessions`` is the
    folder of exported conversations; ``exclude`` are globs over paths of the workspace. The folders need not
    exist."""
    found: dict[str, Collection] = {}
    notes: list[Note] = []

    def add(name: str, root: Path, pattern: str, source: Source = "memory") -> None:
        wanted = re.sub(r"[^a-z0-9-]+", "-", f"{name}-{agent}".lower())
        number, free = 2, wanted
        while free in found:
            number, free = number + 1, f"{wanted}-{number}"
        ignore = _below(os.path.relpath(root, workspace), exclude)
        new = Collection(free, root, pattern, ignore, source=source, configured=True)
        same = next((one for one in found.values() if one.location == new.location), None)
        if same is None:
            found[free] = new
            return
        text = f"the collection {same.name!r} already has {root} with the pattern {pattern}"
        notes.append(Note("collection-twice", f"memory.qmd: {free!r} is not made: {text}.", "warning"))

    if qmd.include_default_memory:
        add("memory-root", workspace, "MEMORY.md")
        add("memory-alt", workspace, "memory.md")
        add("memory-dir", workspace / "memory", DEFAULT_PATTERN)
    for number, entry in enumerate(qmd.paths, 1):
        root = Path(os.path.normpath(workspace / entry.path))
        add(entry.name or f"custom-{number}", root, entry.pattern)
    if qmd.sessions.enabled:
        add("sessions", sessions, DEFAULT_PATTERN, "sessions")
    return tuple(found.values()), tuple(notes)


def _below(folder: str, globs: Iterable[str]) -> tuple[str, ...]:
    """Globs over paths of the workspace as globs over those of a folder in it; none that is about others."""
    within = "" if folder == os.curdir else f"{Path(folder).as_posix()}/"
    return tuple(glob.removeprefix(within) for glob in globs if glob.startswith((within, "**/")))


def why_excluded(collection: Collection, path: str) -> str:
    """The first rule of a collection by which it does not take in a path below its root; "" when it does."""
    parts = path.split("/")
    folders = ["/".join(parts[:depth]) for depth in range(1, len(parts))]
    if hidden := next((part for part in parts if part.startswith(".")), None):
        return f"{hidden} is hidden"
    if name := next((part for part in parts[:-1] if part in IGNORED_FOLDERS), None):
        return f"folders named {name} are never read"
    for glob in collection.ignore:
        if any(any_of([glob]).fullmatch(part) for part in (*(f"{folder}/" for folder in folders), path)):
            return f"its pattern {glob} ignores it"
    if not any_of(split_masks(collection.pattern)).fullmatch(path):
        return f"its pattern {collection.pattern} does not match"
    return ""


def any_of(globs: Iterable[str]) -> re.Pattern[str]:
    """What matches any of these globs; nothing when there is none."""
    return re.compile("|".join(f"(?:{glob_regex(glob)})" for glob in globs) or r"(?!)", re.S)


def config_of(collections: Iterable[Collection], global_context: str) -> str:
    """The text of an ``index.yml``: JSON, which is YAML too. QMD does not look at ``configured``."""
    config: dict[str, Any] = {"collections": {one.name: _held_of(one) for one in collections}}
    if global_context:
        config["global_context"] = global_context
    return json.dumps(config, ensure_ascii=False, indent=2)


def from_config(data: bytes) -> tuple[tuple[Collection, ...], str]:
    """Collections and global context of an ``index.yml``; none of one that QMD has written since, in YAML
    that is no JSON. Commands are not taken from it."""
    with suppress(ValueError, TypeError, AttributeError, KeyError):
        config = json.loads(data)
        found = tuple(_from_held(name, held) for name, held in config["collections"].items())
        return found, str(config.get("global_context") or "")
    return (), ""


def _held_of(c: Collection) -> dict[str, Any]:
    """What ``index.yml`` holds of a collection."""
    held: dict[str, Any] = {"path": str(c.root), "pattern": c.pattern}
    if c.ignore:
        held["ignore"] = list(c.ignore)
    if c.contexts:
        held["context"] = dict(c.contexts)
    if c.update_command:
        held["update"] = c.update_command
    if not c.included:
        held["includeByDefault"] = False
    if c.configured:
        held["configured"] = True
    return held


def _from_held(name: str, held: Mapping[str, Any]) -> Collection:
    return Collection(
        name=str(name),
        root=Path(str(held["path"])),
        pattern=str(held.get("pattern") or DEFAULT_PATTERN),
        ignore=tuple(map(str, held.get("ignore") or ())),
        contexts={str(k): str(v) for k, v in (held.get("context") or {}).items()},
        included=held.get("includeByDefault") is not False,
        configured=held.get("configured") is True,
    )


def context_of(contexts: Mapping[str, str], global_context: str, path: str, *, replaces: bool) -> str:
    """The context of a document at ``path`` in a collection with ``contexts`` by path prefix; "" without any.

    ``replaces`` False, as QMD 2.8.3 does: the global context and that of every prefix add up, general to
    specific, with a blank line between them, and ``memory`` is also a prefix of ``memoryx.md``. True, as
    documented: the context of a folder replaces that of its parents, and only whole names count; the global
    context stays before it."""
    below = {_below_root(prefix, whole=replaces): text for prefix, text in contexts.items()}
    full = _below_root(path, whole=replaces)
    fitting = [
        text
        for prefix, text in sorted(below.items(), key=lambda item: len(item[0]))
        if full.startswith(prefix)
    ]
    return "\n\n".join(filter(None, [global_context, *(fitting[-1:] if replaces else fitting)]))


def _below_root(path: str, *, whole: bool) -> str:
    """``/path``, and ``/path/`` where only whole names are compared."""
    path = path if path.startswith("/") else f"/{path}"
    return f"{path.rstrip('/')}/" if whole else path
