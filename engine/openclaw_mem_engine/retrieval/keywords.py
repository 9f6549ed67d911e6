"""The keyword query of a search, the notes on what it leaves out, and the derived rows that it reads."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from openclaw_mem_engine.cancellation import CancelToken
from openclaw_mem_engine.errors import IndexDamaged, IndexLocked, IndexUnavailable
from openclaw_mem_engine.model import Note
from openclaw_mem_engine.sanitize import capital
from openclaw_mem_engine.stores.query import LABEL, Common, LexicalQuery, build_keyword_query, build_query
from openclaw_mem_engine.sync.fingerprint import lacking, provide

#: How long a search waits for another search or process that writes the index, seconds.
_WAIT_S = 2.0

if TYPE_CHECKING:
    from openclaw_mem_engine.providers.base import Embedder
    from openclaw_mem_engine.providers.circuit_breaker import Embedders
    from openclaw_mem_engine.ranking.knobs import Knobs
    from openclaw_mem_engine.stores.base import IndexStore


def words_provided(
    store: IndexStore,
    embedder: Embedder | None,
    knobs: Knobs,
    notes: list[Note],
    cancel: CancelToken,
    *,
    vectors: bool,
) -> bool:
    """Whether the index has the words that these knobs search, now. Where they cannot be made vectors remain;
    raises IndexUnavailable where none are searched, Cancelled. Not inside a snapshot, which would not see
    what is made."""
    try:
        notes += provide_for_search(store, knobs, embedder, cancel)
    except IndexUnavailable as error:
        if not vectors or knobs.mode == "bm25" or isinstance(error, IndexDamaged):
            raise
        notes.append(Note("words-lacking", f"Vectors only: {error}", "warning"))
        return False
    return True


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
        return _without_common(store, built, notes)
    return built


def _without_common(store: IndexStore, query: LexicalQuery, notes: list[Note]) -> LexicalQuery:
    kept = store.without_common(query)
    if skipped := [" ".join(term) for term in query.terms if term not in kept.terms]:
        text = (
            f"Not searched as keywords, because more than {100 * Common.SHARE:.0f}% of the chunks hold "
            f"them: {', '.join(skipped)}. `--set common_words=all` searches them too."
        )
        notes.append(Note("common-words", text, "info"))
    return kept


def provide_for_search(
    store: IndexStore, knobs: Knobs, embedder: Embedder | None, cancel: CancelToken
) -> list[Note]:
    """Make them under the lock of the index, once for all searches, in about a second. A search that is
    stopped meanwhile has made them all the same: the next one would begin anew. Returns what there is to say
    about that. Raises IndexUnavailable (IndexLocked) when words cannot be made now, Cancelled."""
    kinds = lacking(store, knobs, embedder)
    if not kinds:
        return []
    from openclaw_mem_engine.sync.lock import SyncLock  # most searches do without it

    start = time.perf_counter()
    try:
        with SyncLock(store.path).holding(_WAIT_S, cancel):
            kinds = lacking(store, knobs, embedder)  # another search may have made them meanwhile
            provide(store, knobs, embedder)
    except IndexUnavailable as error:
        if isinstance(error, IndexDamaged):
            raise
        words = sorted(LABEL[kind] for kind in kinds - {"lines"})
        if not words:  # lines are compared without these rows, too
            return []
        text = f"The index does not have {words[0]} yet, which these knobs search, and cannot get them now: "
        raise (IndexLocked if isinstance(error, IndexLocked) else IndexUnavailable)(
            f"{text}{error}"
        ) from error
    if not kinds:
        return []
    made = " and ".join(sorted(LABEL[kind] for kind in kinds))
    text = f"{capital(made)} were added to the index for these knobs, once, in"
    return [Note("rows-added", f"{text} {time.perf_counter() - start:.1f} s.", "info")]
