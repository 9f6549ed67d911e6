"""The form of the tables of commands (``cli.arguments``, ``cli.qmd_arguments``)."""

from __future__ import annotations

from typing import Any, NamedTuple

#: One argument as ``ArgumentParser.add_argument`` takes it.
Option = tuple[tuple[str, ...], dict[str, Any]]


class Command(NamedTuple):
    """One command: its help, and the module of ``cli`` and the function that run it (default: NAME:run). One
    that has ``commands`` is run by them."""

    name: str
    summary: str
    example: str
    details: str = ""
    options: tuple[Option, ...] = ()
    runner: str = ""
    commands: tuple[Command, ...] = ()


def option(*names: str, **how: Any) -> Option:
    return names, how


def many(name: str, metavar: str, text: str) -> Option:
    return option(name, metavar=metavar, action="append", default=[], help=f"{text}; may be repeated")


def flag(name: str, text: str) -> Option:
    return option(name, action="store_true", help=text)
