"""Model files: ``hf:`` addresses, where files are, what tells two apart, prompts, and why one is unusable.

What is in a file beyond its first bytes is read by the process that loads it: it may be damaged or hostile.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, TypeAlias

from openclaw_mem_engine.errors import ConfigError
from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.providers.base import NotConfigured
from openclaw_mem_engine.providers.local import INSTALL

HUB = "https://huggingface.co"
DEFAULT_MODEL = "hf:ggml-org/embeddinggemma-300M-GGUF/embeddinggemma-300M-Q8_0.gguf"
#: The other two models of QMD.
RERANK_MODEL = "hf:ggml-org/Qwen3-Reranker-0.6B-Q8_0-GGUF/qwen3-reranker-0.6b-q8_0.gguf"
EXPANSION_MODEL = "hf:tobil/qmd-query-expansion-1.7B-gguf/qmd-query-expansion-1.7B-q4_k_m.gguf"
#: Bytes to download, as QMD's documentation gives them.
SIZES = {DEFAULT_MODEL: "about 300 MB", RERANK_MODEL: "about 640 MB", EXPANSION_MODEL: "about 1.1 GB"}

#: What a model is for.
Use = Literal["embed", "rank", "chat"]
_KINDS: dict[Use, tuple[str, str]] = {
    "embed": ("embedding model", "made for embeddings, such as embeddinggemma or all-MiniLM"),
    "rank": ("reranker", "made for reranking, such as Qwen3-Reranker or bge-reranker"),
    "chat": ("chat model", "made for chat or for query expansion, such as qmd-query-expansion"),
}
_MAGIC = b"GGUF"
_PART = r"[A-Za-z0-9_][A-Za-z0-9._-]*"
_ADDRESS = re.compile(rf"hf:({_PART})/({_PART})/((?:{_PART}/)*{_PART}\.gguf)(?:@({_PART})?)?")
_DIGEST_BLOCKS, _DIGEST_BLOCK, _DIGEST_HEAD = 64, 4096, 1 << 16


class HubFile(NamedTuple):
    """A file on the hub. ``path`` may have folders; ``revision`` is a branch, tag or commit."""

    org: str
    repo: str
    path: str
    revision: str


def is_hub(model: str) -> bool:
    return model.strip().startswith("hf:")


def hub_file(uri: str) -> HubFile:
    """The parts of ``hf:org/repo/path/file.gguf`` with an optional ``@revision`` at the end.

    Raises ConfigError for anything else: parts become a file name, so only plain letters, digits, ``.``,
    ``_`` and ``-`` are taken.
    """
    match = _ADDRESS.fullmatch(uri.strip())
    if match is None:
        raise ConfigError(
            f"{uri!r} is not the address of a model; use hf:organisation/repository/file.gguf, "
            "with @revision after it if needed, or the path of a GGUF file."
        )
    org, repo, path, revision = match.groups()
    return HubFile(org, repo, path, revision or "main")


def local_path(model: str, folder: Path) -> Path:
    """Where the file of a model is or would be: in ``folder`` for an ``hf:`` address, else the path itself,
    absolute. Empty means the default model. Raises ConfigError for an address that is none."""
    model = model.strip() or DEFAULT_MODEL
    if is_hub(model):
        org, repo, path, revision = hub_file(model)
        return folder / "_".join((org, repo, *([revision] if revision != "main" else []), *path.split("/")))
    if re.match(r"(?!file:)[A-Za-z][A-Za-z0-9+.-]+:", model) and not Path(model).exists():
        raise ConfigError(
            f"{model!r} is not the address of a model; use hf:organisation/repository/file.gguf, "
            "or download the file and give its path."
        )
    return Path(os.path.abspath(Path(model).expanduser()))  # noqa: PTH100 (resolve would follow links)


_SUM_DIGITS = 16


def part_of(path: Path, sha256: str) -> Path:
    """Where the file grows while it is downloaded; ``sha256`` is "" when the hub does not tell it."""
    return path.with_name(f"{path.name}.{(sha256 or '0' * 64)[:_SUM_DIGITS]}.part")


def parts_of(path: Path) -> Iterator[Path]:
    """What stopped downloads have left of a file."""
    return path.parent.glob(f"{path.name}.{'?' * _SUM_DIGITS}.part")


def model_name(model: str) -> str:
    """How a model is called in an index: its address, or its file name without the folders before it."""
    model = model.strip() or DEFAULT_MODEL
    return model if is_hub(model) else Path(model).name


#: Size, time of the last change (ns), inode and device of a file: tells whether a path still leads to the
#: same file with the same content, without reading it.
FileMark: TypeAlias = tuple[int, int, int, int]


def file_mark(path: Path) -> FileMark | None:
    """None when there is no such file."""
    try:
        found = path.stat()
    except OSError:
        return None
    is_file = stat.S_ISREG(found.st_mode)
    return (found.st_size, found.st_mtime_ns, found.st_ino, found.st_dev) if is_file else None


def quick_digest(path: Path) -> str:
    """SHA-256 hex over the size, the head and 64 blocks spread evenly over the rest: a second model under an
    old name is noticed in milliseconds. No protection against forgery. Raises OSError."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        digest = hashlib.sha256(f"{size}:".encode())
        file.seek(0)
        digest.update(file.read(_DIGEST_HEAD))
        for number in range(1, _DIGEST_BLOCKS + 1):
            file.seek(max(0, size - _DIGEST_BLOCK) * number // _DIGEST_BLOCKS)
            digest.update(file.read(_DIGEST_BLOCK))
    return digest.hexdigest()


class Prompts(NamedTuple):
    """What is put before a query and before a document; the model was trained with it."""

    query: str = ""
    document: str = ""


_GEMMA = Prompts("task: search result | query: ", "title: none | text: ")
_QWEN = Prompts("Instruct: Retrieve relevant documents for the given query\nQuery: ")


def prompts_for(model: str, architecture: str = "") -> Prompts:
    """The prompts of a model, by its name, or by the architecture in its file when the name says nothing."""
    name = model.lower()
    if architecture == "gemma-embedding" or re.search(r"embedding-?gemma", name):
        return _GEMMA
    if re.search(r"qwen.*embed", name):
        return _QWEN
    return Prompts()


class ModelFile:
    """The model file that a configured name means, as it is on disk right now."""

    def __init__(self, model: str, folder: Path) -> None:
        self._name = model_name(model)
        self._misnamed = ""
        try:
            self.path = local_path(model, folder)
        except ConfigError as exc:
            # Reported at the first text: a wrong address must not keep BM25 search from working.
            self.path = folder / "no such model"
            self._misnamed = str(exc)

    def digest(self) -> str:
        """Hex that tells this file from others; "" without a readable file."""
        mark = file_mark(self.path)
        try:
            return _digest(self.path, mark) if mark is not None else ""
        except OSError:
            return ""

    def usable(self, *, needs_library: bool, use: Use = "embed") -> FileMark:
        """What tells this file from a later one. Raises NotConfigured, with what to do, when there is no GGUF
        file (``use`` is what to download one for), or when ``needs_library`` and llama_cpp is not
        installed."""
        if self._misnamed:
            raise NotConfigured(self._misnamed)
        mark = file_mark(self.path)
        if mark is None:
            raise NotConfigured(
                f"The local model {self._name} is not on this machine. Run `openclaw-mem model download"
                f"{_FOR[use]}`."
                if is_hub(self._name)
                else f"There is no model file at {self.path}. Correct the path, or name a model to download "
                "(hf:organisation/repository/file.gguf)."
            )
        if needs_library and importlib.util.find_spec("llama_cpp") is None:
            raise NotConfigured(
                f"Local models need llama-cpp-python, which is not installed. Run: {INSTALL} "
                "(it is compiled, which takes minutes)."
            )
        try:
            with self.path.open("rb") as file:
                magic = file.read(len(_MAGIC))
            why = "" if magic == _MAGIC else f"it begins with {magic!r} instead of {_MAGIC!r}"
        except OSError as exc:
            why = str(exc)
        if why:
            raise NotConfigured(
                f"{self.path} is not a usable GGUF model: {why}. Fetch it again "
                "(openclaw-mem model download), or correct the path."
            )
        return mark


_FOR: dict[Use, str] = {
    "embed": "",
    "rank": " --for rerank",
    "chat": " --for expansion",
}


def unfit(path: Path, use: Use, why: str) -> str:
    """The message about a model that is for something else."""
    kind, other = _KINDS[use]
    return f"{path.name} is no {kind}: {why}. Choose a model {other}."


@functools.lru_cache(maxsize=32)
def _digest(path: Path, _mark: FileMark) -> str:
    """Of this content of the file. Raises OSError."""
    return quick_digest(path)
