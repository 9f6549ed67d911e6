"""From the words of a user to an FTS5 MATCH expression, as QMD 2.8.3 builds it, and the score of a row."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.sanitize import WHITE

#: ``bm25(documents_fts, …)``: weight of path, title, body.
WEIGHTS: Final = (1.5, 4.0, 1.0)

#: Unicode scripts Han, Hiragana, Katakana, Hangul. The long-vowel mark (U+30FC) is of script Common.
_CJK = (
    "\u1100-\u11ff\u2e80-\u2e99\u2e9b-\u2ef3\u2f00-\u2fd5\u3005\u3007\u3021-\u3029\u302e\u302f\u3038-\u303b"
    "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fd-\u30ff\u3131-\u318e\u31f0-\u31ff\u3200-\u321e\u3260-\u327e"
    "\u32d0-\u32fe\u3300-\u3357\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97c\uac00-\ud7a3\ud7b0-\ud7c6\ud7cb-\ud7fb"
    "\uf900-\ufa6d\ufa70-\ufad9\uff66-\uff6f\uff71-\uff9d\uffa0-\uffbe\uffc2-\uffc7\uffca-\uffcf\uffd2-\uffd7"
    "\uffda-\uffdc\U00016fe2\U00016fe3\U00016ff0\U00016ff1\U0001aff0-\U0001aff3\U0001aff5-\U0001affb"
    "\U0001affd\U0001affe\U0001b000-\U0001b122\U0001b132\U0001b150-\U0001b152\U0001b155\U0001b164-\U0001b167"
    "\U0001f200\U00020000-\U0002a6df\U0002a700-\U0002b73f\U0002b740-\U0002b81d\U0002b820-\U0002cea1"
    "\U0002ceb0-\U0002ebe0\U0002ebf0-\U0002ee5d\U0002f800-\U0002fa1d\U00030000-\U0003134a"
    "\U00031350-\U00033479"
)
#: Compiled where it is used, which takes 2 ms: most texts and queries are ASCII.
_RUN = f"[{_CJK}]+"
_BLANK = f"[{re.escape(WHITE)}]"
#: A minus and a quoted phrase (its end may be missing), or a minus and a word.
_TERM = re.compile(rf'(-?)(?:"([^"]*)"?|([^"{WHITE}]*))')
_HYPHENATED = re.compile(r"[^\W_](?:[^\W_]|')*-['-]*[^\W_](?:[^\W_]|['-])*")
#: What no text of an index holds, and SQLite does not take.
_UNSTORED = re.compile("[\x00\ud800-\udfff]")
_DOTTED = re.compile(r"[\w'-]+(?:\.[\w'-]+)+\.*")


def spaced_cjk(text: str) -> str:
    """The text with blanks around and between the characters of CJK runs, as index and query hold it."""
    return text if text.isascii() else re.sub(_RUN, lambda run: f" {' '.join(run[0])} ", text)


def _has_cjk(word: str) -> bool:
    return not word.isascii() and re.search(_RUN, word) is not None


def score_of(raw: float) -> float:
    """The score of a BM25 value of either sign: ``|raw| / (1 + |raw|)``, in [0, 1)."""
    return abs(raw) / (1.0 + abs(raw))


def match_expression(query: str, *, as_indexed: bool = False) -> str | None:
    """The FTS5 expression of a query; None when it has no positive term, which means: no search.

    Words are joined by AND and match as prefixes, a leading ``-`` excludes, double quotes make a phrase. A
    hyphenated word is a phrase; a dotted one the AND of its parts; other separators vanish, so that
    ``path/to/file.md`` finds nothing. ``as_indexed``: a word is cut as the index cuts texts, and its parts
    must follow each other, so identifiers with dots, slashes, hyphens, colons and quotes find what they name;
    ``--flag`` excludes nothing.
    """
    terms = terms_of(query, as_indexed=as_indexed)
    wanted = [term.expression for term in terms if term.wanted]
    unwanted = [term.expression for term in terms if not term.wanted]
    if not wanted:
        return None
    grouped = (f"({term})" if " AND " in term else term for term in unwanted)
    return "".join([" AND ".join(wanted), *(f" NOT {term}" for term in grouped)])


class Term(NamedTuple):
    """A part of a query: as it was written, without minus and quotes; the expression that it is searched as;
    whether a document must match it, or must not."""

    text: str
    expression: str
    wanted: bool


def terms_of(query: str, *, as_indexed: bool = False) -> list[Term]:
    """The parts of a query in their order (see ``match_expression``)."""
    word, phrase = (_as_indexed, _phrase_as_indexed) if as_indexed else (_word, _phrase)
    terms = []
    for minus, quoted, plain in _TERM.findall(query):
        if expression := phrase(quoted) if quoted else word(plain):
            excluded = minus and not (as_indexed and plain.startswith("-"))
            terms.append(Term(quoted or plain, expression, not excluded))
    return terms


def _word(word: str) -> str:
    if _has_cjk(word):
        return _phrase(word)
    if _HYPHENATED.fullmatch(word):
        return _joined(word.split("-"), '"{}"'.format)
    if _DOTTED.fullmatch(word):
        return " AND ".join(f'"{part}"*' for part in map(_kept, word.split(".")) if part)
    return _joined([word], '"{}"*'.format)


def _phrase(phrase: str) -> str:
    tokens = re.split(_BLANK, spaced_cjk(phrase))
    return _joined(
        [part for token in tokens for part in (token.split(".") if _DOTTED.fullmatch(token) else [token])],
        '"{}"'.format,
    )


def _joined(parts: list[str], form: Callable[[str], str]) -> str:
    text = " ".join(filter(None, map(_kept, parts)))
    return form(text) if text else ""


def _kept(token: str) -> str:
    """Letters, digits, ``'`` and ``_`` of a token, in lower case."""
    return re.sub(r"[^\w']", "", token).lower()


def _as_indexed(word: str) -> str:
    phrase = _phrase_as_indexed(word)
    return phrase if not phrase or _has_cjk(word) else f"{phrase}*"


def _phrase_as_indexed(phrase: str) -> str:
    """The tokenizer of the index cuts what stands between the quotes, as it has cut the documents."""
    text = " ".join(_UNSTORED.sub(" ", spaced_cjk(phrase)).lower().split())
    return f'"{text}"' if re.search(r"[^\W_]", text) else ""
