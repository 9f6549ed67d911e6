"""What the PostgreSQL store must do beyond the contract of all stores: the same numbers as SQLite over real
notes, rows of one agent alone, errors that say what to do, and other hosts that write."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_mem_engine.cli.main import run
from openclaw_mem_engine.config.secret import Secret
from openclaw_mem_engine.demo import ANCHOR, load_queries, write_demo
from openclaw_mem_engine.doctor import examine
from openclaw_mem_engine.errors import (
    Cancelled,
    ConfigError,
    IndexUnavailable,
    OpenClawMemError,
)
from openclaw_mem_engine.ranking.pipeline import rank
from openclaw_mem_engine.ranking.profiles import WORKBENCH
from openclaw_mem_engine.stores import open_store
from openclaw_mem_engine.stores.base import UNLIMITED, IndexStore
from openclaw_mem_engine.stores.postgres import connections, session
from openclaw_mem_engine.stores.postgres.schema import NAME, agent_number
from openclaw_mem_engine.stores.postgres.store import PostgresIndex
from openclaw_mem_engine.stores.query import build_keyword_query, build_query, segment
from openclaw_mem_engine.stores.sqlite.schema import DERIVED
from openclaw_mem_engine.stores.tokens import FORMS, tokens_of
from support import postgres
from support.memories import backend_of, open_memory, write_notes
from support.stores import FINGERPRINT, put, unit

V = [unit([1, 0, 0, 0]), unit([0, 1, 0, 0])]


@pytest.fixture
def agent() -> str:
    return postgres.location().agent


@pytest.fixture
def make(agent: str, tmp_path: Path) -> Iterator[Callable[..., PostgresIndex]]:
    """Opens the index of an agent, as a host of its own would."""
    opened: list[IndexStore] = []

    def open_one(name: str = agent, server: Secret | None = None) -> PostgresIndex:
        at = postgres.location(name)
        at = at._replace(server=server) if server else at
        store = open_store("postgres", tmp_path / "index.sqlite", location=at)
        assert isinstance(store, PostgresIndex)
        opened.append(store)
        return store

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture
def store(make: Callable[..., PostgresIndex]) -> PostgresIndex:
    one = make()
    one.begin(FINGERPRINT)
    put(one, "MEMORY.md", ["The pump runs.", "The gateway is grey."], V)
    return one


# -- the same numbers --------------------------------------------------------------------------------------


def test_tokens_are_those_that_fts5_keeps() -> None:
    """Over every word that English suffixes make of some stems, all letters up to U+FFFF, and marks."""
    stems = """relat condition ration valen hesit digit conform radic differ vil analog predic operat feud
        decis hop call form sens electr triplic adjust depend activ angular homolog bowdl ceas control roll"""
    endings = """ s es sses ies y ied ing ed eed ational tional enci anci izer bli alli entli eli ousli
        ization ation ator alism iveness fulness ousness aliti iviti biliti logi icate ative alize iciti ical
        ful ness al ance ence er ic able ible ant ement ment ent ion ou ism ate iti ous ive ize e ll"""
    words = [stem + ending for stem in stems.split() for ending in ("", *endings.split())]
    letters = [chr(code) for code in range(33, 0x10000) if not 0xD800 <= code <= 0xDFFF]
    texts = [" ".join(words), *(" ".join(letters[at : at + 999]) for at in range(0, len(letters), 999))]
    texts += ["crème brûlée CREME cre\u0301me naïve ＡＢＣ foo_bar a-b 温室の湿度 ガス ＃42 Straße İstanbul"]
    connection = apsw.Connection(":memory:")
    for form in FORMS:
        connection.execute(DERIVED[form])
    for form, table in (("plain", "chunks_fts"), ("stemmed", "chunks_fts_stemmed")):
        kept = [segment(text) if form == "stemmed" else text for text in texts]
        for number, text in enumerate(kept):
            connection.execute(f"INSERT INTO {table}(rowid, text) VALUES(?, ?)", (number, text))
        connection.execute(f"CREATE VIRTUAL TABLE temp.{form} USING fts5vocab(main, {table}, instance)")
        sql = f"SELECT doc, offset, term FROM temp.{form} ORDER BY doc, offset"
        wanted = connection.execute(sql).fetchall()
        found = [
            (number, offset, token)
            for number, text in enumerate(kept)
            for offset, token in enumerate(tokens_of(form, text))
        ]
        assert found == wanted and len(found) > 5_000
    assert FORMS == ("plain", "stemmed")


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Any]]:
    """The demo, indexed in a file and on the server."""
    base = tmp_path_factory.mktemp("both")
    workspace = write_demo(base / "demo", ANCHOR)
    with (
        open_memory(workspace, base / "file") as one,
        open_memory(workspace, base / "server", **postgres.variables()) as other,
    ):
        one.sync()
        backend_of(one).store.provide("plain", "named")
        other.sync()
        yield [one, other]


def test_fifty_queries_have_the_same_lists_and_raw_scores(both: list[Any]) -> None:
    sqlite, server = (backend_of(memory).store for memory in both)
    primary = backend_of(both[0]).embedders.primary
    assert primary is not None
    queries = [judged.query for judged in load_queries(0).judged]
    passages = [passage.text.split()[4:10] for passage in sqlite.passages()]
    queries += [" ".join(words) for words in passages[:: len(passages) // (50 - len(queries))]]
    assert len(queries) >= 50
    compared = 0
    for text in queries:
        forms = [
            build_query(text, "or", "stemmed"),
            build_query(text, "or", "stemmed", WORKBENCH.name_weight or 2.0),
            build_query(text, "and", "plain"),
            build_query(text, "and", "stemmed"),
            build_keyword_query(text),
        ]
        for query in filter(None, forms):
            wanted, found = sqlite.lexical(query, 50), server.lexical(query, 50)
            assert [row.chunk_id for row in found] == [row.chunk_id for row in wanted], query
            assert [row.raw for row in found] == pytest.approx([row.raw for row in wanted], abs=1e-9)
            assert found.matched == wanted.matched
            ids = list(dict(wanted))
            assert server.lexical_ranks(query, ids) == sqlite.lexical_ranks(query, ids)
            compared += len(found)
        if (vector := primary.embed_query(text)) is None:
            continue
        wanted, found = sqlite.vector(vector, UNLIMITED), server.vector(vector, UNLIMITED)
        assert [row.chunk_id for row in found] == [row.chunk_id for row in wanted]
        assert [row.raw for row in found] == pytest.approx([row.raw for row in wanted], abs=1e-6)
        assert server.vector_ranks(vector, list(dict(wanted))) == found.ranks_of(dict(wanted))
    assert compared > 1_000


@settings(max_examples=40, derandomize=True)
@given(st.integers(0, 10**6))
def test_explanations_and_why_not_are_the_same(both: list[Any], seed: int) -> None:
    """Cosines differ in the seventh digit: where two scores do not differ more, they may change places."""
    draw, passages = random.Random(seed), [*backend_of(both[0]).store.passages()]
    words = draw.choice(passages).text.split()
    start = draw.randrange(len(words))
    query, path = " ".join(words[start : start + 3]), draw.choice(passages).path
    one, other = (rank(backend_of(m).retrieve(query, WORKBENCH), WORKBENCH).rows for m in both)
    of_one, of_other = ({row.chunk_id: row for row in rows} for rows in (one, other))
    assert of_one.keys() == of_other.keys()
    finals = ([row.final or 0.0 for row in rows] for rows in (one, other))
    assert next(finals) == pytest.approx(next(finals), abs=1e-5), "rows of equal scores may change places"
    for chunk_id, mine in of_one.items():
        theirs = of_other[chunk_id]
        if mine.ranks == theirs.ranks:
            assert (mine.outcome.stage, mine.shown) == (theirs.outcome.stage, theirs.shown)
            assert dict(mine.scores) == pytest.approx(dict(theirs.scores), abs=1e-5)
            assert [o.value for o in mine.operands] == pytest.approx(
                [o.value for o in theirs.operands], abs=1e-5
            )
    asked, same = (memory.why_not(query, path) for memory in both)
    assert [(step.name, step.ok) for step in asked.steps] == [(step.name, step.ok) for step in same.steps]
    assert (asked.stage, asked.rank) == (same.stage, same.rank) and len(asked.steps) > 2


def test_a_nul_of_a_transcript_is_kept_as_in_notes(store: PostgresIndex) -> None:
    put(store, "sessions/a.jsonl", ["pump\0house"], source="sessions")
    assert [chunk.text for chunk in store.chunks_of("sessions/a.jsonl")] == ["pump\ufffdhouse"]


# -- one agent (see test_postgres_isolation) ---------------------------------------------------------------


def test_two_names_with_one_number_are_not_mixed(
    store: PostgresIndex, make: Callable[..., PostgresIndex], agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = agent_number(agent)
    monkeypatch.setattr(session, "agent_number", lambda _: number)
    with pytest.raises(IndexUnavailable, match="same number"):
        make("another name")


# -- stopping ----------------------------------------------------------------------------------------------


def test_a_search_that_waits_is_stopped(store: PostgresIndex) -> None:
    query, ended = build_query("pump", "or", "stemmed"), list[OpenClawMemError]()
    assert query is not None

    def search() -> None:
        try:
            store.lexical(query, 9)
        except OpenClawMemError as error:
            ended.append(error)

    with psycopg.connect(postgres.owner_address(), autocommit=True) as owner, owner.transaction():
        owner.execute(f"LOCK TABLE {NAME}.terms")
        thread = threading.Thread(target=search)
        thread.start()
        waiting = "SELECT 1 FROM pg_locks WHERE NOT granted AND relation = %s::regclass"
        while not owner.execute(waiting, (f"{NAME}.terms",)).fetchall():
            assert thread.is_alive()
        store.interrupt()
        thread.join(20)  # while the lock is held: it did not get its rows
        assert not thread.is_alive()
    assert [type(error) for error in ended] == [Cancelled]
    assert len(store.lexical(query, 9)) == 1, "the next search has a sound connection"


def test_a_search_that_takes_too_long_ends(store: PostgresIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "SEARCH_TIMEOUT_MS", 20)
    with pytest.raises(IndexUnavailable, match="took longer"), store._rows.reading() as read:
        read.execute("SELECT pg_sleep(30)")


def test_a_connection_that_the_server_ended_is_opened_again(store: PostgresIndex) -> None:
    with store._rows.reading() as read:
        ours = read.one("SELECT pg_backend_pid()")
    with psycopg.connect(postgres.owner_address(), autocommit=True) as owner:
        owner.execute("SELECT pg_terminate_backend(%s, 20000)", (ours,))
    assert store.counts().chunks == 2


# -- errors ------------------------------------------------------------------------------------------------


def test_a_wrong_password_is_said_and_not_shown(make: Callable[..., PostgresIndex]) -> None:
    wrong = postgres.app_address().replace("mem_app:", "mem_app:quite-secret-")
    with pytest.raises(IndexUnavailable, match="Check the password") as caught:
        make(server=Secret(wrong))
    assert "quite" not in str(caught.value) and caught.value.__cause__ is None


def test_a_server_that_is_not_there_is_named(make: Callable[..., PostgresIndex]) -> None:
    with pytest.raises(IndexUnavailable, match=r"localhost:1/mem .*refused"):
        make(server=Secret("postgresql://x:hush@localhost:1/mem"))
    with pytest.raises(ConfigError, match="not an address") as caught:
        make(server=Secret("postgresql://x:hush@localhost:1/mem?nonsense=1"))
    assert "hush" not in str(caught.value)


def test_what_a_server_lacks_is_said(
    make: Callable[..., PostgresIndex], monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(postgres.owner_address(), autocommit=True) as owner:
        name = f"bare_{postgres.location().agent.replace('-', '')}"
        owner.execute(f"CREATE DATABASE {name}")
        bare = Secret(postgres.app_address().replace(f"/{owner.info.dbname}?", f"/{name}?"))
        try:
            with pytest.raises(IndexUnavailable, match=r"lacks the extension vector .*store init"):
                make(server=bare)
            with psycopg.connect(postgres.owner_address(), dbname=name, autocommit=True) as inside:
                inside.execute("CREATE EXTENSION vector")
            with pytest.raises(IndexUnavailable, match=r"no tables of openclaw-mem.*store init"):
                make(server=bare)
        finally:
            owner.execute(f"DROP DATABASE {name} WITH (FORCE)")
    monkeypatch.setattr(connections, "PGVECTOR", (99, 0))
    with pytest.raises(IndexUnavailable, match=r"has pgvector \d.*99\.0 or newer"):
        make()


def test_a_server_is_made_ready_and_used_by_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    workspace = write_notes(tmp_path / "ws", {"MEMORY.md": "# Network\n\nThe router answers on port 8443.\n"})
    options = ["--workspace", str(workspace), "--provider", "static"]
    with psycopg.connect(postgres.owner_address(), autocommit=True) as owner:
        name = f"new_{postgres.location().agent.replace('-', '')}"
        owner.execute(f"CREATE DATABASE {name}")
        was, new = f"/{owner.info.dbname}?", f"/{name}?"
        server = postgres.app_address().replace(was, new)
        values = postgres.variables() | {
            "OPENCLAW_MEM_HOME": str(tmp_path / "data"),
            "OPENCLAW_MEM_STORE_SERVERS": server,
        }
        for variable, value in values.items():
            monkeypatch.setenv(variable, value)
        try:
            assert run(["index", *options]) == 6
            assert "store init" in capsys.readouterr().err
            assert run(["store", "init"]) == 2
            assert "OPENCLAW_MEM_STORE_OWNER" in capsys.readouterr().err
            monkeypatch.setenv("OPENCLAW_MEM_STORE_OWNER", postgres.owner_address().replace(was, new))
            for _ in range(2):  # the second time changes nothing
                assert run(["store", "init"]) == 0
                assert "mem_app may use them" in capsys.readouterr().out
            for argv in (["index"], ["search", "router", "--explain"], ["why-not", "router", "MEMORY.md"]):
                assert run([*argv, *options]) == 0
                assert "MEMORY.md" in capsys.readouterr().out or argv == ["index"]
            for command in ("status", "doctor", "config"):
                assert run([command, *options, "--json"]) == 0
                shown = capsys.readouterr()
                assert f"agent {values['OPENCLAW_MEM_STORE_AGENT']}, shard" in shown.out
                assert "w0rd" not in shown.out + shown.err, "the password"
            assert not list((tmp_path / "data" / "indexes").rglob("*.sqlite"))
        finally:
            owner.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_a_missing_driver_is_said(
    make: Callable[..., PostgresIndex], monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres.location()
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ConfigError, match=r"uv tool install '\.\[postgres\]'"):
        make()


# -- the doctor --------------------------------------------------------------------------------------------


def test_the_doctor_finds_rows_that_are_gone(both: list[Any]) -> None:
    backend = backend_of(both[1])
    settings, store = backend.settings, backend.store
    assert isinstance(store, PostgresIndex)
    report = examine(settings, backend.embedders, deep=True)
    names = [check.name for check in report.checks if check.ok]
    assert {"index", "server", "rows", "built with", "files", "hashes", "notes"} <= set(names)
    path = "memory/style-guide.md"
    with store._turns.writing() as write:
        chosen = f"SELECT seq FROM {NAME}.chunks WHERE path = %(path)s"
        sql = f"DELETE FROM {NAME}.terms WHERE agent = %(agent)s AND seq IN ({chosen})"
        write.execute(sql, path=path)
    try:
        found = {finding.code: finding for finding in examine(settings, backend.embedders).findings}
        assert found["words-missing"].repair.endswith("index --force")
    finally:
        store.remove((path, "memory"))
        both[1].sync()
    assert "words-missing" not in {f.code for f in examine(settings, backend.embedders).findings}
