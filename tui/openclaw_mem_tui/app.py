"""The application: themes, the one screen, the palette; ``run`` is what the command line calls."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from textual.app import App, SystemCommand
from textual.binding import Binding
from textual.screen import Screen

from openclaw_mem_themes import DEFAULT, ThemeError
from openclaw_mem_tui.bindings import ACTIONS
from openclaw_mem_tui.guide import DemoGuide
from openclaw_mem_tui.screens.search import SearchScreen
from openclaw_mem_tui.service import Service
from openclaw_mem_tui.themes import chosen_theme, mixed_variables, our_themes

if TYPE_CHECKING:
    from openclaw_mem_engine.memory import Memory


class Workbench(App[int]):
    """Terminal workbench of openclaw-mem."""

    TITLE = "openclaw-mem"
    CSS_PATH = ["styles/base.tcss", "styles/search.tcss"]  # noqa: RUF012 - Textual reads it from the class
    BINDINGS = [  # noqa: RUF012
        Binding("ctrl+q", "quit", show=False, priority=True),
        Binding("f1", "screen.help", show=False),
    ]

    def __init__(
        self,
        memory_factory: Callable[[], Memory],
        *,
        demo: DemoGuide | None = None,
        initial_query: str = "",
        theme: str | None = None,
        theme_folder: Path | None = None,
    ) -> None:
        super().__init__()
        self.service = Service(memory_factory)
        self.guide = demo
        self.initial_query = initial_query
        self.theme_trouble = ""
        for own in our_themes():
            self.register_theme(own)
        self._choose_theme(theme or os.environ.get("TEXTUAL_THEME") or DEFAULT, theme_folder)

    def _choose_theme(self, name: str, folder: Path | None) -> None:
        if name in self.available_themes and not (folder and (folder / f"{name}.toml").is_file()):
            self.theme = name
            return
        try:
            chosen = chosen_theme(name, folder)
        except ThemeError as error:
            self.theme_trouble = str(error)
            self.theme = DEFAULT
            return
        self.register_theme(chosen)
        self.theme = chosen.name

    def get_css_variables(self) -> dict[str, str]:
        variables = super().get_css_variables()
        return {**mixed_variables(variables), **variables}

    def get_default_screen(self) -> Screen[None]:
        return SearchScreen(self.service, self.guide, self.initial_query)

    def on_mount(self) -> None:
        if self.theme_trouble:
            screen = self.screen
            if isinstance(screen, SearchScreen):
                screen.lab.say(self.theme_trouble)

    async def on_unmount(self) -> None:
        await self.service.close()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Every action of the lab by name, then the themes."""
        for action in ACTIONS:
            if (
                action.where != "lab"
                or (action.group == "Hits" and not action.rank)
                or action.id in ("palette", "cancel")
            ):
                continue
            if screen.check_action(action.id, ()):
                yield SystemCommand(
                    action.help[:1].upper() + action.help[1:],
                    f"key {action.shown}",
                    lambda name=action.id: self.call_later(self.run_action, f"screen.{name}"),
                )
        yield SystemCommand("Theme", "change the colours", self.action_change_theme)


def run(
    memory_factory: Callable[[], Memory],
    *,
    demo: DemoGuide | None = None,
    initial_query: str = "",
    theme: str | None = None,
    theme_folder: Path | None = None,
) -> int:
    """Open the workbench and stay until the user quits; returns the exit code.

    ``memory_factory`` is called in a worker thread after the first frame; what it raises
    (``OpenClawMemError``) is shown on the screen. ``theme`` is a name or a path to a TOML file;
    ``theme_folder`` is where the user's own themes lie.
    """
    app = Workbench(
        memory_factory, demo=demo, initial_query=initial_query, theme=theme, theme_folder=theme_folder
    )
    return app.run() or 0
