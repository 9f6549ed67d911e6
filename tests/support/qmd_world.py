"""A workspace whose configuration names a fake ``qmd``, for tests of the external process."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.memory import Memory
from support.fake_qmd import FakeQmd
from support.memories import settings_for, write_notes
from support.providers import Clock

NOTES = {
    "MEMORY.md": "# Facts\n\n- Nadia likes tea.\n- The router is grey.\n",
    "memory/2026-02-20.md": "The router moved to VLAN 40.\n",
}
#: A row for MEMORY.md, one outside of the workspace, and one by the document's hash alone.
ROWS = [
    {
        "in": "memory-root-main",
        "docid": "#aaaa11",
        "score": 0.9,
        "file": "qmd://memory-root-main/MEMORY.md",
        "snippet": "@@ -3,4 @@ (2 before, 9 after)\n- Nadia",
    },
    {
        "in": "notes-main",
        "docid": "#bbbb22",
        "score": 0.7,
        "file": "qmd://notes-main/sub/n.md",
        "snippet": "@@ -1,2 @@\nnote",
    },
    {"in": "memory-dir-main", "docid": "cccc33", "score": 0.4, "snippet": "router"},
]
DOCUMENTS = [("memory-dir-main", "2026-02-20.md", "cccc3344")]


class QmdWorld:
    """``qmd`` is the fake program; ``memory()`` opens a memory whose time is ``clock``."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = Clock(1_000_000.0)
        self.workspace = write_notes(root / "ws", NOTES)
        write_notes(root / "home" / "notes", {"sub/n.md": "note\nsecond\n", "other.txt": "no note"})
        self.qmd = FakeQmd(root / "bin", DOCUMENTS)
        self.qmd.answers(search={"rows": ROWS})

    def settings(self, qmd: dict[str, Any] | None = None, **memory: Any) -> Settings:
        """``qmd`` and ``memory`` are laid over the usual ``memory`` of openclaw.json."""
        usual: dict[str, Any] = {
            "command": str(self.qmd.path),
            "paths": [{"path": "~/notes", "name": "notes"}],
        }
        # Time limits of tests that do not hang are generous: other work may keep the machine busy.
        usual["limits"] = {"timeoutMs": 60_000}
        config = {"memory": {"backend": "qmd", "qmd": {**usual, **(qmd or {})}, **memory}}
        folder = self.root / "home" / ".openclaw"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "openclaw.json").write_text(json.dumps(config))
        return settings_for(self.workspace, self.root / "home", OPENCLAW_MEM_PROVIDER="static")

    def memory(self, qmd: dict[str, Any] | None = None, *, resident: bool = False, **changes: Any) -> Memory:
        settings = replace(self.settings(qmd), **changes)
        return Memory.open(settings, clock=self.clock, resident=resident)


def codes(memory: Memory, query: str = "nadia", **options: Any) -> set[str]:
    """The codes of the notes of a search."""
    return {note.code for note in memory.search(query, **options).trace.notes}
