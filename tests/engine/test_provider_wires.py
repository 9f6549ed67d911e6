"""The protocols of the remote providers: recorded requests, names, keys, answers, advice."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest

from openclaw_mem_engine.errors import ConfigError
from openclaw_mem_engine.providers.base import BadAnswer, RequestFailed, Usage
from openclaw_mem_engine.providers.remote.embedder import RemoteEmbedder
from openclaw_mem_engine.providers.remote.endpoint import error_of_body
from openclaw_mem_engine.providers.remote.transport import Timing
from openclaw_mem_engine.providers.remote.wires import wire_of
from support.embed_server import Fault, Server, bag_of_words, running_server
from support.goldens import golden
from support.remote import remote_embedder

ALL = ["openai", "gemini", "voyage", "mistral", "ollama"]
#: What stands before the path that a provider speaks at.
_BASES = {"gemini": "/v1beta", "ollama": ""}


def base_of(server: Server, provider: str) -> str:
    return server.base_url.removesuffix("/v1") + _BASES.get(provider, "/v1")


TIMING = Timing(sleep=lambda _: None)


def embedder_for(server: Server, provider: str, **options: Any) -> RemoteEmbedder:
    usual: dict[str, Any] = {
        "base_url": base_of(server, provider),
        "api_key": "K",
        "timing": TIMING,
    }
    return remote_embedder(provider, **(usual | options))


@pytest.mark.goldens
@pytest.mark.parametrize(
    "case",
    [case for case in golden("provider_requests") if case["requests"]],
    ids=lambda case: case["label"],
)
def test_requests_are_those_recorded(case: dict[str, Any]) -> None:
    name = case["result"]["id"]
    config = case["options"].get("config", {}).get("models", {}).get("providers", {}).get(name, {})
    own_remote = case["options"].get("remote", {})
    remote = {**config, **own_remote}
    key = {"GEMINI_API_KEY": "G"}.get(remote["apiKey"], remote["apiKey"])  # named, read by the configuration
    with running_server() as server:
        root = server.base_url.removesuffix("/v1")
        embedder = remote_embedder(
            name,
            base_url=remote["baseUrl"].replace("http://127.0.0.1:<PORT>", root),
            api_key=key,
            model=case["options"].get("model", ""),
            headers={**config.get("headers", {}), **own_remote.get("headers", {})},
        )
        embedder.embed_query("a query")
        embedder.embed_documents(["one", "two"])
        # Recorded as sent; here blank text is never sent, and nothing to embed makes no request either.
        assert embedder.embed_query("   ") is None
        assert embedder.embed_documents([]) == []
    assert embedder.id == name
    assert embedder.model == case["result"]["model"]
    sent = [recorded for recorded in case["requests"] if recorded["body"].get("input") != ["   "]]
    assert len(server.requests) == len(sent) == 2
    for seen, recorded in zip(server.requests, sent, strict=True):
        assert (seen.method, seen.path) == (recorded["method"], recorded["url"])
        assert seen.body == recorded["body"]
        assert recorded["headers"].items() <= seen.headers.items()


@pytest.mark.parametrize("provider", ALL)
def test_every_provider_embeds(provider: str) -> None:
    texts = ["pump restarts", "温室 sensors", "a", "b", "c"]
    with running_server(tokens=7) as server:
        used: list[Usage] = []
        embedder = embedder_for(server, provider, max_batch_items=2, meter=used.append)
        found = embedder.embed_documents(texts)
        query = embedder.embed_query("pump")
    for text, vector in zip([*texts, "pump"], [*found, query], strict=True):
        assert vector is not None
        np.testing.assert_allclose(vector, bag_of_words(text), atol=1e-6)
    assert sorted(len(inputs) for inputs in server.inputs) == [1, 1, 2, 2]
    assert [(each.provider, each.model, each.tokens, each.estimated) for each in used] == [
        (provider, embedder.model, 7, False)
    ] * 4
    assert sum(each.texts for each in used) == 6
    assert embedder.dims == 256


@pytest.mark.parametrize("provider", ALL)
@pytest.mark.parametrize(
    "body", ["{}", "[]", "null", '"x"', '{"data": {}, "embeddings": 3, "embedding": []}']
)
def test_json_without_embeddings_is_refused(provider: str, body: str) -> None:
    with running_server(forever=Fault(body=body)) as server:
        embedder = embedder_for(server, provider)
        with pytest.raises(BadAnswer, match=rf"^{provider} embeddings at 127.*without a list"):
            embedder.embed_query("x")
        with pytest.raises(BadAnswer, match="without a list"):
            embedder.embed_documents(["x"])


@pytest.mark.parametrize("provider", ALL)
def test_a_wrong_count_is_refused(provider: str) -> None:
    with (
        running_server(forever=Fault(change=lambda items: items[:-1])) as server,
        pytest.raises(BadAnswer, match="1 embedding for 2 texts"),
    ):
        embedder_for(server, provider).embed_documents(["x", "y"])


@pytest.mark.parametrize(
    ("provider", "given", "model"),
    [
        ("openai", " openai/m ", "m"),
        ("openai", "voyage/m", "voyage/m"),
        ("voyage", "voyage/voyage-3", "voyage-3"),
        ("mistral", "mistral/mistral-embed", "mistral-embed"),
        ("gemini", "models/text-embedding-004", "text-embedding-004"),
        ("gemini", "models/google/text-embedding-004", "text-embedding-004"),
        ("gemini", "gemini/x", "x"),
        ("ollama", "ollama/mxbai-embed-large:335m", "mxbai-embed-large:335m"),
        ("ollama", "", "nomic-embed-text"),
        ("openai", "", "text-embedding-3-small"),
        ("gemini", " ", "gemini-embedding-001"),
    ],
)
def test_model_names(provider: str, given: str, model: str) -> None:
    assert wire_of(provider).model_name(given) == model


@pytest.mark.parametrize(
    ("provider", "given", "base_url"),
    [
        ("openai", "", "https://api.openai.com/v1"),
        ("openai", " http://h/v1// ", "http://h/v1"),
        ("voyage", "", "https://api.voyageai.com/v1"),
        ("mistral", "", "https://api.mistral.ai/v1"),
        ("gemini", "", "https://generativelanguage.googleapis.com/v1beta"),
        ("gemini", "http://h/v1beta/openai/", "http://h/v1beta"),
        ("ollama", "", "http://127.0.0.1:11434"),
        ("ollama", "http://h:11434/v1/", "http://h:11434"),
    ],
)
def test_base_urls(provider: str, given: str, base_url: str) -> None:
    assert wire_of(provider).base_url(given) == base_url


@pytest.mark.goldens
def test_space_keys_are_those_documented() -> None:
    mistral = remote_embedder("mistral", headers={"X-Extra": "e"})
    assert mistral.key == golden("index")["providerKey"]["mistral"]
    text = (
        '{"provider":"gemini","baseUrl":"https://generativelanguage.googleapis.com/v1beta",'
        '"model":"gemini-embedding-001","headers":[["Content-Type","application/json"],["X-Extra","e"]]}'
    )
    gemini = remote_embedder("gemini", api_key="K", headers={"X-Extra": "e", "X-Goog-Api-Key": "other"})
    assert gemini.key == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize("provider", ALL)
def test_another_key_is_the_same_space_and_another_server_or_model_is_not(provider: str) -> None:
    wire = wire_of(provider)
    embedders = [
        remote_embedder(wire),
        remote_embedder(wire, api_key="one"),
        remote_embedder(wire, model="other"),
        remote_embedder(wire, base_url="http://127.0.0.1:9/v1"),
        remote_embedder(wire, base_url="http://127.0.0.1:8/v1"),
    ]
    keys = [embedder.key for embedder in embedders]
    assert keys[0] == keys[1]
    assert len(set(keys)) == 4


def test_gemini_says_400_to_a_wrong_key() -> None:
    body = (
        '{"error": {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT", "details": '
        '[{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]}}'
    )
    with running_server(forever=Fault(400, body)) as server:
        with pytest.raises(RequestFailed, match=r"failed: 400 from .*Check the API key") as caught:
            embedder_for(server, "gemini").embed_documents(["x", "y"])
        assert len(server.requests) == 1  # it is not the number of texts
    assert caught.value.status == 401


def test_ollama_names_what_is_missing() -> None:
    with (
        running_server(forever=Fault(404, '{"error": "model \\"m\\" not found"}')) as server,
        pytest.raises(RequestFailed, match=r'model "m" not found\. .*ollama pull'),
    ):
        embedder_for(server, "ollama").embed_query("x")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('{"error": {"message": "no", "code": "c", "type": "t"}}', ("no", "c t")),
        ('{"error": "no"}', ("no", "")),
        ('{"detail": "no"}', ("no", "")),
        ('[{"error": {"message": "no", "status": "S"}}]', ("no", "S")),
        ('{"message": "no", "code": 3}', ("no", "")),
        (
            '{"error": {"details": [{"reason": "R"}, 3]}}',
            ('{"error": {"details": [{"reason": "R"}, 3]}}', "R"),
        ),
        ("<html>", ("<html>", "")),
        ("[" * 100_000, ("[" * 100_000, "")),
        ("3", ("3", "")),
    ],
)
def test_error_answers(body: str, said: tuple[str, str]) -> None:
    assert error_of_body(body) == said


def test_unknown_providers_are_named() -> None:
    with pytest.raises(ConfigError, match="'static' is not a remote"):
        wire_of("static")
