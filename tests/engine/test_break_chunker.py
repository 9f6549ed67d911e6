"""The chunker of QMD against recordings of the program, and its variant that keeps code blocks whole."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_mem_engine.chunking.break_chunker import (
    CODE_CAP,
    BreakPoint,
    Fence,
    Piece,
    best_cutoff,
    break_points,
    code_fences,
    cut,
)
from openclaw_mem_engine.errors import UsageError
from openclaw_mem_engine.model import utf16_length
from support.goldens import qmd_golden

COUNTERS = {
    "chars4": lambda text: -(-utf16_length(text) // 4),
    "chars2": lambda text: -(-utf16_length(text) // 2),
    "chars1": utf16_length,
    "ws": lambda text: len(text.split()),
}


def golden_texts() -> dict[str, str]:
    files = {f"{file['collection']}/{file['path']}": file["text"] for file in qmd_golden("corpus")["files"]}
    return {**files, **qmd_golden("chunk_inputs")}


def unit_offsets(text: str) -> list[int]:
    """UTF-16 units before each code point, and of the whole text."""
    return list(accumulate((1 + (c > "\uffff") for c in text), initial=0))


@pytest.mark.goldens
def test_break_points_and_code_blocks() -> None:
    texts = golden_texts()
    for name, expected in qmd_golden("break_points")["by_input"].items():
        units = unit_offsets(texts[name])
        points = [[units[pos], score, kind] for pos, score, kind in break_points(texts[name])]
        recorded = expected["break_points"]
        if isinstance(recorded, dict):  # a long list is recorded by its length and begin
            assert len(points) == recorded["total"]
            points, recorded = points[:100], recorded["first_100"]
        assert points == recorded, name
        fences = [[units[start], units[end]] for start, end in code_fences(texts[name])]
        assert fences == expected["code_fences"], name


@pytest.mark.goldens
def test_the_best_cut() -> None:
    for case in qmd_golden("best_cutoff"):
        points = [BreakPoint(point["pos"], point["score"], point["type"]) for point in case["break_points"]]
        if points != sorted(points):
            continue  # what a list out of order gives is no behaviour to keep
        fences = [Fence(fence["start"], fence["end"]) for fence in case["fences"]]
        found = best_cutoff(points, case["target"], case["window"], case["decay"], fences)
        assert found == case["result"], case


@pytest.mark.goldens
def test_chunks() -> None:
    texts = golden_texts()
    for case in qmd_golden("chunks"):
        text = texts[case["input"] if "input" in case else case["input_file"]]
        units = unit_offsets(text)
        pieces = cut(text, case["max_chars"], case["overlap_chars"], case["window_chars"])
        assert all(text.startswith(piece, pos) for pos, piece in pieces)
        assert [[units[pos], units[pos + len(piece)]] for pos, piece in pieces] == case["chunks"], case


PROSE = "Words of a plain sentence that goes on. " * 20 + "\n"


def code(lines: int) -> str:
    return "```sh\n" + "".join(f"echo number {number:04}\n" for number in range(lines)) + "```\n"


def separated(text: str, pieces: list[Piece]) -> list[Fence]:
    edges = {edge for pos, piece in pieces for edge in (pos, pos + len(piece))}
    fences = code_fences(text, first_line=True)
    return [fence for fence in fences if any(fence.start < edge < fence.end for edge in edges)]


@pytest.mark.parametrize("lead", ["", PROSE, PROSE * 3])
def test_a_code_block_is_kept_whole(lead: str) -> None:
    text = lead + code(120) + PROSE * 4 + code(60) + PROSE
    sizes = (1600, 240, 350)
    assert separated(text, cut(text, *sizes)), "the shipped cut separates one"
    pieces = cut(text, *sizes, keep_code=True)
    assert separated(text, pieces) == []
    assert max(len(piece) for _, piece in pieces) <= CODE_CAP * 1600
    assert any(code(120).strip() in piece for _, piece in pieces)
    covered = 0
    for pos, piece in pieces:
        assert pos <= covered < pos + len(piece)
        covered = pos + len(piece)
    assert covered == len(text)


def test_a_code_block_above_the_cap_is_cut() -> None:
    text = PROSE + code(600) + PROSE
    pieces = cut(text, 1600, 240, 350, keep_code=True)
    assert max(len(piece) for _, piece in pieces) <= CODE_CAP * 1600


@given(
    text=st.text(alphabet="ab #`-\n\U0001f418", max_size=300),
    size=st.integers(1, 60),
    overlap=st.integers(0, 80),
    keep_code=st.booleans(),
)
def test_pieces_go_forward_and_hold_the_whole_text(
    text: str, size: int, overlap: int, keep_code: bool
) -> None:
    pieces = cut(text, size, overlap, 20, keep_code=keep_code)
    covered, before = 0, -1
    for pos, piece in pieces:
        assert before < pos <= covered and text.startswith(piece, pos)
        assert utf16_length(piece) <= max(2, size * (CODE_CAP if keep_code else 1) + 1)
        covered, before = pos + len(piece), pos
    assert covered == len(text)


def test_a_size_below_one_is_refused() -> None:
    with pytest.raises(UsageError, match="1 unit or more"):
        cut("text", 0)
