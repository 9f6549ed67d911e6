"""Figures about providers in words."""

from __future__ import annotations

import pytest

from openclaw_mem_engine.cli.text_format import (
    destination,
    dollars,
    failing,
    fallback_words,
    moment,
    retry,
    token_count,
)
from openclaw_mem_engine.model import Fallback
from openclaw_mem_engine.sanitize import byte_size

NOW = 1_772_000_000.0


def test_moments_have_a_date_when_a_time_of_day_would_mislead() -> None:
    assert moment(NOW - 125, NOW).endswith(" (2 min ago)")
    assert len(moment(NOW - 125, NOW).split()[0]) == len("08:31:05")
    assert moment(NOW - 4 * 86_400, NOW).startswith("2026-02-")
    assert moment(NOW + 60, NOW).startswith("2026-02-")  # somebody has changed the clock
    assert moment(1e300, NOW).startswith("an unknown time")


def test_retries() -> None:
    assert retry(None, NOW) == ""
    assert retry(NOW + 12, NOW) == "retry in 12 s"
    assert retry(NOW - 1, NOW) == "retry with the next search"
    assert failing(None, None, NOW) == ""
    assert failing(NOW - 120, NOW + 4, NOW).endswith(" (2 min ago), retry in 4.0 s")


def test_a_fallback_names_both_sides_on_one_line() -> None:
    words = fallback_words(Fallback("openai", "a\x1b[31m reason", "static x\n\x1b[2J", NOW, None), NOW)
    assert words.startswith("vectors of static x⏎^[[2J (openai failed), since ")
    assert fallback_words(Fallback("openai", ""), NOW) == "BM25 only (instead of openai)"


@pytest.mark.parametrize(
    ("usd", "words"),
    [
        (None, "unknown"),
        (0.0, "free"),
        (0.00001, "below $0.0001"),
        (0.0021, "about $0.0021"),
        (12.3, "about $12.30"),
    ],
)
def test_dollars(usd: float | None, words: str) -> None:
    assert dollars(usd) == words


def test_sizes_counts_and_places() -> None:
    assert [
        byte_size(size) for size in (12, 1_500, 9_960, 295_000, 999_600, 4_200_000, 329e6, 2.13e9, 12e9)
    ] == [
        "12 B",
        "1.5 KB",
        "10 KB",
        "295 KB",
        "1.0 MB",
        "4.2 MB",
        "329 MB",
        "2.1 GB",
        "12 GB",
    ]
    assert (token_count(1200, estimated=True), token_count(1200, estimated=False)) == ("about 1,200", "1,200")
    assert destination("openai", "api.openai.com") == "api.openai.com"
    assert destination("openai", "") == "a server on this machine"
    assert destination("static", "") == "local only"
