"""The application: themes, screens, palette."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual.await_complete import AwaitComplete
from textual.binding import Binding
from textual.dom import DOMNode
from textual.screen import Screen
from textual.timer import Timer

from openclaw_mem_engine.api import OpenClawMemError, knob_words
from openclaw_mem_themes import BUILT_IN, DEFAULT, ThemeError, load_theme
from openclaw_mem_tui import ending
from openclaw_mem_tui.bindings import offered
from openclaw_mem_tui.features import SCREENS
from openclaw_mem_tui.features.search.lessons import Guide
from openclaw_mem_tui.features.search.presenter import SearchPresenter
from openclaw_mem_tui.features.search.remembered import NOTHING, Remembered, to_remember
from openclaw_mem_tui.features.search.render.knobs import meaning
from openclaw_mem_tui.features.search.screen import SearchScreen
from openclaw_mem_tui.features.search.state import KNOB_NAMES
from openclaw_mem_tui.key_order import KeyOrder
from openclaw_mem_tui.render.choices import Choice
from openclaw_mem_tui.render.damage import waiting, waits_in_short
from openclaw_mem_tui.render.spans import ROLES
from openclaw_mem_tui.screen import WorkbenchScreen
from openclaw_mem_tui.service import NO_FAULTS, Factory, Service
from openclaw_mem_tui.themes import mixed_variables, textual_theme
from openclaw_mem_tui.user_keys import take_keys

if TYPE_CHECKING:
    from openclaw_mem_engine.api import Settings, WorkbenchState

#: Seconds after a change until it is saved, with those that follow it: what a killed process loses.
_SAVED_AFTER = 1.0
#: A message lasts until the next action, but for these: they show it in full, or lead to what does.
_KEEP = frozenset({"messages", "help", "palette", "command_palette", "do"})


class Workbench(KeyOrder):
    """Terminal workbench of openclaw-mem; ``run`` blocks until the user quits, and returns the exit code."""

    TITLE = "openclaw-mem"
    #: The styles of all drawn text, once: every widget that has component classes of its own computes them
    #: again whenever a class of its screen changes.
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"role--{role}" for role in ROLES}
    #: Those of other screens are read with the screen.
    CSS_PATH = ["base.tcss", "features/search/styles.tcss"]  # noqa: RUF012
    BINDINGS = [  # noqa: RUF012
        Binding("ctrl+q", "quit", "quit", show=False, priority=True),
        Binding("ctrl+c", "help_quit", "copy selected text", show=False, system=True),
        Binding("ctrl+z", "suspend_process", "suspend; fg resumes", show=False),
        Binding("f1", "screen.help", "help", show=False),
    ]

    def __init__(
        self,
        memory_factory: Factory,
        *,
        demo: Guide | None = None,
        initial_query: str = "",
        theme: str | None = None,
        theme_folder: Path | None = None,
        faults: frozenset[str] = NO_FAULTS,
        session_key: str = "",
        notice: str = "",
        clock: Callable[[], float] = time.time,
        reload: Callable[[], Settings] | None = None,
        memo: WorkbenchState | None = None,
        keys: Mapping[str, str] | None = None,
    ) -> None:
        """``memory_factory`` is called in a worker thread after the first frame, with the faults that the
        memory is to simulate; an ``OpenClawMemError`` that it raises is shown. ``theme`` is a name or a path
        to a TOML file; ``theme_folder`` holds the user's own. ``session_key`` is that of the session that
        asks ("": a direct chat). ``notice`` is said at the start. ``reload`` reads the configuration again,
        where it may be written. ``memo`` holds what the last session left, and takes what this one does.
        ``keys`` are by the ids of actions."""
        keymap, refused_keys = take_keys(keys or {})
        super().__init__()
        self.set_keymap(keymap)
        self.service = Service(memory_factory, clock, reload)
        left = Remembered.of(*memo.read()) if memo is not None else NOTHING
        self._memo, self.unsaved = memo if memo is not None and memo.replaceable else None, ""
        #: What was read or saved last. One thread saves: the last state is the one that stays.
        self._saved: dict[str, Any] = left.data()
        self._saver = ThreadPoolExecutor(1, "remember")
        self._save_timer: Timer | None = None
        self.search = SearchPresenter(self.service, demo, faults, session_key, left, notice)
        self.search_screen = SearchScreen(self.search, initial_query)
        self.theme_trouble = ""
        for built_in in BUILT_IN.values():
            self.register_theme(textual_theme(built_in))
        usual = theme or os.environ.get("TEXTUAL_THEME") or DEFAULT
        again = left.theme if left.usual_theme == usual and left.theme in self.available_themes else ""
        self._choose_theme(again or usual, theme_folder)
        unused = (*refused_keys, *filter(None, [self.theme_trouble]))
        self.search.sync.update(unused=unused)
        #: The screen of the table that is shown, or was when the application ended.
        self._at = SCREENS[0].name
        #: Titles of the actions that were picked in the palette, the last one first.
        self._recent = left.recent
        #: What was configured, and what that gave.
        self._usual_theme, self._first_theme = usual, "" if again else self.theme
        #: Whether all threads have ended: else the process has to be ended.
        self.is_closed = False

    def _choose_theme(self, name: str, folder: Path | None) -> None:
        if name not in self.available_themes or (folder and (folder / f"{name}.toml").is_file()):
            try:
                chosen = textual_theme(load_theme(name, folder))
            except ThemeError as error:
                self.theme_trouble, name = str(error), DEFAULT
            else:
                self.register_theme(chosen)
                name = chosen.name
        self.theme = name

    def get_css_variables(self) -> dict[str, str]:
        variables = super().get_css_variables()
        return {**mixed_variables(variables), **variables}

    def refresh_css(self, animate: bool = True) -> None:
        # The theme is chosen before the first screen: the sheets are parsed once, with its colours.
        if self.screen_stack:
            super().refresh_css(animate)
        else:
            self.stylesheet.set_variables(self.get_css_variables())

    def set_timer(self, *given: Any, **options: Any) -> Timer:
        # Textual never fires a timer whose delay has passed before it begins to wait. On a busy machine that
        # would be the one that a new size of the terminal waits for, and no later size would be taken.
        timer = super().set_timer(*given, **options)
        timer._skip = False
        return timer

    def get_default_screen(self) -> Screen[None]:
        return self.search_screen

    async def run_async(self, **options: Any) -> int | None:
        """A signal that ends the process leaves the alternate screen first; exit code 128 + its number. Here,
        not in ``on_load``: there Textual does not know yet whether it runs without a terminal."""
        ending.listen(self.exit)
        return await super().run_async(**options)

    async def on_mount(self) -> None:
        # Keys that were typed before the first frame are in the queue of this application: without a focus
        # they would be lost. The event is also set where the screen fails.
        await self.search_screen._mounted_event.wait()
        # Textual draws nothing when ``fg`` resumes the process, over what the shell has left.
        self.app_resume_signal.subscribe(self, lambda _: self.refresh(layout=True))
        if self._memo is not None:
            self.search.listen(self._save_soon)
            self.theme_changed_signal.subscribe(self, lambda _: self._save_soon())

    async def on_unmount(self) -> None:
        memo, self._memo = self._memo, None
        if memo is not None:
            await asyncio.wrap_future(self._save(memo, self._session().data()))
        self._saver.shutdown()
        self.is_closed = await self.service.close()

    def _save_soon(self) -> None:
        """Save what has changed, with what changes until then."""

        def save() -> None:
            self._save_timer = None
            if self._memo is not None and (data := self._session().data()) != self._saved:
                self._save(self._memo, data)

        if self._memo is not None and self._save_timer is None:
            self._save_timer = self.set_timer(_SAVED_AFTER, save)

    def _save(self, memo: WorkbenchState, data: dict[str, Any]) -> Future[None]:
        def write() -> None:
            try:
                memo.write(data, self._saved)
                self._saved, self.unsaved = data, ""
            except (OSError, OpenClawMemError) as error:
                why = getattr(error, "strerror", "") or error
                self.unsaved = f"This session is not remembered: {memo.path}: {why}"

        return self._saver.submit(write)

    def _session(self) -> Remembered:
        """What the next session may continue."""
        hits, screen = self.search_screen.hits, self._at if self._at != SCREENS[0].name else ""
        return replace(
            to_remember(self.search, hits.mode, hits.selected, screen),
            recent=self._recent,
            theme=self.theme if self.theme != self._first_theme else "",
            usual_theme=self._usual_theme,
        )

    def commands(self, screen: Screen[Any]) -> dict[Choice, str]:
        """What the palette offers on a screen, with the action that each runs: those of the screen by name,
        then its knobs and the themes."""
        where = getattr(screen, "WHERE", "search")
        titles = {a.help[:1].upper() + a.help[1:]: a for a in offered(where) if a.in_palette}
        found = {
            Choice(title, title, action.either, section=action.group): action.command
            for title, action in titles.items()
            if screen.check_action(action.id, ())
        }
        for name in KNOB_NAMES if where == SCREENS[0].name else ():
            title = f"Knob {knob_words(name)}: {meaning(name)}"
            found[Choice(title, title, section="Knobs")] = f"screen.knob('{name}')"
        return found | {Choice("Theme", "Theme", section="More"): "app.change_theme"}

    def action_show(self, name: str) -> None:
        """Show a screen of the table over the search lab, which keeps its state; built when first asked
        for."""
        if self.is_screen_installed(name) and self.screen is self.get_screen(name):
            return
        if isinstance(self.screen, WorkbenchScreen):
            self.screen.forget_message()
        if name == SCREENS[0].name and self.screen is self.search_screen:
            self.search_screen.set_focus(self.search_screen.hits)
        while len(self.screen_stack) > 1:
            self.pop_screen()
        self._at = name
        if name != SCREENS[0].name:
            self.push_screen(self._built(name))
        self._save_soon()

    def _built(self, name: str) -> WorkbenchScreen:
        """A screen of the table, shown or not."""
        if not self.is_screen_installed(name):
            entry = next(entry for entry in SCREENS if entry.name == name)
            self.install_screen(entry.load()(self.search, self.search_screen), name)  # type: ignore[call-arg]
        return self.get_screen(name)  # type: ignore[return-value]

    def action_repair(self) -> None:
        """Ask for the repair on the screen that shows what is damaged."""
        self.action_show("index")
        self.screen.call_later(self.screen.repair)  # type: ignore[attr-defined]

    def action_undo_edit(self) -> None:
        """Ask for the undo of the last change of notes, which the curate screen knows, over the one shown."""
        self._built("curate").undo_edit(self.screen)  # type: ignore[attr-defined]

    def pop_screen(self) -> AwaitComplete:
        if isinstance(self.screen, WorkbenchScreen):
            self.screen.forget_message()
            if self._at == self.screen.WHERE:
                self._at = SCREENS[0].name
                self._save_soon()
        return super().pop_screen()

    async def _dispatch_action(self, namespace: DOMNode, action_name: str, params: Any) -> bool:
        # Every key, click and command that does something comes here.
        if isinstance(self.screen, WorkbenchScreen) and action_name not in _KEEP:
            self.screen.forget_message()
            if action_name in waiting(self.search.activity):
                self.screen.tell(waits_in_short(self.search.activity))
                return True
        self._save_soon()
        return await super()._dispatch_action(namespace, action_name, params)

    def action_help_quit(self) -> None:
        """What ctrl+c runs where nothing is selected: a slip of the finger does not end the session."""
        if isinstance(self.screen, WorkbenchScreen):
            self.screen.tell("ctrl+q quits; ctrl+c copies selected text")

    def action_suspend_process(self) -> None:
        """Stop the job of the shell: this process and what started it in its group (``uv run``), as the
        terminal would. A process in the group of the session's leader has no shell to resume it: it goes
        on."""
        if self._driver is not None and self._driver.can_suspend and os.getsid(0) != os.getpgrp():
            with self.suspend():  # the terminal is as it was before the shell takes it
                os.kill(0, signal.SIGTSTP)
        elif isinstance(self.screen, WorkbenchScreen):
            self.screen.tell("not suspended: no shell could resume it; ctrl+q quits")

    def action_change_theme(self) -> None:
        from openclaw_mem_tui.widgets.dialogs import PickScreen

        def choose(picked: str | None) -> None:
            self.theme = picked or self.theme

        themes = [Choice(name, name) for name in sorted(self.available_themes)]
        at = [theme.key for theme in themes].index(self.theme)
        self.push_screen(PickScreen("theme", lambda _: themes, start=at), choose)

    def action_command_palette(self) -> None:
        from openclaw_mem_tui.widgets.dialogs import Palette  # loaded when first shown

        if isinstance(self.screen, Palette):
            return
        commands = self.commands(self.screen)
        actions = {choice.key: action for choice, action in commands.items()}

        def run(picked: str | None) -> None:
            if picked is not None:
                self._recent = (picked, *(title for title in self._recent if title != picked))[:5]
                self._save_soon()
                self.call_later(self.run_action, actions[picked])

        self.push_screen(Palette([*commands], self._recent), run)
