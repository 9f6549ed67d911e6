"""A chat model in a GGUF file on this machine, whose answers may be held to a grammar."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Unpack

from openclaw_mem_engine.providers.local.shared_model import LocalService, ModelOptions, bounded

if TYPE_CHECKING:
    from openclaw_mem_engine.cancellation import CancelToken
    from openclaw_mem_engine.providers.base import Message
    from openclaw_mem_engine.providers.local import Frame
    from openclaw_mem_engine.providers.local.process import ModelProcess

#: As QMD asks its models for text.
_TEMPERATURE, _TOP_K, _TOP_P, _PRESENCE = 0.7, 20, 0.8, 0.5
_MESSAGE_BYTES = 32_768


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
