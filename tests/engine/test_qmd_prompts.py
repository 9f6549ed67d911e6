"""What models are sent for the documents and queries of an index of QMD."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from openclaw_mem_engine.model import Prompted
from openclaw_mem_engine.qmd.collections import Collection
from openclaw_mem_engine.qmd.queries import QueryDocument
from openclaw_mem_engine.ranking.profiles import profile
from openclaw_mem_engine.retrieval.qmd_lists import ListBuilder
from openclaw_mem_engine.stores.qmd.embedding import prompt_of
from openclaw_mem_engine.stores.qmd.store import QmdStore
from support.qmd import ScriptedEmbedder, guarded

BODY = "Port 8443.\n"


@pytest.mark.parametrize(
    ("provider", "document", "query"),
    [
        ("local", f"title: router | text: {BODY}", "task: search result | query: which port"),
        ("openai", f"router\n\n{BODY}", "which port"),
    ],
)
def test_a_local_model_gets_title_and_query_in_its_prompt(
    tmp_path: Path, provider: str, document: str, query: str
) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "router.md").write_text(BODY)
    embedder = ScriptedEmbedder()
    embedder.id = provider
    store = QmdStore.open(tmp_path / "index.sqlite")
    store.add_collection(Collection("notes", notes))
    store.update()
    store.embed(embedder, prompt=prompt_of(embedder))
    ListBuilder(store, guarded(embedder), profile("qmd-2.8"), threading.Event()).build(
        QueryDocument("which port"), None
    )
    store.close()
    assert embedder.seen[:2] == [document, query]
    assert {isinstance(text, Prompted) for text in embedder.seen[:2]} == {provider == "local"}
