"""``completion``: installed shells read their scripts, and real bash completes with its own."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from openclaw_mem_engine import __version__
from openclaw_mem_engine.cli.arguments import COMMANDS
from support.commands import Call

#: Prints what the last word of a line completes to.
_COMPLETE = """
complete_line() {
  COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
  _shtab_openclaw_mem
  echo "${COMPREPLY[*]}"
}
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_commands_options_and_values(bare: Call, tmp_path: Path) -> None:
    script = tmp_path / "completion.bash"
    script.write_text(bare("completion", "bash").out)
    (tmp_path / "notes").mkdir()
    expected = {
        ("",): " ".join(command.name for command in COMMANDS),
        ("sea",): "search",
        ("search", "--pro"): "--profile --provider",
        ("search", "--profile", "work"): "workbench",
        ("search", "--set", "half"): "half_life_days=",
        ("--json", "search", "x", "--format", "l"): "lines",
        ("qmd", "collection", "upd"): "update-cmd",
        ("demo", "--fault", "zero"): "zero-vector",
        ("tui", "--workspace", str(tmp_path / "no")): str(tmp_path / "notes"),
        ("completion", "f"): "fish",
    }
    lines = "\n".join(shlex.join(["complete_line", "openclaw-mem", *words]) for words in expected)
    done = subprocess.run(
        ["bash", "--norc", "-c", f"source {shlex.quote(str(script))}\n{_COMPLETE}\n{lines}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert dict(zip(expected, done.stdout.splitlines(), strict=True)) == expected


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_can_read_its_script(bare: Call, shell: str) -> None:
    said = bare("completion", shell)
    assert said.code == 0
    assert "why-not" in said.out and "Usage:" not in said.out
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    subprocess.run([program, "-n"], input=said.out.encode(), check=True)


def test_another_shell_is_a_wrong_call(bare: Call) -> None:
    said = bare("completion", "ksh")
    assert said.code == 2
    assert "bash" in said.err


def test_the_package_runs_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "openclaw_mem_engine", "--version"], capture_output=True, check=True
    )
    assert done.stdout.decode().strip() == f"openclaw-mem {__version__}"
