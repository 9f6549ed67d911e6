"""A run as files: JSON, Markdown, the screen as SVG, and the knob changes as a piece of configuration."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Literal

from openclaw_mem_engine.api import fragment
from openclaw_mem_tui.features.search.state import View

Kind = Literal["json", "markdown", "svg", "config"]
SUFFIX: dict[Kind, str] = {"json": ".json", "markdown": ".md", "svg": ".svg", "config": ".json5"}


def as_json(view: View) -> str:
    """The trace in the engine's explain format."""
    assert view.trace is not None
    return json.dumps(view.trace.to_dict(), ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def as_config(view: View) -> str:
    """What to paste so that the present knobs become the configured ones."""
    return fragment(view.changed_knobs())


def as_markdown(view: View) -> str:
    """The engine's report of the run, and the knobs that differ from the configuration."""
    assert view.trace is not None
    assert view.pool is not None
    # Loaded here: the engine itself is opened only after the first frame.
    from openclaw_mem_engine.api import Answer, trace_markdown

    report = trace_markdown(Answer(view.pool, view.trace))
    if not view.changed_knobs():
        return report
    heading = "## Knobs that differ from the configuration"
    return "\n".join([report.rstrip(), "", heading, "", "```json5", as_config(view).rstrip(), "```", ""])


def file_name(query: str, stamp: str, kind: Kind) -> str:
    """``20260331-180000-gateway-router.json``: sortable, and tells what it holds."""
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
