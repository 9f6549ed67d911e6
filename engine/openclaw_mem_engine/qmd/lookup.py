"""From what a user wrote to documents of an index: one of them, or several by list and glob."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.qmd.collections import Collection
from openclaw_mem_engine.qmd.documents import VirtualPath, docid_text, is_docid, split_masks
from openclaw_mem_engine.qmd.globs import glob_regex, is_glob
from openclaw_mem_engine.sanitize import WHITE
from openclaw_mem_engine.workspace.reading import suggest_paths

#: A larger document is left out of a look-up of several, in characters.
MAX_BYTES: Final = 65_536
_LINES = re.compile(r"(.+?):([0-9]+)(?::([0-9]+))?", re.DOTALL)
_IN_LIST = 3


class Known(NamedTuple):
    """A document of the index."""

    collection: str
    path: str
    hash: str

    @property
    def uri(self) -> str:
        return str(VirtualPath(self.collection, self.path))

    @property
    def full(self) -> str:
        return f"{self.collection}/{self.path}"


class Reference(NamedTuple):
    """``text[:FROM[:COUNT]]``: a document, its first wanted line (1-based) and how many; None: all."""

    text: str
    first: int | None = None
    lines: int | None = None

    @classmethod
    def parse(cls, text: str) -> Reference:
        found = _LINES.fullmatch(text)
        if found is None:
            return cls(text)
        return cls(found[1], int(found[2]), int(found[3]) if found[3] else None)


class Selection(NamedTuple):
    """The documents of a list or glob, without copies, and a sentence for each part that has none."""

    found: list[Known]
    problems: list[str]


def find(text: str, known: Sequence[Known], roots: Mapping[str, str] | None = None) -> Known | None:
    """The document that ``text`` names: a docid, a virtual path, ``collection/path``, a path, its last names
    (``b/c.md`` for ``a/b/c.md``), each as written and then in any case, or a file below one of the ``roots``
    by collection. The first in the order of ``known`` when several fit."""
    return next(iter(_named(text, known, roots or {})), None)


def _named(text: str, known: Sequence[Known], roots: Mapping[str, str]) -> list[Known]:
    """The documents that fit ``text`` equally well; [] when none does."""
    text = text.strip(WHITE)
    if is_docid(text):
        prefix = docid_text(text).lower()
        same = [document for document in known if document.hash.startswith(prefix)]
        if same or "#" in text:
            return same[:1]
    folders = [(name, f"{root.rstrip('/')}/") for name, root in roots.items()]
    inside = [f"{name}/{text.removeprefix(root)}" for name, root in folders if text.startswith(root)]
    if inside:  # of several when collections lie within each other
        text = next((full for full in inside if any(one.full == full for one in known)), inside[0])
    virtual = VirtualPath.parse(text)
    if virtual is not None:
        text = f"{virtual.collection}/{virtual.path}"
    for same_case in (str, str.casefold):
        wanted = same_case(text)
        names = [(same_case(document.path), same_case(document.full), document) for document in known]
        for found in (
            [document for _, full, document in names if full == wanted],
            [document for path, _, document in names if path == wanted],
            [document for path, _, document in names if path.endswith(f"/{wanted}")],
        ):
            if found:
                return found
    return []


def why_missing(text: str, known: Iterable[Known], collections: Iterable[Collection]) -> str:
    """What to answer when ``find`` has nothing: the ignore rule that excludes it, else similar paths."""
    virtual = VirtualPath.parse(text)
    full = f"{virtual.collection}/{virtual.path}" if virtual else text
    for collection in collections:
        path = full.removeprefix(f"{collection.name}/")
        for rule in collection.ignore:
            if (not virtual or path != full) and re.fullmatch(glob_regex(rule), path, re.DOTALL):
                return f"{text} is excluded by the ignore rule {rule!r} of collection {collection.name}."
    similar = suggest_paths(text, [document.path for document in known])
    return f"There is no document {text}." + (f" Similar: {', '.join(similar)}." if similar else "")


def select(pattern: str, known: Sequence[Known]) -> Selection:
    """The documents of a comma list of globs, names and docids. A glob is matched against the virtual path,
    ``collection/path`` and the path. In a list a name that fits several documents is refused."""
    parts = [part for part in split_masks(pattern) if part.strip(WHITE)]
    found: dict[Known, None] = {}
    problems = []
    for part in parts:
        if is_glob(part):
            matches = re.compile(glob_regex(part), re.DOTALL).fullmatch
            named = [d for d in known if matches(d.uri) or matches(d.full) or matches(d.path)]
        else:
            named = _named(part, known, {})
        if not named and len(parts) > 1 and not is_glob(part):
            similar = suggest_paths(part, [document.path for document in known], _IN_LIST)
            hint = f" (did you mean: {', '.join(similar)}?)" if similar else ""
            problems.append(f"File not found: {part}{hint}")
        elif not named:
            problems.append(f"No files matched pattern: {part}")
        elif len(named) > 1 and len(parts) > 1 and not is_glob(part):
            problems.append(f"Ambiguous path {part}: {', '.join(document.uri for document in named)}")
        else:
            found |= dict.fromkeys(named)
    return Selection(list(found), problems)


def why_too_large(length: int, max_bytes: int = MAX_BYTES) -> str:
    """Why a document of ``length`` characters is left out of a look-up of several; "" when it is not."""
    if length <= max_bytes:
        return ""
    return f"File too large ({int(length / 1024 + 0.5)}KB > {int(max_bytes / 1024 + 0.5)}KB)"
