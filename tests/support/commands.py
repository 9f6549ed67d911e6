"""The ``openclaw-mem`` command in a world of its own: home, data folder and workspace below one folder."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from openclaw_mem_engine.cli.main import run

ARGV = (sys.executable, "-m", "openclaw_mem_engine.cli")
ROOT = Path(__file__).parents[2]

NOTES: Mapping[str, str] = {
    "MEMORY.md": "# Facts\n\nThe gateway is a grey box behind the door.\nCoffee is bought on Mondays.\n",
    "memory/2026-02-20.md": "# 2026-02-20\n\n## Network\nThe router moved to VLAN 40.\nSerial GRN-40417.\n",
    "memory/2026-02-25.md": "# 2026-02-25\n\nThe firewall dropped packets of VLAN 50.\n",
    "memory/projects/greenhouse.md": "# Greenhouse\n\nTomatoes want water every second day.\n",
}


@dataclass(frozen=True)
class World:
    """Folders that stand for a user's machine. ``environ`` holds no variable that our settings know, except
    the data folder."""

    root: Path

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def data(self) -> Path:
        return self.root / "data"

    @property
    def workspace(self) -> Path:
        return self.root / "workspace"

    @property
    def environ(self) -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("OPENCLAW", "XDG_", "OPENAI", "PYTHONIO"))
            and not name.endswith("_API_KEY")
            and name not in ("VISUAL", "EDITOR", "NO_COLOR", "LC_ALL", "LANG", "PYTHONUTF8")
        }
        return kept | {
            "HOME": str(self.home),
            "OPENCLAW_MEM_HOME": str(self.data),
            "LC_ALL": "C.UTF-8",
        }

    @property
    def indexes(self) -> list[Path]:
        return sorted(self.data.glob("indexes/*/*.sqlite"))

    def write(self, path: str, text: str | bytes) -> Path:
        """A file below the workspace."""
        place = self.workspace / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text.encode() if isinstance(text, str) else text)
        return place

    def run(
        self, *argv: str | bytes, env: Mapping[str, str] | None = None, timeout: float = 60
    ) -> subprocess.CompletedProcess[bytes]:
        """The real command in a process of its own, without a terminal."""
        return subprocess.run(
            [*ARGV, *argv],
            env={**self.environ, **(env or {})},
            cwd=self.root,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
            check=False,
        )

    def start(self, *argv: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        """The same, still running."""
        return subprocess.Popen(
            [*ARGV, *argv],
            env={**self.environ, **(env or {})},
            cwd=self.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )


def until(condition: Callable[[], object]) -> None:
    """Wait for something that another process does. Fails when it does not come within a minute."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it did not happen within 60 seconds"
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    """Also False for a process that ended and was not waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


class Said(NamedTuple):
    """What one call of the command came to."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Call = Callable[..., Said]


def new_world(root: Path, notes: Mapping[str, str] = NOTES) -> World:
    """A world with these notes and nothing indexed."""
    world = World(root)
    world.home.mkdir(parents=True)
    world.workspace.mkdir()
    for path, text in notes.items():
        world.write(path, text)
    return world


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Path]:
    """A new folder on a disk of its own. Skips the test where none can be mounted."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("only root may mount a small disk")
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
    if subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("mounting is not allowed here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def caller(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], first: list[str]
) -> Call:
    """The command in this process, with the environment of ``world`` and the options ``first``."""
    for name in set(os.environ) - set(world.environ):
        monkeypatch.delenv(name)
    for name, value in world.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(world.root)

    def called(*argv: str) -> Said:
        capsys.readouterr()
        code = run([*first, *argv])
        said = capsys.readouterr()
        # Commands that are printed repeat the options of this fixture; tests quote them without.
        if first and "--help" not in argv and argv[0] != "tool":  # those of `tool` are exact
            printed = re.findall(r"`openclaw-mem (?!demo|config set|config undo)(.*?)`", "".join(said))
            short = [one for one in printed if not one.endswith("--help") and " ".join(first) not in one]
            assert not short, f"these commands are about another workspace: {short}"
        out, err = (text.replace(f"openclaw-mem {' '.join(first)} ", "openclaw-mem ") for text in said)
        return Said(code, out, err)

    return called
