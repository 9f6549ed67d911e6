"""Naming some of many: paths and the like in a sentence."""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice

#: How many are named.
_NAMED = 3


def first_few(texts: Collection[str], separator: str = ", ") -> str:
    """``a, b, c and 2 more``; with "; " between longer parts, ``a; b; c; and 2 more``."""
    shown = separator.join(islice(texts, _NAMED))
    more = len(texts) - _NAMED
    if more <= 0:
        return shown
    return f"{shown}{' ' if separator == ', ' else separator}and {more:,} more"
