"""The settings as rows, as JSON and as a fragment; and that no key is ever shown, wherever it stood."""

from __future__ import annotations

import copy
import dataclasses
import json
import re
import traceback
from pathlib import Path
from typing import Any

import json5
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_mem_engine.config.knob_settings import KNOB_SETTINGS
from openclaw_mem_engine.config.secret import Secret, printable, shown, without_credentials
from openclaw_mem_engine.config.settings import SETTINGS
from openclaw_mem_engine.config.show import describe, fragment, reference, to_dict
from openclaw_mem_engine.errors import ConfigError
from openclaw_mem_engine.providers.resolve import choices
from openclaw_mem_engine.ranking.profiles import reference as knob_reference
from support.config_world import World

PLANTED = "planted-Zk4vQ9"


def planted_world(world: World) -> None:
    """Secrets in every place that may hold one."""
    world.environ.update(OPENAI_API_KEY=f"{PLANTED}-env", SHELL_KEY=f"{PLANTED}-shell")
    world.openclaw(
        {
            "env": {"MISTRAL_API_KEY": f"{PLANTED}-block"},
            "models": {
                "providers": {
                    "google": {
                        "apiKey": f"{PLANTED}-models",
                        "headers": {"Authorization": f"Bearer {PLANTED}"},
                    },
                    "voyage": {"apiKey": "${SHELL_KEY}"},
                }
            },
            "agents": {
                "defaults": {
                    "memorySearch": {
                        "provider": "openai",
                        "remote": {
                            "apiKey": f"{PLANTED}-remote",
                            "baseUrl": f"https://user:{PLANTED}@proxy.example/v1?key={PLANTED}",
                            "headers": {"X-Key": f"{PLANTED}-header"},
                        },
                    }
                }
            },
        }
    )


def test_no_secret_is_ever_shown(world: World) -> None:
    planted_world(world)
    settings = world.load()
    assert settings.provider.api_key is not None
    assert settings.provider.api_key.reveal() == f"{PLANTED}-remote"
    shown_texts = [
        repr(settings),
        str(settings.provider),
        f"{settings.provider.api_key} {settings.provider.api_key!r}",
        repr(describe(settings)),
        json.dumps(to_dict(settings)),
        repr(dataclasses.asdict(settings.provider.batch)),
        repr(settings.provider.endpoints),
    ]
    for text in shown_texts:
        assert PLANTED not in text
    rows = {row.key: row for row in describe(settings)}
    assert rows["provider.api_key"].value_text == "set"
    assert rows["provider.headers"].value_text == "X-Key"
    assert rows["provider.base_url"].value_text == "https://…@proxy.example/v1?…"


BAD_SECRET_FILES = [
    {"remote": {"apiKey": ["planted-Zk4vQ9"]}},
    {"remote": {"apiKey": 1234567890}},
    {"remote": {"apiKey": "planted-Zk4vQ9\0"}},
    {"remote": {"headers": {"A": ["planted-Zk4vQ9"]}}},
    {"remote": {"headers": "planted-Zk4vQ9"}},
    {"remote": "planted-Zk4vQ9"},
    {"provider": "openai", "remote": {"headers": {"A": "planted-Zk4vQ9\n"}}},
    {"provider": "openai", "remote": {"baseUrl": "ftp://u:planted-Zk4vQ9@h"}},
    {"provider": "openai", "remote": {"baseUrl": "https://u:planted-Zk4vQ9@h/${NO}"}},
    {"query": {"minScore": "sk-planted-Zk4vQ9"}},
]


@pytest.mark.parametrize("content", BAD_SECRET_FILES, ids=str)
def test_no_error_repeats_a_secret(world: World, content: Any) -> None:
    world.memory_search(content)
    with pytest.raises(ConfigError) as caught:
        world.load()
    text = "".join(traceback.format_exception(caught.value))
    assert PLANTED not in text and "1234567890" not in text


def test_no_note_repeats_a_secret(world: World) -> None:
    world.memory_search({"provider": "sk-planted-Zk4vQ9-planted"})
    assert PLANTED not in json.dumps(to_dict(world.load())) + str(choices(world.load()))


@pytest.mark.parametrize("text", ['{"apiKey": "planted-Zk4vQ9" oops}', '{apiKey: "planted-Zk4vQ9'])
def test_no_broken_file_repeats_a_secret(world: World, text: str) -> None:
    world.openclaw(text)
    with pytest.raises(ConfigError) as caught:
        world.load()
    assert PLANTED not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("text", ['api_key = "planted-Zk4vQ9"', '[provider]\napi_key = "planted-Zk4vQ9" x'])
def test_no_error_of_our_own_file_repeats_a_secret(world: World, text: str) -> None:
    world.own(text)
    with pytest.raises(ConfigError) as caught:
        world.load()
    assert PLANTED not in "".join(traceback.format_exception(caught.value))


class TestSecret:
    def test_it_survives_copies(self) -> None:
        secret = Secret("abc")
        assert copy.deepcopy(secret) == secret == copy.copy(secret) != Secret("abd")
        assert hash(secret) == hash(Secret("abc")) and secret != "abc"
        with pytest.raises(TypeError):
            json.dumps(secret)
        assert not hasattr(secret, "__dict__")

    def test_a_missing_one_raises_when_it_is_needed(self) -> None:
        secret = Secret.missing("set FOO")
        assert not secret.available and repr(secret) == "Secret(missing)" and secret.problem == "set FOO"
        with pytest.raises(ConfigError, match="set FOO"):
            secret.reveal()

    @pytest.mark.parametrize("value", ["sk-abcdefgh", "AIzaSyAbcdefghijk", "x" * 40, "ghp_0123456789"])
    def test_what_looks_like_a_key_is_hidden(self, value: str) -> None:
        assert value not in shown(value)

    def test_long_values_are_cut(self) -> None:
        assert len(shown("word " * 100)) <= 60

    def test_urls_lose_their_credentials(self) -> None:
        assert without_credentials("https://a:b@h/p?k=v") == "https://…@h/p?…"
        assert without_credentials("/plain/path?x") == "/plain/path?x"


class TestRows:
    def test_one_row_for_every_key(self, world: World) -> None:
        rows = describe(world.load())
        assert [row.key for row in rows] == list(SETTINGS)
        assert all(row.allowed and row.origin.where for row in rows)

    def test_values_are_readable(self, world: World) -> None:
        path = world.memory_search({"query": {"minScore": 0.25, "hybrid": {"mmr": {"enabled": True}}}})
        rows = {row.key: row for row in describe(world.load())}
        assert rows["query.min_score"].value_text == "0.25"
        assert rows["query.mmr"].value_text == "true"
        assert rows["query.fusion"].value_text == "weighted"
        assert rows["query.fusion"].origin.where == "profile documented"
        assert rows["query.candidate_limit"].value_text == "none"
        assert rows["sources"].value_text == "memory"
        assert rows["query.min_score"].origin.where == f"{path}: agents.defaults.memorySearch.query.minScore"

    def test_no_escape_sequence_reaches_the_terminal(self, world: World) -> None:
        world.memory_search({"model": "m\x1b[31m", "provider": "openai", "extraPaths": ["a\x07b"]})
        for row in describe(world.load()):
            assert row.value_text.isprintable() and row.origin.where.isprintable()
        assert printable("é\u202e日") == "é\\u202e日"

    def test_the_dictionary_is_json_and_versioned(self, world: World) -> None:
        world.memory_search({"query": {"maxResults": 3}, "odd": 1})
        data = json.loads(json.dumps(to_dict(world.load())))
        assert data["version"] == 1
        assert data["settings"]["query.max_results"]["value"] == 3
        assert data["settings"]["query.mmr"]["value"] is False
        assert data["warnings"][0]["code"] == "config-unknown-key"
        assert data["openclaw"]["backend"] == "builtin"
        odd = {"key": "agents.defaults.memorySearch.odd", "reason": "unknown", "hint": None}
        assert data["openclaw"]["ignored"] == [odd]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://h/v1#key=abc", "https://h/v1#…"),
        ("https://h/v1?a=b#abc", "https://h/v1?…"),
        ("https://me:p@ss@h/v1", "https://…@h/v1"),
        ("https://h/v1/me@example", "https://h/v1/me@example"),
    ],
)
def test_an_address_is_shown_without_what_may_be_a_key(url: str, shown: str) -> None:
    assert without_credentials(url) == shown


def test_the_page_of_settings_is_up_to_date() -> None:
    page = Path(__file__).parents[2] / "docs" / "settings.md"
    assert page.read_text("utf-8").endswith(reference())
    ranking = page.with_name("ranking.md").read_text("utf-8")
    assert ranking.endswith(knob_reference())


#: A value of each kind; one with limits or choices gets the first of these.
SAMPLES = {
    "switch": True,
    "text": "none",
    "texts": ["text"],
    "path": "/folder",
    "secret": "key",
    "number": 0.5,
}
SAMPLES |= {"url": "https://h", "headers": {"A": "b"}, "duration": "5m", "table": {}, "tables": []}


def test_the_page_names_keys_of_openclaw_that_are_read(world: World) -> None:
    pairs = re.findall(r"^\| `([\w.]+)` \|.*\| `([\w.-]+)` \|[^|]*\|$", reference(), flags=re.M)
    assert len(pairs) > 70
    for ours, theirs in pairs:
        rule = SETTINGS[ours].openclaw_rule
        value: Any = int(rule.low or 0) if rule.kind == "int" else SAMPLES[rule.kind]
        if rule.choices:
            value = list(rule.choices[:1]) if rule.kind == "texts" else rule.choices[0]
        content: Any = {"agents": {"defaults": {"memorySearch": {"provider": "openai"}}}}
        *above, last = theirs.split(".")
        table = content
        for name in above:
            table = table.setdefault(name, {})
        table[last] = value
        path = world.openclaw(content)
        rows = {row.key: row for row in describe(world.load())}
        assert rows[ours].origin.where == f"{path}: {theirs}"


class TestFragment:
    def test_text(self) -> None:
        assert fragment({"min_score": 0.2, "mmr": True, "fusion": "rrf"}) == (
            "// For openclaw.json:\n"
            "{\n"
            "  agents: {\n"
            "    defaults: {\n"
            "      memorySearch: {\n"
            "        query: {\n"
            "          minScore: 0.2,\n"
            "          hybrid: {\n"
            "            mmr: {\n"
            "              enabled: true,\n"
            "            },\n"
            "          },\n"
            "        },\n"
            "      },\n"
            "    },\n"
            "  },\n"
            "}\n"
            "// Without a key in OpenClaw; for the config.toml of openclaw-mem:\n"
            "// [query]\n"
            '// fusion = "rrf"\n'
        )

    def test_nothing_gives_nothing(self) -> None:
        assert fragment({}) == ""

    def test_values_that_openclaw_refuses_become_toml(self) -> None:
        text = fragment({"half_life_days": 0.5, "mode": "bm25", "min_score": 2})
        assert "agents" not in text
        assert "// half_life_days = 0.5" in text and '// mode = "bm25"' in text and "// min_score = 2" in text

    def test_a_text_cannot_leave_its_comment(self) -> None:
        assert all(line.startswith("//") for line in fragment({"fusion": "x\n}, evil: {"}).splitlines())

    def test_what_is_pasted_gives_the_knobs_back(self, world: World) -> None:
        knobs = {
            "max_results": 4,
            "min_score": 0.1,
            "vector_weight": 0.25,
            "mode": "vector",
            "candidate_multiplier": 3,
            "mmr": True,
            "mmr_lambda": 0.5,
            "decay": True,
            "half_life_days": 10,
        }
        world.openclaw(fragment(knobs))
        assert dict(world.load().query.overrides) == {**knobs, "bm25_weight": 0.75}

    @given(
        st.dictionaries(
            st.sampled_from(sorted(KNOB_SETTINGS)),
            st.one_of(st.booleans(), st.integers(-5, 50), st.floats(0, 1), st.text(max_size=8)),
        )
    )
    def test_it_is_always_json5_and_loses_no_knob(self, knobs: dict[str, Any]) -> None:
        text = fragment(knobs)
        body = "\n".join(line for line in text.splitlines() if not line.startswith("//"))
        assert isinstance(json5.loads(body), dict) if body else True
        commented = sum(1 for line in text.splitlines() if line.startswith("// ") and " = " in line)
        leaves = sum(1 for line in body.splitlines() if line.endswith(",") and ": " in line)
        extra = ("vector_weight" in knobs) != ("bm25_weight" in knobs)
        assert len(knobs) <= commented + leaves <= len(knobs) + extra


def test_keys_of_the_workbench_are_shown_with_their_actions(world: World) -> None:
    world.own('[keys]\nrebuild = "f9"\nfilter = "f,ctrl+f"\n')
    settings = world.load()
    row = next(row for row in describe(settings) if row.key == "keys")
    assert row.value_text == "rebuild = f9, filter = f,ctrl+f" and row.origin.kind == "toml"
    assert to_dict(settings)["settings"]["keys"]["value"] == ["rebuild = f9", "filter = f,ctrl+f"]
