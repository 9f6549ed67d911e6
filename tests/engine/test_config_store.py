"""Where the index is kept: settings of servers and shards, what is refused, and what stays secret."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from openclaw_mem_engine.config.secret import Secret
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.config.show import describe, to_dict
from openclaw_mem_engine.config.store import SHARDS, StoreSettings, server_name, shard_of
from openclaw_mem_engine.errors import ConfigError
from support.memories import settings_for

ADDRESS = "postgresql://mem:hush@db-1.internal:5432/memory?sslmode=require"
VARIABLES = {
    "OPENCLAW_MEM_STORE": "postgres",
    "OPENCLAW_MEM_STORE_SERVERS": ADDRESS,
    "OPENCLAW_MEM_STORE_AGENT": "team-a/{agent}",
}


def loaded(tmp_path: Path, toml: str = "", **environ: str) -> Settings:
    if toml:
        path = tmp_path / "config.toml"
        path.write_text(toml, "utf-8")
        environ = {"OPENCLAW_MEM_CONFIG": str(path)} | environ
    return settings_for(tmp_path / "ws", tmp_path / "home", **environ)


def toml_of(servers: list[str], shards: list[str]) -> str:
    rows = [("kind", "postgres"), ("servers", servers), ("agent", "a"), ("shards", shards)]
    return "[store]\n" + "\n".join(f"{key} = {json.dumps(value)}" for key, value in rows)


def test_an_index_is_a_file_unless_a_store_is_named(tmp_path: Path) -> None:
    settings = loaded(tmp_path)
    assert settings.store == StoreSettings() and settings.store.location is None
    assert settings.index_name == str(settings.index_path)


def test_the_environment_names_a_server_and_the_agent_there(tmp_path: Path) -> None:
    settings = loaded(tmp_path, OPENCLAW_MEM_AGENT="Bob", **VARIABLES)
    at = settings.store.location
    assert at is not None and (at.agent, at.shard) == ("team-a/bob", shard_of("team-a/bob"))
    assert at.server.reveal() == ADDRESS
    assert settings.with_index(tmp_path / "x").store.location is None, "a copy is a file"


def test_no_view_of_the_settings_has_the_password(tmp_path: Path) -> None:
    settings = loaded(tmp_path, **VARIABLES)
    shown: list[Any] = [
        repr(settings),
        describe(settings),
        json.dumps(to_dict(settings)),
        settings.index_name,
    ]
    shard = shard_of("team-a/main")
    assert all("hush" not in str(view) for view in shown)
    assert settings.index_name == f"db-1.internal:5432/memory, agent team-a/main, shard {shard} of 480"


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("postgresql://db/memory", "db:5432/memory"),
        ("postgres://u:p%40@[::1]:5433/memory?sslmode=require", "[::1]:5433/memory"),
        ("postgresql://u:p@/memory?host=/run/postgresql&port=5434", "socket /run/postgresql:5434/memory"),
        ("postgresql://u:p@%2Frun%2Fpostgresql/memory", "socket /run/postgresql:5432/memory"),
        ("postgresql://u:p@a:1,b:2/memory", "a:1,b:2/memory"),
        ("postgresql:///memory", "local socket:5432/memory"),
        ("postgresql://db/x%1b[2J", "db:5432/x\\x1b[2J"),
    ],
)
def test_a_server_is_named_by_host_or_socket_and_database(address: str, name: str) -> None:
    assert server_name(Secret(address)) == name


def test_a_variable_keeps_a_password_out_of_the_file(tmp_path: Path) -> None:
    toml = toml_of(["postgresql://mem:${MEM_PASSWORD}@db/memory"], [])
    at = loaded(tmp_path, toml, MEM_PASSWORD="hush").store.location
    assert at is not None and at.server.reveal() == "postgresql://mem:hush@db/memory"
    at = loaded(tmp_path, toml).store.location
    assert at is not None
    with pytest.raises(ConfigError, match="MEM_PASSWORD"):
        at.server.reveal()


def test_the_map_of_shards_chooses_the_server(tmp_path: Path) -> None:
    servers = [f"postgresql://db-{number}/memory" for number in range(3)]
    settings = loaded(tmp_path, toml_of(servers, ["0-99, 300-479", "100", "101-299"]))
    at, shard = settings.store.location, shard_of("a")
    wanted = 1 if shard == 100 else 2 if 100 < shard < 300 else 0
    assert at is not None and at.server.reveal() == servers[wanted]
    settings = loaded(tmp_path, toml_of(servers, ["", "0-479", ""]))
    at = settings.store.location
    assert at is not None and at.server.reveal() == servers[1], "a server may have no shards yet"
    counts = [0] * SHARDS
    for number in range(20_000):
        counts[shard_of(f"agent-{number}")] += 1
    assert min(counts) > 10 and max(counts) < 100, "agents are spread over all shards"


@pytest.mark.parametrize(
    ("shards", "message"),
    [
        (["0-479"], "1 entries of store.shards for 2 servers"),
        (["0-239", "239-479"], "shard 239 has two servers"),
        (["0-239", "241-479"], "shard 240 has no server"),
        (["0-239", "240-480"], "'240-480' is not a range of shards"),
        (["0-239", "479-240"], "'479-240' is not a range of shards"),
        (["0-239", "all"], "'all' is not a range of shards"),
    ],
)
def test_a_map_that_does_not_fit_is_refused(tmp_path: Path, shards: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        loaded(tmp_path, toml_of(["postgresql://db-1/m", "postgresql://db-2/m"], shards))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"OPENCLAW_MEM_STORE": "oracle"}, "allowed: sqlite, postgres"),
        ({"OPENCLAW_MEM_STORE_SERVERS": ""}, "names no server"),
        ({"OPENCLAW_MEM_STORE_SERVERS": "host=db password=hush"}, "server 1 is not an address"),
        ({"OPENCLAW_MEM_STORE_AGENT": ""}, "does not name the agent"),
    ],
)
def test_what_is_missing_is_said_without_secrets(
    tmp_path: Path, changed: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        loaded(tmp_path, **(VARIABLES | changed))
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("raw", ["#", "?", "/", "@", "[", "]"])
def test_a_password_with_a_raw_sign_is_refused_and_not_shown(tmp_path: Path, raw: str) -> None:
    """The driver may accept it, but what follows the sign would be shown as the host."""
    address = f"postgresql://mem:a{raw}hush@db/memory"
    with pytest.raises(ConfigError, match=r"server 1 is not an address.*%40") as caught:
        loaded(tmp_path, **(VARIABLES | {"OPENCLAW_MEM_STORE_SERVERS": address}))
    assert "hush" not in str(caught.value)


def test_another_workspace_does_not_take_the_index_of_an_agent(tmp_path: Path) -> None:
    settings = loaded(tmp_path, **VARIABLES)
    assert settings.store.agent == "team-a/main", "no workspace of the agent is there"
    own = tmp_path / "own"
    own.mkdir()
    named = VARIABLES | {"OPENCLAW_MEM_WORKSPACE": str(own)}
    with pytest.raises(ConfigError, match="it would replace"):
        loaded(tmp_path, **named)
    (tmp_path / "ws").symlink_to(own)
    assert loaded(tmp_path, **named).store.agent == "team-a/main", "the same folder"
    (tmp_path / "ws").unlink()
    apart = loaded(tmp_path, **(named | {"OPENCLAW_MEM_STORE_AGENT": "{agent}/{workspace}"}))
    assert apart.store.agent == f"main/{apart.index_path.parent.name}"
