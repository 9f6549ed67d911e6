"""Rerank scores for a pool: a scripted reranker in a real thread, and a whole memory that uses one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from openclaw_mem_engine.cancellation import CancelToken
from openclaw_mem_engine.errors import Cancelled, ProviderError
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.pipeline import rank
from openclaw_mem_engine.ranking.pool import Pool
from openclaw_mem_engine.ranking.profiles import profile
from openclaw_mem_engine.ranking.trace import recompute
from openclaw_mem_engine.retrieval.reranking import Reranking, passage_of
from openclaw_mem_engine.stores.qmd.store import QmdStore
from support.memories import settings_for, write_notes
from support.pools import bm25_list, candidate, pool_of_lists

KNOBS = Knobs().set({"rerank": "on", "rerank_top": 4, "min_score": 0})
Scores = Callable[[str, Sequence[str], CancelToken | None], list[float]]


class Scripted:
    """A reranker that answers as a function says, and remembers what it was asked."""

    id, model, host = "scripted", "m", ""

    def __init__(self, answer: Scores) -> None:
        self._answer = answer
        self.asked: list[tuple[str, tuple[str, ...]]] = []
        self.closed = 0

    def scores(self, query: str, texts: Sequence[str], cancel: CancelToken | None = None) -> list[float]:
        self.asked.append((query, tuple(texts)))
        return self._answer(query, texts, cancel)

    def close(self) -> None:
        self.closed += 1


def by_length(_query: str, texts: Sequence[str], _cancel: CancelToken | None) -> list[float]:
    return [len(text) / 100 for text in texts]


def a_pool(count: int = 6) -> Pool:
    ids = [f"c{n}" for n in range(count)]
    known = {i: candidate(i, "pump " * (n + 1)) for n, i in enumerate(ids)}
    return pool_of_lists(bm25_list([(i, 9.0 - n) for n, i in enumerate(ids)]), candidates=known)


def test_the_first_are_scored_in_batches_that_show_up_as_they_come() -> None:
    reranker, seen = Scripted(by_length), list[Pool]()
    pool = a_pool()
    done = Reranking(reranker, batch=3).complete(pool, KNOBS, on_scores=seen.append)
    assert [len(texts) for _, texts in reranker.asked] == [3, 1]
    assert [len(shown.rerank_scores) for shown in seen] == [0, 3, 4]
    assert rank(seen[1], KNOBS).row("c3").operands[-1].note == (  # type: ignore[union-attr]
        "not reranked: its score is pending"
    )
    assert done.rerank_scores == {f"c{n}": (n + 1) * 5 / 100 for n in range(4)}
    assert (done.rerank_missing, done.notes) == ("", pool.notes)
    assert done.timings["rerank"] > 0 and pool.rerank_scores == {}


def test_a_score_is_asked_for_once_by_query_text_and_model() -> None:
    reranker = Scripted(by_length)
    reranking, pool = Reranking(reranker), a_pool()
    same = replace(pool, memo={}, candidates={**pool.candidates, "c1": candidate("c1", "pump ")})
    reranking.complete(same, KNOBS)
    assert len(reranker.asked[0][1]) == 3, "equal texts are scored once"
    again = reranking.complete(same, KNOBS)
    assert len(reranker.asked) == 1 and again.rerank_scores["c1"] == again.rerank_scores["c0"]
    reranking.complete(pool, KNOBS)
    assert reranker.asked[1][1] == ("pump pump ",), "only what is new"
    reranking.complete(replace(pool, intent="gardens"), KNOBS)
    assert reranker.asked[2][0] == "gardens\n\nq"


def test_without_the_knob_or_a_candidate_nothing_is_asked() -> None:
    reranker, pool = Scripted(by_length), a_pool()
    assert Reranking(reranker).complete(pool, Knobs()) is pool
    empty = a_pool(0)
    assert Reranking(reranker).complete(empty, KNOBS) is empty
    assert reranker.asked == []


def test_without_a_reranker_every_row_says_so_and_keeps_its_score(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = a_pool()
    monkeypatch.delattr("openclaw_mem_engine.retrieval.reranking.passage_of")  # no passage is made
    done = Reranking(None).complete(pool, KNOBS)
    assert done.rerank_scores == {}
    (note,) = done.notes
    assert (note.code, note.level) == ("not-reranked", "info")
    assert note.text == "No candidate is reranked: no reranker is configured (rerank.provider)."
    before, after = rank(pool, Knobs(min_score=0)), rank(done, KNOBS)
    assert [(r.chunk_id, r.final) for r in after.rows] == [(r.chunk_id, r.final) for r in before.rows]
    assert all(r.operands[-1].note.startswith("not reranked: ") for r in after.rows)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (ProviderError("The server is away."), "the reranker failed: The server is away."),
        ([0.5], "the reranker sent 1 scores for 2 texts"),
        ([0.5, 1.5], "the reranker sent a score that is not from 0 to 1"),
        ([0.5, float("nan")], "the reranker sent a score that is not from 0 to 1"),
    ],
)
def test_a_failure_costs_the_scores_that_are_missing(answer: object, reason: str) -> None:
    def scores(_query: str, texts: Sequence[str], _cancel: CancelToken | None) -> list[float]:
        if "pump pump pump " not in texts:
            return [0.5] * len(texts)
        if isinstance(answer, ProviderError):
            raise answer
        assert isinstance(answer, list)
        return answer

    done = Reranking(Scripted(scores), batch=2).complete(a_pool(), KNOBS)
    assert done.rerank_scores == {"c0": 0.5, "c1": 0.5}
    assert done.rerank_missing == reason
    assert done.notes[-1].text == f"2 of 4 candidates are not reranked: {reason.rstrip('.')}."


def test_after_a_failure_the_reranker_is_not_asked_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> list[float]:
        raise ProviderError("The server is away. Start it.")

    reranking = Reranking(reranker := Scripted(fails))
    reranking.complete(a_pool(), KNOBS)
    done = reranking.complete(a_pool(), KNOBS)
    assert len(reranker.asked) == 1
    assert done.rerank_missing == "The server is away; retry in 60 s"
    monkeypatch.setattr("openclaw_mem_engine.providers.base.PAUSE_S", 0.0)
    reranking = Reranking(reranker)
    for _ in range(2):
        reranking.complete(a_pool(), KNOBS)
    assert len(reranker.asked) == 3


def test_an_error_of_our_own_is_not_hidden() -> None:
    def broken(*_: object) -> list[float]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Reranking(Scripted(broken)).complete(a_pool(), KNOBS)


def test_a_stop_ends_the_wait_though_the_model_goes_on() -> None:
    started, released, stop = threading.Event(), threading.Event(), threading.Event()

    def hang(_query: str, texts: Sequence[str], _cancel: CancelToken | None) -> list[float]:
        started.set()
        released.wait(30)
        return [0.5] * len(texts)

    reranking, ended = Reranking(Scripted(hang)), list[str]()

    def search() -> None:
        with pytest.raises(Cancelled):
            reranking.complete(a_pool(), KNOBS, stop)
        ended.append("cancelled")

    thread = threading.Thread(target=search)
    thread.start()
    assert started.wait(30)
    stop.set()
    thread.join(30)
    released.set()
    assert ended == ["cancelled"]


def test_a_budget_that_is_used_up_leaves_the_rest_as_fused() -> None:
    released, entered, freed = threading.Event(), list[int](), threading.Event()

    def slow(_query: str, texts: Sequence[str], cancel: CancelToken | None) -> list[float]:
        entered.append(len(texts))
        if len(entered) == 2:  # deaf to its token
            released.wait(30)
            freed.set()
        return [0.5] * len(texts)

    reranking = Reranking(Scripted(slow), batch=2, budget_s=1.5)
    done = reranking.complete(a_pool(), KNOBS)
    assert done.rerank_missing == "the time budget of 1.5 s was used up"
    assert done.rerank_scores == {"c0": 0.5, "c1": 0.5}
    # The model still works on what it was asked: another search does not ask it as well.
    other = reranking.complete(replace(a_pool(), query="other"), KNOBS)
    assert other.rerank_scores == {} and entered == [2, 2]
    released.set()
    assert freed.wait(30)


def test_a_text_of_a_chunk_is_scored_whole() -> None:
    text = "x" * 3600
    assert passage_of(text, "q") is text
    parts = [f"# Part {n}\n\n" + "word " * 600 + ("zebra" if n == 2 else "") + "\n" for n in range(4)]
    assert "zebra" in passage_of("\n".join(parts), "the zebra crossing")


# -- a memory -----------------------------------------------------------------------------------------------

NOTES = {
    "MEMORY.md": "# Facts\n\nThe pump has a valve.\n",
    "memory/a.md": "# Garden\n\nThe pump is green, the pump hums.\n",
    "memory/b.md": "# House\n\nA pump in the cellar.\n",
}


@pytest.fixture
def reranker() -> Scripted:
    return Scripted(lambda _q, texts, _c: [1.0 if "cellar" in text else 0.0 for text in texts])


@pytest.fixture
def memory(tmp_path: Path, reranker: Scripted) -> Iterator[Memory]:
    root = write_notes(tmp_path / "ws", NOTES)
    settings = settings_for(root, tmp_path / "home", OPENCLAW_MEM_PROVIDER="none")
    with Memory.open(settings, reranker=reranker) as opened:
        opened.sync()
        yield opened
    assert reranker.closed == 1


def test_a_search_reranks_where_the_knobs_say_so(memory: Memory, reranker: Scripted) -> None:
    plain = memory.search("pump")
    assert reranker.asked == [] and plain.hits[0].path != "memory/b.md"
    knobs = memory.knobs.set({"rerank": "on", "blend": "rerank"})
    answer = memory.search("pump", knobs)
    assert answer.hits[0].path == "memory/b.md" and answer.hits[0].score == 1.0
    for row in answer.trace.rows:
        assert row.final is not None and recompute(row.operands) == pytest.approx(row.final, abs=1e-9)
    seen: list[Pool] = []
    memory.retrieve("pump valve", knobs, on_scores=seen.append)
    assert [len(pool.rerank_scores) for pool in seen] == [0, 3]


def test_the_index_of_qmd_keeps_the_scores_between_processes(tmp_path: Path, reranker: Scripted) -> None:
    settings = settings_for(
        write_notes(tmp_path / "ws", NOTES), tmp_path / "home", OPENCLAW_MEM_PROVIDER="none"
    )
    index = tmp_path / "home/data/qmd.sqlite"
    settings = replace(settings, openclaw=replace(settings.openclaw, backend="qmd"), index_path=index)
    knobs = profile("qmd-2.8").set({"rerank": "on"})
    found = []
    for _ in range(2):
        with Memory.open(settings, reranker=reranker) as memory:
            memory.sync()
            found.append(memory.retrieve("pump", knobs).rerank_scores)
    assert len(reranker.asked) == 1 and found[0] == found[1] and len(found[0]) == 3
    with closing(QmdStore.open(index)) as store, store._db.transaction() as connection:
        connection.execute("UPDATE llm_cache SET result = 'no score'")
    with Memory.open(settings, reranker=reranker) as memory:
        assert memory.retrieve("pump", knobs).rerank_scores == found[0]
    assert len(reranker.asked) == 2


def test_why_not_reranks_as_the_search_does(memory: Memory, reranker: Scripted) -> None:
    knobs = profile("qmd-2.8").set({"max_results": 1, "blend": "rerank"})
    found = memory.why_not("pump", "memory/a.md", 3, knobs)
    steps = {step.name: step for step in found.steps}
    assert found.stage == "max_results" and "0.0000 (rerank score 0.000, share 1.00)" in steps["rerank"].text
    assert {"fusion", "bonus", "limit", "position", "rerank"} <= steps.keys()
    assert steps["limit"].text == "its rank is among the first 40 fused candidates"
    for change in found.changes:
        answer = memory.search("pump", knobs.set(change.set))
        assert "memory/a.md" in [hit.path for hit in answer.hits]
    late = memory.why_not("pump", "memory/a.md", 3, knobs.set({"rerank_top": 1, "candidate_limit": 1}))
    asked = len(reranker.asked)
    assert late.changes or late.notes
    assert all("rerank_top" not in change.set for change in late.changes)
    assert len(reranker.asked) == asked
