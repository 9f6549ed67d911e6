"""``openclaw-mem providers``."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from openclaw_mem_engine.cli.opening import looking, warned_settings
from openclaw_mem_engine.cli.terminal import (
    aligned,
    dim,
    hanging,
    indented,
    marked,
    one_line,
    say,
    show,
    strong,
)
from openclaw_mem_engine.cli.text_format import destination, dollars, failing, token_count
from openclaw_mem_engine.commands import advice
from openclaw_mem_engine.errors import ProviderError, UsageError, did_you_mean
from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.providers.prices import Spent, summed

if TYPE_CHECKING:
    from openclaw_mem_engine.config.settings import Settings
    from openclaw_mem_engine.memory import Memory
    from openclaw_mem_engine.providers.factory import ProviderState
    from openclaw_mem_engine.providers.services import ServiceState

#: Days of usage that are shown.
USAGE_DAYS = 30


class Probe(NamedTuple):
    """How a provider answered just now: ``ms`` milliseconds, or ``error``."""

    name: str
    role: str
    ms: float | None
    error: str = ""


def run(arguments: Namespace) -> int:
    """Print every provider and its state; with ``--probe`` each is sent a query first. Without it nothing is
    sent or loaded."""
    settings = warned_settings(arguments)
    with looking(settings, needs_workspace=False) as memory:
        answers = [] if arguments.probe is None else list(_answers(memory, arguments.probe.strip()))
        chain, fallback, services = memory.chain(), memory.fallback(), memory.services()
        probes = [_judged(link, answer, chain) for link, answer in answers]
        for note in memory.notes:
            if note.code == "provider-records" and note.level == "warning":
                say(note.text)
        hosts = {(link.name, link.model): link.host for link in chain if link.in_use}
        spent = summed(memory.usage(USAGE_DAYS), hosts)
    data = {
        "requestedProvider": settings.provider.provider,
        "chain": [link.to_dict() for link in chain],
        "fallback": fallback.to_dict() if fallback else None,
        "services": [service.to_dict() for service in services],
        "usageDays": USAGE_DAYS,
        "usage": [item.to_dict() for item in spent],
        "probes": [probe._asdict() | {"error": probe.error or None} for probe in probes],
    }
    lines = [*_lines(settings, chain, spent, probes), *_services(services)]
    show(data, lines, as_json=arguments.json)
    # A fallback that fails when all were asked changes no answer.
    failed = any(probe.error and (arguments.probe or probe.role == "primary") for probe in probes)
    return ProviderError.exit_code if failed else 0


def _answers(memory: Memory, wanted: str) -> Iterator[tuple[ProviderState, float | str]]:
    """Send a query to each, one after the other: milliseconds, or why it failed. Raises UsageError for a name
    that is not in use."""
    links = [link for link in memory.chain() if link.in_use]
    named = [link for link in links if wanted in ("", link.name, link.role)]
    if wanted and not named:
        from openclaw_mem_engine.providers.registry import names

        known = ", ".join(dict.fromkeys(link.name for link in links)) or "none"
        hint = f" Write `openclaw-mem providers --probe --provider {wanted}`."
        if wanted not in names():
            hint = did_you_mean(wanted, names())
        shown = one_line(wanted)[:60]
        text = f"Provider {shown!r} is not in use, so it cannot be probed. In use: {known}.{hint}"
        raise UsageError(text)
    for link in named:
        try:
            yield link, memory.probe(_address(link, links))
        except ProviderError as error:
            yield link, str(error)
        except UsageError:
            shown = one_line(f"{link.name} {link.model}")
            say(f"{shown} ({link.role}) was not probed: another embedder in use has the same name.")


def _judged(link: ProviderState, answer: float | str, chain: Sequence[ProviderState]) -> Probe:
    """How a provider of this ``chain`` answered."""
    if isinstance(answer, str):
        return Probe(link.name, link.role, None, answer)
    named = link.name, link.role, link.model
    now = next(other for other in chain if (other.name, other.role, other.model) == named)
    # Vectors of another length than those of the index are a failure, too.
    failed = now.state == "failed"
    return Probe(link.name, link.role, None if failed else answer, now.why if failed else "")


def _address(link: ProviderState, links: Sequence[ProviderState]) -> str:
    """The name of a provider for ``Memory.probe``, which takes the first one in use with a role."""
    first = next(other for other in links if other.role == link.role)
    return link.role if first is link else f"{link.name}:{link.model}"


def _lines(
    settings: Settings,
    chain: Sequence[ProviderState],
    spent: Sequence[Spent],
    probes: Sequence[Probe],
) -> Iterator[str]:
    yield from _table(chain, probes)
    for link in chain:
        if link.state == "failed":
            yield ""
            name = f"{link.name} ({link.role}) fails"
            head, *lines = hanging(advice(f"{name}: {one_line(link.why)}"), 2)
            yield from (head.replace(name, marked(name), 1), *lines)
            if when := failing(link.since, link.next_retry, time.time()):
                yield f"  {when}"
    if probes:
        yield ""
        yield strong("probed now")
        said = {link.why for link in chain if link.state == "failed"}
        errors = ["fails, see above" if p.error in said else one_line(p.error) for p in probes]
        asked = [(p.name, p.role, why or _milliseconds(p.ms)) for p, why in zip(probes, errors, strict=True)]
        yield from _wrapped(asked)
    used = [link for link in chain if link.in_use]
    if used:
        yield ""
        yield strong("data")
        rows = []
        for link in used:
            host, price = destination(link.name, link.host), one_line(link.price)
            rows.append((link.name, one_line(link.model), host, _key(link), price))
        yield from _wrapped(list(dict.fromkeys(rows)))  # a model may have two roles
    yield from _sent_by_auto(settings, chain)
    yield ""
    yield from _usage(spent)


def _table(chain: Sequence[ProviderState], probes: Sequence[Probe]) -> Iterator[str]:
    asked = {(probe.name, probe.role): probe.ms for probe in probes if probe.ms is not None}
    rows = [("provider", "role", "state", "vectors", "latency", "why")]
    chain = sorted(chain, key=lambda link: link.state == "not-selected")  # what is used is read first
    for link in chain:
        embeds = link.in_use
        vectors = f"{link.vectors:,} of {link.chunks:,}" if embeds else ""
        latency = _milliseconds(asked.get((link.name, link.role), link.last_ms)) if embeds else ""
        why = "see below" if link.state == "failed" else one_line(link.why)
        role = "–" if link.role in ("not-selected", "bm25") else link.role
        name = "BM25" if link.role == "bm25" else link.name
        rows.append((name, role, link.label, vectors, latency, why))
    head, *lines = aligned(rows)
    yield strong(head)
    for link, line in zip(chain, lines, strict=True):
        for part in hanging(line, head.index("why")):
            yield dim(part) if link.state == "not-selected" else part


def _services(services: Sequence[ServiceState]) -> Iterator[str]:
    if not services:
        return
    sent = {
        "rerank": "chunks of notes and the query",
        "expansion": "the query",
        "flush": "the conversation",
    }
    yield ""
    yield strong("other models (rerank and expansion are used when the knobs of that name are on)")
    rows = []
    for one in services:
        host = destination(one.provider, one.host)
        goes = host if one.provider == "local" else f"{sent[one.use]} to {host}"
        key = (
            f"key: {one_line(one.key_origin)}" if one.key_origin else "no key" if one.host else "needs no key"
        )
        rows.append((one.use, one.provider, one_line(one.model) or "its default model", goes, key))
    yield from _wrapped(rows)
    for one in services:
        if one.missing:
            name = f"{one.use} cannot be used"
            head, *lines = hanging(advice(f"{name}: {one_line(one.missing)}"), 2)
            yield from (head.replace(name, marked(name), 1), *lines)


def _wrapped(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    for line in indented(aligned(rows)):
        yield from hanging(line, 6)


def _milliseconds(ms: float | None) -> str:
    return "–" if ms is None else f"{ms:.1f} ms" if ms < 10 else f"{ms:,.0f} ms"


def _key(link: ProviderState) -> str:
    if link.key_origin:
        return f"key: {one_line(link.key_origin)}"
    return "no key" if link.host else "needs no key"


def _sent_by_auto(settings: Settings, chain: Sequence[ProviderState]) -> Iterator[str]:
    """A clear sentence when ``auto`` has chosen a provider that text is sent to."""
    primary = next((link for link in chain if link.role == "primary"), None)
    if settings.provider.provider != "auto" or primary is None or not primary.host:
        return
    yield ""
    because = (
        f", because there is a key for it ({one_line(primary.key_origin)})" if primary.key_origin else ""
    )
    yield from map(marked, hanging(f"The provider {primary.name} was selected by auto{because}.", 2))
    host = destination(primary.name, primary.host)
    yield from hanging(f"The text of notes (when they are indexed) and every query are sent to {host}.", 2)
    yield "To keep data local: --provider static, or provider.name in the settings."


def _usage(spent: Sequence[Spent]) -> Iterator[str]:
    if not spent:
        yield f"No request was sent to a metered provider in the last {USAGE_DAYS} days."
        return
    yield strong(f"last {USAGE_DAYS} days")
    rows = [("provider", "model", "requests", "texts", "tokens", "cost")]
    for item in spent:
        tokens = token_count(item.tokens, estimated=item.estimated)
        counts = (f"{item.requests:,}", f"{item.texts:,}", tokens)
        rows.append((one_line(item.provider), one_line(item.model), *counts, dollars(item.usd)))
    yield from indented(aligned(rows))
