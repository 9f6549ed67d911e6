"""What waits for an index that is damaged or cannot be opened, and what to do about it, with the keys of the
user."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openclaw_mem_tui.bindings import reach
from openclaw_mem_tui.render.spans import Line, line, text_of

if TYPE_CHECKING:
    from openclaw_mem_tui.render.status import Activity

#: Actions that need an index that can be opened, and those that need a whole one: what a fault or an edit
#: does to the answers of a damaged one says nothing. All others need none.
_OF_OPENED = frozenset(
    {
        *("focus_query", "edit_query", "previous_query", "next_query", "history", "mode", "backend", "knobs"),
        *("columns", "dropped", "baseline", "swap", "why_not", "why_not_any", "expect", "expected", "get"),
        *("guide", "next_lesson", "previous_lesson", "export", "render", "citations", "knob"),
    }
)
_OF_WHOLE = frozenset({"toggle_fault", "measure"})
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


def waiting(activity: Activity) -> frozenset[str]:
    """Ids, which are also the names of the methods, of actions that do not work now."""
    failed, damaged = activity.phase == "failed", activity.damage is not None
    return (_OF_OPENED if failed else frozenset()) | (_OF_WHOLE if failed or damaged else frozenset())


def waits_in_short(activity: Activity) -> str:
    """The answer to the key of such an action."""
    if activity.damage is not None:
        return DAMAGED
    return f"the index cannot be opened: {reach('sync', 'search')} tries again"


def in_full(said: str) -> str:
    """What was said last."""
    return f"{said}: {text_of(rescue())} it" if said == DAMAGED else said
