"""A PostgreSQL server that is stopped at once while an index is written, again and again: what was
acknowledged is there afterwards, what was on its way is there whole or not at all."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from openclaw_mem_engine.config.secret import Secret
from openclaw_mem_engine.config.store import StoreLocation
from openclaw_mem_engine.errors import IndexUnavailable
from openclaw_mem_engine.stores.base import IndexStore
from openclaw_mem_engine.stores.findings import Outcome
from openclaw_mem_engine.stores.postgres.store import PostgresIndex
from openclaw_mem_engine.stores.query import build_query
from support.postgres import Server, prepared
from support.stores import FINGERPRINT, change_of, unit

FILES, CHUNKS = 12, 6
#: The longest time from the first write after a start to the stop, seconds.
_LIFE_S = 0.25
_QUERY = build_query("mark", "or", "stemmed")


@dataclass(slots=True)
class Kills:
    """What the stops came to; ``wrong`` says what is not as it should be, and after which stop."""

    stops: int = 0
    acknowledged: int = 0
    rebuilds: int = 0
    under_way: int = 0
    kept: int = 0
    wrong: list[str] = field(default_factory=list)
    refusals: set[str] = field(default_factory=set)
    seconds: float = 0.0


class _Writer:
    """Applies changes and rebuilds until the server is gone. ``acknowledged`` is the mark of each file that
    the last finished call left; ``pending`` what the one under way would leave."""

    def __init__(
        self, store: PostgresIndex, draw: random.Random, state: dict[str, int], found: Kills
    ) -> None:
        self.store, self.draw, self.found = store, draw, found
        self.acknowledged, self.pending = state, state
        self.begun, self.mark = threading.Event(), max(state.values(), default=0)
        self.error: BaseException | None = None

    def run(self) -> None:
        while self.error is None:
            self.error = _error_of(self.step)
            self.begun.set()

    def step(self) -> None:
        self.mark += 1
        if rebuilds := self.draw.random() < 0.1:
            self.pending = {path_of(number): self.mark for number in range(FILES)}
            self.store.rebuild(FINGERPRINT, lambda fresh: put(fresh, self.pending))
        else:
            changed = {path_of(self.draw.randrange(FILES)): self.mark for _ in range(self.draw.randint(1, 3))}
            self.pending = self.acknowledged | changed
            put(self.store, changed)
        self.found.acknowledged += 1
        self.found.rebuilds += rebuilds
        self.acknowledged = self.pending


def path_of(number: int) -> str:
    return f"memory/note-{number:02}.md"


def put(store: IndexStore, marks: dict[str, int]) -> None:
    """Apply files whose every chunk carries the mark of the file, all in one step."""
    changes = []
    for path, mark in marks.items():
        texts = [f"mark {mark}\nchunk {number} of {path}" for number in range(CHUNKS)]
        vectors = [unit([mark, number + 1, 1, 1]) for number in range(CHUNKS)]
        changes.append(change_of(path, texts, vectors))
    store.apply(*changes, built_with=FINGERPRINT)


def kills(server: Server, folder: Path, stops: int, seed: int = 7) -> Kills:
    """The whole test on a server that was started for it."""
    began, draw, found = time.perf_counter(), random.Random(seed), Kills()
    at = StoreLocation(Secret(prepared(server.address)), "kills", 7)
    store = PostgresIndex(folder / "index.sqlite", location=at)
    try:
        store.begin(FINGERPRINT)
        state: dict[str, int] = {}
        for number in range(1, stops + 1):
            writer = _Writer(store, draw, state, found)
            thread = threading.Thread(target=writer.run)
            thread.start()
            writer.begun.wait()
            time.sleep(draw.uniform(0.0, _LIFE_S))
            server.stop_at_once()
            thread.join()
            for error in (writer.error, _error_of(lambda: search(store))):
                if isinstance(error, IndexUnavailable):
                    found.refusals.add(str(error))
                else:
                    found.wrong.append(f"stop {number}: {error!r} while the server was away")
            server.start_again()
            state = _left(store, writer, found, number)
            found.stops += 1
    finally:
        store.close()
    found.seconds = time.perf_counter() - began
    return found


def search(store: PostgresIndex) -> int:
    """How many chunks match."""
    assert _QUERY is not None
    return store.lexical(_QUERY, 1).matched


def _error_of(call: Callable[[], object]) -> BaseException | None:
    try:
        call()
    except Exception as error:  # noqa: BLE001 - looked at by the caller
        return error
    return None


def _left(store: PostgresIndex, writer: _Writer, found: Kills, number: int) -> dict[str, int]:
    """What the index holds, by the mark of each file."""
    held: dict[str, int] = {}
    for path in store.files():
        chunks = store.chunks_of(path)
        marks = {int(chunk.text.split()[1]) for chunk in chunks}
        if len(marks) != 1 or len(chunks) != CHUNKS:
            found.wrong.append(f"stop {number}: {path} is torn: {len(chunks)} chunks, marks {sorted(marks)}")
        held[path] = max(marks, default=0)
    found.under_way += writer.pending != writer.acknowledged
    found.kept += held == writer.pending != writer.acknowledged
    if held not in (writer.acknowledged, writer.pending):
        found.wrong.append(f"stop {number}: holds {held}, acknowledged was {writer.acknowledged}")
    out = Outcome()
    for check in store.diagnosis().values():
        check(out)
    found.wrong += [f"stop {number}: {each.text}" for each in out.findings if each.severity == "error"]
    if search(store) != CHUNKS * len(held) or store.covered() != CHUNKS * len(held):
        found.wrong.append(f"stop {number}: not every chunk is found by its words and has its vector")
    return held
