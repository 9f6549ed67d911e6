"""What to do about a damaged index, with the keys of the user."""

from __future__ import annotations

from openclaw_mem_tui.bindings import key
from openclaw_mem_tui.render.spans import Line, line, text_of


def rescue(*, here: bool = False) -> Line:
    """What to do about a damaged index; ``here``, on the screen that has the key."""
    where = () if here else line((" on screen ", "dim"), (key("show_index"), "key"))
    return line((key("repair"), "key"), *where, (" repairs", "dim"))


def damage_message(*, here: bool = False) -> str:
    """The answer to a key that needs an index that is not damaged."""
    return f"the index is damaged: {text_of(rescue(here=here))} it"
