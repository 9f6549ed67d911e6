"""A real model through llama.cpp finds on the demo workspace what keywords cannot."""

from __future__ import annotations

import datetime
import os
import signal
import time
from collections.abc import Iterator

import pytest

from openclaw_mem_engine.demo import write_demo
from openclaw_mem_engine.memory import Memory
from support.local_models import minilm, needs_llama_cpp, needs_minilm
from support.providers import make_world

pytestmark = [*needs_llama_cpp, needs_minilm]

#: A query, and words of the passage that answers it, which share no word stem with the query.
PARAPHRASES = [
    ("food poisoning emergency", "came out in hives and a rash after the satay wraps"),
    ("billing steps", "# Runbook: invoicing"),
    ("intruder alert procedure", "# Runbook: the alarm"),
    ("preferred tone of texts", "# How we write to clients"),
]


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    folder = tmp_path_factory.mktemp("local")
    write_demo(folder, datetime.date(2026, 11, 21))
    world = make_world(folder, {})
    world.configure('name = "local"', f'local_model_path = "{minilm()}"', 'also = ["static"]')
    with world.memory() as opened:
        report = opened.sync()
        assert report.embedded == report.chunks == report.beside
        yield opened


@pytest.mark.parametrize(("query", "words"), PARAPHRASES)
def test_a_paraphrase_is_found_that_keywords_miss(memory: Memory, query: str, words: str) -> None:
    # The weights and the cut are meant for models whose cosines are larger than those of MiniLM.
    knobs = memory.knobs.set({"min_score": 0.15})
    by_meaning = memory.search(query, knobs)
    by_keywords = memory.search(query, knobs.set({"mode": "bm25", "max_results": 200}))
    assert any(words in hit.text for hit in by_meaning.hits)
    assert not any(words in hit.text for hit in by_keywords.hits)
    found = by_meaning.pool.first("vector")
    assert found is not None and words in by_meaning.pool.candidates[found.rows[0].chunk_id].text


def test_the_model_and_the_built_in_embedder_are_compared_on_one_query(memory: Memory) -> None:
    answer = memory.search("billing steps")
    local, static = answer.pool.first("vector"), answer.pool.first("vector", 1)
    assert local is not None and static is not None
    assert [row.raw for row in local.rows[:5]] != [row.raw for row in static.rows[:5]]
    links = {link.name: link for link in memory.chain()}
    assert (links["local"].state, links["static"].role) == ("active", "also")
    assert links["local"].vectors == links["static"].vectors == memory.status().chunks


def test_the_child_process_dies_and_the_next_query_has_vectors_again(memory: Memory) -> None:
    guarded = memory._lineup.embedders.primary
    assert guarded is not None
    memory.search("billing steps")
    pid = guarded._inner.pid  # type: ignore[attr-defined]
    os.kill(pid, signal.SIGKILL)
    while guarded._inner.pid is not None:  # type: ignore[attr-defined]
        time.sleep(0.01)
    assert memory.search("intruder alert procedure").pool.first("vector") is not None
    assert guarded._inner.pid != pid  # type: ignore[attr-defined]
