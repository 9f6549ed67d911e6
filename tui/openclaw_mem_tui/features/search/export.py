"""A run as files: JSON, Markdown, the screen as SVG, and the knob changes as a piece of configuration."""

from __future__ import annotations

import html
import json
import re
import time
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from rich.cells import cell_len, get_character_cell_size

from openclaw_mem_engine.api import Answer, fragment, trace_markdown
from openclaw_mem_tui.features.search.presenter import SearchPresenter
from openclaw_mem_tui.features.search.state import View
from openclaw_mem_tui.render import format as fmt

if TYPE_CHECKING:
    from textual.app import App

SUFFIX = {"json": ".json", "markdown": ".md", "svg": ".svg", "config": ".json5"}


def as_json(view: View) -> str:
    """The trace in the engine's explain format."""
    assert view.trace is not None
    return json.dumps(view.trace.to_dict(), ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def as_config(view: View) -> str:
    """What to paste so that the present knobs become the configured ones."""
    return fragment(view.changed_knobs())


def as_markdown(view: View) -> str:
    """The engine's report of the run, and the knobs that differ from the configuration."""
    assert view.trace is not None and view.pool is not None
    report = trace_markdown(Answer(view.pool, view.trace))
    if not view.changed_knobs():
        return report
    heading = "## Knobs that differ from the configuration"
    return "\n".join([report.rstrip(), "", heading, "", "```json5", as_config(view).rstrip(), "```", ""])


def in_cells(svg: str) -> str:
    """A picture of the screen in which wide characters take two cells: the length of a text is written as if
    each took one, so that runs of wide ones and of others become texts of their own."""

    def runs(match: re.Match[str]) -> str:
        before, x, middle, _, after, content = match.groups()
        at, made = float(x), []
        for _, run in groupby(html.unescape(content), lambda char: get_character_cell_size(char) > 1):
            text = "".join(run)
            length = cell_len(text) * _CELL
            escaped = html.escape(text, quote=False).replace("\xa0", "&#160;")
            made.append(f"{before}{at:g}{middle}{length:g}{after}{escaped}</text>")
            at += length
        return "".join(made)

    return _TEXT.sub(lambda match: match[0] if cell_len(match[6]) == len(match[6]) else runs(match), svg)


#: Width of a cell in a picture, and a text in it: before x, x, between x and length, length, rest, content.
_CELL = 12.2
_TEXT = re.compile(
    r'(<text class="[^"]*-r\d+" x=")([\d.]+)(" y="[\d.]+" textLength=")([\d.]+)("[^>]*>)([^<]*)</text>'
)

_MAKERS = {"json": as_json, "markdown": as_markdown, "config": as_config}


def file_name(query: str, stamp: str, kind: str) -> str:
    """``20260331-180000-gateway-router.json``: sortable by time."""
    words = re.sub(r"[^a-z0-9]+", "-", query.lower()).strip("-")[:40].strip("-")
    return f"{stamp}-{words or 'search'}{SUFFIX[kind]}"


def write(folder: Path, name: str, text: str) -> Path:
    """Write a new file (never over an old one) and return its path. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    stem, suffix = name.rsplit(".", 1)
    for number in range(1, 1000):
        path = folder / (name if number == 1 else f"{stem}-{number}.{suffix}")
        try:
            with path.open("x", encoding="utf-8", newline="\n", errors="replace") as file:
                file.write(text)
        except FileExistsError:
            continue
        return path
    raise OSError(f"{folder} holds too many files named {stem}.")


def offer_export(app: App[int], search: SearchPresenter) -> None:
    """Let the user pick a kind; write a new file and say where it is."""
    from openclaw_mem_tui.widgets.dialogs import Choice, PickScreen

    view = search.view
    if view.trace is None or not view.answers:
        search.say("there is no answer to export yet")
        return
    # Taken before the dialog covers the screen.
    svg = in_cells(app.export_screenshot(title="openclaw-mem", simplify=True))
    changes = fmt.count(len(view.changed_knobs()), "knob") + " changed"
    choices = [
        Choice("json", "JSON", "the whole trace, as search --explain prints it", "j"),
        Choice("markdown", "Markdown", "a report: stages, hits, what was dropped and why", "m"),
        Choice("svg", "SVG", "this screen as a picture", "s"),
        Choice("config", "Configuration", f"the knobs to paste into openclaw.json ({changes})", "c"),
    ]

    def export(picked: str | None) -> None:
        if picked is None:
            return
        text = svg if picked == "svg" else _MAKERS[picked](view)
        name = file_name(view.query, time.strftime("%Y%m%d-%H%M%S"), picked)
        try:
            path = write(Path(search.service.settings.data_dir) / "exports", name, text)
        except OSError as error:
            search.say(f"nothing was written: {error}")
        else:
            search.say(f"wrote {path}")

    app.push_screen(PickScreen("export", lambda _: choices), export)
