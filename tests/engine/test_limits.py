"""How much a provider takes: recorded splitting and limits, packing, and what refusals teach."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_mem_engine.model import utf8
from openclaw_mem_engine.providers.remote import limits
from openclaw_mem_engine.providers.remote.limits import (
    MAX_BATCH_BYTES,
    batch_end,
    max_input_bytes,
    max_input_tokens,
    split_utf8,
)
from support.goldens import golden


@pytest.mark.goldens
@pytest.mark.parametrize(
    "case", golden("embedding_limits")["splitTextToUtf8ByteLimit"], ids=lambda case: f"{case['text']!r}"
)
def test_splitting_is_that_recorded(case: dict[str, Any]) -> None:
    text, limit = case["text"], case["maxUtf8Bytes"]
    if "".join(case["parts"]) != text:
        # The original drops what follows a character that is longer than the limit (tests/differences.md).
        assert limit < max(len(char.encode()) for char in text)
        assert split_utf8(text, limit) == list(text)
        return
    assert split_utf8(text, limit) == case["parts"]


@pytest.mark.goldens
@pytest.mark.parametrize(
    "case", golden("embedding_limits")["resolveEmbeddingMaxInputTokens"], ids=lambda case: case["model"]
)
def test_limits_are_those_recorded(case: dict[str, Any]) -> None:
    assert max_input_tokens(case["id"], case["model"]) == case["maxInputTokens"]
    assert max_input_bytes(case["id"], case["model"]) == min(case["maxInputTokens"], 8000)


@pytest.mark.goldens
def test_every_listed_limit_is_recorded_and_none_says_nothing_new() -> None:
    recorded = {
        (case["id"], case["model"]) for case in golden("embedding_limits")["resolveEmbeddingMaxInputTokens"]
    }
    for provider, model in limits._MODEL_TOKENS:
        assert (provider, model) in recorded
        assert max_input_tokens(provider, model) != max_input_tokens(provider, "another model")


@pytest.mark.goldens
@pytest.mark.parametrize(
    "case", golden("embedding_limits")["enforceEmbeddingMaxInputTokens"], ids=lambda case: case["name"]
)
def test_long_chunks_are_split_as_recorded(case: dict[str, Any]) -> None:
    units = case["repeat_of"].encode("utf-16-le")
    whole = (units * case["chars"])[: case["chars"] * 2].decode("utf-16-le")
    parts = split_utf8(whole, case["hardMax"])
    lengths = [len(part.encode("utf-16-le")) // 2 for part in parts]
    assert lengths == [each["chars"] for each in case["out"]]
    assert [hashlib.sha256(part.encode()).hexdigest() for part in parts] == [
        each["hash"] for each in case["out"]
    ]


@given(st.text(), st.integers(min_value=1, max_value=20))
def test_splitting_loses_nothing_and_keeps_to_the_limit(text: str, limit: int) -> None:
    parts = split_utf8(text, limit)
    assert b"".join(utf8(part) for part in parts) == utf8(text)
    assert all(parts) or text == ""
    for part in parts:
        assert len(utf8(part)) <= limit or len(part) == 1


@given(st.lists(st.integers(min_value=0, max_value=12_000), min_size=1), st.integers(1, 40))
def test_batches_cover_everything_within_both_limits(sizes: list[int], most: int) -> None:
    start = 0
    while start < len(sizes):
        end = batch_end(sizes, start, MAX_BATCH_BYTES, most)
        assert 0 < end - start <= most
        assert sum(sizes[start:end]) <= MAX_BATCH_BYTES or end - start == 1
        start = end
