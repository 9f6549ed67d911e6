"""BM25 of single lines, computed for the chunks of a pool at query time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

# FTS5's own constants, so that line scores and chunk scores are on comparable scales.
_K1 = 1.2
_B = 0.75
_LEAST_IDF = 1e-6


def best_line_scores(
    terms: Sequence[tuple[str, ...]],
    texts: Mapping[str, str],
    tokens_of: Callable[[str], list[str]],
    matching_chunks: Mapping[tuple[str, ...], int],
    total_chunks: int,
) -> dict[str, float]:
    """The highest line BM25 of each text; 0 where no line matches.

    ``terms`` are token tuples (phrases); ``tokens_of`` tokenises a line as the full-text table does.
    ``matching_chunks`` holds how many chunks of the index match each term. How many *lines* match is not
    stored: it is estimated as chunks × (matching lines per matching chunk, seen in this pool), and the
    number of lines alike. Formula: Robertson and Zaragoza (2009) with FTS5's k1 and b.
    """
    lines = {
        key: [tokens for line in text.split("\n") if (tokens := tokens_of(line))]
        for key, text in texts.items()
    }
    line_count = sum(len(found) for found in lines.values())
    if not line_count:
        return dict.fromkeys(texts, 0.0)
    counts = {
        key: [[_occurrences(term, tokens) for term in terms] for tokens in found]
        for key, found in lines.items()
    }
    mean_length = sum(len(tokens) for found in lines.values() for tokens in found) / line_count
    all_lines = max(line_count, total_chunks * line_count / max(1, len(texts)))
    weights = []
    for place, term in enumerate(terms):
        hit_lines = sum(1 for rows in counts.values() for row in rows if row[place])
        hit_texts = sum(1 for rows in counts.values() if any(row[place] for row in rows))
        # The pool is no fair sample: what is seen in it can promise more matching lines than there are lines.
        matching = min(all_lines, matching_chunks.get(term, hit_texts) * hit_lines / max(1, hit_texts))
        weights.append(max(_LEAST_IDF, math.log((all_lines - matching + 0.5) / (matching + 0.5))))
    scores = {}
    for key, found in lines.items():
        best = 0.0
        for tokens, row in zip(found, counts[key], strict=True):
            if any(row):
                length = _K1 * (1 - _B + _B * len(tokens) / mean_length)
                best = max(
                    best, sum(w * n * (_K1 + 1) / (n + length) for w, n in zip(weights, row, strict=True))
                )
        scores[key] = best
    return scores


def _occurrences(term: tuple[str, ...], tokens: Sequence[str]) -> int:
    """How often a token, or a phrase of neighbouring tokens, stands in a line."""
    if len(term) == 1:
        return tokens.count(term[0])
    width = len(term)
    return sum(1 for i in range(len(tokens) - width + 1) if tuple(tokens[i : i + width]) == term)


class Stemmer:
    """Words to index tokens, remembering what it has seen: most words of a pool repeat."""

    def __init__(self, tokenise: Callable[[str], list[str]]) -> None:
        self._tokenise = tokenise
        self._known: dict[str, list[str]] = {}

    def tokens(self, text: str, split: Callable[[str], list[str]]) -> list[str]:
        """Index tokens of a text that ``split`` cuts into words."""
        found: list[str] = []
        for word in split(text):
            tokens = self._known.get(word)
            if tokens is None:
                tokens = self._tokenise(word)
                if len(self._known) < 200_000:
                    self._known[word] = tokens
            found.extend(tokens)
        return found


def document_frequencies(
    counts: Counter[str], terms: Sequence[tuple[str, ...]]
) -> dict[tuple[str, ...], int]:
    """A phrase is at most as frequent as its rarest token."""
    return {term: min(counts[token] for token in term) for term in terms}
