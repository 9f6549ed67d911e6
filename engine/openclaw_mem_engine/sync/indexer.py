"""Bringing the index up to date: whether it is built anew or gone on with, and which spaces are filled."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal

from openclaw_mem_engine.cancellation import CancelToken
from openclaw_mem_engine.chunking import chunker_of
from openclaw_mem_engine.config.settings import ChunkingSettings, Settings
from openclaw_mem_engine.errors import Cancelled, ProviderError
from openclaw_mem_engine.model import Note, Progress, Space
from openclaw_mem_engine.providers.base import Embedder, Embedders, space_of
from openclaw_mem_engine.stores.base import Fingerprint, IndexStore
from openclaw_mem_engine.sync.carry import carry_over
from openclaw_mem_engine.sync.embedding import (
    GROUP_CHUNKS,
    JOB_CHUNKS,
    Embedding,
    OutOfTime,
    fill_beside,
    probe,
)
from openclaw_mem_engine.sync.first_few import first_few
from openclaw_mem_engine.sync.report import SyncReport
from openclaw_mem_engine.sync.run import Run

_STOPPED = "Indexing was stopped; what was finished before is in the index."
_REBUILD_STOPPED = "The rebuild was stopped; the index is as it was."
_TOO_LONG = "Settings changed, and a search does not wait for the index to be built anew."


def fingerprint_of(settings: Settings, embedder: Embedder | None) -> Fingerprint:
    """What an index made with these settings is built with."""
    chunker = chunker_of(settings.chunking.tokens, settings.chunking.overlap)
    return Fingerprint(
        *space_of(embedder),
        settings.chunking.tokens,
        settings.chunking.overlap,
        tuple(sorted(settings.sources)),
        chunker=chunker.name,
    )


def needs_rebuild(present: Fingerprint, wanted: Fingerprint) -> bool:
    """Whether an index with the present content cannot serve what is wanted.

    Searching by keywords alone (provider none) is served by any index of the same chunks: its vectors are
    just not asked, and are there when they are wanted again.
    """
    if wanted.provider == "none":
        wanted = replace(
            wanted, provider=present.provider, model=present.model, provider_key=present.provider_key
        )
    return present != wanted


def beside_of(embedders: Embedders, *, primary_failed: bool = False) -> list[Embedder]:
    """Whose vectors are made besides the primary's: those to be compared, and the fallback's: at once when
    they cost nothing, else when they are needed."""
    found = {space_of(embedder): embedder for embedder in embedders.also}
    fallback = embedders.fallback
    if fallback is not None and (primary_failed or fallback.cheap_lines):
        found[space_of(fallback)] = fallback
    found.pop(space_of(embedders.primary), None)
    return list(found.values())


def sync(
    settings: Settings,
    store: IndexStore,
    embedders: Embedders,
    progress: Progress | None = None,
    cancel: CancelToken | None = None,
    *,
    force: bool = False,
    verify: bool = False,
    tails: bool = False,
    budget_s: float | None = None,
    files_s: float | None = None,
    clock: Callable[[], float] = time.time,
    report: SyncReport | None = None,
) -> SyncReport:
    """Make the index match the files on disk. No file is ever half written; what is done stays done.
    ``verify`` reads every file to compare it, whatever its time and size say. ``tails`` also takes in what
    was appended to transcripts since, however little it is.

    An index built with other settings (model, chunking, sources), or ``force``, is rebuilt aside and put in
    place in one step; but never for an embedder that does not answer, which would cost the vectors that are
    there. What cannot be read just now comes over from the old index, or a note names it: old chunks fit as
    long as chunking and model are the same. When the primary embedder fails, files are still indexed for
    keywords, the report says so, the next sync tries their vectors again, and the fallback makes vectors of
    its own space meanwhile.

    ``budget_s`` and ``files_s`` are for a search that waits for this. Embedding by somebody who takes time
    stops after ``budget_s`` seconds, and nothing is rebuilt for it. All the rest stops at the next file after
    ``files_s`` seconds, a rebuild too, unless there is nothing to search yet. Notes say what is left for
    ``openclaw-mem index``, and ``SyncReport.waiting`` names the files. ``clock`` gives epoch seconds for the
    time of the sync; times of files are always those of the disk. ``report`` is filled in and returned: with
    one of their own, callers know after an error how far it came.
    Raises WorkspaceError, IndexUnavailable, Cancelled.
    """
    start = time.perf_counter()
    wanted = fingerprint_of(settings, embedders.primary)
    present = store.fingerprint()
    if present is None:
        store.begin(wanted)
        present = wanted
    report = SyncReport() if report is None else report
    if store.is_hollow():
        # Whatever took the chunks has left rows behind that only a new index is rid of.
        force, told = True, "The index had lost all of its chunks, and was built anew."
        report.notes.append(Note("hollow", told, "warning"))
    if files_s is not None and not store.counts().files:
        files_s = None  # without it there would be nothing to answer from
    _Sync(
        settings,
        store,
        embedders,
        progress,
        cancel,
        verify,
        tails,
        budget_s,
        files_s,
        clock,
        present,
        wanted,
        report,
    ).run(force=force)
    report.seconds = time.perf_counter() - start
    return report


@dataclass(slots=True)
class _Sync:
    """One sync: its decisions, and what they lead to. ``present`` is what the index was built with when it
    began, ``wanted`` what the settings ask for."""

    settings: Settings
    store: IndexStore
    embedders: Embedders
    progress: Progress | None
    cancel: CancelToken | None
    verify: bool
    tails: bool
    budget_s: float | None
    files_s: float | None
    clock: Callable[[], float]
    present: Fingerprint
    wanted: Fingerprint
    report: SyncReport
    #: A space of which a rebuild takes no embeddings over.
    unfit: Space | None = None

    def run(self, *, force: bool) -> None:
        """Build anew where that is needed or asked for and possible, else go on with what is there; then the
        spaces beside the primary one."""
        embedding, failure = None, None
        if self._is_other or force:
            with _stopped_as(_REBUILD_STOPPED):
                embedding, failure = self._built_anew()
        with _stopped_as(_STOPPED):
            self._rest(embedding, failure)

    def _rest(self, embedding: Embedding | None, failure: ProviderError | None) -> None:
        """What follows a rebuild (None: there was none), or comes instead of it."""
        if embedding is None:
            embedding = self._gone_on(failure)
        if self.report.rebuilt and self._is_other:
            told = "; ".join(self.present.differences(self.wanted))
            self._note("rebuilt", f"Settings changed ({told}): the index was rebuilt.", "info")
        self.report.notes += dict.fromkeys(embedding.notes)
        if embedding.failure is not None:
            failure = embedding.failure
            told = f"Embedding failed: {failure} New text is found by keywords; vectors follow when it works."
            self._note_failure(failure, told)
        if not self.report.waiting:
            self._fill_beside(primary_failed=failure is not None and not isinstance(failure, OutOfTime))
        if self.report.embedded or self.report.beside:
            cache = self.settings.cache
            self.store.prune_cache(cache.max_entries if cache.enabled else 0)

    # -- the primary space ------------------------------------------------------------------------------

    @property
    def _is_other(self) -> bool:
        """Whether what is there cannot serve what is wanted."""
        return needs_rebuild(self.present, self.wanted)

    @property
    def _is_quick(self) -> bool:
        """Whether nobody need be spared the wait for the primary embedder."""
        primary = self.embedders.primary
        return primary is None or primary.cheap_lines

    def _built_anew(self) -> tuple[Embedding | None, ProviderError | None]:
        """Rebuild the index. Without an embedding: why it stayed as it was."""
        failure = self._obstacle()
        if failure is not None:
            return None, failure
        done: list[Embedding] = []

        def fill(fresh: IndexStore) -> None:
            made = self._fill(self.settings, fresh, self.wanted.space, self.embedders.primary)
            if self.report.waiting:
                raise OutOfTime(_TOO_LONG)
            if self._is_other and made.failure is not None:
                raise made.failure  # the old vectors are worth more than the new chunks
            self._carry_over(fresh)
            done.append(made)

        try:
            self.store.rebuild(self.wanted, fill, self.cancel, without=self.unfit)
        except ProviderError as error:
            self.report.forget()  # what was done went with the rebuild
            return None, error
        self.report.rebuilt = True
        return done[0], None

    def _obstacle(self) -> ProviderError | None:
        """Why the index cannot be built anew now; None when it can."""
        if self._is_other and not self._is_quick and self.budget_s is not None:
            return OutOfTime(_TOO_LONG)
        primary = self.embedders.primary
        if primary is None:
            return None
        dims, failure = probe(primary, self.cancel)
        held = self.store.vector_dims(self.wanted.space)
        if held is not None and dims is not None and held != dims:
            self.unfit = self.wanted.space  # another model by the same name: not comparable
        return failure

    def _carry_over(self, fresh: IndexStore) -> None:
        """Keep what is known of files that cannot be read now; tell where that does not fit."""
        kept, lost = carry_over(self.store, fresh, self.report.skipped)
        if kept:
            counts = fresh.counts()
            self.report.files, self.report.chunks = counts.files, counts.chunks
        if lost:
            told = (
                f"Not found until they can be read: {first_few(lost)}. The index was built anew with other "
                "settings, into which their old text does not fit. Make them readable, then run "
                "`openclaw-mem index`."
            )
            self._note("unreadable-lost", told, "warning")

    def _gone_on(self, failure: ProviderError | None) -> Embedding:
        """Bring the index up to date as it is. After a failure nobody is asked: new text is found by
        keywords, and by vectors that happen to be in the cache.

        Chunks are cut as those are that are there: what the index was built with tells of all of them, and
        one that was cut in another way would stay so when the settings are set back. Sources are those of the
        settings: a scan takes in or forgets whole files, then as now.
        """
        chunking = ChunkingSettings(self.present.chunk_tokens, self.present.chunk_overlap)
        settings = replace(self.settings, chunking=chunking)
        if failure is None:
            return self._fill(settings, self.store, self.present.space, self.embedders.primary)
        told = f"The index keeps its vectors of {self.present.space.label} as they are: {failure}"
        self._note_failure(failure, told)
        return self._fill(settings, self.store, self.present.space, None)

    def _fill(
        self, settings: Settings, target: IndexStore, space: Space, embedder: Embedder | None
    ) -> Embedding:
        """One run over the index, or over the one that grows beside it."""
        embedding = Embedding(
            target,
            embedder,
            space,
            self.progress,
            self.cancel,
            group=JOB_CHUNKS if self.settings.provider.batch.enabled else GROUP_CHUNKS,
            budget_s=None if self._is_quick else self.budget_s,
        )
        primary = self.embedders.primary
        limit = primary.max_input_bytes if primary else None
        run = Run(settings, target, embedding, limit, self.progress, self.cancel, self.report, self.clock)
        run.run(verify=self.verify, tails=self.tails, files_s=self.files_s)
        return embedding

    # -- the others, and notes --------------------------------------------------------------------------

    def _fill_beside(self, *, primary_failed: bool) -> None:
        for embedder in beside_of(self.embedders, primary_failed=primary_failed):
            if self.budget_s is not None and not embedder.cheap_lines:
                continue
            made, notes = fill_beside(self.store, embedder, self.progress, self.cancel)
            self.report.beside += made.embedded
            self.report.notes += notes

    def _note_failure(self, failure: ProviderError, told: str) -> None:
        if isinstance(failure, OutOfTime):
            self._note("embedding-later", f"{failure} `openclaw-mem index` does the rest.", "warning")
        else:
            self._note("embedding-failed", told, "warning")

    def _note(self, code: str, text: str, level: Literal["info", "warning"]) -> None:
        self.report.notes.append(Note(code, text, level))


@contextmanager
def _stopped_as(told: str) -> Iterator[None]:
    """Say what became of the index when the body is stopped: what was stopped in it does not know that."""
    try:
        yield
    except Cancelled as error:
        raise Cancelled(told) from error
