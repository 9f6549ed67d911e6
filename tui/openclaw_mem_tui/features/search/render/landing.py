"""What stands in the hit list before there is a query: what can be searched, and how to begin."""

from __future__ import annotations

from openclaw_mem_tui.features.search.lessons import DemoGuide
from openclaw_mem_tui.features.search.state import View
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.spans import Line, line
from openclaw_mem_tui.render.status import Activity

_KEYS = (
    ("/", "search as you type"),
    ("p", "turn every knob of the ranking, live"),
    ("v", "scores, ranks or contributions"),
    ("b", "pin a run and compare with it"),
    ("?", "all keys, and how to read the rows"),
)


def landing(view: View, activity: Activity, guide: DemoGuide | None) -> list[Line]:
    """Never an empty pane without a reason."""
    if activity.phase == "failed":
        return [
            (),
            line("  ", ("The memory cannot be searched.", "strong")),
            line(("  The reason is below. ", "dim"), ("r", "key"), (" tries again.", "dim")),
        ]
    if view.error:
        return [(), line("  ", ("The search failed; the reason is below.", "strong"))]
    if view.query.strip():
        return [(), line("  ", ("Searching…", "dim"))]
    if activity.phase == "opening":
        told = "Opening the index. You can type already."
    elif activity.phase == "syncing":
        told = "Reading the notes. You can type already."
    elif activity.freshness is None:
        told = "Looking at what is indexed. You can type already."
    elif not activity.files:
        told = "There is no note to search yet: write MEMORY.md or memory/*.md."
    else:
        files, chunks = fmt.count(activity.files, "file"), fmt.count(activity.chunks, "chunk")
        told = f"{files}, {chunks}. Type to search them."
    keys = [*_KEYS, *([("g", "the lessons of the demo")] if guide is not None else [])]
    rows = [line("  ", (fmt.left(key, 3), "key"), (text, "dim")) for key, text in keys]
    return [(), line("  ", (told, "strong")), (), *rows]
