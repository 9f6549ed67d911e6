"""Four processes search one index while a fifth writes to it. POSIX only.

    uv run python benchmarks/concurrency.py [--seconds 60] [--json]
    uv run python benchmarks/concurrency.py --commands 40 [--files 2000]

Nobody may ever be told that the index is locked. Two readers keep the index open, one opens it for each
search, and one does as ``openclaw-mem search`` does: it tries to sync first and does not wait for the writer.
Exit code 1 when a reader or the writer met an error.

``--commands`` runs so many `openclaw-mem search` instead while another process rebuilds the index all the
while, and names the slowest; exit code 1 when one fails, finds nothing or has not ended after 120 s.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from _bench import (
    environment,
    given,
    one_blas_thread,
    print_table,
    processes_in_turn,
    scratch,
    settings_for,
    write_workspace,
)
from _whole import examine
from crash import ANCHOR, NOTES, QUERY, fork, note, path_of, write

one_blas_thread()

from openclaw_mem_engine.cancellation import GRACE_S  # noqa: E402
from openclaw_mem_engine.config.settings import Settings  # noqa: E402
from openclaw_mem_engine.memory import Memory  # noqa: E402
from openclaw_mem_engine.sync.lock import SyncBusy  # noqa: E402
from openclaw_mem_engine.sync.report import SyncRequest  # noqa: E402

#: Of each process, however slow the machine is.
_LEAST_CALLS = 5
#: After so long a command counts as one that hangs, seconds.
_LONGEST_S = 120
READERS = ("stays open", "stays open too", "opens for each search", "syncs before each search")


def main() -> int:
    options = given(
        seconds=60.0,
        json=(False, "one JSON object instead of the table"),
        commands=(0, "searches as commands, during rebuilds"),
        files=(2_000, "notes of --commands"),
    )
    if options.commands:
        return during_rebuilds(options.commands, options.files)
    with scratch() as folder:
        found, wrong = run(folder, options.seconds)
    if options.json:
        print(json.dumps({"processes": [asdict(one) for one in found], "wrong": wrong}))
    else:
        show(found, wrong, options.seconds)
    return 1 if wrong or any(one.errors or not one.calls for one in found) else 0


@dataclass(slots=True)
class Account:
    """What one process met. Times in milliseconds; ``busy`` counts syncs left to the writer."""

    name: str
    calls: int = 0
    busy: int = 0
    rebuilds: int = 0
    median: float = 0.0
    p95: float = 0.0
    longest: float = 0.0
    errors: list[str] = field(default_factory=list)


def run(folder: Path, seconds: float) -> tuple[list[Account], list[str]]:
    """Accounts of the writer and the readers, and what is wrong with the index in the end."""
    settings = settings_for(folder / "workspace", folder / "home", "static")
    draw = random.Random(5)
    write(settings.workspace, ANCHOR, "mark0x The lighthouse keeper drops the anchor.\n")
    for number in range(NOTES):
        write(settings.workspace, path_of(number), note(draw, f"mark{number + 1}x"))
    with Memory.open(settings) as memory:
        memory.sync()
    until = time.monotonic() + seconds
    accounts = [folder / f"account-{number}.json" for number in range(1 + len(READERS))]
    children = [fork(lambda: _writer(settings, until, accounts[0]))]
    for number, name in enumerate(READERS):
        place = accounts[1 + number]
        children.append(fork(lambda: _reader(settings, until, place, name)))  # noqa: B023 - runs at once
    ended = [os.waitpid(child, 0)[1] for child in children]
    wrong = [f"process {number} ended with status {status}" for number, status in enumerate(ended) if status]
    with Memory.open(settings) as memory:
        memory.sync()
    wrong += examine(settings.index_path)[0]
    return [Account(**json.loads(place.read_text())) for place in accounts if place.exists()], wrong


def during_rebuilds(searches: int, files: int) -> int:
    """Searches as commands, one after the other, while a child rebuilds; and as many without rebuilds, which
    are the baseline."""
    program = str(Path(sys.executable).with_name("openclaw-mem"))
    with scratch() as folder:
        workspace = write_workspace(folder / "workspace", files, files * 0.0045)
        write(workspace, ANCHOR, "mark0x The lighthouse keeper drops the anchor.\n")
        command = [program, "search", QUERY, "--workspace", str(workspace), "--format", "files"]
        rebuild = [program, "index", "--force", "--workspace", str(workspace)]
        environ = environment(folder / "home")
        subprocess.run(rebuild, check=True, capture_output=True, env={**os.environ, **environ})
        alone = processes_in_turn({"search": command}, environ, searches)["search"]
        stop, done = folder / "stop", folder / "rebuilds"

        def rebuilding() -> None:
            while not stop.exists():
                subprocess.run(rebuild, check=True, capture_output=True, env={**os.environ, **environ})
                with done.open("a") as file:
                    file.write("x")

        child = fork(rebuilding)
        taken, wrong = [], []
        for number in range(searches):
            began = time.perf_counter()
            try:
                ran = subprocess.run(
                    command, capture_output=True, text=True, env={**os.environ, **environ}, timeout=_LONGEST_S
                )
                if ran.returncode or ANCHOR not in ran.stdout:
                    wrong.append(f"search {number}: exit code {ran.returncode}: {ran.stderr.strip()}")
            except subprocess.TimeoutExpired:
                wrong.append(f"search {number} did not end within {_LONGEST_S} s")
            taken.append((time.perf_counter() - began) * 1000)
        stop.touch()
        if os.waitpid(child, 0)[1]:
            wrong.append("a rebuild failed")
        rebuilds = done.stat().st_size if done.exists() else 0
    table = [("wall ms", "median", "slowest")]
    for name, times in (("alone", alone.wall), (f"during {rebuilds} rebuilds", taken)):
        table.append((name, f"{sorted(times)[len(times) // 2]:.0f}", f"{max(times):.0f}"))
    load = f"Load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores."
    print_table(f"{searches} searches as commands, {files:,} notes", table, load, *wrong)
    return 1 if wrong else 0


def _writer(settings: Settings, until: float, place: Path) -> None:
    draw, mark = random.Random(9), 1_000
    account = Account("writes and rebuilds")

    def once(memory: Memory) -> None:
        nonlocal mark
        for _ in range(3):
            mark += 1
            write(settings.workspace, path_of(draw.randrange(NOTES)), note(draw, f"mark{mark}x"))
        force = draw.random() < 0.1
        memory.sync(SyncRequest(force=force))
        account.rebuilds += force

    with Memory.open(settings) as memory:
        _repeat(account, until, place, lambda: once(memory), pause_s=0.01)


def _reader(settings: Settings, until: float, place: Path, name: str) -> None:
    account = Account(name)

    def search(memory: Memory) -> None:
        found = memory.search(QUERY)
        if ANCHOR not in {hit.path for hit in found.hits}:
            account.errors.append(f"{ANCHOR} was not found")
        account.errors.extend(line for line in found.warnings if "older than" not in line)

    def open_and_search() -> None:
        with Memory.open(settings) as memory:
            if name == READERS[3]:
                try:
                    memory.sync(SyncRequest(wait_s=GRACE_S))
                except SyncBusy:
                    account.busy += 1
            search(memory)

    if name in READERS[:2]:
        with Memory.open(settings, resident=True) as memory:
            _repeat(account, until, place, lambda: search(memory))
    else:
        _repeat(account, until, place, open_and_search)


def _repeat(
    account: Account, until: float, place: Path, call: Callable[[], None], pause_s: float = 0.002
) -> None:
    """Call until the time is over, some times at least, and write the account down."""
    taken: list[float] = []
    while time.monotonic() < until or len(taken) < _LEAST_CALLS:
        start = time.perf_counter()
        try:
            call()
        except Exception as error:  # noqa: BLE001 - this is what is counted here
            account.errors.append(f"{type(error).__name__}: {error}")
        taken.append((time.perf_counter() - start) * 1000)
        time.sleep(pause_s)
    taken.sort()
    account.calls = len(taken)
    with suppress(IndexError):
        account.median, account.p95 = (round(taken[int(len(taken) * part)], 1) for part in (0.5, 0.95))
        account.longest = round(taken[-1], 1)
    place.write_text(json.dumps(asdict(account)))


def show(found: list[Account], wrong: list[str], seconds: float) -> None:
    table = [("process", "calls", "median ms", "p95 ms", "longest ms", "left to the writer", "errors")]
    for one in found:
        name = f"{one.name} ({one.rebuilds} rebuilds)" if one.rebuilds else one.name
        numbers = (f"{one.median:g}", f"{one.p95:g}", f"{one.longest:g}")
        table.append((name, f"{one.calls:,}", *numbers, f"{one.busy:,}", f"{len(one.errors):,}"))
    remark = "The index is whole afterwards." if not wrong else "WRONG: " + "; ".join(wrong)
    print_table(f"Four readers and one writer, {seconds:g} s", table, remark)
    for one in found:
        for line in list(dict.fromkeys(one.errors))[:5]:
            print(f"\n{one.name}: {line}")


if __name__ == "__main__":
    sys.exit(main())
