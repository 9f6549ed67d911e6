"""Indexes of the QMD backend with known content, and the real program from npm."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from filelock import FileLock

from openclaw_mem_engine.providers.circuit_breaker import GuardedEmbedder
from openclaw_mem_engine.providers.records import ProviderRecords
from openclaw_mem_engine.qmd.collections import Collection
from openclaw_mem_engine.stores.qmd.store import QmdStore
from support.goldens import qmd_golden
from support.stores import Vector, unit

if TYPE_CHECKING:
    from openclaw_mem_engine.providers.base import Embedder, Keep

#: The version whose behaviour was recorded.
#: Set to "install" to let the tests fetch the real program.
INSTALL = "OPENCLAW_MEM_TEST_QMD"
QMD_VERSION, NODE_MAJOR = "2.8.3", 24


def write_files(root: Path, files: Mapping[str, str]) -> Path:
    """Files below a folder, of an hour ago, so that an update trusts their times."""
    for path, text in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())
        back = file.stat().st_mtime - 3600
        os.utime(file, (back, back))
    return root


def new_store(folder: Path, files: Mapping[str, str], **options: Any) -> QmdStore:
    """An up-to-date index of the collection ``notes`` with these files."""
    store = QmdStore.open(folder / "index.sqlite", **options)
    store.add_collection(Collection("notes", write_files(folder / "notes", files)))
    store.update()
    return store


def corpus_store(folder: Path) -> QmdStore:
    """The recorded corpus, in the order in which QMD has indexed it. Skips without the recordings."""
    files = qmd_golden("corpus")["files"]
    store = QmdStore.open(folder / "index.sqlite")
    for name, pattern in (("code", "**/*.{md,py,ts}"), ("notes", "**/*.md")):
        texts = {file["path"]: file["text"] for file in files if file["collection"] == name}
        store.add_collection(Collection(name, write_files(folder / name, texts), pattern))
    store.update()
    return store


def guarded(embedder: Embedder) -> GuardedEmbedder:
    """The embedder as a search has it; nothing is stored."""
    return GuardedEmbedder(embedder, ProviderRecords(None))


class ScriptedEmbedder:
    """An embedder with vectors of ``dims`` values by text, drawn from the text where none is scripted."""

    id, model, host, key, languages = "scripted", "tiny", "", "k", "any"
    floor: float | None = None
    lines = None
    no_vector = "it is a test"
    awaited = "a test", "", ""
    simulated = ""
    max_input_bytes: int | None = None

    def __init__(self, dims: int = 8, vectors: Mapping[str, Sequence[float]] | None = None) -> None:
        self.dims: int | None = dims
        self._vectors = dict(vectors or {})
        self.seen: list[str] = []

    def why_not(self) -> str | None:
        return None

    def embed_query(self, text: str, cancel: object = None) -> Vector | None:
        return self.embed_documents([text])[0]

    def embed_documents(
        self, texts: Sequence[str], cancel: object = None, progress: object = None, keep: Keep | None = None
    ) -> list[Vector | None]:
        self.seen += texts
        made: list[Vector | None] = [unit(self._vectors.get(text) or self._drawn(text)) for text in texts]
        if keep is not None:
            keep(range(len(texts)), made)
        return made

    def _drawn(self, text: str) -> list[float]:
        seed = int.from_bytes(text.encode()[:64], "big") % 2**32
        return list(np.random.default_rng(seed).normal(size=self.dims or 8))

    def take_notes(self) -> tuple[()]:
        return ()

    def close(self) -> None:
        pass


# -- the real program ---------------------------------------------------------------------------------------


def real_qmd() -> list[str]:
    """The command of QMD 2.8.3 in the user's cache. It is fetched from npm only when the variable below says
    so, as in CI. Skips the test, with the reason, where it is missing."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "openclaw-mem" / "qmd"
    folder = home / QMD_VERSION
    home.mkdir(parents=True, exist_ok=True)
    with FileLock(home / "install.lock"):
        if not (folder / "done").exists():
            if os.environ.get(INSTALL) != "install":
                pytest.skip(f"the real program qmd is missing; {INSTALL}=install fetches it (380 MB)")
            if reason := _install(folder):
                pytest.skip(reason)
    return [_node(folder), str(folder / "node_modules/@tobilu/qmd/dist/cli/qmd.js")]


@cache
def _install(folder: Path) -> str:
    """Install the program; why that is not possible, or ""."""
    npm = shutil.which("npm")
    if npm is None:
        return "npm is not installed, so the real program qmd cannot be"
    system = {"win32": "win"}.get(sys.platform, sys.platform)
    machine = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64"}.get(
        platform.machine().lower(), platform.machine()
    )
    packages = [
        f"@tobilu/qmd@{QMD_VERSION}",
        f"sqlite-vec-{system.replace('win', 'windows')}-{machine}@0.1.9",
    ]
    if not _system_node():
        packages.append(f"node-{system}-{machine}@{NODE_MAJOR}")
    folder.mkdir(parents=True, exist_ok=True)
    # Without optional packages: they are 700 MB of libraries for graphics cards.
    options = "--no-audit --no-fund --ignore-scripts --omit=optional --fetch-retries=0 --loglevel=error"
    command = [npm, "install", *options.split(), *packages]
    try:
        ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    except subprocess.TimeoutExpired:
        return "npm did not install the real program qmd within 300 s"
    if ran.returncode:
        return f"npm cannot install the real program qmd: {ran.stderr.strip().partition(chr(10))[0]}"
    (folder / "done").touch()
    return ""


def _system_node() -> str:
    """A Node that is new enough, or ""."""
    with suppress(OSError, ValueError, subprocess.SubprocessError):
        node = shutil.which("node") or ""
        ran = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=20)
        return node if int(ran.stdout.lstrip("v").split(".")[0]) >= 22 else ""
    return ""


def _node(folder: Path) -> str:
    own = sorted((folder / "node_modules").glob("node-*-*/bin/node*"))
    return str(own[0]) if own else _system_node()


class RealQmd:
    """The real program, on an index and the ``index.yml`` beside it."""

    def __init__(self, index: Path) -> None:
        self.command = real_qmd()
        self.index = index

    @property
    def environ(self) -> dict[str, str]:
        home = str(self.index.parent)
        own = {"QMD_CONFIG_DIR": home, "INDEX_PATH": str(self.index), "HOME": home, "XDG_CACHE_HOME": home}
        return {**os.environ, **own, "CI": "1", "NO_COLOR": "1", "QMD_FORCE_CPU": "1"}

    def run(self, *arguments: str) -> str:
        """What it prints; fails the test when it does not exit with 0."""
        ran = subprocess.run(
            [*self.command, *arguments],
            cwd=self.index.parent,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def json(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "--json"))
