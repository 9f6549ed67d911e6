"""The reranker and the chat model of one configuration: which, where text goes, and what is missing.

Nothing is loaded or sent here; that happens at the first question. Modules of what is not configured are not
imported.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from openclaw_mem_engine.config.secret import printable
from openclaw_mem_engine.config.settings import Endpoint, Settings
from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_engine.model import as_json
from openclaw_mem_engine.providers.resolve import endpoint_of, key_of, model_folder

if TYPE_CHECKING:
    from collections.abc import Callable

    from openclaw_mem_engine.config.groups import ExpansionSettings, FlushSettings, RerankSettings
    from openclaw_mem_engine.providers.base import Chat, Meter, Reranker

Use = Literal["rerank", "expansion", "flush"]

#: QMD's grammar of an expansion: one or more lines of a kind and a text.
EXPANSION_GRAMMAR = r"""
root ::= line+
line ::= type ": " content "\n"
type ::= "lex" | "vec" | "hyde"
content ::= [^\n]+
"""


@dataclass(frozen=True, slots=True)
class ServiceState:
    """One of them. ``host`` is where queries, for rerank passages of notes, and for flush a conversation are
    sent ("": nowhere); ``missing`` says why it cannot be used as it is configured ("": nothing is known to be
    missing)."""

    use: Use
    provider: str
    model: str
    host: str
    key_origin: str = ""
    missing: str = ""

    def to_dict(self) -> dict[str, Any]:
        return as_json(self)


class Services:
    """Makes what ``settings.rerank`` and ``settings.expansion`` ask for (``chat`` is for expansion), and at
    first use ``flush_chat``, which no search needs. ``meter`` gets the usage of every answered request.
    Raises ConfigError for an address or key that cannot be used."""

    def __init__(self, settings: Settings, meter: Meter | None = None) -> None:
        self._settings = settings
        self._meter = meter
        self.reranker = self._reranker(settings.rerank)
        self.chat = self._chat(settings.expansion)

    @cached_property
    def flush_chat(self) -> Chat | None:
        """The model of ``settings.flush``; None when none is configured."""
        group = self._settings.flush
        return self._openai("flush", group.model, group.timeout_s) if group.provider == "openai" else None

    @property
    def rerank_batch(self) -> int:
        """Texts of one request. A local model may take seconds for each, and those that are scored within the
        budget must not wait for others."""
        return 1 if self._settings.rerank.provider == "local" else 8

    def states(self) -> tuple[ServiceState, ...]:
        """Those that are configured."""
        made: tuple[tuple[Use, Reranker | Chat | None], ...]
        made = (("rerank", self.reranker), ("expansion", self.chat), ("flush", self.flush_chat))
        return tuple(self._state(use, service) for use, service in made if service is not None)

    def _state(self, use: Use, service: Reranker | Chat) -> ServiceState:
        provider = getattr(self._settings, use).provider
        endpoint = self._endpoint(use)
        origin = endpoint.key_origin
        where = printable(origin.where) if key_of(endpoint) and origin is not None else ""
        look: Callable[[], str | None] | None = getattr(service, "why_not", None)  # of local models
        missing = self._key_missing(use, endpoint) if look is None else look() or ""
        return ServiceState(use, provider, printable(service.model), service.host, where, missing)

    def close(self) -> None:
        for service in (self.reranker, self.chat, self.__dict__.get("flush_chat")):
            if service is not None:
                service.close()

    def _reranker(self, group: RerankSettings) -> Reranker | None:
        if group.provider == "none":
            return None
        if group.provider == "local":
            from openclaw_mem_engine.providers.local.text import LocalReranker

            folder, idle_s = model_folder(self._settings), self._idle_s
            return LocalReranker(group.model or "", folder=folder, idle_s=idle_s)
        if group.provider == "http":
            from openclaw_mem_engine.providers.rerank import HttpReranker

            endpoint = self._endpoint("rerank")
            return HttpReranker(
                endpoint.base_url or "",
                model=group.model or "",
                api_key=key_of(endpoint),
                key_missing=self._key_missing("rerank", endpoint),
                logits=group.logits,
                timeout_s=group.budget_s,
                meter=self._meter,
            )
        from openclaw_mem_engine.providers.rerank import ChatReranker

        return ChatReranker(self._openai("rerank", group.model, group.budget_s))

    def _chat(self, group: ExpansionSettings) -> Chat | None:
        if group.provider == "none":
            return None
        if group.provider == "openai":
            return self._openai("expansion", group.model, group.timeout_s)
        from openclaw_mem_engine.providers.local.model_file import EXPANSION_MODEL
        from openclaw_mem_engine.providers.local.text import LocalChat

        return LocalChat(
            group.model or EXPANSION_MODEL,
            folder=model_folder(self._settings),
            grammar=EXPANSION_GRAMMAR,
            idle_s=self._idle_s,
            timeout_s=group.timeout_s,
        )

    def _openai(self, use: Use, model: str | None, timeout_s: float) -> Chat:
        from openclaw_mem_engine.providers.remote.openai_client import OpenAIChat

        endpoint = self._endpoint(use)
        return OpenAIChat(
            model or "",
            base_url=endpoint.base_url or "",
            api_key=key_of(endpoint),
            key_missing=self._key_missing(use, endpoint),
            headers=endpoint.headers,
            timeout_s=timeout_s,
            meter=self._meter,
        )

    def _endpoint(self, use: Use) -> Endpoint:
        """Address, key and headers. Those of the embeddings of OpenAI are used for their own address alone: a
        key is never sent to a host that it was not configured for."""
        settings = self._settings
        group: RerankSettings | ExpansionSettings | FlushSettings = getattr(settings, use)
        origin = settings.origins.get(f"{use}.api_key")
        own = Endpoint(group.base_url, group.api_key, key_origin=origin)
        if group.provider != "openai":
            return own
        known = endpoint_of(settings, "openai")
        if group.base_url not in (None, known.base_url):
            return own
        if group.api_key is None:
            return known
        return Endpoint(known.base_url, group.api_key, known.headers, key_origin=origin)

    def _key_missing(self, use: Use, endpoint: Endpoint) -> str:
        """Why nothing can be sent: a key that cannot be had, or none for OpenAI's own host; else ""."""
        from openclaw_mem_engine.providers.remote.wires import OPENAI

        if endpoint.api_key is not None and endpoint.api_key.problem:
            return endpoint.api_key.problem
        host = urlsplit(endpoint.base_url or OPENAI.default_base_url).hostname
        headers = {name.lower() for name in endpoint.headers}
        if host != OPENAI.public_host or key_of(endpoint) or "authorization" in headers:
            return ""
        return f"No API key for {host}: set {OPENAI.key_variable} or {use}.api_key."

    @property
    def _idle_s(self) -> float:
        return self._settings.provider.local_idle_minutes * 60
