"""The contract of a chunker, for the line chunker and for a small second one."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_mem_engine.chunking import CHUNKERS, DEFAULT_CHUNKER, Chunker, chunker_of
from openclaw_mem_engine.chunking.break_chunker import BreakChunker
from openclaw_mem_engine.chunking.line_chunker import LineChunker, is_blank
from openclaw_mem_engine.errors import ConfigError, UsageError
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.model import ChunkSpan
from openclaw_mem_engine.stores.base import Fingerprint
from openclaw_mem_engine.sync.fingerprint import fingerprint_of, needs_rebuild
from support.damage import indexed


@dataclass(frozen=True)
class LineEach:
    """One chunk for every line that is not blank; no overlap."""

    name: ClassVar[str] = "each-line"
    tokens: int = 400
    overlap: int = 0

    def chunks(self, text: str) -> list[ChunkSpan]:
        lines = enumerate(text.split("\n"), 1)
        return [ChunkSpan(line, number, number) for number, line in lines if not is_blank(line)]


KINDS: list[Callable[[int, int], Chunker]] = [LineChunker, BreakChunker, LineEach]


@pytest.mark.parametrize("kind", KINDS)
@given(text=st.text(alphabet="ab é\n\ufeff𝄞", max_size=400))
def test_chunks_are_in_order_not_blank_and_hold_every_line(
    kind: Callable[[int, int], Chunker], text: str
) -> None:
    chunks = kind(8, 2).chunks(text)
    assert chunks == kind(8, 2).chunks(text)
    lines = text.split("\n")
    assert all(not is_blank(chunk.text) for chunk in chunks)
    assert all(1 <= chunk.start_line <= chunk.end_line <= len(lines) for chunk in chunks)
    starts = [chunk.start_line for chunk in chunks]
    assert starts == sorted(starts)
    held = {n for chunk in chunks for n in range(chunk.start_line, chunk.end_line + 1)}
    assert {number for number, line in enumerate(lines, 1) if not is_blank(line)} <= held


@pytest.mark.parametrize("kind", KINDS)
def test_a_chunker_says_what_it_is(kind: Callable[[int, int], Chunker]) -> None:
    chunker = kind(200, 20)
    assert (chunker.tokens, chunker.overlap) == (200, 20)
    assert re.fullmatch(r"[a-z][a-z0-9-]*", chunker.name)


def test_chunkers_are_found_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CHUNKERS, LineEach.name, f"{__name__}:LineEach")
    assert chunker_of(100, 10, LineEach.name) == LineEach(100, 10)
    assert chunker_of(100, 10) == LineChunker(100, 10)
    with pytest.raises(ConfigError, match="Known: breaks, each-line, lines"):
        chunker_of(100, 10, "none-such")
    with pytest.raises(UsageError):
        chunker_of(0, 0)


def test_another_chunker_means_a_rebuild(tmp_path: Path) -> None:
    settings = indexed(tmp_path)
    with Memory.open(settings) as memory:
        present = memory.overview().present
        assert present is not None and present.chunker == DEFAULT_CHUNKER
        other = replace(present, chunker=LineEach.name)
        assert needs_rebuild(present, other) and "chunker" in other.differences(present)[0]
        assert not needs_rebuild(present, fingerprint_of(settings, memory._lineup.embedders.primary))


def test_an_index_that_does_not_name_its_chunker_was_cut_by_lines() -> None:
    old = '{"provider": "none", "model": "", "provider_key": "", "chunk_tokens": 400, "chunk_overlap": 80, '
    assert Fingerprint.from_json(f'{old}"sources": ["memory"], "schema": 1}}').chunker == "lines"
