"""Simulated faults, switched on by name, to see what happens when a provider or SQLite fails.

An embedder with a fault raises what the real one would, in the same words, and says that it was on purpose.
Nothing is sent to the provider for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from openclaw_mem_engine.errors import ConfigError, ProviderError, UsageError, did_you_mean
from openclaw_mem_engine.providers.base import BadAnswer, RequestFailed, check_vectors, stop_if_cancelled
from openclaw_mem_engine.providers.base_embedder import DelegatingEmbedder, zero_answer
from openclaw_mem_engine.providers.registry import QUERY_TIMEOUT_S

if TYPE_CHECKING:
    from openclaw_mem_engine.cancellation import CancelToken
    from openclaw_mem_engine.model import Progress
    from openclaw_mem_engine.providers.base import Embedder, Floats, Keep, Vector

#: Every fault and what it does, in the order in which they are offered.
FAULTS: Mapping[str, str] = {
    "embeddings-401": "the provider refuses the API key",
    "embeddings-429": "the provider's rate limit is reached",
    "embeddings-timeout": "the provider does not answer in time",
    "embeddings-garbage": "the provider's response is not JSON",
    "zero-vector": "every embedding is a vector of zeros",
    "wrong-dimension": "vectors have the wrong dimension",
    "no-sqlite-vec": "SQLite's vector extension is missing",
    "no-fts5": "SQLite's full-text search is missing",
    "qmd-missing": "the external qmd is not installed",
    "qmd-timeout": "the external qmd times out",
    "qmd-json": "the external qmd does not print JSON",
    "qmd-exit": "the external qmd fails, exit code 1",
}
STORE_FAULTS = frozenset({"no-sqlite-vec", "no-fts5"})
#: They put a program that fails so in the place of ``memory.qmd.command``, configured or not.
QMD_FAULTS = frozenset({"qmd-missing", "qmd-timeout", "qmd-json", "qmd-exit"})
PROVIDER_FAULTS = frozenset(FAULTS) - STORE_FAULTS - QMD_FAULTS

ON_PURPOSE = "(simulated fault)"
#: No embedding model is that short.
WRONG_DIMS = 7
#: How often a query and documents are tried.
_QUERY_TRIES = 4
_DOCUMENT_TRIES = 6


def check_faults(names: Iterable[str]) -> frozenset[str]:
    """The names as a set. Raises UsageError for one that does not exist."""
    wanted = frozenset(names)
    unknown = sorted(wanted - FAULTS.keys())
    if unknown:
        hint = did_you_mean(unknown[0], FAULTS)
        raise UsageError(f"There is no fault {unknown[0]!r}.{hint} Known: {', '.join(FAULTS)}.")
    return wanted


class FaultyEmbedder(DelegatingEmbedder["Embedder"]):
    """Another embedder with one or more of ``PROVIDER_FAULTS``: the first in the order of ``FAULTS`` counts,
    and other faults have no effect here. A query is said to have waited ``timeout_s``."""

    def __init__(self, inner: Embedder, faults: Iterable[str], *, timeout_s: float = QUERY_TIMEOUT_S) -> None:
        super().__init__(inner)
        self._timeout_s = timeout_s
        active = PROVIDER_FAULTS.intersection(faults)
        self.fault = next(name for name in FAULTS if name in active)
        self.simulated = f" {ON_PURPOSE}"

    @property
    def dims(self) -> int | None:
        if self.fault != "wrong-dimension":
            return super().dims
        return WRONG_DIMS + (super().dims == WRONG_DIMS)

    def embed_query(self, text: str, cancel: CancelToken | None = None) -> Floats | None:
        """The result of the fault for a query. Blank text is never sent, so it meets no fault."""
        stop_if_cancelled(cancel)
        vector = self._faulty([text], _QUERY_TRIES)[0]
        if vector is None and text.strip():
            raise zero_answer(self)
        return vector

    def embed_documents(
        self,
        texts: Sequence[str],
        cancel: CancelToken | None = None,
        progress: Progress | None = None,
        keep: Keep | None = None,
    ) -> list[Vector | None]:
        """The result of the fault for documents. Raises as the provider would, and Cancelled."""
        stop_if_cancelled(cancel)
        vectors = self._faulty(texts, _DOCUMENT_TRIES)
        if keep is not None and vectors:
            keep(range(len(vectors)), vectors)
        if progress is not None and vectors:
            progress(len(vectors), len(vectors), "Embedding")
        return vectors

    def _faulty(self, texts: Sequence[str], tries: int) -> list[Vector | None]:
        if not any(text.strip() for text in texts):
            return [None] * len(texts)
        if self.fault == "wrong-dimension":
            row = [1.0, *([0.0] * ((self.dims or WRONG_DIMS) - 1))]
        elif self.fault == "zero-vector":
            row = [0.0] * (self.dims or WRONG_DIMS)
        else:
            raise self._error(tries)
        vector = check_vectors([row], expected=1, dims=None, provider=f"{self.id} embeddings")[0]
        return [vector if text.strip() else None for text in texts]

    def _error(self, tries: int) -> ProviderError:
        if self.fault == "embeddings-garbage":
            return self._unreadable()
        status, tries, said = {
            "embeddings-401": (401, 1, "Incorrect API key provided"),
            "embeddings-429": (429, tries, "Rate limit reached"),
            "embeddings-timeout": (None, 1, f"waited {self._timeout_s:.3g} s"),
        }[self.fault]
        failed = f"{self.id} embeddings failed: {'no answer' if status is None else status}"
        if self.host:
            after = f" after {tries} tries" if tries > 1 else ""
            failed += f" from {self.host}{after}: {said}. {_advice(self.id, status)}"
        else:  # no server that checks a key
            failed += f"{',' if status is None else ''} {said}"
        return RequestFailed(f"{failed} {ON_PURPOSE}", status=status)

    def _unreadable(self) -> BadAnswer:
        from openclaw_mem_engine.providers.remote.wires import parsed

        at = f" at {self.host}" if self.host else ""
        try:
            parsed(b"<html>Bad Gateway</html>", f"{self.id} embeddings{at}")
        except BadAnswer as error:
            return BadAnswer(f"{error} {ON_PURPOSE}")
        raise AssertionError("that is no JSON")


def _advice(provider: str, status: int | None) -> str:
    """What to do about it, in the words of the provider's wire."""
    from openclaw_mem_engine.providers.remote.wires import OPENAI, wire_of

    try:
        return wire_of(provider).advice(status)
    except ConfigError:  # an embedder that is none of ours
        return replace(OPENAI, key_variable="").advice(status)
