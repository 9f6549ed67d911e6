"""``openclaw-mem memories``: the store of single memories."""

from __future__ import annotations

from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import zip_longest
from typing import TYPE_CHECKING

from openclaw_mem_engine.cli.opening import settings_of, warned_settings
from openclaw_mem_engine.cli.parser import whole_number
from openclaw_mem_engine.cli.terminal import crop, one_line, printed, say, show, table, width
from openclaw_mem_engine.commands import advice
from openclaw_mem_engine.errors import UsageError
from openclaw_mem_engine.redact import credential_warning

if TYPE_CHECKING:
    from openclaw_mem_engine.plugin.memories import Memories, Stored

_ID, _FULL_ID = 8, 36


@contextmanager
def _opened(arguments: Namespace, switch: str = "") -> Iterator[Memories]:
    """The memories, with what is wrong about them said on stderr. ``switch`` is the setting without which
    the agent does not do by itself what the command does."""
    from openclaw_mem_engine.config.groups import STORE
    from openclaw_mem_engine.plugin.memories import Memories

    settings = warned_settings(arguments)
    where = settings.origins["plugin.slot"].where
    if settings.plugin.slot != STORE:
        say(f"The agent does not use these memories: its memory plug-in is {settings.plugin.slot} ({where}).")
    elif switch and not getattr(settings.plugin, switch):
        where = settings.origins[f"plugin.{switch}"].where
        say(f"plugin.{switch} is off ({where}): the agent does not do this automatically.")
    with Memories(settings) as memories:
        yield memories
        for note in memories.notes:
            say(note)


def listed(arguments: Namespace) -> int:
    with _opened(arguments) as memories:
        return _print(memories.all(), arguments, "no memories are stored")


def search(arguments: Namespace) -> int:
    """The nearest, whatever their score is."""
    limit = whole_number(arguments.limit, "--limit", 1) or 5
    with _opened(arguments) as memories:
        return _print(memories.search(" ".join(arguments.words), limit, 0.0), arguments, "nothing found")


def stats(arguments: Namespace) -> int:
    with _opened(arguments) as memories:
        counts = Counter(item.category for item in memories.all())
    total = sum(counts.values())
    lines = [f"{total} memor{'y' if total == 1 else 'ies'}"]
    lines += [f"  {name}  {number}" for name, number in counts.most_common()]
    return printed(arguments, {"total": total, "categories": dict(counts)}, lines)


def store(arguments: Namespace) -> int:
    try:
        importance = float(arguments.importance)
    except ValueError:
        raise UsageError(f"--importance is {arguments.importance!r}; allowed: 0 to 1.") from None
    with _opened(arguments) as memories:
        found, is_new = memories.store(" ".join(arguments.words), arguments.category, importance)
    if is_new and (warning := credential_warning(found.text)):
        say(warning)
    said = "stored as" if is_new else "not stored: the same memory is stored as"
    data = found.to_dict() | {"action": "created" if is_new else "duplicate"}
    return printed(arguments, data, [f"{said} {found.id}: {one_line(found.text)}"])


def forget(arguments: Namespace) -> int:
    """Remove one; the beginning of its id is enough when it is the only one."""
    with _opened(arguments) as memories:
        wanted = arguments.id
        if _ID <= len(wanted) < _FULL_ID:
            near = [item.id for item in memories.all() if item.id.startswith(wanted.lower())]
            wanted = near[0] if len(near) == 1 else wanted
        gone = memories.forget(wanted)
    if not gone:
        raise UsageError(
            f"There is no memory with the id {one_line(arguments.id)!r}. "
            "`openclaw-mem memories list` shows the ids."
        )
    return printed(arguments, {"id": wanted, "action": "deleted"}, [f"forgotten: {wanted}"])


def capture(arguments: Namespace) -> int:
    """Each text with the rule that decided, and what came of it."""
    lines_of, texts = _said(arguments)
    with _opened(arguments, "auto_capture") as memories:
        found = memories.capture(texts, dry_run=arguments.dry_run)
    data, lines = [], []
    for at, item in zip_longest(lines_of, found):
        text, taken, rule, category = item.decision
        data.append(
            {"text": text, "captured": taken, "rule": rule, "category": category}
            | ({"line": at} if at else {})
            | ({"id": item.stored} if item.stored else {})
            | ({"existingId": item.duplicate_of} if item.duplicate_of else {})
        )
        done = f", stored as {item.stored[:_ID]}" if item.stored else ""
        done += f", already stored as {item.duplicate_of[:_ID]}" if item.duplicate_of else ""
        where = f" of line {at}" if at else ""
        lines.append(f"{'captured' if taken else 'refused '}  the text{where} {rule}{done}")
        lines.append(crop(f"          {one_line(text)}", width()) if at else f"          {one_line(text)}")
    if any(not item.decision.captured for item in found):
        lines.append(advice("A refused text is kept with `openclaw-mem memories store TEXT`."))
    return printed(arguments, data, lines)


def _said(arguments: Namespace) -> tuple[list[int], list[str]]:
    """The texts to decide about; those of a session with their lines in the transcript. Raises UsageError."""
    if bool(arguments.texts) == (arguments.session is not None):
        raise UsageError("Give texts, or name a session with --session.")
    if arguments.texts:
        return [], arguments.texts
    from openclaw_mem_engine.lifecycle.sessions import conversation, find_session

    session = find_session(settings_of(arguments), arguments.session)
    found = [said for said in conversation(session.file) if said.role == "user"]
    if not found:
        raise UsageError(f"The user says nothing in the transcript of session {session.label}.")
    return [said.line for said in found], [said.text for said in found]


def recall(arguments: Namespace) -> int:
    with _opened(arguments, "auto_recall") as memories:
        found = memories.recall_for(" ".join(arguments.words))
    lines = (found or "nothing is put in front of this prompt").splitlines()
    return printed(arguments, {"prependContext": found}, lines)


def _print(found: Sequence[Stored], arguments: Namespace, nothing: str) -> int:
    rows = [("id", "when", "category", "importance", "score", "text")]
    for item in found:
        when = datetime.fromtimestamp(item.created_at).strftime("%Y-%m-%d %H:%M")
        score = "-" if item.score is None else f"{item.score:.2f}"
        category = one_line(item.category)
        rows.append((item.id[:_ID], when, category, f"{item.importance:g}", score, one_line(item.text)))
    head, *texts = table(rows)
    lines = (head, *(crop(text, width()) for text in texts)) if found else (nothing,)
    show([item.to_dict() for item in found], lines, as_json=arguments.json, exact=True)
    return 0
