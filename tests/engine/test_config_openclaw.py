"""Reading OpenClaw's configuration: where it is found, what it may hold, which agent it is about."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from openclaw_mem_engine.errors import ConfigError, UsageError
from support.config_world import World

JSON5_CONFIG = """
// our own words, in JSON5
{
  agents: {
    defaults: {
      workspace: '~/notes',
      memorySearch: {
        provider: "openai",
        model: "text-embedding-3-large",
        query: { maxResults: 9, minScore: .25,
                 hybrid: { vectorWeight: 0.2, textWeight: 0.2, candidateMultiplier: 6,
                 mmr: { enabled: true, lambda: 0.5 }, temporalDecay: { enabled: true, halfLifeDays: 14 } } },
        sync: { watchDebounceMs: 700, sessions: { deltaMessages: 3 } },
        store: { vector: { enabled: false } },
        cache: { maxEntries: 12, },
      },
    },
  },
  memory: { citations: "on", backend: "qmd" },
}
"""


def test_a_json5_file_sets_everything_it_names(world: World) -> None:
    path = world.openclaw(JSON5_CONFIG)
    settings = world.load()
    assert settings.workspace == world.home / "notes"
    assert dict(settings.query.overrides) == {
        "max_results": 9,
        "min_score": 0.25,
        "vector_weight": 0.5,
        "bm25_weight": 0.5,
        "candidate_multiplier": 6,
        "mmr": True,
        "mmr_lambda": 0.5,
        "decay": True,
        "half_life_days": 14,
    }
    assert settings.provider.model == "text-embedding-3-large"
    assert (settings.sync.debounce_ms, settings.sync.session_delta_messages) == (700, 3)
    assert not settings.vector_extension
    assert (settings.citations, settings.openclaw.backend) == ("on", "qmd")
    origin = settings.origins["query.min_score"]
    assert (origin.kind, origin.where) == ("openclaw", f"{path}: agents.defaults.memorySearch.query.minScore")
    assert settings.warnings == ()


def test_hybrid_off_means_vectors_only(world: World) -> None:
    world.memory_search({"query": {"hybrid": {"enabled": False}}})
    assert dict(world.load().query.overrides) == {"mode": "vector"}


def test_one_weight_alone_is_normalised_with_the_default_of_the_other(world: World) -> None:
    world.memory_search({"query": {"hybrid": {"vectorWeight": 0.9}}})
    overrides = world.load().query.overrides
    assert overrides["vector_weight"] == pytest.approx(0.75)
    assert overrides["bm25_weight"] == pytest.approx(0.25)


class TestPlaces:
    def test_state_dir_then_config_path_then_flag(self, world: World) -> None:
        def config(path: Path, score: float) -> Path:
            path.parent.mkdir(exist_ok=True)
            path.write_text(
                json.dumps({"agents": {"defaults": {"memorySearch": {"query": {"minScore": score}}}}})
            )
            return path

        config(world.openclaw_file, 0.1)
        assert world.load().query.overrides["min_score"] == 0.1
        world.environ["OPENCLAW_STATE_DIR"] = "../state"
        config(world.root / "state" / "openclaw.json", 0.2)
        assert world.load().query.overrides["min_score"] == 0.2
        world.environ["OPENCLAW_CONFIG_PATH"] = str(config(world.root / "named.json5", 0.3))
        assert world.load().query.overrides["min_score"] == 0.3
        config(world.cwd / "flag.json", 0.4)
        assert world.load(config=Path("flag.json")).query.overrides["min_score"] == 0.4

    def test_the_state_folder_moves_the_default_workspace(self, world: World) -> None:
        world.environ["OPENCLAW_STATE_DIR"] = str(world.root / "state")
        assert world.load().workspace == world.root / "state" / "workspace"
        assert world.load().openclaw.sessions_dir == world.root / "state/agents/main/sessions"

    @pytest.mark.parametrize("name", [".clawdbot", ".moldbot", ".moltbot"])
    @pytest.mark.parametrize("file", ["openclaw.json", "clawdbot.json", "moltbot.json"])
    def test_a_state_folder_of_an_earlier_name(self, world: World, name: str, file: str) -> None:
        old = world.home / name
        old.mkdir()
        (old / file).write_text('{"memory": {"citations": "off"}}')
        # The file is looked for in every folder; the state is in the first that exists.
        facts = world.load().openclaw
        assert (facts.config_file, facts.state_dir) == (old / file, world.state)
        world.state.rmdir()
        settings = world.load()
        assert settings.openclaw.state_dir == old and settings.citations == "off"
        assert settings.workspace == old / "workspace"
        world.environ["OPENCLAW_STATE_DIR"] = str(world.root / "state")
        assert world.load().openclaw.config_file is None
        del world.environ["OPENCLAW_STATE_DIR"]
        world.state.mkdir()
        assert world.load(config=world.openclaw({})).openclaw.state_dir == world.state
        assert world.load().openclaw.config_file == world.openclaw_file

    def test_a_home_of_its_own(self, world: World) -> None:
        world.environ["OPENCLAW_HOME"] = str(world.root / "service")
        assert world.load().workspace == world.root / "service/.openclaw/workspace"

    def test_a_named_file_must_exist(self, world: World) -> None:
        with pytest.raises(ConfigError, match=r"nowhere\.json does not exist"):
            world.load(config=Path("nowhere.json"))

    def test_a_missing_file_in_their_variable_is_only_told(self, world: World) -> None:
        world.environ["OPENCLAW_CONFIG_PATH"] = str(world.root / "later.json")
        (note,) = world.load().warnings
        assert note.code == "config-missing" and "later.json" in note.text

    def test_toml_is_not_their_format(self, world: World) -> None:
        (world.cwd / "mine.toml").write_text("")
        with pytest.raises(ConfigError, match="OPENCLAW_MEM_CONFIG"):
            world.load(config=Path("mine.toml"))


class TestAgents:
    AGENTS = {  # noqa: RUF012
        "agents": {
            "defaults": {
                "workspace": "/shared",
                "memorySearch": {"extraPaths": ["a"], "query": {"minScore": 0.1}},
            },
            "list": [
                {
                    "id": "Work",
                    "workspace": "~/work",
                    "memorySearch": {"extraPaths": ["b"], "query": {"minScore": 0.6}},
                },
                {"id": "play"},
                {"id": "boss", "default": True},
            ],
        }
    }

    def test_the_marked_agent_is_the_default_and_has_the_common_workspace(self, world: World) -> None:
        path = world.openclaw(self.AGENTS)
        settings = world.load()
        assert (settings.agent, settings.workspace) == ("boss", Path("/shared"))
        assert settings.origins["agent"].where == f"{path}: agents.list[2].id"
        assert settings.openclaw.agents == ("work", "play", "boss")

    def test_an_agents_own_values_win_and_its_paths_are_added(self, world: World) -> None:
        path = world.openclaw(self.AGENTS)
        settings = world.load(agent="work")
        assert settings.workspace == world.home / "work"
        assert settings.query.overrides["min_score"] == 0.6
        assert settings.extra_paths == ("a", "b")
        where = settings.origins["query.min_score"].where
        assert where == f"{path}: agents.list[0].memorySearch.query.minScore"

    def test_another_agent_has_its_own_default_workspace(self, world: World) -> None:
        world.openclaw(self.AGENTS)
        assert world.load(agent="play").workspace == world.state / "workspace-play"

    def test_the_first_agent_is_the_default_when_none_is_marked(self, world: World) -> None:
        world.openclaw({"agents": {"list": [{"id": "one"}, {"id": "two"}]}})
        assert world.load().agent == "one"

    def test_agents_as_a_table(self, world: World) -> None:
        world.openclaw({"agents": {"entries": {"kit": {"workspace": "/kit"}}}})
        assert world.load(agent="kit").workspace == Path("/kit")

    def test_an_agent_that_is_not_configured_is_told(self, world: World) -> None:
        world.openclaw(self.AGENTS)
        (note,) = world.load(agent="nobody").warnings
        assert (note.code, note.level) == ("agent-unknown", "warning"), "printed by every command"
        assert note.text.endswith("openclaw.json. Its agents: Work, play, boss.")
        many = [{"id": f"agent-{number}"} for number in range(9)]
        world.openclaw({"agents": {"list": many}})
        (note,) = world.load(agent="agnet-7").warnings
        first = ", ".join(f"agent-{number}" for number in range(5))
        assert f"openclaw.json. Its agents: {first} and 4 more. Did you mean agent-7, " in note.text

    @pytest.mark.parametrize(
        "name", ["../x", "a/b", "", "a\0b", "a" * 65, "ä", "a b", ".", "..", "a\nb", "-\x1b[31m", "\ud800"]
    )
    def test_hostile_names_are_refused_wherever_they_come_from(self, world: World, name: str) -> None:
        with pytest.raises(UsageError, match="--agent"):
            world.load(agent=name)
        world.openclaw({"agents": {"list": [{"id": name}]}})
        with pytest.raises(ConfigError, match=r"agents\.list\[0\]\.id"):
            world.load()

    def test_a_hostile_name_of_another_agent_harms_nobody(self, world: World) -> None:
        world.openclaw({"agents": {"list": [{"id": "good"}, {"id": "../bad"}]}})
        settings = world.load()
        assert settings.agent == "good" and settings.openclaw.agents == ("good",)

    def test_case_is_folded(self, world: World) -> None:
        assert world.load(agent="Work").index_path.name == "work.sqlite"


class TestPlaceholders:
    def test_they_are_filled_from_the_environment_and_from_the_env_block(self, world: World) -> None:
        world.environ["NOTES"] = "mine"
        world.openclaw(
            {
                "env": {"vars": {"NOTES": "ignored", "SUB": "deep"}},
                "agents": {"defaults": {"workspace": "/data/${NOTES}/${SUB}/$${KEPT}/${lower}"}},
            }
        )
        assert world.load().workspace == Path("/data/mine/deep/${KEPT}/${lower}")

    def test_a_missing_variable_is_an_error_when_the_value_is_used(self, world: World) -> None:
        path = world.openclaw({"agents": {"defaults": {"workspace": "${NOWHERE}/x"}}})
        with pytest.raises(ConfigError) as caught:
            world.load()
        assert f"{path}: agents.defaults.workspace needs the environment variable NOWHERE" in str(
            caught.value
        )

    def test_a_missing_variable_is_no_error_when_another_value_wins(self, world: World) -> None:
        world.openclaw(
            {"agents": {"defaults": {"workspace": "${NOWHERE}/x", "memorySearch": {"model": "${GONE}"}}}}
        )
        settings = world.load(workspace=Path("/w"), provider="static")
        assert settings.workspace == Path("/w") and settings.provider.model is None
        with pytest.raises(ConfigError, match=r"memorySearch\.model needs the environment variable GONE"):
            world.load(workspace=Path("/w"), provider="openai")


def test_settings_in_the_place_of_later_releases_count_and_yield(world: World) -> None:
    world.openclaw(
        {
            "memory": {"search": {"query": {"minScore": 0.2, "maxResults": 3}}},
            "agents": {"defaults": {"memorySearch": {"query": {"minScore": 0.5}}}},
        }
    )
    assert dict(world.load().query.overrides) == {"max_results": 3, "min_score": 0.5}


def test_what_a_later_release_may_mean_otherwise_is_only_told(world: World) -> None:
    world.openclaw(
        {"memory": {"search": {"query": {"minScore": "auto", "maxResults": 3}, "provider": "bedrock"}}}
    )
    settings = world.load(provider="none")
    assert dict(settings.query.overrides) == {"max_results": 3}
    assert [note.code for note in settings.warnings] == ["config-unknown-value"]


def test_the_home_folder_is_never_memory(world: World) -> None:
    world.memory_search({"extraPaths": ["~", "/", str(world.home), "~/notes", " a ", "a", ""]})
    settings = world.load()
    assert settings.extra_paths == (str(world.home / "notes"), "a")
    assert {note.code for note in settings.warnings} == {"extra-path-refused"} and len(settings.warnings) == 3
