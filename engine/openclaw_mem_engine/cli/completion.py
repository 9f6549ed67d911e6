"""``openclaw-mem completion SHELL``: a completion script made from the parser."""

from __future__ import annotations

import argparse
import re
from argparse import Namespace
from collections.abc import Mapping, Sequence

from openclaw_mem_engine.cli.terminal import show


def run(arguments: Namespace) -> int:
    """Print the script; the shell reads it, as docs/install.md says."""
    import shtab

    from openclaw_mem_engine.cli.parser import build_parser

    parser = build_parser(_Everything())
    _describe(parser, _values())
    script = shtab.complete(parser, arguments.shell)
    # Its own advice on where to put the script is not that of docs/install.md.
    script = re.sub(r"^# Usage:\n(#.*\n)*", "", script, flags=re.MULTILINE)
    show({"shell": arguments.shell, "script": script}, [script], as_json=arguments.json)
    return 0


class _Everything:
    """A command line that holds every command."""

    def __contains__(self, _name: object) -> bool:
        return True


def _values() -> Mapping[str, Sequence[str]]:
    """What an option takes, by its name, or by its placeholder in the help."""
    from openclaw_mem_engine.config.settings import PROVIDER_NAMES
    from openclaw_mem_engine.providers.faults import FAULTS
    from openclaw_mem_engine.ranking.knobs import KNOBS
    from openclaw_mem_engine.ranking.profiles import SELECTABLE

    return {
        "--provider": PROVIDER_NAMES,
        "--profile": SELECTABLE,
        "--fault": tuple(FAULTS),
        "--set": [f"{name}=" for name in KNOBS],
    }


def _describe(parser: argparse.ArgumentParser, values: Mapping[str, Sequence[str]]) -> None:
    """Say which options take which words, files or folders; commands are described by their summary alone."""
    import shtab

    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for summary in action._choices_actions:
                command = action.choices[summary.dest]
                command.description = summary.help
                _describe(command, values)
            continue
        kind = {"DIR": shtab.DIRECTORY, "FILE": shtab.FILE}.get(str(action.metavar))
        if kind is not None:
            action.complete = kind  # type: ignore[attr-defined]
        for name in action.option_strings:
            action.choices = values.get(name, action.choices)
