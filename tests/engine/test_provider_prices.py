"""What embeddings cost: only where the price is known, and said with its source."""

from __future__ import annotations

import pytest

from openclaw_mem_engine.providers.local.download import may_ask
from openclaw_mem_engine.providers.prices import (
    LIST_PRICES,
    PUBLIC_HOSTS,
    SOURCE,
    cost,
    estimated_tokens,
    price_class,
    price_per_million,
)
from openclaw_mem_engine.providers.remote.endpoint import host_of, is_loopback

OPENAI = "api.openai.com"


@pytest.mark.parametrize(
    ("provider", "model", "place", "price"),
    [
        ("openai", "text-embedding-3-small", OPENAI, 0.02),
        ("openai", "text-embedding-3-large", "API.openai.com:443", 0.13),
        ("openai", "openai/text-embedding-ada-002", OPENAI, 0.10),
        ("openai", "my-finetune", OPENAI, None),
        ("openai", "voyage-4", OPENAI, None),
        ("openai", "text-embedding-3-small", "proxy.example.com", None),
        ("openai", "text-embedding-3-small", "api.openai.com.example.com", None),
        ("openai", "text-embedding-3-small", "", None),
        ("openai", "anything", "127.0.0.1:8080", None),
        ("openai", "anything", "localhost:8080", None),
        ("openai", "anything", "[::1]:8080", None),
        ("openai", "anything", "::1", None),
        ("openai", "anything", "[2001:db8::1]:443", None),
        ("openai", "anything", "localhost.example.com", None),
        ("gemini", "gemini-embedding-001", "generativelanguage.googleapis.com", 0.15),
        ("gemini", "models/text-embedding-004", "generativelanguage.googleapis.com", 0.0),
        ("voyage", "voyage-4-large", "api.voyageai.com", 0.12),
        ("mistral", "codestral-embed", "api.mistral.ai", 0.15),
        ("static", "static-minilm-256-int8", "", 0.0),
        ("local", "hf:whatever.gguf", "", 0.0),
        ("ollama", "nomic-embed-text", "127.0.0.1:11434", 0.0),
        ("ollama", "nomic-embed-text", "nas.lan:11434", 0.0),
        ("ollama", "nomic-embed-text", "ollama.com", None),
        ("somebody", "m", "example.com", None),
    ],
)
def test_prices(provider: str, model: str, place: str, price: float | None) -> None:
    assert price_per_million(provider, model, place) == price
    spent = cost(provider, model, place, 2_500_000)
    assert spent is None if price is None else spent == pytest.approx(2.5 * price)


def test_every_listed_price_is_said_with_its_source() -> None:
    for provider, models in LIST_PRICES.items():
        for model in models:
            assert SOURCE in price_class(provider, model, PUBLIC_HOSTS[provider])


@pytest.mark.parametrize(
    ("provider", "model", "place", "words"),
    [
        ("openai", "text-embedding-3-small", OPENAI, f"about $0.02 per million tokens ({SOURCE})"),
        ("mistral", "mistral-embed", "api.mistral.ai", f"about $0.10 per million tokens ({SOURCE})"),
        ("gemini", "text-embedding-004", PUBLIC_HOSTS["gemini"], f"free ({SOURCE})"),
        ("openai", "x", "proxy.example.com", "unknown price: custom endpoint"),
        ("static", "x", "", "free (runs on this machine)"),
        (
            "openai",
            "x",
            "127.0.0.1:1",
            "unknown price: a server on this machine, free unless it passes text on",
        ),
        ("ollama", "x", "nas.lan", "free (a server of your own)"),
    ],
)
def test_words(provider: str, model: str, place: str, words: str) -> None:
    assert price_class(provider, model, place) == words


def test_a_model_of_a_known_provider_that_is_not_listed() -> None:
    assert price_class("openai", "text-embedding-9", OPENAI).startswith("unknown price: a model")


def test_tokens_are_estimated_as_a_quarter_of_the_bytes() -> None:
    assert [estimated_tokens(size) for size in (-1, 0, 1, 4, 5, 8000)] == [0, 0, 1, 1, 2, 2000]
    assert cost("openai", "text-embedding-3-small", OPENAI, -5) == 0.0


@pytest.mark.parametrize(
    ("host", "is_here"),
    [
        ("localhost", True),
        ("LOCALHOST.", True),
        ("models.localhost", True),
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("", False),
        ("0.0.0.0", False),
        ("localhost.example.com", False),
        ("127.0.0.1.nip.io", False),
        ("192.168.1.5", False),
        ("::ffff:8.8.8.8", False),
    ],
)
def test_which_hosts_are_this_machine_is_said_once(host: str, is_here: bool) -> None:
    assert is_loopback(host) is is_here
    if not host:
        return
    shown = f"[{host}]" if ":" in host else host
    assert host_of(f"http://{shown}:8080/v1", "openai")[1] is is_here
    assert may_ask(f"http://{shown}/x") is is_here
    assert ("this machine" in price_class("openai", "x", f"{shown}:8080")) is is_here
