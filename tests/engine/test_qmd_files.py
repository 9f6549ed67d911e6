"""The files of the QMD backend, each compared with the disk."""

from __future__ import annotations

import shutil
from pathlib import Path

from openclaw_mem_engine.api import with_backend
from openclaw_mem_engine.memory import Memory
from support.memories import settings_for, write_notes


def test_each_file_has_its_state(tmp_path: Path) -> None:
    notes = {"MEMORY.md": "# Heron\n", "memory/a.md": "tea\n", "memory/b.md": "grey\n"}
    root = write_notes(tmp_path / "ws", notes)
    settings = with_backend(settings_for(root, tmp_path / "home", OPENCLAW_MEM_PROVIDER="none"), "qmd")
    with Memory.open(settings) as memory:
        empty = memory.overview()
        assert empty.present is None and empty.freshness.state == "empty" and empty.number("not-indexed") == 3
        memory.sync()
        indexed = memory.overview()
        assert [(row.path, row.state, row.size) for row in indexed.files] == [
            ("MEMORY.md", "up-to-date", 8),
            ("memory/a.md", "up-to-date", 4),
            ("memory/b.md", "up-to-date", 5),
        ]
        assert indexed.freshness.state == "fresh" and indexed.counts.files == 3
        assert all(row.hash and row.mtime for row in indexed.files)
        (root / "memory/a.md").write_text("coffee\n")
        (root / "memory/b.md").unlink()
        (root / "memory/c.md").write_text("new\n")
        (root / "memory/d.md").write_bytes(b"\x00\xff\xfe")
        overview = memory.overview()
        states = {row.path: (row.state, row.delta) for row in overview.files}
        assert states["memory/a.md"] == ("modified", 3) and states["memory/b.md"] == ("deleted", 0)
        assert states["memory/c.md"] == ("not-indexed", 0) and states["MEMORY.md"] == ("up-to-date", 0)
        assert overview.freshness.changed_count == overview.number("modified", "not-indexed", "deleted")
        memory.sync()
        refused = next(row for row in memory.overview().files if row.path == "memory/d.md")
        assert refused.state == "excluded" and refused.why and not refused.chunks
        shutil.rmtree(root / "memory")
        kept = {row.path: row for row in memory.overview().files}["memory/a.md"]
        assert kept.state == "excluded" and kept.chunks == 1 and "cannot be read" in kept.why
