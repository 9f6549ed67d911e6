"""The entry point: parse, run one command, and turn every outcome into a line and an exit code."""

from __future__ import annotations

import atexit
import gc
import os
import re
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING

from openclaw_mem_engine.cli.terminal import OutputFailed, flush_out, prepare_streams, print_json, say
from openclaw_mem_engine.commands import advice, choose
from openclaw_mem_engine.errors import Cancelled, OpenClawMemError

if TYPE_CHECKING:
    Command = Callable[[Namespace], int]

#: Set to 1 to see the traceback of what was not expected.
DEBUG_VARIABLE = "OPENCLAW_MEM_DEBUG"
#: New objects between two collections. With Python's 700 a search, which makes little but modules that
#: stay, has a hundred of them.
NEW_OBJECTS = 50_000


def run(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code (``errors.py`` lists them). Never raises."""
    if argv is None:  # the process is ours
        gc.set_threshold(NEW_OBJECTS)
        atexit.register(gc.freeze)  # what remains goes with the process, uncollected
        # More threads of NumPy only spin for products of our size.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    prepare_streams()
    argv = sys.argv[1:] if argv is None else argv
    arguments = Namespace()
    try:
        try:
            command = _parsed(argv, arguments)
            code = command(arguments)
        except SystemExit as done:  # --help and --version have printed their text
            code = int(done.code or 0)
        flush_out()
    except BrokenPipeError:
        # The reader (`head`, a pager) has closed the pipe: no error.
        _give_up_stdout()
        return 0
    except KeyboardInterrupt:
        return _failed(argv, arguments, Cancelled("Stopped. Finished work is kept."))
    except Exception as error:  # noqa: BLE001 - the outermost handler: no traceback is shown
        return _failed(argv, arguments, error)
    finally:
        choose({})
    return code


def _parsed(argv: Sequence[str], arguments: Namespace) -> Command:
    """The function of the command. Its arguments are added to ``arguments``: before an error those that were
    read so far. Raises UsageError, and SystemExit after --help."""
    from openclaw_mem_engine.cli.parser import build_parser

    if argv[:1] == ["help"]:  # as git and others take it
        argv = [*argv[1:], "--help"]
    parser = build_parser(argv)
    parser.parse_args(argv, arguments)
    choose(vars(arguments))
    if arguments.command is None:
        parser.parse_args(["--help"])
    # Each module is loaded alone, so that no command pays for the others.
    module, _, function = arguments.runner.partition(":")
    command: Command = getattr(import_module(f"openclaw_mem_engine.cli.{module}"), function)
    return command


def _failed(argv: Sequence[str], arguments: Namespace, error: Exception) -> int:
    """Print the error as a line on stderr, and as JSON on stdout where that was asked for, except by ``qmd``,
    whose output is that of QMD; its exit code."""
    ours = error if isinstance(error, OpenClawMemError) else OpenClawMemError(_unexpected(error))
    message = str(ours)
    say(message)
    asked = "--json" in argv or getattr(arguments, "format", None) == "json"
    if asked and getattr(arguments, "command", None) != "qmd" and not isinstance(error, OutputFailed):
        message = advice(message)
        repair = re.search("`(openclaw-mem [^`]+)`", message)
        said = {"code": type(error).__name__, "message": message, "repair": repair[1] if repair else None}
        with suppress(OSError, OutputFailed):
            print_json({"error": said}, exact=True)
    return _leave(ours.exit_code)


def _unexpected(error: Exception) -> str:
    """What is said of an exception that is none of ours."""
    if os.environ.get(DEBUG_VARIABLE, "") not in ("", "0"):
        import traceback

        traceback.print_exception(error, file=sys.stderr)
    reason = " ".join(str(error).split())[:300]
    what = f"unexpected {type(error).__name__}" + (f": {reason}" if reason else "")
    return f"{what}. Run with {DEBUG_VARIABLE}=1 for the traceback."


def _leave(code: int) -> int:
    """Flush what was printed before the error; a stdout that cannot take it must not raise again when the
    process ends."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        _give_up_stdout()
    return code


def _give_up_stdout() -> None:
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        pass
