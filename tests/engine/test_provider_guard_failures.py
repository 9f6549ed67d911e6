"""What counts as a failure of a provider, and what does not."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_provider_guard import (
    START,
    Provider,
    clock,
    guard,
    next_retry,
    path,
    provider,
    records,
    refused,
    unavailable,
)

from openclaw_mem_engine.errors import Cancelled, ProviderError
from openclaw_mem_engine.providers.base import (
    NotConfigured,
    RequestFailed,
    TextRefused,
)
from openclaw_mem_engine.providers.circuit_breaker import GuardedEmbedder
from openclaw_mem_engine.providers.records import Health
from support.providers import Clock

__all__ = ["clock", "guard", "path", "provider", "records"]


def test_what_is_not_configured_is_asked_every_time(
    provider: Provider, guard: GuardedEmbedder, path: Path, clock: Clock
) -> None:
    provider.error = NotConfigured("No API key for api.openai.com: set OPENAI_API_KEY.")
    for later in range(3):
        clock.now = START + later
        error = unavailable(guard)
        assert str(error) == str(provider.error)
        assert (error.since, error.next_retry) == (None, None)
    assert provider.asked == 3
    assert guard.health == Health()
    assert not path.exists()
    with pytest.raises(NotConfigured):
        guard.probe()
    with pytest.raises(NotConfigured):
        guard.embed_documents(["a"])
    provider.error = None
    assert guard.embed_query("router") is not None


def test_cancelling_is_no_failure(provider: Provider, guard: GuardedEmbedder) -> None:
    provider.error = Cancelled("stopped")
    with pytest.raises(Cancelled):
        guard.embed_documents(["a"])
    with pytest.raises(Cancelled):
        guard.embed_query("a")
    assert guard.health == Health()


def test_documents_are_asked_for_whatever_happened(
    provider: Provider, guard: GuardedEmbedder, clock: Clock
) -> None:
    provider.error = refused()
    for failures in (1, 2):
        with pytest.raises(RequestFailed) as caught:
            guard.embed_documents(["a"])
        assert caught.value is provider.error
        assert guard.health.failures == failures
    assert unavailable(guard).next_retry == START + 10
    assert provider.asked == 2
    provider.error = None
    guard.embed_documents(["a", "b"])
    assert guard.health == Health(last_ok=START, dims=3)
    assert guard.embed_query("router") is not None


def test_no_text_is_no_sign_of_life(provider: Provider, guard: GuardedEmbedder) -> None:
    provider.error = refused()
    unavailable(guard)
    provider.error = None
    assert guard.embed_documents([]) == []
    assert guard.embed_documents([" "]) == [None]
    assert guard.health.failures == 1


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_text_that_is_refused_does_not_block_queries(
    provider: Provider, guard: GuardedEmbedder, status: int
) -> None:
    provider.error = refused(status, said="input too long")
    with pytest.raises(RequestFailed):
        guard.embed_documents(["a"])
    with pytest.raises(RequestFailed) as caught:
        guard.embed_query("b")
    assert caught.value is provider.error
    assert guard.health == Health()
    provider.error = TextRefused("too long", position=1, status=status)
    with pytest.raises(TextRefused):
        guard.embed_documents(["a", "b"])
    assert guard.health == Health()
    provider.error = None
    assert guard.embed_query("router") is not None
    assert provider.asked == 4


def test_a_refused_query_does_not_end_an_outage(
    provider: Provider, guard: GuardedEmbedder, clock: Clock
) -> None:
    provider.error = refused()
    clock.now = next_retry(unavailable(guard))
    provider.error = TextRefused("too long", position=0, status=400)
    with pytest.raises(TextRefused):
        guard.embed_query("a")
    assert guard.health.failures == 1
    provider.error = None
    assert guard.embed_query("router") is not None, "the next query tries at once"
    assert guard.health.failures == 0


def test_a_probe_whose_word_is_refused_is_a_failure(provider: Provider, guard: GuardedEmbedder) -> None:
    provider.error = TextRefused("no such model", position=0, status=400)
    with pytest.raises(TextRefused):
        guard.probe()
    assert guard.health.failures == 1


def test_a_probe_asks_at_once(provider: Provider, guard: GuardedEmbedder) -> None:
    provider.error = refused()
    unavailable(guard)
    with pytest.raises(ProviderError) as caught:
        guard.probe()
    assert caught.value is provider.error
    assert guard.health.failures == 2
    provider.error = None
    assert 0 <= guard.probe() < 1000
    assert guard.health.failures == 0
    assert provider.asked == 3
    assert guard.embed_query("router") is not None
