"""Reading a configuration file whole, with errors that say which file and why."""

from __future__ import annotations

from pathlib import Path

from openclaw_mem_engine.errors import ConfigError

#: No configuration is this large; a device file or a database named by mistake is.
MAX_CONFIG_BYTES = 1024 * 1024


def is_there(path: Path) -> bool:
    """True when the file exists, or when that cannot be found out: reading it then says why."""
    try:
        return path.exists()
    except OSError:
        return True


def read_config_text(path: Path) -> str:
    """The text of ``path`` (UTF-8, a byte order mark is dropped).

    Raises ConfigError when it is missing, not a plain file, unreadable, too large or not UTF-8.
    """
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
