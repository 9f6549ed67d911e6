"""A lookup in collections of QMD: which file is meant, which collection takes it in, and whether that is
searched."""

# Paths are strings here, as in the listing of collections.
# ruff: noqa: PTH118

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import TypeVar
from unicodedata import normalize

from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.qmd.collections import Collection
from openclaw_mem_engine.ranking.pool import Candidate
from openclaw_mem_engine.retrieval.lookup import Found, Lookup
from openclaw_mem_engine.sidecar.paths import PREFIX, shown_path
from openclaw_mem_engine.stores.qmd.scanning import why_left_out
from openclaw_mem_engine.why_not import WhyNot
from openclaw_mem_engine.workspace.opening import NoteRefused
from openclaw_mem_engine.workspace.rules import absolute_path, below

F = TypeVar("F", bound=Found)
#: Collections that a sentence names.
_NAMED = 4


class Placed(NamedTuple):
    """A file as one of a collection: its path below the root. ``left_out`` is why the collection does not
    take it in, "" when it does; ``held``: the index has it."""

    collection: Collection
    path: str
    left_out: str
    held: bool

    @property
    def id(self) -> str:
        return f"{self.collection.name}/{self.path}"

    @property
    def file(self) -> str:
        return os.path.join(self.collection.root.expanduser(), self.path)


class CollectionLookup(Lookup[F, Candidate]):
    """Why one query does not find a document. Each collection that takes a file in has one of it."""

    #: The collections that are searched; None: those that are by default.
    only: Sequence[str] | None = None

    @abstractmethod
    def _collections(self) -> Sequence[Collection]:
        """All that there are."""

    @abstractmethod
    def _holds(self, collection: str, path: str) -> bool:
        """Whether the index has a document."""

    def _placed_steps(self) -> list[Placed] | WhyNot:
        """The file in each collection that is searched, or the answer when there is none."""
        settings, collections = self._answering.settings, self._collections()
        found = [*self._placed(collections)]
        held = [one for one in found if one.held]
        there = next((one for one in found if os.path.lexists(one.file)), None)
        absolute = absolute_path(os.fspath(settings.workspace), self._asked)
        if there is None and not held and (found or not os.path.lexists(absolute)):
            raise NoteRefused("missing", self._asked, "no such memory file")
        if not found and below(os.path.normpath(settings.workspace), absolute) is None:
            raise NoteRefused("outside", self._asked, "is in the folder of no collection")
        taking = [one for one in found if not one.left_out]
        if first := next(iter([*held, *taking, *found]), None):
            self._path = shown_path(first.collection, first.path, settings.workspace)
        gone = "not on disk now; the index still has its text"
        exists = there is not None or not found
        self._pass("file", f"{self._path} {'exists' if exists else gone}")
        if not taking and not held:
            return self._stop_at("included", f"no collection includes it: {_reasons(found, collections)}")
        if taking:
            names = ", ".join(f"{one.collection.name} ({one.collection.pattern})" for one in taking)
            self._pass("included", f"it is a file of {names}")
        else:
            why = f"no collection includes it any more: {_reasons(found, collections)}"
            self._pass("included", f"{why}; the index still has its text")
        groups = ([one for one in group if self._is_searched(one.collection)] for group in (held, taking))
        searched = next(filter(None, groups), [])
        names = ", ".join(one.collection.name for one in searched or held or taking)
        several = len(searched or held or taking) > 1
        if not searched:
            are = "collections are" if several else "collection is"
            return self._stop_at("collection", f"its {are} not searched by default: {names}")
        self._pass("collection", f"{names} {'are' if several else 'is'} searched")
        return searched

    def _is_searched(self, collection: Collection) -> bool:
        return collection.included if self.only is None else collection.name in self.only

    def _placed(self, collections: Sequence[Collection]) -> Iterator[Placed]:
        """The file in every collection whose folder it is in."""
        asked, workspace = self._asked, os.fspath(self._answering.settings.workspace)
        asked = asked.replace("qmd://", PREFIX, 1) if asked.startswith("qmd://") else asked
        name, slash, rest = asked.removeprefix(PREFIX).partition("/")
        named = [one for one in collections if one.name == name] if asked.startswith(PREFIX) and slash else []
        for collection in named or collections:
            given = os.path.normpath(collection.root.expanduser())
            absolute = absolute_path(given, rest) if named else absolute_path(workspace, asked)
            inner = below(given, absolute) or below(os.path.realpath(given), absolute)
            if not inner:
                continue
            path = inner.replace(os.sep, "/")
            forms = dict.fromkeys((path, normalize("NFC", path), normalize("NFD", path)))
            held = next((form for form in forms if self._holds(collection.name, form)), None)
            on_disk = (form for form in forms if os.path.lexists(os.path.join(given, form)))
            path = held or next(on_disk, path)
            yield Placed(collection, path, why_left_out(collection, path), held is not None)


def _reasons(found: Sequence[Placed], collections: Sequence[Collection]) -> str:
    """Why none takes a file in."""
    texts = [f"of {one.collection.name}, {one.left_out}" for one in found]
    if not found:
        texts = [f"it is not in the folder of {one.name}" for one in collections]
    more = f"; and {len(texts) - _NAMED} more" if len(texts) > _NAMED else ""
    return ("; ".join(texts[:_NAMED]) or "there is none") + more
