"""Embeddings over HTTP against a real loopback server: request shapes, packing, faults, retries, secrets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openclaw_mem_engine.errors import Cancelled, ConfigError, ProviderError
from openclaw_mem_engine.providers.base import BadAnswer, RequestFailed
from openclaw_mem_engine.providers.remote.embedder import RemoteEmbedder
from openclaw_mem_engine.providers.remote.limits import MAX_BATCH_BYTES, batch_end
from openclaw_mem_engine.providers.remote.transport import RetryPolicy, Timing, retry_after_s
from openclaw_mem_engine.providers.remote.wires import wire_of
from support import embed_server as faulty
from support.commands import until
from support.embed_server import Fault, Server, bag_of_words, running_server
from support.remote import remote_embedder

DATA = Path(__file__).parents[1] / "data" / "openclaw"
KEY = "sk-plantedplantedplantedplanted1234"


class Clock:
    """Time that passes only when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept.append(seconds)

    @property
    def total(self) -> float:
        return round(sum(self.slept), 6)


def timing(clock: Clock, **options: Any) -> Timing:
    return Timing(**{"random": lambda: 0.0, "sleep": clock.sleep, "clock": clock, "now": clock, **options})


def embedder_for(server: Server, clock: Clock | None = None, **options: Any) -> RemoteEmbedder:
    clock = clock or Clock()
    usual: dict[str, Any] = {
        "base_url": server.base_url,
        "api_key": KEY,
        "model": "hash-bow-256",
        "timing": timing(clock),
        "concurrency": 1,
    }
    return remote_embedder("openai", **(usual | options))


def golden(name: str) -> Any:
    return json.loads((DATA / name).read_text(encoding="utf-8"))


@pytest.mark.goldens
def test_packing_is_that_recorded() -> None:
    requests = golden("embed_packing.json")["requests"]
    lorem = sorted(
        (request for request in requests if "lorem" in request["first"]),
        key=lambda request: int(request["first"].split()[0]),
    )
    others = [request for request in requests if "lorem" not in request["first"]]
    for per_file in (lorem, *([request] for request in others)):
        sizes = [size for request in per_file for size in request["bytes"]]
        packed, start = [], 0
        while start < len(sizes):
            end = batch_end(sizes, start, MAX_BATCH_BYTES, 100)
            packed.append(sizes[start:end])
            start = end
        assert packed == [request["bytes"] for request in per_file]


def test_a_larger_text_travels_alone_and_item_caps_hold() -> None:
    assert batch_end([10, 9000, 10], 0, 8000, 100) == 1
    assert batch_end([10, 9000, 10], 1, 8000, 100) == 2
    assert batch_end([4000, 4000, 1], 0, 8000, 100) == 2
    assert batch_end([1] * 10, 2, 8000, 3) == 5


@pytest.mark.goldens
def test_provider_key_is_that_recorded() -> None:
    # providerKey.example_for_port_1234 of the recorded index.
    expected = "dba08af76d48328ded153b1a27f0d6b7cdf52251fbe5c2ac3b718e5507313350"
    space_key = wire_of("openai").space_key
    assert space_key("http://127.0.0.1:1234/v1", "hash-bow-256", {}) == expected
    embedder = remote_embedder(
        "openai",
        base_url="http://127.0.0.1:1234/v1/",
        api_key="any",
        model="openai/hash-bow-256",
        headers={"AUTHORIZATION": "Bearer x"},
    )
    assert embedder.key == expected
    assert space_key("http://127.0.0.1:1234/v1", "hash-bow-256", {"X-Extra": "e"}) != expected


def test_vectors_are_unit_float32_in_order_with_gaps() -> None:
    texts = ["pump restarts", "", "温室 sensors", "  \n", "!!!", "pump"]
    progress: list[tuple[int, int, str]] = []
    with running_server() as server:
        embedder = embedder_for(server, max_batch_items=2)
        assert embedder.dims is None
        found = embedder.embed_documents(texts, progress=lambda *step: progress.append(step))
        assert embedder.dims == 256
    assert server.inputs == [["pump restarts", "温室 sensors"], ["!!!", "pump"]]
    assert [vector is None for vector in found] == [False, True, False, True, True, False]
    for text, vector in zip(texts, found, strict=True):
        if vector is not None:
            assert vector.dtype == np.float32
            np.testing.assert_allclose(vector, bag_of_words(text), atol=1e-6)
    assert progress == [(4, 6, "Embedding"), (6, 6, "Embedding")]


def test_lone_surrogates_are_sent_as_replacement_characters() -> None:
    with running_server() as server:
        assert embedder_for(server).embed_query("pump \ud83d x") is not None
    assert server.inputs == [["pump \ufffd x"]]


@pytest.mark.parametrize(
    "fault",
    [
        faulty.shuffled(),
        faulty.without_index(),
        faulty.renumbered(lambda index: index + 1),
        faulty.renumbered(str),
        faulty.renumbered(lambda index: f"{index + 1}.0"),
    ],
)
def test_embeddings_follow_the_index_of_each(fault: Fault) -> None:
    texts = ["alpha", "beta", "gamma"]
    with running_server([fault]) as server:
        found = embedder_for(server).embed_documents(texts)
    for text, vector in zip(texts, found, strict=True):
        assert vector is not None
        np.testing.assert_allclose(vector, bag_of_words(text), atol=1e-6)


@pytest.mark.parametrize(
    "name", [lambda _: 0, lambda i: i + 2, lambda i: -i, lambda i: "x" if i else 0, bool]
)
def test_a_vector_of_an_unknown_text_is_refused(name: Callable[[int], object]) -> None:
    with (
        running_server([faulty.renumbered(name)]) as server,
        pytest.raises(BadAnswer, match="which belongs to which text is unknown"),
    ):
        embedder_for(server).embed_documents(["alpha", "beta", "gamma"])


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (faulty.garbage(), "not JSON"),
        (Fault(body="<!doctype html><title>Sign in</title>"), "not JSON"),
        (Fault(body=""), "not JSON"),
        (Fault(body="\x00\xff"), "not JSON"),
        (Fault(body="9" * 9999), "not JSON"),
        (Fault(body="[" * 100_000), "not JSON"),
        (faulty.other_json(), "without a list"),
        (faulty.short_list(), "1 embedding for 2 texts"),
        (faulty.wrong_dims(), "8 dimensions instead of 256"),
        (faulty.wrong_dims(0), "is empty"),
        (faulty.not_a_number(), "not finite"),
        (faulty.with_last_vector(["1.0"] * 256), "not a list of numbers"),
        (faulty.with_last_vector([[1.0], [1.0, 2.0]]), "not a list of numbers"),
        (faulty.with_last_vector(None), "not a list of numbers"),
        (faulty.with_last_vector([None] * 256), "not a list of numbers"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_answers_that_are_no_vectors_are_refused(fault: Fault, said: str) -> None:
    with running_server([fault]) as server:
        with pytest.raises(BadAnswer, match=said) as caught:
            embedder_for(server).embed_documents(["one", "two"])
        assert len(server.requests) == 1
    message = str(caught.value)
    assert "openai" in message
    assert "127.0.0.1" in message


def test_extreme_numbers_still_make_a_unit_vector() -> None:
    with running_server([faulty.with_last_vector([1e300, -1e300] * 128)]) as server:
        vector = embedder_for(server).embed_query("x")
    assert vector is not None
    assert float(np.linalg.norm(vector)) == pytest.approx(1, abs=1e-6)


def test_a_zero_vector_is_no_embedding() -> None:
    with running_server([None, faulty.zero_vector()]) as server:
        embedder = embedder_for(server)
        assert embedder.embed_query("one") is not None
        assert embedder.embed_query("two") is None


def test_the_model_behind_a_name_may_change_its_length() -> None:
    """Whether a length is that of an index, the index tells."""
    with running_server([None, faulty.wrong_dims(8)]) as server:
        embedder = embedder_for(server)
        for dims in (256, 8):
            vector = embedder.embed_query("one")
            assert vector is not None and (len(vector), embedder.dims) == (dims, dims)


@pytest.mark.goldens
def test_retries_are_those_recorded() -> None:
    recorded = golden("embed_retry.json")
    plans = {
        "400": ([], faulty.bad_request(400)),
        "429 then 503 then ok": ([faulty.rate_limited(), faulty.server_error(503)], None),
        "429 for ever": ([], faulty.rate_limited()),
    }
    for name, (faults, forever) in plans.items():
        clock = Clock()
        with running_server(faults, forever=forever) as server:
            embedder = embedder_for(server, clock, max_retries=3)
            if recorded[name]["error"]:
                with pytest.raises(RequestFailed, match=f"openai embeddings failed: {name[:3]} from 127"):
                    embedder.embed_documents(["a text"])
            else:
                assert embedder.embed_documents(["a text"])[0] is not None
            assert len(server.requests) == recorded[name]["requests"]
        assert clock.total == {"400": 0, "429 then 503 then ok": 1.5, "429 for ever": 3.5}[name]


def test_retry_after_is_honoured_and_jitter_is_added() -> None:
    clock = Clock()
    with running_server([faulty.rate_limited("7"), faulty.server_error(500)]) as server:
        assert (
            embedder_for(server, clock, timing=timing(clock, random=lambda: 0.5)).embed_documents(["x"])[0]
            is not None
        )
        assert len(server.requests) == 3
    assert clock.total == pytest.approx(7 + 1.0 * 1.1)
    assert max(clock.slept) <= 0.1


def test_a_server_that_asks_for_too_much_patience_is_not_waited_for() -> None:
    clock = Clock()
    with running_server(forever=faulty.rate_limited("300")) as server:
        with pytest.raises(RequestFailed, match="asks to wait 300 s") as caught:
            embedder_for(server, clock).embed_documents(["x"])
        assert len(server.requests) == 1
    assert (caught.value.status, caught.value.retry_after_s) == (429, 300)
    day = "86400 s; the next try is after 600 s at most"
    limited = running_server(forever=faulty.rate_limited("86400"))
    with limited as server, pytest.raises(RequestFailed, match=day):
        embedder_for(server, clock).embed_documents(["x"])
    # A query waits less: keyword search can answer meanwhile.
    with running_server(forever=faulty.rate_limited("20")) as server, pytest.raises(RequestFailed):
        embedder_for(server, clock).embed_query("x")
    assert clock.total == 0


def test_a_time_to_wait_that_cannot_be_read_is_one_retry() -> None:
    clock = Clock()
    with running_server(forever=faulty.rate_limited("soon, please")) as server:
        with pytest.raises(RequestFailed, match="after 2 tries"):
            embedder_for(server, clock).embed_documents(["x"])
        assert len(server.requests) == 2
    assert clock.total == 0.5


def test_retry_after_forms() -> None:
    assert retry_after_s({"retry-after": "3"}, now=0) == 3
    assert retry_after_s({"retry-after-ms": "250", "retry-after": "3"}, now=0) == 0.25
    assert retry_after_s({"retry-after": "Thu, 01 Jan 1970 00:01:40 GMT"}, now=40) == 60
    assert retry_after_s({"retry-after": "Thu, 01 Jan 1970 00:01:40 GMT"}, now=400) == 0
    for useless in (
        "",
        "soon",
        "-1",
        "nan",
        "inf",
        "1e999",
        "1e99",
        "9" * 5000,
        "Fri, 31 Dec 9999 23:59:59 GMT",
    ):
        assert retry_after_s({"retry-after": useless}, now=0) is None
    policy = RetryPolicy(max_retries=9)
    assert [policy.wait_s(retry, None, lambda: 0.0) for retry in (1, 2, 5, 9, 10)] == [0.5, 1, 8, 8, None]


@pytest.mark.parametrize(
    ("fault", "advice"),
    [
        (faulty.unauthorized(), "Check the API key"),
        (Fault(403, "no"), "Check the API key"),
        (Fault(404, "{}"), "model name"),
        (faulty.out_of_quota(), "quota"),
        (Fault(501, "no"), "Try again later"),
    ],
)
def test_hopeless_refusals_are_not_retried(fault: Fault, advice: str) -> None:
    clock = Clock()
    with running_server(forever=fault) as server:
        with pytest.raises(RequestFailed, match=advice) as caught:
            embedder_for(server, clock).embed_documents(["x", "y"])
        assert len(server.requests) == 1
        assert server.base_url.split("/")[2] in str(caught.value)
    assert caught.value.status == fault.status
    assert clock.total == 0


def test_a_server_that_hangs_is_tried_once() -> None:
    """Another try would double a wait of two minutes."""
    with running_server(forever=faulty.hang()) as server:
        with pytest.raises(RequestFailed, match=r"no answer from [^ ]*: waited 0.2 s"):
            embedder_for(server, batch_timeout_s=0.2).embed_documents(["x"])
        clock = Clock()
        with pytest.raises(RequestFailed, match="no answer") as caught:
            embedder_for(server, clock, timeout_s=0.2).embed_query("x")
        assert caught.value.status is None
        assert clock.total == 0
        until(lambda: len(server.requests) >= 2)  # a server may take what nobody waits for any more


def test_a_server_that_is_not_there() -> None:
    with running_server() as server:
        base_url = server.base_url
    with pytest.raises(RequestFailed, match=r"no answer from 127\.0\.0\.1") as caught:
        embedder_for(server, base_url=base_url).embed_documents(["x"])
    assert "Check the base URL" in str(caught.value)


def test_redirects_are_not_followed() -> None:
    with (
        running_server() as other,
        running_server(forever=faulty.redirect(f"{other.base_url}/embeddings")) as server,
    ):
        with pytest.raises(RequestFailed, match="Redirects are not followed"):
            embedder_for(server).embed_query("private note")
        assert other.requests == []


def test_cancel_between_requests() -> None:
    cancel = threading.Event()
    with running_server() as server:
        with pytest.raises(Cancelled):
            embedder_for(server, max_batch_items=1).embed_documents(
                ["a", "b", "c"], cancel, lambda *step: cancel.set()
            )
        assert len(server.requests) == 1


def test_no_key_sends_no_authorization_and_nothing_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, "from-environment")
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with running_server() as server:
        assert embedder_for(server, api_key="").embed_query("x") is not None
        embedder = embedder_for(server, api_key="", headers={"authorization": "Basic abc", "X-Team": "t"})
        assert embedder.embed_query("x") is not None
    first, second = (request.headers for request in server.requests)
    assert "authorization" not in first
    assert "from-environment" not in json.dumps([first, second])
    assert second["authorization"] == "Basic abc"
    assert second["x-team"] == "t"


@pytest.mark.parametrize(
    "fault",
    [
        faulty.unauthorized(),
        Fault(500, f"\x1b[31mtrace: key={KEY}\nheader X-Gateway gateway-secret-9876"),
        Fault(400, json.dumps({"error": f"bad input for {KEY}"})),
        Fault(429, "x" * 290 + KEY * 30, (("Retry-After", "999"),)),
        Fault(200, KEY),
        faulty.hang(),
    ],
)
def test_no_secret_in_any_message(fault: Fault) -> None:
    with running_server(forever=fault) as server:
        base_url = server.base_url.replace("http://", "http://user:pass-in-url-123@")
        embedder = embedder_for(
            server, base_url=base_url, headers={"X-Gateway": "gateway-secret-9876"}, batch_timeout_s=0.1
        )
        with pytest.raises(ProviderError) as caught:
            embedder.embed_documents(["x"])
    shown = "".join(traceback.format_exception(caught.value)) + str(caught.value) + repr(embedder)
    for secret in (KEY, KEY[:12], "gateway-secret", "pass-in-url", "\x1b"):
        assert secret not in shown
    assert len(str(caught.value)) < 700


@pytest.mark.parametrize(
    "base_url",
    ["api.openai.com/v1", "ftp://host/v1", "http://", "http://h:port/v1", "http://h/a b", "http://a..b"],
)
def test_base_urls_that_cannot_work_are_refused(base_url: str) -> None:
    with pytest.raises(ConfigError, match="base URL"):
        remote_embedder("openai", base_url=base_url, api_key=KEY)


@pytest.mark.parametrize(
    ("key", "headers"),
    [
        ("sk-two\nlines12345", {}),
        ("sk-“quoted”", {}),
        (KEY, {"X-A": "v\r\nX-B: 1"}),
        (KEY, {"bad name": "v"}),
    ],
)
def test_keys_and_headers_that_cannot_be_sent_are_refused_unquoted(key: str, headers: dict[str, str]) -> None:
    with pytest.raises(ConfigError) as caught:
        remote_embedder("openai", base_url="http://127.0.0.1:9/v1", api_key=key, headers=headers)
    assert key not in str(caught.value)
    assert "X-B" not in str(caught.value)


def test_libraries_are_imported_at_the_first_request_only() -> None:
    code = (
        "import sys\n"
        "from openclaw_mem_engine.providers.registry import EmbedderSpec, make_embedder\n"
        "for name in ('openai', 'gemini', 'voyage', 'mistral', 'ollama'):\n"
        "    make_embedder(EmbedderSpec(name, api_key='k')).embed_documents([' '])\n"
        "print(sorted(sys.modules.keys() & {'numpy', 'httpx2', 'httpcore2', 'ssl'}))\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ}
    )
    assert run.stdout.strip() == "[]"


def test_the_server_makes_the_described_vectors() -> None:
    vector = bag_of_words("Pump pump 温")
    assert sorted(round(abs(value), 6) for value in vector if value) == [0.447214, 0.894427]
    assert bag_of_words("!?") == [0.0] * 256
    assert wire_of("openai").rows({"data": []}, 0) == []
