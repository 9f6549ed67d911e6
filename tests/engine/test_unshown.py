"""How much of a text no search can show: computed from the chunks, and counted character by character."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from openclaw_mem_engine.chunking import chunker_of
from openclaw_mem_engine.model import ChunkSpan, snippet_of
from openclaw_mem_engine.ranking.profiles import DOCUMENTED, WORKBENCH
from openclaw_mem_engine.ranking.unshown import (
    Passage,
    Unshown,
    hidden_lines,
    percent,
    unshown_by_file,
    unshown_of,
)

WORDS = ["pump", "heron", "Größe", "納期", "🦉", "-", "`x`", "valve"]


def note(seed: int) -> str:
    """Lines of all lengths, no two alike, with blank ones between; one may be longer than a chunk."""
    rng = random.Random(seed)
    lines = []
    for number in range(rng.randint(1, 60)):
        words = rng.choices(WORDS, k=rng.choice((0, 1, 4, 12, 30)))
        lines.append(" ".join((str(number), *words)) if words else "")
    return "\n".join(lines)


def counted_by_character(text: str, chunks: list[ChunkSpan], limit: int) -> tuple[int, int]:
    """Hidden code points (line ends too) and hidden lines of a text whose lines are whole in chunks."""
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    shown, held = set[int](), set[int]()
    for chunk in chunks:
        at = starts[chunk.start_line - 1]
        shown.update(range(at, at + len(snippet_of(chunk.text, limit))))
        held.update(range(at, at + len(chunk.text)))
    lines = [range(a, b - 1) for a, b in pairwise(starts) if text[a : b - 1].strip()]
    return len(held - shown), sum(not shown.issuperset(line) for line in lines)


@pytest.mark.parametrize("seed", range(200))
def test_what_no_head_shows_is_what_a_count_by_character_finds(seed: int) -> None:
    text = note(seed).replace("🦉", "owl")  # one code point, one unit
    chunks = chunker_of(*random.Random(seed).choice([(400, 80), (120, 40), (120, 0), (175, 35)])).chunks(text)
    knobs = DOCUMENTED.set({"snippet_chars": 200})
    found, positions = unshown_of(chunks, knobs), hidden_lines(chunks, knobs)
    assert len(positions) == found.hidden_lines
    assert all(chunks[at].text.split("\n")[line].strip() for at, line in positions)
    characters, lines = counted_by_character(text, chunks, 200)
    assert found.hidden_lines == lines
    # A line end between two chunks belongs to neither.
    assert abs(found.hidden_characters - characters) <= len(chunks)
    assert found.lines == sum(map(bool, map(str.strip, text.split("\n"))))


def test_an_over_long_line_is_counted_once() -> None:
    text = " ".join(f"word{number}" for number in range(2000))
    chunks = chunker_of(400, 80).chunks(text)
    found = unshown_of(chunks, DOCUMENTED)
    # Each part is the first of one chunk and the second of the chunk before; the last is never the first.
    parts = -(-len(text) // 1600)
    assert found.lines == found.hidden_lines == parts
    assert found.characters == len(text)
    assert found.hidden_characters == len(text) - 700 * (parts - 1) + parts - 1, "with the ends of parts"


@pytest.mark.parametrize(("tokens", "overlap"), [(175, 35), (175, 0)])
def test_chunks_no_longer_than_a_snippet_hide_nothing(tokens: int, overlap: int) -> None:
    text = "\n".join(f"On day {day} the tank held {day * 7} litres." for day in range(200))
    assert unshown_of(chunker_of(tokens, overlap).chunks(text), DOCUMENTED).hidden_characters == 0


@pytest.mark.parametrize("snippet", ["best-line", "packed"])
def test_lines_are_shown_wherever_they_stand(snippet: str) -> None:
    chunks = chunker_of(400, 80).chunks("\n".join(f"day {day}: {day * 7} litres" for day in range(300)))
    assert unshown_of(chunks, WORKBENCH.set({"snippet": snippet})).hidden_lines == 0


def test_packing_never_takes_what_says_nothing() -> None:
    text = "---\ntags: a\n---\n# Title\n\n## Part\n\nOne line.\n```sh\nmake\n```\n## Empty\n"
    chunks = chunker_of(400, 80).chunks(text)
    found = unshown_of(chunks, WORKBENCH)
    hidden = ["---", "tags: a", "---", "# Title", "```sh", "```", "## Empty"]
    assert found == Unshown(len(text), 10, sum(map(len, hidden)), len(hidden))
    lines = text.split("\n")
    assert [lines[at] for _, at in sorted(hidden_lines(chunks, WORKBENCH))] == hidden


def test_files_are_counted_apart() -> None:
    rows = [Passage("a.md", 1, 1, "x" * 900), Passage("b.md", 1, 1, "short")]
    found = unshown_by_file(rows, DOCUMENTED)
    assert found == {"a.md": Unshown(900, 1, 200, 1), "b.md": Unshown(5, 1, 0, 0)}
    assert unshown_of([], DOCUMENTED) == Unshown()


def test_a_small_share_is_not_rounded_to_none() -> None:
    assert [percent(x) for x in (0, 0.001, 0.37, 0.999, 1)] == ["0%", "under 1%", "37%", "99%", "100%"]
