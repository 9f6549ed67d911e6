"""What the workbench remembers of one agent and workspace: a small JSON file, for this user alone."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from openclaw_mem_engine.redact import redacted
from openclaw_mem_engine.state import private_folder
from openclaw_mem_engine.state.disk import write_file

#: Written into the file; one with a larger number is not used, and kept.
VERSION = 1
#: A larger file is not one of ours, in bytes.
MAX_BYTES = 1024 * 1024


class WorkbenchState:
    """The file of one agent and workspace in our data folder. It is made at the first ``write``."""

    def __init__(self, folder: Path, agent: str, workspace: Path) -> None:
        key = hashlib.sha256(os.fsencode(os.path.realpath(workspace))).hexdigest()[:16]
        self.path = folder / "workbench" / f"{key}-{agent}.json"
        #: False: what was found is to stay as it is.
        self.replaceable = True

    def read(self) -> tuple[dict[str, Any], str]:
        """What was remembered ({}: nothing), and a sentence when it could not be read. A damaged file is
        moved aside."""
        try:
            with self.path.open("rb") as file:
                data = file.read(MAX_BYTES + 1)
        except FileNotFoundError:
            return {}, ""
        except OSError as error:
            return {}, self._kept(f"cannot be read ({error.strerror})")
        with suppress(ValueError, RecursionError):
            found = json.loads(data) if len(data) <= MAX_BYTES else None
            if isinstance(found, dict) and isinstance(version := found.get("version"), int):
                if version == VERSION:
                    return found, ""
                if version > VERSION:
                    return {}, self._kept("was written by a newer version of openclaw-mem")
        aside = self.path.with_suffix(".damaged")
        with suppress(OSError):
            self.path.replace(aside)
        return {}, f"What was remembered is damaged (now {aside}): this session starts without it."

    def _kept(self, why: str) -> str:
        self.replaceable = False
        return f"{self.path} {why}: this session leaves it as it is and is not remembered."

    def write(self, remembered: Mapping[str, Any]) -> None:
        """Replace what was remembered, credentials masked. Raises OSError."""
        private_folder(self.path.parent)
        temporary = self.path.with_suffix(f".{os.getpid()}.tmp")
        temporary.unlink(missing_ok=True)
        text = json.dumps(redacted({"version": VERSION, **remembered}))
        write_file(temporary, text.encode("ascii"), 0o600)
        temporary.replace(self.path)
