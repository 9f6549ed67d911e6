"""A run as files: JSON, Markdown, the screen as SVG, and the knob changes as a piece of configuration.
Everything that looks like a secret is masked; in the picture where it is on one line in one style."""

from __future__ import annotations

import html
import json
import os
import re
import time
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from rich.cells import cell_len, get_character_cell_size

from openclaw_mem_engine.api import (
    Answer,
    fragment,
    fragment_files,
    openclaw_key,
    private_folder,
    profile,
    redacted,
    trace_markdown,
)
from openclaw_mem_tui.features.search.state import View
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.choices import Choice

if TYPE_CHECKING:
    from textual.app import App

    from openclaw_mem_engine.api import Knobs, KnobValue
    from openclaw_mem_tui.features.search.lab import Lab
    from openclaw_mem_tui.features.search.presenter import SearchPresenter

SUFFIX = {"json": ".json", "markdown": ".md", "svg": ".svg", "config": ".json5"}


def as_json(view: View) -> str:
    """The trace in the engine's explain format."""
    assert view.trace is not None
    return json.dumps(redacted(view.trace.to_dict()), ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def as_config(view: View) -> str:
    """What to paste so that an agent with any configuration of the configured profile gets the present
    knobs."""
    return fragment(to_paste(view, view.knobs))


def to_paste(view: View, knobs: Knobs) -> dict[str, KnobValue]:
    """The knobs that are not as the profile has them, and those that are configured: their values may be in
    the config.toml alone, or another one in the agent's configuration. A profile that is not the configured
    one is named, for openclaw-mem; OpenClaw has none, so its keys have all that the profile changes."""
    other = {"profile": knobs.profile} if knobs.profile != view.defaults.profile else {}
    settings, values = view.settings, knobs.to_dict()
    changed = knobs.changed_names(view.defaults)
    names = {
        *(name for name in changed if not other or openclaw_key(name, values[name])),
        *knobs.changed_names(profile(knobs.profile)),
        *(settings.query.overrides if settings is not None else ()),
    }
    return {**other, **{name: value for name, value in values.items() if name in names}}


def as_markdown(view: View) -> str:
    """The engine's report of the run, and the knobs that differ from the configuration."""
    assert view.trace is not None and view.pool is not None
    report: str = redacted(trace_markdown(Answer(view.pool, view.trace)))
    if not view.changed_knobs():
        return report
    heading = "## Knobs that differ from the configuration"
    return "\n".join([report.rstrip(), "", heading, "", f"```json5\n{fragment(view.changed_knobs())}```", ""])


def picture(app: App[int]) -> str:
    """The screen as SVG, drawn with fonts of the machine that shows it: nothing is loaded from a host."""
    svg = in_cells(app.export_screenshot(title="openclaw-mem", simplify=True))
    svg = re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.DOTALL)
    return re.sub(r"font-family: [^;]+;", f"font-family: {_FONTS};", svg)


#: Those of usual systems; East Asian characters come from the first one that has them.
_FONTS = "'DejaVu Sans Mono', Menlo, Consolas, 'Noto Sans Mono CJK JP', 'Noto Sans CJK JP', monospace"


def in_cells(svg: str) -> str:
    """A picture of the screen without secrets, in which wide characters take two cells: the length of a text
    is written as if each took one, so that runs of wide ones and of others become texts of their own. Bars
    and frames are drawn as shapes: the glyphs of many fonts leave gaps between lines."""

    def runs(match: re.Match[str]) -> str:
        before, x, middle, _, after, content = match.groups()
        at, made = float(x), []
        plain = html.unescape(content)
        shown: str = redacted(plain)
        shown += "\xa0" * (cell_len(plain) - cell_len(shown))
        for _, run in groupby(shown, lambda char: get_character_cell_size(char) > 1):
            text = "".join(run)
            length = cell_len(text) * _CELL
            escaped = html.escape(text, quote=False).replace("\xa0", "&#160;")
            made.append(f"{before}{at:g}{middle}{length:g}{after}{escaped}</text>")
            at += length
        return "".join(made)

    def is_plain(text: str) -> bool:
        return cell_len(text) == len(text) and redacted(html.unescape(text)) == html.unescape(text)

    cells = _TEXT.sub(lambda match: match[0] if is_plain(match[6]) else runs(match), svg)
    return _BAR.sub(_shapes, cells)


def _shapes(match: re.Match[str]) -> str:
    """The bars and frames of a text as shapes, and the text, without a colour where it has nothing else."""
    name, x, y, rest, text = match.groups()
    made, at, top = [], float(x), float(y) - _BASELINE
    for char, run in groupby(html.unescape(text)):
        left, above, wide, high = _BLOCKS.get(char, (0, 0, 0, 0))
        many = len(list(run))
        one = many if wide == 8 else 1  # whole cells are one shape
        for start in range(0, many * bool(wide), one):
            place = f'x="{at + start * _CELL + left * _CELL / 8:g}" y="{top + above * _ROW / 8:g}"'
            size = f'width="{one * wide * _CELL / 8:g}" height="{high * _ROW / 8 + _OVER:g}"'
            crisp = "" if char == "│" else ' shape-rendering="crispEdges"'
            made.append(f'<rect class="{name}" {place} {size}{crisp}/>')
        at += many * _CELL
    hidden = "" if set(html.unescape(text)) - {"\xa0", *_BLOCKS} else ' fill-opacity="0"'
    return f'{"".join(made)}<text class="{name}"{hidden} x="{x}" y="{y}"{rest}>{text}</text>'


#: Width of a cell in a picture, and a text in it: before x, x, between x and length, length, rest, content.
_CELL = 12.2
#: Height of a row, from its top to the line that its text is on, and by how much shapes go into the next row.
_ROW, _BASELINE, _OVER = 24.4, 18.5, 0.25
#: Bars and frames: what is left of each, above it, its width and its height, in eighths of a cell.
_BLOCKS = {
    **{char: (0, 8 - n, 8, n) for n, char in enumerate("▁▂▃▄▅▆▇█", 1)},
    **{char: (0, 0, n, 8) for n, char in enumerate("▏▎▍▌▋▊▉", 1)},
    "▐": (4, 0, 4, 8),
    "│": (3.5, -0.2, 1, 8.4),  # up to the corners
    "┃": (3, 0, 2, 8),
}
_BAR = re.compile(r'<text class="([^"]*-r\d+)" x="([\d.]+)" y="([\d.]+)"([^>]*)>([^<]*[▁-▐│┃][^<]*)</text>')
_TEXT = re.compile(
    r'(<text class="[^"]*-r\d+" x=")([\d.]+)(" y="[\d.]+" textLength=")([\d.]+)("[^>]*>)([^<]*)</text>'
)

_MAKERS = {"json": as_json, "markdown": as_markdown, "config": as_config}


def file_name(query: str, stamp: str, kind: str) -> str:
    """``20260331-180000-gateway-router.json``: sortable by time."""
    words = re.sub(r"[^a-z0-9]+", "-", query.lower()).strip("-")[:40].strip("-")
    return f"{stamp}-{words or 'search'}{SUFFIX[kind]}"


def write(folder: Path, name: str, text: str) -> Path:
    """Write a new file (never over an old one), for this user alone, and return its path. Raises OSError."""
    private_folder(folder).chmod(0o700)  # an earlier version made it readable for all
    stem, suffix = name.rsplit(".", 1)
    for number in range(1, 1000):
        path = folder / (name if number == 1 else f"{stem}-{number}.{suffix}")
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n", errors="replace") as file:
                file.write(text)
        except FileExistsError:
            continue
        return path
    raise OSError(f"{folder} holds too many files named {stem}.")


def save(search: SearchPresenter, kind: str, text: str, before: str = "") -> None:
    """Write an export of the present query, and say where it is, with what was done ``before``."""
    name = file_name(search.view.query, time.strftime("%Y%m%d-%H%M%S"), kind)
    try:
        path = write(Path(search.service.settings.data_dir) / "exports", name, text)
        search.say(f"{before}wrote {path}")
    except OSError as error:
        search.say(f"{before}nothing was written: {error}")


def offer_export(lab: Lab) -> None:
    """Let the user pick a kind; write a new file and say where it is."""
    from openclaw_mem_tui.widgets.dialogs import pick

    search, view, app = lab.search, lab.search.view, lab.app
    if view.trace is None or not view.answers:
        search.say("there is no result to export yet")
        return
    # Taken before the dialog covers the screen.
    svg = picture(app)
    pasted = to_paste(view, view.knobs)
    into = f"{fmt.count(len(pasted), 'setting')} for {fragment_files(pasted)}; also to the clipboard"
    choices = [
        Choice("json", "JSON", "the trace of openclaw-mem search QUERY --explain --json", "J"),
        Choice("markdown", "Markdown", "a report: stages, results, what was dropped and why", "m"),
        Choice("svg", "SVG", "this screen as a picture", "s"),
        Choice("config", "Configuration", into if pasted else "every knob is as its profile has it", "c"),
    ]

    def export(picked: str) -> None:
        if picked == "config" and not pasted:
            search.say("nothing to export: every knob has the default of its profile")
            return
        text = svg if picked == "svg" else _MAKERS[picked](view)
        if picked == "config":
            app.copy_to_clipboard(text)
        save(search, picked, text, "sent to the terminal's clipboard; " * (picked == "config"))

    pick(lab, "export", lambda _: choices, export)
