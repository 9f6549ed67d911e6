"""README and docs: every block of code is run, every command is one that the parser takes, every link leads
somewhere.

The first word after the fence is the language. ``sh not run: REASON`` is only parsed: what installs, or needs
a chat model, the program qmd or a git remote. The workbench is opened on a terminal and quit; ``watch``
indexes one change and is ended by a signal.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from datetime import date
from importlib.metadata import PackageNotFoundError, requires
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import platformdirs.macos
import platformdirs.unix
import pyjson5
import pytest

from openclaw_mem_engine.cli.main import run
from openclaw_mem_engine.cli.parser import build_parser
from openclaw_mem_engine.cli.tui import wrong_keys
from openclaw_mem_engine.config.load import load_settings
from openclaw_mem_engine.config.settings import SETTINGS
from openclaw_mem_engine.config.sources import APP_NAME
from openclaw_mem_engine.errors import Cancelled, OpenClawMemError, UsageError
from openclaw_mem_engine.providers import registry
from openclaw_mem_engine.providers.faults import FAULTS
from openclaw_mem_engine.providers.local import model_file
from openclaw_mem_themes import DEFAULT
from support import local_models, postgres
from support.commands import World, new_world
from support.file_server import running_hub
from support.local_models import needs_llama_cpp
from support.terminals import Workbench
from support.watching import ended

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
#: Pages whose text and links are checked, without blocks that are run.
TEXTS = [*PAGES, ROOT / "CHANGELOG.md", ROOT / "benchmarks" / "README.md"]
LANGUAGES = {"sh", "python", "toml", "json", "json5", "text"}
JSON_PAGE = ROOT / "docs" / "json.md"
#: What opens the workbench, and what it shows then.
WORKBENCH = {"tui": "to search.", "demo": "lesson 1 of 15"}
#: Commands that show a change and ask on a terminal; without one they refuse to write.
ASKING = {"remember", "undo", "curate", "store"}
#: Ids and numbers that stand for one of the reader's: the command that lists them, and which part of its
#: answer is the id.
YOURS: dict[str, tuple[list[str], Callable[[Any], object]]] = {
    "3f9c01ab": (["curate"], lambda found: found["candidates"][0]["id"]),
    "6f1c22ab": (["memories", "list"], lambda found: found[0]["id"]),
    "12": (["undo", "--list"], lambda found: found[0]["id"]),
}
#: The beginning of one of our commands inside of a line of shell.
_OURS = re.compile(r"(?<![/\w])openclaw-mem +([^|&;<>)\n]*)")


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


class Block(NamedTuple):
    """A fenced block: ``line`` is that of its fence, ``reason`` why it is not run ("": it is)."""

    page: str
    line: int
    language: str
    reason: str
    text: str


def blocks_of(page: Path) -> Iterator[Block]:
    opened: tuple[int, str] | None = None
    lines: list[str] = []
    for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
        if opened is None and line.lstrip().startswith("```"):
            opened, lines = (number, line.strip()[3:].strip()), []
        elif opened is not None and line.strip() == "```":
            language, _, rest = opened[1].partition(" ")
            yield Block(
                page.name, opened[0], language, rest.removeprefix("not run: "), "\n".join(lines) + "\n"
            )
            assert not rest or rest.startswith("not run: "), f"{page.name}:{opened[0]}: {rest}"
            opened = None
        elif opened is not None:
            lines.append(line)
    assert opened is None, f"{page.name}:{opened}: a fence is not closed"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A home folder whose OpenClaw has the notes and sessions of the demo, and a vault of other notes; the
    programs that recipes ask for are stubs."""
    root = tmp_path_factory.mktemp("docs") / "world"
    world = new_world(root, {})
    shutil.rmtree(world.workspace)
    assert world.run("demo", "--dir", str(world.home / ".openclaw"), "--print-workspace").returncode == 0
    for name, text in {
        "vault/Daily/2026-01-01.md": "# Network\n\nThe router is in VLAN 40.\n",
        "notes/vpn.md": "# VPN\n\nThe certificate expires in May.\n" * 20,
        "notes/2026-01-01.md": "# Today\n",
        "notes/work/plan.md": "# Plan\n",
        "vault/.obsidian/note.md": "no note\n",
        "app/CLAUDE.md": "Build with make.\n",
        ".claude/projects/-home-me-app/memory/MEMORY.md": "# Index\n\n- [Tests](debugging.md)\n",
        ".claude/projects/-home-me-app/memory/debugging.md": "# Tests\n\nFlaky tests: retry once.\n",
        "bin/openclaw-mem": f'#!/bin/sh\nexec {sys.executable} -m openclaw_mem_engine "$@"\n',
        "bin/fzf": "#!/bin/sh\nhead -n 1\n",
        "bin/rsync": "#!/bin/sh\n",
        "bin/uv": '#!/bin/sh\nshift\nexec "$@"\n',
    }.items():
        path = world.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if "bin/" in name:
            path.chmod(0o755)
    subprocess.run(["git", "init", "-q", world.home / ".openclaw" / "workspace"], check=True)
    assert world.run("index").returncode == 0
    return world


@pytest.fixture
def environ(home: World, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """This process as one of that user, in the home folder."""
    git = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a"}
    git |= {"GIT_COMMITTER_EMAIL": "a@b", "GIT_CONFIG_GLOBAL": os.devnull, "EDITOR": "true"}
    wanted = home.environ | git | {"PATH": f"{home.home / 'bin'}:{os.environ['PATH']}"}
    for name in set(os.environ) - set(wanted):
        monkeypatch.delenv(name)
    for name, value in wanted.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(home.home)
    return wanted


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_block_does_what_it_shows(
    page: Path,
    home: World,
    environ: dict[str, str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names: dict[str, object] = {}
    if page.name == "scale-out.md":  # its commands use the server of the tests
        on_server = postgres.variables() | {"OPENCLAW_MEM_STORE_OWNER": postgres.owner_address()}
        on_server["OPENCLAW_MEM_STORE_AGENT"] += "/{agent}"
        for name, value in on_server.items():
            monkeypatch.setenv(name, value)
        assert run(["index", "--agent", "ops", "--workspace", "notes", "--include", "*.md"]) == 0
    for block in blocks_of(page):
        at = f"{block.page}:{block.line}"
        assert block.language in LANGUAGES, f"{at}: a language among {sorted(LANGUAGES)} is missing"
        if block.language == "toml":
            load_with(home, "config.toml", block.text)
        elif block.language == "json5":
            load_with(home, "openclaw.json", block.text)
        elif block.language == "python":
            exec(compile(block.text, at, "exec"), names)
        elif block.language == "sh":
            run_shell(block, at, home, environ, capsys)


def load_with(home: World, name: str, text: str) -> None:
    """A configuration is one that we read without a remark."""
    file = home.root / name
    file.write_text(text)
    own = name == "config.toml"
    environ = {"OPENCLAW_MEM_HOME": str(home.data), "OPENCLAW_MEM_CONFIG": str(file)} if own else {}
    settings = load_settings(
        config=None if own else file, environ=home.environ | environ, home=home.home, cwd=home.home
    )
    assert [note.text for note in settings.warnings if note.level != "info"] == []
    assert not [key.text for key in settings.openclaw.ignored if not key.known]
    if own:
        assert wrong_keys(settings) == ()
        for key in tomllib.loads(text):
            assert any(known.split(".")[0] == key for known in settings.origins), key
    else:
        pyjson5.decode(text)


def run_shell(
    block: Block, at: str, home: World, environ: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Plain calls of the command in this process, all else by bash."""
    subprocess.run(["bash", "-n"], input=block.text.encode(), check=True)
    for found in _OURS.finditer(re.sub(r"(^|\s)#.*", "", block.text.replace("\\\n", " "), flags=re.M)):
        parsed(found[1], at, block=True)
    if block.reason:
        return
    lines = block.text.replace("\\\n", " ").splitlines()
    if any(plain(line) is None for line in lines):
        done = subprocess.run(
            ["bash", "-euo", "pipefail"], input=block.text, env=environ, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{at}: {done.stdout}{done.stderr}"
        return
    for line in lines:
        argv = plain(line)
        if argv and argv[0] in WORKBENCH and "--print-workspace" not in argv:
            if block.page != "README.md":  # which has one of them too
                opened_and_quit(home, argv, environ)
        elif argv and argv[0] == "watch":
            watched(home, argv, environ)
        elif argv:
            code = run([yours(word, capsys) for word in argv])
            said = capsys.readouterr()
            asked = argv[0] in ASKING and "needs confirmation" in said.err
            assert code == (2 if asked else 0), f"{at}: {line}\n{said.out}{said.err}"


def yours(word: str, capsys: pytest.CaptureFixture[str]) -> str:
    """A word of a command, or what this user has in place of an id that stands for one."""
    if word not in YOURS:
        return word
    listing, chosen = YOURS[word]
    assert run([*listing, "--json"]) == 0
    return str(chosen(json.loads(capsys.readouterr().out)))


def opened_and_quit(home: World, argv: list[str], environ: dict[str, str]) -> None:
    """The workbench opens on a terminal, and ``q`` ends it."""
    query = [word for word in argv[1:2] if not word.startswith("-")]
    faults = argv[argv.index("--fault") + 1 :] if "--fault" in argv else []
    with Workbench(home, argv, environ) as opened:
        opened.shows(*(query or faults or [WORKBENCH[argv[0]]]))
        opened.press("escape")
        opened.shows("q quit")
        opened.press("q")
        assert opened.exit_code() == 0


def watched(home: World, argv: list[str], environ: dict[str, str]) -> None:
    """It indexes a note that is written meanwhile, and a signal ends it."""
    note = home.home / ".openclaw" / "workspace" / "memory" / "watched.md"
    with ended(home.start(*argv, env=environ)) as running:
        assert "watching" in running.text()
        note.write_text("# Watched\n\nThe heron is back.\n")
        while note.name not in (line := running.text()):
            assert line, "it ended"
    note.unlink()
    assert running.process.returncode == 0, "SIGTERM"


def plain(line: str) -> list[str] | None:
    """The arguments of a line that is one call of the command, [] for a blank one, None for other shell."""
    words = shlex.split(line, comments=True)
    if words[:2] == ["uv", "run"]:
        words = words[2:]
    if not words:
        return []
    quoted = re.sub(r"'[^']*'|\"[^\"$`]*\"", "", line.partition(" #")[0])
    if words[0] != "openclaw-mem" or re.search(r"[|&;<>$`]", quoted):
        return None
    return [str(Path(word).expanduser()) if word.startswith("~") else word for word in words[1:]]


def parsed(text: str, at: str, block: bool = False) -> None:
    """The options of a call are those of the parser."""
    if text.count("'") % 2:  # itself in quotes
        text = text.rpartition("'")[0]
    words = shlex.split(text)
    if not words or words[0] in ("--help", "--version"):
        return
    try:
        build_parser(words).parse_args(words)
    except UsageError as error:
        if not block and str(error).startswith("Missing"):
            return  # a command is mentioned by its name
        pytest.fail(f"{at}: openclaw-mem {text}: {error}")
    except SystemExit as done:  # --help
        assert done.code == 0, at


@pytest.mark.parametrize("page", TEXTS, ids=named)
def test_commands_in_the_text_exist_and_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.M | re.S)
    for call in re.findall(r"`openclaw-mem ([^`]+)`", text):
        parsed(call, page.name)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        # A source distribution has the pictures as SVG alone.
        assert file.exists() or file.with_suffix(".svg").exists(), f"{page.name}: {target}"
        assert file.is_relative_to(ROOT)
        if anchor:
            assert anchor in anchors(file), f"{page.name}: {target}"


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives the headings of a page."""
    heads = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def test_every_page_is_in_the_list_of_pages() -> None:
    index = (ROOT / "docs" / "README.md").read_text("utf-8")
    for page in PAGES[1:]:
        assert page.name == "README.md" or f"]({page.name})" in index, page.name


def test_the_story_of_the_readme_is_true(environ: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    query, found = "where is the backup of the firmware signing key", {}
    assert query in (ROOT / "screenshots" / "demo.svg").read_text("utf-8").replace("&#160;", " ")
    for decay in ("off", "on"):
        assert run(["search", query, "--set", f"decay={decay}", "--json"]) == 0
        found[decay] = [hit["path"] for hit in json.loads(capsys.readouterr().out)["results"]]
    log = found["off"][0]
    assert log not in found["on"] and len(found["on"]) == 6
    days = date.today() - date.fromisoformat(Path(log).stem)
    assert 200 < days.days < 240
    old = Path(environ["HOME"], ".openclaw", "workspace", log)
    assert "Backup of the firmware signing key" in old.read_text("utf-8")
    assert run(["why-not", query, log, "--set", "decay=on"]) == 0
    said = capsys.readouterr().out
    assert "vector ranks it 1 of" in said and "BM25 ranks it 1 of" in said
    # The dates of the demo move, and are part of what is embedded.
    assert re.search(r"its score is 0\.5\d\d; its rank is 1 of", said)
    assert re.search(r"days old\) is 0\.00\d;", said)
    assert "decay=off: rank 1" in said and "were not just a date" in said
    old.rename(old.with_name("signing-key.md"))
    assert run(["search", query, "--set", "decay=on", "--json"]) == 0
    first = json.loads(capsys.readouterr().out)["results"][0]
    assert (
        first["path"] == "memory/signing-key.md" and "Backup of the firmware signing key" in first["snippet"]
    )


def test_the_answer_that_is_read_line_by_line_is_a_real_one(
    environ: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = (block.text for block in blocks_of(ROOT / "docs" / "usage.md") if block.language == "text")
    shown, changes = blocks
    assert run(["search", "vpn certificate", "--explain"]) == 0
    said = capsys.readouterr().out
    sentence, above, result, below, state = shown.rstrip("\n").split("\n\n")
    assert (above, below) == ("…", "…") and "\n\nstage " in said, "the tables that are left out"
    assert f"\n\n{result}\n\nnot returned" in said, "the whole result, with no line left out"
    # The notes of the demo are dated from today, so the numbers of other candidates vary.
    counts = re.compile(r"\d+ (?=more|keyword matches)")
    assert counts.sub("", sentence) == counts.sub("", said.splitlines()[0])
    took = re.compile(r"[\d.]+( m?s)?|( · after .+ of sync)")
    assert took.sub("", state) == took.sub("", said.splitlines()[-1])

    call, *lines = changes.splitlines()
    assert run(shlex.split(call.removeprefix("$ openclaw-mem").partition(" --workspace")[0])) == 0
    numbers = re.compile(r"[\d.]+( other results?)?")
    wanted = [numbers.sub("", line) for line in lines]
    said = numbers.sub("", capsys.readouterr().out)
    real = [line if line in wanted else "…" for line in said.splitlines()]
    assert wanted == [line for line, _ in groupby(real)], "in this order; … stands for what is left out"


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 72


@pytest.mark.skipif(not (ROOT / ".ci" / "run").exists(), reason="a source distribution has no .ci/run")
def test_ci_runs_the_two_commands_of_the_readme() -> None:
    steps = (ROOT / ".ci" / "run").read_text("utf-8")
    calls = re.findall(r"\bpip install uv && (uv run .+?)(?: +#|`)", PAGES[0].read_text("utf-8"))
    assert calls == ["uv run openclaw-mem demo", "uv run pytest"]
    for call in calls:
        assert f"\nrun {call}" in steps


def test_the_folders_are_those_of_the_platforms(home: World) -> None:
    text = (ROOT / "docs" / "configuration.md").read_text("utf-8")
    mac = platformdirs.macos.MacOS(APP_NAME, appauthor=False)
    unix = platformdirs.unix.Unix(APP_NAME, appauthor=False)
    for folders in (mac, unix):
        for folder in (folders.user_data_path, folders.user_config_path):
            shown = str(folder).replace(str(Path.home()), "~")
            assert f"`{shown}" in text
    made = {path.name.partition(".sqlite")[0] for path in home.data.iterdir()}
    assert {"indexes", "events"} <= made
    for name in made:
        assert f"`{name}/`" in text or f"`{name}.sqlite`" in text, name


def test_every_variable_and_extra_is_documented() -> None:
    variables = (ROOT / "docs" / "configuration.md").read_text("utf-8")
    sources = "".join(
        file.read_text("utf-8") for part in ("engine", "tui") for file in (ROOT / part).rglob("*.py")
    )
    names = set(re.findall(r'"(OPENCLAW_\w+|VISUAL|EDITOR)"', sources))
    assert {"OPENCLAW_MEM_HOME", "OPENCLAW_CONFIG_PATH", "VISUAL"} <= names
    assert {name for name in names if f"`{name}`" not in variables} == set()
    install = (ROOT / "docs" / "install.md").read_text("utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert {extra for extra in project["optional-dependencies"] if f"'.[{extra}]'" not in install} == set()


def test_what_llama_cpp_python_needs_is_what_it_says() -> None:
    """The pyproject says it in its place: reading it means a download of its source."""
    try:
        needed = requires("llama-cpp-python") or []
    except PackageNotFoundError:
        pytest.skip("llama-cpp-python is not installed")
    (said,) = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["uv"]["dependency-metadata"]
    assert set(said["requires-dist"]) == {each for each in needed if "extra ==" not in each}


def test_every_simulated_fault_is_documented() -> None:
    table = (ROOT / "docs" / "configuration.md").read_text("utf-8").partition("| `--fault` |")[2]
    assert dict(re.findall(r"^\| `([\w-]+)` \| (.+) \|$", table, flags=re.M)) == FAULTS


def test_the_default_models_and_theme_are_those_of_the_code() -> None:
    table = (ROOT / "docs" / "configuration.md").read_text("utf-8")
    rows = [[cell.strip() for cell in line.split("|")] for line in table.splitlines()]
    models = {row[1]: row[3] for row in rows if len(row) == 6}
    for name in registry.names()[:-1]:
        assert models[f"`{name}`"] == f"`{registry.provider_named(name).model_name('')}`"
    assert SETTINGS["theme"].meaning.endswith(f"(default: {DEFAULT})")


def test_the_git_hook_of_the_recipe_replaces_none(home: World, environ: dict[str, str]) -> None:
    hooks = home.home / ".openclaw" / "workspace" / ".git" / "hooks"
    (hooks / "post-commit").unlink(missing_ok=True)
    (hooks / "post-merge").write_text("#!/bin/sh\n")
    (text,) = (block.text for block in blocks_of(ROOT / "docs" / "recipes.md") if "post-merge" in block.text)
    subprocess.run(["bash", "-euo", "pipefail"], input=text, env=environ, check=True, text=True)
    assert (hooks / "post-merge").read_text() == "#!/bin/sh\n"
    assert "openclaw-mem index" in (hooks / "post-commit").read_text()


@needs_llama_cpp[0]
@needs_llama_cpp[1]
def test_the_recipe_of_a_local_model_but_for_its_installation(
    tmp_path: Path,
    environ: dict[str, str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    blocks = blocks_of(ROOT / "docs" / "recipes.md")
    (text,) = (block.text for block in blocks if "model download" in block.text)
    installs, *calls = text.splitlines()
    assert installs.startswith("uv tool install '.[local]'")
    monkeypatch.setenv("OPENCLAW_MEM_HOME", str(tmp_path / "data"))
    with running_hub(local_models.bert(tmp_path / "tiny.gguf").read_bytes()) as hub:
        monkeypatch.setattr(model_file, "HUB", hub.base_url)
        for call in calls:
            assert run(plain(call) or []) == 0, call
    capsys.readouterr()
    assert run(["status", "--provider", "local", "--json"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert status["provider"] == "local" and status["vectors"] == status["chunks"] > 0


def test_every_exit_code_is_documented() -> None:
    table = (ROOT / "docs" / "json.md").read_text("utf-8")
    kinds, codes = [OpenClawMemError], {0, Cancelled.exit_code}
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        codes.add(kind.exit_code)
    for code in codes:
        assert f"\n| {code} |" in table


#: Objects with a table of their own ("| key of … |"), by the key that holds them.
_TABLES = {"results": "a result", "fallback": "fallback", "freshness": "freshness", "trace": "trace"}
_TABLES |= {"rows": "a row", "unshown": "unshown", "chain": "a provider", "chunks": "a chunk"}
_TABLES |= {"events": "an event", "settings": "a setting", "steps": "a step"}


def documented() -> dict[str, dict[str, str]]:
    """The keys of each table of the page and their meaning, by the heading of a command or by "key of …"."""
    tables: dict[str, dict[str, str]] = {}
    heading, rows = "", dict[str, str]()
    for line in JSON_PAGE.read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("### "):
            heading = line[4:].replace("`", "")
        elif line.startswith("| key"):
            rows = tables.setdefault(cells[0].replace("`", "").partition("key of ")[2] or heading, {})
        elif not line.startswith("|"):
            rows = {}
        elif line.startswith("| `"):
            rows |= dict.fromkeys(re.findall(r"`(\w+\??)`", cells[0]), cells[1])
    return tables


def check_keys(tables: dict[str, dict[str, str]], table: str, value: object, at: str) -> None:
    """The keys of an object, or of each in a list, are those of its table; ``key?`` may be absent."""
    keys = tables[table]
    for item in value if isinstance(value, list) else [value]:
        assert isinstance(item, dict), at
        assert (
            {key for key in keys if not key.endswith("?")} <= item.keys() <= {k.rstrip("?") for k in keys}
        ), at
        for key, meaning in keys.items():
            below, inner = item.get(key.rstrip("?")), _TABLES.get(key.rstrip("?"), "")
            if not isinstance(below, dict | list) or not below:
                continue
            below = [*below.values()] if key == "settings" and isinstance(below, dict) else below
            # "each file: `path`, `reason`" in the second column
            listed = re.findall(
                r"`(\w+\??)`", re.sub(r"\(.*?\)", "", meaning.partition(": ")[2].partition(". ")[0])
            )
            if inner:
                check_keys(tables, inner, below, f"{at}.{key}")
            elif listed:
                check_keys({key: dict.fromkeys(listed, "")}, key, below, f"{at}.{key}")


@pytest.mark.parametrize(
    "call",
    [
        ["search", "router"],
        ["search", "router", "--explain", "--set", "mmr=on", "--provider", "mistral"],
        ["get", "MEMORY.md"],
        ["status"],
        ["providers", "--probe"],
        ["index"],
        ["index", "--dry-run", "--force"],
        ["files"],
        ["chunks", "MEMORY.md"],
        ["doctor"],
        ["doctor", "--fix"],
        ["why-not", "router", "MEMORY.md:3"],
        ["why-not", "vpn certificate", "MEMORY.md:20"],
        ["log"],
        ["config"],
    ],
    ids=" ".join,
)
def test_json_has_the_documented_keys(
    call: list[str], environ: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*call, "--json"]) == 0
    table = "index --dry-run" if "--dry-run" in call else call[0]
    check_keys(documented(), table, json.loads(capsys.readouterr().out), " ".join(call))


def test_json_of_an_error_has_the_documented_keys(
    environ: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["files", "--json", "--workspace", "/nowhere"]) == 5
    check_keys(documented(), "error", json.loads(capsys.readouterr().out)["error"], "error")


def test_the_json_sample_is_an_answer(environ: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    (sample,) = (json.loads(block.text) for block in blocks_of(JSON_PAGE) if block.language == "json")
    assert run(["search", sample["query"], "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert list(sample) == list(answer) and len(sample["results"]) == len(answer["results"])
    assert list(sample["freshness"]) == list(answer["freshness"])
    assert answer["answer"].startswith(sample["answer"].rstrip("…"))
    for shown, hit in zip(sample["results"], answer["results"], strict=True):
        assert list(shown) == list(hit)
        beginning = shown["snippet"].rstrip("…")
        assert beginning and hit["snippet"].startswith(beginning)
        assert shown == hit | {"score": round(hit["score"], 4), "snippet": shown["snippet"]}
