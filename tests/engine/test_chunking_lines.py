"""The line chunker against recorded outputs, a literal reading of the rules, and properties of any text."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_mem_engine.chunking.line_chunker import LineChunker, chunk_lines, is_blank
from openclaw_mem_engine.errors import UsageError
from openclaw_mem_engine.model import ChunkSpan, text_hash, utf16_length

GOLDENS: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "data" / "openclaw" / "chunks.json").read_text(encoding="utf-8")
)
#: The cases in which the original cuts a surrogate pair, which is the one thing done otherwise here.
SPLIT_PAIRS = {("emoji_odd_split", 60, 15), ("emoji_odd_split", 60, 0)}


def units(text: str) -> list[str]:
    """A text as UTF-16 code units, surrogates apart."""
    data = text.encode("utf-16-le", "surrogatepass")
    return [chr(data[i] | data[i + 1] << 8) for i in range(0, len(data), 2)]


def joined(parts: list[str]) -> str:
    return "".join(parts).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def by_the_letter(text: str, tokens: int, overlap: int, split_pairs: bool) -> list[ChunkSpan]:
    """The rules as they are written down, unit by unit."""
    limit, repeat = max(32, tokens * 4), min(max(overlap, 0), tokens - 1) * 4
    pieces: list[tuple[list[str], int]] = []
    for number, line in enumerate(text.split("\n"), 1):
        rest = units(line)
        if not rest:
            pieces.append(([], number))
        while rest:
            cut = min(limit, len(rest))
            pair = cut < len(rest) and "\ud800" <= rest[cut - 1] < "\udc00" <= rest[cut] <= "\udfff"
            cut -= 1 if pair and not split_pairs else 0
            pieces.append((rest[:cut], number))
            rest = rest[cut:]
    chunks: list[ChunkSpan] = []
    current: list[tuple[list[str], int]] = []

    def emit() -> None:
        text = joined([unit for part, _ in current for unit in ["\n", *part]][1:])
        chunks.append(ChunkSpan(text, current[0][1], current[-1][1]))

    def size(parts: list[tuple[list[str], int]]) -> int:
        return sum(len(part) + 1 for part, _ in parts)

    for piece in pieces:
        if current and size(current) + len(piece[0]) + 1 > limit:
            emit()
            kept: list[tuple[list[str], int]] = []
            for old in reversed(current):
                if size(kept) >= repeat:
                    break
                kept.insert(0, old)
            current = kept
        current.append(piece)
    emit()
    return chunks


def case_id(case: dict[str, Any]) -> str:
    return f"{case['input']}-{case['chunking']['tokens']}-{case['chunking']['overlap']}"


@pytest.mark.goldens
@pytest.mark.parametrize("case", GOLDENS["cases"], ids=case_id)
def test_recorded_chunks(case: dict[str, Any]) -> None:
    tokens, overlap = case["chunking"]["tokens"], case["chunking"]["overlap"]
    text = GOLDENS["inputs"][case["input"]]
    chunks = chunk_lines(text, tokens, overlap)
    if (case["input"], tokens, overlap) in SPLIT_PAIRS:
        chunks = by_the_letter(text, tokens, overlap, split_pairs=True)
        assert chunks != chunk_lines(text, tokens, overlap)
    seen = [(c.start_line, c.end_line, utf16_length(c.text), text_hash(c.text)) for c in chunks]
    assert seen == [(c["startLine"], c["endLine"], c["chars"], c["hash"]) for c in case["chunks"]]


def test_the_golden_file_holds_all_cases() -> None:
    assert len(GOLDENS["cases"]) == 72


def test_a_surrogate_pair_is_never_cut() -> None:
    text = "a" + "🙂" * 100  # 201 units; the cut after unit 32 would fall into an emoji
    chunks = chunk_lines(text, tokens=8, overlap=0)
    assert [utf16_length(chunk.text) for chunk in chunks] == [31, 32, 32, 32, 32, 32, 10]
    assert "".join(chunk.text for chunk in chunks) == text
    assert all(chunk.start_line == chunk.end_line == 1 for chunk in chunks)


ALPHABET = st.one_of(
    st.sampled_from(
        ["\n", "a", " ", "\r", "é", "湿", "🙂", "\ud83d", "\ude42", "\x00", "\u2028", "\x85", "\ufeff"]
    ),
    st.characters(exclude_categories=()),  # every code point, lone surrogates too
)
LINE = st.one_of(
    st.text(ALPHABET, max_size=30), st.sampled_from(["", "x" * 31, "x" * 32, "🙂" * 40, "b" + "🙂" * 40])
)
TEXT = st.one_of(st.text(ALPHABET, max_size=300), st.lists(LINE, max_size=30).map("\n".join))
SIZES = st.tuples(st.integers(1, 40), st.integers(-3, 45))


@settings(max_examples=400, deadline=None)
@given(TEXT, SIZES)
def test_chunks_follow_the_rules_to_the_letter(text: str, sizes: tuple[int, int]) -> None:
    tokens, overlap = sizes
    ours = [(c.start_line, c.end_line, units(c.text)) for c in chunk_lines(text, tokens, overlap)]
    rules = by_the_letter(text, tokens, overlap, split_pairs=False)
    assert ours == [(c.start_line, c.end_line, units(c.text)) for c in rules]


@settings(max_examples=300, deadline=None)
@given(TEXT, SIZES)
def test_any_text_is_covered_with_right_spans_in_order(text: str, sizes: tuple[int, int]) -> None:
    tokens, overlap = sizes
    limit, repeat = max(32, tokens * 4), min(max(overlap, 0), tokens - 1) * 4
    chunks = chunk_lines(text, tokens, overlap)
    lines = text.split("\n")
    assert chunks == chunk_lines(text, tokens, overlap)
    assert chunks[0].start_line == 1 and chunks[-1].end_line == len(lines)
    for before, after in pairwise(chunks):
        assert (
            before.start_line <= after.start_line <= before.end_line + 1
        )  # no line falls between two chunks
        assert before.end_line <= after.end_line
    for chunk in chunks:
        assert 1 <= chunk.start_line <= chunk.end_line <= len(lines)
        assert utf16_length(chunk.text) <= 2 * limit + repeat
        span = "\n".join(lines[chunk.start_line - 1 : chunk.end_line])
        if all(utf16_length(line) <= limit for line in lines):
            assert chunk.text == span
        else:  # parts of an over-long line are joined by a newline that the line does not have
            assert "".join(units(chunk.text)).replace("\n", "") in "".join(units(span)).replace("\n", "")


@settings(max_examples=200, deadline=None)
@given(TEXT, st.integers(1, 40))
def test_without_overlap_the_chunks_are_the_text(text: str, tokens: int) -> None:
    together = "".join(chunk.text.replace("\n", "") for chunk in chunk_lines(text, tokens, 0))
    assert units(together) == units(text.replace("\n", ""))


@pytest.mark.parametrize(
    ("text", "blank"),
    [
        ("", True),
        (" \t\r\n\v\f", True),
        ("\ufeff\n", True),
        ("\u00a0\u1680\u2003\u2028\u2029\u202f\u205f\u3000", True),
        ("\u200b", False),  # zero width space is no white space
        ("\x85", False),
        ("\x1c", False),
        ("\x00", False),
        (" a ", False),
    ],
)
def test_blank_as_the_original_trims(text: str, blank: bool) -> None:
    assert is_blank(text) is blank
    assert (LineChunker().chunks(text) == []) is blank
    assert len(chunk_lines(text)) == 1


def test_only_blank_chunks_are_left_out() -> None:
    text = "\n" * 3200 + "a note" + "\n" * 3200
    stored = LineChunker(400, 0).chunks(text)
    assert stored == [chunk for chunk in chunk_lines(text, 400, 0) if "note" in chunk.text]
    assert len(stored) == 1 and stored[0].start_line <= 3201 <= stored[0].end_line


@pytest.mark.parametrize(
    ("tokens", "overlap"), [(0, 0), (-1, 0), (True, 0), (4.5, 0), ("400", 0), (400, None)]
)
def test_wrong_sizes_are_refused(tokens: Any, overlap: Any) -> None:
    with pytest.raises(UsageError, match=r"Chunk (tokens|overlap) must be"):
        chunk_lines("text", tokens, overlap)
    with pytest.raises(UsageError):
        LineChunker(tokens, overlap)


def test_overlap_is_clamped() -> None:
    text = "\n".join(f"line {number}" for number in range(200))
    assert chunk_lines(text, 10, -5) == chunk_lines(text, 10, 0)
    assert chunk_lines(text, 10, 10_000) == chunk_lines(text, 10, 9)


@pytest.mark.parametrize("text", ["x" * 3_000_000, "🙂" * 500_000, "\n" * 300_000, "\ud83d" * 300_000])
def test_hostile_texts_end(text: str) -> None:
    chunks = chunk_lines(text)
    assert chunks[-1].end_line == text.count("\n") + 1
    assert all(chunk.text.encode("utf-8", "surrogatepass") for chunk in chunks)
