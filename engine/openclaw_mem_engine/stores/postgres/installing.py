"""Making the tables of a server, in the name of their owner."""

from __future__ import annotations

from openclaw_mem_engine.config.secret import Secret
from openclaw_mem_engine.errors import IndexUnavailable
from openclaw_mem_engine.stores.postgres.connections import Address, Connections, driver
from openclaw_mem_engine.stores.postgres.schema import grants, statements

#: The addresses of the roles that own the tables, in the order of the servers; never an argument, which
#: other users of the host could read.
OWNER_VARIABLE = "OPENCLAW_MEM_STORE_OWNER"


def install(owner: Secret, server: Secret) -> tuple[str, str]:
    """Make or update extension, tables and policies, and let the role of ``server`` use them. Returns the
    server and that role, for people. All or nothing. Raises ConfigError, IndexUnavailable."""
    psycopg = driver()
    shown = Address.of(server).shown
    role = psycopg.conninfo.conninfo_to_dict(server.reveal()).get("user")
    connections = Connections(owner, OWNER_VARIABLE)
    connection = connections.connect()
    try:
        with connections.explained():
            held = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (role,)).fetchall()
            if not held:
                raise IndexUnavailable(
                    f"The PostgreSQL server {shown} has no role {role or 'in its address'}: make one with "
                    "CREATE ROLE name LOGIN PASSWORD '…', name it in store.servers, and run this again."
                )
            with connection.transaction():
                # Two that run this at once would both make the same table.
                connection.execute("SELECT pg_advisory_xact_lock(hashtext('openclaw_mem'))")
                for statement in (*statements(), *grants(psycopg.sql.Identifier(role).as_string())):
                    connection.execute(statement)
    finally:
        connection.close()
    return shown, str(role)
