"""Bringing the index up to date, by a rebuild or in place."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from openclaw_mem_engine.cancellation import CancelToken, Deadline
from openclaw_mem_engine.config.settings import ChunkingSettings, Settings
from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_engine.errors import Cancelled, ProviderError
from openclaw_mem_engine.model import VECTORS, WAITING, Note, Progress, Space
from openclaw_mem_engine.providers.base import space_of
from openclaw_mem_engine.providers.circuit_breaker import Embedders, GuardedEmbedder
from openclaw_mem_engine.stores.base import FileChange, FileState, Fingerprint, Generation, IndexStore
from openclaw_mem_engine.sync.changes import keeping, unreadable_now
from openclaw_mem_engine.sync.embedding import GROUP_CHUNKS, JOB_CHUNKS, NO_LIMIT, Embedding, OutOfTime, probe
from openclaw_mem_engine.sync.fingerprint import beside_of, fingerprint_of, needs_rebuild, provide
from openclaw_mem_engine.sync.index_update import IndexUpdate, change_of
from openclaw_mem_engine.sync.report import SyncReport, SyncRequest, first_few
from openclaw_mem_engine.sync.waiting import waiting_for
from openclaw_mem_engine.workspace.walk import Listing

_REBUILD_STOPPED = "The rebuild was stopped; the index is unchanged."
#: Carried files that are written in one transaction.
_TOGETHER = 64
#: So many times the embeddings that passages can need are kept before others are looked for.
_SPARED = 1.02
_TOO_LONG = "Settings changed; a search does not wait for the rebuild of the index."


def update(
    settings: Settings,
    store: IndexStore,
    embedders: Embedders,
    request: SyncRequest,
    progress: Progress,
    cancel: CancelToken,
    clock: Callable[[], float],
    listing: Listing | None,
    report: SyncReport,
) -> None:
    """Make the index match the files on disk. No file is ever half written; what is done stays done.

    An index built with other settings (model, chunking, sources), or ``force``, is rebuilt aside and put in
    its path in one step; but not when the embedder does not answer, which would cost the vectors that are
    there. What cannot be read now is carried over, or a note names it. When the primary embedder fails, files
    are still indexed for keywords, the next sync tries their vectors again, and the fallback makes vectors of
    its own space meanwhile.

    ``clock`` gives epoch seconds for the time of the sync. ``report`` is filled in, also before an error.
    ``listing`` are the files, where they were listed since this was asked and the index is the same since.
    Raises WorkspaceError, IndexUnavailable, Cancelled.
    """
    start = time.perf_counter()
    wanted = fingerprint_of(settings, embedders.primary)
    present, hollow = store.fingerprint(), store.is_hollow()
    if present is None:
        store.begin(wanted)
        present = wanted
    if hollow:
        # Damage that took the chunks leaves rows that only a new index is rid of.
        request = replace(request, force=True)
        text = "The index had lost chunks or records and was rebuilt."
        report.notes.append(Note("chunks-lost", text, "warning"))
    if request.files_s is not None and not store.counts().files:
        request = replace(request, files_s=None)  # there would be nothing to answer from
    end = Deadline(request.files_s)
    work = _Update(
        settings, store, embedders, request, progress, cancel, clock, present, wanted, report, end, listing
    )
    embedding: Embedding | None = None
    failure: ProviderError | None = None
    rebuilding = work.is_other or request.force
    try:
        if rebuilding:
            try:
                embedding = work.rebuilt()
            except ProviderError as error:
                failure = error
            rebuilding = False
        if embedding is None:
            in_place = work.in_place(failure)
            in_place.run(request, listing)
            embedding = in_place.embedding
        work.finish(embedding, failure)
    except Cancelled as error:
        raise Cancelled(_REBUILD_STOPPED if rebuilding else _stopped(store)) from error
    report.seconds = time.perf_counter() - start


def _stopped(store: IndexStore) -> str:
    """What a stopped sync has left in the index."""
    from openclaw_mem_engine.sanitize import counted

    counts, space = store.counts(), store.fingerprint()
    held = f"{counted(counts.files, 'file')}, {counted(counts.chunks, 'chunk')}"
    if space is not None and space.space.provider != "none":
        held += f", {counted(store.covered(), 'vector')}"
    return f"Indexing was stopped; the index holds {held}."


@dataclass(slots=True)
class _Update:
    """The decisions of one update, and what they lead to. ``present`` is what the index was built with when
    it began, ``wanted`` what the settings ask for."""

    settings: Settings
    store: IndexStore
    embedders: Embedders
    request: SyncRequest
    progress: Progress
    cancel: CancelToken
    clock: Callable[[], float]
    present: Fingerprint
    wanted: Fingerprint
    report: SyncReport
    limit: Deadline
    listing: Listing | None
    #: A space of which a rebuild takes no embeddings over.
    unfit: Space | None = None

    @property
    def is_other(self) -> bool:
        """Whether what is there cannot serve what is wanted."""
        return needs_rebuild(self.present, self.wanted)

    @property
    def _budget_s(self) -> float | None:
        """The limit of embedding, seconds; an embedder that takes no time worth it has none."""
        primary = self.embedders.primary
        return None if primary is None or primary.lines else self.request.budget_s

    def finish(self, embedding: Embedding, failure: ProviderError | None) -> None:
        """What follows a rebuild or an update in place: notes, the spaces beside the primary one, pruning.
        ``failure`` is why a rebuild did not happen."""
        if self.report.rebuilt and self.is_other:
            differences = "; ".join(self.present.differences(self.wanted))
            text = f"Settings changed ({differences}): the index was rebuilt."
            self._note("rebuilt", text, "info")
        self.report.notes += dict.fromkeys(embedding.notes)
        if embedding.failure is not None:
            failure = embedding.failure
        primary_failed = failure is not None and not isinstance(failure, OutOfTime)
        before = len(self.report.notes)
        for embedder in beside_of(self.embedders, primary_failed=primary_failed):
            if not self.report.waiting and (self.request.budget_s is None or embedder.lines):
                self._fill_beside(embedder)
        if embedding.failure is not None:  # which comes first, and names what the others have made
            beside, self.report.notes[before:] = self.report.notes[before:], []
            self._note_failure(embedding.failure, f"{failure} Until embedding works, {self._finding}.")
            self.report.notes += [note for note in beside if note not in self.report.notes]
        if self.report.embedded or self.report.beside:
            self._prune()

    @property
    def _finding(self) -> str:
        """What finds text that has no vectors of the primary."""
        fallback = self.embedders.fallback
        if fallback is None or self.store.chunks_without_vector(1, space_of(fallback)):
            return "only BM25 finds text without embeddings"
        label = space_of(fallback).label
        return f"BM25 finds text without embeddings, and so do the vectors of {label} while they are used"

    def _prune(self) -> None:
        """Prune the embedding cache, unless nearly all of it is in use: looking for the rest reads it all."""
        cache, counts = self.settings.cache, self.store.counts()
        used = counts.chunks * (1 + len(beside_of(self.embedders)))
        if not cache.enabled or counts.cached > used * _SPARED:
            self.store.prune_cache(cache.max_entries if cache.enabled else 0)

    def rebuilt(self) -> Embedding:
        """Rebuild the index. Raises ProviderError when it stays as it was."""
        self._check_rebuild()
        done: list[Embedding] = []
        dropped: list[int] = []

        def fill(fresh: Generation) -> None:
            dropped.append(fresh.dropped)
            made = self._index_update(self.settings, fresh, self.wanted.space, self.embedders.primary)
            made.run(self.request, self.listing)
            if self.report.waiting:
                raise OutOfTime(_TOO_LONG)
            if self.is_other and made.embedding.failure is not None:
                raise made.embedding.failure  # the old vectors are worth more than the new chunks
            self._carry_over(fresh)
            done.append(made.embedding)

        try:
            self.store.rebuild(self.wanted, fill, self.cancel, without=self.unfit)
        except ProviderError:
            self.report.forget()  # what was done is lost with the rebuild
            raise
        self.report.rebuilt = True
        if number := sum(dropped):
            vectors = "1 vector" if number == 1 else f"{number:,} vectors"
            text = f"{vectors} of the embedding cache found damaged and not taken over; what needs one is "
            self._note("cache-damaged", f"{text}embedded again.")
        return done[0]

    def in_place(self, failure: ProviderError | None) -> IndexUpdate:
        """An update of the index as it is. After a failure no embedder is asked: new text is found by
        keywords, and by vectors that are in the cache. Chunks are cut like those that are there, which what
        the index was built with describes; sources are those of the settings."""
        chunking = ChunkingSettings(self.present.chunk_tokens, self.present.chunk_overlap)
        settings = replace(self.settings, chunking=chunking)
        space = self.present.space
        if failure is None:
            return self._index_update(settings, self.store, space, self.embedders.primary)
        held = self.store.covered(space) if space.provider != "none" else 0
        kept = f"keeps its vectors of {space.label} as they are" if held else "holds no vectors, as before"
        text = f"The index was not rebuilt: {failure} It {kept}."
        self._note_failure(failure, text, "not-rebuilt", later="rebuild-later")
        return self._index_update(settings, self.store, space, None)

    def _check_rebuild(self) -> None:
        """Raises ProviderError when the index cannot be rebuilt now."""
        if self.is_other and self._budget_s is not None:
            raise OutOfTime(_TOO_LONG)
        primary = self.embedders.primary
        if primary is None:
            return
        self.progress(0, 0, f"{WAITING}{primary.awaited[0]}")
        with waiting_for(primary, self.progress):
            dims = probe(primary, self.cancel)
        held = self.store.vector_dims(self.wanted.space)
        if held is not None and dims is not None and held != dims:
            self.unfit = self.wanted.space  # another model by the same name: not comparable

    def _carry_over(self, fresh: IndexStore) -> None:
        """Copy what the index holds of files that cannot be read now and may be readable later. Only chunks
        of the same cut and the same vector space fit; a note names the other files."""
        known, there, sources = self.store.files(), fresh.files(), self.wanted.sources
        if not self.request.prune and all(state.source != "memory" for state in there.values()):
            self.report.excluded += keeping(self.settings, Listing((), ()), known).excluded
        missing = [path for path, state in known.items() if path not in there and state.source in sources]
        states = [known[path] for path in sorted(unreadable_now(missing, self.report.excluded))]
        if replace(self.present, sources=sources) == self.wanted:
            for start in range(0, len(states), _TOGETHER):
                changes = [self._carried(fresh, state) for state in states[start : start + _TOGETHER]]
                fresh.apply(*changes, built_with=self.wanted)
            counts = fresh.counts()
            self.report.files, self.report.chunks = counts.files, counts.chunks
        elif lost := [state.path for state in states if not state.refusal]:
            text = (
                f"Not found until they can be read: {first_few(lost)}. The index was rebuilt with other "
                "settings, into which their old text does not fit. Make them readable, then run "
                "`openclaw-mem index`."
            )
            self._note("unreadable-lost", text)

    def _carried(self, fresh: IndexStore, state: FileState) -> FileChange:
        chunks, space = self.store.chunks_of(state.path), self.wanted.space
        hashes = {chunk.hash for chunk in chunks} if space.provider != "none" else ()
        lines = fresh.packed_lines([chunk.chunk_id for chunk in chunks], space)
        return change_of(state, chunks, fresh.cached_vectors(hashes), lines)

    def _index_update(
        self, settings: Settings, target: IndexStore, space: Space, embedder: GuardedEmbedder | None
    ) -> IndexUpdate:
        """An update of the index, or of the one that is built aside, which has then what searches read."""
        if self.request.knobs is not None:
            provide(target, self.request.knobs, embedder)
        embedding = Embedding(
            target,
            embedder,
            space,
            self.progress,
            self.cancel,
            group=JOB_CHUNKS if self.settings.provider.batch.enabled else GROUP_CHUNKS,
            budget_s=self._budget_s,
            limit=NO_LIMIT if self._budget_s is None else self.limit,
        )
        primary = self.embedders.primary
        most = primary.max_input_bytes if primary else None
        rest = self.progress, self.cancel, self.report, self.clock, self.limit
        return IndexUpdate(settings, target, embedding, most, *rest)

    def _fill_beside(self, embedder: GuardedEmbedder) -> None:
        """Bring the vectors of another than the primary space up to date. A failure is a note: nothing but
        this space suffers from it."""
        space = space_of(embedder)
        made = Embedding(self.store, embedder, space, self.progress, self.cancel, limit=self.limit)
        made.catch_up(f"{VECTORS} of {space.label}")
        self.report.beside += made.embedded
        self.report.notes += made.notes
        if made.failure is not None:
            text = f"The vectors of {space.label} are not complete: {made.failure}"
            self._note_failure(made.failure, text, "beside-failed")

    def _note_failure(
        self,
        failure: ProviderError,
        text: str,
        code: str = "embedding-failed",
        later: str = "embedding-later",
    ) -> None:
        if isinstance(failure, OutOfTime):
            self._note(later, f"{failure} `openclaw-mem index` does the rest.")
        else:
            self._note(code, text)

    def _note(self, code: str, text: str, level: Literal["info", "warning"] = "warning") -> None:
        note = Note(code, text, level)
        if note not in self.report.notes:
            self.report.notes.append(note)
