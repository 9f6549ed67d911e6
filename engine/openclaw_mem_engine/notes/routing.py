"""Where a thing to remember goes, and the edit that writes it there.

Facts, preferences and decisions go into MEMORY.md, events into the log of the day. The kind is read from the
words, by the first rule of ``RULES`` that fits; the rule is always named, because words can mislead.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal

from openclaw_mem_engine.errors import UsageError
from openclaw_mem_engine.notes.edit import NoteEdit, appended
from openclaw_mem_engine.notes.editor import NoteEditor
from openclaw_mem_engine.ranking.query_words import FUNCTION_WORDS
from openclaw_mem_engine.redact import credential_warning
from openclaw_mem_engine.workspace.rules import MEMORY_FOLDER, ROOT_FILES

Kind = Literal["preference", "decision", "event", "fact"]
Target = Literal["memory", "daily"]

#: Takes characters away that would act on a terminal which prints the note.
_CONTROLS = dict.fromkeys(code for code in (*range(0x20), *range(0x7F, 0xA0)) if not chr(code).isspace())
#: Verbs of what happened.
_PAST = (
    r"met|called|asked|shipped|deployed|fixed|finished|started|released|merged|broke|failed|crashed|"
    r"arrived|visited|sent|received|paid|bought|ordered|moved|restarted|installed|upgraded|tested|tried|"
    r"found|lost|happened|went|came|said|had|took|got|made|talked|spoke|discussed|booked|signed|cancel+ed|"
    r"learned|wrote|saw|heard|replaced|repaired|removed|deleted|migrated|updated|renewed|joined|hired|"
    r"planted|changed|added|reported|cleaned|closed|opened|returned|picked|gave|ran|postponed|"
    r"drove|flew|handed|left (?:for|the)"
)
#: Kind, what the words show, and the words in English, German and French; the first that is found decides.
#: Days come before preferences ("wants to meet tomorrow"), habits before times ("every day at 9:30").
_WORDS: tuple[tuple[Kind, str, str], ...] = (
    (
        "decision",
        "says what was decided",
        r"decided|decision|agreed (?:on|to|that|with)|we(?: will|'ll) (?:use|go|keep)|let's use|going with|"
        r"switching to|from now on|chose|settled on|"
        r"entschieden|beschlossen|entscheidung|ab jetzt|ab sofort|décidé|décision|désormais",
    ),
    (
        "event",
        "names a day",
        r"(?<!.)(?:19|20)\d\d-\d\d-\d\d|"
        r"today|yesterday|tonight|tomorrow|this (?:morning|afternoon|evening|week)|last (?:night|week)|"
        r"just now|heute|gestern|(?<!jeden )morgen|aujourd'hui|hier(?=,| soir)|demain|ce (?:matin|soir)",
    ),
    (
        "preference",
        "names a preference",
        # Not what always or never was: "never met", "always used".
        rf"(?:always|never)(?! (?:{_PAST}|\w+[^\We]ed)\b)|"
        r"prefers?|preferred|favou?rites?|likes?|loves?|hates?|dislikes?|wants?|i'd rather|"
        r"(?:do(?:es)?|did) not (?:like|want)|don't|doesn't|can't stand|please|"
        r"bevorzug\w*|lieber|mag|immer|nie|niemals|bitte|préf[éè]r\w*|j'aime|aime|déteste|toujours|jamais",
    ),
    (
        "fact",
        "says what is usual",
        r"every|each|daily|weekly|monthly|yearly|\w+days|opens?|closes?|runs?|starts?|begins?|"
        r"jede[nrsm]?|täglich|\w+tags|chaque|tous les",
    ),
    ("fact", "names a year", r"(?:since|in|until|from|seit|depuis|en) (?:19|20)\d\d"),
    ("event", "names a time", r"\d{1,2}\s?[ap]m|\d{1,2}:\d\d"),
    (
        "event",
        "says what happened",
        # Among the first five words; not what something is: "is called", "the lost key".
        r"^\W*(?:\w+\W+){0,4}?(?<!\bis )(?<!\bare )(?<!\bthe )(?<!\ba )(?<!\band )(?<!\bto )"
        rf"(?<!\bnever )(?<!\balways )\b({_PAST})\b",
    ),
)
RULES = tuple(
    (kind, why, re.compile(words if words.startswith("^") else rf"\b({words})\b", re.IGNORECASE))
    for kind, why, words in _WORDS
)
_OTHERWISE: tuple[Kind, str] = ("fact", "does not look like a decision, event or preference")
HEADING = re.compile(r"(#{1,6})[ \t]+(.*?)[ \t#]*$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_WORD = re.compile(r"\w{3,}")
#: A section gets an item when they share more than this: about one word that few sections have.
_SHARED = 0.3


@dataclass(frozen=True, slots=True)
class Route:
    """Where a text goes: ``path`` of the note, ``section`` the heading that it is then below ("" where no
    section fits: before the first one). ``kind`` was read from the words, ``why`` is the rule as the end of a
    sentence, or says that the user chose."""

    kind: Kind
    target: Target
    path: str
    section: str
    why: str

    @property
    def sentence(self) -> str:
        section = f", section “{self.section}”" if self.section else ""
        article = "an" if self.kind == "event" else "a"
        return f"To be saved as {article} {self.kind} in {self.path}{section} (the text {self.why})"


@dataclass(frozen=True, slots=True)
class Proposal:
    """What ``remember`` would write. ``line`` is that of the text (from 1) in the note afterwards. Where the
    note says the same already it is ``known`` too (else 0), and there is nothing to write. ``warning`` is a
    sentence about a text that looks like a credential, else ""."""

    route: Route
    edit: NoteEdit
    line: int
    known: int = 0
    warning: str = ""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self.route) | {
            "knownLine": self.known or None,
            "warning": self.warning or None,
            "diff": self.edit.diff(),
        }


def kind_of(text: str) -> tuple[Kind, str]:
    """The kind of a text and the rule that says so, as the end of a sentence about the text. The first 1,000
    characters count."""
    text = text[:1000].replace("’", "'")
    for kind, why, words in RULES:
        if found := words.search(text):
            return kind, f"{why}: “{found[1]}”"
    return _OTHERWISE


def remember(
    editor: NoteEditor, text: str, now: datetime, target: Target | None = None, path: str | None = None
) -> Proposal:
    """The edit that keeps ``text`` (one or more lines, written as one list item without control characters);
    ``now`` is local time. ``target`` or ``path`` replace what the words say. Raises UsageError for a text
    without a letter or digit, and as ``NoteEditor.read``."""
    words = " ".join(text.translate(_CONTROLS).split())
    if not any(map(str.isalnum, words)):
        raise UsageError("There is nothing to remember: give it a text with a letter or a digit.")
    kind, why = kind_of(words)
    if target is not None or path is not None:
        why = f"{why}; the target was chosen by hand"
    target = target or ("daily" if kind == "event" else "memory")
    if target == "daily" and path is None:
        path = f"{MEMORY_FOLDER}/{now:%Y-%m-%d}.md"
        before = editor.read(path)
        item = f"- {now:%H:%M} {words}"
        start = before if before and before.strip() else f"# {now:%Y-%m-%d}\n\n"
        after, section = appended(start, item), ""
    else:
        path = path or ROOT_FILES[0]
        before = editor.read(path)
        after, section = _into_section(before or "# Memory\n\n", f"- {words}", kind)
        why += "; no section fits it" * (not section)
    edit = editor.propose(path, after, "remember")
    route = Route(kind, target, edit.path, section, why)
    known = _line_of(words, before)
    if known:
        return Proposal(route, NoteEdit(edit.path, before, before, "remember"), known, known)
    return Proposal(route, edit, _line_of(words, after), warning=credential_warning(words))


def insert_fact(text: str, words: str) -> tuple[str, str]:
    """A MEMORY.md with one more list item in the section that fits best, and the heading of that section."""
    return _into_section(text, f"- {words}", kind_of(words)[0])


def _line_of(words: str, before: str | None) -> int:
    """The line that holds just these words already."""
    wanted = _plain(words)
    lines = (before or "").split("\n")
    return next((number for number, line in enumerate(lines, 1) if _plain(line) == wanted), 0)


def _plain(line: str) -> str:
    """A line without list mark, time, emphasis, case and end."""
    bare = re.sub(r"^\s*(?:[-*+]|\d+[.)])?\s*(?:\d\d:\d\d\s+)?", "", line)
    return re.sub(r"[*_`.\s]+", " ", bare).strip().casefold()


def _into_section(text: str, item: str, kind: Kind) -> tuple[str, str]:
    """The text with ``item`` as the last line of the section that fits best, and its heading: the one named
    after the kind, else the one which shares the most words with the item, where a word counts less the more
    sections have it, and three times in a heading; else it goes before the first section. A section ends at
    the next heading; the only heading of the first level is the title of the note."""
    lines = text.split("\n")
    heads = headings(lines)
    titles = [number for number, level, _ in heads if level == 1]
    ends = [number for number, _, _ in heads[1:]] + [len(lines)]
    sections = [(*head, end) for head, end in zip(heads, ends, strict=False) if titles != [head[0]]]
    if not sections:
        return appended(text, item), ""
    inside = [_words(lines[number:end]) for number, _, _, end in sections]
    spread = Counter(word for section in inside for word in section)
    words = _words([item])
    # Where none fits, what is before the first one has the item.
    number, end, best, most = -1, sections[0][0], "", _SHARED
    for (begins, _, title, ends_at), section in zip(sections, inside, strict=True):
        named = _words([title])
        score = sum((3 if word in named else 1) / spread[word] for word in words & section)
        score += 100 * any(word.startswith(kind) for word in named)
        if score > most:
            number, end, best, most = begins, ends_at, title, score
    written = [at for at in range(max(number, 0), end) if lines[at].strip()]
    ending = "\r" if "\r" in lines[0] else ""
    if not written:  # the first section begins the note
        return "\n".join([item + ending, ending, *lines]), ""
    last = written[-1]
    if last == len(lines) - 1:  # the note ends without an end of line
        return appended(text, item), best
    alone = last in {head[0] for head in heads} or lines[last].strip() == "---"
    return "\n".join([*lines[: last + 1], *[ending] * alone, item + ending, *lines[last + 1 :]]), best


def _words(lines: Iterable[str]) -> set[str]:
    return {word.casefold() for line in lines for word in _WORD.findall(line)} - FUNCTION_WORDS


def headings(lines: Sequence[str]) -> list[tuple[int, int, str]]:
    """Line (from 0), level and text of every heading of the prose."""
    found = ((number, HEADING.match(line)) for number, line in prose(lines))
    return [(number - 1, len(heading[1]), heading[2]) for number, heading in found if heading]


def prose(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Lines with their numbers (from 1), without fenced code and front matter."""
    fenced = ""
    matter = [line.strip() for line in lines[:1]] == ["---"] and "---" in map(str.strip, lines[1:])
    for number, line in enumerate(lines, 1):
        fence = _FENCE.match(line)
        if matter:
            matter = number == 1 or line.strip() != "---"
        elif fence and (not fenced or fence[1].startswith(fenced)):
            fenced = "" if fenced else fence[1]
        elif not fenced:
            yield number, line.rstrip("\r")


def without_lines(text: str, first: int, last: int) -> str:
    """The text without these lines (from 1), and without the headings below the first level, each with the
    blank lines above it, that this leaves with nothing below."""
    lines = text.split("\n")
    start, above = first - 1, _not_blank(lines[: first - 1])
    following = next(filter(str.strip, lines[last:]), None)
    least = 0 if following is None else _level(following)
    # A line of code may look like a heading; which is one takes the whole text to tell.
    while above and 1 < (level := _level(lines[above - 1])) < _TEXT and level >= least:
        if not any(number == above - 1 for number, _, _ in headings(lines)):
            break
        start = above = _not_blank(lines[: above - 1])
    return "\n".join([*lines[:start], *lines[last:]])


#: Deeper than any heading.
_TEXT = 7


def _level(line: str) -> int:
    heading = HEADING.match(line.rstrip("\r"))
    return len(heading[1]) if heading else _TEXT


def _not_blank(lines: Sequence[str]) -> int:
    """The number of the last line that is not blank, from 1; 0 without one."""
    return next((number for number in range(len(lines), 0, -1) if lines[number - 1].strip()), 0)


def with_line(text: str, number: int, line: str) -> str:
    """The text with another line ``number`` (from 1), in the old one's line ending."""
    lines = text.split("\n")
    lines[number - 1] = line + ("\r" if lines[number - 1].endswith("\r") else "")
    return "\n".join(lines)
