"""A PostgreSQL server that is stopped at once while it writes (more often: benchmarks/server_kills.py)."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from support import postgres
from support.server_kills import kills


def test_a_server_that_stops_at_once_tears_and_loses_nothing(tmp_path: Path) -> None:
    postgres.need_wheel()
    with TemporaryDirectory() as name:  # not tmp_path: its parents are closed to the user of the server
        Path(name).chmod(0o755)
        server = postgres.start(Path(name, "server"), fsync=True)
        try:
            found = kills(server, tmp_path, 3)
        finally:
            server.end()
    assert found.wrong == []
    assert found.stops == 3 and found.under_way > 0 and found.acknowledged >= 3
    says = ("shutting down or starting", "cannot be used", "could not do this")
    assert all(any(words in refusal for words in says) for refusal in found.refusals), found.refusals
