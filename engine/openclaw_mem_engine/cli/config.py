"""``openclaw-mem config``."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Mapping
from typing import TYPE_CHECKING

from openclaw_mem_engine.cli.opening import settings_of
from openclaw_mem_engine.cli.terminal import Style, aligned, out, print_json, say, setting_text
from openclaw_mem_engine.sanitize import visible

if TYPE_CHECKING:
    from openclaw_mem_engine.config.show import Row
    from openclaw_mem_engine.ranking.knobs import KnobValue


def run(arguments: Namespace) -> int:
    """Every value, where it came from, and what is allowed; secrets only as ``set``."""
    from openclaw_mem_engine.answer import configured_knobs
    from openclaw_mem_engine.config.show import describe, to_dict

    settings = settings_of(arguments)
    knobs = configured_knobs(settings).to_dict()
    if arguments.json:
        found = to_dict(settings)
        for name, value in knobs.items():
            found["settings"][f"query.{name}"] |= {"value": value, "allowed": _allowed(name)}
        print_json(found)
        return 0
    rows = [_with_knob(row, knobs) for row in describe(settings)]
    style = Style.of(sys.stdout)
    table = [("setting", "value", "from", "allowed")]
    table += [(row.key, visible(row.value_text), visible(row.origin.where), row.allowed) for row in rows]
    head, *lines = aligned(table)
    out(style.strong(head))
    for row, line in zip(rows, lines, strict=True):
        out(style.dim(line) if row.origin.kind == "default" else line)
    facts = settings.openclaw
    out("")
    for line in aligned(
        [
            ("index", visible(str(settings.index_path))),
            ("OpenClaw's file", visible(str(facts.config_file or "none found"))),
            ("OpenClaw's agents", ", ".join(facts.agents) or "none configured"),
        ]
    ):
        out(line)
    for note in settings.warnings:
        say(note.text)
    return 0


def _with_knob(row: Row, knobs: Mapping[str, KnobValue]) -> Row:
    """A row of the ranking with the value in effect, the profile's own included, and its range."""
    name = row.key.removeprefix("query.")
    if name == row.key:
        return row
    return row._replace(value_text=setting_text(knobs[name]), allowed=_allowed(name))


def _allowed(knob: str) -> str:
    from openclaw_mem_engine.ranking.knobs import KNOBS, PROFILES

    return KNOBS[knob].allowed if knob in KNOBS else ", ".join(PROFILES)
