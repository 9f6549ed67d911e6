"""Model files: ``hf:`` addresses, where files are, what tells two apart, prompts, and why one is unusable.

The header of a GGUF file is read here, with bounds on everything: a file may be damaged or hostile. The
package ``gguf`` maps the file into memory and builds every token of a vocabulary, which takes seconds;
llama.cpp would need its process for what every search asks (the key of the vectors).
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import re
import stat
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, TypeAlias

from openclaw_mem_engine.errors import ConfigError
from openclaw_mem_engine.providers.base import NotConfigured
from openclaw_mem_engine.providers.local import INSTALL

HUB = "https://huggingface.co"
DEFAULT_MODEL = "hf:ggml-org/embeddinggemma-300M-GGUF/embeddinggemma-300M-Q8_0.gguf"
#: The other two models of QMD.
RERANK_MODEL = "hf:ggml-org/Qwen3-Reranker-0.6B-Q8_0-GGUF/qwen3-reranker-0.6b-q8_0.gguf"
EXPANSION_MODEL = "hf:tobil/qmd-query-expansion-1.7B-gguf/qmd-query-expansion-1.7B-q4_k_m.gguf"
#: Bytes to download, as QMD's documentation gives them.
SIZES = {DEFAULT_MODEL: "about 300 MB", RERANK_MODEL: "about 640 MB", EXPANSION_MODEL: "about 1.1 GB"}

#: What a model is for. A reranker has a rank head ("rank") or answers yes or no ("yes-no").
Use = Literal["embed", "rank", "yes-no", "chat"]
_KINDS: dict[Use, tuple[str, str]] = {
    "embed": ("embedding model", "made for embeddings, such as embeddinggemma or all-MiniLM"),
    "rank": ("reranker", "made for reranking, such as Qwen3-Reranker or bge-reranker"),
    "yes-no": ("reranker", "made for reranking, such as Qwen3-Reranker or bge-reranker"),
    "chat": ("chat model", "made for chat or for query expansion, such as qmd-query-expansion"),
}
_MAX_KEYS = 4096
_MAX_STRING = 1 << 24
_MAX_ITEMS = 1 << 27
#: A vocabulary of 262,144 words with its merges takes some 12 MB.
_MAX_HEADER = 1 << 27
_STRING, _ARRAY = 8, 9
#: struct format of each plain value type.
_PLAIN = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
#: Values of ``<architecture>.pooling_type``.
_POOLING = {0: "none", 1: "mean", 2: "cls", 3: "last", 4: "rank"}
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


class NotGGUF(Exception):
    """The file is no GGUF file, or its header is damaged; the text says where."""


class GGUFHeader(NamedTuple):
    """``embedding_length`` is None and ``pooling`` "none" when the file does not give them."""

    architecture: str
    embedding_length: int | None
    pooling: str


class _Reader:
    """Takes values from the begin of a file, one after another. Raises NotGGUF."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.at = 0

    def take(self, size: int) -> bytes:
        if self.at + size > _MAX_HEADER:
            raise NotGGUF(f"its header is longer than {_MAX_HEADER >> 20} MB")
        data = self._file.read(size)
        if len(data) < size:
            raise NotGGUF(f"it ends at byte {self.at + len(data):,}, within its header")
        self.at += size
        return data

    def number(self, kind: str) -> Any:
        return struct.unpack("<" + kind, self.take(struct.calcsize("<" + kind)))[0]

    def length(self, limit: int) -> int:
        size = int(self.number("Q"))
        if size > limit:
            raise NotGGUF(f"a length of {size:,} bytes or items is announced at byte {self.at - 8:,}")
        return size

    def string(self) -> str:
        return self.take(self.length(_MAX_STRING)).decode("utf-8", "replace")

    def value(self, kind: int) -> Any:
        """A plain value or text; None for an array, whose items are read and dropped."""
        if kind == _STRING:
            return self.string()
        if kind == _ARRAY:
            items, count = int(self.number("I")), self.length(_MAX_ITEMS)
            if items == _STRING:
                for _ in range(count):
                    self.take(self.length(_MAX_STRING))
                return None
            if items in _PLAIN:
                self.take(count * struct.calcsize("<" + _PLAIN[items]))
                return None
        elif kind in _PLAIN:
            return self.number(_PLAIN[kind])
        raise NotGGUF(f"a value of the type {kind} at byte {self.at:,}")


def read_header(path: Path) -> GGUFHeader:
    """The facts of one file. Raises NotGGUF, OSError."""
    found: dict[str, object] = {}
    with path.open("rb") as file:
        reader = _Reader(file)
        magic = reader.take(4)
        if magic != b"GGUF":
            raise NotGGUF(f"it begins with {magic!r} instead of b'GGUF'")
        version = int(reader.number("I"))
        if version not in (2, 3):
            raise NotGGUF(f"its version {version} is unknown (2 and 3 are read)")
        reader.number("Q")  # tensors
        for _ in range(reader.length(_MAX_KEYS)):
            key = reader.string()
            if (
                key == "tokenizer.ggml.tokens"
                and f"{found.get('general.architecture')}.pooling_type" in found
            ):
                break  # the facts come before the vocabulary, which is long
            found[key] = reader.value(int(reader.number("I")))
    architecture = found.get("general.architecture")
    if not isinstance(architecture, str) or not architecture:
        raise NotGGUF("it names no architecture")
    sizes = (found.get(f"{architecture}.{name}") for name in ("embedding_length_out", "embedding_length"))
    length = next((size for size in sizes if type(size) is int and size > 0), None)
    pooling = found.get(f"{architecture}.pooling_type", 0)
    return GGUFHeader(architecture, length, _POOLING.get(pooling, "none") if type(pooling) is int else "none")


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

    def header(self) -> GGUFHeader | None:
        """None without a file or a readable header."""
        header: GGUFHeader | None = self._read(read_header)
        return header

    def digest(self) -> str:
        """Hex that tells this file from others; "" without a readable file."""
        return self._read(quick_digest) or ""

    def _read(self, read: Callable[[Path], Any]) -> Any:
        mark = file_mark(self.path)
        try:
            return _once(read, self.path, mark) if mark is not None else None
        except (NotGGUF, OSError):
            return None

    def usable(self, *, needs_library: bool, use: Use = "embed") -> FileMark:
        """What tells this file from a later one. Raises NotConfigured, with what to do, when no child could
        load it for this use, or when ``needs_library`` and llama_cpp is not installed."""
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
            header = _once(read_header, self.path, mark)
        except (NotGGUF, OSError) as exc:
            raise NotConfigured(
                f"{self.path} is no usable GGUF model: {exc}. Fetch it again "
                "(openclaw-mem model download), or correct the path."
            ) from exc
        if (why := _UNFIT.get((use, header.pooling))) is not None:
            raise NotConfigured(unfit(self.path, use, why))
        return mark


_FOR: dict[Use, str] = {
    "embed": "",
    "rank": " --for rerank",
    "yes-no": " --for rerank",
    "chat": " --for expansion",
}


def unfit(path: Path, use: Use, why: str) -> str:
    """The message about a model that is for something else."""
    kind, other = _KINDS[use]
    return f"{path.name} is no {kind}: {why}. Choose a model {other}."


_EMBEDS = dict.fromkeys(("mean", "cls", "last"), "it makes embeddings")
#: Why a model with such a pooling is not for a use.
_UNFIT: dict[tuple[Use, str], str] = {
    ("embed", "none"): "it declares no pooling, as chat models do",
    ("embed", "rank"): "it is a reranker",
    ("chat", "rank"): "it is a reranker",
    **{("chat", pooling): why for pooling, why in _EMBEDS.items()},
    **{("yes-no", pooling): why for pooling, why in _EMBEDS.items()},
}


@functools.lru_cache(maxsize=32)
def _once(read: Callable[[Path], Any], path: Path, _mark: FileMark) -> Any:
    """``read(path)``, remembered for this content of the file."""
    return read(path)
