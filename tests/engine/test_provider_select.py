"""Which embedder a specification gives."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from openclaw_mem_engine.errors import ConfigError, ProviderError
from openclaw_mem_engine.providers.base import NotConfigured, Usage
from openclaw_mem_engine.providers.registry import EmbedderSpec, make_embedder
from openclaw_mem_engine.providers.static import MODEL
from support.embed_server import running_server

KEY = "sk-plantedplantedplantedplanted1234"


def test_static_is_the_built_in_table_and_none_is_nothing() -> None:
    for spec in (EmbedderSpec(), EmbedderSpec("static"), EmbedderSpec("static", model=MODEL)):
        embedder = make_embedder(spec)
        assert embedder is not None
        assert (embedder.id, embedder.model) == ("static", "static-minilm-256-int8")
        assert (embedder.dims, embedder.languages, embedder.lines) == (256, "English", embedder)
    assert make_embedder(EmbedderSpec("none")) is None


def test_openai_needs_a_key_only_at_openai() -> None:
    for spec in (
        EmbedderSpec("openai"),
        EmbedderSpec("openai", api_key=" ", base_url="https://API.openai.com/v1/"),
    ):
        keyless = make_embedder(spec)
        assert keyless is not None
        assert keyless.key == make_embedder(replace(spec, api_key=KEY)).key  # type: ignore[union-attr]
        with pytest.raises(NotConfigured, match=r"OPENAI_API_KEY.*provider\.api_key"):
            keyless.embed_query("anything")
    local = make_embedder(EmbedderSpec("openai", base_url="http://127.0.0.1:11434/v1", model="nomic"))
    remote = make_embedder(EmbedderSpec("openai", api_key=KEY))
    by_header = make_embedder(EmbedderSpec("openai", headers={"authorization": f"Bearer {KEY}"}))
    assert local is not None
    assert remote is not None
    assert by_header is not None
    assert (local.id, local.model, local.dims, local.languages) == ("openai", "nomic", None, "any")
    assert remote.model == "text-embedding-3-small"
    assert remote.key == by_header.key != local.key
    assert remote.lines is None


def test_a_spec_shows_no_secrets_and_refuses_nonsense() -> None:
    spec = EmbedderSpec("openai", api_key=KEY, headers={"X-Gateway": "gateway-secret-9876"})
    assert KEY not in repr(spec)
    assert "gateway-secret" not in repr(spec)
    assert KEY not in repr(make_embedder(spec))
    with pytest.raises(ConfigError, match="static, openai, gemini, voyage, mistral, ollama, local, none"):
        EmbedderSpec("auto")
    for timeout in (0, -1, float("nan"), float("inf")):
        with pytest.raises(ConfigError, match="timeout_s"):
            EmbedderSpec(timeout_s=timeout)
    with pytest.raises(ProviderError, match="one model"):
        make_embedder(EmbedderSpec("static", model="text-embedding-3-small"))


@pytest.mark.parametrize(
    ("provider", "model", "place"),
    [
        ("openai", "text-embedding-3-small", "api.openai.com"),
        ("gemini", "gemini-embedding-001", "generativelanguage.googleapis.com"),
        ("voyage", "voyage-4-large", "api.voyageai.com"),
        ("mistral", "mistral-embed", "api.mistral.ai"),
        ("ollama", "nomic-embed-text", ""),
    ],
)
def test_every_remote_provider_is_made_without_being_asked(provider: str, model: str, place: str) -> None:
    embedder = make_embedder(EmbedderSpec(provider))
    assert embedder is not None
    assert (embedder.id, embedder.model, embedder.host, embedder.dims) == (provider, model, place, None)
    if provider != "ollama":
        with pytest.raises(NotConfigured, match="why there is none"):
            keyless = make_embedder(EmbedderSpec(provider, key_missing="why there is none"))
            assert keyless is not None
            keyless.embed_query("anything")
    embedder.close()


def test_address_key_headers_and_meter_reach_the_provider() -> None:
    used: list[Usage] = []
    with running_server() as server:
        spec = EmbedderSpec(
            "mistral", "m", server.base_url, KEY, headers={"X-Team": "a"}, timeout_s=5, concurrency=1
        )
        embedder = make_embedder(spec, meter=used.append)
        assert embedder is not None
        assert embedder.embed_query("tea") is not None
        embedder.close()
    (usage,) = used
    assert (usage.provider, usage.model, usage.requests, usage.texts) == ("mistral", "m", 1, 1)


def test_a_local_model_is_made_without_being_loaded(tmp_path: Path) -> None:
    path = str(tmp_path / "gone.gguf")
    for folder in (None, tmp_path / "models"):
        embedder = make_embedder(EmbedderSpec("local", path, model_folder=folder))
        assert embedder is not None
        assert (embedder.id, embedder.host) == ("local", "")
        with pytest.raises(NotConfigured, match=r"gone\.gguf"):
            embedder.embed_query("anything")
        embedder.close()
    assert list(tmp_path.iterdir()) == []
