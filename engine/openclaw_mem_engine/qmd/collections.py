"""A collection: a folder of notes under a name, as QMD indexes them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from openclaw_mem_engine.config.qmd import DEFAULT_PATTERN, QmdSettings
from openclaw_mem_engine.model import Note, Source


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
    qmd: QmdSettings, workspace: Path, agent: str, sessions: Path
) -> tuple[tuple[Collection, ...], tuple[Note, ...]]:
    """The collections of an agent's configuration, named as OpenClaw names them: lower case, other
    characters than letters, digits and ``-`` as ``-``, the agent's id at the end, ``-2`` for a second one
    of the same name; and a warning for each that is not made, as another has its files. ``sessions`` is the
    folder of exported conversations. The folders need not exist."""
    found: dict[str, Collection] = {}
    notes: list[Note] = []

    def add(name: str, root: Path, pattern: str, source: Source = "memory") -> None:
        wanted = re.sub(r"[^a-z0-9-]+", "-", f"{name}-{agent}".lower())
        number, free = 2, wanted
        while free in found:
            number, free = number + 1, f"{wanted}-{number}"
        new = Collection(free, root, pattern, source=source, configured=True)
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
