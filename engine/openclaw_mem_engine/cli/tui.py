"""``openclaw-mem tui``."""

from __future__ import annotations

import sys
from argparse import Namespace

from openclaw_mem_engine.cli.faults import faults_of
from openclaw_mem_engine.cli.opening import settings_of
from openclaw_mem_engine.cli.terminal import is_terminal
from openclaw_mem_engine.errors import UsageError


def run(arguments: Namespace) -> int:
    """Open the workbench on the user's workspace. Raises UsageError without a terminal."""
    faults = faults_of(arguments)
    if arguments.json or not (is_terminal(sys.stdin) and is_terminal(sys.stdout)):
        raise UsageError(
            "The workbench needs a terminal. In a script use `openclaw-mem search QUERY --json`."
        )
    from openclaw_mem_engine.cli.workbench import open_workbench
    from openclaw_mem_engine.workspace.rules import open_workspace

    settings, query = settings_of(arguments), " ".join(arguments.words)
    open_workspace(
        settings.workspace
    )  # before the screen is drawn: a missing folder is reported in plain text
    return open_workbench(settings, query=query, theme=arguments.theme, faults=faults)
