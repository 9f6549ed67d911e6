"""What is kept in one state database, whatever it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openclaw_mem_engine.model import Note
    from openclaw_mem_engine.state.database import StateDatabase


class StateRecords:
    """What is kept in one ``StateDatabase``. Thread-safe. No method raises because of the file."""

    _file: StateDatabase

    @property
    def note(self) -> Note | None:
        """Why the file cannot be used and what to do; None as long as it can."""
        return self._file.note

    def now(self) -> float:
        """Epoch seconds."""
        return self._file.now()

    def close(self) -> None:
        """Close the file. May be called twice; a later call opens it again (what was in memory is gone)."""
        self._file.close()
