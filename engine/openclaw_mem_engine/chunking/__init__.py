"""From a text to its chunks: pure functions of text, no files.

A chunker is one module with a class and one line in ``CHUNKERS``.
"""

from __future__ import annotations

from importlib import import_module
from typing import Protocol

from openclaw_mem_engine.errors import ConfigError
from openclaw_mem_engine.model import ChunkSpan


class Chunker(Protocol):
    """Cuts texts. Immutable and pure: the same text gives the same chunks in every process.

    Name and parameters are part of the fingerprint of an index: chunks of another chunker, or of other
    parameters, are not mixed with those that are there, so a change means a rebuild.
    """

    @property
    def name(self) -> str:
        """The stable name, as in the registry. A chunker that changes its cuts takes another one."""

    @property
    def tokens(self) -> int:
        """The size aimed at, in estimated tokens (``line_chunker.UNITS_PER_TOKEN``), >= 1."""

    @property
    def overlap(self) -> int:
        """Estimated tokens that a chunk may repeat of the one before it, 0 .. tokens - 1."""

    def chunks(self, text: str) -> list[ChunkSpan]:
        """The chunks of ``text`` that hold more than white space, in reading order; [] for a blank text.
        Together they hold every line that is not blank."""


#: Each chunker by its name, ``module:class``, imported when it is used: (tokens, overlap) -> Chunker.
CHUNKERS = {
    "lines": "openclaw_mem_engine.chunking.line_chunker:LineChunker",
    "breaks": "openclaw_mem_engine.chunking.break_chunker:BreakChunker",
}
DEFAULT_CHUNKER = "lines"


def chunker_of(tokens: int, overlap: int, name: str = DEFAULT_CHUNKER) -> Chunker:
    """The chunker ``name`` with its parameters. Raises ConfigError for a name that is not registered,
    UsageError for parameters out of range."""
    if name not in CHUNKERS:
        raise ConfigError(f"There is no chunker {name!r}. Known: {', '.join(sorted(CHUNKERS))}.")
    module, _, made = CHUNKERS[name].partition(":")
    chunker: Chunker = getattr(import_module(module), made)(tokens, overlap)
    return chunker
