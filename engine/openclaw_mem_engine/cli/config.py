"""``openclaw-mem config``."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from openclaw_mem_engine.cli.opening import settings_of
from openclaw_mem_engine.cli.terminal import aligned, dim, say, setting_text, show, table
from openclaw_mem_engine.config.settings import Origin
from openclaw_mem_engine.sanitize import visible

if TYPE_CHECKING:
    from openclaw_mem_engine.config.settings import Settings
    from openclaw_mem_engine.config.show import Row
    from openclaw_mem_engine.ranking.knobs import KnobValue


def run(arguments: Namespace) -> int:
    """Every value, where it came from, and what is allowed; secrets only as ``set``."""
    from openclaw_mem_engine.answer import configured_knobs
    from openclaw_mem_engine.config.show import describe, to_dict

    settings = settings_of(arguments)
    knobs = configured_knobs(settings).to_dict()
    data = to_dict(settings)
    rows = [_with_knob(settings, row, knobs) for row in describe(settings)]
    for row in rows:
        if (name := row.key.removeprefix("query.")) in knobs:
            origin = {"kind": row.origin.kind, "where": row.origin.where}
            data["settings"][row.key] |= {"value": knobs[name], "allowed": row.allowed, "origin": origin}
    show(data, _lines(settings, rows), as_json=arguments.json)
    if not arguments.json:
        for note in settings.warnings:
            say(note.text)
    return 0


def _lines(settings: Settings, rows: Sequence[Row]) -> Iterator[str]:
    cells = [(row.key, visible(row.value_text), visible(row.origin.where), row.allowed) for row in rows]
    head, *lines = table([("setting", "value", "from", "allowed"), *cells])
    yield head
    for row, line in zip(rows, lines, strict=True):
        yield dim(line) if row.origin.kind == "default" else line
    facts = settings.openclaw
    yield ""
    yield from aligned(
        [
            ("index", visible(settings.index_name)),
            ("OpenClaw's file", visible(str(facts.config_file or "none found"))),
            ("OpenClaw's agents", ", ".join(facts.agents) or "none configured"),
            *(("not used" if key.known else "not known", key.text) for key in facts.ignored),
        ]
    )


def _with_knob(settings: Settings, row: Row, knobs: Mapping[str, KnobValue]) -> Row:
    """A row of the ranking with the value in effect, the profile's own included, its origin and its range."""
    name = row.key.removeprefix("query.")
    if name == row.key:
        return row
    origin = row.origin
    if origin.kind == "openclaw" and settings.query.overrides.get(name) != knobs[name]:
        origin = Origin("default", f"{knobs['profile']}, memory.qmd.limits")  # what is for the builtin index
    return row._replace(value_text=setting_text(knobs[name]), allowed=_allowed(name), origin=origin)


def _allowed(knob: str) -> str:
    from openclaw_mem_engine.ranking.knobs import KNOBS
    from openclaw_mem_engine.ranking.profiles import PROFILES

    return KNOBS[knob].allowed if knob in KNOBS else ", ".join(PROFILES)
