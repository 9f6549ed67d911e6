"""Why-not in the QMD backend: the named stage is the true one, facts and changes recompute by other means."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_retrieve_qmd import qmd_settings
from test_why_not import (
    WORDS,
    in_order,
    meets,
    moved,
    others_tried,
    parts_of,
    shows,
    smaller,
    true_stage,
)

from openclaw_mem_engine.errors import UsageError
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.qmd.collections import Collection
from openclaw_mem_engine.qmd.lexical import terms_of
from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.pool import CandidateList
from openclaw_mem_engine.ranking.profiles import profile
from openclaw_mem_engine.retrieval.expansion import Expander
from openclaw_mem_engine.retrieval.qmd import QmdBackend
from openclaw_mem_engine.sidecar.paths import shown_path
from openclaw_mem_engine.stores.qmd.searching import VectorSpace
from openclaw_mem_engine.why_not import RETURNED, WhyNot
from support.memories import write_notes
from support.qmd_world import QmdWorld
from support.steps import STEPS

#: The day after the youngest generated note.
NOW = 1_793_491_200.0
EVERYWHERE = "pump"


def generated(notes: int = 215) -> dict[str, str]:
    """More documents than a list fetches hold one word; a third is dated, some are long."""
    draw = random.Random(12)
    made = {"MEMORY.md": f"# Facts\n\nThe {EVERYWHERE} is red.\n"}
    for number in range(notes):
        day = f"2026-{1 + number % 10:02}-{1 + number % 28:02}"
        path = f"memory/{day}.md" if number % 3 == 0 else f"memory/notes/n{number:03}.md"
        lines = [" ".join(draw.choices(WORDS, k=draw.randint(3, 9))) for _ in range(draw.choice((2, 3, 5)))]
        lines[draw.randrange(len(lines))] += f" {EVERYWHERE}" * draw.randint(1, 3)
        made[path] = f"# {draw.choice(WORDS)} {number}\n\n" + "\n".join(lines) + "\n"
    return made


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    made = qmd_settings(tmp_path_factory.mktemp("large"), generated())
    with Memory.open(made, resident=True, clock=lambda: NOW) as memory:
        backend_of(memory).store.add_collection(Collection("twice", made.workspace, "memory/notes/n0*.md"))
        memory.sync()
        yield memory


# -- by brute force -----------------------------------------------------------------------------------------


def backend_of(memory: Memory) -> QmdBackend:
    backend = memory._backend
    assert isinstance(backend, QmdBackend)
    return backend


def holding(memory: Memory, asked: WhyNot, line: int | None) -> set[str]:
    """The documents that count: those of all collections that hold the line, or the one that is asked for."""
    store, workspace = backend_of(memory).store, memory.settings.workspace
    if line is None:
        return {asked.passage.chunk_id or ""}
    found = [(one, entry.path) for one in store.collections() for entry in store.ls(one.name)]
    return {f"{c.name}/{path}" for c, path in found if shown_path(c, path, workspace) == asked.passage.path}


def exact_rank(memory: Memory, found: CandidateList, document: str) -> int | None:
    """The rank of a document in a list, all of it counted."""
    backend = backend_of(memory)
    if found.kind == "lexical":
        rows = backend.store.lexical(found.query, 10**6).rows
    else:
        embedder = backend.embedder
        assert embedder is not None
        vector = embedder.embed_query(found.query)
        assert vector is not None
        rows = backend.store.vector(vector, VectorSpace.of(embedder), 10**6).rows
    order = [row.document for row in rows]
    return order.index(document) + 1 if document in order else None


def held_parts(memory: Memory, document: str, text: str, *, as_indexed: bool) -> dict[str, set[str]]:
    """Which parts of a query a document holds, by a full-text table with its row alone."""
    one = backend_of(memory).store.documents([document])[document]
    with closing(sqlite3.connect(":memory:")) as table:
        table.execute("CREATE VIRTUAL TABLE t USING fts5(filepath, title, body, tokenize='porter unicode61')")
        table.execute("INSERT INTO t VALUES(?, ?, ?)", (document, one.title, one.text))
        made: dict[str, set[str]] = {"words": set(), "missing": set(), "inPath": set(), "excluded": set()}
        for term in terms_of(text, as_indexed=as_indexed):
            counts = (f"body: ({term.expression})", term.expression)
            sql = "SELECT count(*) FROM t WHERE t MATCH ?"
            body, anywhere = (table.execute(sql, (one,)).fetchone()[0] for one in counts)
            kind = "words" if body else "inPath" if anywhere else "missing"
            if term.wanted:
                made[kind].add(term.text.lower())
            elif anywhere:
                made["excluded"].add(term.text.lower())
    return made


def drawn(memory: Memory, seed: int) -> tuple[str, str, int | None, Knobs]:
    """A question under any profile and a few knobs, about any document or one that the search ranks."""
    draw = random.Random(seed)
    path = draw.choice(memory.paths())
    words = [word for word in memory.get(draw.choice((path, "MEMORY.md"))).text.split() if word.isalpha()]
    query = " ".join(draw.sample(words, min(len(words), draw.randint(1, 3))))
    forms = ("{}", "{}", "{}", "where did the {} go", "{} -ferry", '"{}"', "lex: {}\nvec: the {}", "kett {}")
    query = draw.choice(forms).format(query, query)
    more: dict[str, Any] = {
        "mode": draw.choice(("hybrid", "hybrid", "bm25", "vector")),
        "expansion": draw.choice(("off", "both", "typed")),
        "strong_signal": draw.random() < 0.5,
        "lexical_index": draw.choice(("stemmed", "plain")),
        "decay": draw.random() < 0.3,
        "mmr": draw.random() < 0.2,
        "min_score": draw.choice((0.0, 0.1, 0.3)),
        "max_results": draw.choice((1, 3, 6, 6)),
        "snippet": draw.choice(("window", "window", "head", "best-line", "packed")),
        "snippet_chars": draw.choice((60, 300)),
    }
    name = draw.choice(("qmd-documented", "qmd-documented", "qmd-2.8", "documented", "workbench"))
    if name.startswith("qmd"):
        more |= {"list_rows": draw.choice((3, 20, 20)), "candidate_limit": draw.choice((0, 4, 30))}
        more |= {"fusion": draw.choice(("position", "rrf")), "bonus_first": draw.choice((0.0, 0.05))}
    knobs = profile(name).set(more)
    if draw.random() < 0.7 and (rows := memory.search(query, knobs).trace.rows):
        path = draw.choice(rows[: draw.choice((10, 10, len(rows)))]).path
    lines = memory.get(path).text.split("\n")
    says = [number for number, text in enumerate(lines, 1) if text.strip() and not text.startswith("#")]
    return query, path, draw.choice((None, draw.choice(says))), knobs


def check(memory: Memory, seed: int) -> WhyNot:
    query, path, line, knobs = drawn(memory, seed)
    found = memory.why_not(query, path, line, knobs)
    document = found.passage.chunk_id
    assert document is not None and found.text.endswith(".")
    answer = memory.search(query, knobs)
    lists = answer.pool.lists
    exact = [exact_rank(memory, lst, document) for lst in lists]
    ranks = [(lst.kind, rank) for lst, rank in zip(lists, exact, strict=True) if rank is not None]
    documents = holding(memory, found, line)
    shown = shows(memory, answer.trace, documents, line)
    assert found.stage == true_stage(answer.trace, found, ranks, shown=shown)
    assert all(step.ok for step in found.steps[:-1])
    assert found.steps[-1].ok == (found.stage == RETURNED)
    names = [step.name for step in found.steps]
    assert names == [name for name in STEPS if name in names] or "decay" in names
    facts = next(step for step in found.steps if step.name == "retrieval").facts["lists"]
    assert [fact["rank"] for fact in facts] == exact
    assert [fact["matched"] for fact in facts] == [lst.matched for lst in lists]
    if facts and facts[0]["list"] == "bm25" and "\n" not in query:
        parts = held_parts(memory, document, query, as_indexed=knobs.lexical_index == "stemmed")
        assert {key: {word.lower() for word in facts[0].get(key, ())} for key in parts} == parts
        for advice in found.text_changes:
            if advice.kind == "word":
                named = parts["excluded"] or parts["missing"]
                assert not facts[0]["rank"] and all(f"“{word}”" in advice.text.lower() for word in named)
    assert in_order(knobs, found)
    asked = [(best or line, change) for best, part in parts_of(found) for change in part]
    for own, change in asked:
        trace = memory.search(query, knobs.set(change.set)).trace
        assert meets(memory, trace, found, own, documents), change
        assert change.rank in [n for n, r in enumerate(trace.results, 1) if documents & {*r.chunk_ids}]
        assert (change.lost, change.gained) == moved(answer.trace, trace, documents)
        for less in smaller(knobs, change.set):
            nearer = memory.search(query, knobs.set(less)).trace
            assert not meets(memory, nearer, found, own, documents), less
    if found.stage != RETURNED:
        others_tried(memory, found, line, knobs, seed, documents, "rerank")
    return found


@settings(max_examples=60)
@given(st.integers(0, 10**6))
def test_any_document_also_where_more_match_than_a_list_fetches(large: Memory, seed: int) -> None:
    check(large, seed)


def test_a_rank_beyond_the_rows_of_a_list_is_exact(large: Memory) -> None:
    knobs = profile("qmd-2.8").set({"mode": "bm25"})
    rows = backend_of(large).store.lexical(f'"{EVERYWHERE}"*', 10**6).rows
    path = rows[210].document.partition("/")[2]
    found = large.why_not(EVERYWHERE, f"memory/{path}", None, knobs)
    assert found.stage == "pool"
    assert f"BM25 ranks it 211 of {len(rows)} keyword matches" in found.steps[-3].text


# -- before the ranking -------------------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(qmd_settings(tmp_path)) as memory:
        store = backend_of(memory).store
        folder = write_notes(tmp_path / "more", {"a.md": "The router is red.\n", "drafts/b.md": "router\n"})
        store.add_collection(Collection("more", folder, ignore=("drafts/**",)))
        aside = write_notes(tmp_path / "aside", {"c.md": "The router is aside.\n"})
        store.add_collection(Collection("aside", aside, included=False))
        memory.sync()
        yield memory


@pytest.mark.parametrize(
    ("path", "stage", "says"),
    [
        ("memory/.old/x.md", "included", "of memory-dir-main, .old is hidden"),
        ("notes/x.md", "included", "of memory-root-main, its pattern MEMORY.md does not match"),
        ("qmd/more/drafts/b.md", "included", "of more, its pattern drafts/** ignores it"),
        ("memory/node_modules/x.md", "included", "folders named node_modules are never read"),
        ("qmd/aside/c.md", "collection", "its collection is not searched by default: aside"),
        ("memory/new.md", "indexed", "it is not indexed yet"),
        ("memory/blank.md", "indexed", "it holds no text that can be indexed: it is blank"),
        ("memory/pond.md", "indexed", "it was modified since it was indexed"),
    ],
)
def test_the_first_step_that_says_no(small: Memory, path: str, stage: str, says: str) -> None:
    workspace = small.settings.workspace
    write_notes(
        workspace, {"memory/blank.md": " \n", "memory/.old/x.md": "router\n", "notes/x.md": "router\n"}
    )
    write_notes(workspace, {"memory/node_modules/x.md": "router\n"})
    small.sync()
    write_notes(workspace, {"memory/new.md": "router\n", "memory/pond.md": "# Pond\n\nNo pump.\n"})
    found = small.why_not("router", path)
    assert (found.stage, found.returned, found.passage.path) == (stage, False, path)
    assert says in found.text and found.text.endswith(".")
    hits = small.search("router", small.knobs.set({"max_results": 50})).trace.returned
    assert path not in {row.path for row in hits} or path == "memory/pond.md"  # with its older text


def test_a_line_that_has_not_changed_is_walked_on(small: Memory) -> None:
    workspace = small.settings.workspace
    write_notes(workspace, {"memory/pond.md": "# Pond\n\nA pump feeds the pond.\nA new line.\n"})
    found = small.why_not("pump", "memory/pond.md", 3)
    assert found.stage == RETURNED
    assert found.steps[3].text == "it is indexed, as a whole document (modified since, not in this line)"
    assert small.why_not("pump", "memory/pond.md", 4).stage == "indexed"
    (workspace / "memory/pond.md").unlink()
    gone = small.why_not("pump", "memory/pond.md", 3)
    assert gone.steps[0].text.endswith("not on disk now; the index still has its text")


@pytest.mark.parametrize(
    "path",
    ["memory/2026-02-20.md", "qmd://memory-dir-main/2026-02-20.md", "qmd/memory-dir-main/2026-02-20.md"],
)
def test_a_document_is_named_as_it_is_shown(small: Memory, path: str) -> None:
    absolute = small.settings.workspace / "memory" / "2026-02-20.md"
    for name in (path, str(absolute)):
        assert small.why_not("router", name).passage.path == "memory/2026-02-20.md"


def test_in_an_index_that_the_program_made(tmp_path: Path) -> None:
    made = qmd_settings(tmp_path)
    with Memory.open(made) as memory:
        memory.sync()
    with closing(sqlite3.connect(made.index_path)) as theirs:
        for table in ("files", "collections", "vectors", "embeddings"):
            theirs.execute(f"DROP TABLE openclaw_mem_{table}")
        theirs.execute("PRAGMA application_id = 0")
    with Memory.open(made) as memory:
        assert backend_of(memory).store.read_only
        assert memory.why_not("router", "memory/2026-02-20.md", 3).stage == RETURNED
        write_notes(made.workspace, {"memory/2026-02-20.md": "A switch.\n"})
        assert memory.why_not("router", "memory/2026-02-20.md", 1).stage == "indexed"


def test_a_search_that_the_scope_denies_returns_nothing(tmp_path: Path) -> None:
    made = qmd_settings(tmp_path)
    scope = replace(made.qmd.scope, default="deny", rules=())
    with Memory.open(replace(made, qmd=replace(made.qmd, scope=scope))) as memory:
        memory.sync()
        found = memory.why_not("router", "memory/2026-02-20.md")
        assert found.stage == "session" and "chat type direct" in found.text
        assert not memory.search("router").hits


# -- lists and changes --------------------------------------------------------------------------------------


def test_what_a_document_lacks_and_what_the_query_excludes(small: Memory) -> None:
    knobs = small.knobs.set({"mode": "bm25"})
    lacks = small.why_not("router magpie", "memory/2026-02-20.md", None, knobs)
    assert (
        "BM25 does not find it: every word must match, and it matches “router”, not “magpie”"
        in lacks.steps[-2].text
    )
    says = ["If the document also held “magpie”, BM25 would find it."]
    assert [change.text for change in lacks.text_changes] == says
    write_notes(small.settings.workspace, {"memory/2026-02-20.md": "The magpie sits on the router.\n"})
    small.sync()
    assert small.why_not("router magpie", "memory/2026-02-20.md", None, knobs).stage == RETURNED
    begins = small.why_not("rout magpi", "memory/2026-02-20.md", None, knobs.set({"lexical_index": "plain"}))
    listed = next(step.text for step in begins.steps if step.name == "retrieval")
    assert "it matches a word that begins with “rout”, “magpi”;" in listed, "the index holds word stems"
    held = small.why_not("router -magpie", "memory/2026-02-20.md", None, knobs)
    assert "does not find it: it matches “magpie”, which the query excludes" in held.steps[-2].text
    assert {"mode": "hybrid"} in [dict(change.set) for change in held.changes]
    both = small.why_not("router", "memory/2026-02-20.md", None, small.knobs.set({"bonus_first": 0}))
    fused = next(step.text for step in both.steps if step.name == "fusion")
    assert (
        fused == "its score is 0.0645 = BM25 0.0323 + vector 0.0323; its rank is 2 of 6"
    )  # 2 / (60 + 2) each
    named = small.why_not("garden", "memory/garden.md", None, knobs)
    assert "it matches “garden”" in named.steps[5].text
    by_path = small.why_not("dir", "memory/garden.md", None, knobs)
    where = "its title or its path in the index (memory-dir-main/garden.md) matches “dir”"
    assert where in by_path.steps[5].text


class Expanding(Expander):
    """A model that makes one variant."""

    model = "scripted"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def expand(self, query: str, cancel: object = None) -> str:
        self.asked.append(query)
        return f"lex: {query.split()[0]} pump"


def test_no_model_is_asked_for_variants_that_the_search_does_not_make(small: Memory) -> None:
    model = Expanding()
    backend = backend_of(small)
    backend._context = replace(backend._context, expander=model)
    knobs = small.knobs.set({"expansion": "off", "max_results": 1})
    found = small.why_not("feeds router", "memory/pond.md", None, knobs)
    assert model.asked == [] and found.stage == "max_results"
    assert "expansion-not-asked" in [note.code for note in found.notes]
    assert not any("expansion" in change.set for change in found.changes)
    walked = small.why_not("feeds router", "memory/pond.md", None, knobs.set({"expansion": "both"}))
    assert model.asked == ["feeds router"]
    assert "BM25 variant 1 “feeds pump” ranks it 1 of 1 keyword match" in walked.steps[5].text


# -- the external program -----------------------------------------------------------------------------------


def test_of_the_external_program_files_collections_and_its_answer_are_known(tmp_path: Path) -> None:
    world = QmdWorld(tmp_path)
    with world.memory() as memory:
        returned = memory.why_not("nadia", "MEMORY.md", 3)
        assert (returned.stage, returned.rank, returned.changes) == (RETURNED, 1, ())
        assert "qmd: rank 1 of its 3 results" in returned.steps[5].text
        cut = memory.why_not("nadia", "MEMORY.md", 4)
        assert (cut.stage, cut.returned) == ("snippet", True)
        write_notes(world.workspace, {"memory/new.md": "nadia\n", "other.md": "nadia\n"})
        assert memory.why_not("nadia", "memory/new.md").stage == "indexed"
        assert memory.why_not("nadia", "other.md").stage == "included"
        world.qmd.answers(search={"rows": []})
        found = memory.why_not("nadia", "memory/2026-02-20.md")
        says = "qmd: it is not in its 0 results; the program gives no reason"
        assert (found.stage, found.steps[-1].text) == ("retrieval", says)
        assert [note.code for note in found.notes].count("external-unknown") == 1
        with pytest.raises(UsageError):
            memory.why_not("nadia", "MEMORY.md", 99)


def test_while_the_builtin_index_answers_it_says_why_not(tmp_path: Path) -> None:
    world = QmdWorld(tmp_path)
    world.qmd.answers(search={"code": 1, "stderr": "broken"})
    with world.memory() as memory:
        memory.sync()
        found = memory.why_not("router", "memory/2026-02-20.md", 1)
        assert found.stage == RETURNED and "chunk" in [step.name for step in found.steps]
        assert "qmd-fallback" in [note.code for note in found.notes]
