"""``openclaw-mem store``: where indexes are, and how they go from one store to another."""

from __future__ import annotations

import io
import json
import re
import uuid
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from openclaw_mem_engine.cli import store as store_command
from openclaw_mem_engine.cli.main import run
from openclaw_mem_engine.config.secret import Secret
from openclaw_mem_engine.config.store import SHARDS, StoreLocation, shard_of
from openclaw_mem_engine.errors import IndexUnavailable
from openclaw_mem_engine.model import Space, text_hash
from openclaw_mem_engine.stores import open_store
from openclaw_mem_engine.stores.base import IndexStore
from openclaw_mem_engine.stores.postgres import removing
from openclaw_mem_engine.stores.postgres.installing import install
from openclaw_mem_engine.stores.postgres.schema import TABLES
from openclaw_mem_engine.stores.sqlite.store import SqliteIndex
from openclaw_mem_engine.sync import transfer
from openclaw_mem_engine.sync.lock import SyncLock
from support import postgres
from support.memories import settings_for, write_notes
from support.stores import unit

NOTES = {
    "MEMORY.md": "# Network\n\nThe router answers on port 8443.\n",
    "memory/2026-02-20.md": "# Pumps\n\nThe pump house is cold.\n" * 60,
}
OTHER = Space("openai", "another", "key")
STORE_AGENT = "OPENCLAW_MEM_STORE_AGENT"


class Host:
    """One user's machine: notes, data folder, and an agent on the server of the tests."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.root, self.capsys = root, capsys
        self.workspace = write_notes(root / "ws", NOTES)
        self.variables = postgres.variables() | {"OPENCLAW_MEM_HOME": str(root / "home" / "data")}

    def run(self, *argv: str, code: int = 0) -> str:
        done = run([*argv, "--workspace", str(self.workspace), "--provider", "static"])
        shown = self.capsys.readouterr()
        assert done == code, shown
        assert "w0rd" not in shown.out + shown.err, "the password"
        return shown.out + shown.err

    def json(self, *argv: str, code: int = 0) -> Any:
        return json.loads(self.run(*argv, "--json", code=code))

    def opened(self, kind: str) -> IndexStore:
        settings = settings_for(self.workspace, self.root / "home", **self.variables)
        at = settings.store.location if kind == "postgres" else None
        return open_store(kind, settings.index_path, location=at)


@pytest.fixture
def host(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Host]:
    made = Host(tmp_path, capsys)
    for name, value in made.variables.items():
        monkeypatch.setenv(name, value)
    yield made


def everything(store: IndexStore) -> dict[str, Any]:
    """All that a copy must share; embeddings as bytes."""
    with closing(store):
        vectors = {
            (size.space, content): None if v is None else v.tobytes()
            for size in store.cache_sizes()
            for content, v in store.cached_vectors(store.cached_hashes(size.space), size.space).items()
        }
        chunks = {path: store.chunks_of(path) for path in store.files()}
        return {
            "fingerprint": store.fingerprint(),
            "files": dict(store.files()),
            "chunks": chunks,
            "vectors": vectors,
            "covered": store.covered(),
            "synced": store.synced_at(),
            "notes": store.notes,
        }


def test_an_index_goes_to_a_server_and_back(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENCLAW_MEM_STORE", "sqlite")
    host.run("index")
    with closing(host.opened("sqlite")) as store:  # of no passage, and one that was asked for and is none
        store.cache_vectors({text_hash("gone"): unit([1, 2]), text_hash("none"): None}, OTHER)
    before = everything(host.opened("sqlite"))
    assert before["covered"] > 1 and len(before["vectors"]) > 3
    said = host.run("store", "migrate", "--to", "postgres")
    assert "2 files" in said and "is as it was" in said and "Not in use yet, store.kind is sqlite" in said
    assert everything(host.opened("postgres")) == before == everything(host.opened("sqlite"))
    assert "2 files: with --replace" in host.run("store", "migrate", "--to", "postgres", code=2)

    monkeypatch.setenv("OPENCLAW_MEM_STORE", "postgres")
    assert host.json("index")["changed"] == [], "nothing is read or embedded again"
    assert host.json("search", "pump")["results"]
    path = settings_for(host.workspace, host.root / "home", **host.variables).index_path
    path.unlink()
    before = everything(host.opened("postgres"))
    with closing(host.opened("postgres")) as other, other.exclusive():  # as a host that was killed
        done = host.json("store", "migrate", "--to", "sqlite")
        write_notes(host.workspace, {"memory/new.md": "# New\n"})  # without one a sync may need no lock
        assert re.search(r"where it was killed, after \d\d:\d\d:\d\d UTC", host.run("index", code=6))
        (host.workspace / "memory/new.md").unlink()
    assert (done["files"], done["chunks"]) == (2, sum(map(len, before["chunks"].values())))
    assert done["target"] == str(path) and done["source"].endswith("of 480")
    assert everything(host.opened("sqlite")) == before
    for kind in ("postgres", "sqlite"):
        monkeypatch.setenv("OPENCLAW_MEM_STORE", kind)
        assert host.json("doctor", "--deep")["errors"] == 0


def opened_as(kind: type[SqliteIndex], name: str, path: Path, location: StoreLocation | None) -> IndexStore:
    """``open_store`` with another class for the index in a file."""
    return kind(path) if location is None else open_store(name, path, location=location)


def test_a_copy_that_is_stopped_or_wrong_changes_nothing(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.run("index")  # on the server
    monkeypatch.setenv("OPENCLAW_MEM_STORE", "sqlite")
    write_notes(host.workspace, {"memory/new.md": "# New\n"})
    host.run("index")
    before = everything(host.opened("postgres"))
    migrate = ["store", "migrate", "--to", "postgres", "--replace"]

    class Interrupted(SqliteIndex):
        seen = 0

        def chunks_of(self, path: str) -> Any:
            type(self).seen += 1
            if self.seen == 2:
                raise KeyboardInterrupt
            return super().chunks_of(path)

    class Forgetful(SqliteIndex):
        def chunks_of(self, path: str) -> Any:
            return super().chunks_of(path)[:1]

    class Written(SqliteIndex):
        def chunks_of(self, path: str) -> Any:
            self.cache_vectors({text_hash("x"): unit([1])}, OTHER)
            return super().chunks_of(path)

    for kind, code, message in (
        (Interrupted, 130, "Stopped"),
        (Forgetful, 6, "it was dropped"),
        (Written, 6, "was written to while it was copied"),
    ):
        monkeypatch.setattr(transfer, "open_store", partial(opened_as, kind))
        assert message in host.run(*migrate, code=code)
        monkeypatch.setattr(transfer, "open_store", open_store)
        now = everything(host.opened("postgres"))
        now["vectors"], kept = before["vectors"], now["vectors"]
        assert now == before and kept.items() >= before["vectors"].items()
    host.run(*migrate)
    assert len(everything(host.opened("postgres"))["files"]) == 3


def test_what_cannot_be_migrated_is_said(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "There is no index" in host.run("store", "migrate", "--to", "sqlite", code=6)
    assert "There is no index" in host.run("store", "migrate", "--to", "postgres", code=6)
    monkeypatch.delenv("OPENCLAW_MEM_STORE_SERVERS")
    monkeypatch.setenv("OPENCLAW_MEM_STORE", "sqlite")
    assert "needs store.servers" in host.run("store", "migrate", "--to", "postgres", code=3)


def test_status_names_server_and_shard(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "There is no index yet" in host.run("store", "status")
    host.run("index")
    shown = host.json("store", "status")
    (server,) = shown["servers"]
    assert server["shards"] == "0-479" and "role mem_app" in server["version"]
    assert (
        shown["index"].startswith(server["server"])
        and shown["name"] == host.variables["OPENCLAW_MEM_STORE_AGENT"]
    )
    assert (shown["files"], shown["syncedAt"] > 0) == (2, True)
    monkeypatch.setenv("OPENCLAW_MEM_STORE_SERVERS", "postgresql://x:w0rd@localhost:1/mem?connect_timeout=2")
    assert "server 1: localhost:1/mem, shards 0-479" in host.run("store", "status", code=6)
    monkeypatch.setenv("OPENCLAW_MEM_STORE", "sqlite")
    assert "sqlite: " in host.run("store", "status")
    assert "needs no server" in host.run("store", "init", code=2)


def test_the_address_of_an_owner_is_checked_and_not_shown(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENCLAW_MEM_STORE_OWNER", "postgresql://o:a#w0rd@db/mem")
    assert "OPENCLAW_MEM_STORE_OWNER: server 1 is not an address" in host.run("store", "init", code=3)
    monkeypatch.setenv("OPENCLAW_MEM_STORE_OWNER", "postgresql://x:w0rd@localhost:1/mem?connect_timeout=2")
    assert "Check it in OPENCLAW_MEM_STORE_OWNER" in host.run("store", "init", code=6)
    monkeypatch.setenv("OPENCLAW_MEM_STORE_OWNER", postgres.app_address())
    said = host.run("store", "init", code=6)
    assert "The role mem_app may not make tables in" in said and "It is the one of store.servers" in said
    with psycopg.connect(postgres.owner_address()) as owner:
        user, database = owner.info.user, owner.info.dbname
    assert re.search(
        rf"STORE_OWNER to the address of their owner, postgresql://{user}:PASSWORD@\S*/{database}", said
    )
    monkeypatch.delenv("OPENCLAW_MEM_STORE_OWNER")
    said = host.run("store", "init", code=2)
    assert "0 addresses for 1 server:" in said and "postgresql://OWNER:PASSWORD@" in said


def test_tables_of_another_version_are_compared(
    host: Host, servers: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Columns that rows can do without are no matter; the rest is named, and nothing is changed."""
    own = postgres.owner_address()
    was = f"/{own.partition('?')[0].rpartition('/')[2]}?"
    monkeypatch.setenv(
        "OPENCLAW_MEM_STORE_OWNER", " ".join(own.replace(was, f"/{name}?") for name in servers)
    )
    host.run("index")

    def change(*statements: str) -> None:
        with psycopg.connect(own, dbname=servers[1]) as owner:
            for statement in statements:
                owner.execute(f"ALTER TABLE openclaw_mem.{statement}")

    change("files ADD COLUMN later text", "files ADD COLUMN n int DEFAULT 1")
    host.run("store", "init")
    assert host.json("status")["files"] == 2, "with the index that was there"
    change(
        "generations DROP COLUMN synced_at",
        "terms DROP COLUMN nl",
        "chunks ALTER COLUMN start_line TYPE bigint",
        "chunks DROP CONSTRAINT chunks_agent_gen_id_key",
        "agents ALTER COLUMN live DROP DEFAULT",
        "agents ADD COLUMN must bool NOT NULL DEFAULT true",
        "agents ALTER COLUMN must DROP DEFAULT",
    )
    assert "store init` makes and updates" in host.run("status", code=6)
    said = host.run("store", "init", code=6)
    for difference in (
        "generations.synced_at is missing, must be double precision",
        "terms.nl is missing, must be integer NOT NULL",
        "chunks.start_line is bigint NOT NULL, must be integer NOT NULL",
        "chunks.UNIQUE (agent, gen, id) is missing, must be a key",
        "agents.live is integer NOT NULL, must be integer NOT NULL DEFAULT 0",
        "agents.must is boolean NOT NULL, must not be there",
        "Nothing was changed. Use that version.",
        "DROP SCHEMA openclaw_mem CASCADE",
    ):
        assert difference in said, difference
    assert said.count(", must ") == 6
    with psycopg.connect(own, dbname=servers[1]) as owner:
        sql = "SELECT FROM information_schema.columns WHERE column_name = 'synced_at'"
        assert owner.execute(sql).fetchall() == []
        owner.execute("DROP SCHEMA openclaw_mem CASCADE")
    host.run("store", "init")
    assert host.json("index")["changed"], "made anew"


def test_init_asks_as_the_role_of_programs(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENCLAW_MEM_STORE_OWNER", postgres.owner_address())
    monkeypatch.setenv(
        "OPENCLAW_MEM_STORE_SERVERS", postgres.app_address().replace("mem_app:", "mem_app:not-")
    )
    said = host.run("store", "init", code=6)
    assert "are there, but their role cannot use them" in said and "Check the password" in said


@pytest.fixture
def servers(host: Host, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Three databases, as servers of their own, of which the second has the agent's shard."""
    with psycopg.connect(postgres.owner_address(), autocommit=True) as owner:
        names = [f"part{number}_{uuid.uuid4().hex}" for number in range(3)]
        app, own = postgres.app_address(), postgres.owner_address()
        was = f"/{owner.info.dbname}?"
        for name in names:
            owner.execute(f"CREATE DATABASE {name}")
            install(Secret(own.replace(was, f"/{name}?")), Secret(app.replace(was, f"/{name}?")))
        addresses = [app.replace(was, f"/{name}?") for name in names]
        shard = shard_of(host.variables["OPENCLAW_MEM_STORE_AGENT"])
        others = ",".join(
            str(number) for number in range(SHARDS) if number not in (shard, (shard + 1) % SHARDS)
        )
        config = host.root / "config.toml"
        config.write_text(f'[store]\nshards = ["{others}", "{shard}", "{(shard + 1) % SHARDS}"]\n')
        host.variables |= {
            "OPENCLAW_MEM_STORE_SERVERS": " ".join(addresses),
            "OPENCLAW_MEM_CONFIG": str(config),
        }
        for variable, value in host.variables.items():
            monkeypatch.setenv(variable, value)
        try:
            yield names
        finally:
            for name in names:
                owner.execute(f"DROP DATABASE {name} WITH (FORCE)")


def rows_in(name: str) -> int:
    """How many rows a server has of all agents, but for their names."""
    with psycopg.connect(postgres.owner_address(), dbname=name) as owner:
        tables = (f"(SELECT count(*) FROM openclaw_mem.{table})" for table in TABLES if table != "agents")
        return int(owner.execute(f"SELECT {' + '.join(tables)}").fetchall()[0][0])


def shard_to(host: Host, number: int) -> None:
    """Give the agent's shard to the server of this number, from 1, of the three."""
    shard = shard_of(host.variables["OPENCLAW_MEM_STORE_AGENT"])
    rest = ",".join(str(other) for other in range(SHARDS) if other != shard)
    shards = [str(shard) if at == number else "" for at in (1, 2, 3)]
    shards[0 if number != 1 else 1] = rest
    (host.root / "config.toml").write_text(f"[store]\nshards = {json.dumps(shards)}\n")


def test_an_agent_goes_to_another_server_through_its_file(host: Host, servers: list[str]) -> None:
    host.run("index")
    with closing(host.opened("postgres")) as store:
        store.cache_vectors({text_hash("later"): unit([1, 2])}, OTHER)
    before = everything(host.opened("postgres"))
    assert [bool(rows_in(name)) for name in servers] == [False, True, False]
    host.run("store", "migrate", "--to", "sqlite")
    host.run("store", "remove", "--yes")
    assert [bool(rows_in(name)) for name in servers] == [False, False, False]
    shard_to(host, 3)
    host.run("store", "migrate", "--to", "postgres")
    assert [bool(rows_in(name)) for name in servers] == [False, False, True]
    assert everything(host.opened("postgres")) == before
    assert host.json("index")["changed"] == []


def agents_in(name: str) -> list[str]:
    with psycopg.connect(postgres.owner_address(), dbname=name) as owner:
        return [row[0] for row in owner.execute("SELECT name FROM openclaw_mem.agents ORDER BY 1").fetchall()]


def test_a_retired_agent_is_removed_from_all_servers(
    host: Host, servers: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    remove, name = ("store", "remove"), host.variables["OPENCLAW_MEM_STORE_AGENT"]
    assert f"has an agent {name}: there is nothing to remove" in host.run(*remove, "--yes", code=2)
    assert [agents_in(server) for server in servers] == [[], [], []], "asking makes no rows"
    host.run("index")
    shard_to(host, 3)
    host.run("index")  # what is on the second server stays
    with closing(host.opened("postgres")) as store:
        numbers, size, before = store.counts(), store.bytes_on_disk(), everything(store)
    other = settings_for(host.workspace, host.root / "2", **host.variables | {STORE_AGENT: f"{name}-2"})
    with closing(open_store("postgres", other.index_path, location=other.store.location)) as beside:
        beside.cache_vectors({"kept": unit([1, 2])}, OTHER)
        assert "needs confirmation" in host.run(*remove, code=2)
        monkeypatch.setattr(store_command, "can_ask", lambda: True)
        for answer in ("\n", "n\n", ""):
            monkeypatch.setattr("sys.stdin", io.StringIO(answer))
            said = host.run(*remove)
            assert f"{servers[2]}: 2 files, {numbers.chunks} chunks, " in said
            assert f"{2 * numbers.chunks} rows of words" in said
            assert f"{servers[1]}: 2 files, {numbers.chunks} chunks, " in said
            assert "[y/N]" in said and "Nothing was removed.\n" in said
        path = settings_for(host.workspace, host.root / "home", **host.variables).index_path
        with SyncLock(path).holding():
            assert "indexing for" in host.run(*remove, "--yes", code=6)
        with closing(host.opened("postgres")) as syncing, syncing.exclusive():
            assert "is being brought up to date" in host.run(*remove, "--yes", code=6)
        assert everything(host.opened("postgres")) == before

        monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
        assert f"Removed {2 * numbers.chunks} chunks from" in host.run(*remove)
        assert [rows_in(server) for server in servers].count(0) == 2
        assert {*(each for server in servers for each in agents_in(server))} == {f"{name}-2"}
        assert beside.counts().cached == 1
    assert size > 1_000
    assert "There is no index yet" in host.run("store", "status")
    assert host.run(*remove, "--yes", code=2)
    host.run("index")  # the notes are there still
    (gone,) = host.json(*remove, "--yes")["servers"]
    assert (gone["chunks"], gone["embeddings"]) == (numbers.chunks, numbers.cached) and gone["bytes"] > 1_000


def test_what_is_removed_is_named_as_it_is_chosen(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """``--agent`` where it makes the name, and only there: another agent would be removed."""
    remove = ("store", "remove", "--yes")
    host.run("index")
    assert "does not choose here" in host.run(*remove, "--agent", "ops", code=2)
    name = host.variables["OPENCLAW_MEM_STORE_AGENT"]
    monkeypatch.setenv("OPENCLAW_MEM_STORE_AGENT", f"{name}/{{agent}}")
    host.run("index", "--agent", "ops")
    assert "--agent ID" in host.run(*remove, code=2)
    assert host.json(*remove, "--agent", "ops")["name"] == f"{name}/ops"
    assert f"an agent {name}/ops" in host.run(*remove, "--agent", "ops", code=2)
    monkeypatch.setenv("OPENCLAW_MEM_STORE_AGENT", name)
    assert host.json("store", "status")["files"] == 2, "the other agent"
    monkeypatch.setenv("OPENCLAW_MEM_STORE", "sqlite")
    assert "needs no server" in host.run(*remove, code=2)


def test_a_removal_that_fails_on_one_server_says_what_is_gone(
    host: Host, servers: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    host.run("index")
    shard_to(host, 3)
    host.run("index")
    forget = removing.forget

    def failing(at: StoreLocation) -> None:
        if at.shown.partition(",")[0].endswith(servers[1]):
            raise IndexUnavailable("out of reach")
        forget(at)

    with monkeypatch.context() as broken:
        broken.setattr(removing, "forget", failing)
        said = host.run("store", "remove", "--yes", code=6)
    assert re.search(rf"Removed from \S+ \S+{servers[2]}, not from \S+ \S+{servers[1]}: out of reach", said)
    assert [bool(agents_in(server)) for server in servers] == [False, True, False]
    host.run("store", "remove", "--yes")
    assert not agents_in(servers[1])


def test_doctor_finds_a_role_that_may_only_read(host: Host, servers: list[str]) -> None:
    host.run("index")
    assert "role-too-weak" not in host.run("doctor", "--json")
    with psycopg.connect(postgres.owner_address(), dbname=servers[1]) as owner:
        owner.execute("REVOKE INSERT ON openclaw_mem.chunks FROM mem_app")
    assert "may not write 1 table: searches work" in host.run("doctor", "--json", code=6)
