"""``openclaw-mem why-not``: why a search does not return a passage, and what would bring it in."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from openclaw_mem_engine.cli.get import refused
from openclaw_mem_engine.cli.opening import open_memory, warned_settings
from openclaw_mem_engine.cli.search import knobs_of, query_of, up_to_date
from openclaw_mem_engine.cli.terminal import (
    hanging,
    one_line,
    show,
    stoppable,
    strong,
    width,
)
from openclaw_mem_engine.commands import advice
from openclaw_mem_engine.errors import PathRefused
from openclaw_mem_engine.ranking.knobs import knob_text

if TYPE_CHECKING:
    from openclaw_mem_engine.ranking.knobs import KnobValue
    from openclaw_mem_engine.why_not import Change, Step, WhyNot

#: Other passages that a change costs, named; the rest is counted.
_LOST_NAMED = 3
_NAME_WIDTH = 12


def run(arguments: Namespace) -> int:
    """Bring the index up to date as a search does, walk, print."""
    from openclaw_mem_engine.workspace.opening import NoteRefused
    from openclaw_mem_engine.workspace.reading import parse_location
    from openclaw_mem_engine.workspace.rules import NOTE_SUFFIX

    query, where = query_of(arguments), parse_location(arguments.location)
    settings = warned_settings(arguments)
    with open_memory(settings) as memory, stoppable() as token:
        knobs = knobs_of(memory, arguments)
        configured = knobs == memory.knobs
        try:
            with up_to_date(memory, arguments, token):
                asked = query, where.path, where.start_line, knobs, token, arguments.session_key
                answer = memory.why_not(*asked, where.end_line)
        except NoteRefused as refusal:
            said = refused(settings, refusal, where.path)
            if NOTE_SUFFIX not in where.path:  # words of the passage, perhaps
                said = PathRefused(f"{said} Name the passage as PATH:LINE, for example MEMORY.md:12.")
            raise said from refusal
    show(answer.to_dict(), _lines(answer, configured=configured), as_json=arguments.json)
    return 0


def _mark(step: Step) -> str:
    if step.facts.get("displaced"):
        return "out"
    return ("low" if step.facts.get("rescued") else "ok") if step.ok else "no"


def _lines(answer: WhyNot, *, configured: bool) -> Iterator[str]:
    from openclaw_mem_engine.why_not import ONLY_HERE_MEANS

    yield from map(strong, hanging(one_line(answer.text), 0))
    yield ""
    wide = max((_NAME_WIDTH, *(len(step.name) for step in answer.steps)))
    for step in answer.steps:
        mark = _mark(step)
        yield from _entry(f"{mark:3} {step.name.replace('_', ' '):{wide}}", step.text)
    if answer.no_change:
        yield ""
        yield from hanging(advice(one_line(answer.no_change)), 2)
    if answer.changes:
        title = "each of these returns it" if answer.changes[1:] else "this returns it"
        marked = any(change.mark for change in answer.changes)
        yield from ("", strong(title) + f" ({ONLY_HERE_MEANS})" * marked)
        for change in answer.changes:
            settings = " ".join(f"{name}={knob_text(name, value)}" for name, value in change.set.items())
            yield from _entry(f"  {settings}{change.mark}:", _effect(change))
        yield from ("", strong("to apply the first"))
        yield from _applied(answer.changes[0].set, configured=configured)
    if answer.text_changes:
        of_notes = answer.text_changes[0].kind != "index"
        yield from ("", strong("in the notes" if of_notes else "next"))
        for text_change in answer.text_changes:
            yield from _entry(" ", text_change.text)
    others = [note for note in answer.notes if note.text != answer.no_change]
    if others:
        yield ""
    for note in others:
        yield from _entry("note:" if note.level == "info" else f"{note.level}:", note.text)


def _effect(change: Change) -> str:
    named = ", ".join(change.lost[:_LOST_NAMED])
    more = len(change.lost) - _LOST_NAMED
    parts = [
        f"rank {change.rank}",
        f", {change.effect}",
        f": {named}{f' and {more} more' if more > 0 else ''}" if change.lost else "",
        f"; {change.how}" if change.how else "",
        f"; {change.since}" if change.since else "",
        f" ({change.says})",
    ]
    return "".join(parts)


def _applied(change: Mapping[str, KnobValue], *, configured: bool) -> Iterator[str]:
    """How a change is made for one search; if the question had the ``configured`` ranking, also for good."""
    from openclaw_mem_engine.config.knob_settings import openclaw_key, openclaw_value

    given = [f"{name}={knob_text(name, value)}" for name, value in change.items()]
    yield from _entry("  one search:", f"add {' '.join(f'--set {one}' for one in given)}")
    if not configured:
        return
    ours = " ".join(f"query.{one}" for one in given)
    yield from _entry("  all searches of openclaw-mem:", f"`openclaw-mem config set {ours}`")
    keys = [(openclaw_key(name, value), openclaw_value(name, value)) for name, value in change.items()]
    if all(key for key, _ in keys):
        theirs = ", ".join(f"agents.defaults.memorySearch.{key}: {json.dumps(value)}" for key, value in keys)
        yield from _entry("  the agent:", f"{theirs} in openclaw.json")


def _entry(name: str, text: str) -> list[str]:
    """A name and its text, which goes on below itself."""
    return hanging(advice(f"{name} {one_line(text)}"), len(name) + 1 if len(name) < width() // 3 else 4)
