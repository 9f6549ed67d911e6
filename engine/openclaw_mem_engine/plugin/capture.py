"""Which texts of a user are worth keeping: the documented rules of auto-capture, each decision with its rule.

Heuristics, known to miss facts and to take too much: so a decision names what decided, and a refused text can
be stored by hand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, TypeAlias

from openclaw_mem_engine.named_tuple import NamedTuple

Category: TypeAlias = Literal["preference", "decision", "entity", "fact", "other"]
CATEGORIES: tuple[Category, ...] = ("preference", "decision", "entity", "fact", "other")

#: Characters (UTF-16 units in the original; the same for all but rare ones) of a text that is captured.
MIN_CHARS, MAX_CHARS = 10, 500
#: Texts of one conversation that are captured.
MOST = 3
_MOST_EMOJI = 3

_PHONE, _MAIL = r"\+\d{10,}", r"[\w.-]+@[\w-]+\.\w+"


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


_EMOJI = re.compile("[\U0001f300-\U0001f9ff]")
_INJECTION = _any(
    r"\bignore\s+(?:all|any|previous|above|prior)?\s*(?:previous\s+|prior\s+)?instructions\b",
    r"\bdo not follow\s+(?:the\s+)?(?:system|developer)\b",
    r"\bsystem prompt\b",
    r"\bdeveloper message\b",
    r"<\s*(?:system|assistant|developer|tool|function|relevant-memories)\b",
    r"\b(?:run|execute|call|invoke)\b.{0,40}\b(?:tool|command)\b",
)
#: What makes a text worth keeping, with words for the rule.
_TRIGGERS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("asks to remember", _any(r"\bremember\b", r"\bzapamatuj\b", r"\bpamatuj\b")),
    ("names a preference", _any(r"\bprefer\w*", r"\bradši\b", r"\bi (?:like|love|hate|want|need)\b")),
    ("names a decision", _any(r"\bdecided\b", r"\bwill use\b", r"\brozhodli\b", r"\bbudeme používat\b")),
    ("holds a phone number", _any(_PHONE)),
    ("holds an e-mail address", _any(_MAIL)),
    (
        "says whose something is",
        _any(r"\bmy\s+\w+\s+is\b", r"\bis\s+my\b", r"\bmůj\s+\w+\s+je\b", r"\bje\s+můj\b"),
    ),
    ("speaks of a rule", _any(r"\balways\b", r"\bnever\b", r"\bimportant\b")),
)
_CATEGORIES: tuple[tuple[Category, re.Pattern[str]], ...] = (
    ("preference", _any(r"\bprefer", r"\bradši\b", r"\blike\b", r"\blove\b", r"\bhate\b", r"\bwant\b")),
    ("decision", _any(r"\bdecided\b", r"\brozhodli\b", r"\bwill use\b", r"\bbudeme\b")),
    ("entity", _any(_PHONE, _MAIL, r"\bis called\b", r"\bjmenuje se\b")),
    ("fact", _any(r"\b(?:is|are|has|have)\b", r"\b(?:je|má|jsou)\b")),
)


class Decision(NamedTuple):
    """Whether a text is captured. ``rule`` is the end of a sentence about the text: what took or refused
    it."""

    text: str
    captured: bool
    rule: str
    category: Category


def looks_like_injection(text: str) -> bool:
    return bool(text.strip()) and bool(_INJECTION.search(" ".join(text.split())))


def decide(text: str, max_chars: int = MAX_CHARS) -> Decision:
    """The decision about one text: the first rule that applies is named, and the category is that of the
    first words that fit."""
    category = next((name for name, words in _CATEGORIES if words.search(text)), CATEGORIES[-1])
    return Decision(text, *_rule(text, max_chars), category)


def _rule(text: str, max_chars: int) -> tuple[bool, str]:
    length = len(text.encode("utf-16-le", "surrogatepass")) // 2
    if length < MIN_CHARS:
        return False, f"has {length} characters, fewer than {MIN_CHARS}"
    if length > max_chars:
        return False, f"has {length} characters, more than {max_chars}"
    if "<relevant-memories>" in text:
        return False, "repeats memories that were recalled"
    if text.startswith("<") and "</" in text:
        return False, "is markup"
    if "**" in text and "\n-" in text:
        return False, "is a formatted answer"
    if (emoji := len(_EMOJI.findall(text))) > _MOST_EMOJI:
        return False, f"has {emoji} emoji, more than {_MOST_EMOJI}"
    if looks_like_injection(text):
        return False, "looks like an instruction to the agent"
    rule = next((rule for rule, words in _TRIGGERS if words.search(text)), "")
    return bool(rule), rule or "holds none of the words that mark a memory"


def decide_all(texts: Iterable[str], max_chars: int = MAX_CHARS) -> list[Decision]:
    """The decisions about what a user said in one conversation: at most ``MOST`` are captured."""
    found, taken = [], 0
    for text in texts:
        decision = decide(text, max_chars)
        if decision.captured and taken == MOST:
            decision = decision._replace(captured=False, rule=f"comes after {MOST} that were captured")
        taken += decision.captured
        found.append(decision)
    return found
