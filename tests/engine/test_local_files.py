"""Model files and addresses: messages between processes, names, prompts, digests."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_mem_engine.errors import ConfigError
from openclaw_mem_engine.providers.local import packed, unpacked
from openclaw_mem_engine.providers.local.embedder import LocalEmbedder
from openclaw_mem_engine.providers.local.model_file import (
    DEFAULT_MODEL,
    file_mark,
    hub_file,
    local_path,
    prompts_for,
    quick_digest,
)
from openclaw_mem_engine.providers.local.native import lists_of


@given(st.dictionaries(st.text(), st.integers() | st.text()), st.binary(max_size=300))
def test_a_message_arrives_as_it_was_sent(header: dict[str, object], payload: bytes) -> None:
    assert unpacked(packed(header, payload)) == (header, payload)


@given(st.binary(max_size=400))
def test_any_bytes_are_a_message_or_an_error(data: bytes) -> None:
    with suppress(ValueError):
        assert isinstance(unpacked(data).header, dict)


def test_a_path_that_is_not_utf8_arrives() -> None:
    assert unpacked(packed({"path": "/x/\udcff\n.gguf"})).header == {"path": "/x/\udcff\n.gguf"}


def test_where_the_file_of_an_address_is(tmp_path: Path) -> None:
    assert (
        local_path("", tmp_path)
        == tmp_path / "ggml-org_embeddinggemma-300M-GGUF_embeddinggemma-300M-Q8_0.gguf"
    )
    assert local_path("hf:a/b/c/d.gguf", tmp_path) == tmp_path / "a_b_c_d.gguf"
    assert local_path("hf:a/b/d.gguf@v1.0", tmp_path) == tmp_path / "a_b_v1.0_d.gguf"
    assert local_path("hf:a/b/d.gguf@main", tmp_path) == tmp_path / "a_b_d.gguf"
    assert hub_file("hf:a/b/c/d.gguf@x") == ("a", "b", "c/d.gguf", "x")
    assert local_path(str(tmp_path / "x" / ".." / "m.gguf"), Path("/other")) == tmp_path / "m.gguf"
    assert local_path("~/m.gguf", tmp_path) == Path.home() / "m.gguf"


@pytest.mark.parametrize(
    "uri",
    [
        "hf:",
        "hf:a/b",
        "hf:a/b/c.bin",
        "hf:a/../c.gguf",
        "hf:a/b/../../c.gguf",
        "hf:/a/b.gguf",
        "hf:a/b/.hidden.gguf",
        "hf:a/b/c.gguf@../x",
        "hf:a/b/c d.gguf",
        "hf:a/b/c.gguf?x=1",
        "hf:a\\b/c/d.gguf",
        "https://host/c.gguf",
    ],
)
def test_addresses_that_are_none(tmp_path: Path, uri: str) -> None:
    with pytest.raises(ConfigError, match="is not the address of a model"):
        local_path(uri, tmp_path)


def test_prompts_follow_the_family(tmp_path: Path) -> None:
    gemma = prompts_for(DEFAULT_MODEL)
    assert (gemma.query, gemma.document) == ("task: search result | query: ", "title: none | text: ")
    assert prompts_for("mine.gguf", "gemma-embedding") == gemma
    qwen = prompts_for("hf:Qwen/Qwen3-Embedding-0.6B-GGUF/Qwen3-Embedding-0.6B-Q8_0.gguf")
    assert qwen.query == "Instruct: Retrieve relevant documents for the given query\nQuery: "
    assert qwen.document == ""
    for name in (
        "all-MiniLM-L6-v2-Q8_0.gguf",
        "nomic-embed-text-v1.5.gguf",
        "qwen3-chat.gguf",
        "gemma-3.gguf",
    ):
        assert prompts_for(name, "bert") == ("", "")
    with_prompt, without = tmp_path / "embeddinggemma-copy.gguf", tmp_path / "plain.gguf"
    for path in (with_prompt, without):
        path.write_bytes(b"GGUF and more")
    first, second = (LocalEmbedder(str(path), folder=tmp_path) for path in (with_prompt, without))
    assert first.key != second.key


def test_a_digest_notices_another_file_of_the_same_size(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    data = bytearray(3_000_000)
    path.write_bytes(data)
    first, mark = quick_digest(path), file_mark(path)
    assert quick_digest(path) == first
    for place in (0, 65_000, len(data) - 1):
        changed = data.copy()
        changed[place] = 1
        path.write_bytes(changed)
        assert quick_digest(path) != first
    assert file_mark(path) != mark
    path.write_bytes(b"")
    assert len(quick_digest(path)) == 64
    assert file_mark(tmp_path) is None


@given(st.lists(st.integers(1, 512), max_size=60), st.sampled_from([8, 40, 512, 2048]))
def test_lists_hold_everything_once_in_order_and_fit(sizes: list[int], window: int) -> None:
    sizes = [min(size, window) for size in sizes]
    lists = lists_of(sizes, window)
    assert [place for part in lists for place in part] == list(range(len(sizes)))
    for part in lists:
        assert 0 < len(part) <= 8
        total = sum(sizes[place] for place in part)
        assert total <= window
        assert len(part) == 1 or total <= 256
