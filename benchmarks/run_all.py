"""Run most of the benchmarks and print their tables, as Markdown.

    uv run python benchmarks/run_all.py [--quick] [> benchmarks.md]

``--quick`` takes few rounds: to see that all work, not to compare numbers.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

QUICK = {
    "cold_search": ["--rounds", "3"],
    "first_index": ["--rounds", "1"],
    "cached_reindex": ["--rounds", "1"],
    "remote_provider": ["--rounds", "2"],
    "local_model": ["--rounds", "1"],
    "rescan": ["--rounds", "3"],
    "large": ["--files", "1000", "--rounds", "2"],
    "vector_query": ["--rounds", "5"],
    "common_words": ["--rounds", "3", "--chunks", "21000"],
    "ranking": ["--rounds", "5"],
    "qmd": ["--files", "300", "--rounds", "1"],
    "resident_search": ["--files", "300", "--times", "2", "--queries", "5"],
    "why_not": ["--files", "300", "--questions", "10"],
    "quality": [],
    "workbench": ["--rounds", "3"],
    "timeline": ["--sessions", "50", "--megabytes", "20", "--rounds", "2"],
    "chunking": ["--megabytes", "1", "--rounds", "2"],
    "static_embedder": ["--megabytes", "2"],
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Most benchmarks, one after the other.")
    parser.add_argument("--quick", action="store_true", help="few rounds")
    options = parser.parse_args()
    versions = ", ".join(f"{name} {version(name)}" for name in ("numpy", "apsw", "sqlite-vec"))
    print(f"# Benchmarks, {time.strftime('%Y-%m-%d')}\n")
    print(f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}, ", end="")
    print(f"Python {platform.python_version()}, {versions}.", flush=True)
    failed = []
    for name, few in QUICK.items():
        print(f"\n## {name}.py\n", flush=True)
        script = Path(__file__).with_name(f"{name}.py")
        done = subprocess.run([sys.executable, str(script), *(few if options.quick else [])])
        if done.returncode:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
