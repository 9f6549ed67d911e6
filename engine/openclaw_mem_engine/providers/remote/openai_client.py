"""The ``openai`` package over our transport: it builds requests, and the transport does everything else; and
chat models behind an OpenAI-compatible interface (``POST {base}/chat/completions``).

The package never gets the API key, and does not retry. Importing it takes about a second of CPU, so that is
done at the first request that needs it; plain embeddings never do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from openclaw_mem_engine.errors import OpenClawMemError
from openclaw_mem_engine.providers.base import BadAnswer, NotConfigured, Usage
from openclaw_mem_engine.providers.prices import estimated_tokens
from openclaw_mem_engine.providers.remote.limits import sendable
from openclaw_mem_engine.providers.remote.transport import RetryPolicy, Transport
from openclaw_mem_engine.providers.remote.wires import OPENAI, count_of, field_of, parsed

if TYPE_CHECKING:
    from openai import OpenAI

    from openclaw_mem_engine.cancellation import CancelToken
    from openclaw_mem_engine.providers.base import Message, Meter

#: Seconds for one answer, all tries together.
CHAT_TIMEOUT_S = 120.0
_POLICY = RetryPolicy(max_retries=2, max_hint_s=8.0)


def ask(transport: Transport, request: Callable[[OpenAI], Any], **options: Any) -> bytes:
    """The body of the answer to ``request``, a call of a ``with_raw_response`` method, sent by ``transport``
    with ``options`` of its ``request``. Raises as that does, and BadAnswer when the package cannot handle the
    answer."""
    import httpx2
    import openai

    def handle(request: httpx2.Request) -> httpx2.Response:
        kind = request.headers.get("content-type")
        body = transport.request(
            request.method,
            request.url.raw_path.decode("ascii"),
            content=request.read() or None,
            headers={"Content-Type": kind} if kind else {},
            **options,
        )
        return httpx2.Response(200, content=body)

    # The key is a dummy: the real one is added by our transport, which is what MockTransport hands on to.
    client = openai.OpenAI(
        api_key="-",
        base_url="http://transport",
        max_retries=0,
        http_client=httpx2.Client(transport=httpx2.MockTransport(handle), trust_env=False),
    )
    try:
        body: bytes = request(client).content
        return body
    except openai.OpenAIError as exc:
        if isinstance(exc.__cause__, OpenClawMemError):  # the package wraps what our transport raises
            raise exc.__cause__ from None
        raise BadAnswer(f"The answer cannot be used ({type(exc).__name__}). Check the base URL.") from None


class OpenAIChat:
    """A :class:`~openclaw_mem_engine.providers.base.Chat` of any OpenAI-compatible service.

    ``base_url`` defaults to OpenAI's own. ``timeout_s`` holds for one answer, all tries together.
    ``key_missing``: why the key is missing that the host wants; then nothing is sent (NotConfigured).
    ``meter`` gets the usage of each answer. Raises ConfigError for a base URL, key or header that cannot be
    sent.
    """

    id = "openai"

    def __init__(
        self,
        model: str,
        *,
        base_url: str = "",
        api_key: str = "",
        key_missing: str = "",
        headers: Mapping[str, str] | None = None,
        timeout_s: float = CHAT_TIMEOUT_S,
        meter: Meter | None = None,
    ) -> None:
        self.model = model
        self._key_missing = key_missing
        self._meter = meter
        self._transport = Transport(OPENAI, base_url=base_url, api_key=api_key, headers=headers)
        self.host = "" if self._transport.is_loopback else self._transport.host
        self._timeout_s = timeout_s

    def complete(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int | None = None,
        temperature: float | None = None,
        cancel: CancelToken | None = None,
    ) -> str:
        """As the protocol says. Raises BadAnswer for JSON without an answer."""
        if self._key_missing:
            raise NotConfigured(self._key_missing)
        limits = {"max_tokens": max_tokens, "temperature": temperature}
        given = {name: value for name, value in limits.items() if value is not None}

        def request(client: OpenAI) -> Any:
            return client.chat.completions.with_raw_response.create(
                model=self.model,
                messages=[{"role": message.role, "content": sendable(message.text)} for message in messages],  # type: ignore[misc]
                extra_body=given,
            )

        label = f"{self.id} chat at {self._transport.host}"
        body = ask(
            self._transport,
            request,
            what="chat",
            timeout_s=self._timeout_s,
            policy=_POLICY,
            total_s=self._timeout_s,
            cancel=cancel,
        )
        found = parsed(body, label, "a chat API")
        if self._meter is not None:
            tokens = count_of(field_of(found, "usage", "total_tokens"))
            estimate = estimated_tokens(len(body) + sum(len(message.text) for message in messages))
            self._meter(Usage(self.id, self.model, 1, len(messages), tokens or estimate, not tokens))
        choices = field_of(found, "choices")
        message = field_of(choices[0], "message") if isinstance(choices, list) and choices else None
        answer = message.get("content") or "" if isinstance(message, dict) else None
        if not isinstance(answer, str):
            raise BadAnswer(
                f"{label} sent JSON without an answer. Check that the base URL is that of a chat API and "
                "the model a chat model."
            )
        return answer

    def close(self) -> None:
        self._transport.close()
