"""Keyword search for words that most chunks hold, over 84,000 chunks of 1,100 characters.

    uv run python benchmarks/common_words.py [--chunks 84000] [--rounds 15]

Baseline: FTS5 scores every chunk that holds one of the words (knob ``common_words=all``). Left out are words
of over 30 % of the chunks (``skip``, the default); the first round counts the words for all. A query of one
rare word shows what both cost it.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from _bench import Goal, ZipfText, embedder_words, given, in_turn, print_table, print_times, scratch

if TYPE_CHECKING:
    from openclaw_mem_engine.stores.query import CandidateRows, LexicalQuery
    from openclaw_mem_engine.stores.sqlite.store import SqliteIndex

PER_FILE, LIMIT = 200, 200
QUERIES = ("the and of to a in", "first which all also gateway", "gateway")


def write_index(path: Path, count: int) -> None:
    """An index of ``count`` chunks of Zipf's words, one file for every 200, without vectors."""
    from openclaw_mem_engine.model import chunk_id_of, text_hash
    from openclaw_mem_engine.stores.base import FileChange, FileState, Fingerprint, StoredChunk
    from openclaw_mem_engine.stores.sqlite.store import SqliteIndex

    text, store = ZipfText(embedder_words()), SqliteIndex(path)
    store.begin(Fingerprint("none", "", "", 400, 80, ("memory",)))
    for start in range(0, count, PER_FILE):
        note, chunks = f"memory/{start:07}.md", []
        for line in range(1, min(PER_FILE, count - start) + 1):
            lines = text.lines(1_100)
            key = text_hash(lines)
            chunk_id = chunk_id_of("memory", note, line, line, key, "")
            chunks.append(StoredChunk(chunk_id, note, "memory", line, line, key, lines))
        store.apply(FileChange(FileState(note, "memory", "", 0, 0, 0, 0), chunks, [None] * len(chunks)))
    store.close()


def left_out(store: SqliteIndex, query: LexicalQuery) -> CandidateRows:
    """A search as the knob ``common_words=skip`` does it."""
    return store.lexical(store.without_common(query), LIMIT)


def main() -> None:
    options = given(chunks=84_000, rounds=15)

    from openclaw_mem_engine.stores.query import build_query
    from openclaw_mem_engine.stores.sqlite.store import SqliteIndex

    with scratch() as folder:
        write_index(folder / "index.sqlite", options.chunks)
        store = SqliteIndex(folder / "index.sqlite")
        kept = [("query", "matched", "searched for")]
        try:
            for text in QUERIES:
                query = build_query(text, "or", "stemmed")
                assert query is not None
                searched = " ".join(store.without_common(query).words)
                kept.append((text, f"{store.lexical(query, LIMIT).matched:,}", searched))
                every, skip = f"all, {text}", f"skip, {text}"
                calls = {every: partial(store.lexical, query, LIMIT), skip: partial(left_out, store, query)}
                goals = {skip: Goal("CPU", 60)}
                title = f'"{text}", the best {LIMIT} of {options.chunks:,} chunks'
                print_times(title, in_turn(calls, options.rounds), every, goals)
        finally:
            store.close()
        print_table("What is left out", kept)


if __name__ == "__main__":
    main()
