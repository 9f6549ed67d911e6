"""Documents by what a user writes, against recordings of the program; differences are in differences.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from openclaw_mem_engine.qmd.collections import Collection
from openclaw_mem_engine.qmd.lookup import (
    Known,
    Reference,
    Selection,
    find,
    select,
    why_missing,
    why_too_large,
)
from support.goldens import qmd_golden

NOTES = Collection("notes", Path("/base/notes"))
CODE = Collection("code", Path("/base/code"), ignore=("secret/**", "*.tmp.md"))
ROOTS = {"notes": "/base/notes", "code": "/base/code"}
#: A name must begin where a folder or file name begins; there any end of a path is taken.
INSIDE_OF_A_NAME = "EMORY.md"


def corpus() -> list[dict[str, Any]]:
    return [file for file in qmd_golden("corpus")["files"] if file["indexed"]]


def documents() -> list[Known]:
    return [Known(file["collection"], file["path"], file["sha256"]) for file in corpus()]


@pytest.mark.goldens
def test_one_document() -> None:
    known = documents()
    for text, expected in qmd_golden("lookup")["find_document"]:
        found = find(Reference.parse(text).text, known, ROOTS)
        if text == INSIDE_OF_A_NAME:
            assert found is None
        elif "error" not in expected:
            assert found is not None and (found.uri, found.hash[:6]) == (
                expected["filepath"],
                expected["docid"],
            )
        else:
            assert found is None, text
            reason = why_missing(text, known, [NOTES, CODE])
            if expected["error"] == "excluded_by_ignore":
                assert repr(expected["rule"]) in reason and expected["collection"] in reason
            else:
                assert reason.startswith(f"There is no document {text}.")
                assert all(path in reason for path in expected["similarFiles"][:1])


@pytest.mark.goldens
def test_several_documents() -> None:
    known = documents()
    lengths = {(file["collection"], file["path"]): len(file["text"]) for file in corpus()}
    for case in qmd_golden("lookup")["multi_get"]:
        found, problems = select(case["pattern"], known)
        given: list[Any] = []
        for document in found:
            why = why_too_large(lengths[document.collection, document.path], case["max_bytes"])
            given.append({"skipped": document.uri, "reason": why} if why else document.uri)
        assert given == case["docs"], case["pattern"]
        without_hints = [problem.split(" (did you")[0] for problem in problems]
        assert without_hints == [error.split(" (did you")[0] for error in case["errors"]]


KNOWN = [
    Known("notes", "memory/network-setup.md", "aa11bb" * 8),
    Known("notes", "MEMORY.md", "cc22dd" * 8),
    Known("notes", "aa11bb", "ee33ff" * 8),
    Known("work", "MEMORY.md", "cc22dd" * 8),
]


def test_lines_of_a_reference() -> None:
    assert Reference.parse("a.md") == ("a.md", None, None)
    assert Reference.parse("qmd://notes/a.md:50") == ("qmd://notes/a.md", 50, None)
    assert Reference.parse("#aa11bb:5:20") == ("#aa11bb", 5, 20)


def test_what_fits_best_is_found() -> None:
    assert find("aa11bb", KNOWN) == find("#AA11BB", KNOWN) == KNOWN[0]
    assert find("qmd://notes/aa11bb", KNOWN) == KNOWN[2]
    assert find("work/memory.md", KNOWN) == find("qmd://work/MEMORY.md", KNOWN) == KNOWN[3]
    assert find("memory.md", KNOWN) == KNOWN[1]
    assert find("/w/MEMORY.md", KNOWN, {"work": "/w/", "notes": "/n"}) == KNOWN[3]
    assert find("setup.md", KNOWN) is None
    assert find("#123456", KNOWN) is None


def test_a_right_name_in_a_wrong_folder_is_proposed() -> None:
    assert "memory/network-setup.md" in why_missing("network-stup.md", KNOWN, [])
    assert why_missing("qqq", KNOWN, []) == "There is no document qqq."


def test_globs_and_names_in_one_list() -> None:
    assert select("memory/*.md, work/MEMORY.md, x*", KNOWN) == Selection(
        [KNOWN[0], KNOWN[3]], ["No files matched pattern: x*"]
    )
    assert select("*.md,MEMORY.md", KNOWN).problems == [
        "Ambiguous path MEMORY.md: qmd://notes/MEMORY.md, qmd://work/MEMORY.md"
    ]
