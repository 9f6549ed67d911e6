"""Tables of the store on one server, and the rights of the role that uses them. Applying them again changes
nothing. Every table holds ``agent``, by which rows are partitioned, protected and could be distributed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

#: The PostgreSQL schema that holds everything.
NAME = "openclaw_mem"
PARTITIONS = 32
_SETTING = "mem.agent"

COLUMNS = {
    # A lease keeps other hosts from writing while one brings the index up to date.
    "agents": """agent bigint PRIMARY KEY, name text NOT NULL, live int NOT NULL DEFAULT 0,
        lease_owner text, lease_until timestamptz""",
    "generations": """agent bigint NOT NULL, gen int NOT NULL, generation bigint NOT NULL DEFAULT 0,
        fingerprint text, synced_at float8, PRIMARY KEY (agent, gen)""",
    "files": """agent bigint NOT NULL, gen int NOT NULL, path text COLLATE "C" NOT NULL, source text NOT NULL,
        hash text NOT NULL, mtime_ns bigint NOT NULL, size bigint NOT NULL, inode bigint NOT NULL,
        checked_ns bigint NOT NULL, refusal text NOT NULL, PRIMARY KEY (agent, gen, path, source)""",
    "chunks": """agent bigint NOT NULL, gen int NOT NULL, seq bigint NOT NULL, id text COLLATE "C" NOT NULL,
        path text COLLATE "C" NOT NULL, source text NOT NULL, start_line int NOT NULL, end_line int NOT NULL,
        hash text COLLATE "C" NOT NULL, text text NOT NULL,
        PRIMARY KEY (agent, gen, seq), UNIQUE (agent, gen, id)""",
    # t: hashes of the distinct tokens of text and name, ascending; n: how often each is in the text, times
    # 4096, plus how often in the name. dl, nl: tokens of the text, of the name.
    "terms": """agent bigint NOT NULL, gen int NOT NULL, kind text NOT NULL, seq bigint NOT NULL,
        dl int NOT NULL, nl int NOT NULL, t bigint[] STORAGE MAIN NOT NULL, n int[] STORAGE MAIN NOT NULL,
        PRIMARY KEY (agent, gen, kind, seq)""",
    # v NULL: asked, and the text has none. pending: the generation that made it and is not live yet, else 0.
    "vectors": """agent bigint NOT NULL, space text COLLATE "C" NOT NULL, pending int NOT NULL DEFAULT 0,
        hash text COLLATE "C" NOT NULL, v vector STORAGE EXTERNAL, dims int NOT NULL,
        updated_at float8 NOT NULL, PRIMARY KEY (agent, space, pending, hash)""",
}

#: The rows and bytes of an agent by table, without what the server keeps beside them.
SIZES = " UNION ALL ".join(
    f"""SELECT '{table}', count(*), coalesce(sum(pg_column_size(x)), 0)::bigint
    FROM {NAME}.{table} x WHERE agent = %(agent)s"""
    for table in ("files", "chunks", "terms", "vectors")
)
TABLES = tuple(COLUMNS)


def agent_number(name: str) -> int:
    """The number of an agent by its name: 64 bits of its SHA-256, signed."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big", signed=True)


def statements() -> Iterator[str]:
    """What makes tables and policies."""
    for table, columns in COLUMNS.items():
        whole = f"{NAME}.{table}"
        parts = table != "agents"
        yield f"CREATE TABLE IF NOT EXISTS {whole} ({columns})" + " PARTITION BY HASH (agent)" * parts
        for part in range(PARTITIONS * parts):
            yield f"""CREATE TABLE IF NOT EXISTS {whole}_{part} PARTITION OF {whole}
                FOR VALUES WITH (MODULUS {PARTITIONS}, REMAINDER {part})"""
        yield f"ALTER TABLE {whole} ENABLE ROW LEVEL SECURITY"
        yield f"ALTER TABLE {whole} FORCE ROW LEVEL SECURITY"
        own = f"(agent = current_setting('{_SETTING}')::bigint)"
        yield f"DROP POLICY IF EXISTS own_rows ON {whole}"
        yield f"CREATE POLICY own_rows ON {whole} USING {own} WITH CHECK {own}"
    yield f"CREATE INDEX IF NOT EXISTS chunks_path ON {NAME}.chunks (agent, gen, path, source)"


def grants(role: str) -> Iterator[str]:
    """What lets ``role`` (quoted as an identifier) use the tables, and nothing else."""
    yield f"GRANT USAGE ON SCHEMA {NAME} TO {role}"
    for table in TABLES:  # not the partitions: those are reached through their table, and its policy
        yield f"GRANT SELECT, INSERT, UPDATE, DELETE ON {NAME}.{table} TO {role}"


def opening(agent: int, mode: str, statement_timeout_ms: int, lock_timeout_ms: int = 0) -> str:
    """The beginning of every transaction: rows of no other agent are seen or written in it. The settings end
    with the transaction, so that poolers may share its connection; Citus can hand SET LOCAL on. Joins are by
    hash: a nested loop, chosen for an agent whose rows the server has not counted yet, took 0.8 s where a
    hash takes 9 ms. Hashes and sorts of some thousand rows stay in memory, which halves the time of a search
    in 8,000 vectors."""
    return f"""BEGIN {mode};
        SET LOCAL {_SETTING} = '{agent:d}';
        SET LOCAL enable_nestloop = off; SET LOCAL work_mem = '32MB';
        SET LOCAL statement_timeout = {statement_timeout_ms:d};
        SET LOCAL lock_timeout = {lock_timeout_ms:d};"""
