"""What the event log tells of work that was killed, stopped half way, or done over a damaged index."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from openclaw_mem_engine.errors import Cancelled
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.stores.sqlite.files import aside_path
from openclaw_mem_engine.sync.lock import SyncLock
from openclaw_mem_engine.sync.report import SyncRequest
from support.embed_server import running_server, unauthorized
from support.memories import backend_of
from support.providers import World, make_world

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")

ENGINE = Path(__file__).parents[2] / "engine"
_HOLD = """
    import sys
    from pathlib import Path
    from openclaw_mem_engine.sync.lock import SyncLock
    print(SyncLock(Path(sys.argv[1]), sys.argv[2]).acquire(), flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = make_world(tmp_path)
    made.configure('name = "none"')
    with made.memory() as memory:
        memory.sync()
    return made


def killed_owner(world: World, what: str) -> int:
    """A process that takes the lock and is killed; its number."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(_HOLD), str(world.settings().index_path), what],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ENGINE)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"True\n"
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=20)
    return process.pid


def leave_a_rebuild(world: World) -> Path:
    left = aside_path(world.settings().index_path)
    left.write_text("half a rebuild")
    return left


@pytest.mark.parametrize(
    ("what", "kind", "named"), [("indexing", "sync", "A sync"), ("rebuilding", "rebuild", "A rebuild")]
)
def test_the_next_sync_tells_once_that_one_was_killed(world: World, what: str, kind: str, named: str) -> None:
    began = [time.strftime("on %Y-%m-%d at %H:")]
    number = killed_owner(world, what)
    for _ in range(2):
        with world.memory() as memory:
            memory.sync()
    began.append(time.strftime("on %Y-%m-%d at %H:"))
    (event,) = world.events()[1:]
    assert event.kind == kind
    assert event.text.startswith(tuple(f"{named} of process {number} that began {hour}" for hour in began))
    assert event.text.endswith(" was killed; what it had finished is in the index.")


def test_tidying_up_that_was_killed_is_no_news(world: World) -> None:
    killed_owner(world, "tidying up")
    with world.memory() as memory:
        memory.sync()
    assert world.events()[1:] == []


def test_who_sweeps_what_a_killed_rebuild_left_tells_of_it(world: World) -> None:
    left = leave_a_rebuild(world)
    number = killed_owner(world, "indexing")  # as when other settings make a rebuild of a plain sync
    world.memory().close()
    (event,) = world.events()[1:]
    assert (event.kind, left.exists()) == ("rebuild", False)
    assert f"A rebuild of process {number} " in event.text and "the index is unchanged" in event.text


def test_left_overs_of_nobody_knows_whom(world: World) -> None:
    leave_a_rebuild(world)
    with SyncLock(world.settings().index_path).holding():
        world.memory().close()
        assert world.events()[1:] == [], "somebody is at work on it"
    world.memory().close()
    world.memory().close()
    (event,) = world.events()[1:]
    assert event.text == "A rebuild was killed; the index is unchanged."


def test_a_stop_after_the_new_index_was_in_place_is_no_stopped_rebuild(world: World) -> None:
    with running_server() as server:
        world.configure(
            'name = "openai"',
            f'base_url = "{server.base_url}"',
            'model = "hash-bow-256"',
            'also = ["static"]',
        )
        settings = world.settings()
        with Memory.open(settings, clock=world.clock) as memory:
            memory.sync()
        changed = replace(settings, chunking=replace(settings.chunking, tokens=7, overlap=0))
        with Memory.open(changed, clock=world.clock) as memory:
            store = backend_of(memory).store
            before = store.fingerprint()

            class Swapped:
                def is_set(self) -> bool:
                    return store.fingerprint() != before

            with pytest.raises(Cancelled):
                memory.sync(cancel=Swapped())
            assert store.fingerprint() != before, "the rebuild itself was done"
    event = world.events()[1:][-1]
    assert event.kind == "rebuild"
    assert event.text == "The index was rebuilt; what followed was stopped: finished work is kept."


def test_a_rebuild_that_the_provider_made_a_plain_sync_is_told_as_one(world: World) -> None:
    with running_server() as server:
        world.configure('name = "openai"', f'base_url = "{server.base_url}"', 'model = "hash-bow-256"')
        with world.memory() as memory:
            memory.sync()
            server.forever = unauthorized()
            stop = threading.Event()
            world.write({"memory/new.md": "# New\n"})
            (world.workspace / "memory" / "garden.md").unlink()
            with pytest.raises(Cancelled):
                memory.sync(
                    SyncRequest(force=True),
                    lambda _done, _total, label: stop.set() if label == "memory/new.md" else None,
                    stop,
                )
    event = world.events()[1:][-1]
    assert (event.kind, event.text) == ("sync", "The sync was stopped: finished work is kept.")


def test_a_sync_that_is_stopped_at_once_is_told(world: World) -> None:
    def at_once(*_: object) -> None:
        raise KeyboardInterrupt

    world.write({"memory/new.md": "# New\n"})
    with world.memory() as memory, pytest.raises(KeyboardInterrupt):
        memory.sync(progress=at_once)
    (event,) = world.events()[1:]
    assert event.text == "The sync was stopped: finished work is kept."
