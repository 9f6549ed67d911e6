"""Textual's command palette, under the banner when a fault is on."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.command import CommandPalette

from openclaw_mem_tui.widgets.banner import Banner


class Palette(CommandPalette):
    """Nothing covers the banner."""

    def compose(self) -> ComposeResult:
        yield Banner(classes="over")
        yield from super().compose()
