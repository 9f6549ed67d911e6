"""The kinds of candidates: one function each, from the material to proposals.

Each kind prefers silence to noise: on a MEMORY.md without problems all of them propose nothing.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date
from itertools import islice

from openclaw_mem_engine.curation.duplicates import duplicates
from openclaw_mem_engine.curation.material import (
    QUOTED,
    FactLine,
    Material,
    NoteCandidate,
    NoteText,
    Recall,
    candidate_id,
    short,
    words_of,
)
from openclaw_mem_engine.curation.outdated import outdated
from openclaw_mem_engine.notes.edit import NoteEdit
from openclaw_mem_engine.notes.routing import insert_fact, kind_of, without_lines
from openclaw_mem_engine.ranking.query_words import FUNCTION_WORDS
from openclaw_mem_engine.ranking.unshown import never_shown
from openclaw_mem_engine.redact import credentials
from openclaw_mem_engine.sanitize import counted
from openclaw_mem_engine.workspace.reading import BUDGET_LINES
from openclaw_mem_engine.workspace.rules import MEMORY_FOLDER, ROOT_FILES

#: Searches, and different days of them, after which an entry of a daily log belongs into MEMORY.md.
RECALLED_SEARCHES, RECALLED_DAYS = 3, 2
#: Days between a log and the latest search that returned it, from which it is an old one.
OLD_DAYS = 7
#: Daily logs that hold the same entry; from the larger number on it is a routine.
REPEATED_DAYS, ROUTINE_DAYS = 3, 10
#: Words of an entry below which nothing is concluded from it.
FEWEST_WORDS = 4
#: Searches from which on a section that none of them returned is stale; only looked at over the budget.
STALE_SEARCHES = 20
#: Lines of a section from which on moving it makes MEMORY.md shorter.
FEWEST_LINES = 4
#: Share of MEMORY.md that no search shows: usual settings leave out up to the half of any note.
HIDDEN_SHARE = 0.6
#: Candidates of a kind at a time; each holds the text of its note.
MOST_OF_A_KIND = 50

_ROUTINE = re.compile(
    r"\b(?:ok|okay|nothing|none|checked|done|passed|green|clean|fine|as usual|no (?:issues?|errors?|alarms?|"
    r"changes?|news))\b",
    re.IGNORECASE,
)
_KEY_MARK = re.compile(r"-----(BEGIN|END) [A-Z ]*PRIVATE KEY-----")


def secrets(material: Material) -> Iterator[NoteCandidate]:
    """One for each line of any note, and for each block with a private key. What is shown of it is masked;
    the edit takes it out."""
    for note in material.notes.values():
        found = [
            (number, number, "looks like a credential: keep it in a vault and take the line out", masked)
            for number, masked in credentials(note.text)
            if "-----BEGIN" not in masked  # of which the whole block counts
        ]
        for first, last in _private_keys(note.lines):
            what = "begins a private key: keep it in a vault and take it out"
            found.append((first, last, what, "a block between BEGIN and END marks"))
        for first, last, what, shown in found:
            at = f"{note.path}:{first}"
            lines = at if first == last else f"{at}-{last}"
            after = without_lines(note.text, first, last)
            yield NoteCandidate(
                candidate_id("secret", note.path, *note.lines[first - 1 : last]),
                "secret",
                f"{at} {what}",
                (f"{lines}: {short(shown, QUOTED)}",),
                (NoteEdit(note.path, note.text, after, "curate: secret"),),
                at,
            )


def _private_keys(lines: list[str]) -> Iterator[tuple[int, int]]:
    """First and last line of each block with a private key."""
    first = 0
    for number, line in enumerate(lines, 1):
        if mark := _KEY_MARK.search(line):
            if mark[1] == "BEGIN":
                first = first or number
            elif first:
                yield first, number
                first = 0


def recalled(material: Material) -> Iterator[NoteCandidate]:
    """Entries of old daily logs that searches keep returning, and that MEMORY.md does not have."""
    known = _known(material)
    for note in material.daily:
        if note.path not in material.recalled:
            continue
        for fact in note.facts:
            words = words_of(fact.text)
            if len(words) < FEWEST_WORDS or fact.key in known:
                continue
            # A passage has many entries: the one meant shares words with the query.
            found = [
                recall
                for recall in material.recalls_of(note.path, fact.number, fact.last)
                if len(_asked_words(recall) & set(words)) >= 2
            ]
            days = sorted({recall.day for recall in found})
            if len(found) < RECALLED_SEARCHES or len(days) < RECALLED_DAYS or _age(note, days[-1]) < OLD_DAYS:
                continue
            known.add(fact.key)
            edit, where = _into_memory(material, f"{fact.text} (from {note.path}#L{fact.number})", "recalled")
            yield NoteCandidate(
                candidate_id("recalled", fact.path, fact.key),
                "recalled",
                f"“{short(fact.text)}” is retrieved from an old log again and again: copy it into {where}",
                (
                    f"{fact.location} was returned by {len(found)} searches on {len(days)} days",
                    *(f"{recall.day}: “{short(recall.query, QUOTED)}”" for recall in found[-3:]),
                ),
                (edit,),
                fact.location,
            )


def repeated(material: Material) -> Iterator[NoteCandidate]:
    """The same entry in several daily logs, which MEMORY.md does not hold; events and routines are not."""
    known = _known(material)
    days: dict[str, dict[str, FactLine]] = defaultdict(dict)
    for note in material.daily:
        for fact in note.facts:
            if len(fact.key.split()) >= FEWEST_WORDS:
                days[fact.key].setdefault(note.day, fact)
    for key, found in days.items():
        if not REPEATED_DAYS <= len(found) < ROUTINE_DAYS or key in known:
            continue
        last = found[max(found)]
        if _ROUTINE.search(last.text) or kind_of(last.text)[0] == "event":
            continue
        edit, where = _into_memory(material, last.text, "repeated")
        yield NoteCandidate(
            candidate_id("repeated", key),
            "repeated",
            f"“{short(last.text)}” is in {len(found)} daily logs: put it once into {where}",
            tuple(f"{fact.location} says it" for _, fact in sorted(found.items())),
            (edit,),
            last.location,
        )


def over_budget(material: Material) -> Iterator[NoteCandidate]:
    """When MEMORY.md is too long: sections that no search returned are moved into notes of their own, the
    largest first, until it is not; without enough searches the largest one."""
    memory, budget = material.memory, material.budget
    if memory is None or not budget.exceeded:
        return
    sections = [row for row in _sections(memory) if row[1] - row[0] + 1 >= FEWEST_LINES]
    sections.sort(key=lambda row: row[0] - row[1])
    why = f"none of the {len(material.recalls)} known searches returned it"
    if len(material.recalls) < STALE_SEARCHES:
        sections, why = sections[:1], "the largest section; too few searches are known to tell what is used"
    else:
        sections = [row for row in sections if not material.recalls_of(memory.path, row[0], row[1])]
    lines = budget.lines - BUDGET_LINES
    units = budget.characters - budget.limit
    if not sections:
        yield NoteCandidate(
            candidate_id("over-budget", memory.path),
            "over-budget",
            f"{memory.path} is too long, and no section can be moved as a whole: shorten it by hand",
            (budget.sentence,),
            (),
            f"{memory.path}:1",
        )
    for first, last, title in sections:
        if lines <= 0 and units <= 0:
            break
        body = "\n".join(memory.lines[first - 1 : last])
        lines, units = lines - (last - first - 1), units - len(body)
        yield _moved(
            material, memory, (first, last, title), (budget.sentence, f"{memory.path}:{first}-{last}: {why}")
        )


def _moved(
    material: Material, memory: NoteText, section: tuple[int, int, str], evidence: tuple[str, ...]
) -> NoteCandidate:
    """The candidate that moves a section into a note of its own."""
    first, last, title = section
    ending = "\r" if memory.lines[last - 1].endswith("\r") else ""
    slug = "-".join(re.findall(r"[a-z0-9]+", title.casefold()))[:40].strip("-") or "section"
    names = (f"{MEMORY_FOLDER}/{slug}{suffix}.md" for suffix in ("", *(f"-{n}" for n in range(2, 100))))
    target = next(name for name in names if name not in material.notes)
    kept = [*memory.lines[:first], f"- Moved to `{target}`.{ending}", *memory.lines[last:]]
    body = "\n".join(line.rstrip("\r") for line in memory.lines[first:last]).rstrip("\n")
    return NoteCandidate(
        candidate_id("over-budget", title, body),
        "over-budget",
        f"section “{short(title)}” ({counted(last - first + 1, 'line')}): move to {target}",
        evidence,
        (
            NoteEdit(target, None, f"# {title}\n{body}\n", "curate: moved section"),
            NoteEdit(memory.path, memory.text, "\n".join(kept), "curate: moved section"),
        ),
        f"{memory.path}:{first}",
    )


def unshown(material: Material) -> Iterator[NoteCandidate]:
    """Most of MEMORY.md is shown by no search: advice, since the settings are to be changed, not the note."""
    memory = material.memory
    share = material.hidden_share
    if memory is not None and share >= HIDDEN_SHARE:
        yield NoteCandidate(
            candidate_id("unshown", memory.path),
            "unshown",
            f"{never_shown(share, memory.path)}: shorter chunks or packed snippets show it",
            ("`openclaw-mem chunks MEMORY.md` marks the lines", "`openclaw-mem doctor` names the settings"),
            (),
            f"{memory.path}:1",
        )


#: Kind to its function, the most urgent first. A new kind is one function and one line here.
KINDS: Mapping[str, Callable[[Material], Iterator[NoteCandidate]]] = {
    "secret": secrets,
    "outdated": outdated,
    "duplicate": duplicates,
    "over-budget": over_budget,
    "recalled": recalled,
    "repeated": repeated,
    "unshown": unshown,
}


def candidates_of(
    material: Material, wanted: Callable[[NoteCandidate], bool] = lambda _: True
) -> list[NoteCandidate]:
    """The candidates that are ``wanted``, by kind in the order of ``KINDS``, of each at most
    ``MOST_OF_A_KIND``: more come when these are decided."""
    return [
        candidate
        for kind in KINDS.values()
        for candidate in islice(filter(wanted, _first(kind(material))), MOST_OF_A_KIND)
    ]


def _first(found: Iterable[NoteCandidate]) -> Iterator[NoteCandidate]:
    """Without those about the same as one before: an entry that stands three times is removed twice."""
    ids = set[str]()
    for candidate in found:
        if candidate.id not in ids:
            ids.add(candidate.id)
            yield candidate


def _known(material: Material) -> set[str]:
    """What MEMORY.md says, and what it says without the source that a copied entry names."""
    facts = material.memory.facts if material.memory else []
    return {key for fact in facts for key in (fact.key, " ".join(words_of(_SOURCE.sub("", fact.text))))}


_SOURCE = re.compile(r"\s*\(from [^()]*\)$")


def _into_memory(material: Material, text: str, reason: str) -> tuple[NoteEdit, str]:
    """The edit that adds an entry to MEMORY.md, and where it goes."""
    memory = material.memory
    path = memory.path if memory else ROOT_FILES[0]
    after, section = insert_fact(memory.text if memory and memory.text.strip() else "# Memory\n\n", text)
    where = f"{path}, section “{short(section)}”" if section else path
    return NoteEdit(path, memory.text if memory else None, after, f"curate: {reason}"), where


def _asked_words(recall: Recall) -> set[str]:
    """The words of a query that name something."""
    return {word for word in words_of(recall.query) if len(word) > 2 or not word.isalpha()} - FUNCTION_WORDS


def _age(note: NoteText, day: str) -> int:
    return (date.fromisoformat(day) - date.fromisoformat(note.day)).days


def _sections(note: NoteText) -> Iterator[tuple[int, int, str]]:
    """First and last line that is not blank, and title, of every section of the second level."""
    ends = [number for number, level, _ in note.headings if level <= 2]
    for number, level, title in note.headings:
        if level == 2:
            end = next((other - 1 for other in ends if other > number), len(note.lines))
            yield number, max(at for at in range(number, end + 1) if note.lines[at - 1].strip()), title
