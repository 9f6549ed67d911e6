"""Retrieval into a pool: which lists are made, the note for one that cannot be, and reports of users."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openclaw_mem_engine.errors import Cancelled, IndexUnavailable, UsageError
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.pipeline import rank
from openclaw_mem_engine.ranking.pool import Signal
from openclaw_mem_engine.ranking.profiles import DOCUMENTED, OPENCLAW_2026_2, WORKBENCH
from openclaw_mem_engine.ranking.trace import recompute
from openclaw_mem_engine.retrieval import candidate_lists
from openclaw_mem_engine.retrieval.builtin import BuiltinBackend
from openclaw_mem_engine.stores import scoring
from openclaw_mem_engine.stores.sqlite.store import SqliteIndex
from openclaw_mem_engine.sync.report import SyncRequest
from openclaw_mem_engine.tools import memory_search
from support.memories import backend_of, open_memory, write_notes

NOTES = {
    "MEMORY.md": "# Long-term\n\nThe gateway runs on the ARM board.\nBackups go to the NAS.\n",
    "memory/2026-02-20.md": "The irrigation pump restarted twice.\nE_VALVE_TIMEOUT code 7712 came back.\n",
    "memory/2026-02-21.md": "The irrigation pump was quiet.\n",
    "memory/network.md": "Router firmware 5.0.5 leaks memory; reboot it every Sunday.\n",
    "memory/ja.md": "温室の湿度センサーを交換した。\n",
    "docs/manual.md": "How the router is mounted.\n",
}
DAY_21 = 1_771_632_000.0  # 2026-02-21, midnight UTC


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    base = tmp_path_factory.mktemp("retrieve")
    workspace = write_notes(base / "ws", NOTES)
    plain = open_memory(workspace, base / "home", provider="static")
    settings = replace(plain.settings, extra_paths=("docs",))
    plain.close()
    with Memory.open(settings, clock=lambda: DAY_21) as opened:
        opened.sync()
        yield opened


def kinds(pool: object) -> list[str]:
    return [found.kind for found in pool.lists]  # type: ignore[attr-defined]


def test_both_lists_are_made_and_every_row_has_its_candidate(memory: Memory) -> None:
    pool = memory.retrieve("  irrigation pump ")
    assert pool.query == "irrigation pump"
    assert kinds(pool) == ["vector", "lexical"]
    assert {row.chunk_id for found in pool.lists for row in found.rows} == set(pool.candidates)
    for found in pool.lists:
        raw = [row.raw for row in found.rows]
        assert raw == sorted(raw, reverse=True)
        assert len({row.chunk_id for row in found.rows}) == len(raw)
    assert (pool.provider, pool.backend, pool.fallback, pool.notes) == ("static", "builtin", None, ())
    assert pool.now == DAY_21
    assert pool.freshness is not None
    assert pool.freshness.state == "fresh"


def test_dates_of_candidates_are_what_decay_needs(memory: Memory) -> None:
    pool = memory.retrieve("irrigation pump router gateway")
    kinds_by_path = {c.path: (c.date_kind, c.date) for c in pool.candidates.values()}
    assert kinds_by_path["memory/2026-02-20.md"] == ("dated", DAY_21 - 86_400)
    assert kinds_by_path["MEMORY.md"] == kinds_by_path["memory/network.md"] == ("evergreen", None)
    kind, date = kinds_by_path["docs/manual.md"]
    written = (memory.settings.workspace / "docs/manual.md").stat().st_mtime_ns / 1e9
    assert kind == "mtime"
    assert date == pytest.approx(written, abs=1e-3)


@pytest.mark.parametrize(
    "knobs", [DOCUMENTED, OPENCLAW_2026_2, WORKBENCH, DOCUMENTED.set({"mmr": "on", "decay": "on"})]
)
def test_real_answers_recompute_too(memory: Memory, knobs: Knobs) -> None:
    answer = memory.search("E_VALVE_TIMEOUT irrigation pump", knobs)
    ranked = [row for row in answer.trace.rows if row.final is not None]
    assert ranked
    for row in ranked:
        assert row.final == pytest.approx(recompute(row.operands), abs=1e-9)
    assert [hit.rank for hit in answer.hits] == list(range(1, len(answer.hits) + 1))
    assert answer.hits[0].path == "memory/2026-02-20.md"


def test_signals_are_computed_for_the_profile_that_mixes_them_and_for_no_other(memory: Memory) -> None:
    plain = memory.retrieve("irrigation pump", DOCUMENTED)
    assert all(signal == Signal() for found in plain.signals.values() for signal in found.values())
    pool = memory.retrieve("irrigation pump", WORKBENCH)
    assert set(pool.signals["bm25"]) == set(pool.signals["vector"]) == set(pool.candidates)
    bm25 = {row.chunk_id: row.raw for found in pool.lists if found.kind == "lexical" for row in found.rows}
    for chunk_id, words in pool.signals["bm25"].items():
        vectors = pool.signals["vector"][chunk_id]
        assert words.raw == bm25.get(chunk_id)
        if pool.candidates[chunk_id].path != "memory/ja.md":  # it has no embedding
            assert vectors.raw is not None
            assert vectors.line is not None
            assert vectors.line >= vectors.raw - 0.5
        assert (words.line or 0) > 0 if chunk_id in bm25 else words.line == 0


@pytest.mark.parametrize("most", [1, 2])
def test_asking_for_fewer_results_keeps_the_best_under_workbench(memory: Memory, most: int) -> None:
    for query in ("irrigation pump", "router", "E_VALVE_TIMEOUT", "backups on the NAS"):
        few, many = (memory.search(query, WORKBENCH.set({"max_results": n})) for n in (most, 5))
        assert [h.chunk_id for h in few.hits] == [h.chunk_id for h in many.hits[:most]]


def test_an_exact_id_is_returned_first(memory: Memory) -> None:
    for knobs in (DOCUMENTED, WORKBENCH):
        assert memory.search("7712", knobs).hits[0].path == "memory/2026-02-20.md"


def test_japanese_parts_of_words_are_found_though_there_is_no_embedding(memory: Memory) -> None:
    for query in ("湿度", "センサー", "温"):
        pool = memory.retrieve(query)
        assert kinds(pool) == ["lexical"]
        assert [note.code for note in pool.notes] == ["no-embedding"]
        assert pool.fallback is None
        assert [h.path for h in memory.search(query).hits] == ["memory/ja.md"]


def test_a_query_without_a_word_uses_vectors_only_and_says_so(memory: Memory) -> None:
    pool = memory.retrieve("?!")
    assert kinds(pool) == []
    assert {note.code for note in pool.notes} == {"no-words", "no-embedding"}
    assert rank(pool, DOCUMENTED).rows == ()
    for blank in ("", "  \n"):
        with pytest.raises(UsageError, match="query is required"):
            memory.retrieve(blank)
    with pytest.raises(UsageError, match="1,000,000 characters, 100,000 is the limit"):
        memory.retrieve("ab " * 333_333 + "c")


def test_cancel_and_hostile_text(memory: Memory) -> None:
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(Cancelled):
        memory.retrieve("pump", cancel=cancel)
    for text in ('") OR 1=1 --', "\ud800 pump", "pump\0valve", "x" * 100_000, "\u202e[bold]pump"):
        memory.search(text)


@pytest.mark.parametrize("missing", ["full_text", "extension"])
def test_without_a_part_of_sqlite_the_rest_answers(memory: Memory, tmp_path: Path, missing: str) -> None:
    store = SqliteIndex(tmp_path / "i.sqlite", **{missing: False})
    backend = BuiltinBackend(memory.settings, store, backend_of(memory).embedders, lambda: DAY_21)
    backend.sync(SyncRequest(knobs=WORKBENCH))
    pool = backend.retrieve("irrigation pump", WORKBENCH)
    codes = {note.code for note in pool.notes}
    if missing == "full_text":
        assert codes == {"no-full-text"}
        assert kinds(pool) == ["vector"]
        trace = rank(pool, DOCUMENTED)
        assert trace.returned[0].path in ("memory/2026-02-20.md", "memory/2026-02-21.md")
    else:
        assert codes == {"no-sqlite-vec"}
        assert [row.chunk_id for row in pool.lists[0].rows] == [
            row.chunk_id for row in memory.retrieve("irrigation pump").lists[0].rows
        ]
    store.close()


def test_resident_and_one_shot_give_the_same_pool(memory: Memory) -> None:
    with Memory.open(memory.settings, clock=lambda: DAY_21, resident=True) as resident:
        for query in ("irrigation pump", "router", "gateway board"):
            mine, theirs = memory.retrieve(query, WORKBENCH), resident.retrieve(query, WORKBENCH)
            assert [row.raw for row in mine.lists[0].rows] == pytest.approx(
                [row.raw for row in theirs.lists[0].rows], abs=1e-6
            )
            assert mine.lists[1].rows == theirs.lists[1].rows
            assert set(mine.candidates) == set(theirs.candidates)


def test_searches_in_many_threads_while_notes_change(memory: Memory, tmp_path: Path) -> None:
    workspace = write_notes(tmp_path / "ws", {f"memory/n{n}.md": f"pump number {n}\n" for n in range(40)})
    errors: list[BaseException] = []
    stop = threading.Event()
    with open_memory(workspace, tmp_path / "home", provider="static", resident=True) as live:
        live.sync()

        def search() -> None:
            try:
                while not stop.is_set():
                    answer = live.search("pump number", WORKBENCH)
                    assert len(answer.hits) == 6
                    assert len(answer.trace.rows) == len(answer.pool.candidates)
            except BaseException as error:  # noqa: BLE001 - looked at below
                errors.append(error)

        threads = [threading.Thread(target=search) for _ in range(3)]
        for thread in threads:
            thread.start()
        for turn in range(6):
            write_notes(
                workspace, {f"memory/n{n}.md": f"pump number {n} turn {turn}\n" for n in range(0, 40, 7)}
            )
            live.sync(SyncRequest(force=turn == 3))
        stop.set()
        for thread in threads:
            thread.join()
    assert errors == []


def test_an_index_that_was_never_filled_answers_with_nothing_and_says_so(tmp_path: Path) -> None:
    workspace = write_notes(tmp_path / "ws", NOTES)
    with open_memory(workspace, tmp_path / "home", provider="static") as fresh:
        assert fresh.freshness().state == "empty"
        answer = fresh.search("pump")
        assert answer.hits == ()
        assert [note.code for note in answer.trace.notes if note.level == "warning"] == ["empty-index"]
        assert answer.warnings == ("The index is empty or was removed: run `openclaw-mem index`.",)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_equal_retrieval_keys_mean_that_a_pool_can_be_shared(memory: Memory, data: st.DataObject) -> None:
    """Ranking another profile's pool anew must give what searching for it would give."""
    changes = {
        "line_bm25": st.sampled_from([0, 0.25]),
        "line_vector": st.sampled_from([0, 0.5]),
        "fill_missing": st.booleans(),
        "bm25_score": st.sampled_from(["rank", "max"]),
        "max_results": st.integers(1, 8),
    }
    drawn = st.fixed_dictionaries({}, optional=changes)
    first, second = (DOCUMENTED.set(data.draw(drawn)) for _ in range(2))
    if first.retrieval_key == second.retrieval_key:
        shared = rank(memory.retrieve("router vlan", first), second)
        own = memory.search("router vlan", second).trace
        assert [(r.chunk_id, r.final) for r in shared.rows] == [(r.chunk_id, r.final) for r in own.rows]


def test_an_index_that_nobody_made_is_not_an_honest_nothing(tmp_path: Path) -> None:
    workspace = write_notes(tmp_path / "ws", {"MEMORY.md": "the router is gull\n"})
    with open_memory(workspace, tmp_path / "home") as never_synced:
        answer = memory_search(never_synced, {"query": "router"})
    assert answer["results"] == []
    assert "The index is empty" in answer["warning"]


def test_a_stopped_sync_is_not_called_fresh(tmp_path: Path) -> None:
    workspace = write_notes(tmp_path / "ws", {"MEMORY.md": "the router is gull\n"})
    stopped = threading.Event()
    stopped.set()
    with open_memory(workspace, tmp_path / "home") as memory:
        memory.sync()
        write_notes(workspace, {"MEMORY.md": "the router is heron\n"})
        with pytest.raises(Cancelled):
            memory.sync(cancel=stopped)
        known = memory.search("router").pool.freshness
        assert known is None or known.state != "fresh"


def test_a_closed_memory_says_so_and_closing_waits_for_readers(tmp_path: Path) -> None:
    workspace = write_notes(tmp_path / "ws", {f"memory/{n}.md": "router vlan\n" * 50 for n in range(50)})
    memory = open_memory(workspace, tmp_path / "home")
    memory.sync()
    errors: list[BaseException] = []

    def search_on() -> None:
        try:
            while True:
                memory.search("router vlan")
        except (IndexUnavailable, Cancelled) as error:
            errors.append(error)

    readers = [threading.Thread(target=search_on) for _ in range(3)]
    for reader in readers:
        reader.start()
    time.sleep(0.3)
    memory.close()
    for reader in readers:
        reader.join(10)
    assert len(errors) == 3
    with pytest.raises(IndexUnavailable):
        memory.search("router")


def test_interrupting_stops_a_search_that_waits_for_its_embedding(tmp_path: Path) -> None:
    workspace = write_notes(tmp_path / "ws", {"MEMORY.md": "the router is gull\n"})
    with open_memory(workspace, tmp_path / "home") as memory:
        memory.sync()
        lineup = memory._lineup
        guarded: Any = lineup.embedders.primary
        embedder: Any = guarded._inner

        class Slow:
            def __getattr__(self, name: str) -> Any:
                return getattr(embedder, name)

            def embed_query(self, text: str, cancel: Any = None) -> Any:
                memory.interrupt()
                return embedder.embed_query(text)

        guarded._inner = Slow()
        with pytest.raises(Cancelled):
            memory.search("router")


@pytest.mark.parametrize("year", [1600, 2300])
def test_a_time_that_no_index_can_hold_is_clamped(tmp_path: Path, year: int) -> None:
    """SQLite's integers end in 2262 when they count nanoseconds."""
    notes = {"MEMORY.md": "the pump\n", "docs/far.md": "the gateway\n"}
    notes[f"memory/{year}-01-02.md"] = "the valve\n"
    workspace = write_notes(tmp_path / "ws", notes)
    moment = (year - 1970) * 31_556_952 * 10**9
    for path in notes:
        os.utime(workspace / path, ns=(moment, moment))
    plain = open_memory(workspace, tmp_path / "home", provider="none")
    settings = replace(plain.settings, extra_paths=("docs",))
    plain.close()
    with Memory.open(settings) as memory:
        assert len(memory.sync().changed) == 3
        assert not memory.sync().changed and memory.freshness().state == "fresh"
        answer = memory.search("gateway valve pump", DOCUMENTED.set({"decay": "on", "min_score": "0"}))
        assert len(answer.hits) == 3
        backend_of(memory).files()


def test_vectors_of_a_model_for_another_script_do_not_count_in_workbench(memory: Memory) -> None:
    said = "Most letters of the query are not Latin, and static"
    for query in ("温室の湿度センサーを gateway", "перезапустился насос router"):
        pool = memory.retrieve(query, WORKBENCH)
        vector = pool.first("vector")
        assert vector is not None and not vector.suits
        assert any(note.code == "other-script" and note.text.startswith(said) for note in pool.notes)
        trace = rank(pool, WORKBENCH)
        assert [stage.name for stage in trace.of_kind("list")] == ["bm25"]
        words = {row.chunk_id for row in pool.lists[-1].rows}
        assert {row.chunk_id for row in trace.returned} <= words
        reason = "found only by vectors, which say nothing of a query in this script (same_script)"
        excluded = {row.outcome.reason for row in trace.rows if row.chunk_id not in words}
        assert excluded == {reason}
        counted = rank(pool, WORKBENCH.set({"same_script": "off"}))
        assert [stage.name for stage in counted.of_kind("list")] == ["vector", "bm25"]
    latin = memory.retrieve("gateway 温", WORKBENCH)
    assert all(found.suits for found in latin.lists)
    assert "other-script" not in {note.code for note in latin.notes}


def test_a_pool_of_by_products_says_so(tmp_path: Path) -> None:
    dreams = {f"memory/dreaming/light/{day}.md": f"Pump candidate {day}.\n" for day in range(3)}
    workspace = write_notes(tmp_path / "ws", {**dreams, "MEMORY.md": "The pump is in the cellar.\n"})
    with open_memory(workspace, tmp_path, provider="none") as memory:
        memory.sync()
        (note,) = [note for note in memory.search("pump").pool.notes if note.code == "by-products"]
        assert note.text.startswith("3 of 4 candidates") and "(memory/dreaming)" in note.text
        for path in dreams:
            (workspace / path).unlink()
        memory.sync()
        assert all(note.code != "by-products" for note in memory.search("pump").pool.notes)


def test_a_search_for_its_results_alone_looks_at_few_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only chunks that a snippet does not show whole are cut into tokens: those with words of the query, for
    the length of a line, and the results. A trace reads the rest."""
    count, long = 60, "The motor of the cellar hums.\n" * 40
    with_word = {f"memory/pump-{n}.md": f"The pump number {n}.\n{long}" for n in range(count)}
    without = {f"memory/motor-{n}.md": f"The engine number {n}.\n{long}" for n in range(count)}
    calls = {"token_lines": list[str](), "_candidate_of": list[str]()}

    def counted(module: Any, name: str) -> None:
        real = getattr(module, name)

        def call(what: Any, *rest: Any) -> Any:
            calls[name].append(what if isinstance(what, str) else what.path)
            return real(what, *rest)

        monkeypatch.setattr(module, name, call)

    counted(scoring, "token_lines")
    counted(candidate_lists, "_candidate_of")
    tokenised, made = calls.values()
    workspace = write_notes(tmp_path / "ws", with_word | without)
    with open_memory(workspace, tmp_path, provider="static") as memory:
        memory.sync()
        answer = memory.search("pump", DOCUMENTED)
        pool, hits = answer.pool, answer.hits
        assert len(pool.candidates) == 2 * count and len(hits) == DOCUMENTED.max_results
        lexical = next(lst.rows for lst in pool.lists if lst.kind == "lexical")
        basis = {row.chunk_id for row in lexical[: DOCUMENTED.signal_depth]}
        members = pool.signals["bm25"]
        assert len(tokenised) == len(basis | {hit.chunk_id for hit in hits}) < len(members)
        assert len(made) == len(members) < len(pool.candidates)
        assert all(signal.lines for signal in members.values())
        assert len(tokenised) == len(set(tokenised)) == len(members)
        assert {row.path for row in answer.trace.rows} == set(made)
        assert len(made) == len(pool.candidates)


def test_a_note_with_nul_bytes_is_found_and_remarked(tmp_path: Path) -> None:
    workspace = write_notes(tmp_path / "ws", {"MEMORY.md": "The pump\0 is in the cellar, valve seven.\n"})
    with open_memory(workspace, tmp_path, provider="none") as memory:
        (note,) = memory.sync().notes
        assert (note.code, note.text) == ("nul-bytes", "NUL bytes were indexed as U+FFFD: 1 in MEMORY.md.")
        (hit,) = memory.search("valve").hits
        assert "pump\ufffd is" in hit.snippet
        assert memory.sync().changed == ()


def test_scores_of_words_alone_are_those_of_an_index_without_vectors(tmp_path: Path) -> None:
    """The lines that word scores are compared with are those of the keyword list, not of the vectors'."""
    words, some = "pump valve ann router garden soil heron storm bread water".split(), random.Random(3)
    lines = [" ".join(some.choices(words, k=some.randint(3, 40))) for _ in range(300)]
    notes = {f"memory/{n:02}.md": "\n".join(lines[n * 5 : n * 5 + 5]) for n in range(60)}
    workspace, found = write_notes(tmp_path / "ws", notes), []
    for provider in ("static", "none"):
        with open_memory(workspace, tmp_path / provider, provider=provider) as memory:
            memory.sync()
            answer = memory.search("pump heron", WORKBENCH.set({"mode": "bm25", "snippet": "head"}))
            found.append([(hit.path, hit.score) for hit in answer.hits])
    assert len(found[0]) == 6 and found[0] == found[1]
