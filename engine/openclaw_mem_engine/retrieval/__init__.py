"""From a query to a pool of candidates: the protocol of backends, and their registry.

A backend is one module with a function ``open_backend(context)`` and one line in ``BACKENDS``. ``Memory``
knows it by the protocol alone. Its capabilities say what it cannot do: the methods of a missing capability
raise UsageError, which ``Limited`` does for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import fields
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_engine.errors import ConfigError, IndexDamaged, UsageError
from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.providers.faults import QMD_FAULTS

if TYPE_CHECKING:
    from openclaw_mem_engine.cancellation import CancelToken
    from openclaw_mem_engine.config.settings import Settings
    from openclaw_mem_engine.inspection import Overview
    from openclaw_mem_engine.inspection.file_chunks import Anatomy
    from openclaw_mem_engine.model import Fallback, Freshness, Note, Progress, Space
    from openclaw_mem_engine.providers.base import Chat
    from openclaw_mem_engine.providers.circuit_breaker import Embedders
    from openclaw_mem_engine.ranking.knobs import Knobs
    from openclaw_mem_engine.ranking.pool import Candidate, CandidateList, Pool
    from openclaw_mem_engine.ranking.unshown import Unshown
    from openclaw_mem_engine.retrieval.candidate_lists import ListBuilder
    from openclaw_mem_engine.retrieval.expansion import Expander
    from openclaw_mem_engine.retrieval.reranking import ScoreCache
    from openclaw_mem_engine.stores.base import CacheSize, SpaceSize, StoredChunk
    from openclaw_mem_engine.stores.findings import DoctorReport
    from openclaw_mem_engine.sync.events import Journal
    from openclaw_mem_engine.sync.plan import Plan
    from openclaw_mem_engine.sync.report import SyncReport, SyncRequest
    from openclaw_mem_engine.why_not import WhyNot

#: How long pruning the cache waits for a sync, seconds.
PRUNE_WAIT_S = 10.0


#: Adds what knobs need and only a further service gives: ``Reranking.complete``. Raises Cancelled.
Complete: TypeAlias = "Callable[[Pool, Knobs, CancelToken | None], Pool]"


class FoundLists(NamedTuple):
    """The candidate lists of one query before any signal was computed, the builder that made them, the
    ``chunks`` of their rows, the notes so far, and the vector space that is active."""

    query: str
    builder: ListBuilder
    lists: tuple[CandidateList, ...]
    chunks: Mapping[str, StoredChunk]
    candidates: Mapping[str, Candidate]
    notes: list[Note]
    active: Space


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a backend can do, as data. Retrieving and ``status`` are not optional."""

    #: Pools carry the raw scores that made a rank, so that a trace can show and recompute them.
    operands: bool = False
    #: It asks the embedding providers of the settings.
    providers: bool = False
    #: It has an index of its own: ``sync``, ``plan``, ``would_rebuild``.
    sync: bool = False
    #: It can compare its index with the files on disk, file by file: ``files``.
    files: bool = False
    #: It can show how files are cut: ``chunks``, ``unshown``.
    chunks: bool = False
    #: It can say of any passage why it is not returned: ``why_not``.
    why_not: bool = False
    #: Its index can be examined and repaired: ``examine``, ``repair``.
    doctor: bool = False
    #: It keeps embeddings between syncs: ``cache_sizes``, ``prune_cache``.
    cache: bool = False


EVERYTHING = Capabilities(**{field.name: True for field in fields(Capabilities)})


@dataclass(frozen=True, slots=True)
class BackendContext:
    """What a backend is opened with. ``clock`` gives epoch seconds; ``notes`` gives what else makes every
    answer less than it could be; ``resident``: keep vectors in memory, for a long-lived process; ``faults``
    are simulated (see ``providers.faults``); ``expander`` makes variants of a query (None: no model does).
    The caller closes embedders and journal."""

    settings: Settings
    embedders: Embedders
    journal: Journal
    clock: Callable[[], float]
    notes: Callable[[], tuple[Note, ...]] = tuple
    resident: bool = False
    faults: frozenset[str] = frozenset()
    expander: Expander | None = None


def expander_of(chat: Chat | None) -> Expander | None:
    """An expander over a chat model, which its owner closes; None without one."""
    if chat is None:
        return None
    from openclaw_mem_engine.retrieval.expansion import Expander

    return Expander(chat)


@dataclass(frozen=True, slots=True)
class PassageQuestion:
    """What ``why_not`` is asked (see ``Memory.why_not``). ``complete`` adds rerank scores to the pool;
    ``session_key`` is whose session asks, for ``memory.qmd.scope``."""

    query: str
    path: str
    line: int | None
    knobs: Knobs
    complete: Complete | None = None
    session_key: str | None = None
    end_line: int | None = None
    chunk_id: str | None = None


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """Sizes of an index and how it is searched. ``vectors`` are chunks with a vector of the primary space,
    ``cached`` rows of the embedding cache; ``index_bytes`` is 0 for a backend without a file of its own."""

    files: int
    chunks: int
    provider: str = "none"
    model: str = ""
    languages: str = "any"
    vectors: int = 0
    cached: int = 0
    index_path: str = ""
    index_bytes: int = 0
    full_text: bool = True
    vector_search: str = ""
    spaces: tuple[SpaceSize, ...] = ()


class Backend(Protocol):
    """Searches one agent's memory. Thread-safe. Every method may block on the disk and raise
    IndexUnavailable, unless it says otherwise; those that take ``cancel`` raise Cancelled once it is set."""

    capabilities: Capabilities
    settings: Settings

    @property
    def name(self) -> str:
        """The stable name, as in pools and in ``status``: of what answers at this moment."""

    @property
    def notes(self) -> tuple[Note, ...]:
        """What makes every answer less than it could be, at this moment. Never blocks, never raises."""

    @property
    def fallback(self) -> Fallback | None:
        """Why another backend than the configured one answers at this moment; None when it does not."""

    @property
    def scores(self) -> ScoreCache | None:
        """Where rerank scores are kept between processes; None: in memory only."""

    def retrieve(
        self, query: str, knobs: Knobs, cancel: CancelToken | None = None, *, compare: bool = False
    ) -> Pool:
        """The candidate lists of ``query``, over-fetched, with the signals that these ``knobs`` need;
        ``compare`` adds what only an explanation shows: lists beside the others, exact ranks beyond a vector
        list. May wait for the network, within the timeouts of the settings. Raises UsageError for a blank
        query; IndexUnavailable when the index cannot be read. A query without a vector has no list of them,
        and a note of the pool says why."""

    def paths(self) -> tuple[str, ...]:
        """All files that can be found, relative to the workspace, sorted."""

    def freshness(self) -> Freshness:
        """How what is searched compares with the files on disk now. Raises WorkspaceError."""

    def status(self) -> IndexStatus:
        """Sizes, and how the index is searched."""

    def interrupt(self) -> None:
        """Stop retrievals of other threads: they raise Cancelled. Returns at once."""

    def close(self) -> None:
        """Release everything that the backend opened itself. It cannot be used afterwards."""

    # -- capability "sync" -------------------------------------------------------------------------------

    def sync(
        self,
        request: SyncRequest = ...,
        progress: Progress | None = None,
        cancel: CancelToken | None = None,
    ) -> SyncReport:
        """Make the index match the files on disk as ``request`` says. Blocks until it is done,
        also for a sync of another process. Raises SyncBusy, WorkspaceError, ProviderError."""

    def plan(self, request: SyncRequest = ..., cancel: CancelToken | None = None) -> Plan:
        """What ``sync`` would do and cost. Sends and writes nothing. Raises WorkspaceError."""

    def would_rebuild(self) -> bool:
        """Whether the next sync makes the index anew, because it was made with other settings."""

    # -- capabilities "files" and "chunks" ---------------------------------------------------------------

    def files(self) -> Overview:
        """What the index was made with, and each file compared with the disk. Raises WorkspaceError."""

    def chunks(self, path: str) -> Anatomy:
        """One file, by its path in the index, and its chunks. Raises UsageError for a path that is neither in
        the index nor memory, WorkspaceError."""

    def unshown(self, knobs: Knobs) -> dict[str, Unshown]:
        """By file of the index, what no search with these knobs can show. Takes 0.1 s for 8,000 chunks."""

    # -- capability "why_not" ----------------------------------------------------------------------------

    def why_not(self, question: PassageQuestion, cancel: CancelToken | None = None) -> WhyNot:
        """Why ``retrieve`` and the knobs do or do not return a passage. Raises PathRefused, UsageError,
        WorkspaceError, and what ``retrieve`` raises."""

    # -- capability "doctor" -----------------------------------------------------------------------------

    def examine(
        self, progress: Progress | None = None, cancel: CancelToken | None = None, *, deep: bool = False
    ) -> DoctorReport:
        """Run every check; change and send nothing. May take seconds, with ``deep`` minutes."""

    def repair(
        self, report: DoctorReport, progress: Progress | None = None, cancel: CancelToken | None = None
    ) -> tuple[list[str], DoctorReport | None]:
        """Repair what ``report`` calls fixable and examine again: what was done, in words, and the new report
        (None when that examination was stopped). Raises SyncBusy."""

    # -- capability "cache" ------------------------------------------------------------------------------

    def cache_sizes(self) -> list[CacheSize]:
        """The embedding cache, space by space."""

    def prune_cache(
        self, most: int, cancel: CancelToken | None = None, *, wait_s: float = PRUNE_WAIT_S
    ) -> int:
        """Remove the oldest embeddings beyond ``most`` that no chunk needs; how many were removed. Waits up
        to ``wait_s`` seconds for a sync. Raises SyncBusy."""


class Limited:
    """The optional methods of ``Backend``, refused with UsageError: for backends without capabilities."""

    name: str
    fallback: Fallback | None = None
    scores: ScoreCache | None = None
    #: A sentence on what to use instead.
    instead = ""

    def _refuse(self, *_: object, **__: object) -> Any:
        text = f"The backend {self.name} cannot do this: use memory.backend builtin for it."
        raise UsageError(" ".join(filter(None, [text, self.instead])))

    _refused: ClassVar[Callable[..., Any]] = _refuse
    sync = plan = would_rebuild = files = chunks = unshown = why_not = _refused
    examine = repair = cache_sizes = prune_cache = _refused


#: Name to module; each has a function ``open_backend(context)``. Loaded when it is used.
BACKENDS = {
    "builtin": "openclaw_mem_engine.retrieval.builtin",
    "qmd": "openclaw_mem_engine.retrieval.qmd",
    "qmd-process": "openclaw_mem_engine.retrieval.fallback",
}


def open_backend(name: str, context: BackendContext) -> Backend:
    """The backend ``name``, which for ``qmd`` is the external program when one is configured.

    Raises ConfigError for any other name, and what opening raises, mostly IndexUnavailable; a ``resident``
    process gets an ``UnreadBackend`` in place of one whose index is damaged.
    """
    if name not in BACKENDS:
        raise ConfigError(f"There is no backend {name!r}; known: {', '.join(BACKENDS)}.")
    external = context.settings.qmd_process or context.faults & QMD_FAULTS
    module = import_module(BACKENDS["qmd-process" if external else name])
    try:
        backend: Backend = module.open_backend(context)
    except IndexDamaged as damage:
        if not context.resident:
            raise
        from openclaw_mem_engine.retrieval.unread import UnreadBackend

        return UnreadBackend(name, context, damage)
    return backend


def examine_unopened(
    settings: Settings, progress: Progress | None = None, cancel: CancelToken | None = None, *, deep: bool
) -> DoctorReport:
    """As ``Backend.examine``, where no backend could be opened."""
    from openclaw_mem_engine.doctor import examine
    from openclaw_mem_engine.providers.factory import ProviderSet

    with closing(ProviderSet(settings, read_only=True)) as lineup:
        return examine(settings, lineup.embedders, deep=deep, progress=progress, cancel=cancel)


def repair_unopened(settings: Settings, report: DoctorReport, cancel: CancelToken | None = None) -> list[str]:
    """What ``Backend.repair`` does, where no backend could be opened, without the checks behind it."""
    from openclaw_mem_engine.doctor import fix

    return fix(settings, report, cancel)
