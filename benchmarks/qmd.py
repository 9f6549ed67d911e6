"""The index of the QMD backend and the real program qmd on the same 2,000 notes (9.2 MB), whole processes.

    uv run python benchmarks/qmd.py [--files 2000] [--rounds 5]

Ours is a Python process that imports the store and does one thing. The real program is the one that
``pytest -m qmd`` installs from npm; without it, ours is measured alone.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from pathlib import Path

from _bench import Goal, Times, given, in_turn, print_times, scratch, workspace_bytes, write_workspace

from openclaw_mem_engine.qmd.collections import Collection
from openclaw_mem_engine.qmd.lexical import match_expression
from openclaw_mem_engine.stores.qmd.store import QmdStore

#: Where ``tests/support/qmd.py`` installs it.
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "openclaw-mem/qmd/2.8.3"

#: A query that no model is needed for.
TYPED = "lex: one more line"
OURS = """
import sys
from pathlib import Path
from openclaw_mem_engine.qmd.collections import Collection
from openclaw_mem_engine.qmd.lexical import match_expression
from openclaw_mem_engine.stores.qmd.store import QmdStore
step, folder, *words = sys.argv[1:]
if step == "cli":
    from openclaw_mem_engine.cli.main import run
    sys.argv[1:] = words
    sys.exit(run())  # as the command itself runs
store = QmdStore.open(Path(folder) / "index.sqlite")
if step == "add":
    store.add_collection(Collection("notes", Path(words[0])))
if step in ("add", "update"):
    print(store.update())
elif step == "search":
    rows = store.lexical(match_expression(" ".join(words)), 50).rows
    documents = store.documents(row.document for row in rows[:5])
    print([(one.uri, one.docid, one.title) for one in documents.values()])
store.close()
"""


def real_program() -> list[str] | None:
    """Its command; None when it is not installed."""
    nodes = [*map(str, (CACHE / "node_modules").glob("node-*-*/bin/node*")), "node"]
    script = CACHE / "node_modules/@tobilu/qmd/dist/cli/qmd.js"
    return [nodes[0], str(script)] if script.exists() else None


class Side:
    """One program, with a folder of its own for each index."""

    def __init__(self, command: Sequence[str], home: Path, steps: dict[str, list[str]]) -> None:
        self._command = command
        self._home = home
        self._number = count()
        self.steps = steps
        self.folder = home

    def run(self, step: str, *words: str) -> Times:
        """One process; its CPU time and wall time."""
        arguments = [part.format(folder=self.folder) for part in self.steps[step]]
        own = {"QMD_CONFIG_DIR": str(self.folder), "INDEX_PATH": str(self.folder / "index.sqlite")}
        environ = {**os.environ, **own, "HOME": str(self._home), "XDG_CACHE_HOME": str(self._home)}
        environ |= {"OPENCLAW_MEM_HOME": str(self.folder / "home")}
        environ |= {"CI": "1", "NO_COLOR": "1", "QMD_FORCE_CPU": "1"}
        before, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(
            [*self._command, *arguments, *words],
            cwd=self.folder,
            env=environ,
            check=True,
            capture_output=True,
        )
        wall = time.perf_counter() - wall
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times = Times()
        times.add(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, wall)
        return times

    def begin(self) -> None:
        """An empty folder."""
        self.folder = self._home / str(next(self._number))
        self.folder.mkdir()


def measured(sides: dict[str, Side], workspace: Path, rounds: int) -> dict[str, Times]:
    """Each step of each side, in turn; the first round is not counted."""
    steps = ("first update", "nothing changed", "one file changed", "search", "query without models")
    times = {f"{step}, {name}": Times() for step in steps for name in sides}
    changed = workspace / "memory/topic-01/note-00001.md"
    for number in range(rounds + 1):
        for side in sides.values():
            side.begin()
            if "index of the command" in side.steps:
                side.run("index of the command")
        changed.write_text(changed.read_text("utf-8") + f"One more line, {number}.\n", "utf-8")
        for step in steps:
            if step == "one file changed":
                changed.write_text(changed.read_text("utf-8") + "Another line.\n", "utf-8")
            for name, side in sides.items():
                words = ("one", "more", "line") if step == "search" else ()
                taken = side.run(step, *words)
                if number:
                    times[f"{step}, {name}"].add(taken.cpu[0] / 1000, taken.wall[0] / 1000)
    return times


def resident_searches(store: QmdStore, queries: dict[str, str]) -> dict[str, Callable[[], object]]:
    return {
        f"{what}": partial(store.lexical, match_expression(query), 200) for what, query in queries.items()
    }


def main() -> None:
    options = given(files=2_000, rounds=5)
    with scratch() as folder, tempfile.TemporaryDirectory(prefix="openclaw-mem-pycache-") as pycache:
        os.environ["PYTHONPYCACHEPREFIX"] = pycache
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        workspace = write_workspace(folder / "notes", options.files, options.files * 0.0046)
        root = str(workspace)
        command = ["cli", "-", "--workspace", root, "--provider", "none", "qmd"]
        sides = {
            "ours": Side(
                [sys.executable, "-c", OURS],
                folder / "ours",
                {
                    "first update": ["add", "{folder}", root],
                    "nothing changed": ["update", "{folder}"],
                    "one file changed": ["update", "{folder}"],
                    "search": ["search", "{folder}"],
                    "index of the command": [*command, "update"],
                    "query without models": [*command, "query", "--no-sync", "--no-rerank", TYPED],
                },
            )
        }
        real = real_program()
        if real is not None:
            sides["qmd"] = Side(
                real,
                folder / "qmd",
                {
                    "first update": ["collection", "add", root, "--name", "notes"],
                    "nothing changed": ["update"],
                    "one file changed": ["update"],
                    "search": ["search"],
                    "query without models": ["query", "--no-rerank", TYPED],
                },
            )
        for name in sides:
            (folder / name).mkdir()
        times = measured(sides, workspace, options.rounds)
        megabytes = workspace_bytes(workspace) / 1e6
        print_times(
            f"{options.files:,} notes, {megabytes:.1f} MB, whole processes",
            times,
            "search, ours",
            {
                name: Goal("wall", times[name.replace(", ours", ", qmd")].wall_best)
                for name in times
                if real is not None and name.endswith(", ours")
            },
        )
        if real is None:
            print("\nThe real program qmd is not installed (`pytest -m qmd` does that): ours alone.")
        with scratch() as own:
            store = QmdStore.open(own / "index.sqlite")
            store.add_collection(Collection("notes", workspace))
            store.update()
            common = workspace.joinpath("MEMORY.md").read_text("utf-8").split()[20:23]
            calls = {
                **resident_searches(
                    store,
                    {"a rare phrase": "note-00001", "three words": " ".join(common), "in every note": "the"},
                ),
                "update, nothing changed": store.update,
            }
            goals = {name: Goal("CPU", 10) for name in calls if "update" not in name}
            del goals["in every note"]  # 8 ms of it are SQLite's BM25 of 2,000 rows
            goals["update, nothing changed"] = Goal("CPU", 400)
            print_times(
                "Resident: 200 rows of a search", in_turn(calls, 4 * options.rounds), "in every note", goals
            )
            store.close()


if __name__ == "__main__":
    main()
