"""The ``openai`` package over our transport: it builds requests, and the transport does everything else.

Keys, headers, retries, deadlines, cancelling, size limits and redaction are in the transport alone: the
package's own retries are off, and it never gets the API key. Importing this module imports ``openai`` (about
a second of CPU), so it is imported at the first request that needs it; plain embeddings never do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import httpx2
import openai

from openclaw_mem_engine.errors import OpenClawMemError
from openclaw_mem_engine.providers.base import BadAnswer


class Send(Protocol):
    """Sends one request through our transport; ``path`` is below the base URL. Returns the body of a 2xx
    answer; raises ProviderError, Cancelled."""

    def __call__(
        self, method: str, path: str, *, content: bytes | None, headers: Mapping[str, str]
    ) -> bytes: ...


class RawAnswer(Protocol):
    """What ``with_raw_response`` methods of the package return."""

    @property
    def content(self) -> bytes: ...


def ask(send: Send, request: Callable[[openai.OpenAI], RawAnswer]) -> bytes:
    """The body of the answer to ``request``, a call of a ``with_raw_response`` method. Raises what ``send``
    raises, and BadAnswer when the package cannot handle the answer."""
    # The key is a dummy: the real one is added by the transport.
    client = openai.OpenAI(
        api_key="-",
        base_url="http://transport",
        max_retries=0,
        http_client=httpx2.Client(transport=_OverTransport(send), trust_env=False),
    )
    try:
        return request(client).content
    except openai.OpenAIError as exc:
        if isinstance(exc.__cause__, OpenClawMemError):  # the package wraps what our transport raises
            raise exc.__cause__ from None
        raise BadAnswer(f"The answer cannot be used ({type(exc).__name__}). Check the base URL.") from None


class _OverTransport(httpx2.BaseTransport):
    def __init__(self, send: Send) -> None:
        self._send = send

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        kind = request.headers.get("content-type")
        body = self._send(
            request.method,
            request.url.raw_path.decode("ascii"),
            content=request.read() or None,
            headers={"Content-Type": kind} if kind else {},
        )
        return httpx2.Response(200, content=body, request=request)
