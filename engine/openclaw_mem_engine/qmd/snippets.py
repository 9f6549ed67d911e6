"""The passage of a document that is shown or reranked: that with most words of the query, as in QMD 2.8.3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from openclaw_mem_engine.chunking.break_chunker import TOKENS, UNITS, Piece, cut
from openclaw_mem_engine.model import text_hash
from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.ranking.query_words import best_line, intent_terms, most_words

#: Characters of a snippet in JSON, and in other formats.
JSON_CHARS: Final = 300
TEXT_CHARS: Final = 500
#: What a word of the intent counts in a piece, compared with 1 for a word of the query.
INTENT_IN_PIECE: Final = 0.5

#: Characters around a chunk that a snippet may also come from.
_AROUND = 100
_SHORTEST_WORD = 3
#: Where texts are cut, by their hash: begin and end of each piece. The same notes answer many queries.
_CUTS: dict[str, list[tuple[int, int]]] = {}
_MOST_CUTS = 1_000


class Snippet(NamedTuple):
    """``text`` starts with a header line: first line and count, lines before and after. ``line`` is the best
    line, 1-based in the document; ``lines`` is how many are shown."""

    line: int
    text: str
    lines_before: int
    lines_after: int
    lines: int


def best_piece(pieces: Sequence[Piece], query: str, intent: str = "") -> int:
    """Index of the piece to rerank a document by: that with most words of ``query`` of 3 letters or more."""
    words = [word for word in query.lower().split() if len(word) >= _SHORTEST_WORD]
    return most_words([piece.text for piece in pieces], words, intent_terms(intent), INTENT_IN_PIECE)[0]


def best_passage(text: str, query: str, intent: str = "") -> Piece:
    """That piece of a text as it is cut for vectors; where the latest texts are cut is remembered."""
    if len(text) <= TOKENS * UNITS // 2:  # in UTF-16 units at most twice as long
        return Piece(0, text)
    spans = _CUTS.get(key := text_hash(text))
    if spans is None:
        if len(_CUTS) >= _MOST_CUTS:
            _CUTS.clear()
        spans = _CUTS[key] = [(piece.pos, piece.pos + len(piece.text)) for piece in cut(text)]
    pieces = [Piece(start, text[start:end]) for start, end in spans]
    return pieces[best_piece(pieces, query, intent)]


def snippet(
    body: str,
    query: str,
    max_chars: int = TEXT_CHARS,
    *,
    chunk_pos: int | None = None,
    chunk_chars: int = TOKENS * UNITS,
    intent: str = "",
) -> Snippet:
    """The best line of ``body`` with one line before and two after it, cut at ``max_chars`` characters.

    ``chunk_pos`` and ``chunk_chars`` (code points) are those of the chunk that was found: only lines in it
    and close to it count, and its first line does when none contains a word. None or 0 is the whole text."""
    begin, area = 0, body
    if chunk_pos:
        begin = max(0, chunk_pos - _AROUND)
        area = body[begin : chunk_pos + chunk_chars + _AROUND]
    lines = area.split("\n")
    best, score = best_line(lines, query, intent)
    if chunk_pos and not score:
        best = body.count("\n", begin, chunk_pos)
    first = max(0, best - 1)
    shown = lines[first : best + 3]
    text = "\n".join(shown)
    if chunk_pos and not text.strip():
        return snippet(body, query, max_chars, intent=intent)
    if len(text) > max_chars:
        text = f"{text[: max_chars - 3]}..."
    above = body.count("\n", 0, begin)
    before = above + first
    after = body.count("\n") + 1 - before - len(shown)
    header = f"@@ -{before + 1},{len(shown)} @@ ({before} before, {after} after)"
    return Snippet(above + best + 1, f"{header}\n{text}", before, after, len(shown))


def numbered(text: str, first: int = 1) -> str:
    return "\n".join(f"{number}: {line}" for number, line in enumerate(text.split("\n"), first))
