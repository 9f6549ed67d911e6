"""``openclaw-mem remember`` and ``openclaw-mem undo``: changes of notes that are shown first."""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from openclaw_mem_engine.cli.opening import settings_of, warned_settings
from openclaw_mem_engine.cli.terminal import (
    can_ask,
    dim,
    is_terminal,
    marked,
    matched,
    one_line,
    out,
    out_bytes,
    print_json,
    say,
    show,
    strong,
    table,
)
from openclaw_mem_engine.commands import advice
from openclaw_mem_engine.errors import NoteChanged, UsageError
from openclaw_mem_engine.sanitize import visible

if TYPE_CHECKING:
    from openclaw_mem_engine.config.settings import Settings

#: How often --yes begins again with a note that another process has written meanwhile: nothing is lost then.
_TRIES = 20
#: The first letter of a line, and what it means.
_UNDO_ANSWERS = {"": "yes", "y": "yes", "n": "no", "q": "no"}
_ANSWERS = _UNDO_ANSWERS | {"m": "memory", "d": "daily"}


def run(arguments: Namespace) -> int:
    """Show where a text goes and the diff; write it after a yes."""
    from openclaw_mem_engine.notes.editor import NoteEditor
    from openclaw_mem_engine.notes.routing import remember
    from openclaw_mem_engine.notes.user_time import user_time

    settings = warned_settings(arguments)
    editor, text, target = NoteEditor(settings), " ".join(arguments.words), arguments.to
    done, tries = None, _TRIES
    while True:
        proposal = remember(editor, text, user_time(settings.user_timezone, time.time()).moment, target)
        if proposal.known:
            if arguments.json:
                print_json(proposal.to_dict() | {"written": None})
            else:
                out(f"{proposal.route.path}:{proposal.known} contains that already: nothing to write.")
            return 0
        if not arguments.json:
            out(strong(one_line(proposal.route.sentence)))
            for line in diff_lines(proposal.edit.diff()):
                out(line)
            if proposal.warning:
                out(marked(proposal.warning))
        answer = "no" if arguments.dry_run else "yes" if arguments.yes else ask(_ANSWERS)
        if answer in ("memory", "daily"):
            target = answer
            continue
        try:
            done = editor.write(proposal.edit) if answer == "yes" else None
            break
        except NoteChanged:
            tries -= 1
            if not arguments.yes or not tries:
                raise
            say(f"{proposal.edit.path} was modified meanwhile: the text is added to what it holds now.")
    if arguments.json:
        print_json(proposal.to_dict() | {"written": done.to_dict() if done else None})
    elif done is not None:
        out(f"written: {proposal.edit.in_words()}. {advice('`openclaw-mem undo` undoes it.')}")
        if why := _excluded(settings, proposal.edit.path):
            path = one_line(proposal.edit.path)
            out(f"{marked('warning')}: a search cannot find it: {path}: {one_line(why)}")
    else:
        out("nothing written" + (" (dry run)" if arguments.dry_run else ""))
    return 0


def _excluded(settings: Settings, path: str) -> str:
    """Why the index excludes a note; "" where it does not."""
    from openclaw_mem_engine.workspace.opening import NoteRefused
    from openclaw_mem_engine.workspace.reading import read_note

    try:
        read_note(str(settings.workspace / path), max_bytes=settings.max_file_bytes)
    except NoteRefused as refusal:
        return refusal.reason
    return ""


def undo(arguments: Namespace) -> int:
    """Take back an edit of a note, list the edits, or print a note as it was before one."""
    from openclaw_mem_engine.cli.parser import whole_number
    from openclaw_mem_engine.notes.editor import NO_CHANGES, NoteEditor

    if arguments.list and (arguments.show or arguments.edit is not None):
        raise UsageError("--list names all changes: leave CHANGE and --show out.")
    editor = NoteEditor(settings_of(arguments))
    number = whole_number(arguments.edit, "CHANGE", 1)
    if arguments.list:
        edits = editor.history(500)
        rows = [("change", "when", "note", "lines", "why")]
        for edit in edits:
            when = datetime.fromtimestamp(edit.at).strftime("%Y-%m-%d %H:%M")
            why = edit.reason + (" (undone)" if edit.undone else "")
            lines = f"+{edit.added} -{edit.removed}"
            rows.append((str(edit.id), when, one_line(edit.path), lines, one_line(why)))
        show(
            [edit.to_dict() for edit in edits], table(rows) if edits else [NO_CHANGES], as_json=arguments.json
        )
        return 0
    if arguments.show:
        if number is None:
            raise UsageError("--show needs the number of a change: `openclaw-mem undo --list` names them.")
        before = editor.before(number)
        if before is None:
            say(f"The note did not exist before change {number}.")
        elif is_terminal(sys.stdout):
            out(visible(before), end="")
        else:  # exactly, so that it can be sent into a file
            out_bytes(before.encode("utf-8", "surrogateescape"))
        return 0
    change = editor.propose_undo(number)
    if not arguments.json:
        for line in diff_lines(change.diff()):
            out(line)
    done = None
    if not arguments.dry_run and (arguments.yes or ask() == "yes"):
        done = editor.write(change)  # what was shown, not what would be the last edit now
    result = [f"undone: {change.in_words()}" if done else "nothing written"]
    show({"diff": change.diff(), "written": done.to_dict() if done else None}, result, as_json=arguments.json)
    return 0


def diff_lines(diff: str) -> Iterator[str]:
    """A diff for a terminal, each line coloured by its sign; text of the note acts on nothing."""
    for line in diff.split("\n")[:-1]:
        styled = {"+": matched, "-": marked, "@": dim}.get(line[:1], str)
        yield styled(visible(line))


def ask(answers: Mapping[str, str] = _UNDO_ANSWERS) -> str:
    """The answer to the diff above. Raises UsageError without a terminal to ask on."""
    if not can_ask():
        raise UsageError(
            "Nothing was written: a change of a file needs confirmation. Run it on a terminal, or add --yes."
        )
    moves = ", [m] into MEMORY.md, [d] into the daily log" if "m" in answers else ""
    while True:
        sys.stderr.write(f"Write it? [Y]es, [n]o{moves} ")
        sys.stderr.flush()
        line = sys.stdin.readline()
        if not line:
            return "no"
        if (answer := answers.get(line.strip().lower()[:1])) is not None:
            return answer
