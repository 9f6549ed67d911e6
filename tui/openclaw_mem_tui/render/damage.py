"""What to do about a damaged index, with the keys of the user."""

from __future__ import annotations

from openclaw_mem_tui.bindings import reach
from openclaw_mem_tui.render.spans import Line, line, text_of

#: The answer to a key that needs an index that is not damaged, as it is kept: where it is drawn, the keys
#: that repair it follow (``in_full``).
DAMAGED = "the index is damaged"


def rescue() -> Line:
    """What to do about a damaged index."""
    return line((reach("repair"), "key"), (" repairs", "dim"))


def damaged() -> Line:
    """What is said instead of all that needs an index, which is damaged."""
    return line(("This needs the index, which is damaged. ", "warn"), *rescue(), (" it.", "dim"))


def unopened(phase: str, damage: object) -> Line:
    """What is said instead of all that needs an index, which could not be opened; () where it was."""
    if phase != "failed":
        return ()
    if damage is not None:
        return damaged()
    again = line((reach("sync", "search"), "key"), (" tries again.", "dim"))
    return line(("This needs the index, which cannot be opened. ", "warn"), *again)


def in_full(said: str) -> str:
    """What was said last."""
    return f"{said}: {text_of(rescue())} it" if said == DAMAGED else said
