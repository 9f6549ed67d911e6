"""The external ``qmd`` with a simulated fault: a child process that fails so, in folders of its own."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from openclaw_mem_engine.providers.faults import ON_PURPOSE
from openclaw_mem_engine.sidecar.command import QmdCommand

#: Everything but a search works, and does nothing.
_PROGRAM = """
import sys, time
words = sys.argv[1:]
if words[:1] == ["--version"]:
    print("qmd 2.8.3")
elif words[:2] == ["collection", "list"]:
    print("[]")
elif words[0] in ("search", "vsearch", "query"):
    {fault}
"""
_FAULTS = {
    "qmd-timeout": "time.sleep(3600)",
    "qmd-json": "print('<html>Bad Gateway</html>')",
    "qmd-exit": f"sys.exit('SQLiteError: disk I/O error {ON_PURPOSE}')",
}


class FaultyQmd(QmdCommand):
    """Contract: ``QmdCommand``. What is known of the configured program and its index stay as they are."""

    def __init__(self, fault: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="openclaw-mem-fault-")
        home = Path(self._folder.name)
        code = _FAULTS.get(fault)
        if code is None:
            super().__init__("qmd-missing", home)
        else:
            super().__init__(sys.executable, home)
            self.first = ("-IS", "-c", _PROGRAM.format(fault=code))

    def close(self) -> None:
        """End every call, and remove the folders."""
        super().close()
        self._folder.cleanup()
