"""Making the tables of a server, in the name of their owner."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from openclaw_mem_engine.config.secret import Secret
from openclaw_mem_engine.errors import IndexUnavailable
from openclaw_mem_engine.stores.postgres.checks import versions
from openclaw_mem_engine.stores.postgres.connections import Address, Connections, driver
from openclaw_mem_engine.stores.postgres.schema import COLUMNS, NAME, grants, statements

if TYPE_CHECKING:
    from openclaw_mem_engine.stores.postgres.connections import Connection

#: The addresses of the roles that own the tables, in the order of the servers; never an argument, which
#: other users of the host could read.
OWNER_VARIABLE = "OPENCLAW_MEM_STORE_OWNER"
#: Whether a role may make the tables, and the one that owns them, or the database as long as there are none.
_RIGHTS = """SELECT current_user,
    coalesce(pg_has_role(n.nspowner, 'USAGE'), has_database_privilege(d.oid, 'CREATE')),
    pg_get_userbyid(coalesce(n.nspowner, d.datdba))
    FROM pg_database d LEFT JOIN pg_namespace n ON n.nspname = %s WHERE d.datname = current_database()"""
#: The columns and keys of a table with their definitions, and whether rows can be written without naming it.
_DEFINITIONS = """SELECT a.attname, format_type(a.atttypid, a.atttypmod)
        || coalesce(' COLLATE ' || quote_ident(nullif(c.collname, 'default')), '')
        || CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END
        || coalesce(' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid), ''), NOT a.attnotnull OR a.atthasdef
    FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
        LEFT JOIN pg_collation c ON c.oid = a.attcollation
    WHERE a.attrelid = to_regclass(%(table)s) AND a.attnum > 0 AND NOT a.attisdropped
    UNION ALL SELECT pg_get_constraintdef(k.oid), 'a key', true
    FROM pg_constraint k WHERE k.conrelid = to_regclass(%(table)s) AND k.contype IN ('p', 'u')"""


def install(owner: Secret, server: Secret) -> tuple[str, str]:
    """Make or update extension, tables and policies, let the role of ``server`` use them, and ask as that
    role. Returns server and role, for people. All or nothing. Raises ConfigError, IndexUnavailable."""
    psycopg = driver()
    shown = Address.of(server).shown
    role = psycopg.conninfo.conninfo_to_dict(server.reveal()).get("user")
    connections = Connections(owner, OWNER_VARIABLE)
    connection = connections.connect()
    try:
        with connections.explained():
            _check_rights(connection, server, str(role))
            held = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (role,)).fetchall()
            if not held:
                raise IndexUnavailable(
                    f"The PostgreSQL server {shown} has no role {role or 'in its address'}: make one with "
                    "CREATE ROLE name LOGIN PASSWORD '…', name it in store.servers, and run this again."
                )
            with connection.transaction():
                # Two that run this at once would both make the same table.
                connection.execute("SELECT pg_advisory_xact_lock(hashtext('openclaw_mem'))")
                connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
                connection.execute(f"CREATE SCHEMA IF NOT EXISTS {NAME}")
                if differing := [text for table in COLUMNS for text in _differences(connection, table)]:
                    raise IndexUnavailable(
                        f"The tables on {shown} are of another version of this program: "
                        f"{'; '.join(differing)}. Nothing was changed. Use that version. Or remove all "
                        f"indexes there, with their embeddings: run `DROP SCHEMA {NAME} CASCADE` as the "
                        "owner, then `openclaw-mem store init`, then `openclaw-mem index` for each agent."
                    )
                for statement in (*statements(), *grants(psycopg.sql.Identifier(role).as_string())):
                    connection.execute(statement)
    finally:
        connection.close()
    try:
        versions(server)
    except IndexUnavailable as error:
        raise IndexUnavailable(
            f"The tables on {shown} are there, but their role cannot use them: {error}"
        ) from error
    return shown, str(role)


def example(server: Secret, owner: str) -> str:
    """An address of the role ``owner`` on the server of another address, but for its password."""
    parts = driver().conninfo.conninfo_to_dict(server.reveal())
    shown = Address.of(server).shown
    if (host := str(parts.get("host", ""))).startswith("/"):
        shown = f"/{parts.get('dbname', '')}?host={host}&port={parts.get('port', 5432)}"
    return f"postgresql://{owner}:PASSWORD@{shown}"


def _check_rights(connection: Connection, server: Secret, role: str) -> None:
    """Raises IndexUnavailable for one that may not make tables, as the ``role`` of programs."""
    ((user, may, owner),) = connection.execute(_RIGHTS, (NAME,)).fetchall()
    if not may:
        what = " It is the one of store.servers, for programs." if user == role else ""
        raise IndexUnavailable(
            f"The role {user} may not make tables in {Address.of(server).shown}.{what} Set {OWNER_VARIABLE} "
            f"to the address of their owner, {example(server, owner)}, and run `openclaw-mem store init` "
            "again."
        )


def _differences(connection: Connection, table: str) -> Iterator[str]:
    """What is not as this version makes it, of a table that is there: it is made beside, and compared.
    Columns that a newer version added are no matter unless they must be given."""
    held = _definitions(connection, f"{NAME}.{table}")
    if not held:
        return
    connection.execute(f"CREATE TABLE {NAME}.needed ({COLUMNS[table]})")
    needed = _definitions(connection, f"{NAME}.needed")
    connection.execute(f"DROP TABLE {NAME}.needed")
    for name, (definition, _) in needed.items():
        found = held[name][0] if name in held else "missing"
        if found != definition:
            yield f"{table}.{name} is {found}, must be {definition}"
    for name, (definition, optional) in held.items():
        if name not in needed and not optional:
            yield f"{table}.{name} is {definition}, must not be there"


def _definitions(connection: Connection, table: str) -> dict[str, tuple[str, bool]]:
    found = connection.execute(_DEFINITIONS, {"table": table}).fetchall()
    return {name: (definition, optional) for name, definition, optional in found}
