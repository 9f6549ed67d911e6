"""The formats of QMD: recordings of its formatters and of its commands."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest

from openclaw_mem_engine.cli.qmd_formats import (
    FORMATS,
    DocumentRow,
    ResultRow,
    documents_text,
    results_text,
)
from openclaw_mem_engine.qmd.lookup import why_too_large
from openclaw_mem_engine.qmd.snippets import JSON_CHARS, TEXT_CHARS, numbered, snippet
from support.goldens import qmd_golden


def corpus() -> dict[str, dict[str, Any]]:
    return {f"{file['collection']}/{file['path']}": file for file in qmd_golden("corpus")["files"]}


def rows_of(golden: Any, kind: str) -> list[ResultRow]:
    rows = []
    for row in golden["rows"]:
        body = corpus()[row["displayPath"]]["text"]
        found = snippet(body, golden["query"], JSON_CHARS if kind == "json" else TEXT_CHARS)
        rows.append(
            ResultRow(
                row["docid"],
                row["score"],
                row["displayPath"],
                found.line,
                row["title"],
                found.text,
                row["context"],
            )
        )
    return rows


@pytest.mark.goldens
@pytest.mark.parametrize("kind", FORMATS)
def test_results(kind: str) -> None:
    golden = qmd_golden("formats")
    assert results_text(rows_of(golden, kind), kind) == golden["formats"][kind]


@pytest.mark.goldens
def test_a_whole_document_with_line_numbers() -> None:
    golden = qmd_golden("formats")
    row = golden["rows"][0]
    body = corpus()[row["displayPath"]]["text"]
    full = ResultRow(
        row["docid"],
        row["score"],
        row["displayPath"],
        1,
        row["title"],
        numbered(body),
        row["context"],
        full=True,
    )
    assert results_text([full], "json") == golden["json_full_line_numbers"]


@pytest.mark.goldens
@pytest.mark.parametrize("kind", FORMATS)
def test_documents(kind: str) -> None:
    rows = [
        DocumentRow("n/a.md", 'A, "q" & <t>', "l1\nl2", "ctx"),
        DocumentRow("n/b.md", "B", skipped="File too large (20KB > 10KB)"),
    ]
    assert documents_text(rows, kind) == qmd_golden("formats")["documents"][kind]


@pytest.mark.goldens
@pytest.mark.parametrize("kind", FORMATS)
def test_documents_as_the_command_prints_them(kind: str) -> None:
    context = "Everything here is synthetic\n\nPersonal notes of Manon"
    rows = []
    for name in ("dup-one.md", "dup-two.md"):
        file = corpus()[f"notes/{name}"]
        rows.append(DocumentRow(name, file["title"], numbered(file["text"]), context, file["docid"]))
    asked = ["multi-get", "notes/dup-*.md", "--format", kind]
    printed = next(case["stdout"] for case in qmd_golden("cli")["cases"] if case.get("argv") == asked)
    assert documents_text(rows, kind).rstrip("\n") == printed.rstrip("\n")


def test_nothing_found() -> None:
    empty = {kind: results_text([], kind) for kind in FORMATS}
    assert empty == {
        "json": "[]",
        "csv": "docid,score,file,title,context,line,snippet",
        "md": "",
        "xml": "<results></results>",
        "files": "",
    }


def test_marks_in_a_text_break_no_format() -> None:
    row = DocumentRow("a.md", "T", "x\n```\n]]>\x00 & <b>\n```", docid="abc123")
    assert documents_text([row], "md").count("````") == 2
    read = ElementTree.fromstring(documents_text([row], "xml").encode())
    assert read.findtext("document/body") == row.text.replace("\x00", "\N{REPLACEMENT CHARACTER}")


@pytest.mark.parametrize(("score", "shown"), [(1.0, "1"), (0.0, "0"), (0.885, "0.89"), (0.5, "0.5")])
def test_a_score_has_two_decimals(score: float, shown: str) -> None:
    assert f'"score": {shown},' in results_text([ResultRow("a", score, "f", 1, "t", "s")], "json")


def test_what_is_too_large_is_said_in_kilobytes() -> None:
    assert why_too_large(6_000, 6_000) == ""
    assert why_too_large(20_480, 10_240) == "File too large (20KB > 10KB)"
