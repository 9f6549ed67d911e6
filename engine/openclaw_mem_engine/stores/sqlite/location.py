"""The place of an index: whether there is one, asked where the answer may be refused, and its folder."""

from __future__ import annotations

from pathlib import Path

from openclaw_mem_engine.errors import IndexUnavailable


def index_is_there(path: Path) -> bool:
    """Whether the file exists. Raises IndexUnavailable when this user may not look into its folder: that is
    not the same as "no index yet", which would be answered by making one."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise IndexUnavailable(unreachable(path, error)) from error
    return True


def make_folder(path: Path) -> None:
    """Make the folder of an index file, should it be missing. Raises IndexUnavailable."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise IndexUnavailable(
            f"The folder {path.parent} for the index cannot be made ({error.strerror}). Set "
            "OPENCLAW_MEM_HOME to a folder of yours."
        ) from error


def unreachable(path: Path, error: OSError) -> str:
    """What to tell of a file or folder that the system refuses."""
    return (
        f"{path} cannot be used ({error.strerror}). Check its permissions and its folder's, or set "
        "OPENCLAW_MEM_HOME to a folder of yours."
    )
