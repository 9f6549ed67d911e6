"""Remote embedding under load: parallel requests, caps, cancelling."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from openclaw_mem_engine.errors import Cancelled
from openclaw_mem_engine.providers.base import BadAnswer, RequestFailed, TextRefused, Usage
from openclaw_mem_engine.providers.remote.embedder import RemoteEmbedder
from openclaw_mem_engine.providers.remote.transport import Timing
from support import embed_server as faulty
from support.commands import until
from support.embed_server import Fault, Server, bag_of_words, running_server
from support.remote import remote_embedder

KEY = "pa-Planted0Planted1Planted2Planted3+/x"
#: How late a cancelled call may come back on a busy machine, while what it waits for takes half a minute or
#: longer; 0.2 s is what is promised on a quiet one.
SOON_S = 20.0
#: Far more than an event takes that a test waits for.
PATIENCE_S = 20.0


TIMING = Timing(random=lambda: 0.0)


def embedder_for(server: Server, provider: str = "openai", **options: Any) -> RemoteEmbedder:
    usual: dict[str, Any] = {
        "base_url": server.base_url,
        "api_key": KEY,
        "timing": TIMING,
    }
    return remote_embedder(provider, **(usual | options))


def texts_for(count: int) -> list[str]:
    return [f"text {number}" for number in range(count)]


def assert_embedded(texts: Sequence[str], vectors: Sequence[Any]) -> None:
    assert len(texts) == len(vectors)
    for text, vector in zip(texts, vectors, strict=True):
        np.testing.assert_allclose(vector, bag_of_words(text), atol=1e-6)


class _Watch:
    """How many requests the server holds at once; each is held until ``wanted`` were, and a moment."""

    def __init__(self, hold_s: float, wanted: int = 1) -> None:
        self.hold_s, self.wanted = hold_s, wanted
        self.now = self.most = 0
        self.lock, self.reached = threading.Lock(), threading.Event()

    def change(self, items: list[dict[str, Any]]) -> list[dict[str, Any]]:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
            if self.most >= self.wanted:
                self.reached.set()
        self.reached.wait(PATIENCE_S)
        time.sleep(self.hold_s)
        with self.lock:
            self.now -= 1
        return items


@contextmanager
def cancelled_after(seconds: float) -> Iterator[threading.Event]:
    cancel = threading.Event()
    timer = threading.Timer(seconds, cancel.set)
    timer.start()
    try:
        yield cancel
    finally:
        timer.cancel()


def closed_when_asked(server: Server, embedder: RemoteEmbedder) -> None:
    """Close the embedder as soon as the server has another request."""
    before = len(server.requests)

    def close() -> None:
        until(lambda: len(server.requests) > before)
        embedder.close()

    threading.Thread(target=close).start()


def seconds_until(error: type[Exception], call: Callable[..., object], *arguments: object) -> float:
    """How long a call takes to fail in this way."""
    start = time.monotonic()
    with pytest.raises(error):
        call(*arguments)
    return time.monotonic() - start


# ---- several requests in flight


def test_requests_run_side_by_side_up_to_the_limit() -> None:
    watch = _Watch(0.05, wanted=3)
    texts = texts_for(40)
    kept: dict[int, Any] = {}
    steps: list[tuple[int, int, str]] = []
    threads = set()

    def keep(places: Sequence[int], vectors: Sequence[Any]) -> None:
        threads.add(threading.current_thread())
        kept.update(zip(places, vectors, strict=True))

    with running_server(forever=Fault(change=watch.change)) as server:
        embedder = embedder_for(server, max_batch_items=4, concurrency=3)
        found = embedder.embed_documents(texts, None, lambda *step: steps.append(step), keep)
    assert watch.most == 3
    assert_embedded(texts, found)
    assert_embedded(texts, [kept[place] for place in range(40)])
    assert [step[0] for step in steps] == list(range(4, 41, 4))
    assert {step[1:] for step in steps} == {(40, "Embedding")}
    assert threads == {threading.main_thread()}


def test_a_failure_ends_the_rest_and_keeps_what_is_in_flight() -> None:
    """One thread sends the second batch, whose answer waits until the other, once it has handed over the
    refusal of a text alone, has sent the third. So the refusal is known before either is answered."""
    kept: list[int] = []
    both = threading.Barrier(2)

    def hold(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
        both.wait(PATIENCE_S)
        return items

    with running_server(poison="poison", forever=Fault(change=hold)) as server:
        embedder = embedder_for(server, max_batch_items=10, concurrency=2)
        with pytest.raises(TextRefused, match="this one I do not like") as caught:
            embedder.embed_documents(
                ["", *["poison"] * 10, *texts_for(200)], keep=lambda places, _: kept.extend(places)
            )
    assert caught.value.position == 1
    assert sorted(kept) == list(range(11, 31))
    assert sorted(map(len, server.inputs)) == [1, 2, 3, 5, 10, 10, 10]


def test_what_is_finished_is_kept_when_the_caller_fails() -> None:
    with running_server(forever=Fault(change=_Watch(0.02).change)) as server:
        embedder = embedder_for(server, max_batch_items=1)

        def keep(places: Sequence[int], vectors: Sequence[Any]) -> None:
            raise OSError("disk full")

        with pytest.raises(OSError, match="disk full"):
            embedder.embed_documents(texts_for(100), keep=keep)
        assert len(server.requests) < 20
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("openclaw-mem-embed")]


def test_one_429_makes_all_wait() -> None:
    """Time passes only while all four threads wait; nothing else is answered before the first one does."""
    now = 0.0
    sent: list[int] = []
    is_waiting = threading.Event()

    def pass_time() -> None:
        nonlocal now
        now += 0.1
        sent.append(len(server.requests))

    all_wait = threading.Barrier(4, pass_time)

    def sleep(_: float) -> None:
        is_waiting.set()
        all_wait.wait(PATIENCE_S)

    def hold(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
        assert is_waiting.wait(PATIENCE_S)
        return items

    timing = Timing(sleep, lambda: now, random=lambda: 0.0)
    with running_server([None, None, faulty.rate_limited("1")], forever=Fault(change=hold)) as server:
        embedder = embedder_for(server, max_batch_items=1, concurrency=4, timing=timing)
        assert_embedded(texts_for(40), embedder.embed_documents(texts_for(40)))
        assert now >= 1
        # What was already on its way comes through; everything else waits for the second to pass.
        assert len(set(sent)) == 1 and sent[0] <= 6
        assert len(server.requests) == 41


def test_no_request_is_sent_after_the_time_for_all_tries() -> None:
    now = 0.0

    def sleep(_: float) -> None:
        nonlocal now
        now += 60

    timing = Timing(sleep, lambda: now, random=lambda: 0.0)
    with running_server(forever=faulty.server_error(503)) as server:
        with pytest.raises(RequestFailed, match=r"failed: 503 from [^ ]+:"):
            embedder_for(server, timing=timing).embed_query("x")
        assert len(server.requests) == 1


def test_a_query_does_not_wait_for_a_long_ban() -> None:
    cancel = threading.Event()
    with running_server(forever=faulty.rate_limited("30")) as server:
        embedder = embedder_for(server)
        worker = threading.Thread(
            target=lambda: seconds_until(Cancelled, embedder.embed_documents, ["x"], cancel)
        )
        worker.start()
        until(lambda: embedder.transport._shut_until > 0)
        with pytest.raises(RequestFailed, match=r"not sent now .*asks to wait 30 s") as caught:
            embedder.embed_query("x")
        cancel.set()
        worker.join()
        assert len(server.requests) == 1
    assert caught.value.status == 429
    assert caught.value.retry_after_s is not None and 0 < caught.value.retry_after_s <= 30


# ---- caps


@pytest.mark.parametrize("cap", [1, 2, 7, 10, 16, 20, 64])
@pytest.mark.parametrize("concurrency", [1, 4])
def test_caps_of_inputs_are_found_and_kept(cap: int, concurrency: int) -> None:
    texts = texts_for(70)
    with running_server(max_inputs=cap) as server:
        embedder = embedder_for(server, concurrency=concurrency)
        assert_embedded(texts, embedder.embed_documents(texts))
        server.requests.clear()
        assert_embedded(texts, embedder.embed_documents(texts))
        assert max(len(inputs) for inputs in server.inputs) <= cap


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_cap_of_tokens_lowers_the_size_of_requests(concurrency: int) -> None:
    texts = [f"{number} " + "lorem " * 250 for number in range(40)]
    with running_server(max_bytes=4000) as server:
        embedder = embedder_for(server, concurrency=concurrency)
        assert_embedded(texts, embedder.embed_documents(texts))
        server.requests.clear()
        embedder.embed_documents(texts)
        assert {len(inputs) for inputs in server.inputs} <= {1, 2}


def test_one_bad_text_teaches_nothing_and_is_named_without_its_content() -> None:
    texts = ["", *texts_for(63), "poison secret diary", *texts_for(3)]
    with running_server(poison="poison") as server:
        embedder = embedder_for(server, concurrency=1)
        kept: list[int] = []
        with pytest.raises(TextRefused) as caught:
            embedder.embed_documents(texts, keep=lambda places, _: kept.extend(places))
        message = str(caught.value)
        assert "this one I do not like" in message
        assert "It was sent as the only text: 19 bytes." in message
        assert "diary" not in message
        assert (caught.value.status, caught.value.position) == (400, 64)
        assert kept == list(range(1, 64))
        server.requests.clear()
        server.poison = None
        embedder.embed_documents(texts)
        assert [len(inputs) for inputs in server.inputs] == [67]


@pytest.mark.parametrize("concurrency", [1, 4])
@pytest.mark.parametrize("cap", [None, 3])
def test_whoever_leaves_out_refused_texts_gets_all_others_and_pays_once(
    concurrency: int, cap: int | None
) -> None:
    texts = ["", *(f"text {number}{' poison' * (number in (5, 6, 77))}" for number in range(120))]
    found: dict[int, Any] = {}
    refused: list[int] = []
    with running_server(poison="poison", max_inputs=cap) as server:
        embedder = embedder_for(server, concurrency=concurrency, max_batch_items=10)
        while True:
            left = [place for place in range(len(texts)) if place not in found and place not in refused]

            def keep(places: Sequence[int], vectors: Sequence[Any], left: list[int] = left) -> None:
                found.update({left[place]: vector for place, vector in zip(places, vectors, strict=True)})

            try:
                embedder.embed_documents([texts[place] for place in left], keep=keep)
            except TextRefused as refusal:
                refused.append(left[refusal.position])
            else:
                break
        answered = [
            inputs
            for inputs in server.inputs
            if not any("poison" in text for text in inputs) and len(inputs) <= (cap or 10)
        ]
    assert sorted(refused) == [6, 7, 78]
    assert sorted(found) == [place for place in range(1, 121) if place not in refused]
    assert_embedded([texts[place] for place in found], list(found.values()))
    assert sum(len(inputs) for inputs in answered) == len(found), "no text was answered twice"


def test_a_failure_of_the_provider_is_worse_than_a_refused_text() -> None:
    with running_server([Fault(401, "no", hang_s=0.5), faulty.bad_request()]) as server:
        embedder = embedder_for(server, max_batch_items=1, concurrency=2)
        with pytest.raises(RequestFailed) as caught:
            embedder.embed_documents(texts_for(2))
    assert caught.value.status == 401


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_refused_query_is_about_its_text(status: int) -> None:
    with running_server([faulty.bad_request(status)]) as server:
        embedder = embedder_for(server)
        with pytest.raises(TextRefused, match=f"forced {status}") as caught:
            embedder.embed_query("x")
        assert (caught.value.status, caught.value.position) == (status, 0)
        assert embedder.embed_query("x") is not None
    with running_server(forever=faulty.server_error(501)) as server:
        with pytest.raises(RequestFailed) as other:
            embedder_for(server).embed_query("x")
        assert not isinstance(other.value, TextRefused)


# ---- cancelling


@pytest.mark.parametrize("fault", [faulty.hang(), faulty.drip(), faulty.rate_limited("30")])
@pytest.mark.parametrize("count", [1, 300])
def test_a_cancel_ends_documents_at_once(fault: Fault, count: int) -> None:
    with running_server(forever=fault) as server, cancelled_after(0.3) as cancel:
        embedder = embedder_for(server, max_batch_items=50)
        taken = seconds_until(Cancelled, embedder.embed_documents, texts_for(count), cancel)
        assert cancel.is_set()
    assert taken < SOON_S


@pytest.mark.parametrize("fault", [faulty.hang(), faulty.drip()])
def test_a_cancel_ends_a_query_at_once(fault: Fault) -> None:
    with running_server(forever=fault) as server, cancelled_after(0.3) as cancel:
        embedder = embedder_for(server)
        taken = seconds_until(Cancelled, embedder.embed_query, "x", cancel)
    assert taken < SOON_S


def test_closing_ends_what_is_in_flight() -> None:
    with running_server(forever=faulty.hang()) as server:
        embedder = embedder_for(server)
        closed_when_asked(server, embedder)
        taken = seconds_until(Cancelled, embedder.embed_query, "x")
        assert taken < SOON_S
        server.forever = None
        assert embedder.embed_query("x") is not None


def test_a_cancel_ends_connecting_too() -> None:
    # A listener whose queue is full: connecting hangs, as with a host behind a closed firewall.
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        waiting = []
        for _ in range(4):
            client = socket.socket()
            client.setblocking(False)
            client.connect_ex(("127.0.0.1", port))
            waiting.append(client)
        embedder = remote_embedder("openai", base_url=f"http://127.0.0.1:{port}/v1")
        with cancelled_after(0.3) as cancel:
            taken = seconds_until(Cancelled, embedder.embed_documents, ["x"], cancel)
        assert taken < SOON_S
        for client in waiting:
            client.close()


def test_a_server_that_never_shakes_hands_is_left_in_time() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(5)
        embedder = remote_embedder(
            "openai",
            base_url=f"https://127.0.0.1:{listener.getsockname()[1]}/v1",
            timeout_s=0.4,
            timing=Timing(clock=lambda: 0.0),  # else what was spent before the handshake counts
        )
        with pytest.raises(RequestFailed, match=r"no answer from 127.*waited 0\.4 s"):
            embedder.embed_query("x")


def test_a_huge_request_that_nobody_reads_is_left_in_time() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(5)
        embedder = remote_embedder("openai", base_url=f"http://127.0.0.1:{listener.getsockname()[1]}/v1")
        with cancelled_after(0.3) as cancel:
            huge = "word " * 2_000_000  # more than the kernel takes for a connection
            taken = seconds_until(Cancelled, embedder.embed_documents, [huge], cancel)
        assert taken < SOON_S


# ---- metering


def test_usage_is_estimated_where_nobody_counts() -> None:
    used: list[Usage] = []
    with running_server([faulty.rate_limited("0"), faulty.garbage()]) as server:
        embedder = embedder_for(server, meter=used.append)
        with pytest.raises(BadAnswer):
            embedder.embed_query("x")
        assert used == []
        embedder.embed_documents(["eight by", "温室"])
        embedder.embed_query("a")
    assert used == [
        Usage("openai", "text-embedding-3-small", 1, 2, 4, estimated=True),
        Usage("openai", "text-embedding-3-small", 1, 1, 1, estimated=True),
    ]
