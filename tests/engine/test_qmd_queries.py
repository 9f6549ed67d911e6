"""Typed queries and the expansion that needs no model."""

from __future__ import annotations

import pytest

from openclaw_mem_engine.errors import UsageError
from openclaw_mem_engine.qmd.queries import QueryDocument, SubQuery, lexical_expansion


def test_one_line_is_a_query() -> None:
    assert QueryDocument.parse("  omada router \n\n") == QueryDocument("omada router")
    assert QueryDocument.parse("Expand:  omada router") == QueryDocument("omada router")
    assert QueryDocument.parse("note: lex is no prefix here").text == "note: lex is no prefix here"


def test_typed_lines_and_intent() -> None:
    document = QueryDocument.parse('HYDE: A plan.\n\nintent: home network\r\nlex: "rack b" -old\nvec: racks')
    assert document.lines == (
        SubQuery("hyde", "A plan."),
        SubQuery("lex", '"rack b" -old'),
        SubQuery("vec", "racks"),
    )
    assert (document.text, document.intent, document.primary) == ("", "home network", '"rack b" -old')
    assert QueryDocument.parse("hyde: a\nvec: b").primary == "b"
    assert QueryDocument.parse("some words").primary == "some words"


@pytest.mark.parametrize("text", ["", " \n\t\n", "vec: rack -old", "hyde:", "lex: a\nlex:"])
def test_what_cannot_be_run_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        QueryDocument.parse(text)


@pytest.mark.parametrize(
    ("query", "variants"),
    [
        ("what port does the router answer on?", ["port router answer", "router answer"]),
        ("useState in real-time views", ["useState real-time views", "use State real time views"]),
        ("omada router", []),
        ("the who", []),
        ("", []),
        ("検索エンジン", []),
        ('the "exact phrase"', []),
        ("the router -omada", []),
    ],
)
def test_variants_without_a_model(query: str, variants: list[str]) -> None:
    assert lexical_expansion(query) == [SubQuery("lex", text) for text in variants]
    assert lexical_expansion(query, 1) == [SubQuery("lex", text) for text in variants[:1]]
