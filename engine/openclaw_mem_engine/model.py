"""The nouns: what a chunk, a hit and an excerpt are. Nothing here imports anything of ours."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, Literal, TypeVar, overload

from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_engine.named_tuple import NamedTuple

Source = Literal["memory", "sessions"]
T = TypeVar("T")


class OnDemand(Mapping[str, T]):
    """Values by key, each made when it is first read: what ``make`` reads must not change."""

    def __init__(self, keys: Iterable[str], make: Callable[[str], T]) -> None:
        self._made: dict[str, T | None] = dict.fromkeys(keys)
        self._make = make

    def __getitem__(self, key: str) -> T:
        if (value := self._made[key]) is None:
            value = self._made[key] = self._make(key)
        return value

    def __contains__(self, key: object) -> bool:
        return key in self._made

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)

    def __repr__(self) -> str:
        return repr(dict(self))


class Later:
    """A text that is made when it is read: some take a look into the index. Equal texts are equal."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[[], str]) -> None:
        self._make = make

    def __str__(self) -> str:
        return self._make()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (str, Later)) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


class InOrder(Sequence[T]):
    """Values ``of`` a mapping in the order of ``ids``, each read when it is asked for."""

    def __init__(self, ids: Sequence[str], of: Mapping[str, T]) -> None:
        self.ids = ids
        self.of = of

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[T]:
        return map(self.of.__getitem__, self.ids)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    @overload
    def __getitem__(self, at: int) -> T: ...

    @overload
    def __getitem__(self, at: slice) -> InOrder[T]: ...

    def __getitem__(self, at: int | slice) -> T | InOrder[T]:
        return InOrder(self.ids[at], self.of) if isinstance(at, slice) else self.of[self.ids[at]]

    def only(self, ids: Sequence[str]) -> InOrder[T]:
        """Those with these ids, in the order of these."""
        return InOrder(ids, self.of)

    def without(self, ids: Collection[str]) -> InOrder[T]:
        """Those with other ids."""
        return InOrder([i for i in self.ids if i not in ids], self.of) if ids else self


def as_json(noun: Any, **renamed: str) -> dict[str, Any]:
    """The fields of a dataclass instance or named tuple under camelCase keys. ``renamed`` maps a field to
    another key, or to "" to omit it. Values that have ``to_dict`` are converted by it, named tuples as here,
    other tuples become lists."""
    own = getattr(noun, "_fields", None) or [field.name for field in fields(noun)]
    names = {name: re.sub(r"_(.)", lambda m: m[1].upper(), name) for name in own}
    return {key: _plain(getattr(noun, name)) for name, key in (names | renamed).items() if key}


def _plain(value: Any) -> Any:
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if hasattr(value, "_fields"):
        return as_json(value)
    return [_plain(item) for item in value] if isinstance(value, (tuple, list)) else value


#: A snippet is at most this many UTF-16 code units (the limit that agents are used to).
SNIPPET_UNITS = 700


@dataclass(frozen=True, slots=True)
class ChunkSpan:
    """A piece of one text: ``start_line`` and ``end_line`` are 1-based and inclusive."""

    text: str
    start_line: int
    end_line: int


class MemoryFile(NamedTuple):
    """A file that counts as memory. ``path`` is relative to the workspace, with ``/``. ``inode`` and
    ``device`` together tell whether two paths are one file. ``ctime_ns`` is when content, times or
    permissions last changed, which cannot be set back; 0 where the system does not tell.
    """

    path: str
    absolute: str
    source: Source
    size: int
    mtime_ns: int
    inode: int
    device: int = 0
    ctime_ns: int = 0


#: Paths of what is excluded that stand for all notes of the index, and for Markdown that is no memory.
WHOLE, NOT_INCLUDED = ".", "**/*.md"


@dataclass(frozen=True, slots=True)
class ExcludedFile:
    """A file or folder that is excluded, and why. ``by_rule``: it is no memory (a hidden folder).
    ``transient``: it cannot be read now and may be readable later (permissions, a failing disk), so what is
    known of it is not forgotten; of a folder that goes for all below it."""

    path: str
    reason: str
    by_rule: bool = False
    transient: bool = False

    @property
    def of_workspace(self) -> bool:
        """Whether this is about the workspace as a whole, and its path no file of it."""
        return self.path in (WHOLE, NOT_INCLUDED)

    @property
    def text(self) -> str:
        """``memory/a.md: is not text``; of the workspace the sentence alone."""
        if self.of_workspace:
            return f"not indexed: {self.reason}" if self.path == NOT_INCLUDED else self.reason
        return f"{self.path}: {self.reason}"

    def to_dict(self) -> dict[str, Any]:
        return as_json(self, by_rule="", transient="")


class Expected(NamedTuple):
    """A line (1-based) of a file of the memory, by its path in the index."""

    path: str
    line: int

    @property
    def location(self) -> str:
        return f"{self.path}:{self.line}"


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Lines of one file as ``memory_get`` returns them; a missing file has ``found`` False and no text."""

    path: str
    text: str
    start_line: int
    end_line: int
    total_lines: int
    found: bool


@dataclass(frozen=True, slots=True)
class Note:
    """Something the user must know about an answer: a fallback, staleness, a limit. ``code`` is stable."""

    code: str
    text: str
    level: Literal["info", "warning"] = "info"

    def to_dict(self) -> dict[str, Any]:
        return as_json(self)


def says_damage(notes: Iterable[Note]) -> bool:
    """Whether one of these notes is about a damaged index: what is not found in it may exist."""
    return any(note.code == "index-damaged" for note in notes)


def index_state(freshness: Freshness, notes: Iterable[Note]) -> str:
    """The state of the index in one word: that of ``freshness``, or "damaged" where one of the notes of the
    answer says so."""
    return "damaged" if says_damage(notes) else freshness.state


#: Called as (done, total, label); total 0 means "not known yet". Called often: keep it cheap.
Progress = Callable[[int, int, str], None]
#: Labels of a sync's progress that begin like this are no files: another process or an embedder is at work.
WAITING = "waiting for "
#: Labels that begin like this count chunks with vectors: the words of all files are in the index.
VECTORS = "vectors"


class Prompted(str):
    """A text that already has what its model expects around it, such as the title of its document: the
    provider adds nothing. A part of it is a plain ``str`` again."""

    __slots__ = ()


def text_hash(text: str) -> str:
    """SHA-256 hex of the UTF-8 text; a lone surrogate counts as U+FFFD (as in the documented schema)."""
    return hashlib.sha256(utf8(text)).hexdigest()


def chunk_id_of(
    source: Source, path: str, start_line: int, end_line: int, content_hash: str, model: str
) -> str:
    """SHA-256 hex of ``source:path:start:end:hash:model`` (the documented form): content-addressed, so the
    same text at the same lines has the same id in every store."""
    return hashlib.sha256(
        f"{source}:{path}:{start_line}:{end_line}:{content_hash}:{model}".encode("utf-8", "replace")
    ).hexdigest()


def utf8(text: str) -> bytes:
    """UTF-8 of any Python string; lone surrogates become U+FFFD instead of raising."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode("utf-8")


def utf16_length(text: str) -> int:
    """The length of a text in UTF-16 code units; a lone surrogate counts one."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def snippet_of(text: str, limit: int = SNIPPET_UNITS) -> str:
    """The first ``limit`` UTF-16 units of a text, one fewer where the cut would split a surrogate pair."""
    if len(text) <= limit // 2:
        return text
    head = text[:limit]
    if utf16_length(head) == len(head):
        return head
    units = 0
    for index, char in enumerate(text):
        units += 2 if char > "\uffff" else 1
        if units > limit:
            return text[:index]
    return text


class Space(NamedTuple):
    """A vector space: vectors of different spaces are never compared. ``key`` (SHA-256 hex) covers what
    provider and model do not tell, like the endpoint."""

    provider: str
    model: str
    key: str

    @property
    def has_vectors(self) -> bool:
        """Whether an embedder makes vectors of it: not for BM25 only, nor in an index never begun."""
        return self.provider not in ("", "none")

    @property
    def of_zeros(self) -> Space:
        """Where the cache keeps for which texts the model of this space returned zeros: without vectors."""
        return self._replace(model=f"{self.model}, returned zeros")

    @property
    def label(self) -> str:
        """``openai text-embedding-3-small``; a model that names its provider stands alone."""
        return self.model if self.model.startswith(self.provider) else f"{self.provider} {self.model}".strip()


@dataclass(frozen=True, slots=True)
class Fallback:
    """Something else answered than what is configured: ``origin`` could not, because of ``reason``.

    ``active`` is what answered ``instead``: "bm25", "nothing", "builtin", or the label of the fallback's
    vectors. Epoch seconds: ``since`` when it fails, ``next_retry`` (None: not by itself)."""

    origin: str
    reason: str
    active: str = "bm25"
    since: float | None = None
    next_retry: float | None = None

    @property
    def instead(self) -> str:
        """What answered: ``BM25 only``, ``vectors of x``."""
        known = {"bm25": "BM25 only", "nothing": "no retriever", "builtin": "built-in index"}
        return known.get(self.active, f"vectors of {self.active}")

    @property
    def words(self) -> str:
        """``BM25 only (openai failed)``, or ``vectors of x (instead of openai)`` where it has not failed."""
        why = f"instead of {self.origin}" if self.since is None else f"{self.origin} failed"
        return f"{self.instead} ({why})"

    def to_dict(self) -> dict[str, Any]:
        return as_json(self, origin="from")


@dataclass(frozen=True, slots=True)
class Freshness:
    """How the index compares with the files on disk, when it was last looked at or synced. ``changed`` lists
    workspace-relative paths that are new, edited or gone since the last sync (a prefix of them when there are
    many; ``changed_count`` is exact). ``synced_at`` is epoch seconds, None before the first sync;
    ``stale_since`` is when the first of the changes happened, None when it is not known."""

    state: Literal["fresh", "stale", "partial", "empty"]
    generation: int
    synced_at: float | None
    changed: tuple[str, ...] = ()
    changed_count: int = 0
    excluded: tuple[ExcludedFile, ...] = ()
    stale_since: float | None = None

    @property
    def emptied(self) -> ExcludedFile | None:
        """Why the notes of the index are kept though the workspace holds none any more, if so."""
        return next((file for file in self.excluded if file.path == WHOLE), None)

    def to_dict(self) -> dict[str, Any]:
        return as_json(self)
