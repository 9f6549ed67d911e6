"""Queries on a real FTS5 table: identifiers, and the order that the expressions of QMD 2.8.3 give."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_mem_engine.qmd.lexical import WEIGHTS, match_expression, score_of, spaced_cjk
from support.goldens import qmd_golden

NOTES = {
    "path": "The setting is in path/to/file.md of the old tree.",
    "other-path": "A path leads to another file in the folder.",
    "user": "Write to admin@host.example about it.",
    "version": "Release 1.9.2 came after 2.1.9.",
    "hyphen": "A multi-agent plan.",
    "field": "The key title:foo is read.",
    "accent": unicodedata.normalize("NFD", "Le réseau-principal est lent."),
    "snake": "call snake_case_name() then don't wait",
    "cjk": "検索エンジンの設定",
}


@pytest.fixture(scope="module")
def table() -> Iterator[apsw.Connection]:
    db = apsw.Connection(":memory:")
    db.execute("CREATE VIRTUAL TABLE f USING fts5(filepath, title, body, tokenize='porter unicode61')")
    for name, text in NOTES.items():
        db.execute("INSERT INTO f VALUES (?, '', ?)", (name, spaced_cjk(text)))
    yield db
    db.close()


def found(table: apsw.Connection, query: str, *, as_indexed: bool) -> set[str]:
    match = match_expression(query, as_indexed=as_indexed)
    return {path for (path,) in table.execute("SELECT filepath FROM f WHERE f MATCH ?", (match,))}


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("path/to/file.md", "path"),
        ("admin@host.example", "user"),
        ("1.9.2", "version"),
        ('"multi-agent"', "hyphen"),
        ("multi-agent", "hyphen"),
        ("title:foo", "field"),
        (unicodedata.normalize("NFD", "réseau-principal"), "accent"),
        ("réseau-principal", "accent"),
        ("snake_case_name()", "snake"),
        ('"don\'t"', "snake"),
        ("検索", "cjk"),
        ("エンジン", "cjk"),
    ],
)
def test_an_identifier_finds_what_it_names(table: apsw.Connection, query: str, name: str) -> None:
    assert found(table, query, as_indexed=True) == {name}


def test_separators_that_the_program_loses(table: apsw.Connection) -> None:
    for query in ("path/to/file.md", "admin@host.example", "title:foo", '"multi-agent"'):
        assert found(table, query, as_indexed=False) == set(), query
    assert found(table, "1.9.2", as_indexed=False) == {"version"}


def test_terms_of_a_query() -> None:
    assert (
        match_expression('rack -"old plan" don\'t', as_indexed=True) == '"rack"* AND "don\'t"* NOT "old plan"'
    )
    assert match_expression("--- C++ -", as_indexed=True) == '"c++"*'
    for blank in ("", " \t\n", "-- ... /", '""', "-only", '-"a b"'):
        assert match_expression(blank, as_indexed=True) is None, blank


def test_a_flag_of_a_command_is_a_word() -> None:
    assert match_expression("--dry-run -x", as_indexed=True) == '"-dry-run"* NOT "x"*'
    assert match_expression("--dry-run") is None


@given(
    query=st.text(alphabet=st.sampled_from("ab1\"-.'/*^:(){}+ \n\x00\ud800é検🐘"), max_size=30),
    as_indexed=st.booleans(),
)
def test_no_query_is_a_syntax_error(query: str, as_indexed: bool) -> None:
    match = match_expression(query, as_indexed=as_indexed)
    db = apsw.Connection(":memory:")
    db.execute("CREATE VIRTUAL TABLE f USING fts5(body, tokenize='porter unicode61')")
    if match is not None:
        assert list(db.execute("SELECT body FROM f WHERE f MATCH ?", (match,))) == []


@pytest.mark.goldens
def test_order_and_scores_of_the_program() -> None:
    db = apsw.Connection(":memory:")
    db.execute("CREATE VIRTUAL TABLE f USING fts5(filepath, title, body, tokenize='porter unicode61')")
    for file in qmd_golden("corpus")["files"]:
        if file["indexed"]:
            cells = (f"{file['collection']}/{file['path']}", file["title"], file["text"])
            db.execute("INSERT INTO f VALUES (?, ?, ?)", tuple(map(spaced_cjk, cells)))
    for case in qmd_golden("bm25_search")["cases"]:
        match = match_expression(case["query"])
        assert match == case["match"], case["query"]
        sql = "SELECT filepath, bm25(f, ?, ?, ?) AS s FROM f WHERE f MATCH ? ORDER BY s, rowid"
        rows = list(db.execute(sql, (*WEIGHTS, match)))
        expected = case["raw"]["ok"]
        assert {path for path, _ in rows} == {spaced_cjk(path) for path, _, _ in expected}, case["query"]
        assert [s for _, s in rows] == pytest.approx([s for _, s, _ in expected], abs=1e-6), case["query"]
        scores = [score for _, _, score in case["all"]]
        assert [score_of(s) for _, s in rows][: len(scores)] == pytest.approx(scores, abs=1e-6)
    db.close()
