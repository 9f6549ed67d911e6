"""The text with most words of a query, as QMD 2.8.3 finds the line that it shows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

#: What a word of the intent counts in a line, compared with 1 for a word of the query.
INTENT_IN_LINE: Final = 0.3
#: Words that say nothing of what is looked for, as QMD has them.
STOP_WORDS = frozenset(
    "am an as at be by do he if in is it me my no of on or so to up us we all and any are but can did for "
    "get has had her him his how its let may not our out the too was who why you also been could does "
    "find from have into just many more much must need shall should show some tell than that them then "
    "there these they this those want were what when will with would your about look looking notes please "
    "search where which while whom whose".split()
)
#: Words that name nothing, for all that is not to be as another program has it.
FUNCTION_WORDS = STOP_WORDS | frozenset(
    "after against because before behind below between during inside near only outside since still through "
    "under until within without".split()
)

_EDGES = re.compile(r"^[\W_]+|[\W_]+$")


def intent_terms(intent: str) -> list[str]:
    """The words of an intent that say something, in lower case."""
    words = (_EDGES.sub("", word) for word in intent.lower().split())
    return [word for word in words if len(word) > 1 and word not in STOP_WORDS]


def best_line(lines: Sequence[str], query: str, intent: str = "") -> tuple[int, float]:
    """Index and score of the line that contains most words of ``query``; the first of equals, (0, 0.0) when
    no line contains any. Words are compared as written, with quotes and minus, but in lower case."""
    return most_words(lines, query.lower().split(), intent_terms(intent), INTENT_IN_LINE)


def most_words(
    texts: Sequence[str], words: Sequence[str], more: Sequence[str], weight: float
) -> tuple[int, float]:
    """Index and score of the text that contains most of ``words``; one of ``more`` counts ``weight``."""
    best, highest = 0, 0.0
    for index, text in enumerate(texts):
        low = text.lower()
        score = sum(word in low for word in words) + weight * sum(word in low for word in more)
        if score > highest:
            best, highest = index, score
    return best, highest
