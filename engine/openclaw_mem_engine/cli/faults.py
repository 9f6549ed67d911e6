"""``--fault``: names from the command line."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable

from openclaw_mem_engine.errors import UsageError


def faults_of(arguments: Namespace) -> frozenset[str]:
    """The faults that are asked for, one an option or several with commas. Raises UsageError."""
    if not arguments.fault:
        return frozenset()
    from openclaw_mem_engine.providers.faults import FAULTS, check_faults

    names = [name for item in arguments.fault if (name := item.strip())]
    names = [name.strip() for item in names for name in item.split(",") if name.strip()]
    if not names:
        raise UsageError(f"--fault is empty: name one of {', '.join(FAULTS)}.")
    return check_faults(names)


def in_order(faults: Iterable[str]) -> list[str]:
    """The names in the order in which they are offered."""
    from openclaw_mem_engine.providers.faults import FAULTS

    return [name for name in FAULTS if name in set(faults)]


def banner(faults: Iterable[str]) -> list[str]:
    """One line for each fault."""
    from openclaw_mem_engine.providers.faults import FAULTS

    return [f"FAULT ON PURPOSE  {name}: {FAULTS[name]}" for name in in_order(faults)]
