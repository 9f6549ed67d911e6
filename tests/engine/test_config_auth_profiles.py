"""Keys that OpenClaw keeps for its agents: which of them counts, and that they stay secret and untouched."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.config_world import (
    VALUES,
    World,
    api_key,
    codes,
    keep,
    profiles_file,
    revealed,
    settings_or_our_error,
)


def test_a_key_of_openclaws_is_found_and_its_place_is_told(world: World) -> None:
    path = keep(world, {"openai:default": api_key("openai", "sk-1"), "g": api_key("google", "AIza-2")})
    before = path.read_bytes(), path.stat().st_mtime_ns
    settings = world.load()
    assert (settings.provider.chosen, revealed(settings)) == ("openai", "sk-1")
    assert settings.origins["provider.api_key"].where == f"{path}: profile 'openai:default'"
    assert revealed(settings, "gemini") == "AIza-2"
    origin = settings.provider.endpoints["gemini"].key_origin
    assert origin is not None and origin.where == f"{path}: profile 'g'" and origin.kind == "openclaw"
    assert codes(settings) == []
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before


def test_the_order_of_all_places(world: World) -> None:
    models = {"providers": {"openai": {"apiKey": "models"}}}
    world.openclaw({"models": models})
    assert revealed(world.load()) == "models"
    world.environ["OPENAI_API_KEY"] = "env"
    assert revealed(world.load()) == "env"
    keep(world, {"openai:default": api_key("openai", "profile")})
    assert revealed(world.load()) == "profile"
    world.memory_search({"remote": {"apiKey": "remote"}}, models=models)
    assert revealed(world.load()) == "remote"
    world.own('[provider]\napi_key = "own"')
    assert revealed(world.load()) == "own"


def test_placeholders_and_references_are_followed_and_the_next_place_helps_out(world: World) -> None:
    world.environ.update(REAL="from-env")
    keep(world, {"a": api_key("openai", "${REAL}"), "b": api_key("mistral", "${NOT_SET}")})
    assert revealed(world.load()) == "from-env"
    settings = world.load(provider="mistral")
    key = settings.provider.api_key
    assert key is not None and not key.available and "NOT_SET" in str(key.problem)
    world.environ["MISTRAL_API_KEY"] = "m"
    assert revealed(world.load(provider="mistral")) == "m"
    reference = {"source": "env", "provider": "default", "id": "REAL"}
    keep(world, {"a": {"mode": "api_key", "provider": "OpenAI", "keyRef": reference}})
    assert revealed(world.load()) == "from-env"


class TestWhichProfile:
    TWO = {"openai:a": api_key("openai", "first"), "openai:b": api_key("openai", "second")}  # noqa: RUF012

    @pytest.mark.parametrize(
        ("others", "key"),
        [
            ({}, "first"),
            ({"lastGood": {"openai": "openai:b"}}, "second"),
            ({"lastGood": {"openai": "gone"}}, "first"),
            ({"lastGood": {"openai": "openai:a"}, "order": {"openai": ["openai:b", "openai:a"]}}, "second"),
            ({"order": {"openai": ["gone", "openai:b"]}}, "second"),
            ({"order": {"openai": []}}, "first"),
            ({"order": {"openai": ["gone"]}}, None),
            ({"order": [], "lastGood": "x"}, "first"),
        ],
    )
    def test_order_then_the_last_good_one(
        self, world: World, others: dict[str, Any], key: str | None
    ) -> None:
        keep(world, self.TWO, **others)
        assert revealed(world.load(), "openai") == key

    def test_the_configured_order_counts_when_the_file_has_none(self, world: World) -> None:
        keep(world, self.TWO)
        world.openclaw({"auth": {"order": {"openai": ["openai:b"]}}})
        assert revealed(world.load()) == "second"
        world.openclaw({"auth": {"order": 5}})
        assert revealed(world.load()) == "first"

    def test_a_profile_of_another_provider_never_counts(self, world: World) -> None:
        keep(world, {"openai:x": api_key("anthropic", "k")}, order={"openai": ["openai:x"]})
        settings = world.load()
        assert revealed(settings) is None and settings.provider.chosen == "static"

    def test_an_agent_has_its_own_and_what_it_lacks_from_main(self, world: World) -> None:
        keep(world, {"openai:default": api_key("openai", "mains"), "v": api_key("voyage", "shared")})
        keep(world, {"openai:default": api_key("openai", "works")}, agent="work")
        settings = world.load(agent="work")
        assert (revealed(settings, "openai"), revealed(settings, "voyage")) == ("works", "shared")
        assert revealed(world.load(), "openai") == "mains"


class TestLogins:
    @pytest.mark.parametrize(
        "login",
        [
            {"type": "oauth", "provider": "openai", "access": "secret-a", "refresh": "secret-b"},
            {"type": "token", "provider": "openai", "token": "secret-a"},
            {"mode": "oauth", "provider": "openai-codex", "access": "secret-a"},
        ],
    )
    def test_a_login_is_no_key_and_says_so(self, world: World, login: dict[str, Any]) -> None:
        path = keep(world, {"openai:me": login})
        settings = world.load()
        assert settings.provider.chosen == "static"
        (note,) = settings.warnings
        assert (note.code, note.level) == ("chat-login", "info")
        assert note.text == (
            f"{path}: profile 'openai:me' is a chat login and gives no embeddings. "
            "Set OPENAI_API_KEY to an API key of openai."
        )
        named = world.load(provider="openai").provider.api_key
        assert named is not None and named.problem == note.text
        assert codes(world.load(provider="static")) == []

    def test_with_a_key_it_is_not_worth_a_word(self, world: World) -> None:
        world.environ["OPENAI_API_KEY"] = "k"
        keep(world, {"openai:me": {"type": "oauth", "provider": "openai", "access": "a"}})
        settings = world.load()
        assert revealed(settings) == "k" and codes(settings) == []


class TestBrokenFiles:
    @pytest.mark.parametrize(
        "text",
        [
            '{"profiles": {"a": {"key": "sk-planted-Zk4vQ9"',
            "",
            "[]",
            '"sk-planted-Zk4vQ9-long-enough"',
            '{"profiles": ["sk-planted-Zk4vQ9"]}',
            '{"profiles": "sk-planted-Zk4vQ9"}',
            "[" * 100_000,
            '{"a": ' + "9" * 5000 + "}",
            "\ud800",
            " " * (1 << 21),
        ],
        ids=lambda text: text[:12],
    )
    def test_they_are_a_note_and_never_an_error(self, world: World, text: str) -> None:
        path = profiles_file(world)
        path.parent.mkdir(parents=True)
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        world.environ["OPENAI_API_KEY"] = "env"
        settings = world.load()
        assert revealed(settings) == "env"
        (note,) = settings.warnings
        assert (note.code, note.level) == ("auth-profiles-unreadable", "warning")
        assert str(path) in note.text and "planted" not in note.text and len(note.text) < 500
        assert codes(world.load(provider="openai")) == ["auth-profiles-unreadable"]
        assert codes(world.load(provider="static")) == []

    def test_a_folder_in_its_place(self, world: World) -> None:
        profiles_file(world).mkdir(parents=True)
        (note,) = world.load().warnings
        assert "not a plain file" in note.text

    def test_entries_that_make_no_sense_are_passed_over(self, world: World) -> None:
        keep(
            world,
            {
                "a": "sk-x",
                "b": api_key("openai", 5),
                "c": {"type": ["api_key"], "provider": "openai", "key": "k"},
                "d": {"type": "api_key", "provider": 5, "key": "k"},
                "e": api_key("openai", " "),
                "f": api_key("openai", "good"),
            },
        )
        assert revealed(world.load()) == "good"

    def test_a_key_pasted_as_the_name_of_a_profile_stays_hidden(self, world: World) -> None:
        keep(world, {"sk-planted-Zk4vQ9": api_key("openai", "k"), "x\x1b[31m": api_key("voyage", "v")})
        settings = world.load()
        assert "planted" not in repr(settings)
        where = settings.provider.endpoints["voyage"].key_origin
        assert where is not None and where.where.isprintable()


@settings(deadline=None, max_examples=150)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "profiles": VALUES
            | st.dictionaries(
                st.text(max_size=5),
                st.fixed_dictionaries(
                    {},
                    optional={
                        "type": st.sampled_from(["api_key", "oauth", "token"]) | VALUES,
                        "provider": st.sampled_from(["openai", "google", "ollama"]) | VALUES,
                        "key": VALUES,
                        "keyRef": VALUES,
                    },
                ),
                max_size=4,
            ),
            "order": VALUES | st.dictionaries(st.sampled_from(["openai", "google"]), VALUES),
            "lastGood": VALUES | st.dictionaries(st.sampled_from(["openai", "google"]), VALUES),
        },
    )
)
def test_any_file_of_keys(content: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder))
        path = profiles_file(world)
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(content), encoding="utf-8")
        settings_or_our_error(world)
        assert world.load()  # never an error
