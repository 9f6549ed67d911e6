"""The sources of settings: flags, environment, our ``config.toml``, and finding OpenClaw's file.

OpenClaw's files belong to another program: they are only ever read.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from openclaw_mem_engine.config.ignored import nearest
from openclaw_mem_engine.config.layers import Entry, Layer, absolute, secret_from
from openclaw_mem_engine.config.secret import Secret, printable
from openclaw_mem_engine.config.settings import SETTINGS, Origin
from openclaw_mem_engine.errors import ConfigError, UsageError
from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.sanitize import counted_are

#: Names our settings file; when it is set, the file must exist.
CONFIG_VARIABLE = "OPENCLAW_MEM_CONFIG"
#: OpenClaw's folders below the home folder and its files in them, by all names that it had: the first that
#: exists counts, else the first.
STATE_FOLDERS = (".openclaw", ".clawdbot", ".moldbot", ".moltbot")
CONFIG_FILES = ("openclaw.json", "clawdbot.json", "moldbot.json", "moltbot.json")
#: Our folder below the platform's folders for data and settings.
APP_NAME = "openclaw-mem"
#: No configuration is this large; a device file or a database named by mistake is.
MAX_CONFIG_BYTES = 1024 * 1024
#: Objects and lists within each other in a JSON5 file.
_MAX_DEPTH = 200
#: Unknown keys that a message names: finding what was meant takes time for each.
_NAMED = 20


class UserFolders(NamedTuple):
    """Our folders of a user: ``data`` for indexes, caches and models, ``config`` for ``config.toml``."""

    data: Path
    config: Path


def user_folders() -> UserFolders:
    """Those of this process's user, by the rules of the platform and ``$XDG_…``."""
    if sys.platform == "linux":  # two rules, for which a search need not load the library
        return UserFolders(
            _xdg_folder("XDG_DATA_HOME", ".local/share"), _xdg_folder("XDG_CONFIG_HOME", ".config")
        )
    import platformdirs

    return UserFolders(
        platformdirs.user_data_path(APP_NAME, appauthor=False),
        platformdirs.user_config_path(APP_NAME, appauthor=False),
    )


def _xdg_folder(variable: str, usual: str) -> Path:
    """Ours below the folder that a variable names; one that is not absolute does not count."""
    named = Path(os.environ.get(variable, ""))
    return (named if named.is_absolute() else Path.home() / usual) / APP_NAME


class OpenClawLocation(NamedTuple):
    """Where OpenClaw keeps things. ``config_file`` is None when there is none; ``note`` says what is odd."""

    config_file: Path | None
    state_dir: Path
    home: Path
    note: str | None = None


def flag_layer(flags: Mapping[str, object]) -> Layer:
    """The values of flags, by their names (``--workspace``). Raises UsageError for one that does not fit."""
    try:
        return {
            key: Entry(known.rule.check(str(value), known.flag), Origin("flag", known.flag))
            for key, known in SETTINGS.items()
            if (value := flags.get(known.flag)) is not None
        }
    except ConfigError as error:
        raise UsageError(str(error)) from None


def environment_layer(environ: Mapping[str, str]) -> Layer:
    """The values that our variables give. A blank variable counts as unset. Raises ConfigError."""
    layer: Layer = {}
    for key, known in SETTINGS.items():
        if known.variable and (text := environ.get(known.variable, "").strip()):
            where = f"env {known.variable}"
            if known.rule.kind == "secrets":  # between spaces, which no address holds
                layer[key] = Entry(tuple(map(Secret, text.split())), Origin("env", where))
            else:
                layer[key] = Entry(known.rule.check(text, where), Origin("env", where))
    return layer


def own_config_file(
    environ: Mapping[str, str], home: Path, cwd: Path, folder: Path | None, *, is_created: bool = False
) -> tuple[Path, bool]:
    """``$OPENCLAW_MEM_CONFIG``, else ``config.toml`` in ``folder`` (None: the user's); and whether it is
    there. The usual one need not exist, nor one that ``is_created`` now. Raises ConfigError for another that
    is missing."""
    if named := environ.get(CONFIG_VARIABLE, "").strip():
        path = absolute(named, cwd, home)
        if not (is_created or is_there(path)):
            text = f"env {CONFIG_VARIABLE}: {path} does not exist. Name another file, or create it."
            raise ConfigError(text)
        return path, is_there(path)
    usual = (folder or user_folders().config) / "config.toml"
    return usual, is_there(usual)


def own_layer(path: Path, environ: Mapping[str, str], only: Collection[str] = ()) -> Layer:
    """The values of our settings file, or ``only`` those of some keys. Relative paths start at its folder.
    Raises ConfigError: a broken file (with line and column), unknown keys (with the nearest known ones) or a
    value that does not fit; the latter two not of keys that are not read."""
    layer: Layer = {}
    values = values_of(read_config_text(path), path)
    if only:
        values = {key: values[key] for key in only if key in values}
    if unknown := [key for key in values if key not in SETTINGS]:
        named = [f"{printable(key)[:80]} is not a known key.{_meant(key)}" for key in unknown[:_NAMED]]
        if more := len(unknown) - len(named):
            named.append(f"{counted_are(more, 'other key')} not known.")
        raise ConfigError(f"{path}: {' '.join([*named, *_known(unknown)])}")
    for key, value in values.items():
        where = f"{path}: {key}"
        known = SETTINGS[key]
        kept: Any = known.rule.check(value, where)
        if known.rule.kind == "secret":
            kept = secret_from(kept, environ, where)
        elif known.rule.kind == "secrets":
            each = (secret_from(text, environ, f"{where}[{at}]") for at, text in enumerate(kept))
            kept = tuple(secret for secret in each if secret is not None)
        elif known.rule.kind in ("texts", "tables"):
            kept = tuple(kept)
        if kept is not None:
            layer[key] = Entry(kept, Origin("toml", where), path.parent)
    return layer


def find_openclaw(config: Path | None, environ: Mapping[str, str], home: Path, cwd: Path) -> OpenClawLocation:
    """The configuration file: ``config`` if given (it must exist then), else ``$OPENCLAW_CONFIG_PATH``, else
    the first of CONFIG_FILES in the state folder. That is ``$OPENCLAW_STATE_DIR``, else the first of
    STATE_FOLDERS that exists; then the file may be in any of these, as OpenClaw looks for it. Raises
    ConfigError when ``config`` cannot be an OpenClaw file."""

    def named(variable: str, default: Path) -> Path:
        text = environ.get(variable, "").strip()
        return absolute(text, cwd, home) if text else default

    home = named("OPENCLAW_HOME", home)
    usual = [home / name for name in STATE_FOLDERS]
    state_dir = named("OPENCLAW_STATE_DIR", next(filter(is_there, usual), usual[0]))
    folders = usual if state_dir in usual else [state_dir]
    if config is not None:
        path = absolute(str(config), cwd, home)
        if path.suffix.lower() == ".toml":
            ours = f"Name the config.toml of openclaw-mem in {CONFIG_VARIABLE}."
            raise ConfigError(f"{path} is TOML, but --config names an OpenClaw configuration (JSON5). {ours}")
        if not is_there(path):
            raise ConfigError(f"{path} does not exist. Give --config the path of an openclaw.json.")
        return OpenClawLocation(path, state_dir, home)
    files = [folder / name for folder in folders for name in CONFIG_FILES]
    path = named("OPENCLAW_CONFIG_PATH", next(filter(is_there, files), files[0]))
    if is_there(path):
        return OpenClawLocation(path, state_dir, home)
    # OpenClaw itself goes on with its defaults, so the variable may name a file that is yet to be written.
    is_named = environ.get("OPENCLAW_CONFIG_PATH", "").strip()
    note = f"OPENCLAW_CONFIG_PATH names {path}, which does not exist; defaults are used."
    return OpenClawLocation(None, state_dir, home, note if is_named else None)


def read_json5(path: Path) -> Mapping[str, Any]:
    """The object in a JSON5 file. Raises ConfigError, with line and column when it is broken."""
    import json  # like the parser below, only loaded for those who have such a file

    text = read_config_text(path)
    try:
        try:
            # OpenClaw writes plain JSON, which the standard library reads some hundred times faster.
            root = json.loads(text)
        except ValueError:
            root = _parsed_json5(text, path)
    except RecursionError:
        raise ConfigError(f"{path} is not valid JSON5: it is nested too deeply.") from None
    if not isinstance(root, dict):
        raise ConfigError(f"{path} is not a configuration: it must hold one object, in braces.")
    return root


def is_there(path: Path) -> bool:
    """True when the file exists, or when that cannot be found out: reading it then says why."""
    try:
        return path.exists()
    except OSError:
        return True


def read_config_text(path: Path) -> str:
    """The text of ``path`` (UTF-8, a byte order mark is dropped). Raises ConfigError when it is missing, no
    plain file, unreadable, too large or not UTF-8."""
    try:
        if not path.exists():
            raise ConfigError(f"{path} does not exist. Name another configuration file, or create it.")
        if not path.is_file():
            raise ConfigError(f"{path} is not a plain file. Name a configuration file.")
        with path.open("rb") as stream:
            data = stream.read(MAX_CONFIG_BYTES + 1)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ConfigError(f"{path} cannot be read: {reason}. Check its permissions.") from error
    if len(data) > MAX_CONFIG_BYTES:
        raise ConfigError(f"{path} is larger than {MAX_CONFIG_BYTES >> 20} MiB: not a configuration file.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        # Not chained: the decoding error carries the whole file, keys included.
        raise ConfigError(f"{path} is not UTF-8 text (line {line}). Save it as UTF-8.") from None


def values_of(text: str, path: Path) -> dict[str, object]:
    """The values in the text of our settings file ``path``, by key. Raises ConfigError."""
    import tomllib  # only when there is such a file: most users have none

    try:
        return dict(_flat(tomllib.loads(text)))
    except ValueError as error:  # the parser's own error is one, and so is a number of 5,000 digits
        # The message gives line and column and no value; not chained, for the exception keeps the document.
        end = f"line {len(text.splitlines()) or 1}, the end of the file"
        message = str(error).splitlines()[0].replace("end of document", end)
        raise ConfigError(f"{path} is not valid TOML: {message}. Correct it in an editor.") from None
    except RecursionError:
        raise ConfigError(f"{path} is not valid TOML: it is nested too deeply.") from None


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        key = f"{prefix}{name}"
        # A table that is a value itself (headers) is a setting; any other only groups keys.
        groups = _names_in(key)
        if isinstance(value, dict) and (groups or (value and key not in SETTINGS and prefix.count(".") < 2)):
            yield from _flat(value, f"{key}.")
        else:
            yield key, value


def _meant(key: str) -> str:
    near = None if _names_in(key) else nearest(key, [*SETTINGS])
    return f" Did you mean {near}?" if near else ""


def _known(unknown: Iterable[str]) -> list[str]:
    """What is known where the first key is that resembles none: no command can list the settings as long as
    the file cannot be read."""
    key = next((key for key in unknown if not _meant(key)), None)
    if key is None:
        return []
    tables = (key, key.rpartition(".")[0])
    table = next((name for name in tables if _names_in(name)), "")
    return [f"Known in {f'[{table}]' if table else 'the file'}: {', '.join(_names_in(table))}."]


def _names_in(table: str) -> list[str]:
    """The keys and tables of a table, or of the file; empty where it is no table."""
    prefix = f"{table}." if table else ""
    below = (key[len(prefix) :] for key in SETTINGS if key.startswith(prefix))
    return [*dict.fromkeys(key.partition(".")[0] for key in below)]


def _parsed_json5(text: str, path: Path) -> Any:
    """Linear in the length of the text. Raises ConfigError, with the position of what is wrong."""
    import json
    import re

    import pyjson5

    try:
        return pyjson5.decode(text, maxdepth=_MAX_DEPTH)
    except pyjson5.Json5NestingTooDeep:
        raise RecursionError from None
    except pyjson5.Json5DecoderException as error:
        message, found = str(error.args[0]), error.args[-1]
        is_late = isinstance(error, pyjson5.Json5ExtraData)  # its position counts from 0, all others' from 1
    # Not chained: the parser's errors carry the document, keys included.
    near = re.search(r" near (\d+)", message)
    at = max(0, min(int(near[1]) - (not is_late) if near else 0, len(text) - 1))
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    what = "it cannot be parsed"
    if "No JSON data" in message:
        raise ConfigError(f"{path} is not valid JSON5: the file is empty.")
    if "NumericLiteral" in message:
        what = "this is not a number, or it is too large"
    elif "Unclosed" in message:
        what = "this is never closed"
    elif isinstance(found, str):
        what = f"unexpected {json.dumps(found)}"
    raise ConfigError(f"{path} is not valid JSON5: line {line}, column {column}: {what}.")
