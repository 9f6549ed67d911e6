"""Vectors for the text of the index: from the cache where it has them, from embedders where it has not.

Everything that an embedder has finished is in the cache at once, so a sync that fails, is stopped or killed
pays for nothing twice.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from openclaw_mem_engine.cancellation import CancelToken, Deadline, LinkedToken
from openclaw_mem_engine.errors import Cancelled, ProviderError
from openclaw_mem_engine.model import Note, Progress, Space
from openclaw_mem_engine.providers.base import NotConfigured, TextRefused, space_of
from openclaw_mem_engine.providers.base_embedder import has_words, last_answer, other_dims, zero_answer
from openclaw_mem_engine.providers.prices import cost, estimated_tokens
from openclaw_mem_engine.sanitize import counted_have
from openclaw_mem_engine.stores.base import IndexStore, StoredChunk
from openclaw_mem_engine.sync.report import first_few
from openclaw_mem_engine.sync.waiting import waiting_for

if TYPE_CHECKING:
    from openclaw_mem_engine.providers.base import Embedder, Floats
    from openclaw_mem_engine.providers.circuit_breaker import GuardedEmbedder
    from openclaw_mem_engine.stores.base import Vector

#: Chunks that are embedded and written together: enough for several requests, few enough to stop soon.
GROUP_CHUNKS = 256
#: The same where a batch job is made of them: a job takes hours, so there should be few.
JOB_CHUNKS = 10_000
#: Refused texts, and none accepted, after which the provider is the trouble and not the texts.
_REFUSALS = 3
_PROBE_TEXT = "memory"
#: With less of its budget left, an embedder is not asked: that it does not answer would prove nothing.
_LEAST_SHARE = 0.5
NO_LIMIT = Deadline(None)


class OutOfTime(ProviderError):
    """Embedding takes longer than the search that waits for it allows."""


def too_slow(embedder: Embedder) -> OutOfTime:
    """The error of an embedder that takes too long, with what it answered last where that was no success."""
    text = "Making the vectors of new text takes longer than a search waits for it"
    return OutOfTime(f"{text}{last_answer(embedder)}.")


class Embedding:
    """Makes the vectors of one space during one sync. After the first failure it asks no more: ``failure``
    says why, and what is missing is awaited by the next sync. A text that alone is refused is left out.

    ``space`` is that of the embedder, or of the index's vectors when no embedder can be asked for them
    now. When ``limit`` is over, or ``budget_s`` seconds after the embedder was first asked, the rest is left
    for later (``OutOfTime``). With a budget an embedder whose circuit is open is not asked, and the circuit
    of one that does not answer at all meanwhile is opened; a text for which the model returned zeros is not
    sent again.
    """

    def __init__(
        self,
        store: IndexStore,
        embedder: GuardedEmbedder | None,
        space: Space,
        progress: Progress,
        cancel: CancelToken,
        *,
        group: int = GROUP_CHUNKS,
        budget_s: float | None = None,
        limit: Deadline = NO_LIMIT,
    ) -> None:
        self._store = store
        self._built_with = store.fingerprint()
        self.group = group
        self._embedder = embedder
        self.space = space
        self._progress = progress
        self.budget_s = budget_s
        self._deadline = limit
        self._cancel = LinkedToken(cancel, lambda: self._deadline.is_over)
        self._admitted = budget_s is None
        self.failure: ProviderError | None = None
        self.notes: list[Note] = []
        #: Texts that were sent to the embedder, and those that the cache spared it.
        self.embedded = self.cache_hits = 0
        #: Files done and files in all, for the progress; 0 of 0 when no file is being read.
        self.files = (0, 0)
        #: The same of chunks with a vector, while files are not embedded as they are read.
        self._held = self._chunks = 0
        self._refused: dict[str, TextRefused] = {}
        #: Texts in words that got a vector of zeros, which is not kept. That they did is
        #: (``Space.of_zeros``): a sync with a budget does not send them again, one without does.
        self._zeros: set[str] = set()
        #: Where the chunks of these texts are, by chunk id.
        self._of_zeros: dict[str, str] = {}
        self._bytes = 0
        self._since = time.monotonic()

    def vectors_of(self, texts: Mapping[str, str], label: str = "") -> dict[str, Vector | None]:
        """Vectors by text hash; a hash is absent when its text could not be embedded. Raises Cancelled."""
        if not texts:
            return {}
        known = self.cached(texts)
        if self._embedder is None:
            return known
        if self.budget_s is not None:
            self._zeros.update(self._store.cached_vectors(texts.keys() - known.keys(), self.space.of_zeros))
        while self.failure is None:
            passed = {*known, *self._refused, *self._zeros}
            if not (missing := [key for key in texts if key not in passed]):
                break
            try:
                if not self._admitted:
                    self._admit(self._embedder)
                self._embed(self._embedder, missing, texts, known, label)
            except Cancelled:
                if self._cancel.is_cancelled:
                    raise
                self.failure = too_slow(self._embedder)
            except TextRefused as error:
                self._refused[missing[error.position]] = error
                if not self.embedded and len(self._refused) >= _REFUSALS:
                    self.failure = error
            except ProviderError as error:
                self.failure = error
            else:
                break
        self._exclude_refused(known)
        self.notes += self._embedder.take_notes()
        return known

    def lines_of(self, chunks: Sequence[StoredChunk]) -> dict[str, bytes]:
        """Packed lines of chunks by chunk id, those of the index where it has them; none where no search
        compares lines."""
        lines = None if self._embedder is None or self.failure is not None else self._embedder.lines
        if lines is None or self._store.lacking("lines"):
            return {}
        found = self._store.packed_lines([chunk.chunk_id for chunk in chunks], self.space)
        new = {chunk.chunk_id: chunk.text for chunk in chunks if chunk.chunk_id not in found}
        with suppress(ProviderError):
            return found | dict(zip(new, lines.pack([*new.values()]), strict=True))
        return {}

    def cached(self, texts: Mapping[str, str]) -> dict[str, Vector | None]:
        """Those vectors by text hash that are in the cache."""
        known = self._store.cached_vectors(texts, self.space)
        if self._embedder is not None:
            self.cache_hits += len(known)
        return known

    def _admit(self, embedder: GuardedEmbedder) -> None:
        """See ``admit``. Raises ProviderError."""
        budget_s = self.budget_s or 0.0
        if self._deadline.left_s < budget_s * _LEAST_SHARE:
            raise embedder.trouble or too_slow(embedder)
        given_s = min(budget_s, self._deadline.left_s)
        self._deadline = Deadline(given_s)
        admit(embedder, self._store.vector_dims(self.space), given_s, self._cancel)
        self._admitted = True

    def _note(self, code: str, text: str) -> None:
        self.notes.append(Note(code, text, "warning"))

    def _embed(
        self,
        embedder: Embedder,
        missing: Sequence[str],
        texts: Mapping[str, str],
        known: dict[str, Vector | None],
        label: str,
    ) -> None:
        held = self._store.vector_dims(self.space)

        def keep(indexes: Sequence[int], vectors: Sequence[Vector | None]) -> None:
            nonlocal held
            for vector in vectors:
                if vector is None:
                    continue
                held = held or vector.size
                if vector.size != held:
                    raise other_dims(embedder, vector.size, held)
            if space_of(embedder) != self.space:  # a model file can be replaced while it is in use
                raise NotConfigured(
                    f"The model {embedder.model} was replaced while it was in use. Run `openclaw-mem index`."
                )
            made = {missing[index]: vector for index, vector in zip(indexes, vectors, strict=True)}
            zeros = self._zeros_of(embedder, made, texts)
            if zeros == made.keys() and len(made) > 1 and held is None:
                raise zero_answer(embedder)
            self._zeros |= zeros
            self._store.cache_vectors(dict.fromkeys(zeros), self.space.of_zeros)
            made = {key: vector for key, vector in made.items() if key not in zeros}
            self._store.cache_vectors(made, self.space)
            known.update(made)
            self.embedded += len(made)
            self._bytes += sum(len(texts[key].encode("utf-8", "replace")) for key in made)

        with waiting_for(embedder, self._progress) as progress:

            def show(done: int, total: int, _: str) -> None:
                if self._chunks:  # ``missing`` are a few of them
                    done, total = self._held + done, self._chunks
                shown = (done, total) if self._chunks else self.files
                progress(*shown, f"{label}{self._rate(embedder, done, total)}")

            embedder.embed_documents([texts[key] for key in missing], self._cancel, show, keep)

    @staticmethod
    def _zeros_of(
        embedder: Embedder, made: Mapping[str, Vector | None], texts: Mapping[str, str]
    ) -> set[str]:
        """The texts in words without a vector, which a model for all languages has for each."""
        if embedder.languages != "any":
            return set()
        return {key for key, vector in made.items() if vector is None and has_words(texts[key])}

    def _exclude_refused(self, known: dict[str, Vector | None]) -> None:
        """Remember that these texts have no vector, so that they are not sent again; but only when the
        provider takes others."""
        new = [key for key in self._refused if key not in known]
        if not new or self.failure is not None:
            return
        assert self._embedder is not None
        error = self._refused[new[0]]
        if not self.embedded:
            try:
                probe(self._embedder, self._cancel)
            except Cancelled:
                if self._cancel.is_cancelled:
                    raise
                self.failure = too_slow(self._embedder)
                return
            except ProviderError as failure:
                self.failure = failure
                return
        self._store.cache_vectors(dict.fromkeys(new), self.space)
        known.update(dict.fromkeys(new))
        texts = "A text was refused" if len(new) == 1 else f"{len(new):,} texts were refused"
        self._note("text-refused", f"{texts}, so that it has no vector: {error}")

    def _rate(self, embedder: Embedder, done: int, total: int) -> str:
        """``  embedded 120 of 256, 31/s, about $0.0021``"""
        seconds = time.monotonic() - self._since
        rate = f", {self.embedded / seconds:.0f}/s" if seconds > 1 else ""
        spent = cost(embedder.id, embedder.model, embedder.host, estimated_tokens(self._bytes))
        price = f", about ${spent:.4f}" if spent else ""
        return f"  embedded {done:,} of {total:,}{rate}{price}"

    @property
    def is_instant(self) -> bool:
        """Whether the embedder takes no time worth a wait: files are then embedded as they are read."""
        return self._embedder is not None and self._embedder.lines is not None

    def catch_up(self, label: str, until: Deadline = NO_LIMIT) -> None:
        """Embed the chunks that have no vector yet; a group at least, none is begun after ``until``. Raises
        Cancelled, IndexUnavailable."""
        if self._embedder is None or self._built_with is None:
            return
        self._fill_all(self._embedder, label, until, primary=self._built_with.space == self.space)
        if zeros := self._of_zeros.values():
            text = (
                f"{counted_have(len(zeros), 'chunk')} no vector of {self.space.label}, which returned zeros"
            )
            self._note("zero-vector", f"{text}: {first_few(zeros)}. `openclaw-mem index` asks again.")

    def _fill_all(self, embedder: GuardedEmbedder, label: str, until: Deadline, *, primary: bool) -> None:
        before: set[str] = set()
        most = self.group
        while self.failure is None:
            waiting = self._store.chunks_without_vector(most, self.space)
            if not waiting:
                return
            ids = {chunk.chunk_id for chunk in waiting}
            if ids == before:
                return  # they wait for a batch job, or are of zeros
            if not before:
                self._held, self._chunks = self._store.covered(self.space), self._store.counts().chunks
                self._progress(self._held, self._chunks, label)
            # More each time: finding them reads all that have a vector.
            before, most = ids, min(2 * most, JOB_CHUNKS)
            for start in range(0, len(waiting), self.group):
                self._fill(waiting[start : start + self.group], label, primary=primary)
                if until.is_over and self._store.chunks_without_vector(1, self.space):
                    self.failure = self.failure or too_slow(embedder)
                if self.failure is not None:
                    return

    def _fill(self, waiting: Sequence[StoredChunk], label: str, *, primary: bool) -> None:
        """Embed these chunks of the index."""
        if self._cancel.is_cancelled:
            raise Cancelled("Embedding was stopped.")
        vectors = self.vectors_of({chunk.hash: chunk.text for chunk in waiting}, label)
        ready = {c.chunk_id: v for c in waiting if (v := vectors.get(c.hash)) is not None}
        zeros = (chunk for chunk in waiting if chunk.hash in self._zeros)
        self._of_zeros.update((c.chunk_id, f"{c.path}:{c.start_line}-{c.end_line}") for c in zeros)
        if primary:
            self._store.set_vectors(ready, self._built_with)
        self._held += len(ready)


def admit(embedder: GuardedEmbedder, held: int | None, given_s: float, cancel: LinkedToken) -> Floats | None:
    """The vector of a word, asked for as that of a query of an index with vectors of the length ``held``,
    before ``cancel`` is set after ``given_s`` seconds: an embedder whose circuit is open refuses, that of one
    that does not answer is opened, and one that is known to be slower is not asked, which would only delay
    the query. Raises ProviderError, Cancelled."""
    if embedder.is_slower(given_s):
        raise embedder.trouble or too_slow(embedder)
    try:
        return embedder.embed_for(held, _PROBE_TEXT, cancel)
    except Cancelled:
        # A local model may have to be read from disk first, which takes longer and is no failure.
        if not cancel.is_cancelled and embedder.id != "local":
            embedder.no_answer(given_s)
        raise


def probe(embedder: Embedder, cancel: CancelToken) -> int | None:
    """The length of the embedder's vectors. Raises ProviderError when it does not answer, Cancelled."""
    # As a document: a sync was ordered, so it is asked however often it failed before.
    vectors = embedder.embed_documents([_PROBE_TEXT], cancel)
    return next((vector.size for vector in vectors if vector is not None), None)
