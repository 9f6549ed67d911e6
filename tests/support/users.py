"""Being a user whom permissions stop, where the tests run as root, who may do anything."""

from __future__ import annotations

import codecs
import importlib
import os
import pkgutil
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import openclaw_mem_engine

NOBODY = 65534


@contextmanager
def unprivileged_folder() -> Iterator[Path]:
    """A folder of a user without rights; this process is that user until the end, if it is root."""
    _load()
    folder, root = Path(tempfile.mkdtemp()), os.geteuid() == 0
    if root:
        os.chown(folder, NOBODY, NOBODY)
        os.seteuid(NOBODY)
    try:
        yield folder
    finally:
        if root:
            os.seteuid(0)
        shutil.rmtree(folder)


@cache
def _load() -> None:
    """What is imported late: the folder of the interpreter may be closed to that user, and Python remembers
    for good that a codec was not found."""
    for name in ("ascii", "latin-1", "utf-16-le", "idna"):
        codecs.lookup(name)
    package = openclaw_mem_engine
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
