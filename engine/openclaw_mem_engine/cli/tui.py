"""``openclaw-mem tui``: the only module of the engine that imports the workbench."""

from __future__ import annotations

import gc
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from openclaw_mem_engine.cli.opening import check_workspace, faults_of, settings_of
from openclaw_mem_engine.cli.terminal import crop, flush_out, is_terminal, one_line, say, width
from openclaw_mem_engine.config.sources import user_folders
from openclaw_mem_engine.errors import OpenClawMemError, UsageError

if TYPE_CHECKING:
    from openclaw_mem_engine.config.settings import Settings
    from openclaw_mem_engine.demo import SuggestedQuery
    from openclaw_mem_engine.memory import Memory


def run(arguments: Namespace) -> int:
    """Open the workbench on the user's workspace. Raises UsageError without a terminal to draw on."""
    faults = faults_of(arguments)
    if arguments.json or not can_draw():
        missing = ""
        if os.environ.get("TERM") == "dumb":
            missing = " that can be drawn on, and TERM is dumb"
        elif is_terminal(sys.stdout) and not _has_size():
            missing = ", and this one has no columns: give it a size, as with `stty rows 24 cols 80`"
        raise UsageError(
            f"The workbench needs a terminal{missing}. In a script use `openclaw-mem search QUERY --json`."
        )
    settings, query = settings_of(arguments), " ".join(arguments.words)
    # Before the screen is drawn: a missing folder is reported in plain text.
    check_workspace(settings)
    return open_workbench(
        settings,
        query=query,
        theme=arguments.theme,
        faults=faults,
        session_key=arguments.session_key or "",
        reload=lambda: settings_of(arguments),
    )


def wrong_keys(settings: Settings) -> tuple[str, ...]:
    """What the workbench does not use of the keys of this configuration, and why."""
    if not settings.keys:
        return ()
    from openclaw_mem_tui.user_keys import with_keys

    return with_keys(settings.keys, settings.origins["keys"].where)[2]


def wrong_theme(name: str) -> str:
    """Why the workbench cannot use this theme; "" where it can."""
    from openclaw_mem_tui.themes import theme_trouble

    return theme_trouble(name, user_folders().config / "themes")


def can_draw() -> bool:
    """Whether there is a terminal at both ends that moves its cursor, and has a size: Textual would paint one
    of no columns again and again."""
    both = is_terminal(sys.stdin) and is_terminal(sys.stdout)
    return both and os.environ.get("TERM") != "dumb" and _has_size()


def _has_size() -> bool:
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns > 0
    except (OSError, ValueError):
        return True


def open_workbench(
    settings: Settings,
    *,
    lessons: Sequence[SuggestedQuery] = (),
    query: str = "",
    theme: str | None = None,
    faults: frozenset[str] = frozenset(),
    session_key: str = "",
    notice: str = "",
    reload: Callable[[], Settings] | None = None,
) -> int:
    """Run the workbench on these settings until the user quits; returns its exit code. Blocks. ``faults``
    (see ``providers.faults``) are simulated from the start. ``session_key`` is that of the session that asks
    ("": a direct chat). ``notice`` is said at the start. ``reload`` reads the configuration again; without it
    the workbench does not write any, and neither continues a session nor leaves one."""
    # Loading what draws the screen takes longer than all else that happens before the first frame. None of it
    # is garbage, and looking for some takes a tenth of the time.
    gc.disable()
    opening = f"openclaw-mem: opening the workbench on {one_line(str(settings.workspace))}"
    print(crop(opening, width() - 1), end="\r", flush=True)
    try:
        from openclaw_mem_tui.app import Workbench
    finally:
        print("\x1b[2K", end="", flush=True)

    from openclaw_mem_engine.state.workbench import WorkbenchState

    def memory(with_faults: frozenset[str]) -> Memory:
        if not gc.isenabled():
            gc.freeze()
            gc.enable()
        from openclaw_mem_engine.memory import Memory

        return Memory.open(settings, resident=True, faults=with_faults)

    app = Workbench(
        memory,
        demo=lessons or None,
        initial_query=query,
        theme=theme or settings.theme,
        theme_folder=user_folders().config / "themes",
        faults=faults,
        session_key=session_key,
        notice=notice,
        reload=reload,
        memo=WorkbenchState(settings.data_dir, settings.agent, settings.workspace) if reload else None,
        keys=settings.keys,
    )
    code = app.run()
    if code is None:  # no key and no signal has ended it
        code = OpenClawMemError.exit_code if app.return_code else 0
    if app.unsaved:
        say(app.unsaved)
    if not app.is_closed:  # Python would wait for a thread that may never end
        flush_out()
        os._exit(code)
    return code
