"""The file of one model as it is on disk right now: its facts, its digest, and why it cannot be used."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from openclaw_mem_engine.errors import ConfigError
from openclaw_mem_engine.providers.base import NotConfigured
from openclaw_mem_engine.providers.local.child_errors import INSTALL, NO_EMBEDDINGS_ADVICE
from openclaw_mem_engine.providers.local.gguf_header import GGUFHeader, NotGGUF, read_header
from openclaw_mem_engine.providers.local.models import (
    FileMark,
    file_mark,
    is_hub,
    local_path,
    model_name,
    quick_digest,
)


class ModelFile:
    """Reads what it is asked for and remembers it as long as the file stays the same."""

    def __init__(self, model: str, folder: Path) -> None:
        self._name = model_name(model)
        self._misnamed = ""
        try:
            self.path = local_path(model, folder)
        except ConfigError as exc:
            # Said at the first text: a wrong address must not keep keyword search from working.
            self.path = folder / "no such model"
            self._misnamed = str(exc)
        self._facts: tuple[FileMark, GGUFHeader | None, str] | None = None
        self._digest: tuple[FileMark, str] | None = None

    def header(self) -> GGUFHeader | None:
        """None without a file or a readable header."""
        mark = file_mark(self.path)
        return self._read(mark)[1] if mark is not None else None

    def digest(self) -> str:
        """Hex that tells this file from others; "" without a readable file."""
        mark = file_mark(self.path)
        if mark is None:
            return ""
        known = self._digest
        if known is None or known[0] != mark:
            try:
                known = self._digest = (mark, quick_digest(self.path))
            except OSError:
                return ""
        return known[1]

    def usable(self, *, needs_library: bool) -> FileMark:
        """What tells this file from a later one. Raises NotConfigured, with what to do, when no child could
        load it, or when ``needs_library`` and llama_cpp is not installed."""
        if self._misnamed:
            raise NotConfigured(self._misnamed)
        mark = file_mark(self.path)
        if mark is None:
            raise NotConfigured(
                f"The local model {self._name} is not on this machine. Run: openclaw-mem model download"
                if is_hub(self._name)
                else f"There is no model file at {self.path}. Correct the path, or name a model to download "
                "(hf:organisation/repository/file.gguf)."
            )
        if needs_library and importlib.util.find_spec("llama_cpp") is None:
            raise NotConfigured(
                f"Local models need llama-cpp-python, which is not installed. Run: {INSTALL} "
                "(it is compiled, which takes minutes)."
            )
        _, header, problem = self._read(mark)
        if header is None:
            raise NotConfigured(
                f"{self.path} is no usable GGUF model: {problem}. Fetch it again "
                "(openclaw-mem model download), or correct the path."
            )
        if header.pooling in ("none", "rank"):
            why = "is a reranker" if header.pooling == "rank" else "declares no pooling, as chat models do"
            raise NotConfigured(f"{self.path.name} is no embedding model: it {why}. {NO_EMBEDDINGS_ADVICE}")
        return mark

    def _read(self, mark: FileMark) -> tuple[FileMark, GGUFHeader | None, str]:
        facts = self._facts
        if facts is None or facts[0] != mark:
            try:
                facts = (mark, read_header(self.path), "")
            except (NotGGUF, OSError) as exc:
                facts = (mark, None, str(exc))
            self._facts = facts
        return facts
