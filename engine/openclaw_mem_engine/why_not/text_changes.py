"""Changes of a note that would bring a passage into the answer, and the words that it lacks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from openclaw_mem_engine.ranking.pool import Candidate
from openclaw_mem_engine.ranking.query_words import FUNCTION_WORDS
from openclaw_mem_engine.ranking.trace import Trace
from openclaw_mem_engine.why_not import TextChange
from openclaw_mem_engine.why_not.changes import Search
from openclaw_mem_engine.why_not.walk import ListFact


def undated(search: Search, chunk: Candidate | None, trace: Trace) -> Iterator[TextChange]:
    """That the passage should be in a note without a date, where that is tried and helps."""
    if chunk is not None and chunk.date is not None and trace.knobs.decay and search.helps_undated():
        text = "If the name of its note were not just a date, it would not decay, and would be returned."
        yield TextChange("undated", text)


def _at_best(search: Search) -> str:
    """A sentence about the most that BM25 can do for the passage, where it is known."""
    if (fate := search.first_by_words()) is None:
        return ""
    if fate.rank is None:
        return " Even with BM25 rank 1, all else equal, it would not be returned."
    return f" With BM25 rank 1, all else equal, it would be result {fate.rank}."


def text_changes(
    search: Search, passage: Candidate | None, trace: Trace, stage: str, lists: Sequence[ListFact]
) -> Iterator[TextChange]:
    """Changes of the note that would help, as far as they can be tried; and the words that it lacks."""
    yield from undated(search, passage, trace)
    found = dict.fromkeys(word for fact in lists for word in fact.missing)
    # A list that needs every word needs these too; else none is written for “the”.
    missing = [word for word in found if word not in FUNCTION_WORDS or trace.knobs.lexical_form == "and"]
    if missing and stage != "snippet" and not any(fact.excluded for fact in lists):
        ranks = [fact.rank for fact in lists if fact.lexical and fact.rank is not None]
        held = any(fact.words or fact.named for fact in lists)
        every = not ranks and (held or trace.knobs.lexical_form == "and")
        words = (" and " if every else " or ").join(f"“{word}”" for word in missing)
        also = "also " if ranks or held else ""
        does = "BM25 would find it" if not ranks else "it could rank higher in BM25"
        if not ranks or max(ranks) > 1:
            yield TextChange("word", f"If the chunk {also}held {words}, {does}.{_at_best(search)}")
    if stage == "snippet" and trace.knobs.snippet != "packed":
        text = (
            f"A snippet is {trace.knobs.snippet_chars:,} characters of a chunk: move the rest to its "
            "own note, or make chunks smaller (chunking.tokens)."
        )
        yield TextChange("split", text)
