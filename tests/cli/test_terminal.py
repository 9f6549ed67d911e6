"""What reaches a terminal, or any other place that text can be sent to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from openclaw_mem_engine.api import VECTORS
from openclaw_mem_engine.cli.progress import ByteProgress, ProgressLine, progress_text
from openclaw_mem_engine.cli.terminal import crop, one_line
from openclaw_mem_engine.cli.text_format import duration
from openclaw_mem_engine.sanitize import inert_json, visible
from openclaw_mem_tui.render import format as fmt
from support.commands import ARGV, Call, World
from support.terminals import on_a_terminal

HOSTILE = (
    "zeppelin \x1b[2J\x1b]0;owned\x07 \x1b]8;;http://evil\x07link\x1b]8;;\x07\r"
    "overwritten \x9b31m \u202eelif\u2066 zero\u200bwidth [bold]markup[/bold] \x7f\n"
)


def test_every_acting_character_becomes_visible() -> None:
    shown = visible(HOSTILE)
    assert "\x1b" not in shown
    assert shown.startswith("zeppelin ^[[2J^[]0;owned^G ")
    assert "<U+202E>elif<U+2066>" in shown
    assert "<U+009B>31m" in shown
    assert "[bold]markup[/bold] ^?\n" in shown
    assert visible("a\r\nb\tcé防 🎉 \udcff") == "a\nb\tcé防 🎉 <U+DCFF>"
    assert one_line(" a\n\n b ") == "a⏎⏎ b"


def test_json_with_escapes_holds_the_same() -> None:
    value = "".join(map(chr, range(0x20, 0x3000)))
    made = inert_json(json.dumps(value, ensure_ascii=False))
    acting = [*range(0x7F, 0xA0), 0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A)]
    assert not set(map(chr, acting)) & set(made)
    assert json.loads(made) == value


@pytest.mark.parametrize(
    "argv",
    [
        ["search", "zeppelin"],
        ["search", "zeppelin", "--explain"],
        ["search", "zeppelin", "--format", "csv"],
        ["search", "zeppelin", "--format", "md"],
        ["search", "zeppelin", "--format", "md", "--explain"],
        ["search", "zeppelin", "--format", "files"],
    ],
)
def test_notes_cannot_speak_to_the_terminal(call: Call, world: World, argv: list[str]) -> None:
    world.write("memory/hostile.md", HOSTILE)
    world.write("memory/\x1b[31mred.md", "zeppelin")
    said = call(*argv, "--min-score", "0")
    assert said.code == 0
    assert "hostile.md" in said.out
    for text in (said.out, said.err):
        assert not {"\x1b", "\x07", "\r", "\x9b", "\u202e", "\u200b"} & set(text)


def test_a_newline_in_a_name_is_shown_as_in_the_workbench(call: Call, world: World) -> None:
    world.write("memory/new\nline.md", "# Quixotic\n\nA quixotic zeppelin.\n")
    world.write("memory/no\ntext.md", "# None\n\n\0binary\0\n").write_bytes(b"\xff\xfe\0\1")
    shown = fmt.inert("memory/new\nline.md")
    assert shown == "memory/new⏎line.md"
    for argv in (["search", "quixotic", "--min-score", "0"], ["files"], ["chunks", "memory/new\nline.md"]):
        assert shown in call(*argv).out
    assert "memory/no⏎text.md" in call("doctor").out
    assert call("get", "memory/new\nlin").err.count("\n") == 1


def test_json_escapes_instead(call: Call, world: World) -> None:
    world.write("memory/hostile.md", HOSTILE)
    said = call("search", "zeppelin", "--json")
    assert not {"\x1b", "\x7f", "\x9b", "\u202e", "\u2066"} & set(said.out)
    assert "zero\u200bwidth" in said.out
    assert said.json["results"][0]["snippet"] == HOSTILE


def test_a_terminal_gets_emphasis_and_inert_text(world: World) -> None:
    world.write("memory/hostile.md", HOSTILE)
    options = ["--workspace", str(world.workspace)]
    code, text = on_a_terminal(world, ["search", "zeppelin", *options])
    assert code == 0
    assert "\x1b[1;36mzeppelin\x1b[0m ^[[2J" in text
    _, plain = on_a_terminal(world, ["search", "zeppelin", *options], {"NO_COLOR": "1"})
    assert "\x1b" not in plain
    code, text = on_a_terminal(world, ["get", "memory/hostile.md", *options])
    assert (code, text) == (0, visible(HOSTILE).replace("\n", "\r\n"))


def test_arguments_cannot_speak_to_the_terminal_either(call: Call) -> None:
    for argv in (
        ["search", "x", "--\x1b[31mred"],
        ["search", "x", "--set", "\x1b[31m=1"],
        ["get", "memory/\x1b[31m.md"],
        ["get", "/\x1b[31m.md"],
        ["search", "x", "--workspace", "/\x1b[31m"],
    ):
        said = call(*argv)
        assert said.err
        assert "\x1b" not in said.err


def test_bytes_that_are_no_text_do_not_crash(world: World) -> None:
    options = ["--workspace", str(world.workspace)]
    done = world.run("search", b"router \xff\xfe", "--json", *options)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["query"].startswith("router \ufffd")
    for argv in ([b"get", b"memory/\xff.md"], [b"search", b"x", b"--set", b"\xff=1"]):
        done = world.run(*argv, *options)
        assert b"unexpected" not in done.stderr
    done = world.run("search", "x", b"--workspace", os.fsencode(world.root) + b"/\xff")
    assert done.returncode == 5


_NEXT = "-- next --\n"
_ALL = f"""
import json, sys
from openclaw_mem_engine.cli.main import run
for number, argv in enumerate(json.loads(sys.argv[1])):
    print({_NEXT!r} * bool(number), end="")
    assert run(argv) == 0, argv
"""


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_locale_without_utf8_does_not_crash(world: World, encoding: str) -> None:
    world.write("memory/ja.md", "# 防水ケース\n\nzeppelin é\n")
    options = ["--workspace", str(world.workspace)]
    env = {"PYTHONIOENCODING": encoding, "LC_ALL": "C", "PYTHONUTF8": "0"}
    commands = (
        ["search", "zeppelin", "--explain"],
        ["status"],
        ["config"],
        ["search", "zeppelin", "--format", "csv"],
        ["search", "zeppelin", "--json"],
    )
    # In one process of its own: what matters is the encoding that it was started with.
    done = subprocess.run(
        [sys.executable, "-c", _ALL, json.dumps([[*argv, *options] for argv in commands])],
        env=world.environ | env, cwd=world.root, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert b"Traceback" not in done.stderr
    texts = done.stdout.decode(encoding).split(_NEXT)
    assert len(texts) == len(commands) and all(texts)
    assert "防水ケース" in json.loads(texts[-1])["results"][0]["snippet"]


def test_a_closed_pipe_is_quiet(demo_world: World) -> None:
    process = demo_world.start("demo")
    assert process.stdout is not None
    assert process.stdout.readline()
    process.stdout.close()
    assert process.stderr is not None
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=30) == 0
    assert b"Broken" not in err
    assert b"Traceback" not in err


def test_a_shell_pipe_to_head(demo_world: World) -> None:
    command = " ".join([*ARGV, "demo", "--json", "|", "head", "-n", "1"])
    done = subprocess.run(["sh", "-c", command], env=demo_world.environ, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, b"{\n")
    assert b"Broken" not in done.stderr


def test_closed_standard_streams_do_not_crash(world: World) -> None:
    command = " ".join([*ARGV, "config", "<&-", ">&-", "2>&-"])
    done = subprocess.run(["sh", "-c", command], env=world.environ, check=False, timeout=30)
    assert done.returncode == 8


# progress


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 100 columns that can erase lines, whatever the tests themselves run in."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")


class _Screen:
    encoding = "utf-8"

    def __init__(self) -> None:
        self.text = ""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None:
        pass

    def fileno(self) -> int:
        raise OSError


def test_progress_shows_rate_and_time_left_and_goes_away(terminal: None) -> None:
    now = [0.0]
    screen = _Screen()
    with ProgressLine(screen, lambda: now[0]) as progress:  # type: ignore[arg-type]
        progress(1, 100, "at once")
        assert screen.text == ""  # quick work is not worth a flicker
        now[0] = 2.0
        progress(50, 100, "memory/\x1b[31mx.md")
    assert "[############------------]  50/100 files  25/s  2.0 s left  memory/^[[31mx.md" in screen.text
    assert screen.text.endswith("\r\x1b[1A\x1b[2K"), "the line is erased"


def test_what_is_waited_for_is_printed_once_where_no_line_can_be_drawn(
    capsys: pytest.CaptureFixture[str],
) -> None:
    now = [0.0]
    with ProgressLine(clock=lambda: now[0]) as progress:
        progress(3, 3, "vectors")
        for now[0] in (1.0, 2.9, 3.0, 4.0):
            progress(3, 3, f"waiting for 127.0.0.1:8803, {now[0]:.0f} s")
    assert capsys.readouterr().err == "openclaw-mem: waiting for 127.0.0.1:8803, 3 s\n"


def test_texts_that_are_embedded_are_not_counted_as_files(terminal: None) -> None:
    now = [0.0]
    screen = _Screen()
    with ProgressLine(screen, lambda: now[0]) as progress:  # type: ignore[arg-type]
        now[0] = 2.0
        progress(64, 256, "memory/x.md  embedded 64 of 256, 31/s, about $0.0021")
    assert "[######------------------]  memory/x.md embedded 64 of 256, 31/s, about $0.0021\r" in screen.text
    assert "files" not in screen.text


def test_chunks_that_get_vectors_are_not_counted_as_files(terminal: None) -> None:
    now = [0.0]
    screen = _Screen()
    with ProgressLine(screen, lambda: now[0]) as progress:  # type: ignore[arg-type]
        now[0] = 2.0
        progress(50, 100, VECTORS)
    assert "  50/100 chunks  25/s  2.0 s left  vectors\r" in screen.text


def test_bytes_have_a_rate_that_leaves_out_what_was_there_before(terminal: None) -> None:
    now = [0.0]
    screen = _Screen()
    with ByteProgress(screen, lambda: now[0]) as progress:  # type: ignore[arg-type]
        progress(200_000_000, 329_000_000, "model.gguf")
        now[0] = 2.0
        progress(220_000_000, 329_000_000, "model.gguf")
        assert "220 of 329 MB  10.0 MB/s  11 s left  model.gguf" in screen.text
        progress(0, 329_000_000, "Checking")
        now[0] = 3.0
        progress(164_500_000, 329_000_000, "Checking")
        assert "[############------------]  164 of 329 MB  164.5 MB/s  1.0 s left  Checking" in screen.text


def test_a_terminal_that_cannot_erase_gets_no_progress(
    terminal: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    now = [0.0]
    screen = _Screen()
    with ProgressLine(screen, lambda: now[0]) as progress:  # type: ignore[arg-type]
        now[0] = 2.0
        progress(50, 100, "memory/x.md")
    assert screen.text == ""


def test_progress_fits_a_narrow_terminal(terminal: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    now = [0.0]
    screen = _Screen()
    with ProgressLine(screen, lambda: now[0]) as progress:  # type: ignore[arg-type]
        now[0] = 2.0
        progress(50, 100, "memory/防水ケース.md [bold]")
        lines = screen.text.replace("\x1b[?25l", "").split("\r")
    assert lines == ["[############------------]  50/100 file…"]


@pytest.mark.parametrize("command", ["doctor", "model", "curate"])
def test_what_is_printed_fits_the_terminal(call: Call, world: World, command: str) -> None:
    world.write(
        "memory/long.md", "\n".join(f"On day {day} the tank held {day * 7} litres." for day in range(40))
    )
    call("index")
    code, text = on_a_terminal(
        world, [command, "--workspace", str(world.workspace)], {"NO_COLOR": "1"}, columns=80
    )
    assert code == 0
    wide = [line for line in text.splitlines() if len(line) > 80]
    assert all(len(line.split()) == 1 for line in wide), "only what cannot be broken, such as a path"


def test_a_search_on_a_terminal_loads_no_rich(call: Call, world: World) -> None:
    call("index")
    command = ["search", "router", "--no-sync", "--workspace", str(world.workspace)]
    code, text = on_a_terminal(world, command, {"PYTHONPROFILEIMPORTTIME": "1"})
    assert code == 0
    loaded = {line.rpartition("|")[2].strip() for line in text.splitlines() if line.startswith("import time")}
    assert "openclaw_mem_engine.cli.tables" in loaded
    assert not {"rich", "rich.console"} & loaded


def test_progress_is_silent_in_a_pipe(world: World) -> None:
    for number in range(300):
        world.write(f"memory/{number}.md", f"note {number}")
    done = world.run("index", "--workspace", str(world.workspace))
    assert done.stderr == b""


def test_durations_and_columns() -> None:
    words = [duration(s) for s in (0.04, 12, 200, 9000, 300_000)]
    assert words == ["0.0 s", "12 s", "3 min", "2 h", "3 days"]
    assert progress_text(3, 0, "x", 1.0) == "3 files  3.0/s  x"
    assert crop("abcdef", 4) == "abc…"
    assert crop("abcd", 4) == "abcd"
    assert crop("防水ケース", 5) == "防水…"


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_of_closed_streams_only_stdout_is_an_error(world: World, closed: str) -> None:
    command = [*ARGV, "search", "zeppelin", "--workspace", str(world.workspace)]
    shell = ["sh", "-c", f'"$@" {closed}', "sh", *command]
    done = subprocess.run(shell, capture_output=True, text=True, env=world.environ, check=False)
    assert done.returncode == (8 if ">&- " in closed.replace("2>&-", "") + " " else 0)
    assert ("could not be written" in done.stderr) == (closed == ">&-")
    assert done.stderr.count("\n") <= 2 and "NoneType" not in done.stderr


def test_help_that_cannot_be_written_is_an_error(world: World) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("there is no device that is always full")
    with full.open("w") as stream:
        done = subprocess.run(
            [*ARGV, "--help"], stdout=stream, stderr=subprocess.PIPE, env=world.environ, check=False
        )
    assert done.returncode == 8
    assert b"could not be written (No space left on device)" in done.stderr


def test_two_dashes_are_a_query_like_any_other(call: Call) -> None:
    said = call("search", "--query=--")
    assert said.code == 0 and "no word to look for" in said.out


def test_a_path_of_other_bytes_is_no_file_of_ours(call: Call) -> None:
    said = call("chunks", "memory/a\udcff.md")
    assert said.code == 2
    assert "memory/a<U+DCFF>.md is neither in the index nor a memory file" in said.err
