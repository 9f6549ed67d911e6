"""Which files of a sessions folder are transcripts, and what is excluded."""

# Paths are strings here, as in the listing of notes.
# ruff: noqa: PTH118

from __future__ import annotations

import os
import stat
from pathlib import Path

from openclaw_mem_engine.workspace.listing import SUFFIX_CASE
from openclaw_mem_engine.workspace.opening import LINK, printable
from openclaw_mem_engine.workspace.rules import MAX_TRANSCRIPT_BYTES, TRANSCRIPT_FOLDER, TRANSCRIPT_SUFFIX
from openclaw_mem_engine.workspace.walk import Listing, Walk

_RESET = ".jsonl.reset."
_ARCHIVES = (_RESET, ".jsonl.deleted.")


def list_transcripts(folder: Path, max_bytes: int = MAX_TRANSCRIPT_BYTES, *, ended: bool = False) -> Listing:
    """The transcripts right in ``folder``, with the paths ``sessions/<name>.jsonl``; with ``ended`` also
    those of sessions that were reset.

    Never raises: a folder that is missing, is a link or may not be read gives no files and says why. Archives
    of ended sessions (``.jsonl.reset.*``, ``.jsonl.deleted.*``) are counted, other files are not ours.
    """
    walk = Walk("sessions", max_bytes)
    shown = printable(str(folder))
    try:
        status = os.lstat(folder)
        if not stat.S_ISDIR(status.st_mode):
            reason = LINK if stat.S_ISLNK(status.st_mode) else "is not a folder"
            walk.skip(TRANSCRIPT_FOLDER, f"{shown} {reason}")
            return walk.listing()
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries]
    except FileNotFoundError:
        walk.skip(TRANSCRIPT_FOLDER, f"there are no transcripts: {shown} does not exist", by_rule=True)
        return walk.listing()
    except (OSError, ValueError) as error:
        walk.skip_for(error, TRANSCRIPT_FOLDER, "folder ")
        return walk.listing()
    for name in names:
        path = f"{TRANSCRIPT_FOLDER}/{name}"
        if name.endswith(TRANSCRIPT_SUFFIX) or (ended and _RESET in name):
            walk.take(path, os.path.join(folder, name))
        elif name.lower().endswith(TRANSCRIPT_SUFFIX):
            walk.skip(path, SUFFIX_CASE.format(TRANSCRIPT_SUFFIX))
    for mark in _ARCHIVES:
        if number := sum(mark in name for name in names):
            reason = f"{number:,} archived; the transcripts of ended sessions are not indexed"
            walk.skip(f"{TRANSCRIPT_FOLDER}/*{mark}*", reason, by_rule=True)
    walk.close_group()
    return walk.listing()
