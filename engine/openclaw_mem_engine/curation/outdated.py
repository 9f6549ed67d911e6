"""Entries of MEMORY.md for which a later dated note gives another value."""

from __future__ import annotations

import re
from collections.abc import Iterator

from openclaw_mem_engine.curation.material import (
    QUOTED,
    FactLine,
    Material,
    NoteCandidate,
    candidate_id,
    short,
    words_of,
)
from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.notes.edit import NoteEdit
from openclaw_mem_engine.notes.routing import with_line

#: What a line about a change says right before the new value. "new" alone is said of many other things.
_CHANGED = (
    r"(?:\b(?:is now|are now|now|moved to|(?:was )?(?:changed|raised|lowered|renamed|switched|set)"
    r"(?: from [^,;]{1,40}?)? to)\b|→|->)"
)
_NEWER = re.compile(rf"^(?P<subject>[^.;:=]{{2,60}}?)\s*[:=]?\s*{_CHANGED}\s+(?P<value>\S.*)$", re.IGNORECASE)
_OLDER = re.compile(
    r"^(?P<subject>[^.:;,=]{2,60}?)\s*(?::|=|\bis\b|\bare\b|\bat\b|→|->)?\s+(?P<value>\S*\d.*)$"
)
#: The end of what is said of one value.
_END = re.compile(r"[.;,!](?=\s|$)|\s\(")
_NUMBER = re.compile(r"\d")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_ARTICLES = frozenset({"the", "our", "a", "an", "my"})
#: A line with one of these does not say what holds from now on.
_PASSING = re.compile(
    r"\?|\b(?:today|tonight|tomorrow|only|just|once|briefly|until|while|during|trial|reverted|maybe|might|if|"
    r"this (?:time|week|month|release)|for (?:now|the moment|a while)|temporar\w+|test\w*|plan\w*|propos\w+|"
    r"(?:rolled|rolls|went|goes|switched|changed) back)\b",
    re.IGNORECASE,
)


class _Value(NamedTuple):
    """What a note says last of a subject; ``changed`` when it says that this is new."""

    fact: FactLine
    day: str
    text: str
    changed: bool


def outdated(material: Material) -> Iterator[NoteCandidate]:
    """One for each entry whose subject has a value with a figure, when the latest dated note about that
    subject says that it changed for good, to a value of the same form with another figure."""
    memory = material.memory
    if memory is None:
        return
    subjects = {fact: match for fact in memory.facts if (match := _OLDER.match(fact.text))}
    first_words = {_subject(match["subject"]).partition(" ")[0] for match in subjects.values()}
    newest: dict[str, _Value] = {}
    for note in material.daily:
        for fact in note.facts:
            if first_words.isdisjoint(fact.key.split(" ", 3)[:3]):
                continue
            found = _NEWER.match(fact.text)
            older = None if found else _OLDER.match(fact.text)
            if match := found or older:
                value = _clause(match["value"])
                if _NUMBER.search(value):
                    newest[_subject(match["subject"])] = _Value(fact, note.day, value, found is not None)
    for fact, match in subjects.items():
        later = newest.get(_subject(match["subject"]))
        if later is None or not later.changed or not _subject(match["subject"]):
            continue
        if _PASSING.search(later.fact.text):
            continue
        old = _clause(match["value"])
        if not _other_value(old, later.text) or _dated(f"{fact.text} {fact.below}") >= later.day:
            continue
        line = memory.lines[fact.number - 1].rstrip("\r")
        changed = line.replace(old, f"{later.text} (since {later.day})", 1)
        if changed == line:  # emphasis inside of the value, or it is on a later line
            continue
        after = with_line(memory.text, fact.number, changed)
        yield NoteCandidate(
            candidate_id("outdated", fact.key, later.fact.key),
            "outdated",
            f"line {fact.number} of {memory.path} is outdated ({short(match['subject'])}: {short(old)} → "
            f"{short(later.text)})",
            (
                f"{fact.location}: {short(fact.text, QUOTED)}",
                f"{later.fact.location} ({later.day}): {short(later.fact.text, QUOTED)}",
            ),
            (NoteEdit(memory.path, memory.text, after, "curate: outdated"),),
            fact.location,
        )


def _subject(text: str) -> str:
    return " ".join(word for word in words_of(text) if word not in _ARTICLES)


def _clause(text: str) -> str:
    """What is said of the value, without what follows it."""
    end = _END.search(text)
    return text[: end.start()].rstrip() if end else text.rstrip()


def _other_value(old: str, new: str) -> bool:
    """Whether both begin with a figure of the same form, but not the same figure, and say the same after it:
    its unit, and of what it holds. The new one may also say nothing after it, unless the old one has a second
    figure there: the end of a span is not gone because it is not repeated."""
    (first, *rest), (second, *other) = words_of(old) or [""], words_of(new) or [""]
    if first == second or _form(first) != _form(second) or not _NUMBER.search(first):
        return False
    return rest == other or not (other or any(map(_NUMBER.search, rest)))


def _form(word: str) -> str:
    return re.sub(r"\d+", "0", word)


def _dated(text: str) -> str:
    """The latest date that a text names, "" without one."""
    return max(_DATE.findall(text), default="")
