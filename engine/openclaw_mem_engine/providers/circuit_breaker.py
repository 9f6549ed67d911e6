"""The circuit breaker: after a failure of a provider, searches use the fallback at once instead of waiting.

While the circuit is open, queries are refused without being sent: for 5 seconds at first, and twice as long
after each further failure, up to 5 minutes. Then one query is sent, and a success closes the circuit. The
state is stored in ``ProviderRecords``, so it holds for the next run of the program, too.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_engine.errors import ProviderError
from openclaw_mem_engine.providers.base import (
    LONGEST_HINT_S,
    NotConfigured,
    ProcessEnded,
    RequestFailed,
    Unavailable,
)
from openclaw_mem_engine.providers.base_embedder import (
    DelegatingEmbedder,
    has_words,
    last_answer,
    other_dims,
    zero_answer,
)
from openclaw_mem_engine.providers.records import REASON_CHARS, Health, ProviderRecords, key_tag

if TYPE_CHECKING:
    from openclaw_mem_engine.cancellation import CancelToken
    from openclaw_mem_engine.model import Progress
    from openclaw_mem_engine.providers.base import Embedder, Floats, Keep, Vector

#: Seconds that the circuit is open after the first failure; doubles with each further one.
FIRST_WAIT_S = 5.0
LONGEST_WAIT_S = 300.0
JITTER = 0.2
#: Seconds between two questions to a provider whose vectors have another length than those of the index.
REMEMBER_OK_S = 60.0

#: Refusals of what was sent: a text that is too long says nothing about others.
_ABOUT_THE_TEXTS = frozenset({400, 413, 422})
#: What ``probe`` embeds: a word that every model knows.
_PROBE_TEXT = "memory"


class GuardedEmbedder(DelegatingEmbedder["Embedder"]):
    """Another embedder with a circuit breaker. Safe to call from several threads.

    ``secret`` is the API key that is used, with what else is sent as one: what was stored for another key
    does not count. ``random`` gives numbers in [0, 1); None: Python's. The clock is that of ``records``.
    """

    def __init__(
        self,
        inner: Embedder,
        records: ProviderRecords,
        *,
        secret: str = "",
        random: Callable[[], float] | None = None,
    ) -> None:
        super().__init__(inner)
        self._records = records
        self._secret = secret
        self._random = random
        self._lock = threading.Lock()
        self._trying = False  # one thread sends a query to a provider that failed
        self._changes = 0  # counts failures and recoveries seen by this object

    @property
    def health(self) -> Health:
        """What is known about this provider with this API key."""
        with self._lock:
            return self._recorded()

    @property
    def trouble(self) -> Unavailable | None:
        """Why it does not answer, as far as that is known without a request."""
        missing, health = self.why_not(), self.health
        if missing is not None:
            return Unavailable(missing, since=None, next_retry=None)
        if not health.failures:
            return None
        return Unavailable(health.reason, since=health.failing_since, next_retry=health.next_retry)

    @property
    def dims(self) -> int | None:
        """The length of the last vector that came, in this run or before."""
        return self.health.dims or self._inner.dims

    def misfit(self, held: int | None) -> NotConfigured | None:
        """Why its vectors cannot be compared with those of an index, which have the length ``held``, as far
        as that is known without a request. Other indexes may use it."""
        sent = self.dims
        return other_dims(self, sent, held) if sent and held and sent != held else None

    def is_slower(self, seconds: float) -> bool:
        """Whether the last query that it answered took longer than this."""
        known = self.health.last_ms
        return known is not None and known > seconds * 1000

    def embed_query(self, text: str, cancel: CancelToken | None = None) -> Floats | None:
        """As the provider does; raises Unavailable for every failure of the provider, and at once while the
        circuit is open. A refusal of this text and the end of a child process are raised as they are, and
        the next query is sent."""
        first = self._admitted()
        try:
            return self._query(text, cancel)[0]
        except Unavailable:
            raise
        except NotConfigured as error:
            # It is not known since when, and waiting does not help.
            raise Unavailable(str(error), since=None, next_retry=None) from error
        except ProviderError as error:
            if isinstance(error, ProcessEnded) or _is_about_the_text(error):
                raise
            raise _unavailable(self.health, self._records.now()) from error
        finally:
            if first:
                with self._lock:
                    self._trying = False

    def embed_for(self, held: int | None, text: str, cancel: CancelToken | None = None) -> Floats | None:
        """``embed_query`` for an index with vectors of the length ``held`` (None: of any). Raises
        NotConfigured for a vector of another length."""
        misfit = self.misfit(held)
        if misfit is None or not self._is_recent(self.health):
            vector = self.embed_query(text, cancel)
            if vector is None or held in (None, len(vector)):
                return vector
            misfit = other_dims(self, len(vector), held or 0)
        raise misfit

    def embed_documents(
        self,
        texts: Sequence[str],
        cancel: CancelToken | None = None,
        progress: Progress | None = None,
        keep: Keep | None = None,
    ) -> list[Vector | None]:
        """As the provider does, and with its errors. Sent even while the circuit is open: embedding documents
        is an explicit order, and retries are the provider's own."""
        seen = self._changes

        def kept(indexes: Sequence[int], vectors: Sequence[Vector | None]) -> None:
            self._remember_dims(vectors)  # first: the index may refuse them
            if keep is not None:
                keep(indexes, vectors)

        try:
            vectors = self._inner.embed_documents(texts, cancel, progress, kept)
        except ProviderError as error:
            if not _is_about_the_text(error):
                self._failed(error, seen)
            raise
        # No vector at all means that nothing was sent, as for blank texts: that proves nothing.
        if any(vector is not None for vector in vectors):
            self._succeeded(None)
        return vectors

    def probe(self) -> float:
        """Send one query now, even while the circuit is open. Returns milliseconds; raises ProviderError as
        the provider does. Its text is a word that every model knows, so even a refusal of it is a failure of
        the provider."""
        return self._query(_PROBE_TEXT, every_error=True)[1]

    def warm_up(self) -> None:
        """Load the model of a provider that runs in this program; nothing is sent to a server, not even to
        one on this machine."""
        if self.id in ("static", "local"):
            self._inner.embed_query(_PROBE_TEXT)

    def no_answer(self, seconds: float) -> None:
        """Store that the provider did not answer for so long, after which the caller stopped waiting. Of one
        that is failing already the query that follows, which waits longer, decides."""
        if self.health.failures:
            return
        said = last_answer(self) or f": no answer from {self.awaited[0]}"
        text = f"{self.id} gave no embedding within {seconds:.2g} s{said}. "
        text += "`openclaw-mem providers --probe` waits longer for it."
        self._failed(RequestFailed(text), self._changes)

    def _admitted(self) -> bool:
        """Whether this is the one query that is sent to a provider that failed. Raises Unavailable."""
        with self._lock:
            health, now = self._recorded(), self._records.now()
            if not health.failures:
                return False
            if self._trying or _is_open(health, now):
                raise _unavailable(health, now)
            self._trying = True
            return True

    def _query(
        self, text: str, cancel: CancelToken | None = None, *, every_error: bool = False
    ) -> tuple[Floats | None, float]:
        """Send a query and store how it went, a refusal of the text only with ``every_error``. Returns the
        vector and milliseconds."""
        seen, start = self._changes, time.perf_counter()
        try:
            vector = self._inner.embed_query(text, cancel)
            if vector is None and self.languages == "any" and has_words(text):
                raise zero_answer(self)
        except ProviderError as error:
            if every_error or not _is_about_the_text(error):
                self._failed(error, seen)
            raise
        ms = (time.perf_counter() - start) * 1000
        if vector is not None:
            self._succeeded(ms, len(vector))
        return vector, ms

    def _recorded(self) -> Health:
        health = self._records.health(self.key)
        tag = key_tag(self._secret, like=health.key_tag)
        return health if health.key_tag == tag else Health(key_tag=key_tag(self._secret))

    def _failed(self, error: ProviderError, seen: int) -> None:
        """Store a failure. ``seen``: the number of changes when the request was sent."""
        if isinstance(error, (NotConfigured, ProcessEnded, Unavailable)):
            return
        with self._lock:
            health, now = self._recorded(), self._records.now()
            # Ten queries that were in flight when the provider went down are one failure, not ten.
            if seen != self._changes and health.failures and _is_open(health, now):
                return
            failures = health.failures + 1
            backoff = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2 ** min(failures - 1, 16))
            from random import random  # rarely needed, and costly to load

            wait = max(backoff * (1 + JITTER * (self._random or random)()), _hint_s(error))
            since, reason = health.failing_since, str(error)
            health = replace(
                health,
                failing_since=now if since is None or since > now else since,
                reason=reason if len(reason) <= REASON_CHARS else f"{reason[: REASON_CHARS - 1]}…",
                failures=failures,
                next_retry=now + wait,
            )
            self._changes += 1
            self._records.save_health(self.key, health)

    def _remember_dims(self, vectors: Sequence[Floats | None]) -> None:
        dims = next((len(vector) for vector in vectors if vector is not None), None)
        with self._lock:
            health = self._recorded()
            if dims not in (None, health.dims):
                self._records.save_health(self.key, replace(health, dims=dims))

    def _is_recent(self, health: Health) -> bool:
        """Whether the last good answer was stored a short time ago."""
        return health.last_ok is not None and 0 <= self._records.now() - health.last_ok < REMEMBER_OK_S

    def _succeeded(self, ms: float | None, dims: int | None = None) -> None:
        """Store a good answer: the first in each minute of the clock, which is what is shown, and one that
        changes something. ``ms`` is None where the time says nothing about that of a query, ``dims`` where
        the length of its vectors is remembered already."""
        with self._lock:
            health, now = self._recorded(), self._records.now()
            dims = dims or health.dims
            known = dims == health.dims and (health.last_ms is not None or ms is None)
            is_new = health.last_ok is None or now // 60 != health.last_ok // 60
            if not is_new and known and not health.failures:
                return
            if health.failures:
                self._changes += 1
            ms = health.last_ms if ms is None else ms
            fresh = Health(last_ok=now, last_ms=ms, key_tag=health.key_tag, dims=dims)
            self._records.save_health(self.key, fresh)


@dataclass(frozen=True, slots=True)
class Embedders:
    """The embedders in use: the primary (None: BM25 only, by choice), the fallback for when it fails, and
    those whose vectors are stored as well, to be compared with the primary's."""

    primary: GuardedEmbedder | None
    fallback: GuardedEmbedder | None = None
    also: tuple[GuardedEmbedder, ...] = ()

    def close(self) -> None:
        for embedder in (self.primary, self.fallback, *self.also):
            if embedder is not None:
                embedder.close()


def _is_about_the_text(error: ProviderError) -> bool:
    return isinstance(error, RequestFailed) and error.status in _ABOUT_THE_TEXTS


def _is_open(health: Health, now: float) -> bool:
    return health.next_retry is not None and now < health.next_retry <= now + LONGEST_HINT_S


def _unavailable(health: Health, now: float) -> Unavailable:
    """The error for a query that is not sent. Once the time is over and another thread sends one, the next
    retry is now."""
    since = now if health.failing_since is None else health.failing_since
    return Unavailable(
        health.reason, since=since, next_retry=health.next_retry if _is_open(health, now) else now
    )


def _hint_s(error: ProviderError) -> float:
    """Seconds that the server asks to wait; 0 when it does not."""
    hint = error.retry_after_s if isinstance(error, RequestFailed) else None
    return 0.0 if hint is None or not math.isfinite(hint) else min(max(0.0, hint), LONGEST_HINT_S)
