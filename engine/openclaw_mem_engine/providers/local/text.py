"""Rerankers and chat models in GGUF files on this machine."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Unpack

from openclaw_mem_engine.providers.base import BadAnswer
from openclaw_mem_engine.providers.local.model_file import RERANK_MODEL
from openclaw_mem_engine.providers.local.shared_model import LocalService, ModelOptions, bounded

if TYPE_CHECKING:
    from openclaw_mem_engine.cancellation import CancelToken
    from openclaw_mem_engine.providers.base import Message
    from openclaw_mem_engine.providers.local import Frame
    from openclaw_mem_engine.providers.local.process import ModelProcess

#: Texts of one request, and the longest query and text in UTF-8 bytes; the window of the model cuts again.
_TEXTS = 8
_QUERY_BYTES, _TEXT_BYTES = 8_192, 16_384
#: As QMD asks its models for text.
_TEMPERATURE, _TOP_K, _TOP_P, _PRESENCE = 0.7, 20, 0.8, 0.5
_MESSAGE_BYTES = 32_768


class LocalReranker(LocalService):
    """A ``Reranker`` of one model file (options as of ``SharedModel``). What does not fit into the window
    of the model is cut: the query at half of it, then the end of a text. ``timeout_s`` is for eight texts."""

    def __init__(self, model: str = "", *, timeout_s: float = 120.0, **options: Unpack[ModelOptions]) -> None:
        super().__init__(model or RERANK_MODEL, "rank", **options)
        self._timeout_s = timeout_s

    def scores(self, query: str, texts: Sequence[str], cancel: CancelToken | None = None) -> list[float]:
        """As the protocol says. Raises BadAnswer for a score that is no number: the file may be damaged."""
        asked = bounded(query, _QUERY_BYTES)
        found: list[float] = []
        for at in range(0, len(texts), _TEXTS):
            found += self._some(
                asked, [bounded(text, _TEXT_BYTES) for text in texts[at : at + _TEXTS]], cancel
            )
        return found

    def _some(self, query: str, texts: Sequence[str], cancel: CancelToken | None) -> list[float]:
        def read(frame: Frame) -> list[float]:
            scores = array("f", frame.payload).tolist()
            if frame.header["op"] != "scored" or len(scores) != len(texts):
                raise ValueError
            if not all(map(math.isfinite, scores)):
                raise BadAnswer(
                    f"The local model {self.model} gave a score that is not a number. The file "
                    f"{self._shared.file.path} may be damaged: fetch it again."
                )
            return scores

        def ask(process: ModelProcess, deadline: float) -> list[float]:
            header = {"op": "score", "query": query, "texts": texts}
            return process.request(header, "scoring", read, deadline=deadline, cancel=cancel)

        return self._shared.run(ask, takes_s=self._timeout_s, cancel=cancel)


class LocalChat(LocalService):
    """A ``Chat`` of one model file (options as of ``SharedModel``). ``grammar`` is GBNF, "" for any text.
    The same messages get the same answer. ``timeout_s`` holds for one answer, with the wait for others."""

    def __init__(
        self, model: str, *, grammar: str = "", timeout_s: float = 120.0, **options: Unpack[ModelOptions]
    ) -> None:
        super().__init__(model, "chat", **options)
        self._grammar = grammar
        self._timeout_s = timeout_s

    def complete(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int | None = None,
        temperature: float | None = None,
        cancel: CancelToken | None = None,
    ) -> str:
        """As the protocol says. Raises RequestFailed for an invalid grammar and for messages that are longer
        than the window of the model."""
        warmth = _TEMPERATURE if temperature is None else temperature
        header = {
            "op": "write",
            "messages": [(one.role, bounded(one.text, _MESSAGE_BYTES)) for one in messages],
            "most": max_tokens,
            "sampling": (warmth, _TOP_K, _TOP_P, _PRESENCE),
            "grammar": self._grammar,
        }

        def read(frame: Frame) -> str:
            if not isinstance(text := frame.header["text"], str):
                raise TypeError
            return text

        def ask(process: ModelProcess, deadline: float) -> str:
            return process.request(header, "writing", read, deadline=deadline, cancel=cancel)

        return self._shared.run(ask, takes_s=self._timeout_s, waits_s=self._timeout_s, cancel=cancel)
