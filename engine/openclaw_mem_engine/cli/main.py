"""The entry point: parse, run one command, and turn every outcome into a line and an exit code."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from openclaw_mem_engine.cli.terminal import flush_out, prepare_streams, say
from openclaw_mem_engine.commands import choose
from openclaw_mem_engine.errors import Cancelled, OpenClawMemError

if TYPE_CHECKING:
    from argparse import Namespace

    Command = Callable[[Namespace], int]

UNEXPECTED = 1
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
    try:
        try:
            command, arguments = _parsed(sys.argv[1:] if argv is None else argv)
            code = command(arguments)
        except SystemExit as done:  # --help and --version have printed their text
            code = int(done.code or 0)
        flush_out()
    except BrokenPipeError:
        # The reader (`head`, a pager) has closed the pipe: no error.
        _give_up_stdout()
        return 0
    except KeyboardInterrupt:
        say("Stopped. Finished work is kept.")
        return _leave(Cancelled.exit_code)
    except OpenClawMemError as error:
        say(str(error))
        return _leave(error.exit_code)
    except Exception as error:  # noqa: BLE001 - the outermost handler: no traceback is shown
        return _leave(_unexpected(error))
    finally:
        choose({})
    return code


def _parsed(argv: Sequence[str]) -> tuple[Command, Namespace]:
    """The function of the command, and its arguments. Raises UsageError, and SystemExit after --help."""
    from openclaw_mem_engine.cli.parser import build_parser

    parser = build_parser(argv)
    arguments = parser.parse_args(argv)
    choose(vars(arguments))
    if arguments.command is None:
        parser.parse_args(["--help"])
    # Each module is loaded alone, so that no command pays for the others.
    module, _, function = arguments.runner.partition(":")
    return getattr(import_module(f"openclaw_mem_engine.cli.{module}"), function), arguments


def _unexpected(error: Exception) -> int:
    if os.environ.get(DEBUG_VARIABLE, "") not in ("", "0"):
        import traceback

        traceback.print_exception(error, file=sys.stderr)
        return UNEXPECTED
    reason = " ".join(str(error).split())[:300]
    what = f"unexpected {type(error).__name__}" + (f": {reason}" if reason else "")
    say(f"{what}. Run with {DEBUG_VARIABLE}=1 for the traceback.")
    return UNEXPECTED


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
