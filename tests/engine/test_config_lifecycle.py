"""The settings of compaction, sandbox, bootstrap files and snapshots: from OpenClaw's file, from ours."""

from __future__ import annotations

import pytest

from openclaw_mem_engine.config.groups import FLUSH_PROMPT, FLUSH_SYSTEM_PROMPT, OPENCLAW_KEYS
from openclaw_mem_engine.config.settings import SETTINGS
from openclaw_mem_engine.config.show import describe
from openclaw_mem_engine.errors import ConfigError
from support.config_world import World


def test_the_literal_defaults_are_listed(world: World) -> None:
    rows = {row.key: row for row in describe(world.load())}
    assert rows["compaction.memory_flush.prompt"].value_text == FLUSH_PROMPT
    assert rows["compaction.memory_flush.system_prompt"].value_text == FLUSH_SYSTEM_PROMPT
    assert rows["compaction.reserve_tokens_floor"].value_text == "20000"
    assert set(OPENCLAW_KEYS.values()) <= SETTINGS.keys()


def test_an_agents_own_values_win_over_the_defaults(world: World) -> None:
    file = world.openclaw(
        {
            "agents": {
                "defaults": {
                    "compaction": {"reserveTokensFloor": 1, "memoryFlush": {"prompt": " "}},
                    "sandbox": {"mode": "all", "workspaceAccess": "ro"},
                    "bootstrapMaxChars": 5000.7,
                    "userTimezone": "Asia/Tokyo",
                    "contextTokens": 100_000,
                },
                "list": [{"id": "main", "sandbox": {"workspaceAccess": "rw"}}],
            },
            "hooks": {"internal": {"entries": {"session-memory": {"messages": 3}}}},
        }
    )
    found = world.load()
    assert found.warnings == () and found.openclaw.ignored == ()
    assert (found.compaction.reserve_tokens_floor, found.compaction.context_tokens) == (1, 100_000)
    assert found.compaction.memory_flush.prompt == FLUSH_PROMPT
    assert (found.sandbox.mode, found.sandbox.workspace_access) == ("all", "rw")
    assert (found.bootstrap.max_chars, found.bootstrap.total_max_chars) == (5000, 150_000)
    assert (found.user_timezone, found.snapshot.messages) == ("Asia/Tokyo", 3)
    assert (
        found.origins["sandbox.workspace_access"].where == f"{file}: agents.list[0].sandbox.workspaceAccess"
    )
    assert found.origins["sandbox.mode"].where == f"{file}: agents.defaults.sandbox.mode"


def test_what_does_not_fit_is_replaced_and_said(world: World) -> None:
    world.openclaw(
        {
            "agents": {
                "defaults": {
                    "compaction": {"mode": "safeguard", "memoryFlush": {"softThresholdTokens": -3}},
                    "sandbox": {"workspaceAccess": "all"},
                }
            }
        }
    )
    found = world.load()
    assert found.compaction.memory_flush.soft_threshold_tokens == 4000
    assert found.sandbox.workspace_access is None
    assert [note.text.split("openclaw.json: ")[1] for note in found.warnings] == [
        "agents.defaults.compaction.memoryFlush.softThresholdTokens is -3; allowed: an integer (tokens), "
        "0 or more. 4000 is used.",
        "agents.defaults.sandbox.workspaceAccess is 'all'; allowed: none, ro, rw. nothing is used.",
        "agents.defaults.compaction.mode is not used.",
    ]


def test_our_file_sets_the_same_and_the_model(world: World) -> None:
    world.own(
        '[compaction.memory_flush]\nenabled = false\n[flush]\nprovider = "openai"\nmodel = "m"\n'
        'base_url = "http://127.0.0.1:1/v1"\napi_key = "k"\n'
    )
    found = world.load()
    assert not found.compaction.memory_flush.enabled
    assert (found.flush.model, found.flush.base_url) == ("m", "http://127.0.0.1:1/v1")
    world.own('[flush]\nprovider = "openai"\n')
    with pytest.raises(ConfigError, match=r"name a model in flush\.model"):
        world.load()
