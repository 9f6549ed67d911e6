"""Chat models behind an OpenAI-compatible interface (``POST {base}/chat/completions``)."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from openclaw_mem_engine.providers.base import BadAnswer
from openclaw_mem_engine.providers.remote.hosts import check_sendable
from openclaw_mem_engine.providers.remote.retry import RetryPolicy
from openclaw_mem_engine.providers.remote.transport import Transport
from openclaw_mem_engine.providers.remote.wires import OPENAI, field_of, parsed

if TYPE_CHECKING:
    from openai import OpenAI

    from openclaw_mem_engine.cancellation import CancelToken
    from openclaw_mem_engine.providers.base import Message
    from openclaw_mem_engine.providers.remote.openai_client import RawAnswer

#: Seconds for one answer, all tries together.
CHAT_TIMEOUT_S = 120.0
_POLICY = RetryPolicy(max_retries=2, max_hint_s=8.0)


class OpenAIChat:
    """A :class:`~openclaw_mem_engine.providers.base.Chat` of any OpenAI-compatible service.

    ``base_url`` defaults to OpenAI's own. An empty ``api_key`` sends none; ``headers`` go with every request.
    ``timeout_s`` holds for one answer, all tries together. Raises ConfigError for a base URL, key or header
    that cannot be sent.
    """

    id = "openai"

    def __init__(
        self,
        model: str,
        *,
        base_url: str = "",
        api_key: str = "",
        headers: Mapping[str, str] | None = None,
        timeout_s: float = CHAT_TIMEOUT_S,
    ) -> None:
        self.model = model
        api_key, own = api_key.strip(), dict(headers or {})
        check_sendable(self.id, api_key, own)
        sent = own
        if api_key and not any(name.lower() == "authorization" for name in own):
            sent = {"Authorization": OPENAI.key_value(api_key), **own}
        self._transport = Transport(
            self.id, OPENAI.base_url(base_url), sent, secrets=(api_key,), advice=OPENAI.advice
        )
        self._timeout_s = timeout_s

    def __repr__(self) -> str:
        return f"OpenAIChat(host={self._transport.host!r}, model={self.model!r})"

    @property
    def host(self) -> str:
        """The host that text is sent to; "" for a server on this machine."""
        return "" if self._transport.is_loopback else self._transport.host

    def complete(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int | None = None,
        temperature: float | None = None,
        cancel: CancelToken | None = None,
    ) -> str:
        """As the protocol says. Raises BadAnswer for JSON without an answer."""
        from openclaw_mem_engine.providers.remote import openai_client

        limits = {"max_tokens": max_tokens, "temperature": temperature}
        given = {name: value for name, value in limits.items() if value is not None}
        deadline = time.monotonic() + self._timeout_s

        def request(client: OpenAI) -> RawAnswer:
            return client.chat.completions.with_raw_response.create(
                model=self.model,
                messages=[{"role": message.role, "content": message.text} for message in messages],  # type: ignore[misc]
                extra_body=given,
            )

        def send(method: str, path: str, *, content: bytes | None, headers: Mapping[str, str]) -> bytes:
            return self._transport.request(
                method,
                path,
                content=content,
                headers=headers,
                what="chat",
                timeout_s=self._timeout_s,
                policy=_POLICY,
                deadline=deadline,
                cancel=cancel,
            ).body

        label = f"{self.id} chat at {self._transport.host}"
        choices = field_of(parsed(openai_client.ask(send, request), label), "choices")
        message = field_of(choices[0], "message") if isinstance(choices, list) and choices else None
        answer = message.get("content") or "" if isinstance(message, dict) else None
        if not isinstance(answer, str):
            raise BadAnswer(
                f"{label} sent JSON without an answer. Check that the base URL is that of a chat API and "
                "the model a chat model."
            )
        return answer

    def close(self) -> None:
        """Closes the connections; the next call opens new ones."""
        self._transport.close()
