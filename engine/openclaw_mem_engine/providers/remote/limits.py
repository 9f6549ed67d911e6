"""How much a provider takes in one request: the longest text, batches of texts, and what refusals teach."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from openclaw_mem_engine.model import utf8
from openclaw_mem_engine.redact import redact

if TYPE_CHECKING:
    from openclaw_mem_engine.providers.base import Caps

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

#: Hardly a server caps a request at so few inputs; a refusal of so few is about their length, unless they are
#: so short that every server takes their bytes.
_FEW_ITEMS = 8
_FEW_BYTES = 2000


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


class LearnedCaps:
    """What one server takes in a request, learned when the halves of a refused one pass, since servers word
    refusals as they like. Safe to use from several threads.

    A cap of inputs is stored in ``caps``; one of bytes lasts as long as this object, since bytes are only an
    estimate of the server's tokens.
    """

    def __init__(self, key: str, max_items: int, max_bytes: int, caps: Caps | None = None) -> None:
        self._key, self._caps = key, caps
        self._max_items, self.max_bytes = max(1, max_items), max_bytes
        self._is_recalled = False
        self._most_items = self._most_bytes = 0
        self._lock = threading.Lock()

    @property
    def max_items(self) -> int:
        """Inputs per request. Reads the stored cap at the first use, not before."""
        with self._lock:
            if not self._is_recalled and self._caps is not None:
                self._max_items = min(self._max_items, self._caps.item_cap(self._key) or self._max_items)
            self._is_recalled = True
            return self._max_items

    def passed(self, sizes: Sequence[int]) -> None:
        """A request with inputs of these sizes was answered."""
        with self._lock:
            self._most_items = max(self._most_items, len(sizes))
            self._most_bytes = max(self._most_bytes, sum(sizes))

    def halved(self, sizes: Sequence[int], half: int) -> None:
        """A request was refused, and both its halves, split at input number ``half``, were answered."""
        refused_bytes = sum(sizes)
        with self._lock:
            # As many bytes have passed before, or not as many inputs.
            is_about_items = refused_bytes <= self._most_bytes or (
                len(sizes) > self._most_items and (len(sizes) > _FEW_ITEMS or refused_bytes < _FEW_BYTES)
            )
            if not is_about_items:
                self.max_bytes = min(self.max_bytes, max(sum(sizes[:half]), sum(sizes[half:])))
                return
            if half >= self._max_items:
                return
            self._max_items = half
        if self._caps is not None:
            self._caps.set_item_cap(self._key, half)


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

    def batches(self, caps: LearnedCaps) -> Iterator[tuple[int, int]]:
        """(start, end) of the inputs for one request each, cut late: with all that is learned by then."""
        end = 0
        while end < len(self.inputs):
            start, end = end, batch_end(self.sizes, end, caps.max_bytes, caps.max_items)
            yield start, end
