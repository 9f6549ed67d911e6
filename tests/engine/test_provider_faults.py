"""Injected faults: the real layer's errors in its words, and nothing sent."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pytest

from openclaw_mem_engine.cancellation import CancelToken
from openclaw_mem_engine.errors import Cancelled, ProviderError, UsageError
from openclaw_mem_engine.model import Note, Progress
from openclaw_mem_engine.providers.base import BadAnswer, RequestFailed
from openclaw_mem_engine.providers.faults import (
    FAULTS,
    ON_PURPOSE,
    PROVIDER_FAULTS,
    QMD_FAULTS,
    STORE_FAULTS,
    FaultyEmbedder,
    check_faults,
)
from openclaw_mem_engine.providers.static import StaticEmbedder

if TYPE_CHECKING:
    from openclaw_mem_engine.providers.base import Keep, Vector

ERRORS = ["embeddings-401", "embeddings-429", "embeddings-timeout", "embeddings-garbage"]


class Remote:
    """A provider at OpenAI that must not be asked."""

    id, model, key, languages = "openai", "text-embedding-3-small", "k" * 64, "any"
    floor: float | None = None
    dims: int | None = None
    lines = None
    no_vector = "it is a test"
    awaited = "a test", "", ""
    simulated = ""
    host = "api.openai.com"
    max_input_bytes: int | None = 8192

    def why_not(self) -> str | None:
        return None

    def embed_query(self, text: str, cancel: CancelToken | None = None) -> Vector | None:
        raise AssertionError("sent")

    def embed_documents(
        self,
        texts: Sequence[str],
        cancel: CancelToken | None = None,
        progress: Progress | None = None,
        keep: Keep | None = None,
    ) -> list[Vector | None]:
        raise AssertionError("sent")

    def take_notes(self) -> tuple[Note, ...]:
        return ()

    def close(self) -> None:
        pass


def test_the_names_are_in_a_fixed_order() -> None:
    assert list(FAULTS) == [
        "embeddings-401",
        "embeddings-429",
        "embeddings-timeout",
        "embeddings-garbage",
        "zero-vector",
        "wrong-dimension",
        "no-sqlite-vec",
        "no-fts5",
        "qmd-missing",
        "qmd-timeout",
        "qmd-json",
        "qmd-exit",
    ]
    assert set(FAULTS) == PROVIDER_FAULTS | STORE_FAULTS | QMD_FAULTS
    assert not PROVIDER_FAULTS & (STORE_FAULTS | QMD_FAULTS)
    assert all(text and "\n" not in text and not text.endswith(".") for text in FAULTS.values())


def test_names_are_checked() -> None:
    assert check_faults(["no-fts5", "no-fts5", "zero-vector"]) == {"no-fts5", "zero-vector"}
    assert check_faults([]) == frozenset()
    with pytest.raises(UsageError, match=r"embeddings-402.*embeddings-401.*no-fts5"):
        check_faults(["no-fts5", "embeddings-402"])


@pytest.mark.parametrize(
    ("fault", "status", "message"),
    [
        (
            "embeddings-401",
            401,
            "openai embeddings failed: 401 from api.openai.com: Incorrect API key provided. Check the ",
        ),
        (
            "embeddings-429",
            429,
            "openai embeddings failed: 429 from api.openai.com after 4 tries: Rate limit reached. Wait and ",
        ),
        (
            "embeddings-timeout",
            None,
            "openai embeddings failed: no answer from api.openai.com: waited 60 s. Check the ",
        ),
    ],
)
def test_a_refusal_in_the_words_of_the_real_one(fault: str, status: int | None, message: str) -> None:
    embedder = FaultyEmbedder(Remote(), {fault})
    started = time.monotonic()
    with pytest.raises(RequestFailed) as caught:
        embedder.embed_query("router")
    assert time.monotonic() - started < 30, "a timeout is reported, not waited for"
    assert str(caught.value).startswith(message)
    assert str(caught.value).endswith(ON_PURPOSE)
    assert caught.value.status == status


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("embeddings-401", "static embeddings failed: 401 Incorrect API key provided"),
        ("embeddings-429", "static embeddings failed: 429 Rate limit reached"),
        ("embeddings-timeout", "static embeddings failed: no answer, waited 60 s"),
    ],
)
def test_a_provider_without_a_host(fault: str, message: str) -> None:
    with pytest.raises(RequestFailed) as caught:
        FaultyEmbedder(StaticEmbedder(), {fault}).embed_documents(["a"])
    assert str(caught.value) == f"{message} {ON_PURPOSE}"


@pytest.mark.parametrize(
    ("inner", "label"),
    [(Remote(), "openai embeddings at api.openai.com"), (StaticEmbedder(), "static embeddings")],
)
def test_garbage(inner: Remote | StaticEmbedder, label: str) -> None:
    with pytest.raises(BadAnswer) as caught:
        FaultyEmbedder(inner, {"embeddings-garbage"}).embed_query("router")
    assert str(caught.value).startswith(f"{label} sent something that is not JSON (")
    assert str(caught.value).endswith(ON_PURPOSE)


@pytest.mark.parametrize("fault", ERRORS)
def test_documents_fail_alike_and_blank_text_is_never_sent(fault: str) -> None:
    embedder = FaultyEmbedder(Remote(), {fault})
    with pytest.raises(ProviderError):
        embedder.embed_documents(["a", "b"])
    assert embedder.embed_documents([]) == []
    assert embedder.embed_documents(["", " "]) == [None, None]
    assert embedder.embed_query(" ") is None


def test_a_zero_vector_is_no_embedding() -> None:
    for inner in (Remote(), StaticEmbedder()):
        embedder = FaultyEmbedder(inner, {"zero-vector"})
        with pytest.raises(BadAnswer, match="returns a vector of zeros, which cannot be"):
            embedder.embed_query("router")
        assert embedder.embed_query(" ") is None
        assert embedder.embed_documents(["a", "b"]) == [None, None]


def test_a_wrong_dimension_is_a_unit_vector_of_another_length() -> None:
    for inner in (Remote(), StaticEmbedder()):
        embedder = FaultyEmbedder(inner, {"wrong-dimension"})
        kept: list[tuple[list[int], int]] = []

        def keep(
            places: Sequence[int], vectors: Sequence[Vector | None], kept: list[tuple[list[int], int]] = kept
        ) -> None:
            kept.append((list(places), len(vectors)))

        made = embedder.embed_documents(["a", " ", "b"], keep=keep)
        assert kept == [([0, 1, 2], 3)]
        assert made[1] is None
        for vector in (made[0], made[2], embedder.embed_query("router")):
            assert vector is not None
            assert len(vector) != inner.dims
            assert np.linalg.norm(vector) == pytest.approx(1)


def test_of_several_faults_the_first_in_the_list_shows() -> None:
    with pytest.raises(RequestFailed, match="429"):
        FaultyEmbedder(Remote(), ["zero-vector", "no-fts5", "embeddings-429"]).embed_query("router")


def test_it_stops_when_asked() -> None:
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(Cancelled):
        FaultyEmbedder(Remote(), {"embeddings-401"}).embed_documents(["a"], cancel)
