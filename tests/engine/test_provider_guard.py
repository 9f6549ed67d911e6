"""A failing provider is left alone and taken back by itself: backoff, hints, one probe, clocks, threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

from openclaw_mem_engine.cancellation import CancelToken
from openclaw_mem_engine.errors import ProviderError
from openclaw_mem_engine.model import Note, Progress
from openclaw_mem_engine.providers.base import (
    BadAnswer,
    Embedder,
    RequestFailed,
    Service,
    Unavailable,
)
from openclaw_mem_engine.providers.base_embedder import DelegatingEmbedder
from openclaw_mem_engine.providers.batch import BatchEmbedder
from openclaw_mem_engine.providers.circuit_breaker import GuardedEmbedder
from openclaw_mem_engine.providers.faults import FaultyEmbedder
from openclaw_mem_engine.providers.records import Health, ProviderRecords
from openclaw_mem_engine.providers.static import StaticEmbedder
from support.providers import Clock

if TYPE_CHECKING:
    from openclaw_mem_engine.providers.base import Keep, Vector

START = 1_773_140_400.0


class Provider:
    """An embedder whose state a test sets: ``error`` is raised when there is one."""

    id, model, key, languages = "openai", "text-embedding-3-small", "k" * 64, "any"
    floor: float | None = None
    dims: int | None = 3
    lines = None
    no_vector = "it is a test"
    awaited = "a test", "", ""
    simulated = ""
    host = "api.openai.com"
    max_input_bytes: int | None = 8192

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.asked = 0
        self.closed = 0
        self.meanwhile: Callable[[], object] = lambda: None
        self._lock = threading.Lock()

    def why_not(self) -> str | None:
        return "no key"

    def embed_query(self, text: str, cancel: CancelToken | None = None) -> Vector | None:
        with self._lock:
            self.asked += 1
        self.meanwhile()
        if self.error is not None:
            raise self.error
        return np.array([1, 0, 0], dtype=np.float32) if text.strip() else None

    def embed_documents(
        self,
        texts: Sequence[str],
        cancel: CancelToken | None = None,
        progress: Progress | None = None,
        keep: Keep | None = None,
    ) -> list[Vector | None]:
        vectors = [self.embed_query(text) for text in texts]
        if keep is not None:
            keep(range(len(texts)), vectors)
        if progress is not None:
            progress(len(texts), len(texts), "Embedding")
        return vectors

    def take_notes(self) -> tuple[Note, ...]:
        return (Note("cut", "A text was cut."),)

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def clock() -> Clock:
    return Clock(START)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "providers.sqlite"


@pytest.fixture
def records(path: Path, clock: Clock) -> Iterator[ProviderRecords]:
    made = ProviderRecords(path, clock)
    yield made
    made.close()


@pytest.fixture
def provider() -> Provider:
    return Provider()


def guarded(
    provider: Embedder, records: ProviderRecords, *, secret: str = "", luck: float = 0.0
) -> GuardedEmbedder:
    return GuardedEmbedder(provider, records, secret=secret, random=lambda: luck)


@pytest.fixture
def guard(provider: Provider, records: ProviderRecords) -> GuardedEmbedder:
    return guarded(provider, records)


def refused(status: int = 503, retry_after_s: float | None = None, said: str = "overloaded") -> RequestFailed:
    error = RequestFailed(
        f"openai embeddings failed: {status} from api.openai.com: {said}. Try again later.", status=status
    )
    error.retry_after_s = retry_after_s  # type: ignore[attr-defined,unused-ignore]
    return error


def unavailable(guard: GuardedEmbedder, text: str = "router") -> Unavailable:
    with pytest.raises(Unavailable) as caught:
        guard.embed_query(text)
    return caught.value


def next_retry(error: Unavailable) -> float:
    assert error.next_retry is not None
    return error.next_retry


def test_it_is_the_embedder_that_it_guards(provider: Provider, guard: GuardedEmbedder) -> None:
    for name in ("id", "model", "key", "dims", "languages", "lines", "host", "max_input_bytes"):
        assert getattr(guard, name) == getattr(provider, name)
    assert guard.why_not() == "no key"
    heard: list[object] = []
    vectors = guard.embed_documents(
        ["a", " "], None, lambda *event: heard.append(event), lambda *event: heard.append(event)
    )
    assert [vector is None for vector in vectors] == [False, True]
    assert len(heard) == 2
    assert guard.take_notes() == provider.take_notes()
    guard.close()
    assert provider.closed == 1


def test_only_a_model_on_this_machine_is_loaded_early(
    provider: Provider, guard: GuardedEmbedder, records: ProviderRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard.warm_up()
    assert provider.asked == 0, "a server would be sent something"
    monkeypatch.setattr(guard, "id", "static")
    guard.warm_up()
    assert provider.asked == 1 and records.usage(1) == []


def test_what_is_wrapped_forwards_every_member() -> None:
    declared = {**vars(Service), **vars(Embedder)}
    members = {name for name in declared if not name.startswith("_")}

    class Recorder:
        """Every member is its own name, or returns it."""

        def __getattr__(self, name: str) -> Any:
            is_property = isinstance(declared[name], property)
            return name if is_property else lambda *given: (name, *given)

    delegating: Any = DelegatingEmbedder(cast("Embedder", Recorder()))
    assert members <= vars(DelegatingEmbedder).keys() | vars(delegating).keys()
    for name in members:
        if isinstance(declared[name], property):
            assert getattr(delegating, name) == name
    assert delegating.why_not() == ("why_not",)
    assert delegating.embed_query(1, 2) == ("embed_query", 1, 2)
    assert delegating.embed_documents(1, 2, 3, 4) == ("embed_documents", 1, 2, 3, 4)
    assert delegating.take_notes() == ("take_notes",)
    assert delegating.close() is None
    for kind in (GuardedEmbedder, FaultyEmbedder, BatchEmbedder):
        assert issubclass(kind, DelegatingEmbedder)


def test_a_failure_is_remembered_and_nothing_is_sent(
    provider: Provider, guard: GuardedEmbedder, clock: Clock
) -> None:
    provider.error = refused()
    first = unavailable(guard)
    assert first.__cause__ is provider.error
    assert str(first) == str(provider.error)
    assert (first.since, first.next_retry) == (START, START + 5)
    clock.now += 4.9
    again = unavailable(guard)
    assert (str(again), again.since, again.next_retry) == (str(first), START, START + 5)
    assert provider.asked == 1


def test_another_run_knows_it_too(
    provider: Provider, guard: GuardedEmbedder, path: Path, clock: Clock
) -> None:
    provider.error = refused()
    unavailable(guard)
    records = ProviderRecords(path, clock)
    assert unavailable(guarded(provider, records)).since == START
    assert provider.asked == 1
    records.close()


def test_waits_double_up_to_five_minutes(provider: Provider, guard: GuardedEmbedder, clock: Clock) -> None:
    provider.error = refused()
    waits = []
    for _ in range(9):
        error = unavailable(guard)
        assert error.since == START
        waits.append(next_retry(error) - clock.now)
        clock.now = next_retry(error)
    assert waits == [5, 10, 20, 40, 80, 160, 300, 300, 300]
    assert guard.health.failures == 9


def test_many_failures_do_not_overflow(
    provider: Provider, records: ProviderRecords, guard: GuardedEmbedder, clock: Clock
) -> None:
    records.save_health(provider.key, Health(START, "down", 10**9, START))
    provider.error = refused()
    assert next_retry(unavailable(guard)) == START + 300


def test_jitter_spreads_the_retries(provider: Provider, records: ProviderRecords, clock: Clock) -> None:
    provider.error = refused()
    assert next_retry(unavailable(guarded(provider, records, luck=0.5))) == START + 5.5


@pytest.mark.parametrize(
    ("hint", "wait"),
    [(None, 5), (2.0, 5), (30.0, 30), (7200.0, 600), (float("inf"), 5), (float("nan"), 5), (-3.0, 5)],
)
def test_the_server_may_ask_for_more(
    provider: Provider, guard: GuardedEmbedder, clock: Clock, hint: float | None, wait: float
) -> None:
    provider.error = refused(429, hint)
    assert next_retry(unavailable(guard)) == START + wait
    clock.now = START + wait - 0.1
    unavailable(guard)
    assert provider.asked == 1


def test_a_success_ends_it(provider: Provider, guard: GuardedEmbedder, clock: Clock) -> None:
    provider.error = BadAnswer("openai embeddings at api.openai.com sent something that is not JSON")
    clock.now = next_retry(unavailable(guard))
    clock.now = next_retry(unavailable(guard))
    provider.error = None
    assert guard.embed_query("router") is not None
    health = guard.health
    assert (health.failing_since, health.reason, health.failures, health.next_retry) == (None, "", 0, None)
    assert health.last_ok == clock.now
    assert health.last_ms is not None
    assert 0 <= health.last_ms < 1000
    provider.error = refused()
    error = unavailable(guard)
    assert (error.since, error.next_retry) == (clock.now, clock.now + 5)
    assert guard.health.last_ok == clock.now, "when it last answered is worth knowing while it fails"


def test_success_is_written_once_a_minute(
    provider: Provider, records: ProviderRecords, guard: GuardedEmbedder, path: Path, clock: Clock
) -> None:
    other = ProviderRecords(path, clock)
    wanted = ((0, 0), (30, 0), (59.9, 0), (60, 60), (61, 60), (-500, -500), (-470, -470))  # of the clock
    for seconds, written in wanted:
        clock.now = START + seconds
        guard.embed_query("router")
        assert other.health(provider.key).last_ok == START + written
    other.close()


def test_a_reason_is_short(provider: Provider, guard: GuardedEmbedder) -> None:
    provider.error = refused(said="x" * 5000)
    reason = str(unavailable(guard))
    assert len(reason) == 500
    assert reason.endswith("…")
    assert guard.health.reason == reason


def test_another_key_is_another_chance(provider: Provider, records: ProviderRecords, clock: Clock) -> None:
    provider.error = refused(401)
    old = guarded(provider, records, secret="old key")
    unavailable(old)
    provider.error = None
    new = guarded(provider, records, secret="new key")
    assert not new.health.failures
    assert new.embed_query("router") is not None
    assert new.health.last_ok == START
    assert old.health.failures == 0 and old.health.last_ok is None
    again = guarded(provider, records, secret="new key")
    assert again.health.last_ok == START, "the same key has the same past"


@pytest.mark.parametrize("ahead", [601, 86_400, 10**9])
def test_a_clock_that_was_set_back_does_not_block(
    provider: Provider, records: ProviderRecords, guard: GuardedEmbedder, clock: Clock, ahead: float
) -> None:
    records.save_health(provider.key, Health(START + ahead - 5, "down", 1, START + ahead))
    provider.error = refused()
    error = unavailable(guard)
    assert provider.asked == 1
    assert error.since == clock.now
    assert error.next_retry == clock.now + 10
    provider.error = None
    records.save_health(provider.key, Health(START + ahead - 5, "down", 1, START + ahead))
    assert guard.embed_query("router") is not None
    assert guard.health.failures == 0


def test_an_unforeseen_error_does_not_close_the_door(
    provider: Provider, guard: GuardedEmbedder, clock: Clock
) -> None:
    provider.error = refused()
    clock.now = next_retry(unavailable(guard))
    provider.error = RuntimeError("a mistake of ours")
    with pytest.raises(RuntimeError):
        guard.embed_query("router")
    provider.error = None
    assert guard.embed_query("router") is not None


def in_threads(count: int, work: Callable[[], object]) -> list[object]:
    """What ``work`` returned or raised, in as many threads at once."""
    results: list[object] = []
    barrier = threading.Barrier(count)

    def run() -> None:
        barrier.wait()
        try:
            results.append(work())
        except ProviderError as error:
            results.append(error)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert len(results) == count
    return results


def test_one_thread_tries_for_all(provider: Provider, guard: GuardedEmbedder, clock: Clock) -> None:
    provider.error = refused()
    clock.now = next_retry(unavailable(guard))
    provider.error = None
    others_are_done = threading.Semaphore(0)
    provider.meanwhile = lambda: [others_are_done.acquire(timeout=20) for _ in range(7)]

    def ask() -> object:
        try:
            return guard.embed_query("router")
        except Unavailable:
            others_are_done.release()
            raise

    results = in_threads(8, ask)
    assert provider.asked == 2
    refusals = [result for result in results if isinstance(result, Unavailable)]
    assert len(refusals) == 7
    assert {(refusal.since, refusal.next_retry) for refusal in refusals} == {(START, clock.now)}
    provider.meanwhile = lambda: None
    assert guard.embed_query("router") is not None


def test_one_outage_is_one_failure(provider: Provider, guard: GuardedEmbedder) -> None:
    together = threading.Barrier(8)
    provider.meanwhile = lambda: together.wait(timeout=20)
    provider.error = refused()
    results = in_threads(8, lambda: guard.embed_query("router"))
    assert all(isinstance(result, Unavailable) and result.next_retry == START + 5 for result in results)
    assert guard.health.failures == 1
    assert provider.asked == 8


def test_records_that_cannot_be_written_still_guard(tmp_path: Path, provider: Provider, clock: Clock) -> None:
    records = ProviderRecords(tmp_path, clock)  # a folder
    guard = guarded(provider, records)
    provider.error = refused()
    unavailable(guard)
    assert unavailable(guard).next_retry == START + 5
    assert provider.asked == 1
    assert records.note is not None


def test_an_injected_fault_stays_out_of_the_file(clock: Clock) -> None:
    records = ProviderRecords(None, clock)
    guard = guarded(FaultyEmbedder(StaticEmbedder(), {"embeddings-401"}), records)
    message = "static embeddings failed: 401 Incorrect API key provided (simulated fault)"
    assert str(unavailable(guard)) == message
    error = unavailable(guard)
    assert (str(error), error.since, error.next_retry) == (message, START, START + 5)


def test_a_vector_of_zeros_is_a_failure_of_the_provider(tmp_path: Path) -> None:
    class Odd(Provider):
        made: Vector | None = None

        def embed_query(self, text: str, cancel: CancelToken | None = None) -> Vector | None:
            super().embed_query(text, cancel)
            return self.made

    clock, provider = Clock(START), Odd()
    guarded = GuardedEmbedder(cast("Embedder", provider), ProviderRecords(tmp_path / "r.sqlite", clock))
    assert guarded.embed_query("!!!") is None and guarded.health.failures == 0, "it has no words"
    with pytest.raises(Unavailable, match="returns a vector of zeros, which cannot be"):
        guarded.embed_query("router")
    assert guarded.health.failures == 1
    clock.now += 60
    provider.made = np.array([1, 0, 0], dtype=np.float32)
    assert guarded.embed_query("router") is provider.made and guarded.health.failures == 0
    provider.made, guarded.languages = None, "en"
    assert guarded.embed_query("ルーター") is None, "a model for one language does not read others"
