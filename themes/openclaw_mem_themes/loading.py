"""A theme by name or path: one of ours, or a TOML file of the user with ``name``, ``dark`` and the tables
``[colors]`` and ``[variables]``. Knows nothing of the program that draws."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from openclaw_mem_themes.built_in import BUILT_IN, DEFAULT, Theme

COLORS = frozenset(
    "primary secondary accent foreground background surface panel boost success warning error".split()
)
VARIABLES = frozenset("quiet faint frame cursor total vector".split())

_COLOR = re.compile(r"#(?:[0-9a-fA-F]{3}|[0-9a-fA-F]{6})|ansi_[a-z_]+")
_LARGEST = 64 * 1024


class ThemeError(ValueError):
    """A theme cannot be used; the message names the file, the key and what is allowed."""


def load_theme(name_or_path: str, folder: Path | None = None) -> Theme:
    """A theme by path (ends in ``.toml``), or by name: from the user's ``folder``, else one of ours.

    Raises ThemeError when there is no such theme or its file cannot be used.
    """
    if name_or_path.endswith(".toml"):
        return _read(Path(name_or_path).expanduser())
    if not re.fullmatch(r"[\w-]{1,64}", name_or_path):
        raise ThemeError(
            f"{name_or_path!r} is not a theme: give a name such as {DEFAULT}, or a path ending in .toml."
        )
    own = folder / f"{name_or_path}.toml" if folder is not None else None
    if own is not None and own.is_file():
        return _read(own)
    if name_or_path in BUILT_IN:
        return BUILT_IN[name_or_path]
    where = f" and no {own}" if own is not None else ""
    raise ThemeError(f"There is no theme {name_or_path!r}{where}. Ours: {', '.join(BUILT_IN)}.")


def _read(path: Path) -> Theme:
    import tomllib  # most users have no theme of their own

    try:
        if path.stat().st_size > _LARGEST:
            raise ThemeError(f"{path} is too large for a theme.")
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ThemeError(f"The theme {path} cannot be read: {error}") from error
    for key in raw.keys() - {"name", "dark", "colors", "variables"}:
        raise ThemeError(f"{path}: {key!r} is unknown; a theme has name, dark, [colors], [variables].")
    colors = _table(path, raw, "colors", COLORS)
    if "primary" not in colors:
        raise ThemeError(f"{path}: [colors] needs at least primary.")
    dark = raw.get("dark", True)
    if not isinstance(dark, bool):
        raise ThemeError(f"{path}: dark is true or false, not {dark!r}.")
    name = raw.get("name", path.stem)
    if not isinstance(name, str) or not re.fullmatch(r"[\w-]{1,64}", name):
        raise ThemeError(f"{path}: name is letters, digits and dashes, not {name!r}.")
    return Theme(name, dark, colors, _table(path, raw, "variables", VARIABLES))


def _table(path: Path, raw: Mapping[str, Any], table: str, known: frozenset[str]) -> dict[str, str]:
    found = raw.get(table, {})
    if not isinstance(found, dict):
        raise ThemeError(f"{path}: [{table}] must be a table of colours.")
    for key, value in found.items():
        if key not in known:
            raise ThemeError(f"{path}: [{table}] has no {key!r}; known: {', '.join(sorted(known))}.")
        if not isinstance(value, str) or not _COLOR.fullmatch(value):
            raise ThemeError(f"{path}: {table}.{key} = {value!r} is not a colour; write #rrggbb.")
    return dict(found)
