"""The contracts of ``Embedder`` and ``Chat``, the same for every provider; and the registry."""

from __future__ import annotations

import hashlib
import json
import logging
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from openclaw_mem_engine.errors import Cancelled, ConfigError, ProviderError
from openclaw_mem_engine.providers import registry
from openclaw_mem_engine.providers.base import (
    BadAnswer,
    Chat,
    Embedder,
    Message,
    RequestFailed,
    check_vectors,
)
from openclaw_mem_engine.providers.base_embedder import BaseEmbedder, DelegatingEmbedder
from openclaw_mem_engine.providers.registry import (
    EmbedderSpec,
    make_embedder,
    names,
    provider_named,
)
from openclaw_mem_engine.providers.remote.openai_client import OpenAIChat
from support import embed_server as faulty
from support.embed_server import CHAT_ANSWER, Fault, Server, running_server

KEY = "sk-plantedplantedplantedplanted1234"
TEXTS = ["the router password", "bread and butter", "", "the router password", "umbrella"]
#: How late a cancelled call may return on a busy machine, in seconds; 0.2 is promised on a quiet one.
SOON_S = 10.0


class Tiny(BaseEmbedder):
    """The smallest embedder: one method. Its vectors count letters."""

    id, model, key = "tiny", "letters", hashlib.sha256(b"tiny letters").hexdigest()
    dims = 26
    batch_texts = 2

    def embed_batch(self, texts: Sequence[str], purpose: str, cancel: Any) -> list[Any]:
        rows = [[text.count(chr(97 + number)) for number in range(26)] for text in texts]
        return check_vectors(rows, expected=len(texts), dims=26, provider="tiny")


class TinyProvider:
    """What one line of the registry points to."""

    def make(self, spec: EmbedderSpec, meter: Any) -> Embedder:
        return Tiny()

    def model_name(self, given: str) -> str:
        return given or Tiny.model

    def base_url(self, given: str) -> str:
        return ""


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._PROVIDERS, "tiny", TinyProvider())


@pytest.fixture
def server() -> Iterator[Server]:
    with running_server() as running:
        yield running


@pytest.fixture(params=["static", "openai", "ollama", "tiny", "delegating"])
def embedder(request: pytest.FixtureRequest, server: Server) -> Iterator[Embedder]:
    name = "static" if request.param == "delegating" else request.param
    base_url = server.base_url.removesuffix("/v1" if name == "ollama" else "")
    made = make_embedder(EmbedderSpec(name, base_url=base_url, api_key=KEY, concurrency=2))
    assert made is not None
    yield DelegatingEmbedder(made) if request.param == "delegating" else made
    made.close()


# ---- embedders


def test_it_says_what_it_is(embedder: Embedder) -> None:
    assert embedder.id in names()
    assert embedder.model == provider_named(embedder.id).model_name("")
    assert len(embedder.key) == 64
    assert embedder.languages
    assert embedder.host == "", "loopback and this process are this machine"
    assert embedder.why_not() is None
    assert embedder.max_input_bytes is None or embedder.max_input_bytes > 0


def test_vectors_are_of_length_one_in_order_and_of_one_size(embedder: Embedder) -> None:
    vectors = embedder.embed_documents(TEXTS)
    assert [vector is None for vector in vectors] == [False, False, True, False, False]
    found = [vector for vector in vectors if vector is not None]
    assert embedder.dims is not None
    for vector in found:
        assert (vector.dtype, vector.shape) == (np.float32, (embedder.dims,))
        assert float(np.linalg.norm(vector)) == pytest.approx(1, abs=1e-6)
    np.testing.assert_allclose(vectors[0], vectors[3])  # type: ignore[arg-type]
    assert not np.allclose(found[0], found[1])


def test_a_query_is_near_its_document_and_blank_text_is_nothing(embedder: Embedder) -> None:
    query = embedder.embed_query("router password")
    [same, other] = embedder.embed_documents(["router password", "umbrella"])
    assert query is not None and same is not None and other is not None
    assert float(query @ same) > float(query @ other)
    for blank in ("", "  ", "\n"):
        assert embedder.embed_query(blank) is None
    assert embedder.embed_documents([]) == []


def test_every_part_is_kept_and_progress_reaches_the_end(embedder: Embedder) -> None:
    kept: dict[int, Any] = {}
    steps: list[tuple[int, int]] = []
    threads: set[threading.Thread] = set()

    def keep(positions: Sequence[int], vectors: Sequence[Any]) -> None:
        threads.add(threading.current_thread())
        kept.update(zip(positions, vectors, strict=True))

    vectors = embedder.embed_documents(TEXTS, None, lambda done, all_, _: steps.append((done, all_)), keep)
    assert {0, 1, 3, 4} <= kept.keys() <= set(range(5))
    assert all(kept[number] is vectors[number] for number in kept)
    assert steps[-1] == (5, 5) and steps == sorted(steps)
    assert threads == {threading.current_thread()}


def test_a_set_token_stops_before_anything_is_embedded(embedder: Embedder) -> None:
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(Cancelled):
        embedder.embed_documents(TEXTS, cancel)


def test_several_threads_may_use_it(embedder: Embedder) -> None:
    alone = embedder.embed_documents(TEXTS)
    found: list[Any] = []
    threads = [
        threading.Thread(target=lambda: found.append(embedder.embed_documents(TEXTS))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(found) == 4
    for vectors in found:
        for one, other in zip(vectors, alone, strict=True):
            assert one is other if one is None or other is None else np.allclose(one, other)


def test_a_closed_embedder_opens_again(embedder: Embedder) -> None:
    before = embedder.embed_query("router")
    embedder.close()
    embedder.close()
    np.testing.assert_allclose(embedder.embed_query("router"), before)  # type: ignore[arg-type]
    assert embedder.take_notes() == ()


# ---- the registry


def test_a_provider_is_one_object_and_one_name() -> None:
    assert "tiny" in names()
    assert names()[-1] == "none"
    made = make_embedder(EmbedderSpec("tiny"))
    assert made is not None and made.id == "tiny"
    with pytest.raises(ConfigError, match=r"Known: static, .*tiny, none"):
        provider_named("huge")


def test_batches_of_the_base_end_at_texts_and_at_characters() -> None:
    class Sizes(Tiny):
        batch_texts, batch_chars = 3, 10

        def embed_batch(self, texts: Sequence[str], purpose: str, cancel: Any) -> list[Any]:
            sizes.append(len(texts))
            return [None] * len(texts)

    sizes: list[int] = []
    Sizes().embed_documents(["a", "b", "c", "d" * 10, "e", "f" * 9, "g"])
    assert sizes == [3, 1, 2, 1]


# ---- chat


def chat_for(server: Server, **options: Any) -> OpenAIChat:
    return OpenAIChat("m", **{"base_url": server.base_url, "api_key": KEY, **options})


ASKED = [Message("system", "Be brief."), Message("user", "What is in the notes?")]


def test_a_chat_answers_and_sends_what_was_asked(server: Server) -> None:
    chat: Chat = chat_for(server)
    assert (chat.id, chat.model, chat.host) == ("openai", "m", "")
    assert chat.complete(ASKED, max_tokens=50, temperature=0.0) == CHAT_ANSWER
    assert chat.complete(ASKED) == CHAT_ANSWER
    first, second = server.requests
    assert first.path == "/v1/chat/completions"
    assert first.headers["authorization"] == f"Bearer {KEY}"
    assert first.body == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "What is in the notes?"},
        ],
        "max_tokens": 50,
        "temperature": 0.0,
    }
    assert second.body.keys() == {"model", "messages"}
    chat.close()
    chat.close()
    assert chat.complete(ASKED) == CHAT_ANSWER


def test_a_chat_may_answer_nothing() -> None:
    nothing = json.dumps({"choices": [{"message": {"role": "assistant", "content": None}}]})
    with running_server(forever=Fault(body=nothing)) as server:
        assert chat_for(server).complete(ASKED) == ""


@pytest.mark.parametrize("body", ["<html>", "[]", "{}", '{"choices": []}', '{"choices": [{"message": 7}]}'])
def test_a_chat_that_answers_something_else_is_refused(body: str) -> None:
    with running_server(forever=Fault(body=body)) as server, pytest.raises(BadAnswer):
        chat_for(server).complete(ASKED)


def test_a_chat_is_sent_again_by_us_alone(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with running_server([faulty.server_error(503)]) as server:
        assert chat_for(server).complete(ASKED) == CHAT_ANSWER
        assert len(server.requests) == 2
    with running_server(forever=faulty.unauthorized()) as server:
        with pytest.raises(RequestFailed, match=r"openai chat failed: 401 .*Check the API key") as caught:
            chat_for(server).complete(ASKED)
        assert caught.value.status == 401
        assert len(server.requests) == 1
    assert KEY not in "".join(traceback.format_exception(caught.value)) + caplog.text


@pytest.mark.parametrize("fault", [faulty.hang(), faulty.drip()])
def test_a_chat_ends_at_once_when_cancelled_and_in_time_when_not(fault: Fault) -> None:
    with running_server() as server:
        chat_for(server).complete(ASKED)  # the package is imported by now
    with running_server(forever=fault) as server:
        cancel = threading.Event()
        timer = threading.Timer(0.3, cancel.set)
        timer.start()
        assert seconds_until(Cancelled, lambda: chat_for(server).complete(ASKED, cancel=cancel)) < SOON_S
        late = chat_for(server, timeout_s=0.3)
        assert seconds_until(ProviderError, lambda: late.complete(ASKED)) < SOON_S


def seconds_until(error: type[Exception], call: Callable[[], object]) -> float:
    start = time.monotonic()
    with pytest.raises(error):
        call()
    return time.monotonic() - start


def test_a_key_or_address_that_cannot_be_sent_is_refused() -> None:
    with pytest.raises(ConfigError):
        OpenAIChat("m", api_key="two words")
    with pytest.raises(ConfigError):
        OpenAIChat("m", base_url="ftp://host")
    assert KEY not in repr(OpenAIChat("m", api_key=KEY))
    assert OpenAIChat("m").host == "api.openai.com"


def test_the_package_is_imported_at_the_first_chat_only() -> None:
    code = (
        "import sys\n"
        "from openclaw_mem_engine.providers.remote.openai_client import OpenAIChat\n"
        "from openclaw_mem_engine.providers.batch import with_batches\n"
        "OpenAIChat('m', api_key='k').close()\n"
        "print(sorted(sys.modules.keys() & {'openai', 'pydantic', 'httpx2', 'ssl', 'asyncio'}))\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
