"""The application: themes, the screens, the palette; ``run`` is what the command line calls."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from textual.app import App, SystemCommand
from textual.binding import Binding
from textual.screen import Screen

from openclaw_mem_themes import DEFAULT, ThemeError
from openclaw_mem_tui.bindings import offered
from openclaw_mem_tui.features.search.guide import DemoGuide
from openclaw_mem_tui.features.search.presenter import Lab
from openclaw_mem_tui.features.search.screen import SearchScreen
from openclaw_mem_tui.screens.palette import Palette
from openclaw_mem_tui.service import NO_FAULTS, Factory, Service
from openclaw_mem_tui.themes import chosen_theme, mixed_variables, our_themes

if TYPE_CHECKING:
    from openclaw_mem_tui.bindings import Where
    from openclaw_mem_tui.screens.subscreen import OverScreen


#: Actions that the palette leaves out: they are there, or they need a place.
_NOT_BY_NAME = frozenset(
    {"palette", "cancel", "leave", "next_list", "pane_down", "pane_up", "next_of_index", "previous_of_index"}
    | {"detail_down", "detail_up", "leave_index", "text_down", "text_up", "leave_chunks"}
)


class Workbench(App[int]):
    """Terminal workbench of openclaw-mem."""

    TITLE = "openclaw-mem"
    CSS_PATH = ["styles/base.tcss", "styles/search.tcss", "styles/providers.tcss", "styles/index.tcss"]  # noqa: RUF012 - Textual reads it from the class
    BINDINGS = [  # noqa: RUF012
        Binding("ctrl+q", "quit", show=False, priority=True),
        Binding("f1", "screen.help", show=False),
    ]

    def __init__(
        self,
        memory_factory: Factory,
        *,
        demo: DemoGuide | None = None,
        initial_query: str = "",
        theme: str | None = None,
        theme_folder: Path | None = None,
        faults: frozenset[str] = NO_FAULTS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__()
        self.service = Service(memory_factory, clock)
        self.lab = Lab(self.service, demo is not None, faults)
        self.guide = demo
        self.initial_query = initial_query
        self.search_screen = SearchScreen(self.lab, demo, initial_query)
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
        return self.search_screen

    def on_mount(self) -> None:
        if self.theme_trouble:
            self.lab.say(self.theme_trouble)

    async def on_unmount(self) -> None:
        await self.service.close()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Every action of the screen by name, then the themes."""
        where: Where = getattr(screen, "WHERE", "lab")
        for action in offered(where):
            if (action.group == "Hits" and not action.rank) or action.id in _NOT_BY_NAME:
                continue
            if screen.check_action(action.id, ()):
                yield SystemCommand(
                    action.help[:1].upper() + action.help[1:],
                    f"key {action.shown}",
                    lambda name=action.id: self.call_later(self.run_action, f"screen.{name}"),
                )
        if where == "lab" and self.lab.view.shown_faults:
            yield SystemCommand("Switch all faults off", "healthy answers again", self.action_clear_faults)
        yield SystemCommand("Theme", "change the colours", self.action_change_theme)

    # -- screens ------------------------------------------------------------------------------------------

    def action_show_search(self) -> None:
        """Down to the lab."""
        while len(self.screen_stack) > 1:
            self.pop_screen()

    def action_show_providers(self) -> None:
        self._show("providers", self._make_providers)

    def action_show_index(self) -> None:
        self._show("index", self._make_index)

    def _show(self, name: str, make: Callable[[], OverScreen]) -> None:
        """One screen over the lab, which keeps its state; built when it is first asked for."""
        if not self.is_screen_installed(name):
            self.install_screen(make(), name)
        if self.screen is not self.get_screen(name):
            self.action_show_search()
            self.push_screen(name)

    def _make_providers(self) -> OverScreen:
        from openclaw_mem_tui.features.providers.screen import ProvidersScreen

        return ProvidersScreen(self.lab, self.search_screen.switch_faults)

    def _make_index(self) -> OverScreen:
        from openclaw_mem_tui.features.index.screen import IndexScreen

        return IndexScreen(self.lab, self.search_screen.resync)

    def action_clear_faults(self) -> None:
        self.search_screen.switch_faults(NO_FAULTS)

    def action_command_palette(self) -> None:
        if not isinstance(self.screen, Palette):
            self.push_screen(Palette(id="--command-palette"))


def run(
    memory_factory: Factory,
    *,
    demo: DemoGuide | None = None,
    initial_query: str = "",
    theme: str | None = None,
    theme_folder: Path | None = None,
    faults: frozenset[str] = NO_FAULTS,
) -> int:
    """Open the workbench and stay until the user quits; returns the exit code.

    ``memory_factory`` is called in a worker thread after the first frame, with the faults that the memory is
    to have; what it raises (``OpenClawMemError``) is shown on the screen. ``faults`` are on from the start.
    ``theme`` is a name or a path to a TOML file; ``theme_folder`` is where the user's own themes lie.
    """
    app = Workbench(
        memory_factory,
        demo=demo,
        initial_query=initial_query,
        theme=theme,
        theme_folder=theme_folder,
        faults=faults,
    )
    return app.run() or 0
