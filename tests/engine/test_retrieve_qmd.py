"""QMD in process: pools of documents, their lists and roles, lines of snippets, and what may go wrong."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from openclaw_mem_engine.api import with_backend
from openclaw_mem_engine.chunking.break_chunker import Piece, cut
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.errors import IndexDamaged, UsageError
from openclaw_mem_engine.explain import arithmetic, stage_formula, stage_name
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.providers.circuit_breaker import Embedders
from openclaw_mem_engine.ranking.pool import Pool
from openclaw_mem_engine.ranking.profiles import profile
from openclaw_mem_engine.retrieval.expansion import Expander
from openclaw_mem_engine.retrieval.qmd import QmdBackend
from openclaw_mem_engine.sync.coordinator import set_aside
from openclaw_mem_engine.sync.report import SyncRequest
from support.commands import until
from support.embed_server import hang, running_server
from support.memories import settings_for, write_notes
from support.providers import make_world
from support.qmd import ScriptedEmbedder, guarded
from support.transcripts import messages

NOTES = {
    "MEMORY.md": "# Facts\n\n- The heron lives near the pond.\n- Coffee is bought on Mondays.\n",
    "memory/2026-02-20.md": "# Network\n\nThe router moved to VLAN 40.\n\n## Later\nThe router is grey.\n",
    "memory/firewall.md": "# Firewall\n\nPackets of VLAN 50 are dropped by multi-agent rules.\n",
    "memory/pond.md": "# Pond\n\nA pump feeds the pond.\n",
    "memory/garden.md": "# Garden\n\nTomatoes want water.\n",
}
SHIPPED, DOCUMENTED = profile("qmd-2.8"), profile("qmd-documented")


def qmd_settings(root: Path, notes: dict[str, str] = NOTES) -> Settings:
    made = settings_for(
        write_notes(root / "ws", notes),
        root / "home",
        OPENCLAW_MEM_PROVIDER="static",
    )
    index = root / "home/data/qmd.sqlite"
    return replace(made, openclaw=replace(made.openclaw, backend="qmd"), index_path=index)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    """An up-to-date memory; tests only search it."""
    with Memory.open(qmd_settings(tmp_path_factory.mktemp("qmd"))) as memory:
        memory.sync()
        yield memory


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(qmd_settings(tmp_path)) as opened:
        opened.sync()
        yield opened


def lists(pool: Pool) -> list[tuple[str, str, str | None]]:
    return [(found.id, found.kind, found.role) for found in pool.lists]


def codes(pool: Pool) -> set[str]:
    return {note.code for note in pool.notes}


def test_candidates_are_whole_documents(shared: Memory) -> None:
    pool = shared.retrieve("router", DOCUMENTED)
    found = pool.candidates["memory-dir-main/2026-02-20.md"]
    assert (found.path, found.start_line, found.end_line) == ("memory/2026-02-20.md", 1, 6)
    assert found.text == NOTES["memory/2026-02-20.md"].removesuffix("\n")
    lexical, vector = pool.lists[0], pool.lists[1]
    assert [row.chunk_id for row in lexical.rows] == [found.chunk_id] and lexical.matched == 1
    assert len(vector.rows) == len(NOTES) and all(-1 <= row.raw <= 1 for row in vector.rows)


def test_both_and_typed_expansions_make_their_lists(shared: Memory) -> None:
    query = "where did the router firewall move"
    documented = lists(shared.retrieve(query, DOCUMENTED))
    assert documented[0] == ("bm25", "lexical", "original")
    # Each variant is searched by both.
    assert sum(kind == "lexical" for _, kind, _ in documented) == sum(
        kind == "vector" for _, kind, _ in documented
    )
    shipped = lists(shared.retrieve(query, SHIPPED))
    assert [row for row in shipped if row[1] == "vector"] == [("vector", "vector", "original")]
    assert len([row for row in shipped if row[1] == "lexical"]) > 1
    assert "expanded-without-model" in codes(shared.retrieve(query, SHIPPED))
    off = SHIPPED.set({"expansion": "off"})
    assert [row[0] for row in lists(shared.retrieve(query, off))] == ["bm25", "vector"]


def test_a_clear_first_hit_is_not_expanded(tmp_path: Path) -> None:
    many = {f"memory/{n}.md": f"# Note {n}\n\nNothing of it here.\n" for n in range(400)}
    notes = {**many, "memory/heron.md": "# heron heron\n\nheron heron heron\n"}
    settings = qmd_settings(tmp_path, notes)
    settings = replace(settings, provider=replace(settings.provider, provider="none"))
    with Memory.open(settings) as memory:
        memory.sync()
        assert "not-expanded" in codes(memory.retrieve("heron", SHIPPED))
        assert "not-expanded" not in codes(memory.retrieve("heron", DOCUMENTED))


def test_typed_queries_are_searched_as_they_are(shared: Memory) -> None:
    pool = shared.retrieve("lex: router\nvec: water for plants\nintent: network", SHIPPED)
    assert [(found.kind, found.role) for found in pool.lists] == [
        ("lexical", "original"),
        ("vector", "original"),
    ]
    assert (pool.query, pool.intent, pool.lists[1].query) == ("router", "network", "water for plants")
    with pytest.raises(UsageError, match="intent: cannot appear alone"):
        shared.retrieve("intent: network", SHIPPED)


@pytest.mark.parametrize("name", ["documented", "workbench"])
def test_what_is_said_of_words_and_lines_follows_the_lists_that_were_searched(
    shared: Memory, name: str
) -> None:
    """A profile of the builtin index ranks lists whose words must all match, and that score no line."""
    trace = shared.search("heron pond zeppelin -coffee", profile(name)).trace
    notes = {row.path: [o.note for o in row.operands if o.label == "text"] for row in trace.rows}
    said = "no match: the text lacks zeppelin, "
    assert notes["MEMORY.md"] == [f"{said}or contains what the query excludes: coffee"]
    fusion, words = trace.stage("fusion"), trace.stage("bm25")
    assert fusion is not None and "best line" not in str(fusion.constants["vector_score"])
    assert words is not None and "every word must match" in words.formula


def test_a_variant_is_named_with_what_it_searched(shared: Memory) -> None:
    trace = shared.search("where did the router firewall move", DOCUMENTED).trace
    said = {stage_name(stage, trace): stage_formula(stage, trace) for stage in trace.of_kind("list")}
    assert "variant" not in said["BM25"]
    assert re.search("; searched for “.+”, a variant of the query; ", said["BM25 variant 1"])
    text = arithmetic(trace.returned[0], trace)
    assert "BM25 variant 1 " in text and ":lex" not in text


def test_the_intent_picks_the_line_that_is_shown(shared: Memory) -> None:
    def shown(query: str) -> Any:
        hits = shared.search(query, SHIPPED).hits
        return next(hit.shown for hit in hits if hit.path == "memory/2026-02-20.md")[0][0]

    assert shown("lex: router\nintent: grey colour") > shown("lex: router")


def test_lines_after_the_longest_one_keep_their_numbers(tmp_path: Path) -> None:
    long, found = "The longest line of all is this one, by far, in this note.", "The kingfisher is here."
    lines = [{5: long, 150: found}.get(number, f"line {number}") for number in range(1, 200)]
    with Memory.open(qmd_settings(tmp_path, {"memory/long.md": "\n".join(lines) + "\n"})) as memory:
        memory.sync()
        for knobs in (SHIPPED, DOCUMENTED):
            (hit,) = memory.search("kingfisher", knobs).hits
            assert (hit.best_line, hit.end_line) == (150, 199)
            assert any(first <= 150 <= last for first, last in hit.shown)


def test_a_large_note_is_cut_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [f"# Part {n}\n\n" + "pump " * 500 + "zebra" * (n == 2) for n in range(4)]
    settings = qmd_settings(tmp_path, {"memory/large.md": (text := "\n\n".join(parts))})
    counted: list[str] = []

    def counting(text: str) -> list[Piece]:
        counted.append(text)
        return cut(text)

    with Memory.open(settings) as memory:
        memory.sync()
        monkeypatch.setattr("openclaw_mem_engine.qmd.snippets.cut", counting)
        for query in ("pump", "zebra", "zebra"):
            (hit,) = memory.search(query, SHIPPED).hits
        assert hit.best_line == text[: text.index("zebra")].count("\n") + 1
    assert counted == [text]


def test_identifiers_are_found_as_they_are_written(shared: Memory) -> None:
    def first(query: str) -> int | None:
        return shared.retrieve(query, DOCUMENTED).lists[0].matched

    assert first('"multi-agent"') == first("multi-agent") == 1
    assert shared.retrieve('"multi-agent"', SHIPPED).lists[0].matched == 0  # as 2.8.3 misses it


def test_embeddings_are_kept_for_the_next_embed(memory: Memory) -> None:
    backend = memory.backend
    assert isinstance(backend, QmdBackend)
    made = backend.embed(force=True)
    assert made.chunks == made.cached == len(NOTES)


def test_the_fallback_provider_answers_with_the_stored_vectors(memory: Memory) -> None:
    backend = memory.backend
    assert isinstance(backend, QmdBackend)
    embedders = Embedders(guarded(ScriptedEmbedder()), fallback=backend.embedder)
    backend._context = replace(backend._context, embedders=embedders)
    pool = memory.retrieve("router", SHIPPED)
    assert "fallback-vectors" in codes(pool) and pool.provider == "static"
    assert pool.fallback is not None and pool.fallback.origin == "scripted"
    assert [found.provider for found in pool.lists if found.kind == "vector"] == ["static"]


def test_vectors_alone_find_each_document_by_its_nearest_variant(tmp_path: Path) -> None:
    # The recorded case vsearch_union_max_score of 2.8.3: cosines of the query q, vec v1 and hyde h1.
    cosines = {"q": {"a": 0.6, "b": 0.31}, "v1 q": {"a": 0.7, "c": 0.29}, "h1 q": {"d": 0.5}}
    notes = {f"memory/{name}.md": f"{name}\n" for name in "abcd"}
    vectors = {f"{name}\n": [float(at == one) for one in range(7)] for at, name in enumerate("abcd")}
    for at, (text, near) in enumerate(cosines.items(), 4):
        row = [near.get(name, 0.0) for name in "abcd"] + [0.0] * 3
        row[at] = (1 - sum(value * value for value in row)) ** 0.5
        vectors[text] = row

    class Scripted(Expander):
        model = "scripted"

        def __init__(self) -> None:
            """Without a chat model."""

        def expand(self, query: str, cancel: object = None) -> str:
            return f"lex: l {query}\nvec: v1 {query}\nhyde: h1 {query}"

    alone = {"mode": "vector", "fusion": "weighted", "vector_score": "cosine", "rerank": "off"}
    knobs = SHIPPED.set({**alone, "expansion": "nearest", "strong_signal": False, "min_score": 0.3})
    knobs = knobs.set({"bonus_first": 0, "bonus_next": 0})
    with Memory.open(qmd_settings(tmp_path, notes)) as memory:
        backend = memory.backend
        assert isinstance(backend, QmdBackend)
        embedders = Embedders(guarded(ScriptedEmbedder(7, vectors)))
        backend._context = replace(backend._context, embedders=embedders, expander=Scripted())
        memory.sync()
        answer = memory.search("q", knobs)
        found = [(hit.path[7], round(hit.score, 2)) for hit in answer.hits]
        assert found == [("a", 0.7), ("d", 0.5), ("b", 0.31)]
        assert [one.query for one in answer.pool.lists if one.kind == "vector"] == ["q | v1 q | h1 q"]
        assert len(answer.pool.lists) == 2, "lex lines are not for vectors"
        backend._context = replace(backend._context, expander=None)
        answer = memory.search("q", knobs)
        assert [hit.path[7] for hit in answer.hits] == ["a", "b"]
        assert "No model expands the query: it has no variants." in [note.text for note in answer.trace.notes]


def test_a_search_of_one_collection(memory: Memory) -> None:
    backend = memory.backend
    assert isinstance(backend, QmdBackend)
    backend.only = ("memory-root-main",)
    assert {hit.path for hit in memory.search("pond").hits} == {"MEMORY.md"}
    backend.only = None
    assert "memory/pond.md" in {hit.path for hit in memory.search("pond").hits}


@pytest.mark.parametrize(
    ("globs", "left_out"),
    [
        (("memory/pond.md", "memory/g*"), {"memory/pond.md", "memory/garden.md"}),
        (("**/pond.md",), {"memory/pond.md"}),
        (("MEMORY.md", "pond.md", "garden.md"), {"MEMORY.md"}),
    ],
)
def test_excluded_notes_are_in_no_collection(
    tmp_path: Path, globs: tuple[str, ...], left_out: set[str]
) -> None:
    with Memory.open(replace(qmd_settings(tmp_path), exclude=globs)) as memory:
        memory.sync()
        files = {file.path for file in memory.overview().files if file.state == "up-to-date"}
        assert files == NOTES.keys() - left_out


def test_exported_conversations_are_a_collection(tmp_path: Path) -> None:
    settings = qmd_settings(tmp_path)
    sessions = replace(settings.qmd.sessions, enabled=True)
    settings = replace(settings, qmd=replace(settings.qmd, sessions=sessions))
    transcript = settings.openclaw.sessions_dir / "one.jsonl"
    transcript.parent.mkdir(parents=True)
    transcript.write_text(messages("where is the kingfisher?", "at the pond"))
    with Memory.open(settings) as memory:
        memory.sync()
        (hit,) = (hit for hit in memory.search("kingfisher").hits if not hit.weak)
        assert (hit.source, hit.path) == ("sessions", "qmd/sessions-main/one.md")
        assert memory.get(hit.path).text.startswith("# Session one\n\nUser: where is")
        transcript.unlink()
        assert memory.sync().removed == (hit.path,)


def test_files_that_are_no_documents_make_an_index_partial(memory: Memory) -> None:
    workspace = memory.settings.workspace
    write_notes(workspace, {"memory/blank.md": " \n"})
    memory.sync()
    assert memory.freshness().state == "fresh"  # blank by rule
    (workspace / "memory/binary.md").write_bytes(b"heron \0")
    assert memory.freshness().state == "stale"
    memory.sync()
    fresh = memory.freshness()
    assert (fresh.state, fresh.changed_count) == ("partial", 0)
    assert {file.path for file in fresh.excluded} == {"memory/binary.md", "memory/blank.md"}


def test_a_damaged_index_is_replaced(tmp_path: Path) -> None:
    settings = qmd_settings(tmp_path)
    with Memory.open(settings) as memory:
        memory.sync()
    head = settings.index_path.read_bytes()[:100]
    settings.index_path.write_bytes(head + b"x" * 9000)
    with pytest.raises(IndexDamaged) as caught:
        Memory.open(settings)
    with Memory.open(settings, resident=True) as memory:
        assert memory.chain(), "providers are known without an index"
        with pytest.raises(IndexDamaged):
            memory.paths()
    set_aside(settings, caught.value)
    with Memory.open(settings) as memory:
        memory.sync()
        assert memory.search("router").hits[0].path == "memory/2026-02-20.md"
    assert settings.index_path.with_name("qmd.sqlite.damaged").exists()


def test_a_search_waits_for_the_vectors_of_the_built_in_embedder_alone(tmp_path: Path) -> None:
    with Memory.open(qmd_settings(tmp_path)) as memory:
        report = memory.sync(SyncRequest(budget_s=0.0))
        assert report.embedded >= len(NOTES) and not report.notes
        assert memory.freshness().state == "fresh"
        backend = memory.backend
        assert isinstance(backend, QmdBackend)
        write_notes(memory.settings.workspace, {"memory/new.md": "# New\n\nThe plumber comes.\n"})
        backend.store.update()
        assert memory.freshness().state == "partial", "its vectors are pending"


def test_a_provider_that_does_not_answer_a_search_has_failed(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    with running_server() as server:
        world.configure('name = "openai"', f'base_url = "{server.base_url}"', 'model = "hash-bow-256"')
        server.forever = hang(60)
        with Memory.open(with_backend(world.settings(), "qmd"), clock=world.clock) as memory:
            report = memory.sync(SyncRequest(budget_s=0.3))
            assert [note.code for note in report.notes] == ["embedding-later"]
            pool = memory.search("bicycle").pool
            assert pool.fallback is not None and "gave no embedding within 0.3 s" in pool.fallback.reason
            sent = len(server.requests)
            memory.sync(SyncRequest(budget_s=0.3))
            assert len(server.requests) == sent, "its circuit is open"


def test_a_killed_update_is_taken_up(tmp_path: Path) -> None:
    notes = {f"memory/{n}.md": f"# Note {n}\n\nheron {n}\n" for n in range(620)}
    settings = qmd_settings(tmp_path, notes)
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom test_retrieve_qmd import qmd_settings\n"
        "from openclaw_mem_engine.memory import Memory\n"
        "def slow(done, total, label):\n    if done == 600: Path(sys.argv[2]).touch(); time.sleep(60)\n"
        "Memory.open(qmd_settings(Path(sys.argv[1]), {})).sync(progress=slow)\n"
    )
    mark = tmp_path / "mark"
    paths = os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parents[1])])
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path), str(mark)], env={**os.environ, "PYTHONPATH": paths}
    )
    try:
        until(lambda: mark.exists() or child.poll() is not None)
    finally:
        with suppress(ProcessLookupError):
            child.send_signal(signal.SIGKILL)
        child.wait()
    with Memory.open(settings) as memory:
        found = memory.status().files
        assert 0 < found < 620
        assert memory.freshness().state == "stale", "it holds documents"
        notes_said = {note.code for note in memory.search("heron").trace.notes}
        assert "empty-index" not in notes_said
        memory.sync()
        assert memory.status().files == 620 and memory.freshness().state == "fresh"
