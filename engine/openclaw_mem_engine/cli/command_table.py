"""The form of the tables of commands (``cli.arguments``, ``cli.qmd_arguments``)."""

from __future__ import annotations

from typing import Any, NamedTuple

#: One argument as ``ArgumentParser.add_argument`` takes it.
Option = tuple[tuple[str, ...], dict[str, Any]]


class Command(NamedTuple):
    """One command: its help, and the module of ``cli`` and the function that run it (default: NAME:run). One
    that has ``commands`` is run by them, by ``default`` when none is named. ``json``: whether it has an
    answer for --json."""

    name: str
    summary: str
    example: str
    details: str = ""
    options: tuple[Option, ...] = ()
    runner: str = ""
    commands: tuple[Command, ...] = ()
    default: str = ""
    json: bool = True


def option(*names: str, **how: Any) -> Option:
    return names, how


def many(name: str, metavar: str, text: str) -> Option:
    return option(name, metavar=metavar, action="append", default=[], help=f"{text}; may be repeated")


def flag(name: str, text: str) -> Option:
    return option(name, action="store_true", help=text)


#: Options of several commands.
QUERY = option(
    "--query", metavar="Q", help="the query as an option; one that begins with - is written --query=-x"
)
SET_KNOB = many(
    "--set",
    "KNOB=VALUE",
    "change one knob of the ranking, for example decay=on (`openclaw-mem config show query` lists them)",
)
NO_SYNC = flag("--no-sync", "use the index as it is, without a sync")
EXIT_STATUS = flag("--exit-status", "exit with 1 if nothing relevant was found, as grep does")
FIRST_LINE = option("--from", dest="start", metavar="N", help="first line, from 1")
SINCE = option("--since", metavar="WHEN", help="30m, 12h, 2d or 1w ago, or a date such as 2026-02-20")
YES = flag("--yes", "write without asking")
