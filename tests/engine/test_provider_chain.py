"""Which embedders a configuration comes to, in which role and why; against recorded choices too."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from openclaw_mem_engine.config.secret import Secret
from openclaw_mem_engine.config.settings import PROVIDER_NAMES, Endpoint, ProviderSettings, Settings
from openclaw_mem_engine.config.show import describe, to_dict
from openclaw_mem_engine.errors import ConfigError
from openclaw_mem_engine.providers.registry import EmbedderSpec
from openclaw_mem_engine.providers.resolve import (
    ORDER,
    Choice,
    choices,
    prospects,
)
from support.config_world import KEYS, World, planted_everywhere

RECORDED: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "data" / "openclaw" / "provider_requests.json").read_text("utf-8")
)
DEFAULT_HUB_MODEL = "hf:ggml-org/embeddinggemma-300M-GGUF/embeddinggemma-300M-Q8_0.gguf"


def specs_of(settings: Settings, role: str) -> tuple[EmbedderSpec, ...]:
    return tuple(one.spec for one in choices(settings) if one.spec and one.role == role)


def primary_spec(settings: Settings) -> EmbedderSpec:
    [spec] = specs_of(settings, "primary")
    return spec


def fallback_spec(settings: Settings) -> EmbedderSpec | None:
    return next(iter(specs_of(settings, "fallback")), None)


def also_specs(settings: Settings) -> tuple[EmbedderSpec, ...]:
    return specs_of(settings, "also")


def link(settings: Settings, name: str, role: str | None = None) -> Choice:
    return next(one for one in choices(settings) if one.name == name and role in (None, one.role))


def roles(settings: Settings) -> dict[str, str]:
    """Roles by name, of those in use."""
    return {one.name: one.role for one in choices(settings) if one.role != "not-selected"}


def whys(settings: Settings) -> dict[str, str]:
    return {one.name: one.why for one in choices(settings)}


def test_without_anything_the_built_in_table_answers(world: World) -> None:
    settings = world.load()
    assert [one.name for one in choices(settings)] == list(ORDER)
    assert set(ORDER) == {name for name in PROVIDER_NAMES if name != "auto"}
    assert roles(settings) == {"static": "primary"}
    assert whys(settings) == {
        "local": "no model file is configured (provider.local_model_path)",
        "openai": "needs OPENAI_API_KEY",
        "gemini": "needs GEMINI_API_KEY",
        "voyage": "needs VOYAGE_API_KEY",
        "mistral": "needs MISTRAL_API_KEY",
        "ollama": "used only when selected (provider.name)",
        "static": "built-in model, English only",
        "none": "not configured",
    }
    assert link(settings, "static").model == "static-minilm-256-int8" and link(settings, "static").host == ""
    assert primary_spec(settings) == EmbedderSpec("static")
    assert fallback_spec(settings) is None and also_specs(settings) == ()


def test_what_auto_chooses_says_that_text_leaves(world: World) -> None:
    world.environ.update(OPENAI_API_KEY="sk-o", VOYAGE_API_KEY="pa-v")
    settings = world.load()
    assert link(settings, "openai") == Choice(
        "openai",
        "primary",
        "key from env OPENAI_API_KEY; selected by auto, so note text is sent to api.openai.com",
        "text-embedding-3-small",
        "api.openai.com",
        "env OPENAI_API_KEY",
    )
    reasons = whys(settings)
    assert reasons["voyage"] == reasons["static"] == "not needed: auto selects openai first"
    assert reasons["gemini"] == "needs GEMINI_API_KEY"
    assert link(settings, "voyage").key_origin == "env VOYAGE_API_KEY"
    assert (link(settings, "voyage").model, link(settings, "voyage").host) == ("", "")


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("{root}/gone.gguf", "the model file {root}/gone.gguf does not exist"),
        (
            "hf:a/b/c.gguf",
            "its model would be downloaded, so it is used only when selected (provider.name)",
        ),
    ],
)
def test_why_auto_takes_no_local_model(world: World, path: str, why: str) -> None:
    world.memory_search({"local": {"modelPath": path.format(root=world.root)}})
    assert whys(world.load())["local"] == why.format(root=world.root)


class TestLocal:
    def test_a_model_file_comes_first(self, world: World) -> None:
        model = world.root / "m.gguf"
        model.write_bytes(b"GGUF")
        world.environ["OPENAI_API_KEY"] = "sk-o"
        world.own(f'[provider]\nlocal_model_path = "{model}"\nlocal_idle_minutes = 2')
        settings = world.load()
        assert link(settings, "local") == Choice("local", "primary", f"model {model}", str(model))
        assert whys(settings)["openai"] == "not needed: auto selects local first"
        spec = primary_spec(settings)
        assert (spec.provider, spec.model, spec.idle_s) == ("local", str(model), 120.0)
        assert spec.model_folder == settings.data_dir / "models"
        assert (spec.timeout_s, spec.batch_timeout_s) == (300.0, 600.0)

    def test_named_with_a_file_that_is_not_there(self, world: World) -> None:
        world.own('[provider]\nname = "local"\nlocal_model_path = "/gone/m.gguf"')
        assert link(world.load(), "local").why.endswith("; the model file /gone/m.gguf does not exist")

    def test_named_without_a_file_it_is_the_default_model(self, world: World) -> None:
        world.own(f'[provider]\nname = "local"\nlocal_model_cache_dir = "{world.root}/cache"')
        settings = world.load()
        found = link(settings, "local")
        assert found.role == "primary" and found.model == DEFAULT_HUB_MODEL
        assert found.why == (
            f"provider.name = local ({world.own_file}: provider.name); "
            "no model file is configured (provider.local_model_path), so the default model is used"
        )
        assert primary_spec(settings).model == ""
        assert primary_spec(settings).model_folder == world.root / "cache"


class TestNamed:
    def test_without_a_key_it_stays_primary_and_the_fallback_is_ready(self, world: World) -> None:
        world.own('[provider]\nname = "openai"\nfallback = "static"')
        settings = world.load()
        assert roles(settings) == {"openai": "primary", "static": "fallback"}
        reasons = whys(settings)
        named = f"provider.name = openai ({world.own_file}: provider.name)"
        assert reasons["openai"] == f"{named}; needs OPENAI_API_KEY"
        assert reasons["static"] == "used when openai fails; built-in model, English only"
        assert reasons["gemini"] == reasons["none"] == "provider.name = openai"
        assert primary_spec(settings).api_key == ""
        assert fallback_spec(settings) == EmbedderSpec("static")

    def test_a_missing_variable_and_a_login_are_passed_on(self, world: World) -> None:
        path = world.memory_search({"provider": "voyage", "remote": {"apiKey": "${NO_KEY}"}})
        settings = world.load()
        spec = primary_spec(settings)
        assert spec.api_key == "" and "NO_KEY, which is not set" in spec.key_missing
        assert f"{path}: agents.defaults.memorySearch.remote.apiKey needs" in whys(settings)["voyage"]
        assert link(settings, "voyage").key_origin == ""
        assert "remote.apiKey needs" in prospects(settings)["voyage"]
        planted_everywhere(world, "logins")
        assert "is a chat login" in primary_spec(world.load(provider="mistral")).key_missing

    def test_servers_of_ones_own(self, world: World) -> None:
        world.memory_search({"provider": "openai", "remote": {"baseUrl": "http://u:pw@127.0.0.1:8911/v1"}})
        found = link(world.load(), "openai")
        assert found.host == "" and found.why.endswith("at 127.0.0.1:8911 on this machine")
        assert "may need OPENAI_API_KEY" in found.why and "pw" not in repr(found)
        known = prospects(world.load())
        said = "may need OPENAI_API_KEY"
        assert known["openai"] == f"this machine (127.0.0.1:8911); {said}"
        assert known["voyage"] == "api.voyageai.com; needs VOYAGE_API_KEY"
        assert known["local"] == "this machine; default model" and "none" not in known
        wrong = ProviderSettings(provider="static", endpoints={"openai": Endpoint("ftp://heron")})
        said = prospects(replace(world.load(), provider=wrong))["openai"]
        assert said.startswith("The base URL of the openai provider must look like"), "it raises nothing"
        headers = {"authorization": "Bearer planted"}
        world.memory_search({"provider": "openai", "remote": {"headers": headers}})
        assert link(world.load(), "openai").key_origin == "the headers"
        assert primary_spec(world.load()).headers == headers

    def test_ollama(self, world: World) -> None:
        settings = world.load(provider="ollama")
        assert link(settings, "ollama") == Choice(
            "ollama",
            "primary",
            "provider.name = ollama (--provider); needs no key; at 127.0.0.1:11434 on this machine",
            "nomic-embed-text",
        )
        world.own('[provider]\nname = "ollama"\nmodel = "bge-m3"\nbase_url = "http://box:11434/v1"')
        found = link(world.load(), "ollama")
        assert (found.model, found.host) == ("bge-m3", "box:11434")

    def test_none_means_no_vectors_at_all(self, world: World) -> None:
        world.own('[provider]\nname = "none"\nfallback = "static"\nalso = ["openai"]')
        settings = world.load()
        assert roles(settings) == {"none": "primary"}
        assert link(settings, "none").why.endswith("BM25 only")
        assert primary_spec(settings) == EmbedderSpec("none")
        assert fallback_spec(settings) is None and also_specs(settings) == ()

    def test_an_address_without_a_host_is_an_error(self, world: World) -> None:
        world.own('[provider]\nname = "openai"\nbase_url = "http://"')
        with pytest.raises(ConfigError, match=r"provider\.base_url is not a usable URL"):
            choices(world.load())


class TestFallbackAndAlso:
    def test_a_fallback_never_gets_the_primarys_model_key_or_address(self, world: World) -> None:
        world.environ["MISTRAL_API_KEY"] = "m"
        remote = {"apiKey": "sk-o", "baseUrl": "http://127.0.0.1:9/v1", "headers": {"X-A": "1"}}
        world.memory_search(
            {"provider": "openai", "model": "text-embedding-3-large", "fallback": "mistral", "remote": remote}
        )
        settings = world.load()
        assert fallback_spec(settings) == EmbedderSpec("mistral", api_key="m")
        assert primary_spec(settings).model == "text-embedding-3-large"
        assert whys(settings)["mistral"] == (
            "used when openai fails; key from env MISTRAL_API_KEY; then note text is sent to api.mistral.ai"
        )

    def test_a_model_that_was_configured_for_it_is_used(self, world: World) -> None:
        world.memory_search({"provider": "voyage", "model": "voyage-3", "remote": {"apiKey": "pa-v"}})
        world.own('[provider]\nname = "static"\nfallback = "voyage"\nalso = ["voyage"]\nconcurrency = 2')
        settings = world.load()
        expected = EmbedderSpec("voyage", "voyage-3", api_key="pa-v", concurrency=2)
        assert fallback_spec(settings) == expected and also_specs(settings) == (expected,)
        assert [(one.name, one.role) for one in choices(settings) if one.role != "not-selected"] == [
            ("voyage", "fallback"),
            ("voyage", "also"),
            ("static", "primary"),
        ]

    def test_one_that_is_the_primary_stands_in_for_nobody(self, world: World) -> None:
        world.environ["OPENAI_API_KEY"] = "sk-o"
        world.own('[provider]\nfallback = "openai"')
        assert fallback_spec(world.load()) is None and roles(world.load()) == {"openai": "primary"}

    def test_further_embedders_come_in_the_order_of_the_chain_and_once(self, world: World) -> None:
        world.environ["OPENAI_API_KEY"] = "sk-o"
        world.own(
            '[provider]\nname = "openai"\nalso = ["static", "openai:text-embedding-3-large", '
            '"openai:text-embedding-3-small", "openai:openai/text-embedding-3-large", "local"]'
        )
        settings = world.load()
        specs = also_specs(settings)
        assert [(spec.provider, spec.model) for spec in specs] == [
            ("local", ""),
            ("openai", "text-embedding-3-large"),
            ("static", ""),
        ]
        assert specs[1].api_key == "sk-o"
        links = [one for one in choices(settings) if one.role == "also"]
        assert [one.name for one in links] == [spec.provider for spec in specs]
        assert links[1].why == (
            "its vectors are kept in addition to those of openai; key from env OPENAI_API_KEY; "
            "note text is sent to api.openai.com"
        )
        assert [one.role for one in choices(settings) if one.name == "openai"] == ["primary", "also"]

    def test_exactly_one_primary_whatever_is_chosen(self, world: World) -> None:
        for name in PROVIDER_NAMES:
            for fallback in PROVIDER_NAMES[1:]:
                world.own(
                    f'[provider]\nname = "{name}"\nfallback = "{fallback}"\nalso = ["static", "gemini"]'
                )
                settings = world.load()
                found = [one.role for one in choices(settings)]
                assert found.count("primary") == 1
                assert found.count("fallback") == (fallback_spec(settings) is not None)
                assert found.count("also") == len(also_specs(settings))
                assert {one.name for one in choices(settings)} == set(ORDER)


def test_settings_made_by_hand(world: World) -> None:
    provider = ProviderSettings("openai", "m", base_url="http://127.0.0.1:9/v1", api_key=Secret("k"))
    settings = replace(world.load(), provider=provider)
    assert primary_spec(settings) == EmbedderSpec("openai", "m", "http://127.0.0.1:9/v1", "k")
    assert link(settings, "openai").key_origin == "the settings"
    assert primary_spec(replace(settings, provider=ProviderSettings("none"))).provider == "none"


@pytest.mark.parametrize("place", ["profiles", "env", "models", "logins"])
@pytest.mark.parametrize("provider", ["auto", "openai", "gemini", "voyage", "mistral", "static"])
def test_no_key_is_ever_told(world: World, place: str, provider: str) -> None:
    planted_everywhere(world, place)
    world.own('[provider]\nfallback = "mistral"\nalso = ["voyage", "openai:large"]')
    settings = world.load(provider=provider)
    specs = (primary_spec(settings), fallback_spec(settings), *also_specs(settings))
    of_specs = repr((choices(settings), specs))
    assert "secret" not in of_specs.lower()
    notes = [note.text for note in settings.warnings]
    shown = f"{of_specs}{settings!r}{describe(settings)!r}{json.dumps(to_dict(settings))}{notes}"
    assert not [key for key in KEYS.values() if key in shown or key[6:] in shown]


def recorded(label: str) -> dict[str, Any]:
    return next(case for case in RECORDED if case["label"] == label)


@pytest.mark.goldens
@pytest.mark.parametrize(
    ("label", "environ"),
    [
        ("openai", {}),
        ("voyage", {}),
        ("mistral", {}),
        ("gemini", {}),
        ("model prefixes openai", {}),
        ("model prefixes voyage", {}),
        ("model prefixes gemini", {}),
        ("models.providers base and headers", {}),
        ("remote overrides models.providers", {}),
        ("openai no key, fallback mistral with key", {}),
        ("auto with VOYAGE_API_KEY", {"VOYAGE_API_KEY": "V"}),
        ("auto with VOYAGE and GEMINI keys", {"VOYAGE_API_KEY": "V", "GEMINI_API_KEY": "G"}),
        (
            "auto with all keys",
            {"VOYAGE_API_KEY": "V", "GEMINI_API_KEY": "G", "OPENAI_API_KEY": "O", "MISTRAL_API_KEY": "M"},
        ),
        ("auto with MISTRAL_API_KEY", {"MISTRAL_API_KEY": "M"}),
        ("gemini key named in config", {"GEMINI_API_KEY": "G"}),
        ("local without the module, fallback openai with key", {}),
    ],
)
def test_the_choice_is_that_of_the_program(world: World, label: str, environ: dict[str, str]) -> None:
    case = recorded(label)
    world.environ.update(environ)
    names = ("provider", "model", "fallback", "remote")
    options = json.loads(json.dumps(case["options"]).replace("<PORT>", "9"))
    search = {name: options[name] for name in names if name in options}
    world.memory_search(search, **options.get("config", {}))
    settings, expected = world.load(), case["result"]
    assert settings.provider.provider == expected["requestedProvider"]
    # With a fallback recorded, the original has given up its first choice; here that one stays and fails.
    role = "fallback" if "fallbackFrom" in expected else "primary"
    found = next(one for one in choices(settings) if one.role == role)
    assert (found.name, found.model) == (expected["id"], expected["model"])
    if role == "fallback":
        assert primary_spec(settings).provider == expected["fallbackFrom"]
    spec = fallback_spec(settings) if role == "fallback" else primary_spec(settings)
    assert spec is not None
    for request in case["requests"]:
        sent = request["headers"]
        assert spec.api_key in (
            sent.get("authorization", "").removeprefix("Bearer "),
            sent.get("x-goog-api-key"),
        )
        assert all(sent[name.lower()] == value for name, value in spec.headers.items())


@pytest.mark.goldens
def test_without_any_key_the_original_has_nothing_and_we_have_the_table(world: World) -> None:
    assert recorded("auto no key")["result"]["id"] is None
    assert primary_spec(world.load()).provider == "static"
    assert recorded("openai no key")["result"]["id"] is None
    assert primary_spec(world.load(provider="openai")).api_key == ""
    case = recorded("openai no key, fallback voyage no key")
    world.memory_search(case["options"])
    fallback = fallback_spec(world.load())
    assert fallback is not None and (fallback.provider, fallback.api_key) == ("voyage", "")


def test_choosing_the_table_imports_nothing_of_the_others(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom pathlib import Path\n"
        "from openclaw_mem_engine.config.load import load_settings\n"
        "from openclaw_mem_engine.config.sources import UserFolders\n"
        "from openclaw_mem_engine.providers.resolve import choices\n"
        "from openclaw_mem_engine.providers.registry import make_embedder\n"
        f"home = Path({str(tmp_path)!r})\n"
        "folders = UserFolders(home / 'data', home / 'config')\n"
        "settings = load_settings(environ={}, home=home, cwd=Path('/'), folders=folders)\n"
        "[spec] = [one.spec for one in choices(settings) if one.role == 'primary']\n"
        "assert make_embedder(spec).id == 'static'\n"
        "names = ('httpx', 'httpx2', 'numpy', 'llama_cpp', 'ssl',\n"
        "  'openclaw_mem_engine.providers.remote.embedder',\n"
        "  'openclaw_mem_engine.providers.remote.wires', 'openclaw_mem_engine.providers.local')\n"
        "print([name for name in names if name in sys.modules])\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
