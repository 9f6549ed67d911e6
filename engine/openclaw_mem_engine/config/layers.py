"""Configured values with their origins, one layer per source, and the typed values of all layers together."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

from openclaw_mem_engine.config.secret import Secret, shown
from openclaw_mem_engine.config.settings import DEFAULT_ORIGIN, SETTINGS, Origin
from openclaw_mem_engine.errors import ConfigError
from openclaw_mem_engine.model import Note
from openclaw_mem_engine.named_tuple import NamedTuple

T = TypeVar("T")

#: Origins whose texts may hold ``${NAME}``; a shell has already expanded flags and variables.
_WITH_PLACEHOLDERS = ("openclaw", "toml")
# As OpenClaw has it: upper-case names only, and ``$${NAME}`` is the literal text ``${NAME}``.
_PLACEHOLDER = re.compile(r"(\$?)\$\{([A-Z_][A-Z0-9_]*)\}")
_WEIGHTS = ("query.vector_weight", "query.bm25_weight")


class Entry(NamedTuple):
    """One configured value, as it is written in its source. ``base`` is where a relative path starts."""

    value: Any
    origin: Origin
    base: Path | None = None

    def __repr__(self) -> str:
        # Headers and addresses may hold credentials.
        return f"Entry({self.origin.where})"


#: The values that one source gives (a file, the environment, the flags), by key of SETTINGS.
Layer: TypeAlias = dict[str, Entry]


def merged(layers: Iterable[Layer]) -> Layer:
    """One layer out of many, lowest first: a later one wins key by key."""
    result: Layer = {}
    for layer in layers:
        if any(key in layer for key in _WEIGHTS):
            # The two weights are one decision: a single new one must not be paired with an old other one.
            for key in _WEIGHTS:
                result.pop(key, None)
        result.update(layer)
    return result


class Chosen:
    """Takes values out of the merged layer and notes the origin of each.

    Placeholders are filled here and not earlier: one whose variable is not set is only an error when no
    higher layer gives another value. All methods raise ConfigError for such a value. ``cwd`` is where
    relative paths of sources without a folder start. ``notes`` collects what is not used as it is written.
    """

    def __init__(
        self, layer: Layer, environ: Mapping[str, str], home: Path, cwd: Path, notes: list[Note]
    ) -> None:
        self._layer, self._environ, self._home, self._cwd = layer, environ, home, cwd
        self.notes = notes
        self.origins: dict[str, Origin] = {}

    def note(self, code: str, text: str, level: Literal["info", "warning"] = "warning") -> None:
        self.notes.append(Note(code, text, level))

    def value(self, key: str) -> Any:
        """The configured value of ``key``, or its default. The readers of the layers have checked types."""
        entry = self._layer.get(key)
        self.origins[key] = entry.origin if entry else DEFAULT_ORIGIN
        return self.filled(entry) if entry else SETTINGS[key].default

    def group(self, kind: type[T], prefix: str, **given: object) -> T:
        """A dataclass of settings whose fields are the keys ``prefix.<field>``, and of such dataclasses; with
        the fields that are ``given``."""
        for item in fields(kind):  # type: ignore[arg-type]
            known, key = item.metadata.get("setting"), f"{prefix}.{item.name}".removeprefix(".")
            if item.name in given:
                continue
            if known is not None:
                given[item.name] = self.text(key) if known.rule.kind == "text" else self.value(key)
            elif is_dataclass(item.default):
                given[item.name] = self.group(type(item.default), key)
        return kind(**given)

    def text(self, key: str) -> str | None:
        """A text; a blank one counts as absent."""
        return str(self.value(key) or "").strip() or SETTINGS[key].default

    def path(self, key: str) -> Path | None:
        """A path, made absolute."""
        text = self.text(key)
        return self.absolute(key, text) if text else None

    def absolute(self, key: str, text: str) -> Path:
        """The path ``text``, which is (a part of) the value of ``key``."""
        return absolute(text, self._layer[key].base or self._cwd, self._home)

    def filled(self, entry: Entry) -> Any:
        """The value of an entry with its placeholders filled."""
        with_placeholders = entry.origin.kind in _WITH_PLACEHOLDERS
        return _filled(entry.value, self._environ, entry.origin.where) if with_placeholders else entry.value


def openclaw_entry(ours: str, value: object, where: str, warn: Callable[[str, str], None]) -> Entry | None:
    """A value of OpenClaw's file for our key, as OpenClaw takes it; None with a warning, so that the default
    holds, where it does not fit."""
    known = SETTINGS[ours]
    value = known.rule.floored(value)
    if known.rule.fits(value):
        return Entry(tuple(value) if isinstance(value, list) else value, Origin("openclaw", where))
    instead = "nothing" if known.default is None else shown(known.default)
    text = f"{where} is {shown(value)}; allowed: {known.rule.allowed}. {instead} is used."
    warn("config-unknown-value", text)
    return None


def _filled(value: Any, environ: Mapping[str, str], where: str) -> Any:
    """``value`` with every ``${NAME}`` in its texts replaced. Raises ConfigError when one is unset or empty:
    the message names the variable, never a value."""
    if isinstance(value, tuple):
        return tuple(_filled(item, environ, where) for item in value)
    if isinstance(value, dict):
        return {name: _filled(item, environ, f"{where}.{name}") for name, item in value.items()}

    def replacement(match: re.Match[str]) -> str:
        escape, name = match.groups()
        if escape:
            return match[0][1:]
        if not environ.get(name):
            raise ConfigError(missing_variable(where, name))
        return environ[name]

    return _PLACEHOLDER.sub(replacement, value) if isinstance(value, str) else value


def missing_variable(where: str, name: str) -> str:
    return (
        f"{where} needs the environment variable {name}, which is not set. "
        f"Set {name}, or write another value there."
    )


def secret_from(text: str, environ: Mapping[str, str], where: str) -> Secret | None:
    """The key that a text gives; None for a blank one. A missing variable is reported when it is needed."""
    if not text.strip():
        return None
    try:
        return Secret(_filled(text.strip(), environ, where))
    except ConfigError as error:
        return Secret.missing(str(error))


def absolute(text: str, base: Path, home: Path) -> Path:
    """An absolute path without ``..``: ``~`` is ``home``, a relative path starts at ``base``."""
    if text == "~" or text.startswith("~/"):
        return Path(os.path.normpath(home / text[2:]))
    return Path(os.path.normpath(base / text))
