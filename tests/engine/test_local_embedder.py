"""The local provider with real models: tiny ones made on the spot, and MiniLM when it is there."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

from openclaw_mem_engine.providers.base import BadAnswer, NotConfigured
from openclaw_mem_engine.providers.local.embedder import LocalEmbedder
from openclaw_mem_engine.qmd.queries import document_prompt, query_prompt
from support import local_models
from support.local_models import needs_llama_cpp, needs_minilm

pytestmark = needs_llama_cpp
LONG = "alpha beta gamma delta " * 400


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def tiny(folder: Path) -> Path:
    return local_models.bert(folder / "tiny.gguf")


@pytest.fixture(scope="module")
def embedder(tiny: Path, folder: Path) -> Iterator[LocalEmbedder]:
    """One child for all tests that only ask for vectors."""
    embedder = LocalEmbedder(str(tiny), folder=folder, threads=1)
    yield embedder
    embedder.close()


def one(embedder: LocalEmbedder, text: str) -> np.ndarray:
    vector = embedder.embed_query(text)
    assert vector is not None
    return np.asarray(vector)


def test_unit_vectors_in_order_and_none_for_blank_text(embedder: LocalEmbedder) -> None:
    kept: dict[int, np.ndarray | None] = {}
    seen: list[tuple[int, int, str]] = []
    texts = ["red apples", "", "blue bicycles", " \n\t", "red apples"]
    found = embedder.embed_documents(
        texts,
        progress=lambda *event: seen.append(event),
        keep=lambda positions, vectors: kept.update(zip(positions, vectors, strict=True)),
    )
    assert [vector is None for vector in found] == [False, True, False, True, False]
    for vector in found[::2]:
        assert vector is not None
        assert vector.dtype == np.float32
        assert vector.shape == (64,) == (embedder.dims,)
        assert float(np.linalg.norm(vector)) == pytest.approx(1, abs=1e-6)
    assert found[0] is not None and found[2] is not None and found[4] is not None
    assert float(found[0] @ found[4]) > 0.9999
    assert sorted(kept) == [0, 1, 2, 3, 4]
    assert seen[-1] == (5, 5, "Embedding")
    assert embedder.embed_documents([]) == []
    assert float(one(embedder, "red apples") @ found[0]) > 0.9999


def test_related_texts_rank_first(embedder: LocalEmbedder) -> None:
    texts = [
        "the harbour master repaired the boat",
        "quarterly numbers look fine",
        "boat repair at the harbour",
    ]
    found = np.stack([vector for vector in embedder.embed_documents(texts) if vector is not None])
    assert list(np.argsort(-(found @ one(embedder, "boat repair harbour")))) == [2, 0, 1]


def test_a_title_goes_to_the_model_and_no_prompt_goes_twice(tiny: Path, tmp_path: Path) -> None:
    gemma = tmp_path / "embeddinggemma-tiny.gguf"
    gemma.write_bytes(tiny.read_bytes())
    embedder = LocalEmbedder(str(gemma), folder=tmp_path, threads=1)
    name = embedder.model
    titled = document_prompt(name, "harbour", "red apples")
    untitled = document_prompt(name, "", "red apples")
    plain, same, other = embedder.embed_documents(["red apples", untitled, titled])
    assert plain is not None and same is not None and other is not None
    assert float(plain @ same) > 0.9999 > float(plain @ other)
    assert float(one(embedder, "red apples") @ one(embedder, query_prompt(name, "red apples"))) > 0.9999
    embedder.close()


def test_nothing_is_started_before_the_first_text(tiny: Path, tmp_path: Path) -> None:
    embedder = LocalEmbedder(str(tiny), folder=tmp_path, threads=1)
    assert (embedder.id, embedder.host, embedder.languages, embedder.lines) == (
        "local",
        "",
        "any",
        None,
    )
    assert embedder.model == "tiny.gguf"
    assert embedder.dims is None
    assert embedder.max_input_bytes == 2048
    assert len(embedder.key) == 64
    assert embedder.pid is None
    assert embedder.embed_query("  ") is None
    assert embedder.embed_documents(["", " "]) == [None, None]
    assert embedder.pid is None


@pytest.mark.parametrize(
    "text",
    [
        "word " * 5000,
        "x" * 300_000,
        " " * 200_000 + "end",
        "[SEP] [CLS] <|im_end|>",
        "\ud800 lone surrogate \udfff",
        "nul \0 byte \x01\x7f\u202e",
        "\u0301\u0302\u0303",
        "\u200b\u200d",
        "한국어 문장입니다 日本語 中文 العربية 🙂🏳️‍🌈",
        "a\u0301" * 3000,
        "\U0010ffff",
    ],
    ids=range(11),
)
def test_no_text_ends_the_process(embedder: LocalEmbedder, text: str) -> None:
    one(embedder, "warm")
    pid = embedder.pid
    for vector in (embedder.embed_query(text), *embedder.embed_documents([text, "plain", text] * 4)):
        assert vector is None or float(np.linalg.norm(vector)) == pytest.approx(1, abs=1e-6)
    assert embedder.pid == pid


def test_a_long_text_is_cut_keeps_its_end_mark_and_is_counted(tiny: Path, tmp_path: Path) -> None:
    from openclaw_mem_engine.providers.local.native import NativeFile, NativeModel

    embedder = LocalEmbedder(str(tiny), folder=tmp_path, threads=1)
    assert embedder.embed_documents(["short", LONG, "short", LONG])[1] is not None
    assert embedder.cut_texts == 2
    assert [note.code for note in embedder.take_notes()] == ["texts-cut"]
    assert embedder.take_notes() == ()
    embedder.close()

    model = NativeModel(NativeFile(str(tiny)), threads=1, limit=2048, should_stop=lambda: False)
    tokens, is_cut = model.tokens(LONG.encode())
    assert (len(tokens), is_cut, model.window) == (512, True, 512)
    assert (tokens[0], tokens[-1]) == (2, 3)
    assert model.tokens(b"[SEP]")[0][1:-1] != [3]
    assert model.tokens(b"") == ([], False)
    assert model.tokens("é".encode())[0] == model.tokens(b"e")[0]


def test_many_short_texts_together_stay_within_the_window(embedder: LocalEmbedder) -> None:
    """Several inputs whose tokens together exceed the batch would abort the process."""
    texts = [f"text number {number} " * (number % 90) for number in range(200)]
    together = embedder.embed_documents(texts)
    for position in range(0, 200, 37):
        alone, vector = embedder.embed_query(texts[position]), together[position]
        assert (alone is None) == (vector is None) == (position % 90 == 0)
        if alone is not None and vector is not None:
            assert float(alone @ vector) > 0.999


@pytest.mark.parametrize(
    ("pooling", "said"), [(None, "chat models"), (local_models.RANK, "reranker")], ids=["none", "rank"]
)
@pytest.mark.parametrize("make", [local_models.bert, local_models.causal], ids=["bert", "causal"])
def test_a_model_that_pools_nothing_is_refused_when_it_is_loaded(
    tmp_path: Path, make: Callable[..., Path], pooling: int | None, said: str
) -> None:
    embedder = LocalEmbedder(str(make(tmp_path / "m.gguf", pooling=pooling)), folder=tmp_path)
    assert embedder.why_not() is None
    with pytest.raises(NotConfigured, match=f"no embedding model: .*{said}") as caught:
        embedder.embed_query("tea")
    assert embedder.pid is None
    assert embedder.why_not() == str(caught.value)


@pytest.mark.parametrize("pooling", [local_models.LAST, local_models.MEAN])
def test_a_causal_model_that_pools_embeds(tmp_path: Path, pooling: int) -> None:
    path = local_models.causal(tmp_path / "m.gguf", pooling=pooling)
    embedder = LocalEmbedder(str(path), folder=tmp_path, threads=1)
    try:
        first, second, long = embedder.embed_documents(["yes yes", "no", "yes " * 4000])
        assert first is not None and second is not None and long is not None
        assert float(first @ second) < 0.999
        assert float(first @ one(embedder, "yes yes")) > 0.9999
        assert embedder.cut_texts == 1
    finally:
        embedder.close()


@pytest.mark.parametrize("splitter", ["deepseek-llm", "gpt-4o", "tekken", "bloom", "default"])
def test_words_without_end_do_not_overflow_the_stack_of_a_tokeniser(tmp_path: Path, splitter: str) -> None:
    """Their regular expressions recurse once per character of a word."""
    path = local_models.causal(tmp_path / "m.gguf", pooling=local_models.LAST, splitter=splitter, context=256)
    embedder = LocalEmbedder(str(path), folder=tmp_path, threads=1)
    try:
        one(embedder, "tea")
        pid = embedder.pid
        for character in "a1!é \n":
            one(embedder, character * 50_000 + "x")
        assert embedder.pid == pid
    finally:
        embedder.close()


@pytest.mark.parametrize("context", [8, 15, 20, 100, 257, 3000])
def test_small_and_large_contexts(tmp_path: Path, context: int) -> None:
    path = local_models.bert(tmp_path / "m.gguf", context=context)
    embedder = LocalEmbedder(str(path), folder=tmp_path, threads=1)
    try:
        found = embedder.embed_documents([LONG, *(["tea time"] * 30), LONG])
        assert all(vector is not None for vector in found)
        assert embedder.cut_texts == 2
        assert [note.code for note in embedder.take_notes()] == ["texts-cut"]
        assert embedder.take_notes() == ()
    finally:
        embedder.close()


def test_a_context_that_holds_no_text_is_refused(tmp_path: Path) -> None:
    embedder = LocalEmbedder(str(local_models.bert(tmp_path / "m.gguf", context=4)), folder=tmp_path)
    with pytest.raises(NotConfigured, match="4 tokens is too small"):
        embedder.embed_query("tea")


def test_corrupt_weights_give_an_error_and_no_vector(tmp_path: Path) -> None:
    path = local_models.bert(tmp_path / "m.gguf", value=float("nan"))
    embedder = LocalEmbedder(str(path), folder=tmp_path, threads=1)
    try:
        for _ in range(2):
            with pytest.raises(BadAnswer, match=r"not finite .* may be damaged"):
                embedder.embed_query("tea")
    finally:
        embedder.close()


@pytest.mark.parametrize("size", [0, 3, 30, 5000, 100_000, -1000], ids=str)
def test_a_cut_off_file_is_refused_with_advice(tmp_path: Path, tiny: Path, size: int) -> None:
    path = local_models.truncated(tiny, tmp_path / "m.gguf", size)
    embedder = LocalEmbedder(str(path), folder=tmp_path, threads=1)
    with pytest.raises(NotConfigured, match="download"):
        embedder.embed_query("tea")
    with pytest.raises(NotConfigured), patch.object(subprocess, "Popen") as start:
        embedder.embed_query("tea")
    assert not start.called, "it is not loaded again for every text"
    assert embedder.pid is None
    path.write_bytes(tiny.read_bytes())
    one(embedder, "tea")  # noticed at once
    embedder.close()


def test_a_folder_or_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.gguf").write_text("hello, I am no model")
    for name, said in (("text.gguf", "begins with"), ("", "no model file"), ("no.gguf", "no model file")):
        with pytest.raises(NotConfigured, match=said):
            LocalEmbedder(str(tmp_path / name), folder=tmp_path).embed_query("tea")
    with pytest.raises(NotConfigured, match="openclaw-mem model download"):
        LocalEmbedder("", folder=tmp_path).embed_query("tea")
    with pytest.raises(NotConfigured, match="is not the address of a model"):
        LocalEmbedder("hf:one/two", folder=tmp_path).embed_query("tea")


def test_another_file_under_the_same_name_is_another_space_and_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    embedder = LocalEmbedder(str(path), folder=tmp_path, threads=1)
    missing = embedder.key
    local_models.bert(path)
    first_key, first = embedder.key, one(embedder, "tea time")
    local_models.bert(tmp_path / "new.gguf", seed=5).replace(path)
    second_key, second = embedder.key, one(embedder, "tea time")
    assert len({missing, first_key, second_key}) == 3
    assert float(first @ second) < 0.9
    (tmp_path / "elsewhere").mkdir()
    path.rename(tmp_path / "elsewhere" / "other-name.gguf")
    moved = LocalEmbedder(str(tmp_path / "elsewhere" / "other-name.gguf"), folder=tmp_path)
    assert moved.key == second_key
    embedder.close()


@pytest.fixture(scope="module")
def real(folder: Path) -> Iterator[LocalEmbedder]:
    embedder = LocalEmbedder(str(local_models.minilm()), folder=folder, threads=1)
    yield embedder
    embedder.close()


@needs_minilm
def test_minilm_finds_related_texts(real: LocalEmbedder) -> None:
    pairs = [
        ("The cat sits on the mat.", "A kitten is resting on the rug.", 0.643),
        ("The cat sits on the mat.", "The quarterly budget was approved.", -0.020),
        ("How do I reset the database password?", "She bought a red bicycle.", 0.088),
        ("we moved to Berlin in May", "our relocation to Germany happened in spring", 0.657),
    ]
    for left, right, cosine in pairs:  # recorded with the original in float32
        assert float(one(real, left) @ one(real, right)) == pytest.approx(cosine, abs=0.02)
    assert real.dims == 384
    assert real.embed_documents(["word " * 1000])[0] is not None
    assert real.cut_texts == 1


@needs_minilm
def test_minilm_korean_is_decomposed_so_that_no_vowel_is_lost() -> None:
    from openclaw_mem_engine.providers.local.native import NativeFile, NativeModel

    file = NativeFile(str(local_models.minilm()))
    model = NativeModel(file, threads=1, limit=2048, should_stop=lambda: False)
    composed, _ = model.tokens("한국어".encode())
    # The jamo of the three syllables, in the vocabulary of BERT uncased.
    jamo = "ᄒ ##ᅡ ##ᆫ ##ᄀ ##ᅮ ##ᆨ ##ᄋ ##ᅥ".split()
    lib = model._lib
    pieces = [lib.llama_vocab_get_text(model._vocab, token).decode() for token in composed]
    assert pieces == ["[CLS]", "\u2581" + jamo[0], *(piece[2:] for piece in jamo[1:]), "[SEP]"]
    assert model.tokens("Ångström café が".encode())[0] == model.tokens("angstrom cafe か".encode())[0]
