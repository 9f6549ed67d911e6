"""What stands round another embedder and changes only a part of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from openclaw_mem_engine.cancellation import CancelToken
    from openclaw_mem_engine.model import Note, Progress
    from openclaw_mem_engine.providers.base import Embedder, Keep, Vector

_Inner = TypeVar("_Inner", bound="Embedder")


class Wrapped(Generic[_Inner]):
    """An embedder that is another one, ``inner``, in every respect; a subclass overrides what it changes."""

    def __init__(self, inner: _Inner) -> None:
        self._inner = inner

    @property
    def id(self) -> str:
        return self._inner.id

    @property
    def model(self) -> str:
        return self._inner.model

    @property
    def key(self) -> str:
        return self._inner.key

    @property
    def dims(self) -> int | None:
        return self._inner.dims

    @property
    def languages(self) -> str:
        return self._inner.languages

    @property
    def cheap_lines(self) -> bool:
        return self._inner.cheap_lines

    @property
    def place(self) -> str:
        return self._inner.place

    @property
    def max_input_bytes(self) -> int | None:
        return self._inner.max_input_bytes

    def why_not(self) -> str | None:
        return self._inner.why_not()

    def embed_query(self, text: str, cancel: CancelToken | None = None) -> Vector | None:
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
