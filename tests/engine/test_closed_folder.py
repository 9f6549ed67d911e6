"""The folder of an index that is closed to this user while the index is open."""

from __future__ import annotations

from pathlib import Path

import filelock  # noqa: F401 - the other user may not read the libraries
import pytest

from openclaw_mem_engine.errors import IndexUnavailable
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.sync.report import SyncRequest
from support.memories import settings_for, write_notes


@pytest.mark.parametrize("resident", [False, True])
def test_it_is_named_with_what_opens_it(as_nobody: Path, resident: bool) -> None:
    workspace = write_notes(as_nobody / "ws", {"MEMORY.md": "the router is gull\n"})
    settings = settings_for(workspace, as_nobody / "home", OPENCLAW_MEM_PROVIDER="none")
    folder = settings.index_path.parent
    with Memory.open(settings, resident=resident) as memory:
        memory.sync()
        folder.chmod(0)
        try:
            for does in (
                lambda: memory.search("router"),
                lambda: memory.sync(),
                lambda: memory.sync(SyncRequest(force=True)),
                memory.freshness,
                lambda: memory.why_not("router", "MEMORY.md", 1),
            ):
                with pytest.raises(IndexUnavailable, match=rf"may not use .*{folder.name}.*chmod u\+rwX"):
                    does()
        finally:
            folder.chmod(0o700)
        assert memory.search("router").hits
