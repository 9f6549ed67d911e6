"""The whole command line. Parsing only; nothing is loaded for it."""

from __future__ import annotations

import argparse
import sys

from openclaw_mem_engine import __version__
from openclaw_mem_engine.cli import options
from openclaw_mem_engine.errors import UsageError
from openclaw_mem_engine.sanitize import visible

_FIRST_STEPS = """\
first steps:
  openclaw-mem demo                      see it work on a workspace of its own
  openclaw-mem search "vpn certificate"  search the workspace of your agent
  openclaw-mem search gateway --explain  ... and see why each passage is where it is
  openclaw-mem tui                       the same, live, in a full-screen workbench
  openclaw-mem providers                 whose vectors answer, and where your text goes

Without options the workspace is the one of OpenClaw's configuration (~/.openclaw/openclaw.json),
or ~/.openclaw/workspace. `openclaw-mem config` shows every value and where it came from.

exit codes: 0 done (also when nothing is relevant), 2 wrong usage, 3 configuration, 4 refused path,
5 workspace, 6 index, 7 provider, 130 stopped, 1 anything unexpected
"""


def build_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = options.Parser(
        prog="openclaw-mem",
        description="Search the Markdown memory of AI agents, and see why every passage is,\n"
        "or is not, in the answer.",
        epilog=_FIRST_STEPS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("-V", "--version", action="version", version=f"openclaw-mem {__version__}")
    options.common(parser, first=True)
    commands = parser.add_subparsers(
        dest="command", metavar="COMMAND", title="commands", parser_class=options.Parser
    )
    for add in options.COMMANDS:
        add(commands)
    return parser


def whole_number(text: str | None, option: str, least: int) -> int | None:
    """The number that an option holds. Raises UsageError."""
    if text is None:
        return None
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least or number > sys.maxsize:
        raise UsageError(
            f"{option} cannot be {visible(text)[:60]!r}: allowed is a whole number, {least} or more."
        )
    return number
