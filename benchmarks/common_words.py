"""Keyword search for words that most chunks hold, over 84,000 chunks of 1,100 characters.

    uv run python benchmarks/common_words.py [--chunks 84000] [--rounds 15]

Baseline: FTS5 scores every chunk that holds one of the words (knob ``common_words=all``). Left out are words
of over 30 % of the chunks (``skip``, the default); the first round counts the words for all. A query of one
rare word shows what both cost it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from _bench import (
    Goal,
    ZipfText,
    embedder_words,
    given,
    in_turn,
    print_table,
    print_times,
    scratch,
    write_index,
)

if TYPE_CHECKING:
    from openclaw_mem_engine.stores.query import CandidateRows, LexicalQuery
    from openclaw_mem_engine.stores.sqlite.store import SqliteIndex

LIMIT = 200
QUERIES = ("the and of to a in", "first which all also gateway", "gateway")


def left_out(store: SqliteIndex, query: LexicalQuery) -> CandidateRows:
    """A search as the knob ``common_words=skip`` does it."""
    return store.lexical(store.without_common(query), LIMIT)


def main() -> None:
    options = given(chunks=84_000, rounds=15)

    from openclaw_mem_engine.stores.query import build_query
    from openclaw_mem_engine.stores.sqlite.store import SqliteIndex

    with scratch() as folder:
        # Words by Zipf's law, without vectors.
        text = ZipfText(embedder_words())
        write_index(folder / "index.sqlite", (text.lines(1_100) for _ in range(options.chunks)), per_file=200)
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
