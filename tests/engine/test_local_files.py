"""Model files and addresses: messages between processes, headers of GGUF files, names, prompts, digests."""

from __future__ import annotations

import struct
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
    NotGGUF,
    file_mark,
    hub_file,
    local_path,
    prompts_for,
    quick_digest,
    read_header,
)
from openclaw_mem_engine.providers.local.native import lists_of
from support import local_models


@given(st.dictionaries(st.text(), st.integers() | st.text()), st.binary(max_size=300))
def test_a_message_arrives_as_it_was_sent(header: dict[str, object], payload: bytes) -> None:
    assert unpacked(packed(header, payload)) == (header, payload)


@given(st.binary(max_size=400))
def test_any_bytes_are_a_message_or_an_error(data: bytes) -> None:
    with suppress(ValueError):
        assert isinstance(unpacked(data).header, dict)


def test_a_path_that_is_not_utf8_arrives() -> None:
    assert unpacked(packed({"path": "/x/\udcff\n.gguf"})).header == {"path": "/x/\udcff\n.gguf"}


def test_the_header_of_a_model(tmp_path: Path) -> None:
    header = read_header(local_models.bert(tmp_path / "m.gguf", context=99, dims=32))
    assert (header.architecture, header.embedding_length, header.pooling) == ("bert", 32, "mean")
    header = read_header(local_models.causal(tmp_path / "c.gguf"))
    assert (header.architecture, header.pooling) == ("qwen3", "none")


def test_every_cut_of_a_header_is_an_error(tmp_path: Path) -> None:
    whole = local_models.causal(tmp_path / "whole.gguf").read_bytes()
    part = tmp_path / "part.gguf"
    for size in range(0, 3000, 7):
        part.write_bytes(whole[:size])
        with pytest.raises(NotGGUF):
            read_header(part)


@given(st.binary(max_size=200))
def test_any_bytes_after_the_magic_are_read_or_refused_quickly(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "m.gguf"
    for head in (b"", b"GGUF", b"GGUF" + struct.pack("<IQQ", 3, 1, 3)):
        path.write_bytes(head + data)
        with suppress(NotGGUF):
            read_header(path)


@pytest.mark.parametrize(
    "rest",
    [
        struct.pack("<IQQ", 3, 0, 1 << 60),  # keys without end
        struct.pack("<IQQQ", 3, 0, 1, 1 << 60),  # a key without end
        struct.pack("<IQQQ1sIQ", 3, 0, 1, 1, b"a", 8, 1 << 60),  # a text without end
        struct.pack("<IQQQ1sIIQ", 3, 0, 1, 1, b"a", 9, 4, 1 << 62),  # an array without end
        struct.pack("<IQQQ1sIIQ", 3, 0, 1, 1, b"a", 9, 9, 1),  # an array of arrays
        struct.pack("<IQQQ1sI", 3, 0, 1, 1, b"a", 99),  # an unknown type
        struct.pack("<IQQ", 3 << 24, 0, 0),  # the other byte order
        struct.pack("<IQQ", 3, 0, 0),  # nothing
    ],
    ids=range(8),
)
def test_hostile_headers_are_refused(tmp_path: Path, rest: bytes) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(b"GGUF" + rest + b"\0" * 100)
    with pytest.raises(NotGGUF):
        read_header(path)


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
    with_prompt = local_models.bert(tmp_path / "embeddinggemma-copy.gguf")
    without = tmp_path / "plain.gguf"
    without.write_bytes(with_prompt.read_bytes())
    first, second = (LocalEmbedder(str(path), folder=tmp_path) for path in (with_prompt, without))
    assert first.prompts == gemma
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
