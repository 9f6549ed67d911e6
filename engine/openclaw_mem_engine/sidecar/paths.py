"""Collections of the QMD backend and the paths of their files: as results name them, and as agents ask for
them again."""

# Paths are strings here, as in the listing of notes.
# ruff: noqa: PTH118

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from openclaw_mem_engine.config.load import qmd_index_path
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.errors import UsageError
from openclaw_mem_engine.model import Excerpt, Note
from openclaw_mem_engine.qmd.collections import Collection, configured_collections, from_config, why_excluded
from openclaw_mem_engine.qmd.documents import handelize
from openclaw_mem_engine.state.disk import read_file
from openclaw_mem_engine.workspace.opening import NoteRefused, read_if_there
from openclaw_mem_engine.workspace.reading import excerpt_of, get_excerpt
from openclaw_mem_engine.workspace.rules import NOTE_SUFFIX, below

PREFIX = "qmd/"
#: A slug is looked for in so many folders of a collection.
_MOST_FOLDERS = 2_000


def qmd_home(settings: Settings) -> Path:
    """The folder of QMD, in process and external, for this agent and workspace, below our data folder."""
    return qmd_index_path(settings.data_dir, settings.workspace, settings.agent).parent


def collections_of(settings: Settings) -> tuple[tuple[Collection, ...], tuple[Note, ...]]:
    """The configured collections, whose folders need not exist, and what is odd about them."""
    sessions = qmd_home(settings) / "sessions"
    return configured_collections(
        settings.qmd, settings.workspace, settings.agent, sessions, settings.exclude
    )


def readable_collections(settings: Settings) -> tuple[Collection, ...]:
    """The collections of which files are memory: those of the configuration, and those that a command has
    added. These are read from the copy beside the index, which itself may be locked or lost."""
    if settings.openclaw.backend != "qmd":
        return ()
    configured, added = collections_of(settings)[0], tuple[Collection, ...]()
    copy = settings.index_path.with_suffix(".yml")
    if settings.qmd_in_process and not copy.is_symlink():
        with suppress(OSError):
            added = from_config(read_file(copy))[0]
    return (*configured, *(one for one in added if not one.configured))


def shown_path(collection: Collection, path: str, workspace: Path) -> str:
    """``memory/a.md`` for a file of the workspace, else ``qmd/<collection>/<path>``."""
    absolute = os.path.normpath(os.path.join(collection.root, path))
    inside = below(os.path.normpath(workspace), absolute)
    return inside.replace(os.sep, "/") if inside else f"{PREFIX}{collection.name}/{path}"


def literal_path(collection: Collection, path: str) -> str:
    """The path of a file on disk. Early releases name a file by a slug, ``my-note.md`` for ``My Note.md``:
    then the file of the collection whose name has this slug; ``path`` itself when there is none."""
    if os.path.lexists(os.path.join(collection.root, path)):
        return path
    for number, (folder, _, names) in enumerate(os.walk(collection.root)):
        if number > _MOST_FOLDERS:
            break
        inner = os.path.relpath(folder, collection.root)
        for name in names:
            found = os.path.normpath(os.path.join(inner, name)).replace(os.sep, "/")
            with suppress(UsageError):  # a name of nothing but signs has no slug
                if found.endswith(NOTE_SUFFIX) and path in (handelize(found), handelize(found, legacy=True)):
                    return found
    return path


def excerpt(settings: Settings, path: str, start: int | None = None, lines: int | None = None) -> Excerpt:
    """As ``workspace.reading.get_excerpt``, and also for ``qmd/<collection>/<path>`` and for a file of the
    workspace that only a collection takes in. Raises what that raises."""
    collections = readable_collections(settings)
    asked = path.strip()
    name, slash, rest = asked.removeprefix(PREFIX).partition("/")
    if asked.startswith(PREFIX) and slash:
        named = next((found for found in collections if found.name == name), None)
        if named is not None:
            return _read(settings, named, rest, start, lines, asked)
    try:
        return get_excerpt(
            settings.workspace, path, start, lines, settings.extra_paths, settings.max_file_bytes
        )
    except NoteRefused as refusal:
        if refusal.kind != "not-memory":
            raise
        absolute = os.path.normpath(settings.workspace / asked)
        for collection in collections:
            inner = below(os.path.normpath(collection.root), absolute)
            if inner and not why_excluded(collection, inner):
                return _read(settings, collection, inner, start, lines, asked)
        raise


def _read(
    settings: Settings, collection: Collection, path: str, start: int | None, lines: int | None, asked: str
) -> Excerpt:
    """Lines of a file of a collection. Every part below its root is opened without following a link."""
    parts = path.split("/")
    if path.startswith("/") or ".." in parts or "\0" in path:
        raise NoteRefused("outside", asked, f"leads out of the collection {collection.name}")
    if not path.endswith(NOTE_SUFFIX):
        raise NoteRefused("not-markdown", asked, "only files that end in .md (lower case) are memory")
    if why := why_excluded(collection, path):
        raise NoteRefused("not-memory", asked, f"is not in the collection {collection.name}: {why}")
    root = os.path.realpath(collection.root.expanduser())
    read = read_if_there(root, os.path.join(*parts), settings.max_file_bytes, asked)
    return excerpt_of(read.data, asked, start, lines) if read else Excerpt(asked, "", 1, 0, 0, found=False)
