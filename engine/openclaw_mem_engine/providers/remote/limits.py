"""How much a provider takes in one request: the longest text, and batches of texts."""

from __future__ import annotations

from collections.abc import Sequence

from openclaw_mem_engine.model import utf8
from openclaw_mem_engine.redact import redact

#: Inputs go into one request until their UTF-8 bytes pass this; a larger input is a request of its own.
MAX_BATCH_BYTES = 8000

_DEFAULT_TOKENS = 8192
#: Input limits in tokens that are not 8,192, by provider and model, then by provider.
_MODEL_TOKENS = {
    ("openai", "text-embedding-ada-002"): 8191,
    ("voyage", "voyage-3"): 32_000,
    ("voyage", "voyage-code-3"): 32_000,
}
_PROVIDER_TOKENS = {"gemini": 2048, "local": 2048}


def max_input_tokens(provider: str, model: str) -> int:
    """The documented input limit of a model in tokens; 8,192 for a model that nothing is known about."""
    return _MODEL_TOKENS.get((provider, model), _PROVIDER_TOKENS.get(provider, _DEFAULT_TOKENS))


def max_input_bytes(provider: str, model: str) -> int:
    """The longest text, in UTF-8 bytes (tokens are never more), that is sent whole; longer ones are split
    before by ``split_utf8``."""
    return min(max_input_tokens(provider, model), MAX_BATCH_BYTES)


def split_utf8(text: str, max_bytes: int) -> list[str]:
    """``text`` cut into parts of at most ``max_bytes`` UTF-8 bytes (0 or less: no limit), never inside of a
    character; a longer one is a part of its own. Lone surrogates become U+FFFD where something is cut."""
    data = utf8(text)
    if max_bytes <= 0 or len(data) <= max_bytes:
        return [text]
    parts: list[str] = []
    start = 0
    while start < len(data):
        end = start + max_bytes
        while end > start and _is_inside(data, end):
            end -= 1
        end = max(end, start + 1)
        while _is_inside(data, end):
            end += 1
        parts.append(data[start:end].decode())
        start = end
    return parts


def _is_inside(data: bytes, index: int) -> bool:
    """Whether a cut at ``index`` would be inside of a character."""
    return index < len(data) and data[index] & 0xC0 == 0x80


def batch_end(sizes: Sequence[int], start: int, max_bytes: int, max_items: int) -> int:
    """Where the batch that begins at ``start`` ends (exclusive); it holds at least one input. ``sizes`` are
    UTF-8 bytes per input."""
    end = start + 1
    total = sizes[start]
    while end < len(sizes) and end - start < max_items and total + sizes[end] <= max_bytes:
        total += sizes[end]
        end += 1
    return end


def sendable(text: str) -> str:
    """What is sent for ``text``: everything that looks like a secret masked, also to this machine, where a
    gateway to another one may listen; and lone surrogates replaced, which JSON in UTF-8 cannot carry.
    Vectors are stored by the hash of ``text`` itself, which stays what it is in the index."""
    return redact(text if text.isascii() else utf8(text).decode())


class Packing:
    """The texts of one call: which are sent, and how large they are."""

    def __init__(self, texts: Sequence[str]) -> None:
        #: Positions of the texts that are sent, and what is sent for them.
        self.positions = [index for index, text in enumerate(texts) if text.strip()]
        self.inputs = [sendable(texts[index]) for index in self.positions]
        self.sizes = [len(text.encode()) for text in self.inputs]
