"""Index tokens outside of an index: FTS5's own tokenisers, which SQLite offers without any table. Every store
that does not use FTS5 takes its tokens from here, so that lengths, frequencies and BM25 are the same numbers.

A pure Porter stemmer would have to repeat FTS5's deviations from the published one; this is the same code."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache, partial
from typing import Any, Literal

from openclaw_mem_engine.model import utf8

Form = Literal["plain", "stemmed"]
FORMS: tuple[Form, ...] = ("plain", "stemmed")
_TOKENISERS = {"plain": ["unicode61"], "stemmed": ["porter", "unicode61", "remove_diacritics", "2"]}

#: FTS5 keeps no state between texts, but a connection serves one thread at a time.
_GUARD = threading.Lock()


@cache
def _tokeniser(form: Form) -> Callable[..., Any]:
    import apsw

    name, *arguments = _TOKENISERS[form]
    tokenise = apsw.Connection(":memory:").fts5_tokenizer(name, arguments)
    return partial(tokenise, include_offsets=False, include_colocated=False)


def tokens_of(form: Form, text: str) -> list[str]:
    """The tokens of a text in order, as a full-text table of this form holds them. The stemmed form is given
    text that was segmented (``query.segment``)."""
    import apsw

    with _GUARD:
        found: list[str] = _tokeniser(form)(utf8(text), apsw.FTS5_TOKENIZE_DOCUMENT, None)
        return found
