"""Which source wins, what each value says about where it came from, and which key goes to which provider."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from openclaw_mem_engine.config.load import index_path
from openclaw_mem_engine.errors import ConfigError, UsageError
from support.config_world import World, revealed


def test_each_layer_wins_over_the_ones_below(world: World) -> None:
    def seen(**flags: Any) -> tuple[str, str, str]:
        settings = world.load(**flags)
        origin = settings.origins["workspace"]
        return settings.workspace.name, origin.kind, origin.where

    assert seen() == ("workspace", "default", "built in")
    path = world.openclaw({"agents": {"defaults": {"workspace": "/four"}}})
    assert seen() == ("four", "openclaw", f"{path}: agents.defaults.workspace")
    own = world.own('workspace = "/three"')
    assert seen() == ("three", "toml", f"{own}: workspace")
    world.environ["OPENCLAW_MEM_WORKSPACE"] = "two"
    assert seen() == ("two", "env", "env OPENCLAW_MEM_WORKSPACE")
    assert world.load().workspace == world.cwd / "two"
    assert seen(workspace=Path("one")) == ("one", "flag", "--workspace")
    assert world.load(workspace=Path("../one")).workspace == world.root / "one"


def test_provider_profile_and_agent_by_variable_and_flag(world: World) -> None:
    world.environ.update(
        OPENCLAW_MEM_PROVIDER="static", OPENCLAW_MEM_PROFILE="workbench", OPENCLAW_MEM_AGENT="kit"
    )
    settings = world.load()
    assert (settings.provider.provider, settings.query.profile, settings.agent) == (
        "static",
        "workbench",
        "kit",
    )
    assert settings.origins["query.profile"].where == "env OPENCLAW_MEM_PROFILE"
    settings = world.load(provider="none", profile="qmd-2.8", agent="kat")
    assert (settings.provider.provider, settings.query.profile, settings.agent) == (
        "none",
        "qmd-2.8",
        "kat",
    )
    assert settings.origins["query.profile"].kind == "flag"


def test_bad_variables_are_configuration_errors_and_bad_flags_usage_errors(world: World) -> None:
    with pytest.raises(UsageError, match="--provider is 'x'; allowed: auto, static"):
        world.load(provider="x")
    with pytest.raises(UsageError, match="--workspace"):
        world.load(workspace=Path("a\0b"))
    world.environ["OPENCLAW_MEM_PROVIDER"] = "x"
    with pytest.raises(ConfigError, match="env OPENCLAW_MEM_PROVIDER is 'x'"):
        world.load()


def test_blank_variables_count_as_unset(world: World) -> None:
    world.environ.update(
        OPENCLAW_MEM_HOME=" ", OPENCLAW_MEM_WORKSPACE="", OPENAI_API_KEY=" ", OPENCLAW_STATE_DIR=""
    )
    settings = world.load()
    assert {origin.kind for origin in settings.origins.values()} == {"default"}
    assert settings.provider.api_key is None


def test_a_knob_of_ours_wins_over_one_of_theirs_and_the_others_stay(world: World) -> None:
    world.memory_search({"query": {"minScore": 0.5, "maxResults": 9}})
    world.own("[query]\nmin_score = 0.1")
    settings = world.load()
    assert dict(settings.query.overrides) == {"min_score": 0.1, "max_results": 9}
    assert settings.origins["query.max_results"].kind == "openclaw"


def test_one_weight_of_ours_does_not_meet_the_other_of_theirs(world: World) -> None:
    world.memory_search({"query": {"hybrid": {"vectorWeight": 0.5, "textWeight": 0.5}}})
    world.own("[query]\nvector_weight = 0.9")
    assert dict(world.load().query.overrides) == {"vector_weight": 0.9}


class TestKeys:
    def test_auto_takes_the_first_provider_with_a_key(self, world: World) -> None:
        world.environ.update(VOYAGE_API_KEY="v", GOOGLE_API_KEY="g")
        settings = world.load()
        assert settings.provider.provider == "auto"
        assert (settings.provider.key_provider, revealed(settings)) == ("gemini", "g")
        assert revealed(settings, "voyage") == "v" and revealed(settings, "openai") is None
        assert settings.origins["provider.api_key"].where == "env GOOGLE_API_KEY"

    def test_order_of_the_places_of_a_key(self, world: World) -> None:
        models = {"providers": {"openai": {"apiKey": "theirs", "baseUrl": "https://m.example/v1"}}}
        path = world.openclaw({"models": models})
        assert revealed(world.load()) == "theirs"
        assert world.load().origins["provider.api_key"].where == f"{path}: models.providers.openai.apiKey"
        assert world.load().provider.base_url == "https://m.example/v1"
        world.openclaw({"models": models, "env": {"OPENAI_API_KEY": "block"}})
        assert revealed(world.load()) == "block"
        assert world.load().origins["provider.api_key"].where == f"{path}: env.OPENAI_API_KEY"
        world.environ["OPENAI_API_KEY"] = "env"
        assert revealed(world.load()) == "env"
        world.memory_search({"remote": {"apiKey": "remote", "baseUrl": "https://r.example"}}, models=models)
        assert revealed(world.load()) == "remote" and world.load().provider.base_url == "https://r.example"
        world.own('[provider]\napi_key = "own"')
        assert revealed(world.load()) == "own" and world.load().provider.base_url == "https://r.example"

    def test_a_key_stays_with_the_provider_it_was_written_for(self, world: World) -> None:
        remote = {"apiKey": "for-openai", "baseUrl": "https://o.example", "headers": {"A": "1"}}
        world.memory_search({"provider": "openai", "model": "m", "remote": remote})
        settings = world.load(provider="voyage")
        provider = settings.provider
        assert (provider.api_key, provider.base_url, provider.model, dict(provider.headers)) == (
            None,
            None,
            None,
            {},
        )
        assert revealed(settings, "openai") == "for-openai"
        assert world.load(provider="openai").provider.model == "m"
        assert world.load(provider="static").provider.model is None

    def test_settings_beside_no_provider_name_are_openais(self, world: World) -> None:
        world.environ["VOYAGE_API_KEY"] = "v"
        world.memory_search({"model": "m", "remote": {"apiKey": "k", "baseUrl": "http://127.0.0.1:9/v1"}})
        settings = world.load()
        assert settings.provider.key_provider == "openai" and settings.provider.model == "m"
        voyage = settings.provider.endpoints["voyage"]
        assert voyage.base_url is None and revealed(settings, "voyage") == "v"
        assert world.load(provider="voyage").provider.model is None

    def test_address_without_key_beside_no_name_is_that_of_the_first_with_a_key(self, world: World) -> None:
        world.environ["VOYAGE_API_KEY"] = "v"
        world.memory_search({"model": "m", "remote": {"baseUrl": "http://127.0.0.1:9/v1"}})
        provider = world.load().provider
        assert (provider.key_provider, provider.base_url, provider.model) == (
            "voyage",
            "http://127.0.0.1:9/v1",
            "m",
        )

    def test_a_local_providers_address_is_that_of_its_fallback(self, world: World) -> None:
        world.memory_search({"provider": "local", "fallback": "openai", "remote": {"apiKey": "k"}})
        settings = world.load()
        assert settings.provider.api_key is None and revealed(settings, "openai") == "k"

    def test_headers_are_united_whatever_their_case(self, world: World) -> None:
        world.memory_search(
            {"provider": "gemini", "remote": {"headers": {"x-a": "remote", "X-C": "c"}}},
            models={"providers": {"google": {"headers": {"X-A": "models", "X-B": "b"}, "apiKey": "g"}}},
        )
        assert dict(world.load().provider.headers) == {"X-B": "b", "x-a": "remote", "X-C": "c"}

    def test_a_missing_variable_is_told_when_the_key_is_needed(self, world: World) -> None:
        path = world.memory_search({"provider": "openai", "remote": {"apiKey": "${NO_KEY}"}})
        key = world.load().provider.api_key
        assert key is not None and not key.available
        with pytest.raises(ConfigError) as caught:
            key.reveal()
        assert f"{path}: agents.defaults.memorySearch.remote.apiKey needs" in str(caught.value)
        assert "NO_KEY" in str(caught.value)

    def test_auto_passes_over_a_provider_whose_key_is_missing(self, world: World) -> None:
        world.environ["MISTRAL_API_KEY"] = "m"
        world.openclaw({"models": {"providers": {"voyage": {"apiKey": "${NO_KEY}"}}}})
        settings = world.load()
        assert settings.provider.key_provider == "mistral"
        assert [note.code for note in settings.warnings] == ["provider-key-missing"]

    def test_trouble_of_an_unused_provider_is_not_ours(self, world: World) -> None:
        world.environ.update(OPENAI_API_KEY="o", VOYAGE_API_KEY="v")
        world.openclaw({"models": {"providers": {"voyage": {"baseUrl": "${NO_URL}"}}}})
        settings = world.load()
        assert settings.provider.key_provider == "openai"
        with pytest.raises(ConfigError, match="NO_URL"):
            revealed(settings, "voyage")
        with pytest.raises(ConfigError, match="NO_URL"):
            world.load(provider="voyage")

    def test_references_to_secrets(self, world: World) -> None:
        world.environ["REAL"] = "from-env"
        models = {
            "openai": {"apiKey": {"source": "env", "provider": "default", "id": "REAL"}},
            "voyage": {"apiKey": {"source": "file", "provider": "x", "id": "y"}},
        }
        world.openclaw({"models": {"providers": models}})
        assert revealed(world.load()) == "from-env"
        with pytest.raises(ConfigError, match="secret store"):
            revealed(world.load(), "voyage")

    def test_the_name_of_the_variable_stands_for_geminis_key(self, world: World) -> None:
        world.memory_search({"provider": "gemini", "remote": {"apiKey": "GEMINI_API_KEY"}})
        with pytest.raises(ConfigError, match="GEMINI_API_KEY, which is not set"):
            revealed(world.load())
        world.environ["GEMINI_API_KEY"] = "g"
        assert revealed(world.load()) == "g"


class TestDataFolder:
    def test_the_variable_moves_it(self, world: World) -> None:
        world.environ["OPENCLAW_MEM_HOME"] = "~/mine"
        settings = world.load(workspace=Path("/My Notes"))
        assert settings.data_dir == world.home / "mine"
        assert settings.index_path.parent.name.startswith("my-notes-")

    @pytest.mark.parametrize("inside", ["", "/memory", "/workspace/x"])
    def test_never_inside_of_openclaws_folder(self, world: World, inside: str) -> None:
        world.environ["OPENCLAW_MEM_HOME"] = str(world.state) + inside
        with pytest.raises(ConfigError, match="OPENCLAW_MEM_HOME"):
            world.load()

    def test_not_by_a_link_either(self, world: World) -> None:
        (world.cwd / "link").symlink_to(world.state)
        world.environ["OPENCLAW_MEM_HOME"] = "link/x"
        with pytest.raises(ConfigError, match="is in OpenClaw's folder"):
            world.load()

    def test_index_paths_keep_workspaces_and_agents_apart(self, tmp_path: Path) -> None:
        one, two = tmp_path / "a" / "notes", tmp_path / "b" / "notes"
        one.mkdir(parents=True)
        (tmp_path / "link").symlink_to(one)
        assert index_path(tmp_path, one, "x") != index_path(tmp_path, two, "x")
        assert index_path(tmp_path, one, "x") != index_path(tmp_path, one, "y")
        assert index_path(tmp_path, one, "x") == index_path(tmp_path, tmp_path / "link", "x")

    @pytest.mark.parametrize(
        ("name", "slug"), [("記憶", "workspace-"), ("/", "workspace-"), ("A  b!c" * 20, "a-b-ca-b-c")]
    )
    def test_slugs_are_plain(self, tmp_path: Path, name: str, slug: str) -> None:
        folder = index_path(tmp_path, Path("/x") / name, "m").parent.name
        assert folder.startswith(slug) and folder.isascii() and len(folder) <= 41


class TestEditor:
    def test_order(self, world: World) -> None:
        world.environ["EDITOR"] = "ed"
        assert world.load().editor == "ed"
        world.environ["VISUAL"] = "vi -v"
        assert (world.load().editor, world.load().origins["editor"].where) == ("vi -v", "env VISUAL")
        world.own('editor = "hx"')
        assert world.load().editor == "hx"
        world.environ["OPENCLAW_MEM_EDITOR"] = "nano"
        assert world.load().editor == "nano"
