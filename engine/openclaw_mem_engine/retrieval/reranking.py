"""Rerank scores for a pool: asked in batches, cached, within a time budget.

``rank()`` names the chunks that need a score (``pipeline.to_rerank``); what gets none keeps its fused score,
and the pool says why.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Protocol

from openclaw_mem_engine.cancellation import SEARCH_STOPPED, CancelToken, Deadline, LinkedToken
from openclaw_mem_engine.errors import Cancelled, IndexLocked, ProviderError
from openclaw_mem_engine.model import Note, text_hash
from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.providers.base import Pause, Reranker
from openclaw_mem_engine.qmd.queries import cache_key
from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.pipeline import to_rerank
from openclaw_mem_engine.ranking.pool import Pool
from openclaw_mem_engine.retrieval.expansion import AnswerCache

#: Query with intent, hash of the text, model.
Key = tuple[str, str, str]

#: Characters of the part of a long text that is scored (the chunk size of QMD).
PASSAGE_CHARS = 3600
BUDGET_S = 10.0
_BATCH = 8
_KEPT = 10_000
#: How often a wait looks at the caller's token, seconds.
_LOOK_S = 0.02
_NO_MODEL = "no reranker is configured (rerank.provider)"
_PENDING = "its score is pending"


class ScoreCache(Protocol):
    """Keeps rerank scores. Safe to call from several threads."""

    def get(self, key: Key) -> float | None:
        """The score that was kept; None when there is none."""

    def put(self, key: Key, score: float) -> None: ...


class RecentScores:
    """A ``ScoreCache`` in memory: the latest scores."""

    def __init__(self) -> None:
        self._scores: OrderedDict[Key, float] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Key) -> float | None:
        with self._lock:
            return self._scores.get(key)

    def put(self, key: Key, score: float) -> None:
        with self._lock:
            self._scores[key] = score
            self._scores.move_to_end(key)
            while len(self._scores) > _KEPT:
                self._scores.popitem(last=False)


class StoredScores(RecentScores):
    """A ``ScoreCache`` in memory and, for later processes, in the answers of models that an index keeps."""

    def __init__(self, answers: AnswerCache) -> None:
        super().__init__()
        self._answers = answers

    def get(self, key: Key) -> float | None:
        if (score := super().get(key)) is not None:
            return score
        try:
            score = float(self._answers.cache_get(_row_of(key)) or "nan")
        except ValueError:
            return None
        return score if 0.0 <= score <= 1.0 else None

    def put(self, key: Key, score: float) -> None:
        super().put(key, score)
        with suppress(IndexLocked):  # the next process asks for it again
            self._answers.cache_put(_row_of(key), repr(score))


def _row_of(key: Key) -> str:
    query, chunk, model = key
    return cache_key("rerank", {"query": query, "model": model, "chunk": chunk})


class _Scored(NamedTuple):
    texts: Sequence[str]
    scores: Sequence[float]


class Reranking:
    """Completes pools with the scores of one reranker. Thread-safe.

    ``reranker`` None: nothing is scored, and a note says why. ``budget_s`` are seconds for one pool,
    ``batch`` is how many texts are sent at once.
    """

    def __init__(
        self,
        reranker: Reranker | None,
        cache: ScoreCache | None = None,
        *,
        budget_s: float = BUDGET_S,
        batch: int = _BATCH,
    ) -> None:
        self._reranker = reranker
        self._cache = RecentScores() if cache is None else cache
        self._budget_s = budget_s
        self._batch = batch
        #: Held while the reranker scores: after a budget is used up it may still work on what it was asked.
        self._busy = threading.Lock()
        self._pause = Pause()

    def complete(
        self,
        pool: Pool,
        knobs: Knobs,
        cancel: CancelToken | None = None,
        on_scores: Callable[[Pool], None] | None = None,
    ) -> Pool:
        """The pool with the rerank scores that these knobs need, as far as they could be had; a note says
        what is missing. ``on_scores`` is called in this thread with the pool as it is before the first and
        after each batch. Blocks for the budget at most. Raises Cancelled."""
        wanted = to_rerank(pool, knobs)
        if not wanted:
            # Without a reranker other settings would get no scores either.
            nothing = knobs.rerank and self._reranker is None
            return replace(pool, rerank_missing=_NO_MODEL) if nothing else pool
        if self._reranker is None:
            return _completed(pool, dict.fromkeys(wanted, ""), {}, _NO_MODEL, 0.0)
        start = time.perf_counter()
        passages = {i: passage_of(pool.candidates[i].text, pool.query, pool.intent) for i in wanted}
        query = f"{pool.intent}\n\n{pool.query}" if pool.intent else pool.query
        model = f"{self._reranker.id}:{self._reranker.model}"
        keys = {text: (query, text_hash(text), model) for text in passages.values()}
        cached = ((text, self._cache.get(key)) for text, key in keys.items())
        known = {text: score for text, score in cached if score is not None}  # by text
        left = [text for text in keys if text not in known]

        def show(reason: str) -> Pool:
            scores = {i: known[text] for i, text in passages.items() if text in known}
            return replace(pool, rerank_scores={**pool.rerank_scores, **scores}, rerank_missing=reason)

        if on_scores is not None and left:
            on_scores(show(_PENDING))
        batches = self._scored(self._reranker, query, left, cancel)
        reason = ""
        for part in batches:
            if isinstance(part, str):
                reason = part
                break
            for text, score in zip(part.texts, part.scores, strict=True):
                known[text] = score
                self._cache.put(keys[text], score)
            if on_scores is not None:
                on_scores(show(_PENDING))
        return _completed(pool, passages, known, reason, (time.perf_counter() - start) * 1000)

    def _scored(
        self, reranker: Reranker, query: str, texts: Sequence[str], cancel: CancelToken | None
    ) -> Iterator[_Scored | str]:
        """The scores batch by batch, or at the end why the rest has none. Raises Cancelled."""
        if not texts:
            return
        if why_not := self._pause.why_not:
            yield why_not
            return
        deadline = Deadline(self._budget_s)
        token = LinkedToken(cancel, lambda: deadline.is_over)
        done: queue.SimpleQueue[_Scored | Exception] = queue.SimpleQueue()
        batches = [texts[at : at + self._batch] for at in range(0, len(texts), self._batch)]

        def work() -> None:
            try:
                while not self._busy.acquire(timeout=_LOOK_S):
                    if token.is_set():
                        return
                try:
                    for batch in batches:
                        if token.is_set():
                            return
                        done.put(_Scored(batch, reranker.scores(query, batch, token)))
                finally:
                    self._busy.release()
            except Exception as error:  # noqa: BLE001 - raised again in the calling thread
                done.put(error)

        # A thread of its own: a model that does not look at its token must not make the search wait for it.
        threading.Thread(target=work, name="rerank", daemon=True).start()
        try:
            for number in range(len(batches)):
                part = _next(done, token)
                if token.is_cancelled:
                    raise Cancelled(SEARCH_STOPPED)
                if part is None or isinstance(part, Cancelled):
                    spent = f"the time budget of {self._budget_s:g} s was used up"
                    if not number and reranker.id != "local":  # a local model may just be loaded
                        self._pause.after(spent)
                    yield spent
                    return
                if isinstance(part, ProviderError):
                    self._pause.after(part)
                    yield f"the reranker failed: {part}"
                    return
                if isinstance(part, Exception):
                    raise part
                if bad := _wrong(part):
                    yield bad
                    return
                yield part
        finally:
            token.set()


def _next(done: queue.SimpleQueue[_Scored | Exception], token: LinkedToken) -> _Scored | Exception | None:
    """What the worker sent next; None when the token was set before."""
    while True:
        try:
            return done.get(timeout=_LOOK_S)
        except queue.Empty:
            if token.is_set():
                return None


def _wrong(part: _Scored) -> str:
    """Why an answer of the reranker cannot be used; empty when it can."""
    if len(part.scores) != len(part.texts):
        return f"the reranker sent {len(part.scores)} scores for {len(part.texts)} texts"
    if not all(0.0 <= score <= 1.0 for score in part.scores):  # also of NaN
        return "the reranker sent a score that is not from 0 to 1"
    return ""


def _completed(
    pool: Pool, passages: Mapping[str, str], known: Mapping[str, float], reason: str, milliseconds: float
) -> Pool:
    scores = {i: known[text] for i, text in passages.items() if text in known}
    missing = len(passages) - len(scores)
    notes = pool.notes
    if missing:
        many = f"{missing} of {len(passages)} candidates {'is' if missing == 1 else 'are'} not"
        what = many if scores else "No candidate is"
        text = f"{what} reranked: {reason.rstrip('.')}."
        notes = (*notes, Note("not-reranked", text, "info" if reason == _NO_MODEL else "warning"))
    return replace(
        pool,
        rerank_scores={**pool.rerank_scores, **scores},
        rerank_missing=reason if missing else "",
        notes=notes,
        timings={**pool.timings, "rerank": milliseconds},
    )


def passage_of(text: str, query: str, intent: str = "") -> str:
    """The part of a text that is scored: all of it, or of more than 3,600 characters the piece with the most
    words of the query (see ``qmd.snippets.best_passage``)."""
    if len(text) <= PASSAGE_CHARS:
        return text
    from openclaw_mem_engine.qmd.snippets import best_passage

    return best_passage(text, query, intent).text
