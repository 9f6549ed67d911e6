"""The contracts of providers: embedders, chat models and rerankers; their errors; what a vector must be."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar

from openclaw_mem_engine.cancellation import Deadline
from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_engine.errors import Cancelled, ProviderError
from openclaw_mem_engine.model import Space
from openclaw_mem_engine.sanitize import counted

if TYPE_CHECKING:
    from array import array

    import numpy as np
    import numpy.typing as npt

    from openclaw_mem_engine.cancellation import CancelToken
    from openclaw_mem_engine.model import Note, Progress

    #: float32, shape (dims,), length 1 in the Euclidean norm.
    Vector: TypeAlias = npt.NDArray[np.float32]
    #: The same, of a query, which need not load NumPy: that reads an array in place.
    Floats: TypeAlias = array[float] | Vector

    #: Called with every finished part: positions in the texts of the call, and their vectors. Runs in the
    #: calling thread.
    Keep: TypeAlias = Callable[[Sequence[int], Sequence[Vector | None]], None]

F = TypeVar("F", bound="np.floating[Any]")
#: The longest wait that a server may ask for, in seconds. A retry that is further away was stored before the
#: clock of this machine was changed, and does not count.
LONGEST_HINT_S = 600.0
#: What a text is embedded for; some models make other vectors for queries than for documents.
Purpose = Literal["query", "document"]


class BadAnswer(ProviderError):
    """A provider answered, but what it sent cannot be used as vectors."""


class RequestFailed(ProviderError):
    """A provider could not be reached or refused. ``status`` is the HTTP status, None without an answer;
    ``retry_after_s`` the seconds that it asks to wait, None when it does not."""

    def __init__(
        self, message: str, *, status: int | None = None, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.retry_after_s = status, retry_after_s


class ProcessEnded(RequestFailed):
    """The child process of a provider could not be started or ended. This says nothing about the children of
    other processes, so it does not open the circuit; the next text starts a new child."""


class TextRefused(RequestFailed):
    """A provider does not take one text, though it was sent alone; it may take others. ``position`` is the
    index of that text in the texts of the call, 0 for a query."""

    def __init__(
        self, message: str, *, position: int, status: int | None = None, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message, status=status, retry_after_s=retry_after_s)
        self.position = position


class NotConfigured(ProviderError):
    """A provider cannot be used as long as something is missing, a key, a model file, an extra, or as its
    vectors do not fit those of an index. Waiting does not help, so there is no retry."""


#: How long a service is not asked after a failure, seconds.
PAUSE_S = 60.0


class Pause:
    """The time after a failure of a service in which it is not asked again, so that not every search waits
    for one that hangs. Held in this process alone; what is not configured is asked, as that takes no time."""

    def __init__(self) -> None:
        self._until = Deadline(0)
        self._reason = ""

    def after(self, failure: ProviderError | str) -> None:
        """The service failed now."""
        if not isinstance(failure, NotConfigured):
            self._until, self._reason = Deadline(PAUSE_S), str(failure).partition(". ")[0].rstrip(".")

    @property
    def why_not(self) -> str:
        """Why the service is not asked now, and for how long; "" when it is."""
        left_s = math.ceil(self._until.left_s)
        return f"{self._reason}; retry in {left_s} s" if left_s else ""


class Unavailable(ProviderError):
    """A provider failed and its circuit is open. ``since`` (of the first failure in a row) and
    ``next_retry`` are epoch seconds; both are None when only another configuration can help."""

    def __init__(self, message: str, *, since: float | None, next_retry: float | None) -> None:
        super().__init__(message)
        self.since, self.next_retry = since, next_retry


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


#: Stores used tokens; called once a request, from any thread.
Meter = Callable[[Usage], None]


class Service(Protocol):
    """What embedders, chat models and rerankers have in common. Safe to call from several threads."""

    @property
    def id(self) -> str:
        """Which provider this is: "static", "openai", "local"."""

    @property
    def model(self) -> str:
        """The name of the model; vectors and scores of another one are never compared."""

    @property
    def host(self) -> str:
        """The host that text is sent to; "" when it does not leave this machine."""

    def close(self) -> None:
        """Give back connections and processes. May be called twice; a later call opens them again."""


class Lines(Protocol):
    """Compares the lines of texts with a query, at a cost of microseconds a line. Packed lines of a text are
    what that needs of it: bytes that may be kept as long as the ``key`` of the embedder is the same."""

    def pack(self, texts: Sequence[str]) -> list[bytes]:
        """Packed lines of texts, in order. Raises ProviderError."""

    def cosines(self, packed: Sequence[bytes], vector: Floats) -> list[tuple[float | None, ...]]:
        """The cosine of every line of each text with a query's vector; None for a line without a vector.
        ``packed`` are bytes that ``pack`` gave, unaltered. Raises ProviderError."""


class Embedder(Service, Protocol):
    """Turns text into vectors."""

    @property
    def key(self) -> str:
        """SHA-256 hex over what determines the vector space; vectors of another key are never compared."""

    @property
    def dims(self) -> int | None:
        """Length of a vector; None as long as only the first answer can tell."""

    @property
    def languages(self) -> str:
        """For which languages the vectors mean something: "English", or "any" when the model decides."""

    @property
    def no_vector(self) -> str:
        """Why a text has no embedding, as the end of a sentence."""

    @property
    def simulated(self) -> str:
        """What its errors end with: that they are simulated; "" for real ones."""

    @property
    def floor(self) -> float | None:
        """The cosine below which a text has nothing to do with a query; None where it was not measured."""

    @property
    def awaited(self) -> tuple[str, str, str]:
        """What is waited for: host with port, or provider and model; its last failure; the next try."""

    @property
    def lines(self) -> Lines | None:
        """Compares single lines with a query; None where that, as any embedding, takes too long for one."""

    @property
    def max_input_bytes(self) -> int | None:
        """The longest text, in UTF-8 bytes, that is embedded whole; None when there is no such limit."""

    def why_not(self) -> str | None:
        """Why it cannot be used as it is configured; None: nothing known. Sends nothing and loads nothing."""

    def embed_query(self, text: str, cancel: CancelToken | None = None) -> Floats | None:
        """The vector of a query; None when this text has no embedding. Blocks for the timeout of a query at
        most. Raises ProviderError (TextRefused when this text is the reason), Cancelled."""

    def embed_documents(
        self,
        texts: Sequence[str],
        cancel: CancelToken | None = None,
        progress: Progress | None = None,
        keep: Keep | None = None,
    ) -> list[Vector | None]:
        """One vector, or None for "no embedding", per text, in order.

        ``keep`` is called with every finished part, so that it is not lost when the rest fails or is
        cancelled; ``progress`` after it, with texts done, all texts, and a label. May block for minutes;
        ``cancel`` is honoured within a fraction of a second. Raises ProviderError (TextRefused when one text
        is the reason) or Cancelled.
        """

    def take_notes(self) -> tuple[Note, ...]:
        """Notes for people about the texts since the last call: cut ones, an unfinished batch job."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a chat."""

    role: Literal["system", "user", "assistant"]
    text: str


class Chat(Service, Protocol):
    """A chat model."""

    def complete(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int | None = None,
        temperature: float | None = None,
        cancel: CancelToken | None = None,
    ) -> str:
        """The model's answer to ``messages``, which are not empty; "" when it answers nothing.

        ``max_tokens`` (above 0) cuts the answer, ``temperature`` is from 0.0 to 2.0; None leaves both to the
        model. Blocks until the whole answer is there, at most for the timeout of the provider. Raises
        ProviderError, Cancelled.
        """


class Reranker(Service, Protocol):
    """Scores passages by how well they answer a query."""

    def scores(self, query: str, texts: Sequence[str], cancel: CancelToken | None = None) -> list[float]:
        """One score from 0.0 (irrelevant) to 1.0 per text, in order; [] for no texts.

        Blocks until all are scored. Raises ProviderError, Cancelled.
        """


def space_of(embedder: Embedder | None) -> Space:
    """The space of an embedder's vectors; "none" without an embedder."""
    return Space(embedder.id, embedder.model, embedder.key) if embedder else Space("none", "", "")


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
            f"{provider} sent {counted(len(rows), 'embedding')} for {counted(expected, 'text')}; nothing of "
            "this answer was kept. Check that the endpoint takes a list as input, or lower the batch size."
        )
    vectors: list[Vector | None] = []
    for number, row in enumerate(rows, start=1):
        which = f"{provider}: embedding {number} of {expected}"
        try:
            values = np.asarray(row)
        except ValueError:  # nested lists of unequal length
            values = np.asarray(None)
        if values.ndim != 1 or values.dtype.kind not in "fiu":
            raise BadAnswer(f"{which} is not a list of numbers. Check that the model is an embedding model.")
        if values.size == 0:
            raise BadAnswer(f"{which} is empty. Check that the model is an embedding model.")
        dims = values.size if dims is None else dims
        if values.size != dims:
            raise BadAnswer(
                f"{which} has {values.size} dimensions instead of {dims}. If the model behind this name "
                "changed, rebuild the index."
            )
        wide = values.astype(np.float64)
        peak = float(np.abs(wide).max())
        if not math.isfinite(peak):
            raise BadAnswer(
                f"{which} holds a value that is not finite (NaN or infinity). Nothing of this answer was "
                "kept; try again or use another model."
            )
        if peak == 0.0:
            vectors.append(None)
            continue
        wide /= peak  # squares of very large or very small values would leave the range of float64
        vectors.append((wide / math.sqrt(float(wide @ wide))).astype(np.float32))
    return vectors


def products(matrix: npt.NDArray[F], vector: npt.NDArray[F] | Floats) -> npt.NDArray[F]:
    """Each row of ``matrix`` times ``vector``. Not ``matrix @ vector``: OpenBLAS takes twice as long for this
    shape, wakes threads that then spin, and rounds a row by how many there are. One dot product a row reads
    memory as fast as it can be read; einsum (NumPy 1 has no vecdot) takes a quarter more."""
    import numpy as np

    vecdot = getattr(np, "vecdot", None)
    found: npt.NDArray[F] = vecdot(matrix, vector) if vecdot else np.einsum("ij,j->i", matrix, vector)
    return found


_STOPPED = "Embedding was stopped; finished work is kept."


def stop_if_cancelled(cancel: CancelToken | None, message: str = _STOPPED) -> None:
    """Raises Cancelled when the caller no longer wants the answer."""
    if cancel is not None and cancel.is_set():
        raise Cancelled(message)
