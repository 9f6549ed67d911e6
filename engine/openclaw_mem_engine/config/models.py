"""``rerank.*`` and ``expansion.*``: the models that judge candidates and that make further queries.

What uses them is switched by the knobs ``rerank`` and ``expansion``; without a provider here they have none.
"""

from __future__ import annotations

from typing import Literal

from openclaw_mem_engine.config.rules import Rule, setting
from openclaw_mem_engine.config.secret import Secret
from openclaw_mem_engine.dataclass import dataclass

RerankProvider = Literal["none", "local", "http", "openai"]
ExpansionProvider = Literal["none", "local", "openai"]

_SECONDS = Rule("number", 0.1, 3600, unit="seconds")
_KEY = "its key; for openai without base_url: by default the key for embeddings"


@dataclass(frozen=True, slots=True)
class RerankSettings:
    """The reranker. ``http`` is an endpoint ``/rerank`` as of Jina, Cohere, vLLM and llama.cpp; ``openai`` is
    any chat model with OpenAI's interface, asked for a score."""

    provider: RerankProvider = setting(
        Rule("text", choices=("none", "local", "http", "openai")), "the provider of the reranker", "none"
    )
    model: str | None = setting(Rule("text"), "the model; for local a GGUF file or its hf: address")
    base_url: str | None = setting(Rule("url"), "the address of http or openai", repr=False)
    api_key: Secret | None = setting(Rule("secret"), _KEY)
    logits: bool = setting(
        Rule("switch"), "the endpoint sends raw logits, as llama.cpp does: scores are their sigmoid", False
    )
    budget_s: float = setting(_SECONDS, "time for the scores of one search", 10.0)


@dataclass(frozen=True, slots=True)
class ExpansionSettings:
    """The model that expands queries; ``openai`` is any chat model with OpenAI's interface."""

    provider: ExpansionProvider = setting(
        Rule("text", choices=("none", "local", "openai")), "the provider for variants of a query", "none"
    )
    model: str | None = setting(Rule("text"), "the model; for local a GGUF file or its hf: address")
    base_url: str | None = setting(Rule("url"), "the address of openai, instead of the usual one", repr=False)
    api_key: Secret | None = setting(Rule("secret"), _KEY)
    timeout_s: float = setting(_SECONDS, "time for the variants of one query", 5.0)
