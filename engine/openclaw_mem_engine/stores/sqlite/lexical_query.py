"""Our own tokenising: which words of a query are looked for, and how CJK text is cut for the index.

One tokenisation serves every store: a store receives a :class:`LexicalQuery`, never the user's raw text.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Literal

from openclaw_mem_engine.sanitize import CJK
from openclaw_mem_engine.stores.sqlite.keywords import extract_keywords

_CJK_RUN = re.compile(f"[{CJK}]+")
_WORD = re.compile(rf"[{CJK}]+|[^\W{CJK}]+")
# Letters, numbers and the underscore; combining marks are left out, as the original's expression does.
_PLAIN_WORD = re.compile(r"\w+")

_STOP_WORDS = frozenset(
    """
a an and are as at be been but by can could did do does for from had has have he her his how i if in
is it its me my of on or our she so than that the their them then there they this to was we were
what when where which who whom why will with would you your
""".split()
)

Operator = Literal["or", "and", "keywords"]


@dataclass(frozen=True, slots=True)
class LexicalQuery:
    """What to look for. ``terms`` are alternatives (``or``), all needed (``and``), or looked for one after
    the other (``keywords``); each is a tuple of neighbouring tokens (a phrase). ``index`` names the full-text
    table: words as they are, or stemmed words with CJK bigrams."""

    terms: tuple[tuple[str, ...], ...]
    operator: Operator
    index: Literal["stemmed", "plain"]

    def expression(self) -> str:
        """The FTS5 query. Every token is quoted, so no character of the user's text has a meaning there."""
        joiner = " AND " if self.operator == "and" else " OR "
        return joiner.join(_quote(term) for term in self.terms)

    def expressions(self) -> list[str]:
        """One query a term for ``keywords``, else the one expression."""
        return [_quote(term) for term in self.terms] if self.operator == "keywords" else [self.expression()]

    @property
    def words(self) -> tuple[str, ...]:
        """The distinct tokens, for marking matches on screen."""
        return tuple(dict.fromkeys(token.rstrip("*") for term in self.terms for token in term))


def _quote(term: tuple[str, ...]) -> str:
    # A single CJK character is looked for as the beginning of a bigram.
    if len(term) == 1 and term[0].endswith("*"):
        return f'"{term[0][:-1]}"*'
    return '"' + " ".join(term).replace('"', '""') + '"'


def bigrams(run: str) -> list[str]:
    """Overlapping pairs of a CJK run; a lone character stands for itself."""
    return [run[i : i + 2] for i in range(len(run) - 1)] or [run]


def segment(text: str) -> str:
    """Text as the stemmed index stores it: each CJK run becomes its bigrams and its last character, so that
    a single character is found by prefix wherever it stands; everything else stays as it is."""
    if text.isascii():
        return text
    return _CJK_RUN.sub(lambda m: f" {' '.join(bigrams(m[0]))} {m[0][-1]} ", composed(text))


def composed(text: str) -> str:
    """Text with its marks joined to their letters (NFC): macOS writes names, and people paste text, with
    marks apart, which would cut a word or a kana in two."""
    return unicodedata.normalize("NFC", text)


def build_query(
    text: str, form: Literal["or", "and"], index: Literal["stemmed", "plain"]
) -> LexicalQuery | None:
    """The lexical query of a user's text, or None when it holds no word.

    ``or`` leaves out stop words (unless nothing would be left); ``and`` keeps every word, as OpenClaw does.
    On the stemmed index a CJK run is its bigrams: alternatives in ``or``, one phrase in ``and``.
    """
    words = _PLAIN_WORD.findall(text) if index == "plain" else _WORD.findall(composed(text))
    if form == "or":
        words = [w for w in words if w.lower() not in _STOP_WORDS] or words
        words = list(dict.fromkeys(w.lower() for w in words))
    terms: list[tuple[str, ...]] = []
    for word in words:
        if index == "plain" or not _CJK_RUN.fullmatch(word):
            terms.append((word,))
        elif len(word) == 1:
            terms.append((word + "*",))
        elif form == "and":
            terms.append(tuple(bigrams(word)))
        else:
            terms.extend((pair,) for pair in bigrams(word))
    terms = list(dict.fromkeys(terms)) if form == "or" else terms
    return LexicalQuery(tuple(terms), form, index) if terms else None


def build_keyword_query(text: str) -> LexicalQuery | None:
    """OpenClaw 2026.2's search without embeddings: its extracted keywords, looked for one by one; the whole
    text when none is left."""
    words = extract_keywords(text) or [text.strip()]
    terms = [tuple(_PLAIN_WORD.findall(word)) for word in words]
    kept = tuple(term for term in terms if term)
    return LexicalQuery(kept, "keywords", "plain") if kept else None
