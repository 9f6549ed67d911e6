"""The page ``docs/keys.md``, made from the table of actions."""

from __future__ import annotations

from openclaw_mem_tui.bindings import ACTIONS, GROUPS

HEAD = """# Keys of the workbench

The bottom line of a screen has its most used keys, `?` all of them; `:` finds actions by name.

This page is made from `tui/openclaw_mem_tui/bindings.py`:
`python -c "from openclaw_mem_tui.keys_page import keys_page; print(keys_page(), end='')"`."""


def keys_page() -> str:
    """A table for each group, with the keys as they are declared."""
    parts = [HEAD]
    for group in GROUPS:
        shown = [action for action in ACTIONS if action.group == group and action.shown]
        rows = [f"| {' '.join(f'`{key}`' for key in a.shown.split())} | {a.help} |" for a in shown]
        parts.append("\n".join((f"## {group}", "", "| Key | Does |", "|---|---|", *rows)))
    return "\n\n".join(parts) + "\n"
