"""What the store can say of itself: the rights and policies on its server, and whether its rows are whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from openclaw_mem_engine.commands import REBUILD
from openclaw_mem_engine.config.secret import Secret
from openclaw_mem_engine.errors import IndexUnavailable
from openclaw_mem_engine.sanitize import counted, counted_are, counted_have
from openclaw_mem_engine.stores.findings import Outcome
from openclaw_mem_engine.stores.postgres.connections import Connections
from openclaw_mem_engine.stores.postgres.schema import NAME, TABLES
from openclaw_mem_engine.stores.postgres.session import AgentRows

if TYPE_CHECKING:
    from openclaw_mem_engine.stores.base import IndexContent

_INIT = "openclaw-mem store init"
_SERVER = """SELECT current_setting('server_version'),
    (SELECT extversion FROM pg_extension WHERE extname = 'vector'),
    (SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user), current_user"""
_TABLES = """SELECT c.relname, c.relrowsecurity AND c.relforcerowsecurity,
        pg_has_role(current_user, c.relowner, 'MEMBER'),
        (SELECT count(*) FROM pg_policy p WHERE p.polrelid = c.oid),
        has_table_privilege(c.oid, 'INSERT') AND has_table_privilege(c.oid, 'UPDATE')
            AND has_table_privilege(c.oid, 'DELETE')
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %(schema)s AND c.relname = ANY(%(tables)s)"""


def versions(server: Secret) -> str:
    """What a server says it is, for people. Raises IndexUnavailable when it cannot be used."""
    connections = Connections(server)
    connection = connections.connect()
    try:
        with connections.explained():
            version, vector, _, user = connection.execute(_SERVER).fetchall()[0]
            tables = connection.execute("SELECT to_regclass(%s)", (f"{NAME}.agents",)).fetchall()[0][0]
    finally:
        connection.close()
    if tables is None:
        raise IndexUnavailable(f"PostgreSQL {version} has no tables of openclaw-mem: `{_INIT}` makes them.")
    return f"PostgreSQL {version}, pgvector {vector}, role {user}"


def diagnosis(content: IndexContent, rows: AgentRows) -> Mapping[str, Callable[[Outcome], None]]:
    """The checks by name. Each reads only. Raises what reading raises."""
    return {"server": lambda out: _server(rows, out), "rows": lambda out: _rows(content, rows, out)}


def _server(rows: AgentRows, out: Outcome) -> None:
    with rows.reading() as read:
        version, vector, unbound, user = read.rows(_SERVER)[0]
        tables = read.rows(_TABLES, schema=NAME, tables=list(TABLES))
    out.detail = f"PostgreSQL {version}, pgvector {vector}, role {user}"
    if open_tables := sorted(name for name, forced, _, policies, _ in tables if not forced or policies != 1):
        text = f"{counted_have(len(open_tables), 'table')} no forced policy: agents are not separated."
        out.add("no-policy", "error", text, open_tables, _INIT)
    if fixed := sorted(name for name, *_, writable in tables if not writable):
        text = f"The role {user} may not write {counted(len(fixed), 'table')}: searches work, syncs fail."
        out.add("role-too-weak", "error", text, fixed, _INIT)
    if unbound or any(owns for _, _, owns, _, _ in tables):
        why = "bypasses all policies" if unbound else "owns the tables, and could change their policies"
        text = f"The role {user} of store.servers {why}: use one that only has the rights of its rows."
        out.add("role-too-strong", "warning", text)


def _rows(content: IndexContent, agent_rows: AgentRows, out: Outcome) -> None:
    sql = f"""SELECT (SELECT count(*) FROM {NAME}.chunks WHERE agent = %(agent)s AND gen = %(gen)s),
        (SELECT count(*) FROM {NAME}.chunks c WHERE agent = %(agent)s AND gen = %(gen)s AND 2 <> (
            SELECT count(*) FROM {NAME}.terms t
            WHERE t.agent = %(agent)s AND t.gen = c.gen AND t.seq = c.seq)),
        (SELECT count(*) FROM {NAME}.terms t WHERE agent = %(agent)s AND gen = %(gen)s AND NOT EXISTS (
            SELECT 1 FROM {NAME}.chunks c
            WHERE c.agent = %(agent)s AND c.gen = t.gen AND c.seq = t.seq)),
        (SELECT count(*) FROM {NAME}.generations WHERE agent = %(agent)s AND gen <> %(gen)s)"""
    with agent_rows.reading() as read:
        chunks, wordless, orphans, left = read.rows(sql)[0]
    out.detail = f"{counted(chunks, 'chunk')}, {counted(left, 'unfinished rebuild')}"
    if wordless or orphans:
        text = f"{counted_have(wordless, 'chunk')} not all rows of its words, {orphans:,} rows no chunk."
        out.add("words-missing", "error", text, repair=REBUILD)
    if left:
        text = f"{counted_are(left, 'rebuild')} unfinished: the next one removes its rows."
        out.add("unfinished-rebuild", "info", text)
    if content.is_hollow():
        out.add("chunks-lost", "error", "Files with text are known, and no chunk of them.", repair=REBUILD)
