"""``${NAME}`` in configured texts, keys of providers that stand in the environment, and paths with ``~``."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from openclaw_mem_engine.config.secret import Secret
from openclaw_mem_engine.errors import ConfigError

# As OpenClaw has it: upper-case names only, and ``$${NAME}`` is the literal text ``${NAME}``.
_PLACEHOLDER = re.compile(r"(\$?)\$\{([A-Z_][A-Z0-9_]*)\}")


def fill_placeholders(text: str, environ: Mapping[str, str], where: str) -> str:
    """``text`` with every ``${NAME}`` replaced. Raises ConfigError when one is unset or empty.

    The message names the variable, never a value.
    """

    def replacement(match: re.Match[str]) -> str:
        escape, name = match.groups()
        if escape:
            return match.group(0)[1:]
        value = environ.get(name, "")
        if not value:
            raise ConfigError(missing_variable(where, name))
        return value

    return _PLACEHOLDER.sub(replacement, text)


def missing_variable(where: str, name: str) -> str:
    return (
        f"{where} needs the environment variable {name}, which is not set. "
        f"Set {name}, or write another value there."
    )


def secret_from(text: str, environ: Mapping[str, str], where: str) -> Secret | None:
    """The key that a text gives; None for a blank one. A missing variable is told when the key is needed."""
    if not text.strip():
        return None
    try:
        return Secret(fill_placeholders(text.strip(), environ, where))
    except ConfigError as error:
        return Secret.missing(str(error))


def absolute(text: str, base: Path, home: Path) -> Path:
    """An absolute path without ``..``: ``~`` is ``home``, a relative path starts at ``base``."""
    if text == "~" or text.startswith("~/"):
        return Path(os.path.normpath(home / text[2:]))
    return Path(os.path.normpath(base / text))
