"""The legend of the index screen."""

from __future__ import annotations

from openclaw_mem_tui.render.spans import Reading

READING: Reading = (
    ("↑ ↓ j k", "up and down a list"),
    ("● up to date", "index matches disk"),
    ("◌ modified", "modified on disk; +48 B: 48 bytes longer"),
    ("+ not indexed", "on disk, not indexed yet"),
    ("− deleted", "deleted on disk, still in the index"),
    ("− not included", "on disk, no longer listed by the settings, still in the index"),
    ("⊘ excluded", "not indexed; the file pane shows the reason"),
    ("? not known", "the index is damaged"),
    ("= ≠", "built with the current settings; with other settings"),
    ("✗ ! i", "doctor: error, warning, information"),
    ("✓", "a check without findings"),
)
