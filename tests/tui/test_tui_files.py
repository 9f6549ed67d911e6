"""Exports, editors, themes, the table of actions, and what may be imported."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import lab_world as world
import pytest
from lab_world import failing

from openclaw_mem_engine.api import Expected, configured_knobs, profile
from openclaw_mem_engine.errors import OpenClawMemError
from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_themes import BUILT_IN, ThemeError, load_theme
from openclaw_mem_tui.actions import PARTS
from openclaw_mem_tui.app import Workbench
from openclaw_mem_tui.bindings import ACTIONS, IN_TURN, offered
from openclaw_mem_tui.editor import editor_command
from openclaw_mem_tui.features import SCREENS
from openclaw_mem_tui.features.index.chunks_screen import ChunksScreen
from openclaw_mem_tui.features.search import export
from openclaw_mem_tui.features.search.knob_panel import KnobPanel
from openclaw_mem_tui.features.why_not.screen import WhyNotScreen
from openclaw_mem_tui.keys_page import keys_page
from openclaw_mem_tui.screen import WorkbenchScreen
from openclaw_mem_tui.themes import textual_theme
from support.config_world import World

HOSTILE = "x\x1b[31m | [red]`#"


def test_json_is_the_explain_format() -> None:
    view = world.view()
    assert view.trace is not None
    assert json.loads(export.as_json(view)) == json.loads(json.dumps(view.trace.to_dict()))


def test_exports_are_private_and_without_secrets(tmp_path: Path) -> None:
    secret = f"glpat-{'aB3dE5fG7h' * 2}"
    view = world.view(query=f"the key {secret}")
    folder = tmp_path / "data/exports"
    for text in (export.as_json(view), export.as_markdown(view)):
        written = export.write(folder, "20260331-180000-x.md", text)
        assert secret not in written.read_text() and "glpat-" in written.read_text()
        assert oct(written.stat().st_mode & 0o777) == "0o600"
    assert {oct(one.stat().st_mode & 0o777) for one in (folder, folder.parent)} == {"0o700"}
    line = '<text class="terminal-r4" x="0" y="68.8" textLength="366" clip-path="url(#l)">{}</text>'
    drawn = export.in_cells(line.format(f"use {secret}"))
    assert drawn == line.format("use glpat-…fG7h" + "&#160;" * 15)


def test_markdown_is_inert() -> None:
    view = world.view(
        Knobs().set({"min_score": 0.2}), Knobs(), query=HOSTILE, paths=(f"memory/{HOSTILE}.md",) * 3
    )
    report = export.as_markdown(view)
    assert "\x1b" not in report and "\\[red\\]" in report
    assert "## Not returned" in report and "| min score |" in report and "json5" in report


def test_config_fragment_holds_the_change() -> None:
    fragment = export.as_config(world.view(Knobs().set({"max_results": 9}), Knobs()))
    assert "maxResults" in fragment and "9" in fragment


@pytest.mark.parametrize("name", ["documented", "openclaw-2026.2", "workbench", "qmd-2.8"])
def test_what_is_exported_gives_the_knobs_back_and_names_their_profile(tmp_path: Path, name: str) -> None:
    there = World(tmp_path)
    knobs = profile(name).set({"max_results": 9, "snippet_chars": 2000, "vector_weight": 0.3})
    text = export.as_config(world.view(knobs, Knobs()))
    assert text.endswith("\n") and ('// profile = "' in text) == (name != "documented")
    ours = [line.removeprefix("// ") for line in text.splitlines() if line.startswith("// ")]
    there.openclaw(text)
    there.own("\n".join(ours[ours.index("[query]") :]))
    assert configured_knobs(there.load()) == knobs
    only = [line for line in ours if " = " in line]
    assert [line.split(" = ")[0] for line in only] == [
        *(["profile"] if name != "documented" else []),
        "snippet_chars",
    ], "the profile has the others"


def test_files_are_never_overwritten(tmp_path: Path) -> None:
    name = export.file_name("Router VLAN?", "20260331-180000", "json")
    assert name == "20260331-180000-router-vlan.json"
    first, second = export.write(tmp_path, name, "1"), export.write(tmp_path, name, "2")
    assert first != second and first.read_text() == "1" and second.read_text() == "2"


@pytest.mark.parametrize(
    ("configured", "environ", "command"),
    [
        (None, {}, ["vi", "+12", "n.md"]),
        (None, {"EDITOR": "nano -w"}, ["nano", "-w", "+12", "n.md"]),
        (None, {"EDITOR": "nano", "VISUAL": "hx"}, ["hx", "n.md:12"]),
        ("code", {}, ["code", "--wait", "--goto", "n.md:12"]),
        ("/snap/bin/code-insiders -w", {}, ["/snap/bin/code-insiders", "-w", "--goto", "n.md:12"]),
        ("/opt/own/editor", {}, ["/opt/own/editor", "n.md"]),
        ("'/path with space/vim'", {}, ["/path with space/vim", "+12", "n.md"]),
        ("/usr/bin/vim.basic -n", {}, ["/usr/bin/vim.basic", "-n", "+12", "n.md"]),
        ("emacsclient -t", {}, ["emacsclient", "-t", "+12", "n.md"]),
        ("emacs-29.1", {}, ["emacs-29.1", "+12", "n.md"]),
        ("gvim", {}, ["gvim", "-f", "+12", "n.md"]),
        ("nvim-qt", {}, ["nvim-qt", "--nofork", "+12", "n.md"]),
        ("visual-of-my-own", {}, ["visual-of-my-own", "n.md"]),
    ],
)
def test_editors_open_at_the_line(
    configured: str | None, environ: dict[str, str], command: list[str]
) -> None:
    at_line = any("12" in word for word in command)
    assert editor_command(configured, environ, "n.md", 12) == (command, at_line)
    path = "a {line} b/n.md"
    assert path in editor_command(configured, environ, path, 12)[0][-1]


@pytest.mark.parametrize("name", BUILT_IN)
def test_our_themes_load_and_contrast(name: str) -> None:
    from textual.color import Color

    theme = textual_theme(load_theme(name))
    assert theme.background is not None and theme.foreground is not None
    grounds = [Color.parse(theme.background), Color.parse(theme.variables["cursor"])]
    needed = 7.0 if name == "claw-contrast" else 4.5
    for color in (
        theme.foreground,
        theme.variables["quiet"],
        theme.variables["faint"],
        theme.variables["vector"],
        theme.accent,
        theme.success,
        theme.warning,
        theme.error,
    ):
        assert color is not None
        for ground in grounds:
            assert _contrast(ground.rgb, Color.parse(color).rgb) >= needed, (color, ground)
    others = {theme.accent, theme.secondary, theme.warning, theme.error, theme.success}
    assert len(others) == 5, "a colour has one meaning"
    assert theme.variables["vector"] not in others, "bars of vectors have a colour of their own"


def _contrast(one: tuple[int, int, int], two: tuple[int, int, int]) -> float:
    def luminance(rgb: tuple[int, int, int]) -> float:
        parts = [c / 255 / 12.92 if c / 255 <= 0.04045 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in rgb]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    high, low = sorted((luminance(one), luminance(two)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_a_users_theme_by_name_and_by_path(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('name = "mine"\ndark = false\n[colors]\nprimary = "#336699"\n')
    assert load_theme("mine", tmp_path).colors["primary"] == "#336699"
    assert load_theme(str(file)).dark is False


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[colors", "cannot be read"),
        ("[colors]\n", "at least primary"),
        ('[colors]\nprimary = "red; }"\n', "is not a colour"),
        ('[colors]\nprimary = "#123456"\nother = "#123456"\n', "no 'other'"),
        ('size = 3\n[colors]\nprimary = "#123456"\n', "'size' is unknown"),
        ('name = "../x"\n[colors]\nprimary = "#123456"\n', "letters, digits"),
    ],
)
def test_a_bad_theme_is_refused_with_a_reason(tmp_path: Path, text: str, reason: str) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(text)
    with pytest.raises(ThemeError, match=reason):
        load_theme(str(file))


def test_an_unknown_theme_names_ours() -> None:
    with pytest.raises(ThemeError, match="claw-dark"):
        load_theme("nothing-like-it")


def test_every_action_has_its_method_and_no_key_is_taken_twice() -> None:
    app = Workbench(failing(OpenClawMemError("not opened here")))
    screens: dict[str, WorkbenchScreen] = {"search": app.search_screen}
    for entry in SCREENS[1:]:
        screens[entry.name] = entry.load()(app.search, app.search_screen)  # type: ignore[call-arg]
    screens["chunks"] = ChunksScreen(app.search, "MEMORY.md")
    screens["why_not"] = WhyNotScreen(app.search, Expected("MEMORY.md", 1), lambda *_: None)
    owners = {where: (screen,) for where, screen in screens.items()} | {"everywhere": tuple(screens.values())}
    for action in ACTIONS:
        if action.command.startswith("app."):
            assert hasattr(app, "action_show")
            continue
        method = action.command.removeprefix("screen.").partition("(")[0]
        if action.where in PARTS:
            assert hasattr(KnobPanel, f"action_{method}"), action.id
        for owner in (one for where in action.where.split() for one in owners.get(where, ())):
            assert callable(getattr(owner, f"action_{method}", None)), action.id
    assert {where for action in ACTIONS for where in action.where.split()} == {*owners, "knobs", "lists"}
    for where in (*screens, "knobs"):
        moves = offered("lists")
        keys = Counter(key for a in (*offered(where), *moves) for key in a.keys.split(","))
        twice = {a.id for a in offered(where) for key in a.keys.split(",") if keys[key] > 1}
        assert not twice or twice == IN_TURN


def test_the_page_of_keys_is_fresh() -> None:
    page = (Path(__file__).parents[2] / "docs" / "keys.md").read_text("utf-8")
    for action in ACTIONS:
        assert f"| `{action.id}` |" in page
    for row in ("| `←` `h` | a small step down | knobs | `less` |", "| `shift+→` `L` | a large step up |"):
        assert row in page
    assert page == keys_page(), "write keys_page() to docs/keys.md"


def test_pure_modules_do_not_import_textual() -> None:
    search = ["state", "lessons", "export", "comparison", "presenter", "render.hits", "render.waterfall"]
    search += ["render.funnel", "render.preview", "render.knobs", "render.above"]
    index = ("presenter", "render.files", "render.doctor", "render.chunks", "render.summary")
    modules = ["editor", "presenter", "service", "memory_thread", "sync_controller", "features"]
    modules += [f"render.{name}" for name in ("format", "spans", "status", "terms")]
    modules += [f"features.search.{name}" for name in search]
    modules += [f"features.index.{name}" for name in index]
    modules += ["features.why_not.render"]
    modules += [f"features.providers.{name}" for name in ("presenter", "render")]
    code = "import sys\n" + "".join(f"import openclaw_mem_tui.{name}\n" for name in modules)
    code += "print([m for m in ('textual', 'apsw', 'numpy') if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_the_app_module_opens_nothing_heavy() -> None:
    heavy = ["apsw", "numpy", "openai", "httpx", "watchfiles"]
    heavy += [f"openclaw_mem_engine.{name}" for name in ("answer", "ranking.pipeline", "retrieval", "answer")]
    code = f"import sys, openclaw_mem_tui.app\nprint([m for m in {heavy} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
