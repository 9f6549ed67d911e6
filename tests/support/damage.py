"""An indexed workspace, and ways to damage its index as bugs, crashes and failing disks would."""

from __future__ import annotations

import atexit
import functools
import io
import os
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest import mock

import apsw
import pytest

from openclaw_mem_engine.cli.main import run
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.doctor import examine
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.providers.factory import ProviderSet
from openclaw_mem_engine.ranking.profiles import DOCUMENTED
from openclaw_mem_engine.stores.findings import DoctorReport, Finding
from openclaw_mem_engine.sync.report import SyncRequest
from support.memories import age, copy_indexed, settings_for, write_notes

ANIMALS = {
    "heron": "pond",
    "marten": "roof",
    "badger": "old orchard",
    "owl": "church tower",
    "hedgehog": "compost heap",
    "swallow": "stable",
    "fox": "railway",
    "toad": "cellar stairs",
    "bat": "attic window",
    "wren": "ivy wall",
    "mole": "football field",
    "carp": "mill",
}
NOTES = {
    "MEMORY.md": "# Long-term\n\nThe gateway runs on the ARM board.\n",
    "memory/2026-02-20.md": "The irrigation pump restarted twice.\n",
    "memory/network.md": "Router firmware 5.0.5 leaks memory.\n",
    "memory/notes-zh.md": "数据库连接池默认大小是二十。\n",
    **{
        f"memory/animals/{name}.md": f"The {name} lives near the {place}.\n"
        for name, place in ANIMALS.items()
    },
    "memory/long.md": "\n".join(f"On day {day} the water tank held {day * 7} litres." for day in range(120)),
}

#: Searches plain words, which no other search here does.
PLAIN = DOCUMENTED.set({"lexical_index": "plain"})


def indexed(tmp_path: Path, notes: dict[str, str] | None = None, provider: str = "static") -> Settings:
    """Settings of a workspace whose notes are old, and indexed. Every line of them can be shown."""
    if notes is None:
        copy_indexed(_indexed_notes(provider), tmp_path, "ws", "home/data")
        settings = _settings(tmp_path, provider)
        with raw(settings) as connection:
            for (path,) in connection.execute("SELECT path FROM files").fetchall():
                copied = (settings.workspace / str(path)).stat().st_ino, time.time_ns(), path
                connection.execute("UPDATE files SET inode = ?, checked_ns = ? WHERE path = ?", copied)
        return settings
    for path in write_notes(tmp_path / "ws", notes).rglob("*.md"):
        age(path)
    sync(settings := _settings(tmp_path, provider))
    with Memory.open(settings) as memory:  # which makes the last kind of words
        memory.search("heron", PLAIN)
    return settings


@functools.cache
def _indexed_notes(provider: str) -> Path:
    """The folder of an indexed ``NOTES``, made once for this process."""
    root = Path(tempfile.mkdtemp(prefix="openclaw-mem-notes-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    indexed(root, NOTES, provider)
    return root


def _settings(root: Path, provider: str) -> Settings:
    return settings_for(
        root / "ws", root / "home", OPENCLAW_MEM_PROVIDER=provider, OPENCLAW_MEM_PROFILE="workbench"
    )


def sync(settings: Settings, *, force: bool = False) -> None:
    with Memory.open(settings) as memory:
        memory.sync(SyncRequest(force=force))


@contextmanager
def raw(settings: Settings) -> Iterator[apsw.Connection]:
    """The index file itself, with sqlite-vec."""
    import sqlite_vec

    connection = apsw.Connection(str(settings.index_path))
    try:
        connection.enable_load_extension(True)
        connection.load_extension(sqlite_vec.loadable_path())
        yield connection
    finally:
        connection.close()


def _negated(*vector: Any) -> bytes:
    return bytes(byte ^ 128 * (at % 4 == 3) for at, byte in enumerate(vector[0]))


def alter(settings: Settings, *statements: str, bound: tuple[Any, ...] = ()) -> None:
    """Run statements on the index file. ``negated`` gives a vector of the opposite direction."""
    with raw(settings) as connection:
        connection.create_scalar_function("negated", _negated, 1)
        for statement in statements:
            connection.execute(statement, bound)


def zero(name: str, settings: Settings) -> None:
    """Leave nothing of the last page of a table or index."""
    with raw(settings) as connection:
        sql = "SELECT max(pageno), max(pgsize) FROM dbstat WHERE name = ? AND pagetype = 'leaf'"
        held: list[Any] = connection.execute(sql, (name,)).fetchall()
    ((page, size),) = held
    with settings.index_path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(bytes(size))


def looked(settings: Settings, *, deep: bool = False) -> DoctorReport:
    """What the doctor says."""
    lineup = ProviderSet(settings, read_only=True)
    try:
        return examine(settings, lineup.embedders, deep=deep)
    finally:
        lineup.close()


def codes(report: DoctorReport) -> set[str]:
    return {finding.code for finding in report.findings}


def named(report: DoctorReport, code: str) -> Finding:
    """The one finding of this code."""
    (found,) = [finding for finding in report.findings if finding.code == code]
    return found


def type_in(settings: Settings, command: str) -> None:
    """What a user does with the repair of a finding: type it into a shell. Our own command runs in this
    process, in an environment of its own; anything else in a real shell. What is last must succeed."""
    if os.name == "nt":
        pytest.skip("repairs are typed into a POSIX shell")
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(settings.data_dir.parent),
        "OPENCLAW_MEM_HOME": str(settings.data_dir),
        "OPENCLAW_MEM_PROVIDER": settings.provider.provider,
    }
    code, said = 0, io.StringIO()
    for part in command.split("; "):
        program, *words = shlex.split(part)
        if program == "openclaw-mem":
            assert "&&" not in words, command
            argv = ["--workspace", str(settings.workspace), *words]
            with (
                mock.patch.dict(os.environ, environ, clear=True),
                redirect_stdout(said),
                redirect_stderr(said),
            ):
                code = run(argv)
        else:
            code = subprocess.run(part, shell=True, env=environ, timeout=120, check=False).returncode
    assert code == 0, said.getvalue()
