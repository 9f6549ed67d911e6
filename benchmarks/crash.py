"""Kill a process that syncs, rebuilds and repairs, at random points, and look at what is left. POSIX only.

    uv run python benchmarks/crash.py [--kills 1000] [--seed 7] [--alone] [--json]

A child changes notes, syncs, rebuilds or repairs, and writes down what it has finished; it is killed with
SIGKILL; then the index is examined by SQL alone, and everything that was written down as finished must be in
it. A repair moves the index away and syncs a new one: when it is killed, a sync must make the index whole.
Another process searches all the while; with ``--alone`` none does, so that nobody has the index open when it
is killed, and SQLite recovers its log. Exit code 1 when anything is not as it should be.
"""

from __future__ import annotations

import json
import os
import random
import signal
import statistics
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path

from _bench import given, one_blas_thread, print_table, scratch, settings_for

one_blas_thread()

import numpy  # noqa: E402, F401 - loaded here once, so that no child spends its life on it
from _whole import MARK, examine  # noqa: E402

from openclaw_mem_engine.config.settings import Settings  # noqa: E402
from openclaw_mem_engine.errors import IndexDamaged  # noqa: E402
from openclaw_mem_engine.memory import Memory  # noqa: E402
from openclaw_mem_engine.stores.sqlite.files import damaged_files, has_leftovers  # noqa: E402
from openclaw_mem_engine.sync.coordinator import set_aside  # noqa: E402
from openclaw_mem_engine.sync.lock import SyncLock  # noqa: E402
from openclaw_mem_engine.sync.report import SyncRequest  # noqa: E402

#: Notes that come, go and change; and one that never does, which every search must find.
NOTES = 60
ANCHOR = "memory/anchor.md"
QUERY = "lighthouse keeper anchor"
#: The longest life of a child, seconds; for most of them from their first change on.
LIFE_S = 0.45


def main() -> int:
    options = given(
        kills=1_000,
        seed=7,
        alone=(False, "without a reader"),
        json=(False, "one JSON object instead of the table"),
    )
    with scratch() as folder:
        result = run(folder, options.kills, options.seed, alone=options.alone)
    if options.json:
        print(json.dumps(result.to_dict()))
    else:
        result.show()
    return 1 if result.bad else 0


@dataclass(slots=True)
class Result:
    """What the kills came to. ``inconsistent`` and ``lost`` tell what is wrong after which kill."""

    kills: int = 0
    phases: Counter[str] = field(default_factory=Counter)
    syncs: int = 0
    rebuilds: int = 0
    repairs: int = 0
    acknowledged: int = 0
    leftovers: int = 0
    inconsistent: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    died: list[str] = field(default_factory=list)
    reader: dict[str, object] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def bad(self) -> bool:
        return bool(self.inconsistent or self.lost or self.died or self.reader.get("errors"))

    def to_dict(self) -> dict[str, object]:
        return asdict(self) | {"phases": dict(self.phases), "seconds": round(self.seconds, 1)}

    def show(self) -> None:
        told = self.reader
        errors = told["errors"]
        assert isinstance(errors, list)
        where = ", ".join(f"{name} {count}" for name, count in sorted(self.phases.items()))
        table = [
            ("", "found", "goal"),
            ("kills (SIGKILL)", f"{self.kills:,}", ""),
            ("… while", where, ""),
            ("… that left files of a rebuild behind", f"{self.leftovers:,}", ""),
            ("finished syncs, rebuilds, repairs", f"{self.syncs:,}, {self.rebuilds:,}, {self.repairs:,}", ""),
            ("inconsistent indexes", f"{len(self.inconsistent):,}", "0"),
            ("acknowledged changes", f"{self.acknowledged:,}", ""),
            ("… of them lost", f"{len(self.lost):,}", "0"),
            ("processes that died by themselves", f"{len(self.died):,}", "0"),
            ("searches meanwhile", f"{told['searches']:,}", ""),
            ("… that failed or found nothing", f"{len(errors):,}", "0"),
            ("… median / p95 / longest, ms", f"{told['median']} / {told['p95']} / {told['max']}", ""),
        ]
        print_table(f"Crash test, {self.seconds:.0f} s", table)
        for line in [*self.inconsistent, *self.lost, *self.died, *errors][:20]:
            print(f"\n{line}")


def run(folder: Path, kills: int, seed: int, *, alone: bool = False) -> Result:
    """The whole test below a folder."""
    began = time.perf_counter()
    settings = settings_for(folder / "workspace", folder / "home", "static")
    workspace = settings.workspace
    write(workspace, ANCHOR, "mark0x The lighthouse keeper drops the anchor.\n")
    draw = random.Random(seed)
    for number in range(NOTES):
        write(workspace, path_of(number), note(draw, f"mark{number + 1}x"))
    with Memory.open(settings) as memory:
        memory.sync()
    result, known = Result(), Known(workspace)
    stop, told, repairs = folder / "stop", folder / "reader.json", folder / "repairs"
    killed = folder / "killed"  # longer by each repair that was killed
    repairs.touch()
    killed.touch()
    if alone:
        stop.touch()
    reader = fork(lambda: read(settings, stop, told, repairs, killed))
    for number in range(kills):
        log = folder / f"child-{number}.log"
        child_seed, life, starts = draw.random(), draw.uniform(0.0, LIFE_S), draw.random() < 0.3
        first_mark = 1_000 * (number + 1)
        child = fork(lambda: work(settings, log, child_seed, first_mark, repairs))  # noqa: B023 - runs before the next
        if not starts:  # on a slow machine, opening would take all of that time
            wait_for(log)
        time.sleep(life)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            result.died.append(f"child {number} ended with exit code {os.WEXITSTATUS(status)}")
        if known.take(log, result) == "repairing":
            with Memory.open(settings) as memory:
                memory.sync()
            known.allowed = {path: {mark} for path, mark in on_disk(workspace).items()}
            note_down(killed)
        if repairs.stat().st_size % 2:
            note_down(repairs)
        look(settings, known, number, result)
        for left in (log, *damaged_files(settings.index_path)):
            left.unlink(missing_ok=True)
    stop.touch()
    _, status = os.waitpid(reader, 0)
    if status:
        result.died.append(f"the reader ended with status {status}")
    result.reader = json.loads(told.read_text()) if told.exists() else {"errors": ["the reader told nothing"]}
    with Memory.open(settings) as memory:
        if has_leftovers(settings.index_path):
            result.inconsistent.append("at the end: leftovers were not swept at open")
        memory.sync()
    known.allowed = {path: {mark} for path, mark in on_disk(workspace).items()}
    look(settings, known, kills, result)
    result.kills, result.seconds = kills, time.perf_counter() - began
    return result


def wait_for(log: Path) -> None:
    """Wait until a child has opened the index and writes down its first change; at most ten seconds."""
    end = time.monotonic() + 10
    while not (log.exists() and log.stat().st_size) and time.monotonic() < end:
        time.sleep(0.001)


def look(settings: Settings, known: Known, number: int, result: Result) -> None:
    """Examine the index after a kill."""
    result.leftovers += has_leftovers(settings.index_path)
    lock = SyncLock(settings.index_path)
    if not lock.acquire(wait_s=2.0):  # the reader may be tidying up; a lock that stayed would never be free
        result.inconsistent.append(f"kill {number}: the lock of a dead process is still held")
    lock.release()
    wrong, marks = examine(settings.index_path)
    result.inconsistent += [f"kill {number}: {line}" for line in wrong]
    for path, allowed in known.allowed.items():
        if marks.get(path, "") not in allowed:
            told = f"{path} holds {marks.get(path, '') or 'nothing'}, should be one of {sorted(allowed)}"
            result.lost.append(f"kill {number}: {told}")
    result.lost += [f"kill {number}: {path} should be gone" for path in marks.keys() - known.allowed.keys()]


class Known:
    """What the index may hold of each path: the mark that was acknowledged last, and those of changes that
    were on their way; "" for a file that is gone."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self.allowed = {path: {mark} for path, mark in on_disk(workspace).items()}
        self._disk = on_disk(workspace)

    def take(self, log: Path, result: Result) -> str:
        """Follow what a child has written down until it was killed; what it was doing then."""
        phase, disk, waiting = "opening", self._disk, 0
        for line in log.read_text().split("\n")[:-1] if log.exists() else []:
            kind, _, rest = line.partition(" ")
            if kind == "change":
                phase = "changing notes"
                path, _, mark = rest.partition(" ")
                self.allowed.setdefault(path, {""}).add(mark)
                disk[path] = mark
                waiting += 1
            elif kind == "begin":
                phase = rest
            else:  # done: this sync has looked at all files, also at those that others changed before
                result.syncs += rest == "syncing"
                result.rebuilds += rest == "rebuilding"
                result.repairs += rest == "repairing"
                result.acknowledged += waiting
                self.allowed = {path: {mark} for path, mark in disk.items()}
                phase, waiting = "changing notes", 0
        result.phases[phase] += 1
        # The last change of a killed child may not have come to the disk.
        self._disk = on_disk(self._workspace)
        for path in self.allowed.keys() | self._disk.keys():
            self.allowed.setdefault(path, {""}).add(self._disk.get(path, ""))
        return phase


# -- the processes --------------------------------------------------------------------------------------


def work(settings: Settings, log: Path, seed: float, mark: int, repairs: Path) -> None:
    """Change, sync, rebuild or repair, write down; until killed."""
    draw, parent = random.Random(seed), os.getppid()
    lines = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def say(line: str) -> None:
        os.write(lines, f"{line}\n".encode())

    with Memory.open(settings) as memory:
        while os.getppid() == parent:
            for _ in range(draw.randint(1, 6)):
                mark += 1
                path = path_of(draw.randrange(NOTES))
                gone = draw.random() < 0.15
                say(f"change {path} {'' if gone else f'mark{mark}x'}")
                if gone:
                    (settings.workspace / path).unlink(missing_ok=True)
                else:
                    write(settings.workspace, path, note(draw, f"mark{mark}x"))
            what = draw.choices(("syncing", "rebuilding", "repairing"), (3, 2, 2))[0]
            if what == "repairing":
                note_down(repairs)
            say(f"begin {what}")
            if what == "repairing":
                set_aside(settings, IndexDamaged("said by the benchmark"))
            memory.sync(SyncRequest(force=what == "rebuilding"))
            say(f"done {what}")
            if what == "repairing":
                note_down(repairs)


def note_down(repairs: Path) -> None:
    """Note that a repair begins or is over: the file has an odd length meanwhile."""
    with repairs.open("ab") as file:
        file.write(b".")


def read(settings: Settings, stop: Path, told: Path, repairs: Path, killed: Path) -> None:
    """Search until the file ``stop`` exists: with an index that stays open, and every tenth time with one
    that is opened for this search alone, as a command does it. While an index is replaced, a search may find
    none or an empty one: it does not count. The index that stays is opened anew after a repair was killed
    (see ``files.set_aside``)."""
    taken: list[float] = []
    errors: list[str] = []
    parent = os.getppid()

    def judged(found: list[str], before: int) -> list[str]:
        return found if before % 2 == 0 and before == repairs.stat().st_size else []

    def search(memory: Memory) -> None:
        before, wrong = repairs.stat().st_size, []
        start = time.perf_counter()
        found = memory.search(QUERY)
        taken.append((time.perf_counter() - start) * 1000)
        if ANCHOR not in {hit.path for hit in found.hits}:
            wrong.append(f"search {len(taken)} did not find {ANCHOR}")
        wrong.extend(f"search {len(taken)}: {line}" for line in found.warnings)
        errors.extend(judged(wrong, before))

    with ExitStack() as opened_once:
        stays, epoch = None, 0
        while not stop.exists() and os.getppid() == parent:
            before = repairs.stat().st_size
            try:
                if stays is None or epoch != killed.stat().st_size:
                    opened_once.close()
                    epoch = killed.stat().st_size
                    stays = opened_once.enter_context(Memory.open(settings, resident=True))
                search(stays)
                if len(taken) % 10 == 0:
                    with Memory.open(settings) as opened:
                        search(opened)
            except Exception as error:  # noqa: BLE001 - this is what is counted here
                errors.extend(judged([f"search {len(taken)}: {type(error).__name__}: {error}"], before))
            time.sleep(0.004)
    taken.sort()
    told.write_text(
        json.dumps(
            {
                "searches": len(taken),
                "errors": errors,
                "median": round(statistics.median(taken), 1) if taken else 0,
                "p95": round(taken[int(len(taken) * 0.95)], 1) if taken else 0,
                "max": round(taken[-1], 1) if taken else 0,
            }
        )
    )


def fork(run: Callable[[], None]) -> int:
    """Run a function in a copy of this process; its number. A fork starts in milliseconds what takes half a
    second otherwise."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        run()
        code = 0
    except BaseException:  # noqa: BLE001 - told on stderr, and by the exit code
        traceback.print_exc()
    finally:
        os._exit(code)


# -- notes ----------------------------------------------------------------------------------------------


def path_of(number: int) -> str:
    return f"memory/topic-{number % 5}/note-{number:02}.md"


def note(draw: random.Random, mark: str) -> str:
    """A note of one to four chunks with its mark in every line."""
    words = "pump router garden winter invoice meeting copper ticket harbour window lantern".split()
    return "".join(f"{mark} {' '.join(draw.choices(words, k=24))}\n" for _ in range(draw.randint(1, 40)))


def write(workspace: Path, path: str, text: str) -> None:
    """Put a file in place in one step, so that what is on the disk is one version or the other."""
    place = workspace / path
    place.parent.mkdir(parents=True, exist_ok=True)
    draft = place.with_suffix(".draft")
    draft.write_text(text, "utf-8")
    draft.replace(place)


def on_disk(workspace: Path) -> dict[str, str]:
    """The mark of every note."""
    found = {}
    for place in workspace.rglob("*.md"):
        marks = set(MARK.findall(place.read_text("utf-8")))
        assert len(marks) == 1, f"{place} was not written in one step"
        found[place.relative_to(workspace).as_posix()] = marks.pop()
    return found


if __name__ == "__main__":
    sys.exit(main())
