"""All checks of an index by name, and those of what is derived from its chunks: full-text rows, vectors,
and the embedding cache behind them. Each takes a snapshot and an outcome to write into."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import zip_longest

import apsw

from openclaw_mem_engine.commands import FIX, INDEX
from openclaw_mem_engine.model import Space
from openclaw_mem_engine.sanitize import byte_size, counted, counted_are, counted_have
from openclaw_mem_engine.stores.findings import Outcome
from openclaw_mem_engine.stores.query import Derived
from openclaw_mem_engine.stores.sqlite.schema import DERIVED, FULL_TEXT_ROWS, FULL_TEXT_TABLES, TEXT
from openclaw_mem_engine.stores.sqlite.snapshot import (
    Snapshot,
    check_chunks,
    check_facts,
    check_integrity,
    check_tables,
)
from openclaw_mem_engine.stores.sqlite.vectors import CACHED, NAMES, bad_vectors

#: Rows that are looked at one by one unless all are asked for.
_SAMPLE = 200

_WORD = re.compile(r"[A-Za-z0-9]{2,}")


def diagnose(
    snap: Snapshot, *, deep: bool = False, in_use: Sequence[Space] = ()
) -> dict[str, Callable[[Outcome], None]]:
    """The checks of an opened index by name, in the order in which they are to be made; each writes into an
    Outcome, none into the index. ``deep`` compares every word and vector, not a sample: minutes instead of
    seconds. ``in_use`` are the vector spaces of the configured providers. A check may raise apsw.Error,
    TypeError, ValueError, LookupError, AttributeError or ArithmeticError for what a damaged page makes of its
    rows. Those after "damaged", "tables-missing" or "newer-schema" have no meaning."""
    return {
        "integrity": partial(check_integrity, snap),
        "tables": partial(check_tables, snap),
        "format": partial(check_facts, snap),
        "chunks": partial(check_chunks, snap),
        "BM25 index": partial(check_full_text, snap, deep=deep),
        "vectors": partial(check_vectors, snap),
        "cache": partial(check_cache, snap, in_use=in_use),
    }


# -- full text ------------------------------------------------------------------------------------------


def check_full_text(snap: Snapshot, out: Outcome, *, deep: bool = False) -> None:
    """Each full-text table has exactly the chunks, and a chunk is found by its own words. ``deep``
    tokenises every chunk again and compares every word and its position with what the tables hold."""
    chunks = {row[0] for row in snap.rows("SELECT seq FROM chunks")}
    sizes, compared = [], []
    for form, table in FULL_TEXT_TABLES.items():
        if table not in snap.tables:
            continue  # no search needed it yet, or the check of the tables says so
        held = {row[0] for row in snap.rows(f"SELECT rowid FROM {table}")}
        sizes.append(f"{len(held):,} {form}")
        of = f"table {table}"
        if missing := chunks - held:
            text = f"{counted_are(len(missing), 'chunk')} missing from the BM25 index: no keyword finds them."
            out.add("full-text-missing", "error", text, (*_locations(snap, missing), of), FIX)
        if orphans := held - chunks:
            text = f"The words of {counted(len(orphans), 'chunk')} are indexed, but their text is missing: "
            text += "no search can return it."
            out.add(
                "full-text-orphans", "error", text, (f"{row} of {table}" for row in _numbers(orphans)), FIX
            )
        lost = [seq for seq in _sample(sorted(chunks & held)) if not _finds(snap, table, seq)]
        if lost:
            text = f"{counted_are(len(lost), 'chunk')} of a sample not found by their own words."
            out.add("full-text-lost", "error", text, (*_locations(snap, lost), of), FIX)
        if not deep or missing or orphans or lost:
            continue
        compared.append(form)
        if not _same_words(snap, form, table):
            text = "The words in the BM25 index are not those of the chunks: searches can miss chunks."
            out.add("full-text-differs", "error", text, (of,), FIX)
    out.detail = f"{counted(len(chunks), 'chunk')}; rows: {', '.join(sizes) or 'none'}"
    if compared:
        *others, last = compared
        forms = f"{', '.join(others)} and {last}" if others else last
        out.detail += f"; every word and its position compared in {forms}"


def _finds(snap: Snapshot, table: str, seq: int) -> bool:
    """Whether a chunk is found by some of its own words. Only words that no tokeniser sees differently are
    asked for: those of pieces that are ASCII alone."""
    ((text,),) = snap.rows(f"SELECT {TEXT} FROM chunks c WHERE seq = ?", (seq,))
    pieces = (piece for piece in str(text)[:4000].split() if piece.isascii())
    words = list(dict.fromkeys(word for piece in pieces for word in _WORD.findall(piece)))[:5]
    if not words:
        return True
    query = " AND ".join(f'"{word}"' for word in words)
    return bool(snap.rows(f"SELECT 1 FROM {table} WHERE {table} MATCH ? AND rowid = ?", (query, seq)))


def _same_words(snap: Snapshot, form: Derived, table: str) -> bool:
    """Whether a table made anew from the chunks would hold the same words, each at the same positions of the
    same chunks."""
    into, values = FULL_TEXT_ROWS[form]
    with closing(apsw.Connection(":memory:")) as fresh:
        fresh.execute(DERIVED[form])
        fresh.executemany(
            f"INSERT INTO {table}{into}",
            (values(*row) for row in snap.connection.execute(f"SELECT seq, path, {TEXT} FROM chunks c")),
        )
        fresh.execute(f"CREATE VIRTUAL TABLE temp.{table}_words USING fts5vocab(main, {table}, instance)")
        # Words, chunks and positions come in this order. A row for each word is half the work of one for each
        # of its positions.
        at = "group_concat(doc || ':' || col || ':' || offset)"
        sql = f"SELECT term, {at} FROM temp.{table}_words GROUP BY term"
        return all(
            mine == theirs for mine, theirs in zip_longest(snap.connection.execute(sql), fresh.execute(sql))
        )


# -- vectors --------------------------------------------------------------------------------------------


def check_vectors(snap: Snapshot, out: Outcome) -> None:
    """Chunks have their vectors, or the next sync makes them."""
    space = snap.space()
    if space is None:
        out.detail = "BM25 only: no vectors are configured"
        return
    chunks = {row[0] for row in snap.rows("SELECT seq FROM chunks")}
    known = snap.rows(f"SELECT c.seq, e.embedding IS NOT NULL FROM {CACHED}", space)
    wanted = {seq for seq, there in known if there}
    out.detail = f"{len(wanted):,} of {counted(len(chunks), 'chunk')} have one"
    if without := chunks - {seq for seq, _ in known}:
        text = f"{counted_have(len(without), 'chunk')} no vector of {space.label} yet."
        out.add("vectors-awaited", "warning", text, _locations(snap, without), INDEX)


# -- the cache ------------------------------------------------------------------------------------------


def check_cache(snap: Snapshot, out: Outcome, in_use: Sequence[Space] = ()) -> None:
    """Every cached vector can be used. Spaces other than ``in_use``, those of the providers, are reported."""
    total = snap.number("SELECT count(*) FROM embedding_cache")
    out.detail = counted(total, "embedding")
    faults = {
        "cache-values": "of zeros, of values that are not numbers, or not of unit length",
        "cache-dims": "of another number of dimensions than the rest of their space",
        "cache-bytes": "of other bytes than were stored",
        "cache-names": "of no space that has a name",
    }
    for code, bad in bad_vectors(snap.connection).items():
        text = f"{counted(len(bad), 'vector')} of the cache: {faults[code]}."
        out.add(code, "error", text, _numbers(bad), FIX)
    primary = snap.space()
    sizes = snap.rows(
        f"""SELECT {NAMES}, count(*), sum(coalesce(length(embedding), 0)),
        sum(hash NOT IN (SELECT hash FROM chunks)) FROM embedding_cache e JOIN spaces s ON s.id = e.space
        GROUP BY s.id ORDER BY 4 DESC"""
    )
    named = [(Space(*(name.decode("utf-8", "replace") for name in row[:3])), *row[3:]) for row in sizes]
    used = {space for space in (primary, *in_use) if space is not None}
    dead = [row for row in named if row[0] not in used | {space.of_zeros for space in used}]
    if dead:
        number, size, gone = (sum(row[column] for row in dead) for column in (1, 2, 3))
        text = (
            f"{counted_are(number, 'cached vector')} of models not in use now ({byte_size(size)}). "
            f"They make a change back free of charge. Pruning removes {gone:,} whose text is deleted."
        )
        some = (f"{row[0].label}: {row[1]:,}" for row in dead)
        out.add("dead-spaces", "info", text, some, "openclaw-mem cache prune --max 0" if gone else "")


# -- words ----------------------------------------------------------------------------------------------


def _sample(numbers: list[int], most: int = _SAMPLE) -> list[int]:
    """At most so many, evenly spread, always the same ones."""
    most = min(most, len(numbers))
    return [numbers[i * len(numbers) // most] for i in range(most)]


def _locations(snap: Snapshot, seqs: Iterable[int]) -> Iterator[str]:
    sql = "SELECT path, start_line, end_line FROM chunks WHERE seq = ?"
    for seq in sorted(seqs):
        for path, first, last in snap.rows(sql, (seq,)):
            yield f"{path}:{first}-{last}"


def _numbers(numbers: Iterable[int]) -> Iterator[str]:
    return (f"row {number}" for number in sorted(numbers))
