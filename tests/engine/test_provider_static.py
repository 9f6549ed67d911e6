"""The built-in embedder: recorded tokens and vectors, bits that do not depend on batching, and its limits."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_mem_engine.errors import Cancelled, ProviderError
from openclaw_mem_engine.providers.static import TABLE_FILE, TABLE_HASHES, StaticEmbedder
from openclaw_mem_engine.providers.static.wordpiece import LINE_END, WordPiece

GOLDENS: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "data" / "models" / "static-minilm-golden.json").read_text(encoding="utf-8")
)
EMBEDDER = StaticEmbedder()


def vector(text: str) -> np.ndarray:
    found = EMBEDDER.embed_query(text)
    assert found is not None
    return np.asarray(found)


@pytest.mark.goldens
@pytest.mark.parametrize("case", GOLDENS["vectors"], ids=lambda case: case["text"][:20])
def test_recorded_tokens_and_vectors(case: dict[str, Any]) -> None:
    assert EMBEDDER._loaded().wordpiece.ids(case["text"]) == case["ids"]
    found = vector(case["text"])
    assert found.dtype == np.float32
    assert found.shape == (256,)
    assert float(np.linalg.norm(found)) == pytest.approx(1, abs=1e-6)
    np.testing.assert_allclose(found[:8], case["first8"], atol=GOLDENS["tolerance"])


@pytest.mark.goldens
@pytest.mark.parametrize("text", GOLDENS["no_embedding"])
def test_text_without_meaning_for_the_table_has_no_embedding(text: str) -> None:
    assert EMBEDDER.embed_query(text) is None
    assert EMBEDDER.embed_documents([text, "tea", text])[::2] == [None, None]


@pytest.mark.goldens
@pytest.mark.parametrize("case", GOLDENS["cosines"], ids=lambda case: case["b"][:20])
def test_recorded_cosines(case: dict[str, Any]) -> None:
    assert float(vector(case["a"]) @ vector(case["b"])) == pytest.approx(case["cosine"], abs=1e-4)


def test_the_shipped_table_is_the_one_the_key_names() -> None:
    with np.load(TABLE_FILE, allow_pickle=False) as file:
        meta = json.loads(bytes(file["meta"]))
        for name in ("table", "scale", "vocab"):
            digest = hashlib.sha256(file[name].tobytes()).hexdigest()
            assert digest == meta[f"{name}_sha256"] == TABLE_HASHES[f"{name}_sha256"]
    assert len(EMBEDDER.key) == 64
    assert EMBEDDER.dims == 256


def test_the_licence_travels_with_the_table() -> None:
    text = TABLE_FILE.with_name("LICENSE-static-minilm.txt").read_text(encoding="utf-8")
    for part in (
        "Apache License",
        "END OF TERMS AND CONDITIONS",
        "all-MiniLM-L6-v2",
        "were changed",
        "CC BY 4.0",
    ):
        assert part in text


WORDS = st.sampled_from(
    [
        "tea",
        "Kubernetes",
        "résumé",
        "coffee",
        "x" * 101,
        "日本",
        "...",
        "E_VALVE",
        "12",
        "--",
        "\t",
        "\r",
        "naïve",
    ]
)
TEXTS = st.lists(st.lists(st.lists(WORDS).map(" ".join), max_size=5).map("\n".join), max_size=70)


@settings(max_examples=40, deadline=None)
@given(TEXTS)
def test_a_batch_gives_the_same_bits_as_each_text_alone(texts: list[str]) -> None:
    together = EMBEDDER.embed_documents(texts)
    assert len(together) == len(texts)
    for text, one in zip(texts, together, strict=True):
        alone = EMBEDDER.embed_query(text)
        assert (one is None) == (alone is None)
        if one is not None and alone is not None:
            assert one.tobytes() == alone.tobytes()


@settings(max_examples=200, deadline=None)
@given(st.text())
def test_any_text_is_embedded_or_refused_without_error(text: str) -> None:
    found = EMBEDDER.embed_query(text)
    assert found is None or bool(np.isfinite(found).all())
    assert EMBEDDER._loaded().wordpiece.ids(text) == EMBEDDER._loaded().wordpiece.ids(text.replace("\n", " "))


def test_long_and_repeated_texts_agree_with_the_plain_sum() -> None:
    text = "The pump restarts every thirty seconds, see E_VALVE_TIMEOUT.\n" * 400
    with np.load(TABLE_FILE, allow_pickle=False) as file:
        ids = np.array(EMBEDDER._loaded().wordpiece.ids(text))
        plain = (file["table"][ids].astype(np.float32) * file["scale"][ids, np.newaxis]).sum(axis=0)
    np.testing.assert_allclose(vector(text), plain / np.linalg.norm(plain), atol=1e-4)


def test_long_texts_keep_their_bits_in_company_and_in_any_order_of_words() -> None:
    words = f"{' '.join(f'pump{number} valve sensor' for number in range(3000))} tea".split()
    text = " ".join(words)
    alone = EMBEDDER.embed_documents([text])[0]
    assert alone is not None
    others = EMBEDDER.embed_documents(["tea", " ".join(sorted(words)), text, "!", "\n".join(words)])
    for place in (1, 2, 4):
        found = others[place]
        assert found is not None
        assert found.tobytes() == alone.tobytes()


def test_blocks_keep_the_order_and_report_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StaticEmbedder, "batch_chars", 20)
    texts = [f"note {number} about tea" for number in range(9)]
    seen: list[tuple[int, int, str]] = []
    found = EMBEDDER.embed_documents(texts, progress=lambda *step: seen.append(step))
    for text, one in zip(texts, found, strict=True):
        np.testing.assert_array_equal(one, vector(text))
    assert seen[-1] == (9, 9, "Embedding")
    assert [step[0] for step in seen] == sorted({step[0] for step in seen})
    assert len(seen) > 1


def test_cancel_stops_between_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StaticEmbedder, "batch_chars", 1)
    cancel = threading.Event()
    done: list[int] = []

    def after_two(count: int, _total: int, _label: str) -> None:
        done.append(count)
        if count == 2:
            cancel.set()

    with pytest.raises(Cancelled):
        EMBEDDER.embed_documents(["tea"] * 5, cancel, after_two)
    assert done == [1, 2]


def test_nothing_to_embed_needs_no_table(tmp_path: Path) -> None:
    assert StaticEmbedder(tmp_path / "missing.npz").embed_documents([]) == []


def test_a_missing_or_damaged_table_is_a_clear_error(tmp_path: Path) -> None:
    table = TABLE_FILE.read_bytes()
    cases: dict[str, bytes | None] = {
        "missing": None,
        "garbage": b"not a zip file",
        "cut": table[:100_000],
        "empty": b"",
    }
    for name, content in cases.items():
        path = tmp_path / f"{name}.npz"
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(ProviderError, match="Reinstall") as caught:
            StaticEmbedder(path).embed_query("tea")
        assert path.name in str(caught.value)


def test_another_table_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.npz"
    with np.load(TABLE_FILE, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    meta = json.loads(bytes(arrays["meta"])) | {"table_sha256": "0" * 64}
    np.savez(path, **(arrays | {"meta": np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)}))
    with pytest.raises(ProviderError, match="not the one"):
        StaticEmbedder(path).embed_query("tea")


def test_close_gives_the_table_back_and_a_later_call_loads_again(tmp_path: Path) -> None:
    path = tmp_path / "copy.npz"
    shutil.copy(TABLE_FILE, path)
    embedder = StaticEmbedder(path)
    first = embedder.embed_query("tea")
    embedder.close()
    embedder.close()
    np.testing.assert_array_equal(embedder.embed_query("tea"), first)


def test_threads_share_one_embedder() -> None:
    embedder = StaticEmbedder()
    texts = [f"word{number} tea kettle{number % 7}" for number in range(300)]
    expected = EMBEDDER.embed_documents(texts)
    results: list[list[Any]] = []
    threads = [
        threading.Thread(target=lambda: results.append(embedder.embed_documents(texts))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    for found in results:
        np.testing.assert_array_equal(np.array(found), np.array(expected))


def test_wordpiece_cleans_as_bert_does() -> None:
    ids = EMBEDDER._loaded().wordpiece.ids
    assert ids("Te\x00a\u200d\ufffd") == ids("tea")
    assert ids("a\u00a0b\u2028c\r\td") == ids("a b c d")
    assert ids("ΣΑΣ") == ids("σας".replace("ς", "σ"))
    assert ids("e\u0301") == ids("é") == ids("e")
    assert ids("x" * 100) != [100]
    assert ids("x" * 101) == [100]
    assert ids("“tea”") == [ids("“")[0], *ids("tea"), ids("”")[0]]


def test_remembered_words_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openclaw_mem_engine.providers.static.wordpiece._MAX_REMEMBERED", 3)
    wordpiece = WordPiece(["[UNK]", "a", "##b", "c"])
    assert [wordpiece.ids(text) for text in ("a ab abb c", "z", "ab\nc a")] == [
        [1, 1, 2, 1, 2, 2, 3],
        [0],
        [1, 2, 3, 1],
    ]
    lines = np.frombuffer(wordpiece.pack_lines(["a", "", "ab c z q r"]), dtype=np.uint16).tolist()
    assert lines == [1, LINE_END, LINE_END, 1, 2, 3, 0, 0, 0, LINE_END]
    assert len(wordpiece._words) <= 3


def test_naming_a_provider_imports_neither_numpy_nor_a_network_library() -> None:
    code = (
        "import sys\n"
        "import openclaw_mem_engine.providers.base, openclaw_mem_engine.redact\n"
        "from openclaw_mem_engine.providers.registry import EmbedderSpec, make_embedder\n"
        "assert make_embedder(EmbedderSpec('none')) is None\n"
        "make_embedder(EmbedderSpec('static')).key\n"
        "make_embedder(EmbedderSpec('openai', base_url='http://127.0.0.1:9/v1')).key\n"
        "heavy = {'numpy', 'openai', 'httpx', 'httpx2', 'ssl', 'asyncio', 'pydantic'}\n"
        "print(sorted(sys.modules.keys() & heavy))\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
