"""Contexts and snippets of QMD: recordings of the program, and the documented variant."""

from __future__ import annotations

import pytest

from openclaw_mem_engine.chunking.break_chunker import Piece, cut
from openclaw_mem_engine.qmd.collections import context_of
from openclaw_mem_engine.qmd.snippets import best_piece, numbered, snippet
from openclaw_mem_engine.ranking.query_words import intent_terms
from support.goldens import qmd_golden


@pytest.mark.goldens
def test_contexts_add_up() -> None:
    golden = qmd_golden("contexts")
    contexts = golden["collection_contexts"]["notes"]
    for path, expected in golden["cases"]:
        assert context_of(contexts, golden["global"], path, replaces=False) == expected, path
    assert context_of({}, "", "a.md", replaces=False) == ""


def test_the_context_of_a_folder_replaces_that_of_its_parents() -> None:
    contexts = {"": "Notes", "/memory": "Daily", "memory/network": "Network", "projects/": "Projects"}

    def context(path: str) -> str:
        return context_of(contexts, "", path, replaces=True)

    assert context("MEMORY.md") == context("memoryx.md") == "Notes"
    assert context("memory/2026-02-14.md") == context("memory/network-setup.md") == "Daily"
    assert context("memory/network/router.md") == "Network"
    assert context("projects/plan.md") == "Projects"
    assert context_of(contexts, "All", "projects/plan.md", replaces=True) == "All\n\nProjects"
    assert context_of({}, "All", "a.md", replaces=True) == "All"


@pytest.mark.goldens
def test_snippets() -> None:
    golden = qmd_golden("snippets")
    for case in golden["cases"]:
        arguments = dict(case["args"])
        arguments["max_chars"] = arguments.pop("max_len")
        if "chunk_len" in arguments:
            arguments["chunk_chars"] = arguments.pop("chunk_len")
        found = snippet(case["body"], case["query"], **arguments)
        keys = ("line", "snippet", "linesBefore", "linesAfter", "snippetLines")
        assert dict(zip(keys, found, strict=True)) == case["result"], case["name"]
    for intent, terms in golden["intent_terms"]:
        assert intent_terms(intent) == terms
    for text, first, expected in golden["add_line_numbers"]:
        assert numbered(text, first) == expected


@pytest.mark.goldens
def test_the_piece_that_is_reranked() -> None:
    golden = qmd_golden("pipeline")
    pieces = cut(golden["LONG_BODY"])
    for case in golden["cases"]:
        if case["name"].startswith("best_chunk"):
            best = pieces[best_piece(pieces, case["query"], case["options"].get("intent", ""))]
            (result,) = case["results"]
            assert (best.pos, len(best.text)) == (result["best_chunk_pos"], result["best_chunk_len"])


BODY = "\n".join(f"line {number}" + (" with the router" if number == 90 else "") for number in range(1, 121))


def test_a_snippet_comes_from_the_chunk_that_was_found() -> None:
    chunk = BODY.index("line 41")
    assert snippet(BODY, "router").line == 90
    assert snippet(BODY, "router", chunk_pos=chunk, chunk_chars=100).line == 41
    assert snippet(BODY, "router", chunk_pos=chunk, chunk_chars=600).line == 90
    assert snippet(BODY, "zebra", chunk_pos=chunk).text.split("\n")[:2] == [
        "@@ -40,4 @@ (39 before, 77 after)",
        "line 40",
    ]
    blank = BODY + "\n" * 400
    assert snippet(blank, "router", chunk_pos=len(blank) - 50, chunk_chars=50).line == 90


def test_the_first_of_equal_pieces_is_taken() -> None:
    pieces = [Piece(0, "none"), Piece(4, "The Router"), Piece(14, "router again")]
    assert best_piece(pieces, "router is up") == 1
    assert best_piece(pieces, "router is up", "do it again") == 2
    assert best_piece(pieces, "zebra") == 0
