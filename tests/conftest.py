"""What all tests share: helpers under ``tests/support`` are importable as ``support``; how many processes run
the suite, and how many examples a property gets."""

from __future__ import annotations

import faulthandler
import functools
import gc
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from _pytest.assertion import rewrite
from hypothesis import settings

from openclaw_mem_engine.commands import choose
from openclaw_mem_engine.providers import static

if TYPE_CHECKING:
    from support.config_world import World

sys.path.insert(0, str(Path(__file__).parent))

#: The suite starts some hundred child processes: they may keep what they compile, and so may this one, where
#: most of the time that collecting takes is spent compiling the tests.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Folders of tests in memory, where Linux offers that: thousands of small databases are synced to the disk
# otherwise, which is a fourth of the CPU time, and minutes of waiting while others write to the same disk. A
# kill of a process leaves the same in both. TMPDIR chooses another folder.
_MEMORY, _LEAST_FREE = Path("/dev/shm"), 2 << 30
if (
    "TMPDIR" not in os.environ
    and _MEMORY.is_dir()
    and os.access(_MEMORY, os.W_OK)
    and shutil.disk_usage(_MEMORY).free > _LEAST_FREE
):
    os.environ["TMPDIR"] = str(_MEMORY)
    tempfile.tempdir = None

# A shell that runs the suite in the background has it ignore Ctrl-C, and every process that a test starts and
# interrupts would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# `ci`: the number of examples that a test asks for. `dev`: at most so many of them. Neither has deadlines:
# how long an example takes depends on what else the machine does. HYPOTHESIS_PROFILE names one; else CI does.
_DEV_EXAMPLES = 10
settings.register_profile("ci", deadline=None, print_blob=True)
settings.register_profile("dev", deadline=None, max_examples=_DEV_EXAMPLES)
_PROFILE = os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev")
settings.load_profile(_PROFILE)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Processes for ``-n auto``: two more than there are cores, because a test computes for half of its time
    and waits for the rest (processes, servers, time limits); none for chosen files, where starting them costs
    more than it saves.
    """
    chosen = any(Path(str(argument).split("::")[0]).suffix == ".py" for argument in config.args)
    return 0 if chosen else (os.cpu_count() or 1) + 2


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Under ``dev``, numbers of examples that a test names itself have the same upper limit. Should
    Hypothesis rename its attribute, these tests take longer and nothing else."""
    attribute = "_hypothesis_internal_use_settings"
    for item in items if _PROFILE == "dev" else []:
        function = getattr(item, "function", None)
        asked = getattr(function, attribute, None)
        if isinstance(asked, settings) and asked.max_examples > _DEV_EXAMPLES:
            setattr(function, attribute, settings(asked, max_examples=_DEV_EXAMPLES))


def pytest_collection_finish() -> None:
    """Modules and test items stay until the end: the garbage collector need not look through them after every
    few hundred new objects, which is a tenth of the CPU time of a test that draws screens."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 40)


_read_table = static._load
_shipped_table = functools.cache(_read_table)


def _table(path: Path) -> static._Table:
    """The table of the built-in embedder, read once for all memories that the tests of this process open:
    immutable, 20 ms of CPU each time. Copies, damaged ones among them, are read as ever."""
    return _shipped_table(path) if path == static.TABLE_FILE else _read_table(path)


static._load = _table


#: The folder for the stacks of crashed processes of this run.
_CRASHES = "OPENCLAW_MEM_TEST_CRASHES"


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Each process compiles its share of the tests, which is most of the time that collecting a new checkout
    takes, and reads what the others wrote. Should pytest rename its functions, each compiles them all."""
    number = os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
    if not number.isdecimal() or not hasattr(rewrite, "_rewrite_test"):
        return
    files = sorted(
        Path(__file__).parent.rglob("test_*.py"), key=lambda file: (file.stat().st_size, file.name)
    )
    for file in files[int(number) :: int(os.environ["PYTEST_XDIST_WORKER_COUNT"])]:
        kept = rewrite.get_cache_dir(file) / (file.stem + rewrite.PYC_TAIL)
        if rewrite._read_pyc(file, kept) is None and rewrite.try_makedirs(kept.parent):
            source, code = rewrite._rewrite_test(file, session.config)
            rewrite._write_pyc(session.config.stash[rewrite.assertstate_key], code, source, kept)


def pytest_configure(config: pytest.Config) -> None:
    """The folder for the stacks of processes that crash, until this run ends."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        folder = tempfile.TemporaryDirectory(prefix="crashes-", ignore_cleanup_errors=True)
        os.environ[_CRASHES] = folder.name
        config.add_cleanup(folder.cleanup)


def pytest_sessionstart() -> None:
    """A process that crashes leaves the stacks of its threads in a file: standard error of the processes that
    run the tests is shown far above the summary, if at all."""
    worker, folder = os.environ.get("PYTEST_XDIST_WORKER"), Path(os.environ[_CRASHES])
    if worker is not None and folder.is_dir():  # a process that replaces a crashed one may come too late
        faulthandler.enable((folder / worker).open("w"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The stacks of processes that have crashed."""
    for file in sorted(Path(os.environ[_CRASHES]).iterdir()):
        if stacks := file.read_text().splitlines():
            terminalreporter.section(f"crash of {file.name}")
            for line in stacks:
                if not re.search("/(_pytest|pluggy|xdist|execnet)/", line):
                    terminalreporter.line(line)


def pytest_runtest_teardown() -> None:
    """The index that a command chose in this process completes no commands of the next test."""
    choose({})


@pytest.fixture
def world(tmp_path: Path) -> World:
    """What settings depend on. Other tests have worlds of their own, by the same name."""
    from support.config_world import World

    return World(tmp_path)


@pytest.fixture
def as_nobody() -> Iterator[Path]:
    """A folder of a user whom permissions stop; root may do anything."""
    if os.geteuid() != 0:
        pytest.skip("becoming another user takes root")
    from support.users import unprivileged_folder

    with unprivileged_folder() as folder:
        yield folder
