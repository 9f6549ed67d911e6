"""Index tokens outside of an index: FTS5's own tokenisers, which SQLite offers without any table. Every store
that does not use FTS5 takes its tokens from here, so that lengths, frequencies and BM25 are the same numbers.

A pure Porter stemmer would have to repeat FTS5's deviations from the published one; this is the same code."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from typing import Literal

Form = Literal["plain", "stemmed"]
FORMS: tuple[Form, ...] = ("plain", "stemmed")

#: FTS5 keeps no state between texts, but a connection serves one thread at a time.
_GUARD = threading.Lock()


@cache
def _tokeniser(form: str) -> Callable[[str], list[str]]:
    import apsw

    from openclaw_mem_engine.stores.sqlite.full_text import tokeniser

    return tokeniser(apsw.Connection(":memory:"), form)


def tokens_of(form: Form, text: str) -> list[str]:
    """The tokens of a text in order. The stemmed form is given text that was segmented (``query.segment``).
    Raises apsw.Error when this SQLite has no FTS5."""
    with _GUARD:
        return _tokeniser(form)(text)
