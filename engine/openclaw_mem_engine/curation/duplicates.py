"""Entries of MEMORY.md that say what another one says."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import takewhile
from operator import eq

from openclaw_mem_engine.curation.material import (
    QUOTED,
    FactLine,
    Material,
    NoteCandidate,
    candidate_id,
    short,
    words_of,
)
from openclaw_mem_engine.notes.edit import NoteEdit
from openclaw_mem_engine.notes.routing import without_lines

#: Words that say something which an entry has at least to be compared.
FEWEST_WORDS = 3
#: The same below different headings, where an entry may mean different things.
FEWEST_WORDS_ELSEWHERE = 6
#: The same of one that is repeated word for word and is not part of another entry.
FEWEST_WORDS_VERBATIM = 4
#: Words that an entry may have more than the one it repeats and still be called a repetition of it.
MOST_EXTRA = 12

_FILLING = frozenset(
    "a an the is are was were be it its this that these those of in on at to for with and or by as has have "
    "our we i my your their his her him them also too very please".split()
)
_NEGATION = frozenset(
    "no not never none nothing nor without only except unless instead neither cannot".split()
)
#: Words with which the order of the others changes the meaning.
_ORDER = frozenset("than before after over under from into via to against until then".split())
_DIGIT = re.compile(r"\d")
_CLAUSE_END = re.compile(r"[.,;:()]")


def duplicates(material: Material) -> Iterator[NoteCandidate]:
    """One for each entry all of whose words another entry has too: the same ones, or up to
    ``MOST_EXTRA`` more. Figures and negations must agree, and the order of the words: in a long entry without
    words like "from" that of each clause, in others that of all."""
    memory = material.memory
    if memory is None:
        return
    first: dict[tuple[str, str], FactLine] = {}
    entries: list[tuple[FactLine, dict[str, None]]] = []
    holding: dict[str, set[int]] = defaultdict(set)
    for fact in memory.facts:
        words = _saying(fact.text)
        if len(words) < FEWEST_WORDS:
            continue
        fewest = FEWEST_WORDS_ELSEWHERE if " / " in fact.below else FEWEST_WORDS_VERBATIM
        below = fact.below if len(words) < fewest else ""
        kept = first.setdefault((fact.key, below), fact)
        if kept is not fact:
            if not fact.has_nested:
                yield _candidate(memory.path, memory.text, fact, kept)
            continue
        for word in words:
            holding[_stem(word)].add(len(entries))
        entries.append((fact, words))
    for index, (fact, words) in enumerate(entries):
        if fact.has_nested:
            continue
        # Whatever repeats this one has a form of each of its words.
        for other in sorted(set.intersection(*sorted((holding[_stem(word)] for word in words), key=len))):
            kept, theirs = entries[other]
            later = len(words) < len(theirs) or index > other  # of two that say as much the later one goes
            if other != index and later and _repeats(fact, words, kept, theirs):
                yield _candidate(memory.path, memory.text, fact, kept)
                break


def _repeats(fact: FactLine, words: dict[str, None], kept: FactLine, theirs: dict[str, None]) -> bool:
    """Whether ``kept`` says all that ``fact`` says."""
    if len(theirs) < len(words) or len(theirs) - len(words) > MOST_EXTRA:
        return False
    if fact.below != kept.below and len(words) < FEWEST_WORDS_ELSEWHERE:
        return False
    if not all(word in theirs or any(_alike(word, other) for other in theirs) for word in words):
        return False
    mine, other = words_of(fact.text), words_of(kept.text)
    if _NEGATION & set(mine) != _NEGATION & set(other) or ("n't" in fact.text) != ("n't" in kept.text):
        return False
    if _ORDER & set(mine):
        return _in_order(mine, other)
    clauses = [fact.text] if len(words) < FEWEST_WORDS_ELSEWHERE else _CLAUSE_END.split(fact.text)
    return all(_in_order(_saying(clause), theirs) for clause in clauses)


def _in_order(words: Iterable[str], others: Iterable[str]) -> bool:
    """Whether ``others`` has each of the words, in the same order."""
    rest = iter(others)
    return all(any(word == other or _alike(word, other) for other in rest) for word in words)


def _candidate(path: str, text: str, fact: FactLine, kept: FactLine) -> NoteCandidate:
    apart = fact.below != kept.below
    sections = (f" (“{short(one.below)}”)" if apart and one.below else "" for one in (fact, kept))
    both = tuple(
        f"{one.location}{section}: {short(one.text, QUOTED)}"
        for one, section in zip((fact, kept), sections, strict=True)
    )
    return NoteCandidate(
        candidate_id("duplicate", fact.key, kept.key),
        "duplicate",
        f"line {fact.number} of {path} repeats line {kept.number}: remove it",
        both,
        (NoteEdit(path, text, without_lines(text, fact.number, fact.last), "curate: duplicate"),),
        fact.location,
    )


def _saying(text: str) -> dict[str, None]:
    """The words that say something, each once, in their order."""
    return dict.fromkeys(word for word in words_of(text) if word not in _FILLING)


def _stem(word: str) -> str:
    """What two forms of a word have in common; words with figures have no other forms."""
    return word if _DIGIT.search(word) else word[:4]


def _alike(word: str, other: str) -> bool:
    """Two forms or spellings of one word: print and prints, colour and color."""
    if _DIGIT.search(word) or _DIGIT.search(other):
        return False
    short_one, long_one = sorted((len(word), len(other)))
    same = sum(takewhile(bool, map(eq, word, other)))
    return short_one >= 4 and same >= max(4, short_one - 1) and same >= long_one - 3
