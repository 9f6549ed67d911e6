"""Candidates for the curation of MEMORY.md: each kind finds its problem, and good notes have none."""

from __future__ import annotations

import time
from collections.abc import Mapping

import pytest

from openclaw_mem_engine.curation.candidates import KINDS, MOST_OF_A_KIND, candidates_of
from openclaw_mem_engine.curation.material import (
    Material,
    NoteCandidate,
    NoteText,
    Recall,
    material_of,
)
from openclaw_mem_engine.notes.routing import without_lines

DAY = 86_400.0
#: 2026-03-20 12:00 UTC
NOW = 1_774_008_000.0

STUDIO = """---
title: memory
---
# MEMORY

Short facts that stay true for months, wrapped by hand at a width
that is not ours, so that a sentence goes over two lines.

## People
- Ines likes lists of three items in every mail.
- Tobi likes lists of three items in every mail.
- Priya Raman: prefers the phone
  - office: 0123 456
- Milo Strand: prefers messages
  - office: 0123 457

## Network (since 2026-02-11)
- Edge router: 10.40.0.1
- NAS: 10.40.110.5
- VLAN 110 studio, 120 lab devices, 130 visitors.
- VLAN 110 studio, 120 lab devices, 140 cameras.

| host | address | use |
|------|---------|-----|
| heron | 10.40.110.5 | files for the studio |
| heron | 10.40.110.5 | backups for the studio |

## Rules
- Do buy the ribbon R2 for the label printer.
- Do not buy the ribbon R3 for the label printer.
- Copy from heron to plover every night.
- Copy from plover to heron every night.
- The passphrase is in the vault under `guest-wifi`.
- password: in the vault, `OPENAI_API_KEY` is read from ${VAULT_TOKEN}
- Token: see memory/runbooks/tokens.md
- api key: <your-key>

```sh
export OPENAI_API_KEY=$KEY
echo "the same line twice in a code block"
echo "the same line twice in a code block"
```
"""
LETTERS = "# Mémoire\n\n" + "\n".join(
    f"- {first}{second} trinkt gern Tee mit {first}{first}"
    for first in ("Zoë", "Bo", "Ada", "Kim")
    for second in ("Maier", "Schulz", "Weiß")
)
PROSE = """# About the greenhouse

Tomatoes want water every second day, cucumbers every day, and neither of them likes
the draught from the north door. The pump is switched on by hand.

The pump is old. It was repaired in spring, and it should be replaced before the winter
because the bearing is loud; the spare bearing is in the drawer below the bench.

Seeds are kept dry. Labels carry the year.
"""
LOGS = {
    "memory/2026-02-20.md": "- backup: nightly copy ran at 04:00, 12 GB\n- disks checked, nothing to do\n",
    "memory/2026-02-21.md": "- backup: nightly copy ran at 04:00, 13 GB\n- disks checked, nothing to do\n",
    "memory/2026-02-22.md": "# 2026-02-22\n- Edge router: still 10.40.0.1\n- disks checked, nothing to do\n",
    "memory/2026-02-23.md": "# 2026-02-23\n- NAS: 10.40.110.5, 62 % full\n- met Milo at the harbour again\n",
    "memory/2026-02-24.md": "# 2026-02-24\n- met Milo at the harbour again\n- rent now paid for 3 months\n",
    "memory/2026-02-25.md": "# 2026-02-25\n- met Milo at the harbour again\n- [x] router: new cable, 2 m\n",
}


def of(memory: str, logs: Mapping[str, str] = LOGS, recalls: tuple[Recall, ...] = ()) -> list[NoteCandidate]:
    return candidates_of(material_of({"MEMORY.md": memory, **logs}, recalls))


def kinds(found: list[NoteCandidate]) -> list[str]:
    return [candidate.kind for candidate in found]


def written(found: list[NoteCandidate], at: int = 0) -> str:
    """MEMORY.md after a candidate."""
    return found[at].edits[-1].after or ""


@pytest.mark.parametrize("memory", [STUDIO, LETTERS, PROSE, "", "\n\n", "# Memory\n"])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_good_notes_have_no_candidates(memory: str, ending: str) -> None:
    assert of(memory.replace("\n", ending)) == []


def test_a_duplicate_is_removed_and_the_line_that_says_more_stays() -> None:
    lines = [
        "# M",
        "## A",
        "- Board assembly: Boardhaus (Jonas), five days",
        "- Tea",
        "## B",
        "- Boardhaus, Jonas: board assembly, five days, panels of six.",
        "- Print the labels weekly",
        "- Tea",
        "- Prints the label weekly.",
        "",
    ]
    found = of("\r\n".join(lines))
    assert kinds(found) == ["duplicate", "duplicate"]
    assert found[0].title == "line 3 of MEMORY.md repeats line 6: remove it"
    assert written(found) == "\r\n".join(lines[:2] + lines[3:])
    assert written(found, 1) == "\r\n".join(lines[:8] + lines[9:])
    assert found[0].id == of("\n".join(["intro", *lines]))[0].id  # moving lines keeps the id


def test_of_an_entry_that_stands_three_times_one_removal_is_proposed_at_a_time() -> None:
    """The number of a proposal names one of them."""
    lines = ["# M", "- The NAS is called heron and stands in the cellar", "- Tea at four"]
    memory = "\n".join([*lines, lines[1], "- Coffee", lines[1]])
    (found,) = of(memory)
    (rest,) = of(written([found]))
    assert rest.id == found.id and of(written([rest])) == []


def test_the_same_line_below_another_heading_is_a_duplicate_if_it_says_enough_by_itself() -> None:
    line = "- Dentist: Dr. Vogel, phone 040-555-0134\n"
    found = of(f"# M\n\n## People\n{line}\n## Preferences\n- Tea\n{line}", {})
    assert kinds(found) == ["duplicate"]
    assert found[0].title == "line 8 of MEMORY.md repeats line 4: remove it"
    where = [fact.partition(": ")[0] for fact in found[0].evidence]
    assert where == ["MEMORY.md:8 (“Preferences”)", "MEMORY.md:4 (“People”)"]
    for short in ("- Backup runs at 02:00\n", "- Host\n  - office in the north wing, phone 040-555-0134\n"):
        other = short.replace("Host", "Guest")
        assert of(f"# M\n\n## NAS\n{short}\n## Laptop\n{other}", {}) == [], "it is about what is above it"


@pytest.mark.parametrize("more", ["", " on Mondays with the big laser cutter"])
def test_the_same_words_in_another_order_are_no_duplicate(more: str) -> None:
    assert of(f"- Ines trains Tobi weekly{more}\n- Tobi trains Ines weekly{more}\n") == []
    assert kinds(of(f"- Ines trains Tobi weekly{more}\n- Ines trains Tobi{more}, weekly.\n")) == ["duplicate"]


def test_a_duplicate_that_goes_over_lines_is_removed_as_a_whole() -> None:
    kept = "- the spare key hangs behind the\n  blue door of the shed\n- milk\n"
    assert written(of(f"{kept}- The spare key hangs behind the blue\n  door of the shed.\n")) == kept


def test_items_with_nested_ones_stay() -> None:
    assert of("- shed key behind blue door\n  - spare\n- shed key behind blue door\n  - other\n") == []
    assert kinds(of("- shed key behind blue door\n  - spare\n- shed key behind blue door\n")) == ["duplicate"]


@pytest.mark.parametrize(
    ("line", "later", "expected"),
    [
        (
            "- Kiosk software: 3.2 on all three.",
            "- kiosk software: now 3.3 on all three",
            "3.3 on all three (since 2026-03-01).",
        ),
        ("- Kiosk software: 3.2 on all three.", "- kiosk software: now 3.3 on K1", None),
        ("- Rent: 900 a month", "- Rent is now 30 days late, the landlord wrote", None),
        ("- Rent: 900 a month", "- Rent is now 950 a month", "950 a month (since 2026-03-01)"),
        ("- Standup: 10:00", "- Standup moved to 11:30 today because of the dentist", None),
        ("- Standup: 10:00", "- Standup moved to 11:30, just for today", None),
        ("- Standup: 10:00", "- Standup moved to 11:30", "11:30 (since 2026-03-01)"),
        ("- Deploy window: 22:00 to 23:00", "- Deploy window moved to 21:00 for this release only", None),
        ("- Deploy window: 22:00 to 23:00", "- Deploy window moved to 21:00", None),  # until when?
        (
            "- Router firmware: 1.9",
            "- Router firmware is now 2.0 on the test rig only, rolled back in the evening",
            None,
        ),
        ("- Router firmware: 1.9", "- Router firmware is now 2.0, rolled back in the evening", None),
        (
            "- Hourly rate 98 since spring. Ask Ines.",
            "The hourly rate was raised to 104.",
            "104 (since 2026-03-01). Ask Ines.",
        ),
        (
            "- **NAS**: 10.40.110.5",
            "- 09:10 NAS moved to 10.40.110.7, all well",
            "10.40.110.7 (since 2026-03-01)",
        ),
        ("- guest wifi every 60 days", "- guest wifi: changed from 60 to 45 days", None),
        ("- Drill: 90 days", "- drill → 60 days", "60 days (since 2026-03-01)"),
        ("- Drill: 90 days", "- drill: now 12 GB", None),  # another unit
        ("- Drill: 04:00", "- drill: now 12", None),  # another form
        ("- Drill: 90 days", "- drill: 60 minutes long, a new record", None),  # says nothing of a change
        ("- Drill: 90 days (since 2026-03-02)", "- drill: now 60 days", None),  # it is the newer one
        ("- Drill: 90 days", "- drill: now 90 days", None),
    ],
)
def test_outdated_entries(line: str, later: str, expected: str | None) -> None:
    found = of(f"# M\r\n{line}\r\n\r\nend\r\n", {"memory/2026-03-01.md": f"# d\n\n{later}\n"})
    assert kinds(found) == (["outdated"] if expected else [])
    if expected:
        head, changed, *rest = written(found).split("\r\n")
        assert (head, rest) == ("# M", ["", "end", ""]) and changed.endswith(expected)
        assert of(written(found), {"memory/2026-03-01.md": f"{later}\n"}) == []


def test_the_latest_note_decides_what_is_outdated() -> None:
    logs = {"memory/2026-03-01.md": "rate: now 104\n", "memory/2026-03-05.md": "rate: 98 again\n"}
    assert of("rate: 98\n", logs) == []
    logs["memory/2026-03-09.md"] = "rate: now 110\n"
    assert written(of("rate: 98\n", logs)) == "rate: 110 (since 2026-03-09)\n"


def _recalls(
    number: int, path: str = "memory/2026-02-14.md", query: str = "which vlan is home"
) -> tuple[Recall, ...]:
    return tuple(Recall(NOW + at * DAY, f"{query} {at}", ((path, 1, 9),)) for at in range(number))


def test_what_is_retrieved_from_old_logs_is_copied_with_its_source() -> None:
    logs = {"memory/2026-02-14.md": "# d\n- lunch was very good\n- The router has VLAN 10 for home.\n"}
    memory = "# M\n\n## Network\n- gull is the router\n"
    found = of(memory, logs, _recalls(3))
    assert kinds(found) == ["recalled"]
    assert "3 searches on 3 days" in found[0].evidence[0]
    assert written(found) == memory + "- The router has VLAN 10 for home. (from memory/2026-02-14.md#L3)\n"
    assert of(written(found), logs, _recalls(3)) == []
    assert of(memory, logs, _recalls(2)) == []
    assert of(memory, logs, _recalls(3, query="lunch with the bank")) == []
    assert kinds(candidates_of(material_of(logs, _recalls(3)))) == ["recalled"]  # without a MEMORY.md
    young = {"memory/2026-03-19.md": logs["memory/2026-02-14.md"]}
    assert of(memory, young, _recalls(3, "memory/2026-03-19.md")) == []


def test_what_several_logs_say_is_put_into_memory_once() -> None:
    logs = {f"memory/2026-03-0{day}.md": "- The key of the shed hangs left.\n" for day in (1, 2, 3)}
    found = of("# M\n", logs)
    assert kinds(found) == ["repeated"] and written(found) == "# M\n- The key of the shed hangs left.\n"
    assert of(written(found), logs) == []
    routine = {f"memory/2026-03-{day:02}.md": "- The key of the shed hangs left.\n" for day in range(1, 13)}
    assert of("# M\n", routine) == []


def test_over_the_budget_sections_are_moved_until_it_is_kept() -> None:
    sections = "".join(
        f"## Part {at}\r\n" + "".join(f"- part {at} word{at}x{line}\r\n" for line in range(40 + at))
        for at in range(6)
    )
    memory = f"# M\r\n\r\n{sections}"
    found = of(memory, {})
    assert kinds(found) == ["over-budget"] and "“Part 5” (46 lines)" in found[0].title
    assert "too few searches" in found[0].evidence[1]
    new, kept = found[0].edits
    assert (new.path, new.before) == ("memory/part-5.md", None) and "\r" not in (new.after or "")
    assert (new.after or "").startswith("# Part 5\n- part 5 word5x0\n")
    assert (kept.after or "").endswith("## Part 5\r\n- Moved to `memory/part-5.md`.\r\n")
    recalls = tuple(Recall(NOW, f"q{at}", (("MEMORY.md", 246, 250),)) for at in range(20))
    used = of(memory, {}, recalls)  # the last section is used: others go, as many as are too much
    assert [one.title.split("“")[1][:6] for one in used] == ["Part 4", "Part 3"]
    advice = of("".join(f"- line {at} says a thing\n" for at in range(201)), {})
    assert kinds(advice) == ["over-budget"] and advice[0].edits == ()


@pytest.mark.parametrize(
    "line",
    [
        "- api key: sk-abcdef1234567890abcdef",
        "TOKEN=ghp_0123456789abcdefghijABCDEFGHIJ",
        "password: hunter2!Xy",
        '{"token": "a1b2c3d4e5f6"}',
    ],
)
def test_credentials_in_any_note_are_masked_and_taken_out(line: str) -> None:
    found = of("# M\n", {"memory/lab.md": f"one\n{line}\ntwo\n"})
    assert kinds(found) == ["secret"] and written(found) == "one\ntwo\n"
    shown = f"{found[0].to_dict()} {found[0].diff}"
    assert not any(part in shown for part in ("1234567890", "0123456789abc", "hunter2", "a1b2c3d4e5f6"))


def test_a_private_key_is_taken_out_as_a_whole() -> None:
    block = "-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----\n"
    found = of("# M\n", {"memory/lab.md": f"one\n{block}two\n"})
    assert kinds(found) == ["secret"] and written(found) == "one\ntwo\n"
    assert "abc" not in found[0].diff


def test_budget_and_cut_line() -> None:
    material = material_of({"MEMORY.md": "x" * 99 + "\n" + "y\n" * 300}, bootstrap_limit=200)
    budget = material.budget
    assert budget.exceeded and budget.lines == 301 and budget.cut_after is not None
    assert f"the agent gets only the last part line {budget.cut_after}" in budget.sentence
    assert material_of({}).budget.sentence == "there is no MEMORY.md"


def test_files_and_their_searches() -> None:
    material = material_of({"memory/a.md": "é", "MEMORY.md": "abc", **LOGS}, _recalls(2, "memory/a.md"))
    assert [(file.path, file.searches) for file in material.files][:2] == [
        ("MEMORY.md", 0),
        ("memory/a.md", 2),
    ]
    assert material.files[1].to_dict() == {
        "path": "memory/a.md",
        "characters": 1,
        "day": "",
        "modified": 0.0,
        "searches": 2,
        "bytes": 2,
        "decays": False,
    }


HOSTILE = [
    "\x00\x1b[2J\ud800\udcff\n" * 50,
    "- " * 40_000,
    "```\n" + "- one two three four\n" * 50,
    "---\n" * 3_000,
    "-----BEGIN PRIVATE KEY-----\n" * 500,
    "key=" * 20_000,
    ("a: " * 5_000 + "\n") * 5,
    "#" * 30_000 + "\n" + " " * 30_000 + "- x\n",
    "\n".join(f"{' ' * (at % 90)}- item {at} of a deep list" for at in range(2_000)),
    "x now → to 1" * 5_000,
]


@pytest.mark.parametrize("memory", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_notes_are_looked_at_in_time(memory: str) -> None:
    before = time.process_time()
    for candidate in of(memory, {**LOGS, "memory/2026-03-01.md": memory}):
        assert "\x1b" not in repr(candidate.to_dict()) and candidate.title.count("\n") == 0
    assert time.process_time() - before < 3.0


@pytest.mark.parametrize(
    "line",
    [
        lambda at: "the same line with several words again",
        lambda at: f"sensor {at} of the lab reads {at * 7} degrees at noon",
        lambda at: " ".join(
            ("red", "green", "blue", "white", "black", "brown", "pink")[(at >> bit) % 7] for bit in range(7)
        ),
    ],
)
def test_two_thousand_lines_stay_fast(line: object) -> None:
    memory = "".join(f"- {line(at)}\n" for at in range(2_000))  # type: ignore[operator]
    material = material_of({"MEMORY.md": memory})
    before = time.process_time()
    found = list(candidates_of(material))
    assert time.process_time() - before < 3.0
    assert all(kinds(found).count(kind) <= MOST_OF_A_KIND for kind in KINDS)


def test_entries_know_their_lines() -> None:
    note = NoteText("a.md", "# T\n\nOne sentence.\nAnother one\ngoes on.\n- item\n  more\n  - nested\n\nend")
    assert [(f.number, f.last, f.text, f.below) for f in note.facts] == [
        (3, 3, "One sentence.", "T"),
        (4, 5, "Another one goes on.", "T"),
        (6, 7, "item more", "T"),
        (8, 8, "nested", "T / item more"),
        (10, 10, "end", "T"),
    ]
    assert isinstance(material_of({"a.md": ""}), Material)


@pytest.mark.parametrize(
    ("text", "line", "left"),
    [
        ("# M\n\n## Desk\n\n- a\n\n## Office\n\n- x\n", 9, "# M\n\n## Desk\n\n- a\n"),
        ("# M\n\n## Office\n\n- x\n\n## Desk\n- a\n", 5, "# M\n\n## Desk\n- a\n"),
        ("# M\r\n- a\r\n## Office\r\n### Room\r\n- x\r\n", 5, "# M\r\n- a\r\n"),
        ("# M\n## Office\n- x\n### Room\n- a\n", 3, "# M\n## Office\n### Room\n- a\n"),
        ("# M\n## Office\n- x\n- y\n", 3, "# M\n## Office\n- y\n"),
        ("# M\n\n- x\n", 3, "# M\n\n"),
        ("# M\n```\n## no heading\nx\n## nor this\n```\n", 4, "# M\n```\n## no heading\n## nor this\n```\n"),
    ],
)
def test_a_removed_line_takes_the_headings_that_it_leaves_bare(text: str, line: int, left: str) -> None:
    assert without_lines(text, line, line) == left
