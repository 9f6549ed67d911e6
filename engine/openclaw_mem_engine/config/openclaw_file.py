"""Finding and parsing OpenClaw's configuration file. It belongs to another program: it is only ever read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from openclaw_mem_engine.config.placeholders import absolute
from openclaw_mem_engine.config.text_file import is_there, read_config_text
from openclaw_mem_engine.errors import ConfigError

# The parser's message: "<string>:3 Unexpected "@" at column 6".
_JSON5_MESSAGE = r"<string>:(\d+) (.*?) at column (\d+)"


class OpenClawPlace(NamedTuple):
    """Where OpenClaw keeps things. ``config_file`` is None when there is none; ``note`` says what is odd."""

    config_file: Path | None
    state_dir: Path
    home: Path
    note: str | None = None


def find_openclaw(config: Path | None, environ: Mapping[str, str], home: Path, cwd: Path) -> OpenClawPlace:
    """The configuration file: ``config`` if given (it must exist then), else ``$OPENCLAW_CONFIG_PATH``, else
    ``openclaw.json`` in the state folder, which is ``$OPENCLAW_STATE_DIR`` or ``~/.openclaw``.

    Raises ConfigError when ``config`` cannot be an OpenClaw file.
    """
    named_home = environ.get("OPENCLAW_HOME", "").strip()
    home = absolute(named_home, cwd, home) if named_home else home
    state = environ.get("OPENCLAW_STATE_DIR", "").strip()
    state_dir = absolute(state, cwd, home) if state else home / ".openclaw"
    if config is not None:
        path = absolute(str(config), cwd, home)
        if path.suffix.lower() == ".toml":
            raise ConfigError(
                f"{path} is a TOML file, but --config names an OpenClaw configuration (JSON5). "
                f"Name our own settings file in OPENCLAW_MEM_CONFIG."
            )
        if not is_there(path):
            raise ConfigError(f"{path} does not exist. Give --config the path of an openclaw.json.")
        return OpenClawPlace(path, state_dir, home)
    named = environ.get("OPENCLAW_CONFIG_PATH", "").strip()
    path = absolute(named, cwd, home) if named else state_dir / "openclaw.json"
    if is_there(path):
        return OpenClawPlace(path, state_dir, home)
    # OpenClaw itself goes on with its defaults there, so the variable may well name a file yet to be written.
    note = f"OPENCLAW_CONFIG_PATH names {path}, which does not exist; defaults are used." if named else None
    return OpenClawPlace(None, state_dir, home, note)


def parse_openclaw(path: Path) -> Mapping[str, Any]:
    """The file's top-level object. Raises ConfigError with line and column when it is broken."""
    import json  # like the parser below, only paid for by those who have such a file

    text = read_config_text(path)
    try:
        # OpenClaw writes plain JSON, which the standard library reads some hundred times faster than the
        # JSON5 parser. What it cannot read is handed on, so nothing is accepted that JSON5 is not.
        root = json.loads(text)
    except ValueError:
        root = _parse_json5(text, path)
    except RecursionError:
        raise ConfigError(f"{path} is not valid JSON5: it is nested too deeply.") from None
    if not isinstance(root, dict):
        raise ConfigError(f"{path} is not a configuration: it must hold one object, in braces.")
    return root


def _parse_json5(text: str, path: Path) -> object:
    import json5  # slow to load, and only needed for a file with comments or the like

    try:
        return json5.loads(text)
    except RecursionError:
        raise ConfigError(f"{path} is not valid JSON5: it is nested too deeply.") from None
    except ValueError as error:
        # Not chained: parser errors may carry the document, keys included.
        raise ConfigError(f"{path} is not valid JSON5: {_position(str(error))}.") from None


def _position(message: str) -> str:
    import re

    match = re.fullmatch(_JSON5_MESSAGE, message, re.DOTALL)
    if match is None:
        return "the file is empty" if "Empty" in message else "it cannot be parsed (line 1, column 1)"
    line, what, column = match.groups()
    return f"line {line}, column {column}: {what[0].lower()}{what[1:]}"
