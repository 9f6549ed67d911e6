"""What was written into memory files: from git where it keeps them, from the texts before our own edits, and
from calls of tools; the difference that one write made, and the summary that a compaction left."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.errors import OpenClawMemError
from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.notes.edit import NoteEdit
from openclaw_mem_engine.notes.editor import KEEP_EDITS, NoteEditor, Written
from openclaw_mem_engine.redact import redact
from openclaw_mem_engine.state.events import printable
from openclaw_mem_engine.timeline.model import Moment, Session, Write
from openclaw_mem_engine.timeline.reading import line_at
from openclaw_mem_engine.timeline.records import LATEST, calls_of, change_of
from openclaw_mem_engine.workspace.rules import MEMORY_FOLDER, ROOT_FILES
from openclaw_mem_engine.workspace.transcripts import text_blocks

#: How long git may take, seconds, and how many commits are read.
GIT_TIMEOUT_S = 5.0
MOST_COMMITS = 2_000
_MOST_DIFF_CHARS = 200_000
# Reads only: no lock, no prompt, no program that a repository names.
_GIT = ("git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false")
_PLAIN = ("--no-ext-diff", "--no-textconv", "--no-color", "--relative")
_COMMIT = re.compile(r"(\d{1,12}) ([0-9a-f]{4,64})")
_NOTES = ("--", MEMORY_FOLDER, *ROOT_FILES)


class Difference(NamedTuple):
    """The lines that a write added and removed, as a unified diff or what the call of a tool says, or the
    summary of a compaction; ``source`` is a sentence about where that comes from. Without a text it says why.
    """

    text: str
    source: str


class FileDay(NamedTuple):
    """What one file got on one day (local date): counts where they are known."""

    day: str
    path: str
    writes: int
    added: int
    removed: int
    origin: str


def git_writes(workspace: Path) -> tuple[list[Moment], str]:
    """The commits that changed memory files, and a sentence about why git could not be asked ("" when it
    could, or keeps none of these files). Starts a process, and waits for it a few seconds at most."""
    shape = "--format=%ct %h%x00%s"
    text, trouble = _git(
        workspace, "log", f"-n{MOST_COMMITS}", "--no-merges", "--numstat", "-z", shape, *_PLAIN, *_NOTES
    )
    found: list[Moment] = []
    parts = iter(text.split("\0"))
    for part in parts:
        head = _COMMIT.fullmatch(part)
        if head and float(head[1]) < LATEST:
            found.append(Moment(float(head[1]), "write", head[2], why=printable(next(parts, ""))))
        elif found and part.endswith(".md"):
            last = found[-1]
            found[-1] = replace(last, writes=(*last.writes, _numstat(part, last.text)))
    named = (commit for commit in found if commit.writes)
    return [
        replace(commit, text=printable(f"commit {commit.text}: {', '.join(w.text for w in commit.writes)}"))
        for commit in named
    ], trouble


def _numstat(row: str, commit: str) -> Write:
    added, _, rest = row.strip("\n").partition("\t")
    removed, _, path = rest.partition("\t")
    lines = [int(number) if number.isdecimal() else None for number in (added, removed)]
    return Write(printable(path), lines[0], lines[1], "git", commit)


def edit_moments(edits: Iterable[Written]) -> dict[int, Moment]:
    """Our own edits whose text before them is kept, by their numbers."""
    return {
        edit.id: Moment(
            edit.at,
            "edit",
            printable(f"{edit.reason}: {write.text}"),
            why="undone" if edit.undone else "",
            writes=(write,),
        )
        for edit in edits
        for write in (Write(edit.path, edit.added, edit.removed, "pre-image", str(edit.id)),)
    }


def difference(
    settings: Settings, write: Write | None, moment: Moment, session: Session | None
) -> Difference:
    """The lines of one write; None: the summary that the compaction ``moment`` left. Reads a line of the
    transcript, a kept text, or asks git. Never raises because of what it reads."""
    try:
        if write is None:
            return _of_compaction(settings, moment, session)
        if write.origin == "git":
            return _of_commit(settings.workspace, write)
        if write.origin == "pre-image":
            return _of_edit(settings, write)
        if write.origin == "file":
            text = NoteEditor(settings).read(write.path) or ""
            return Difference(_shown(text), "the file as it is now")
        after, _ = _git(
            settings.workspace, "log", "--reverse", "--format=%h %ct", f"--since={int(moment.at)}", *_PLAIN,
            "--", write.path,
        )  # fmt: skip
        if commit := next(iter(after.split()), ""):
            found = _of_commit(settings.workspace, write._replace(ref=commit))
            if found.text:
                return found._replace(source=f"{found.source}, the first after this write")
        return _of_call(settings, write, session)
    except (OpenClawMemError, OSError, ValueError) as error:
        return Difference("", f"The text cannot be shown: {printable(str(error))}")


def _of_commit(workspace: Path, write: Write) -> Difference:
    text, trouble = _git(workspace, "show", "--format=", *_PLAIN, write.ref, "--", write.path)
    return Difference(_shown(text), trouble or f"from git, commit {write.ref}")


def _of_edit(settings: Settings, write: Write) -> Difference:
    editor = NoteEditor(settings)
    number = int(write.ref)
    later = [edit.id for edit in editor.history(KEEP_EDITS) if edit.path == write.path and edit.id > number]
    after = editor.before(min(later)) if later else editor.read(write.path)
    edit = NoteEdit(write.path, editor.before(number), after, "")
    source = f"from the text kept before change {number}"
    if (edit.added, edit.removed) != (write.added, write.removed):
        source += "; the file was modified by others since, and it includes that"
    return Difference(_shown(edit.diff()), source)


def _of_call(settings: Settings, write: Write, session: Session | None) -> Difference:
    if session is None:
        return Difference("", "The transcript of this write is not there any more.")
    offset, _, number = write.ref.partition(":")
    found = _record_at(settings, session, int(offset))
    calls = calls_of(found["message"]["content"]) if isinstance(found.get("message"), dict) else []
    if int(number) >= len(calls):
        return Difference("", "The transcript was modified since: the call is not there any more.")
    name, _, arguments = calls[int(number)]
    old, new = change_of(arguments)
    source = f"written by the agent's {printable(name)} tool"
    if new is None:
        text = str(arguments.get("command") or arguments.get("input") or arguments.get("patch") or "")
        return Difference(
            _shown(text), source if text else f"{source}; the transcript does not hold the text"
        )
    lines = [f"-{line}" for line in (old or "").splitlines()] + [f"+{line}" for line in new.splitlines()]
    return Difference(_shown("\n".join(lines)), source)


def _of_compaction(settings: Settings, moment: Moment, session: Session | None) -> Difference:
    found = _record_at(settings, session, moment.offset) if session is not None else {}
    text = "\n".join(text_blocks(found.get("summary"))) if found.get("type") == "compaction" else ""
    return Difference(_shown(text), "" if text.strip() else "The transcript does not hold the summary.")


def _record_at(settings: Settings, session: Session, offset: int) -> dict[str, Any]:
    raw = line_at(settings.openclaw.sessions_dir / Path(session.path).name, offset)
    found = json.loads(raw.decode("utf-8", "replace")) if raw else {}
    return found if isinstance(found, dict) else {}


def by_file_and_day(moments: Iterable[Moment]) -> list[FileDay]:
    """Writes of each file on each local day, the latest day first. Of one day and file only the best source
    is counted: git, else kept texts, else calls of tools."""
    found: dict[tuple[str, str], dict[str, list[Write]]] = {}
    for moment in moments:
        day = datetime.fromtimestamp(moment.at).date().isoformat()
        for write in moment.writes:
            found.setdefault((day, write.path), {}).setdefault(write.origin, []).append(write)
    days = []
    for (day, path), origins in found.items():
        origin = next(name for name in ("git", "pre-image", "file", "tool call") if name in origins)
        writes = origins[origin]
        added, removed = (sum(getattr(write, name) or 0 for write in writes) for name in ("added", "removed"))
        days.append(FileDay(day, path, len(writes), added, removed, origin))
    return sorted(days, key=lambda row: (row.day, row.path), reverse=True)


def _git(workspace: Path, *arguments: str) -> tuple[str, str]:
    """What git prints, "" when it fails or the folder is in no repository, and a sentence when it could not
    be run. It changes nothing."""
    if not any(os.path.lexists(folder / ".git") for folder in (workspace, *workspace.parents)):
        return "", ""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environ |= {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    command: Sequence[str] = (*_GIT, "-C", str(workspace), *arguments)
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            timeout=GIT_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
            env=environ,
            check=False,
        )
    except FileNotFoundError:
        return "", ""  # without git no file is kept in it
    except subprocess.TimeoutExpired:
        return "", f"git did not answer within {GIT_TIMEOUT_S:.0f} s: its commits are not shown."
    except (OSError, ValueError) as error:
        return "", f"git could not be started ({error}): its commits are not shown."
    return (done.stdout.decode("utf-8", "replace"), "") if done.returncode == 0 else ("", "")


def _shown(text: str) -> str:
    """A text for a screen or a report: secrets masked, of a long one the beginning."""
    rest = len(text) - _MOST_DIFF_CHARS
    return redact(text[:_MOST_DIFF_CHARS]) + (f"\n… {rest:,} more characters" if rest > 0 else "")
