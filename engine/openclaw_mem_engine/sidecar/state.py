"""What is known of the external program from one process to the next: a small JSON file in its folder."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.redact import redact
from openclaw_mem_engine.sanitize import visible
from openclaw_mem_engine.sidecar.paths import qmd_home
from openclaw_mem_engine.state import private_folder
from openclaw_mem_engine.state.disk import read_file, replace_file

_MOST_BYTES = 100_000
#: A failed backend is asked again by the first search after so many seconds, then after twice as many.
RETRY_S, RETRY_MAX_S = 10.0, 600.0


@dataclass(frozen=True, slots=True)
class QmdFacts:
    """Times are epoch seconds; 0 is never, and no failure. ``retry_s`` is the wait after the next failure,
    ``command`` the program that failed. ``tried_at`` is the last update, also one that failed; ``generation``
    is that of the built-in index whose notes an update has seen (0: not known). ``collections`` is a digest
    of those that the index was seen to have, ``version`` that of the program file with the size and time
    ``program``. The ``embed_`` fields are of failures to make vectors."""

    failed_since: float = 0.0
    retry_at: float = 0.0
    retry_s: float = 0.0
    reason: str = ""
    command: str = ""
    updated_at: float = 0.0
    tried_at: float = 0.0
    generation: int = 0
    update_error: str = ""
    embedded_at: float = 0.0
    embed_error: str = ""
    embed_retry_at: float = 0.0
    embed_retry_s: float = 0.0
    collections: str = ""
    program: str = ""
    version: tuple[int, ...] = ()

    def failing(self, command: str, now: float) -> bool:
        """Whether ``command`` failed and was not found working since; not for a time that no failure sets."""
        return 0 < self.retry_at <= now + RETRY_MAX_S and self.command == command


class QmdState:
    """The facts, read at each use: another process may have changed them. Thread-safe. A file that cannot
    be read counts as absent; one that cannot be written is kept in memory."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._guard = threading.Lock()
        self._unwritten: QmdFacts | None = None

    @property
    def facts(self) -> QmdFacts:
        with self._guard:
            return self._read()

    def change(self, change: Callable[[QmdFacts], QmdFacts]) -> QmdFacts:
        with self._guard:
            before = self._read()
            after = change(before)
            if after != before:
                self._write(after)
            return after

    def set(self, **values: Any) -> QmdFacts:
        """Change some fields; texts become one printable line without secrets."""
        clean: dict[str, Any] = {
            name: " ".join(visible(redact(value)).split()) if isinstance(value, str) else value
            for name, value in values.items()
        }
        return self.change(lambda facts: replace(facts, **clean))

    def answered(self) -> None:
        """The program works: forget its failure."""
        self.set(failed_since=0.0, retry_at=0.0, retry_s=0.0, reason="", command="")

    def failed(self, command: str, reason: str, now: float) -> QmdFacts:
        """Keep that ``command`` failed, and wait longer than after the failure before."""

        def change(facts: QmdFacts) -> QmdFacts:
            again = facts.failing(command, now)
            wait = min(RETRY_MAX_S, 2 * facts.retry_s) if again else RETRY_S
            since = facts.failed_since if again else now
            return replace(facts, failed_since=since, retry_s=wait, retry_at=now + wait, command=command)

        self.change(change)
        return self.set(reason=reason)

    def _read(self) -> QmdFacts:
        if self._unwritten is not None:
            return self._unwritten
        try:
            found = json.loads(read_file(self._file, _MOST_BYTES))
        except (OSError, ValueError, RecursionError):
            return QmdFacts()
        if not isinstance(found, dict):
            return QmdFacts()
        kept: dict[str, Any] = {}
        for item in fields(QmdFacts):
            value = found.get(item.name)
            value = tuple(value) if isinstance(value, list) else value
            if type(value) is type(item.default):  # as it was written
                kept[item.name] = value
        return QmdFacts(**kept)

    def _write(self, facts: QmdFacts) -> None:
        try:
            private_folder(self._file.parent)
            replace_file(self._file, json.dumps(asdict(facts)).encode("ascii"))
            self._unwritten = None
        except OSError:
            self._unwritten = facts


def known_of(settings: Settings) -> QmdFacts | None:
    """What is known of the configured program; None where none is configured."""
    return QmdState(qmd_home(settings) / "state.json").facts if settings.qmd_process else None
