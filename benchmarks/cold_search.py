"""One search as a whole process, on a workspace of 2,000 notes and 9 MB that is already indexed.

    uv run python benchmarks/cold_search.py [--files 2000] [--megabytes 9] [--rounds 15]

Baseline: a Python process that only imports NumPy and apsw (and one that does nothing), and the search of
the program qmd, where ``pytest -m qmd`` has installed it: it compares no vectors and looks at no file.
The files lie in the page cache, as they do on a machine where an agent works.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from _bench import (
    environment,
    given,
    keep_row,
    print_times,
    processes_in_turn,
    scratch,
    settings_for,
    workspace_bytes,
    write_workspace,
)
from qmd import real_program

from openclaw_mem_engine.memory import Memory

PROGRAM = Path(sys.executable).with_name("openclaw-mem")
LIBRARY = """
import sys
from pathlib import Path
from openclaw_mem_engine.config.load import load_settings
from openclaw_mem_engine.memory import Memory
import os
where = Path(sys.argv[1])
settings = load_settings(workspace=where, environ=os.environ, home=where, cwd=where)
with Memory.open(settings) as memory:
    for hit in memory.search(sys.argv[2]).hits:
        print(hit.path, hit.score)
"""


def main() -> None:
    options = given(files=2_000, megabytes=9.0, rounds=15)
    with scratch() as folder:
        workspace = write_workspace(folder / "workspace", options.files, options.megabytes)
        with Memory.open(settings_for(workspace, folder / "home")) as memory:
            memory.sync()
        question = (workspace / "MEMORY.md").read_text("utf-8").splitlines()[0].strip("#. ")
        python = [sys.executable, "-c"]
        search = [str(PROGRAM), "search", question, "--workspace", str(workspace)]
        commands = {
            "python -c pass": [*python, "pass"],
            'python -c "import numpy, apsw"': [*python, "import numpy, apsw"],
            "openclaw-mem --version": [str(PROGRAM), "--version"],
            "search through Memory": [*python, LIBRARY, str(workspace), question],
            "openclaw-mem search": search,
            "openclaw-mem search --no-sync": [*search, "--no-sync"],
            "openclaw-mem search --profile workbench": [*search, "--profile", "workbench"],
            "openclaw-mem search --explain --json": [*search, "--explain", "--json"],
        }
        environ = environment(folder / "home")
        if (qmd := real_program()) is not None:
            own = {"QMD_CONFIG_DIR": str(folder), "INDEX_PATH": str(folder / "qmd.sqlite"), "CI": "1"}
            environ |= own | {"QMD_FORCE_CPU": "1", "NO_COLOR": "1"}
            adding = [*qmd, "collection", "add", str(workspace), "--name", "notes"]
            subprocess.run(adding, check=True, capture_output=True, env={**os.environ, **environ})
            commands["qmd search"] = [*qmd, "search", question]
        sizes = {"index": folder / "home/data/indexes", "qmd index": folder / "qmd.sqlite"}
        for name, path in sizes.items():
            files = path.rglob("*") if path.is_dir() else [path]
            if size := sum(file.stat().st_size for file in files if file.is_file()):
                keep_row(f"{name}, MB", size / 1e6)
                print(f"\n{name}: {size / 1e6:.1f} MB")
        times = processes_in_turn(commands, environ, options.rounds)
        megabytes = workspace_bytes(workspace) / 1e6
    print_times(
        f"Search as a whole process: {options.files:,} notes, {megabytes:.1f} MB, warm index",
        times,
        'python -c "import numpy, apsw"',
    )
    if "qmd search" in times:
        qmd_ms = times["qmd search"].cpu_median
        for name in ("openclaw-mem search", "openclaw-mem search --no-sync"):
            print(f"\n{name}: {times[name].cpu_median / qmd_ms:.2f} times `qmd search`.")


if __name__ == "__main__":
    main()
