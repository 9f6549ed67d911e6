"""What every embedding provider offers, how one is asked for, and what a vector must look like.

Importing this module costs nothing: numpy is imported at the first vector, no network library at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, get_args

from openclaw_mem_engine.errors import Cancelled, ConfigError, ProviderError
from openclaw_mem_engine.model import Space

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from openclaw_mem_engine.cancellation import CancelToken
    from openclaw_mem_engine.model import Note, Progress

    #: float32, shape (dims,), length 1 in the Euclidean norm.
    Vector: TypeAlias = npt.NDArray[np.float32]

    #: Told what is finished as soon as it is: positions in the texts that were asked for, and their vectors.
    #: Called in the thread that asked.
    Keep: TypeAlias = Callable[[Sequence[int], Sequence[Vector | None]], None]

ProviderName = Literal["static", "openai", "gemini", "voyage", "mistral", "ollama", "local", "none"]

#: Seconds to wait for the embedding of one query, and for one batch of documents.
QUERY_TIMEOUT_S = 60.0
BATCH_TIMEOUT_S = 120.0


class BadAnswer(ProviderError):
    """A provider answered, but what it sent cannot be used as vectors."""


class RequestFailed(ProviderError):
    """A provider could not be reached or refused. ``status`` is the HTTP status, None without an answer;
    ``retry_after_s`` for how many seconds it asks to be left alone, None when it does not."""

    def __init__(
        self, message: str, *, status: int | None = None, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after_s = retry_after_s


class TextRefused(RequestFailed):
    """A provider does not take one text, though it was sent alone; it may well take others. ``place`` is the
    position of that text in the texts that were given, 0 for a query."""

    def __init__(
        self,
        message: str,
        *,
        place: int,
        status: int | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message, status=status, retry_after_s=retry_after_s)
        self.place = place


class NotConfigured(ProviderError):
    """A provider cannot be used as long as something is missing: a key, a model file, an extra. Waiting does
    not help, so nobody waits."""


class Unavailable(ProviderError):
    """A provider failed and is left alone for a while. ``since`` (of the first failure in a row) and
    ``next_retry`` are epoch seconds; both are None when only another configuration can help."""

    def __init__(self, message: str, *, since: float | None, next_retry: float | None) -> None:
        super().__init__(message)
        self.since = since
        self.next_retry = next_retry


@dataclass(frozen=True, slots=True)
class Usage:
    """What one or more requests have used. ``tokens`` are those that the provider counted, or, where
    ``estimated``, a quarter of the UTF-8 bytes that were sent."""

    provider: str
    model: str
    requests: int
    texts: int
    tokens: int
    estimated: bool = False


#: Where used tokens are written down; called once a request, from any thread.
Meter = Callable[[Usage], None]


class Embedder(Protocol):
    """Turns text into vectors. Safe to call from several threads."""

    @property
    def id(self) -> str:
        """Which provider this is: "static", "openai", "local"."""
        ...

    @property
    def model(self) -> str:
        """The model name as stored in an index."""
        ...

    @property
    def key(self) -> str:
        """SHA-256 hex over what determines the vector space; vectors of another key are never compared."""
        ...

    @property
    def dims(self) -> int | None:
        """Length of a vector; None as long as only the first answer can tell."""
        ...

    @property
    def languages(self) -> str:
        """For which languages the vectors mean something: "English", or "any" when the model decides."""
        ...

    @property
    def cheap_lines(self) -> bool:
        """True when thousands of single lines may be embedded while a query waits."""
        ...

    @property
    def place(self) -> str:
        """Where the text goes: a host name, or "" when it does not leave this machine's processes."""
        ...

    @property
    def max_input_bytes(self) -> int | None:
        """The longest text, in UTF-8 bytes, that is embedded whole; None when there is no such limit."""
        ...

    def why_not(self) -> str | None:
        """Why this embedder cannot be used as it is configured, found out without asking anybody and without
        loading anything; None when nothing is known to be missing."""
        ...

    def embed_query(self, text: str, cancel: CancelToken | None = None) -> Vector | None:
        """The vector of a query; None when this text has no embedding. Raises ProviderError (TextRefused when
        this text is the reason), Cancelled."""
        ...

    def embed_documents(
        self,
        texts: Sequence[str],
        cancel: CancelToken | None = None,
        progress: Progress | None = None,
        keep: Keep | None = None,
    ) -> list[Vector | None]:
        """One vector, or None for "no embedding", per text, in order.

        ``keep`` hears of every finished part, so that what was done is not lost when the rest fails or is
        cancelled. Raises ProviderError (TextRefused when one text is the reason) or Cancelled.
        """
        ...

    def take_notes(self) -> tuple[Note, ...]:
        """What must be told about the texts since the last call: cut ones, a batch job that is waited for."""
        ...

    def close(self) -> None:
        """Give back connections and processes. May be called twice; a later call opens them again."""
        ...


@dataclass(frozen=True, slots=True)
class Embedders:
    """Who makes vectors: the primary (None: keywords alone, by choice), who answers when it fails, and those
    whose vectors are kept beside the primary's to be compared."""

    primary: Embedder | None
    fallback: Embedder | None = None
    also: tuple[Embedder, ...] = ()

    def close(self) -> None:
        """Close all of them."""
        for embedder in (self.primary, self.fallback, *self.also):
            if embedder is not None:
                embedder.close()


def space_of(embedder: Embedder | None) -> Space:
    """The space of an embedder's vectors; that of nobody is called none."""
    return Space(embedder.id, embedder.model, embedder.key) if embedder else Space("none", "", "")


@dataclass(frozen=True, slots=True)
class EmbedderSpec:
    """Which embedder to make. Key, headers and address (which may hold a password) stay out of ``repr``, so
    that a logged spec leaks nothing.

    Empty ``model`` and ``base_url`` mean the provider's default. ``key_missing`` says why there is no key,
    for the error at the first text. Timeouts are in seconds; ``concurrency`` is the number of requests in
    flight. For ``local``, ``model`` is a path or ``hf:`` URI, downloads lie in ``model_folder``, and the
    model leaves memory after ``idle_s`` seconds without a text.
    Raises ConfigError for an unknown provider or a timeout that is not above 0.
    """

    provider: ProviderName = "static"
    model: str = ""
    base_url: str = field(default="", repr=False)
    api_key: str = field(default="", repr=False)
    key_missing: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_s: float = QUERY_TIMEOUT_S
    batch_timeout_s: float = BATCH_TIMEOUT_S
    concurrency: int = 4
    model_folder: Path | None = None
    idle_s: float = 300.0

    def __post_init__(self) -> None:
        known = get_args(ProviderName)
        if self.provider not in known:
            raise ConfigError(
                f"Unknown embedding provider {self.provider!r}; use one of: {', '.join(known)}."
            )
        for name, value in (("timeout_s", self.timeout_s), ("batch_timeout_s", self.batch_timeout_s)):
            if not (math.isfinite(value) and value > 0):
                raise ConfigError(f"Embedding {name} is {value!r}; it must be a number of seconds above 0.")


def check_vectors(
    rows: Sequence[object], *, expected: int, dims: int | None, provider: str
) -> list[Vector | None]:
    """Unit float32 vectors made from what a provider sent, in the same order.

    ``rows``: one list of numbers (or array) per text; ``expected``: how many texts were sent; ``dims``: the
    length that an index already holds, or None when the first row decides; ``provider``: named in errors.
    A row of zeros becomes None: it says nothing, and a cosine with it does not exist.
    Raises BadAnswer for a wrong count, a wrong or empty length, a value that is no number or not finite.
    """
    import numpy as np

    if len(rows) != expected:
        raise BadAnswer(
            f"{provider} sent {len(rows)} embeddings for {expected} texts; nothing of this answer was kept. "
            "Check that the endpoint takes a list as input, or lower the batch size."
        )
    vectors: list[Vector | None] = []
    for number, row in enumerate(rows, start=1):
        try:
            values = np.asarray(row)
        except ValueError:  # nested lists of unequal length
            values = np.asarray(None)
        if values.ndim != 1 or values.dtype.kind not in "fiu":
            raise BadAnswer(
                f"{provider}: embedding {number} of {expected} is not a list of numbers. "
                "Check that the model is an embedding model."
            )
        if dims is None:
            dims = int(values.size)
        if values.size != dims or dims == 0:
            raise BadAnswer(
                f"{provider}: embedding {number} of {expected} has {values.size} dimensions "
                f"instead of {dims}. If the model behind this name changed, rebuild the index."
            )
        wide = values.astype(np.float64)
        peak = float(np.abs(wide).max())
        if not math.isfinite(peak):
            raise BadAnswer(
                f"{provider}: embedding {number} of {expected} holds a value that is not finite "
                "(NaN or infinity). Nothing of this answer was kept; try again or use another model."
            )
        if peak == 0.0:
            vectors.append(None)
            continue
        wide /= peak  # squares of very large or very small values would leave the range of float64
        vectors.append((wide / math.sqrt(float(wide @ wide))).astype(np.float32))
    return vectors


def stop_if_cancelled(cancel: CancelToken | None) -> None:
    """Raises Cancelled when the caller no longer wants the answer."""
    if cancel is not None and cancel.is_set():
        raise Cancelled("Embedding was stopped on request; what was finished before is kept.")
