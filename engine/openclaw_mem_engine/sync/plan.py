"""What a sync would do, and what it would cost, before anything is written or sent."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from openclaw_mem_engine.cancellation import CancelToken
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.errors import Cancelled
from openclaw_mem_engine.model import ExcludedFile, MemoryFile, Space, as_json, utf8
from openclaw_mem_engine.providers.base import Embedder, space_of
from openclaw_mem_engine.providers.prices import cost, estimated_tokens, price_class
from openclaw_mem_engine.redact import credentials
from openclaw_mem_engine.stores.base import IndexStore
from openclaw_mem_engine.sync.changes import Comparison, listed, scan
from openclaw_mem_engine.sync.fingerprint import beside_of, fingerprint_of, needs_rebuild
from openclaw_mem_engine.sync.index_update import chunks_of
from openclaw_mem_engine.sync.report import DEFAULT_REQUEST, SyncRequest
from openclaw_mem_engine.workspace.opening import NoteRefused

if TYPE_CHECKING:
    from openclaw_mem_engine.providers.circuit_breaker import Embedders


@dataclass(frozen=True, slots=True)
class PlannedSpace:
    """Texts that would be embedded for one space. ``tokens`` are estimated; ``usd`` is None when the price is
    not known, 0.0 when it costs nothing. ``host`` is the one that would see the text, "" for none;
    ``why_not`` tells what is missing to do it, "" when nothing is."""

    space: Space
    host: str
    texts: int
    cached: int
    tokens: int
    price: str
    usd: float | None
    why_not: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain data for ``openclaw-mem index --dry-run --json``."""
        space = {"provider": self.space.provider, "model": self.space.model}
        return space | as_json(self, space="", tokens="estimatedTokens") | {"whyNot": self.why_not or None}


@dataclass(frozen=True, slots=True)
class Plan:
    """What ``openclaw-mem index`` would do now. ``files`` would be read; ``rebuild`` says why all of them.
    ``removed`` files would be forgotten, with ``removed_chunks``. ``credentials``: different chunks of the
    files to read that hold what looks like a credential; None when they were not looked at."""

    files: int
    removed: int
    removed_chunks: int
    chunks: int
    rebuild: str
    spaces: tuple[PlannedSpace, ...]
    excluded: tuple[ExcludedFile, ...]
    credentials: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain data for ``openclaw-mem index --dry-run --json``."""
        return as_json(self, spaces="embed")


def plan(
    settings: Settings,
    store: IndexStore,
    embedders: Embedders,
    request: SyncRequest = DEFAULT_REQUEST,
    cancel: CancelToken | None = None,
) -> Plan:
    """Read and chunk what a sync would, look into the cache, and count. Sends and writes nothing.

    Counting stops after ``request.files_s``, too: the plan is of about as many files as that sync would do.
    Raises WorkspaceError, IndexUnavailable, Cancelled.
    """
    present, wanted = store.fingerprint(), fingerprint_of(settings, embedders.primary)
    rebuild = ""
    if present is not None and needs_rebuild(present, wanted):
        rebuild = "; ".join(present.differences(wanted))
    elif present is not None and request.force:
        rebuild = "asked for"
    bounded = request.files_s is not None and store.counts().files
    until = time.monotonic() + (request.files_s or 0.0) if bounded else math.inf
    listing = listed(settings)
    changes, excluded = scan(settings, store, Comparison(tails=request.tails, prune=request.prune), listing)
    files: list[MemoryFile] = list(changes.changed)
    if rebuild:
        files, excluded = list(listing.files), list(listing.excluded)
    texts: dict[str, str] = {}
    chunks = read = 0
    limit = embedders.primary.max_input_bytes if embedders.primary else None
    for file in files:
        if cancel is not None and cancel.is_set():
            raise Cancelled("Counting was stopped.")
        if read and time.monotonic() >= until:
            break
        read += 1
        try:
            _, made = chunks_of(settings, file, wanted.space, limit)
        except NoteRefused as refusal:
            excluded.append(ExcludedFile(file.path, refusal.reason, transient=refusal.transient))
            continue
        chunks += len(made)
        texts.update((chunk.hash, chunk.text) for chunk in made)
    primary = embedders.primary
    asked = [*([primary] if primary else []), *beside_of(embedders)]
    going = None if rebuild else set(changes.paths)
    unfit = primary if rebuild and primary and primary.misfit(store.vector_dims(wanted.space)) else None
    spaces = tuple(_planned(store, embedder, texts, going, kept=embedder is not unfit) for embedder in asked)
    held = store.chunk_counts()
    gone = sum(held.get(state.path, 0) for state in changes.removed)
    secret = sum(1 for text in texts.values() if credentials(text))
    return Plan(read, len(changes.removed), gone, chunks, rebuild, spaces, tuple(excluded), secret)


def planned_space(embedder: Embedder, texts: int, cached: int, size: int) -> PlannedSpace:
    """What it takes to embed so many texts, of ``size`` bytes or characters together."""
    tokens, model = estimated_tokens(size), (embedder.id, embedder.model, embedder.host)
    money = price_class(*model), cost(*model, tokens)
    why_not = embedder.why_not() or ""
    return PlannedSpace(space_of(embedder), embedder.host, texts, cached, tokens, *money, why_not)


def _planned(
    store: IndexStore, embedder: Embedder, texts: dict[str, str], going: set[str] | None, *, kept: bool
) -> PlannedSpace:
    """``going``: files whose present chunks go; None when all do. ``kept``: the vectors of the cache can be
    compared with new ones."""
    space = space_of(embedder)
    wanted = dict(texts)
    if going is not None:
        # What earlier syncs could not embed, and for a space that is new all there is.
        waiting = store.chunks_without_vector(1_000_000, space)
        wanted.update((chunk.hash, chunk.text) for chunk in waiting if chunk.path not in going)
    known = store.cached_vectors(wanted, space) if kept else {}
    missing = [text for key, text in wanted.items() if key not in known]
    return planned_space(embedder, len(missing), len(known), sum(len(utf8(text)) for text in missing))
