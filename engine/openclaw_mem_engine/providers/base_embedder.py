"""What embedders have in common: batches over one method, and an embedder round another."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from openclaw_mem_engine.providers.base import BadAnswer, NotConfigured, Purpose, stop_if_cancelled

if TYPE_CHECKING:
    from openclaw_mem_engine.cancellation import CancelToken
    from openclaw_mem_engine.model import Note, Progress
    from openclaw_mem_engine.providers.base import Embedder, Floats, Keep, Lines, Vector

_Inner = TypeVar("_Inner", bound="Embedder")


class BaseEmbedder(ABC):
    """An embedder made of :meth:`embed_batch`; ``id``, ``model`` and ``key`` are the subclass's. A batch is
    full at ``batch_texts`` texts, or when it has reached ``batch_chars`` characters."""

    id: str
    model: str
    batch_texts: int = sys.maxsize
    batch_chars: int = 500_000
    dims: int | None = None
    languages: str = "any"
    no_vector: str = "its model returns a vector of zeros"
    simulated: str = ""
    floor: float | None = None
    max_input_bytes: int | None = None
    host: str = ""

    @abstractmethod
    def embed_batch(
        self, texts: Sequence[str], purpose: Purpose, cancel: CancelToken | None
    ) -> list[Vector | None]:
        """As ``embed_documents``, for one batch, which is never empty."""

    @property
    def awaited(self) -> tuple[str, str, str]:
        """The model in this process or a child; nothing is tried again."""
        return f"{self.id} {self.model}", "", ""

    @property
    def lines(self) -> Lines | None:
        """Too slow, as long as nothing else is known."""
        return None

    def why_not(self) -> str | None:
        """Nothing is known to be missing."""
        return None

    def embed_query(self, text: str, cancel: CancelToken | None = None) -> Floats | None:
        """The vector of a query, a batch of its own; None for blank text."""
        return self.embed_batch([text], "query", cancel)[0] if text.strip() else None

    def embed_documents(
        self,
        texts: Sequence[str],
        cancel: CancelToken | None = None,
        progress: Progress | None = None,
        keep: Keep | None = None,
    ) -> list[Vector | None]:
        """Batch by batch; ``cancel`` is checked before each, ``keep`` and ``progress`` called after it."""
        vectors: list[Vector | None] = []
        for batch in self._batches(texts):
            stop_if_cancelled(cancel)
            found = self.embed_batch(batch, "document", cancel)
            vectors += found
            if keep is not None:
                keep(range(len(vectors) - len(found), len(vectors)), found)
            if progress is not None:
                progress(len(vectors), len(texts), "Embedding")
        return vectors

    def take_notes(self) -> tuple[Note, ...]:
        """Nothing: every text is embedded as it is, or the call fails."""
        return ()

    def close(self) -> None:
        """Nothing to give back."""
        return

    def _batches(self, texts: Sequence[str]) -> Iterator[Sequence[str]]:
        start = chars = 0
        for end, text in enumerate(texts, start=1):
            chars += len(text)
            if chars >= self.batch_chars or end - start >= self.batch_texts:
                yield texts[start:end]
                start, chars = end, 0
        if start < len(texts):
            yield texts[start:]


class DelegatingEmbedder(Generic[_Inner]):
    """An embedder that is another one, ``inner``, in every respect; a subclass overrides what it changes."""

    def __init__(self, inner: _Inner) -> None:
        self._inner = inner
        self.id, self.model, self.host = inner.id, inner.model, inner.host
        self.languages, self.lines = inner.languages, inner.lines
        self.floor, self.no_vector = inner.floor, inner.no_vector
        self.simulated = inner.simulated

    @property
    def key(self) -> str:
        return self._inner.key

    @property
    def dims(self) -> int | None:
        return self._inner.dims

    @property
    def awaited(self) -> tuple[str, str, str]:
        return self._inner.awaited

    @property
    def max_input_bytes(self) -> int | None:
        return self._inner.max_input_bytes

    def why_not(self) -> str | None:
        return self._inner.why_not()

    def embed_query(self, text: str, cancel: CancelToken | None = None) -> Floats | None:
        return self._inner.embed_query(text, cancel)

    def embed_documents(
        self,
        texts: Sequence[str],
        cancel: CancelToken | None = None,
        progress: Progress | None = None,
        keep: Keep | None = None,
    ) -> list[Vector | None]:
        return self._inner.embed_documents(texts, cancel, progress, keep)

    def take_notes(self) -> tuple[Note, ...]:
        return self._inner.take_notes()

    def close(self) -> None:
        self._inner.close()


def last_answer(embedder: Embedder) -> str:
    """``: 127.0.0.1:8803 answered 500``, the end of a sentence about one whose last try failed; else ""."""
    host, got, _ = embedder.awaited
    return f": {host} {'gave ' * got.startswith('no ')}{got}" if got else ""


def has_words(text: str) -> bool:
    """Whether a model for all languages has a vector for this text."""
    return any(map(str.isalnum, text))


def zero_answer(embedder: Embedder) -> BadAnswer:
    """The error for a text in words that got a vector of zeros."""
    return BadAnswer(
        f"{embedder.id} {embedder.model} returns a vector of zeros, which cannot be compared. "
        f"Check the model behind this name.{embedder.simulated}"
    )


def other_dims(embedder: Embedder, sent: int, held: int) -> NotConfigured:
    """The error for vectors that cannot be compared with those of the index. It says nothing about the
    provider, which other indexes may use."""
    return NotConfigured(
        f"{embedder.id} {embedder.model} now sends vectors of {sent} dimensions, the index holds {held}: "
        "another model has this name now. "
        f"`openclaw-mem index --force` embeds everything again.{embedder.simulated}"
    )
