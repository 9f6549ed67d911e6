"""``openclaw-mem config``."""

from __future__ import annotations

import sys
from argparse import Namespace

from openclaw_mem_engine.cli.formats import print_json
from openclaw_mem_engine.cli.opening import settings_of
from openclaw_mem_engine.cli.terminal import Style, aligned, out, say
from openclaw_mem_engine.inert import visible


def run(arguments: Namespace) -> int:
    """Every value, where it came from, and what is allowed; secrets only as ``set``."""
    from openclaw_mem_engine.config.show import describe, to_dict

    settings = settings_of(arguments)
    if arguments.json:
        print_json(to_dict(settings))
        return 0
    rows = describe(settings)
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
