"""Which provider the settings come to: the order of auto, the local model, fallback and further embedders."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from openclaw_mem_engine.config.settings import ENDPOINT_NAMES
from openclaw_mem_engine.config.show import describe, to_dict
from openclaw_mem_engine.errors import ConfigError
from openclaw_mem_engine.providers.registry import make_embedder
from openclaw_mem_engine.providers.resolve import choices
from support.config_world import World, codes, revealed


class TestAuto:
    def test_the_documented_order(self, world: World) -> None:
        assert world.load().provider.chosen == "static"
        for variable, name in (
            ("MISTRAL_API_KEY", "mistral"),
            ("VOYAGE_API_KEY", "voyage"),
            ("GEMINI_API_KEY", "gemini"),
            ("OPENAI_API_KEY", "openai"),
        ):
            world.environ[variable] = "k"
            assert world.load().provider.chosen == name
        model = world.root / "m.gguf"
        world.memory_search({"local": {"modelPath": str(model)}})
        assert world.load().provider.chosen == "openai"
        model.write_bytes(b"GGUF")
        provider = world.load().provider
        assert (provider.chosen, provider.key_provider, provider.api_key) == ("local", None, None)
        assert provider.endpoints["openai"].api_key is not None

    @pytest.mark.parametrize("model", ["hf:org/repo/file.gguf", "http://127.0.0.1/x.gguf", "gone.gguf", "."])
    def test_what_is_no_file_is_passed_over(self, world: World, model: str) -> None:
        world.memory_search({"local": {"modelPath": model}})
        provider = world.load().provider
        assert provider.chosen == "static" and not provider.local_model_found
        assert world.load(provider="local").provider.chosen == "local"

    def test_ollama_is_never_chosen_by_auto(self, world: World) -> None:
        world.openclaw({"models": {"providers": {"ollama": {"apiKey": "k", "baseUrl": "http://box:11434"}}}})
        settings = world.load()
        assert settings.provider.chosen == "static" and settings.provider.key_provider is None

    def test_a_local_model_never_becomes_a_remote_one_in_silence(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        world.environ["OPENAI_API_KEY"] = "k"
        model = world.root / "m.gguf"
        world.memory_search({"local": {"modelPath": str(model)}})
        assert (world.load().provider.chosen, codes(world.load())) == ("openai", ["local-model-passed"])
        model.write_bytes(b"GGUF")
        # Without what loads it, it stays the provider, and says what is missing.
        monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
        settings = world.load()
        assert (settings.provider.chosen, codes(settings)) == ("local", [])
        spec = next(choice.spec for choice in choices(settings) if choice.role == "primary")
        assert spec is not None
        embedder = make_embedder(spec)
        assert embedder is not None
        assert "need llama-cpp-python, which is not installed" in str(embedder.why_not())

    def test_trouble_with_keys_does_not_matter_beside_a_local_model(self, world: World) -> None:
        model = world.root / "m.gguf"
        model.write_bytes(b"GGUF")
        world.memory_search(
            {"local": {"modelPath": str(model)}}, models={"providers": {"openai": {"apiKey": "${NO_KEY}"}}}
        )
        assert codes(world.load()) == []


class TestOllama:
    def test_it_needs_no_key_and_takes_address_headers_and_model(self, world: World) -> None:
        world.own(
            '[provider]\nname = "ollama"\nmodel = "bge-m3"\nbase_url = "http://box:11434/"\n'
            'headers = { "X-Team" = "a" }'
        )
        provider = world.load().provider
        assert (provider.chosen, provider.model, provider.base_url) == (
            "ollama",
            "bge-m3",
            "http://box:11434",
        )
        assert provider.api_key is None and dict(provider.headers) == {"X-Team": "a"}
        assert codes(world.load()) == []

    def test_openclaws_entry_and_memory_search(self, world: World) -> None:
        world.memory_search(
            {"provider": "ollama", "model": "bge-m3"},
            models={"providers": {"ollama": {"baseUrl": "http://box:11434/v1", "apiKey": "local"}}},
        )
        settings = world.load()
        assert settings.provider.base_url == "http://box:11434/v1" and revealed(settings) == "local"
        assert settings.provider.model == "bge-m3"
        assert world.load(provider="openai").provider.model is None


class TestLocal:
    def test_paths_start_where_they_stand_and_addresses_stay(self, world: World) -> None:
        path = world.own('[provider]\nlocal_model_path = "models/m.gguf"\nlocal_model_cache_dir = "~/cache"')
        provider = world.load().provider
        assert provider.local_model_path == str(path.parent / "models/m.gguf")
        assert provider.local_model_cache_dir == str(world.home / "cache")
        world.own("")
        world.memory_search({"local": {"modelPath": "m.gguf", "modelCacheDir": "cache"}})
        provider = world.load().provider
        assert provider.local_model_path == str(world.cwd / "m.gguf")
        assert provider.local_model_cache_dir == str(world.cwd / "cache")
        world.memory_search({"local": {"modelPath": "hf:org/repo/file.gguf"}})
        assert world.load().provider.local_model_path == "hf:org/repo/file.gguf"

    @pytest.mark.parametrize("place", ["~/.openclaw/models", "~/.openclaw/workspace/models"])
    def test_no_model_is_put_into_folders_of_others(self, world: World, place: str) -> None:
        world.memory_search({"local": {"modelCacheDir": place}})
        settings = world.load()
        assert settings.provider.local_model_cache_dir is None
        assert codes(settings) == ["model-folder-refused"]
        assert settings.origins["provider.local_model_cache_dir"].kind == "default"

    @pytest.mark.parametrize("model", ["x" * 5000, "a/" * 3000])
    def test_names_that_no_system_takes(self, world: World, model: str) -> None:
        world.memory_search({"local": {"modelPath": model}})
        assert world.load().provider.chosen == "static"


class TestModels:
    def test_a_model_stays_with_its_provider(self, world: World) -> None:
        world.memory_search({"provider": "openai", "model": "text-embedding-3-large", "fallback": "voyage"})
        world.own('[provider]\nname = "gemini"\nfallback = "openai"')
        provider = world.load().provider
        models = {name: provider.endpoints[name].model for name in ENDPOINT_NAMES}
        assert provider.model is None
        assert {name: model for name, model in models.items() if model} == {
            "openai": "text-embedding-3-large"
        }

    @pytest.mark.parametrize("name", ["local", "static"])
    def test_a_model_that_nobody_uses_is_told(self, world: World, name: str) -> None:
        world.memory_search({"provider": name, "model": "m", "fallback": "openai", "remote": {"apiKey": "k"}})
        settings = world.load()
        assert settings.provider.model is None and settings.provider.endpoints["openai"].model is None
        assert revealed(settings, "openai") == "k"
        assert codes(settings) == ["model-unused"]
        world.memory_search({"provider": "local", "model": "m", "local": {"modelPath": "/m.gguf"}})
        assert codes(world.load()) == []


class TestBeside:
    def test_fallback_may_be_any_provider(self, world: World) -> None:
        for name in (*ENDPOINT_NAMES, "local", "static", "none"):
            world.own(f'[provider]\nname = "openai"\nfallback = "{name}"')
            settings = world.load()
            assert settings.provider.fallback == name
            assert codes(settings) == (["fallback-ignored"] if name == "openai" else [])

    def test_further_embedders(self, world: World) -> None:
        world.own(
            '[provider]\nname = "openai"\nmodel = "small"\n'
            'also = [" static ", "openai:large", "static", "local:m.gguf", "local:hf:a/b/c.gguf"]'
        )
        settings = world.load()
        own = world.own_file.parent / "m.gguf"
        assert settings.provider.also == ("static", "openai:large", f"local:{own}", "local:hf:a/b/c.gguf")
        assert codes(settings) == []

    @pytest.mark.parametrize("entry", ["openai", "openai:small", "openai: small "])
    def test_the_chosen_one_itself_is_ignored_and_told(self, world: World, entry: str) -> None:
        path = world.own(f'[provider]\nname = "openai"\nmodel = "small"\nalso = ["{entry}", "static"]')
        settings = world.load()
        assert settings.provider.also == ("static",)
        (note,) = settings.warnings
        assert note.code == "also-ignored" and note.text.startswith(f"{path}: provider.also: openai")

    def test_a_bad_address_of_one_of_them_is_an_error(self, world: World) -> None:
        world.openclaw({"models": {"providers": {"voyage": {"baseUrl": "${NO_URL}"}}}})
        world.own('[provider]\nname = "static"')
        world.load()
        world.own('[provider]\nname = "static"\nalso = ["voyage:voyage-3"]')
        with pytest.raises(ConfigError, match="NO_URL"):
            world.load()


def test_the_new_keys_are_shown_with_origin_and_range(world: World) -> None:
    path = world.own(
        '[provider]\nalso = ["static"]\nname = "ollama"\nconcurrency = 8\nlocal_idle_minutes = 0.5'
    )
    settings = world.load()
    rows = {row.key: row for row in describe(settings)}
    assert settings.provider.concurrency == 8 and settings.provider.local_idle_minutes == 0.5
    assert rows["provider.also"].value_text == "static"
    assert rows["provider.concurrency"].value_text == "8"
    assert rows["provider.concurrency"].allowed == "an integer (requests), 1 to 32"
    assert rows["provider.local_idle_minutes"].origin.where == f"{path}: provider.local_idle_minutes"
    shown = to_dict(settings)["settings"]
    assert shown["provider.also"]["value"] == ["static"]
    world.own("[provider]\nlocal_idle_minutes = 0")
    provider = world.load().provider
    assert (provider.concurrency, provider.also, provider.local_idle_minutes) == (4, (), 0.0)


def test_loading_still_reads_only_what_is_there(world: World) -> None:
    before = sorted(world.root.rglob("*"))
    assert world.load().warnings == ()
    assert sorted(world.root.rglob("*")) == before
    assert Path(world.state / "agents").exists() is False
