"""The environment variables we know, and the folders that follow from them.

The environment and the home folder are always parameters: nothing here looks at the real ones.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from openclaw_mem_engine.config.keys import RULES
from openclaw_mem_engine.config.layers import Entry, Layer
from openclaw_mem_engine.config.settings import Origin, RemoteName

#: Our folder below the platform's folders for data and settings.
APP_NAME = "openclaw-mem"

#: Variables of ours and the key that each sets; they win over every file.
VARIABLES: Mapping[str, str] = {
    "OPENCLAW_MEM_HOME": "data_dir",
    "OPENCLAW_MEM_WORKSPACE": "workspace",
    "OPENCLAW_MEM_AGENT": "agent",
    "OPENCLAW_MEM_PROVIDER": "provider.name",
    "OPENCLAW_MEM_PROFILE": "query.profile",
    "OPENCLAW_MEM_EDITOR": "editor",
    "OPENCLAW_MEM_THEME": "theme",
}

#: Where the key of a provider is looked for, first match wins. Other programs share these variables, so a
#: key that a file gives for memory search goes before them.
KEY_VARIABLES: Mapping[RemoteName, tuple[str, ...]] = {
    "openai": ("OPENAI_API_KEY",),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "voyage": ("VOYAGE_API_KEY",),
    "mistral": ("MISTRAL_API_KEY",),
}

#: The user's editor when neither we nor a file say another; shared with other programs, so last.
EDITOR_VARIABLES = ("VISUAL", "EDITOR")


def environment_layer(environ: Mapping[str, str], cwd: Path) -> Layer:
    """The values that our variables give. A blank variable counts as unset. Raises ConfigError."""
    layer = Layer()
    for variable, key in VARIABLES.items():
        text = environ.get(variable, "").strip()
        if text:
            where = f"env {variable}"
            layer.put(key, Entry(RULES[key].check(text, where), Origin("env", where), cwd))
    return layer


def shared_editor(environ: Mapping[str, str]) -> tuple[str, Origin] | None:
    """The editor that the user has told all programs about."""
    for variable in EDITOR_VARIABLES:
        text = environ.get(variable, "").strip()
        if text:
            return text, Origin("env", f"env {variable}")
    return None


def user_data_dir(environ: Mapping[str, str], home: Path, platform: str = sys.platform) -> Path:
    """The folder for our indexes when nobody names one.

    The answers are those of the platformdirs package, which cannot be told a home or an environment.
    """
    if platform == "darwin":
        return home / "Library" / "Application Support" / APP_NAME
    if platform == "win32":
        return Path(environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / APP_NAME
    return _xdg(environ, "XDG_DATA_HOME", home / ".local" / "share") / APP_NAME


def user_config_dir(environ: Mapping[str, str], home: Path, platform: str = sys.platform) -> Path:
    """The folder of our ``config.toml``; see :func:`user_data_dir`."""
    if platform in ("darwin", "win32"):
        return user_data_dir(environ, home, platform)
    return _xdg(environ, "XDG_CONFIG_HOME", home / ".config") / APP_NAME


def _xdg(environ: Mapping[str, str], variable: str, default: Path) -> Path:
    folder = environ.get(variable, "").strip()
    # The XDG rules say that a relative path there is to be ignored.
    return Path(folder) if Path(folder).is_absolute() else default
