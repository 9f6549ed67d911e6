"""The contract of a backend, for the builtin one and for one without an index, capabilities and providers."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.errors import Cancelled, PathRefused, UsageError
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.ranking.profiles import DOCUMENTED
from openclaw_mem_engine.ranking.trace import recompute
from openclaw_mem_engine.retrieval import BACKENDS, Backend, Capabilities, PassageQuestion
from openclaw_mem_engine.stores.findings import DoctorReport
from support.memories import settings_for, write_notes

NOTES = {
    "MEMORY.md": "# Facts\n\nThe heron lives near the pond.\n",
    "memory/2026-02-20.md": "The router moved to VLAN 40. The router is grey.\n",
    "memory/projects/greenhouse.md": "Tomatoes want water every second day.\n",
}
#: The name under which the second backend is registered: the only other one that the configuration knows.
OTHER = "qmd"


@pytest.fixture(params=["builtin", "qmd", "grep"])
def settings(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    if request.param == "grep":
        monkeypatch.setitem(BACKENDS, OTHER, "support.grep_backend")
    root = write_notes(tmp_path / "ws", NOTES)
    made = settings_for(root, tmp_path / "home", OPENCLAW_MEM_PROVIDER="static")
    name = "builtin" if request.param == "builtin" else OTHER
    return replace(made, openclaw=replace(made.openclaw, backend=name))


@pytest.fixture
def memory(settings: Settings) -> Iterator[Memory]:
    with Memory.open(settings) as opened:
        if opened.capabilities.sync:
            opened.sync()
        yield opened


@pytest.fixture
def backend(memory: Memory) -> Backend:
    return memory._backend


#: For each capability what needs it.
NEEDS: dict[str, tuple[Callable[[Backend], Any], ...]] = {
    "sync": (lambda b: b.sync(), lambda b: b.plan(), lambda b: b.would_rebuild()),
    "files": (lambda b: b.files(),),
    "chunks": (lambda b: b.chunks("MEMORY.md"),),
    "why_not": (lambda b: b.why_not(PassageQuestion("router", "MEMORY.md", None, DOCUMENTED)),),
    "doctor": (lambda b: b.examine(), lambda b: b.repair(DoctorReport((), ()))),
    "cache": (lambda b: b.cache_sizes(), lambda b: b.prune_cache(1_000)),
}


def test_every_capability_is_covered() -> None:
    assert {field.name for field in fields(Capabilities)} == {*NEEDS, "operands", "providers"}


@pytest.mark.parametrize("capability", NEEDS)
def test_what_a_backend_lacks_is_refused_and_the_rest_works(backend: Backend, capability: str) -> None:
    for call in NEEDS[capability]:
        if getattr(backend.capabilities, capability):
            call(backend)
        else:
            with pytest.raises(UsageError, match=backend.name):
                call(backend)


def test_a_pool_names_its_backend_and_holds_what_it_lists(memory: Memory) -> None:
    pool = memory.retrieve("router VLAN")
    assert pool.backend == memory._backend.name
    assert pool.query == "router VLAN" and pool.freshness is not None
    rows = [row.chunk_id for found in pool.lists for row in found.rows]
    assert rows and set(rows) <= pool.candidates.keys()
    for found in pool.lists:
        assert [row.raw for row in found.rows] == sorted((row.raw for row in found.rows), reverse=True)


def test_an_answer_is_ranked_and_recomputes(memory: Memory) -> None:
    answer = memory.search("router")
    assert answer.hits[0].path == "memory/2026-02-20.md"
    assert memory.capabilities.operands
    for row in answer.trace.returned:
        assert recompute(row.operands) == pytest.approx(row.scores["final"], abs=1e-9)
    assert json.dumps(answer.to_dict(explain=True))


@pytest.mark.parametrize("query", ["", "  \n"])
def test_a_blank_query_is_refused(memory: Memory, query: str) -> None:
    with pytest.raises(UsageError):
        memory.retrieve(query)


def test_a_search_can_be_stopped(memory: Memory) -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(Cancelled):
        memory.search("router", cancel=stop)
    memory.interrupt()
    assert memory.search("router").hits, "an interrupt stops what runs, not what follows"


def test_lines_of_a_file(memory: Memory) -> None:
    assert memory.get("MEMORY.md", 3, 1).text == "The heron lives near the pond."
    assert not memory.get("memory/none.md").found
    with pytest.raises(PathRefused):
        memory.get("../secret.md")


def test_paths_and_state(memory: Memory) -> None:
    assert memory.paths() == tuple(sorted(NOTES))
    assert memory.freshness().state == "fresh"
    status = memory.status()
    assert (status.files, status.backend) == (len(NOTES), memory._backend.name)
    assert json.dumps(status.to_dict())


def test_providers_are_only_shown_when_they_are_asked(memory: Memory) -> None:
    assert bool(memory.chain()) == memory.capabilities.providers
    assert memory.fallback() is None and memory.hosts == ()


def test_the_event_log_does_not_depend_on_the_backend(memory: Memory) -> None:
    kinds = [event.kind for event in memory.events(10)]
    assert kinds == (["sync"] if memory.capabilities.sync else [])
    memory._journal.watched("Watching.")
    assert memory.events(1)[0].kind == "watch"


def test_a_name_of_no_backend_is_refused(tmp_path: Path) -> None:
    from openclaw_mem_engine.errors import ConfigError

    settings = settings_for(write_notes(tmp_path / "ws", {}), tmp_path / "home")
    for name in ("qmd", "lancedb"):
        named = replace(settings, openclaw=replace(settings.openclaw, backend=name))
        if name == "qmd":  # OpenClaw's other one: ours searches instead
            Memory.open(named).close()
        else:
            with pytest.raises(ConfigError, match="no backend 'lancedb'; known: builtin, qmd"):
                Memory.open(named)
