"""Names of models: ``hf:`` addresses, where their files are, what tells two files apart, and prompts."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from openclaw_mem_engine.errors import ConfigError

DEFAULT_MODEL = "hf:ggml-org/embeddinggemma-300M-GGUF/embeddinggemma-300M-Q8_0.gguf"
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_DIGEST_BLOCKS, _DIGEST_BLOCK, _DIGEST_HEAD = 64, 4096, 1 << 16


class HubFile(NamedTuple):
    """A file on the hub. ``path`` may have folders; ``revision`` is a branch, tag or commit."""

    org: str
    repo: str
    path: str
    revision: str

    @property
    def file_name(self) -> str:
        """What the file is called here. Another revision than the main one is part of the name."""
        revision = () if self.revision == "main" else (self.revision,)
        return "_".join((self.org, self.repo, *revision, *self.path.split("/")))


def is_hub(model: str) -> bool:
    return model.strip().startswith("hf:")


def hub_file(uri: str) -> HubFile:
    """The parts of ``hf:org/repo/path/file.gguf`` with an optional ``@revision`` at the end.

    Raises ConfigError for anything else: parts become a file name, so only plain letters, digits, ``.``,
    ``_`` and ``-`` are taken.
    """
    address, _, revision = uri.strip().removeprefix("hf:").partition("@")
    parts = address.split("/")
    revision = revision or "main"
    if (
        not is_hub(uri)
        or len(parts) < 3
        or not all(_PART.fullmatch(part) for part in (*parts, revision))
        or not address.endswith(".gguf")
    ):
        raise ConfigError(
            f"{uri!r} is not the address of a model; use hf:organisation/repository/file.gguf, "
            "with @revision after it if needed, or the path of a GGUF file."
        )
    return HubFile(parts[0], parts[1], "/".join(parts[2:]), revision)


def local_path(model: str, folder: Path) -> Path:
    """Where the file of a model is or would be: in ``folder`` for an ``hf:`` address, else the path itself,
    absolute. Empty means the default model. Raises ConfigError for an address that is none."""
    model = model.strip() or DEFAULT_MODEL
    if is_hub(model):
        return folder / hub_file(model).file_name
    if re.match(r"(?!file:)[A-Za-z][A-Za-z0-9+.-]+:", model) and not Path(model).exists():
        raise ConfigError(
            f"{model!r} is not the address of a model; use hf:organisation/repository/file.gguf, "
            "or download the file and give its path."
        )
    return Path(os.path.abspath(Path(model).expanduser()))  # noqa: PTH100 (resolve would follow links)


def model_name(model: str) -> str:
    """How a model is called in an index: its address, or its file name without the folders before it."""
    model = model.strip() or DEFAULT_MODEL
    return model if is_hub(model) else Path(model).name


class FileMark(NamedTuple):
    """Tells whether a path still leads to the same file with the same content, without reading it."""

    size: int
    mtime_ns: int
    inode: int
    device: int


def file_mark(path: Path) -> FileMark | None:
    """None when there is no such file."""
    try:
        stat = path.stat()
    except OSError:
        return None
    if not path.is_file():
        return None
    return FileMark(stat.st_size, stat.st_mtime_ns, stat.st_ino, stat.st_dev)


def quick_digest(path: Path) -> str:
    """SHA-256 hex over the size, the head and 64 blocks spread evenly over the rest: a second model under an
    old name is noticed in milliseconds. Not made against a forger. Raises OSError."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        digest = hashlib.sha256(f"{size}:".encode())
        file.seek(0)
        digest.update(file.read(_DIGEST_HEAD))
        for number in range(1, _DIGEST_BLOCKS + 1):
            file.seek(max(0, size - _DIGEST_BLOCK) * number // _DIGEST_BLOCKS)
            digest.update(file.read(_DIGEST_BLOCK))
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class Prompts:
    """What stands before a query and before a document; the model was trained with it. ``name`` tells which
    family it is for, "none" without prompts."""

    name: str
    query: str = ""
    document: str = ""


NO_PROMPTS = Prompts("none")
_GEMMA = Prompts("embeddinggemma", "task: search result | query: ", "title: none | text: ")
_QWEN = Prompts("qwen embedding", "Instruct: Retrieve relevant documents for the given query\nQuery: ", "")


def prompts_for(model: str, architecture: str = "") -> Prompts:
    """The prompts of a model, by its name, or by the architecture in its file when the name says nothing."""
    name = model.lower()
    if architecture == "gemma-embedding" or re.search(r"embedding-?gemma", name):
        return _GEMMA
    if re.search(r"qwen.*embed", name):
        return _QWEN
    return NO_PROMPTS
