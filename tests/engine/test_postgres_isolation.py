"""Agents on one PostgreSQL server: no method of a store reads or writes rows of another agent, and no
statement does so that names none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_mem_engine.config.secret import Secret
from openclaw_mem_engine.errors import OpenClawMemError
from openclaw_mem_engine.model import Space
from openclaw_mem_engine.ranking.profiles import DOCUMENTED
from openclaw_mem_engine.stores.base import UNLIMITED, FileChange, IndexStore
from openclaw_mem_engine.stores.findings import Outcome
from openclaw_mem_engine.stores.postgres.schema import NAME, TABLES, agent_number
from openclaw_mem_engine.stores.postgres.store import PostgresGeneration, PostgresIndex
from openclaw_mem_engine.stores.query import LexicalQuery, build_query
from support import postgres
from support.stores import FINGERPRINT, change_of, unit

OTHER_SPACE = Space("another", "model", "key")
VECTORS = [unit([1, number, 2, 3]) for number in range(3)]
#: The same path, the same text, and what one of them alone has.
MINE = [
    change_of("MEMORY.md", ["The pump runs.", "The gateway is grey."], VECTORS[:2]),
    change_of("memory/both.md", ["The pump, as one saw it.", "A text of both."], VECTORS[1:]),
]
THEIRS = [
    change_of("memory/secret.md", ["The hidden pump.", "Foreign, a pump of pumps."], VECTORS[:2]),
    change_of("memory/both.md", ["The pump, as another saw it.", "A text of both."], VECTORS[1:]),
]


def chunks_of(changes: Sequence[FileChange]) -> list[Any]:
    return [chunk for change in changes for chunk in change.chunks]


IDS = [chunk.chunk_id for chunk in chunks_of([*MINE, *THEIRS])]
HASHES = [chunk.hash for chunk in chunks_of([*MINE, *THEIRS])]
TEXTS = {chunk.chunk_id: chunk.text for chunk in chunks_of([*MINE, *THEIRS])}
SECRET = THEIRS[0].state.path


def query(text: str = "hidden pump") -> LexicalQuery:
    found = build_query(text, "or", "stemmed")
    assert found is not None
    return found


def _entered(context: Any) -> None:
    with context:
        pass


def _findings(store: PostgresIndex) -> list[Any]:
    outcomes = []
    for name, check in store.diagnosis().items():
        check(out := Outcome())
        outcomes.append((name, out.detail, out.findings))
    return outcomes


def _generation(store: PostgresIndex) -> Any:
    generation = store.new_generation(FINGERPRINT, FINGERPRINT.space)
    generation.cache_vectors({HASHES[-1]: VECTORS[0]})
    found = generation.files(), generation.counts(), generation.cached_vectors(HASHES), generation.dropped
    generation.abort()
    return found


def _rebuild(store: PostgresIndex) -> None:
    """With ``commit``, which also removes the generation before it."""
    store.rebuild(FINGERPRINT, lambda fresh: fresh.apply(*MINE), without=FINGERPRINT.space)


#: Every public method, called with what belongs to the other agent. A new one fails the first test.
CALLS: dict[str, Callable[[PostgresIndex], Any]] = {
    "apply": lambda s: s.apply(THEIRS[1], built_with=FINGERPRINT),
    "begin": lambda s: s.begin(FINGERPRINT),
    "bytes_on_disk": lambda s: s.bytes_on_disk() > 0,
    "cache_sizes": lambda s: [(size.space, size.entries, size.live, size.bytes) for size in s.cache_sizes()],
    "cache_vectors": lambda s: s.cache_vectors({HASHES[-2]: VECTORS[2]}, OTHER_SPACE),
    "cached_hashes": lambda s: [s.cached_hashes(FINGERPRINT.space), s.cached_hashes(OTHER_SPACE)],
    "cached_vectors": lambda s: [s.cached_vectors(HASHES), s.cached_vectors(HASHES, OTHER_SPACE)],
    "chunk_counts": lambda s: s.chunk_counts(),
    "chunks_of": lambda s: [s.chunks_of(change.state.path) for change in (*MINE, *THEIRS)],
    "chunks_without_vector": lambda s: s.chunks_without_vector(99, OTHER_SPACE),
    "close": lambda s: PostgresIndex(s.path, location=s._rows.at).close(),
    "cosines": lambda s: sorted(s.cosines(VECTORS[0], IDS).items()),
    "counts": lambda s: s.counts(),
    "covered": lambda s: [s.covered(), s.covered(OTHER_SPACE)],
    "diagnosis": _findings,
    "exclusive": lambda s: _entered(s.exclusive()),
    "fetch": lambda s: s.fetch(IDS),
    "files": lambda s: s.files(),
    "fingerprint": lambda s: s.fingerprint(),
    "finish": lambda s: s.finish(5.0),
    "follow": lambda s: s.follow(),
    "generation": lambda s: s.generation(),
    "in_full_text": lambda s: sorted(s.in_full_text(IDS)),
    "interrupt": lambda s: s.interrupt(),
    "is_hollow": lambda s: s.is_hollow(),
    "is_present": lambda s: s.is_present(),
    "lacking": lambda s: sorted(s.lacking("plain", "named", "lines")),
    "lexical": lambda s: s.lexical(query(), UNLIMITED),
    "lexical_ranks": lambda s: s.lexical_ranks(query(), IDS),
    "lexical_scores": lambda s: s.lexical_scores(query(), IDS),
    "line_scores": lambda s: s.line_scores(query(), TEXTS, IDS),
    "location": lambda s: s.location.replace(s._rows.at.agent, ""),
    "matching": lambda s: sorted(s.matching(query(), IDS)),
    "new_generation": _generation,
    "notes": lambda s: s.notes,
    "opened": lambda s: s.opened,
    "was_empty": lambda s: s.was_empty,
    "packed_lines": lambda s: s.packed_lines(IDS, FINGERPRINT.space),
    "passages": lambda s: [*s.passages()],
    "provide": lambda s: s.provide("plain", "named", "lines"),
    "prune_cache": lambda s: s.prune_cache(1),
    "rebuild": _rebuild,
    "remove": lambda s: s.remove((SECRET, "memory")),
    "set_vectors": lambda s: s.set_vectors(dict.fromkeys(IDS, VECTORS[1]), FINGERPRINT),
    "snapshot": lambda s: _entered(s.snapshot()),
    "spaces": lambda s: s.spaces(),
    "stays_open": lambda s: s.stays_open,
    "synced_at": lambda s: s.synced_at(),
    "touch": lambda s: s.touch([MINE[1].state._replace(mtime_ns=9)]),
    "unshown": lambda s: s.unshown(DOCUMENTED),
    "vector": lambda s: s.vector(VECTORS[0], UNLIMITED),
    "vector_dims": lambda s: [s.vector_dims(), s.vector_dims(OTHER_SPACE)],
    "settle": lambda s: s.settle("files", "digest"),
    "settled": lambda s: s.settled(),
    "vector_ranks": lambda s: s.vector_ranks(VECTORS[0], IDS),
    "without_common": lambda s: s.without_common(query()),
}
#: What a generation has besides; ``_generation`` and ``_rebuild`` use it.
OF_GENERATIONS = {"abort", "commit", "dropped"}


def public(of: type) -> set[str]:
    return {name for name in dir(of) if not name.startswith("_")}


def test_every_method_is_covered() -> None:
    assert public(PostgresIndex) == {*CALLS} and public(IndexStore) <= {*CALLS}
    assert public(PostgresGeneration) == {*CALLS} | OF_GENERATIONS


def filled(path: Path, changes: Sequence[FileChange], server: str) -> PostgresIndex:
    at = postgres.location()._replace(server=Secret(server))
    store = PostgresIndex(path, location=at)
    store.begin(FINGERPRINT)
    store.apply(*changes, built_with=FINGERPRINT)
    store.cache_vectors({chunk.hash: VECTORS[0] for chunk in chunks_of(changes)[:3]}, OTHER_SPACE)
    return store


def answers(store: PostgresIndex, order: Sequence[str]) -> list[tuple[str, str]]:
    found = []
    for name in order:
        try:
            found.append((name, repr(CALLS[name](store))))
        except OpenClawMemError as error:
            found.append((name, type(error).__name__))
    return found


@pytest.mark.parametrize("as_owner", [False, True])
@settings(max_examples=3)
@given(order=st.permutations(sorted(CALLS)))
def test_no_method_reads_or_writes_rows_of_another_agent(as_owner: bool, order: list[str]) -> None:
    """Every method gives the same with and without another agent on the server, whose rows stay as they are.
    The owner passes by the policies: there the statements alone keep agents apart."""
    path = Path("/nowhere/index.sqlite")
    server = postgres.owner_address() if as_owner else postgres.app_address()
    opened = []
    try:
        opened.append(alone := filled(path, MINE, server))
        wanted = answers(alone, order)
        opened.append(other := filled(path, THEIRS, server))
        before = postgres.rows_of(other._rows.agent)
        opened.append(beside := filled(path, MINE, server))
        assert answers(beside, order) == wanted
        assert postgres.rows_of(other._rows.agent) == before and len(before["chunks"]) == 4
        assert [error for _, error in wanted if error.endswith("Error")] == []
    finally:
        for store in opened:
            store.close()


STATEMENTS = (
    "SELECT * FROM {0}",
    "DELETE FROM {0}",
    "UPDATE {0} SET agent = agent",
    "INSERT INTO {0} SELECT * FROM {0}",
    "INSERT INTO {0}(agent) VALUES (7)",
)


@pytest.mark.parametrize("table", TABLES)
def test_without_an_agent_no_statement_reads_or_writes(table: str) -> None:
    """Also after a transaction that named one, as on the connections of a pooler."""
    whole = f"{NAME}.{table}"
    with psycopg.connect(postgres.app_address(), autocommit=True) as connection:
        for _ in range(2):
            for statement in STATEMENTS:
                with pytest.raises(psycopg.errors.DatabaseError, match=r"mem\.agent|invalid input syntax"):
                    connection.execute(statement.format(whole))
            for statement in (f"TRUNCATE {whole}", f"ALTER TABLE {whole} DISABLE ROW LEVEL SECURITY"):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(statement)
            with connection.transaction():
                connection.execute("SELECT set_config('mem.agent', '7', true)")
                assert connection.execute(f"SELECT count(*) FROM {whole}").fetchone() == (0,)


def test_the_role_of_programs_owns_nothing_and_reaches_rows_through_policies_alone() -> None:
    with psycopg.connect(postgres.app_address(), autocommit=True) as connection:
        role = connection.execute(
            """SELECT rolsuper, rolbypassrls, rolcreaterole, rolcreatedb FROM pg_roles
            WHERE rolname = current_user"""
        ).fetchone()
        assert role == (False, False, False, False)
        owned = "SELECT count(*) FROM pg_class WHERE pg_has_role(current_user, relowner, 'MEMBER')"
        assert connection.execute(owned).fetchone() == (0,)
        relations = connection.execute(
            """SELECT relname, relispartition, relrowsecurity AND relforcerowsecurity,
                has_table_privilege(oid, 'SELECT') OR has_table_privilege(oid, 'INSERT')
                OR has_table_privilege(oid, 'UPDATE') OR has_table_privilege(oid, 'DELETE')
            FROM pg_class
            WHERE relnamespace = %s::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'f', 'S')""",
            (NAME,),
        ).fetchall()
        assert {name for name, part, _, _ in relations if not part} == {*TABLES}, "a table without a test"
        assert all(forced for _, part, forced, _ in relations if not part)
        assert not [name for name, part, _, rights in relations if part and rights]


def test_rows_are_written_for_no_other_agent() -> None:
    with psycopg.connect(postgres.app_address()) as connection:
        connection.execute("SELECT set_config('mem.agent', '1', true)")
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
            connection.execute(
                f"INSERT INTO {NAME}.agents(agent, name) VALUES (%s, 'x')", (agent_number("x"),)
            )
