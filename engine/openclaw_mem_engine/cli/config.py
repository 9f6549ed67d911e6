"""``openclaw-mem config``."""

from __future__ import annotations

import os
import shlex
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openclaw_mem_engine.cli.opening import settings_of
from openclaw_mem_engine.cli.terminal import (
    dim,
    facts,
    hanging,
    one_line,
    out,
    say,
    show,
    strong,
)
from openclaw_mem_engine.config.ignored import nearest
from openclaw_mem_engine.config.settings import DEFAULT_ORIGIN
from openclaw_mem_engine.config.sources import is_there
from openclaw_mem_engine.errors import ConfigError, UsageError
from openclaw_mem_engine.model import Note
from openclaw_mem_engine.sanitize import visible

if TYPE_CHECKING:
    from openclaw_mem_engine.config.own_file import SettingsEdit
    from openclaw_mem_engine.config.settings import Settings
    from openclaw_mem_engine.config.show import Row

#: Columns of the key of a setting; longer ones move their value to the right.
_KEY_WIDTH = 32
#: The settings that decide where a change is kept, and where nothing is written.
_FOLDERS = ("agent", "data_dir", "workspace")


def change(arguments: Namespace) -> int:
    """Show what changes in our file, and write it after a yes."""
    from openclaw_mem_engine.cli.remember import ask, diff_lines
    from openclaw_mem_engine.config import own_file

    if arguments.action == "undo":  # also of a file with keys that are not known any more
        settings = settings_of(arguments, own_keys=_FOLDERS, creates_own_file=True)
        edit, values = own_file.propose_undo(settings), {}
    else:
        settings = settings_of(arguments, creates_own_file=True)
        values = _values(arguments.values)
        edit = own_file.propose_settings(settings, values)
        if theme := values.get("theme"):
            from openclaw_mem_engine.cli.tui import wrong_theme

            if why := wrong_theme(theme):
                raise UsageError(why)
    if edit.after is not None:
        _check(arguments, edit)
    if not arguments.json:
        out(strong(visible(str(edit.path))))
        for line in diff_lines(edit.diff()):
            out(line)
    changes = edit.before != edit.after
    written = changes and not arguments.dry_run and (arguments.yes or ask() == "yes")
    if written:
        own_file.write_settings(settings, edit)
    outcome = "nothing written" + (" (dry run)" if arguments.dry_run else "")
    if written:
        outcome = "written" if values else "undone"
        outcome += (
            ". `openclaw-mem config undo` undoes it." if values else ". Run it again to restore the change."
        )
    elif not changes:
        outcome = "it contains that already: nothing to write"
    data = {"path": str(edit.path), "diff": edit.diff(), "written": written}
    show(data, [outcome], as_json=arguments.json)
    for key in values:
        if (origin := settings.origins[key]).kind in ("env", "flag"):
            say(f"{origin.where} sets {key} too, and comes before config.toml.")
    return 0


def _values(texts: Sequence[str]) -> dict[str, Any]:
    """``KEY=VALUE`` as keys and values. Raises UsageError for what is no setting or does not fit."""
    from openclaw_mem_engine.config.settings import SETTINGS
    from openclaw_mem_engine.ranking.knob_spec import parse_settings
    from openclaw_mem_engine.ranking.knobs import KNOBS

    if len(texts) == 2 and texts[0] in SETTINGS and "=" not in texts[0]:
        raise UsageError(f"{texts[0]} needs a value: write {texts[0]}={visible(texts[1])}.")
    if not texts:
        raise UsageError("Name what to set: `openclaw-mem config set query.min_score=0.3`.")
    found: dict[str, Any] = {}
    form = "KEY=VALUE, for example query.min_score=0.3"
    for key, text in parse_settings(texts, form).items():
        if (known := SETTINGS.get(key)) is None:
            raise _unknown(key, SETTINGS)
        if knob := KNOBS.get(key.partition("query.")[2]):  # it has words for 0
            found[key] = knob.parse(text, key)
            continue
        try:
            found[key] = known.rule.check(_plain(text, known.rule.kind), key)
        except ConfigError as error:
            raise UsageError(str(error)) from None
    return found


def _unknown(key: str, known: Iterable[str]) -> UsageError:
    near = nearest(key, [*known])
    advice = f"Did you mean {near}?" if near else "`openclaw-mem config` lists the settings."
    return UsageError(f"{visible(key)[:80]} is not a setting. {advice}")


def _named(rows: Sequence[Row], keys: Sequence[str]) -> list[Row]:
    """The settings of these keys and tables. Raises UsageError for a key that is neither."""
    for key in keys:
        if "=" in key:
            raise UsageError(f"A value is written by `openclaw-mem config set {shlex.quote(visible(key))}`.")
        if not any(_of(row.key, key) for row in rows):
            raise _unknown(key, [row.key for row in rows] + [row.key.partition(".")[0] for row in rows])
    return [row for row in rows if any(_of(row.key, key) for key in keys)]


def _of(setting: str, key: str) -> bool:
    """Whether a setting is the one of this key, or one of this table."""
    return f"{setting}.".startswith(f"{key}.")


def _plain(text: str, kind: str) -> object:
    """A value as a person writes it, as TOML has it. Raises UsageError for what is not for a command line."""
    if kind in ("secret", "headers", "table", "tables"):
        raise UsageError("Keys and tables are not set on the command line: write them into the file itself.")
    if kind == "path" and text and text[0] not in "~$":
        return str(Path(text).absolute())  # as the shell means it, not from the folder of the file
    if kind == "texts" and text.startswith("["):
        import json

        with suppress(ValueError):
            return json.loads(text)
    if kind == "texts":
        return [part.strip() for part in text.split(",") if part.strip()]
    if kind == "switch":
        return {"on": True, "true": True, "off": False, "false": False}.get(text.lower(), text)
    if kind in ("int", "number"):
        try:
            return float(text) if kind == "number" or not text.lstrip("-").isdecimal() else int(text)
        except ValueError:
            return text
    return text


def _check(arguments: Namespace, edit: SettingsEdit) -> None:
    """Raise ConfigError when the settings could not be loaded after a change."""
    import tempfile

    from openclaw_mem_engine.config.sources import CONFIG_VARIABLE

    with tempfile.TemporaryDirectory(prefix="openclaw-mem-") as folder:
        file = Path(folder, "config.toml")
        file.write_text(edit.after or "", "utf-8", newline="")
        try:
            settings_of(arguments, {**os.environ, CONFIG_VARIABLE: str(file)})
        except ConfigError as error:
            why = str(error).replace(str(file), str(edit.path))
            raise ConfigError(f"Nothing was written, because then: {why}") from None


def show_settings(arguments: Namespace) -> int:
    """Every value, where it came from, and what is allowed; secrets only as ``set``."""
    if arguments.verbose and arguments.json:
        raise UsageError("--verbose is for the list as text: leave it out, JSON has it all.")
    from openclaw_mem_engine.cli.tui import wrong_keys
    from openclaw_mem_engine.config.show import describe, to_dict

    settings = settings_of(arguments)
    refused = (Note("keys", text, "warning") for text in wrong_keys(settings))
    settings = replace(settings, warnings=(*settings.warnings, *refused))
    data, rows = to_dict(settings), describe(settings)
    if arguments.values:
        rows = _named(rows, arguments.values)
        data["settings"] = {row.key: data["settings"][row.key] for row in rows}
    lines = chain(_lines(rows, verbose=arguments.verbose), () if arguments.values else _files(settings))
    show(data, lines, as_json=arguments.json)
    if not arguments.json:
        for note in settings.warnings:
            say(note.text)
    return 0


def _lines(rows: Sequence[Row], *, verbose: bool) -> Iterator[str]:
    """Each setting with its value and, unless that is built in, its origin."""
    for row in rows:
        where = "" if row.origin == DEFAULT_ORIGIN else f"  ({one_line(row.origin.where)})"
        for line in hanging(f"{row.key:{_KEY_WIDTH - 1}} {one_line(row.value_text)}{where}", _KEY_WIDTH):
            yield dim(line) if row.origin.kind == "default" else line
        if verbose:
            yield from map(dim, hanging(" " * _KEY_WIDTH + f"allowed: {row.allowed}", _KEY_WIDTH + 2))


def _files(settings: Settings) -> Iterator[str]:
    """Which files were read, and what of them has no effect."""
    openclaw = settings.openclaw
    yield ""
    files = [
        ("index", visible(settings.index_name)),
        (
            "config.toml",
            visible(str(settings.own_file)) + ("" if is_there(settings.own_file) else " (none yet)"),
        ),
        ("OpenClaw's file", visible(str(openclaw.config_file or "none found"))),
        ("OpenClaw's agents", ", ".join(openclaw.agents) or "none configured"),
        *(("not used" if key.known else "not known", key.text) for key in openclaw.ignored),
    ]
    yield from facts(files)
