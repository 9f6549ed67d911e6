"""The keyword query of a search, and the notes on what it leaves out."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from openclaw_mem_engine.errors import IndexUnavailable
from openclaw_mem_engine.model import Note
from openclaw_mem_engine.stores.query import Common, LexicalQuery, build_keyword_query, build_query

if TYPE_CHECKING:
    from openclaw_mem_engine.providers.base import Embedders
    from openclaw_mem_engine.ranking.knobs import Knobs
    from openclaw_mem_engine.stores.base import IndexStore


def keyword_query(
    store: IndexStore, embedders: Embedders, query: str, knobs: Knobs, notes: list[Note], *, vectors: bool
) -> LexicalQuery | None:
    """The words of ``query`` as ``knobs`` want them looked for; None when there are none, or no full-text
    search. ``notes`` takes what the answer says about it; ``vectors``: whether vectors are searched."""
    if not store.caps.full_text:
        remains = "vectors only." if vectors else "nothing can be searched."
        notes.append(Note("no-full-text", f"Full-text search is not available: {remains}", "warning"))
        return None
    if knobs.lexical_form == "and" and embedders.primary is None:
        # What this profile's original does without embeddings.
        return build_keyword_query(query)
    built = build_query(query, knobs.lexical_form, knobs.lexical_index, knobs.name_weight)
    if built is None:
        notes.append(Note("no-words", "The query holds no word to look for: no keyword search."))
    elif knobs.common_words == "skip":
        with suppress(IndexUnavailable):  # the search itself reports it
            return _without_common(store, built, notes)
    return built


def _without_common(store: IndexStore, query: LexicalQuery, notes: list[Note]) -> LexicalQuery:
    kept = store.without_common(query)
    if skipped := [" ".join(term) for term in query.terms if term not in kept.terms]:
        text = (
            f"Not searched as keywords, because more than {Common.SHARE:.0%} of the chunks hold them: "
            f"{', '.join(skipped)}. `--set common_words=all` searches them too."
        )
        notes.append(Note("common-words", text, "info"))
    return kept
