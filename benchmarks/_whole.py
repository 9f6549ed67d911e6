"""Whether an index file is whole, found out with SQL alone: none of the code that made it is asked."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from zlib import crc32

import apsw

#: Every line of a generated note carries the mark of its version, so a mixture of two would be seen.
MARK = re.compile(r"mark[0-9]+x")

_SPACE = """e.space = (SELECT id FROM spaces WHERE provider = json_extract(:f, '$.provider')
    AND model = json_extract(:f, '$.model') AND provider_key = json_extract(:f, '$.provider_key'))"""
#: The text of a chunk begins with the last ``shared`` bytes of the one before.
_TEXTS = """SELECT c.path, coalesce(substr(CAST(p.text AS BLOB), -nullif(c.shared, 0)), '') || c.text
    FROM chunks c LEFT JOIN chunks p ON p.seq = c.seq - 1"""
_COUNTS = {
    "chunks without a file": """SELECT count(*) FROM chunks c WHERE NOT EXISTS(
        SELECT 1 FROM files f WHERE f.path = c.path AND f.source = c.source)""",
    "files without chunks": """SELECT count(*) FROM files f WHERE refusal = '' AND size > 0 AND NOT EXISTS(
        SELECT 1 FROM chunks c WHERE f.path = c.path AND f.source = c.source)""",
}
#: Of each table that has a row for every chunk: that of stemmed words, and those that some search needed.
_ROW_COUNTS = {
    "chunks without rows of {}": "SELECT count(*) FROM chunks WHERE seq NOT IN (SELECT {1} FROM {0})",
    "rows of {} without a chunk": "SELECT count(*) FROM {0} WHERE {1} NOT IN (SELECT seq FROM chunks)",
}
_DERIVED = {
    "chunks_fts_stemmed": "rowid",
    "chunks_fts": "rowid",
    "chunks_fts_named": "rowid",
    "line_tokens": "seq",
}
_VECTOR_COUNTS = {
    "chunks without a vector": f"""SELECT count(*) FROM chunks c
        LEFT JOIN embedding_cache e ON {_SPACE} AND e.hash = c.hash WHERE e.embedding IS NULL""",
    "vectors of no space": """SELECT count(*) FROM embedding_cache
        WHERE space NOT IN (SELECT id FROM spaces)""",
    "vectors other than what was stored": """SELECT count(*) FROM embedding_cache
        WHERE crc32(hash, embedding) != checksum""",
}


def examine(index: Path) -> tuple[list[str], dict[str, str]]:
    """What is wrong with an index (nothing: it is whole), and the mark of each indexed path."""
    connection = apsw.Connection(str(index))
    try:
        connection.set_busy_timeout(10_000)
        connection.create_scalar_function("crc32", lambda *parts: crc32(b"".join(filter(None, parts))), 2)
        connection.execute("BEGIN")  # one state of the file for all questions
        return _examine(connection)
    except apsw.Error as error:
        return [f"{type(error).__name__}: {error}"], {}
    finally:
        connection.close()


def _examine(connection: apsw.Connection) -> tuple[list[str], dict[str, str]]:
    def number(sql: str, **bound: object) -> int:
        found: list[Any] = connection.execute(sql, bound).fetchall()
        return int(found[0][0])

    wrong = [str(row[0]) for row in connection.execute("PRAGMA integrity_check") if row[0] != "ok"]
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema")}
    if "chunks_fts_stemmed" not in tables or not number("SELECT count(*) FROM chunks"):
        return wrong, {}  # killed before the first notes were written
    told: list[Any] = connection.execute("SELECT value FROM meta WHERE key = 'fingerprint'").fetchall()
    if not told:
        return [*wrong, "no fingerprint"], {}
    queries = _COUNTS | {
        name.format(table): sql.format(table, key)
        for table, key in _DERIVED.items()
        if table in tables
        for name, sql in _ROW_COUNTS.items()
    }
    if json.loads(told[0][0])["provider"] != "none":
        queries |= _VECTOR_COUNTS
    for name, sql in queries.items():
        bound = {"f": told[0][0]} if ":f" in sql else {}
        if found := number(sql, **bound):
            wrong.append(f"{found} {name}")
    marks: dict[str, set[str]] = {}
    for path, text in connection.execute(_TEXTS):
        marks.setdefault(path, set()).update(MARK.findall(text) or [""])
    wrong += [f"{path} is a mixture: {sorted(found)}" for path, found in marks.items() if len(found) != 1]
    only = {path: next(iter(found)) for path, found in marks.items() if len(found) == 1}
    for path, mark in only.items():
        seen = connection.execute(
            """SELECT DISTINCT path FROM chunks WHERE seq IN (
                SELECT rowid FROM chunks_fts_stemmed WHERE chunks_fts_stemmed MATCH ?)""",
            (f'"{mark}"',),
        )
        if [row[0] for row in seen] != [path]:
            wrong.append(f"{path} is not found by its words")
    return wrong, only
