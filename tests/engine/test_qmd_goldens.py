"""Names and queries of QMD against recordings of the program (2.8.3, and slugs of 1.0.7)."""

from __future__ import annotations

from typing import Any

import pytest

from openclaw_mem_engine.errors import UsageError
from openclaw_mem_engine.model import text_hash
from openclaw_mem_engine.qmd.documents import (
    VirtualPath,
    docid,
    docid_text,
    handelize,
    is_docid,
    is_virtual,
    split_masks,
    title_of,
)
from openclaw_mem_engine.qmd.lexical import WEIGHTS, match_expression, spaced_cjk
from openclaw_mem_engine.qmd.queries import (
    QueryDocument,
    SubQuery,
    cache_key,
    checked,
    document_prompt,
    fingerprint,
    is_strong,
    parse_expansion,
    query_prompt,
)
from support.goldens import qmd_golden

pytestmark = pytest.mark.goldens


def slug(path: str, *, legacy: bool = False) -> dict[str, str]:
    try:
        return {"ok": handelize(path, legacy=legacy)}
    except UsageError as exc:
        return {"error": str(exc)}


def virtual(text: str) -> dict[str, str] | None:
    path = VirtualPath.parse(text)
    if path is None:
        return None
    named = {"indexName": path.index} if path.index else {}
    return {"collectionName": path.collection, "path": path.path, **named}


def test_slugs() -> None:
    for path, expected in qmd_golden("paths")["handelize"]:
        assert slug(path) == expected, path
    for path, expected in qmd_golden("v1_0_7")["handelize"]:
        assert slug(path, legacy=True) == expected, path


def test_titles_hashes_and_docids() -> None:
    paths = qmd_golden("paths")
    for case in paths["extract_title"]:
        assert title_of(case["content"], case["filename"]) == case["title"], case
    for text, expected in paths["docid"]:
        assert {"is_docid": is_docid(text), "normalized": docid_text(text)} == expected, text
    for file in corpus_files():
        hash_ = text_hash(file["text"])
        assert (hash_, docid(hash_)) == (file["sha256"], file["docid"])
        assert title_of(file["text"], file["path"]) == file["title"]


def corpus_files() -> list[dict[str, Any]]:
    corpus: list[dict[str, Any]] = qmd_golden("corpus")["files"]
    return corpus


def test_virtual_paths_and_masks() -> None:
    paths = qmd_golden("paths")
    for text, expected in paths["virtual"]:
        assert is_virtual(text) is expected["is_virtual"]
        assert virtual(text) == expected["parsed"], text
    for arguments, expected in paths["build_virtual"]:
        assert str(VirtualPath(*arguments)) == expected
    for mask, expected in paths["split_glob_mask"]:
        assert split_masks(mask) == expected, mask


def test_match_expressions() -> None:
    golden = qmd_golden("fts_queries")
    for case in golden["cases"]:
        assert match_expression(case["query"]) == case["match"], case["query"]
    for text, expected in golden["cjk_normalise"]:
        assert spaced_cjk(text) == expected
    assert list(WEIGHTS) == [1.5, 4.0, 1.0]


def test_expansion() -> None:
    for case in qmd_golden("expansion"):
        output = None if case["model_output"] == "<throws>" else case["model_output"]
        lines = [{"type": role, "query": text} for role, text in parse_expansion(output, case["query"])]
        assert lines == case["after_dropping_copies_of_the_query"], case


def test_prompts_fingerprints_and_cache_keys() -> None:
    golden = qmd_golden("embedding_prompts")
    for case in golden["cases"]:
        model = case["model"]
        assert query_prompt(model, "how to x") == case["query"]
        assert document_prompt(model, "My title", "body text") == case["doc_with_title"]
        assert document_prompt(model, "", "body text") == case["doc_without_title"]
        assert fingerprint(model) == case["fingerprint"]
    for case in golden["cache_keys"]:
        assert cache_key(case["kind"], case["body"]) == case["sha256"]


def test_which_lines_are_refused_and_why() -> None:
    for case in qmd_golden("pipeline")["cases"]:
        if case["name"] == "validation":
            for search in case["searches"]:
                line = SubQuery(search["type"], search["query"])
                assert refusal(line, search.get("line")) == case.get("error")
    for case in qmd_golden("fts_queries")["cases"]:
        if case["query"] and "\n" not in case["query"]:
            said = refusal(SubQuery("vec", case["query"]), 1)
            assert (said or "").removeprefix("Line 1 (vec): ") == (case["validate_semantic"] or "")
    for case in qmd_golden("cli")["cases"]:
        if case.get("argv", [])[:1] == ["query"] and "Error: " in case["stderr"]:
            with pytest.raises(UsageError) as caught:
                QueryDocument.parse(case["argv"][1])
            assert str(caught.value) == case["stderr"].split("Error: ")[1].strip()


def refusal(query: SubQuery, line: int | None) -> str | None:
    try:
        checked(query, line=line)
    except UsageError as exc:
        return str(exc)
    return None


def test_when_a_first_hit_is_strong() -> None:
    for case in qmd_golden("pipeline")["cases"]:
        if case["kind"] == "hybridQuery":
            hits = case["script"].get("fts", {}).get(case["query"], [])
            strong = is_strong([score for _, score in hits], case["options"].get("intent", ""))
            assert strong == (case["observed"]["expand_calls"] == 0), case["name"]
