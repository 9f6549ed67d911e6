"""Which providers exist: one line of a table for each, and what an embedder is made from.

To add a provider, write one module with an object that has the methods of :class:`Provider`, and add its line
to ``_PROVIDERS``. The module is imported when its provider is used.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_engine.errors import ConfigError

if TYPE_CHECKING:
    from openclaw_mem_engine.providers.base import Embedder, Meter

#: Seconds to wait for the embedding of one query, and for one batch of documents.
QUERY_TIMEOUT_S = 60.0
BATCH_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class EmbedderSpec:
    """Which embedder to make. What may hold a secret stays out of ``repr``.

    Empty ``model`` and ``base_url`` mean the provider's default. ``key_missing`` says why there is no key,
    for the error at the first text. Timeouts are in seconds; ``concurrency`` is the number of requests in
    flight. For ``local``, ``model`` is a path or ``hf:`` URI, downloads go to ``model_folder``, and the
    model leaves memory after ``idle_s`` seconds without a text.
    Raises ConfigError for an unknown provider or a timeout that is not above 0.
    """

    provider: str = "static"
    model: str = ""
    base_url: str = field(default="", repr=False)
    api_key: str = field(default="", repr=False)
    key_missing: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_s: float = QUERY_TIMEOUT_S
    batch_timeout_s: float = BATCH_TIMEOUT_S
    concurrency: int = 4
    model_folder: Path | None = None
    idle_s: float = 300.0

    def __post_init__(self) -> None:
        if self.provider not in names():
            raise _unknown(self.provider)
        for name, value in (("timeout_s", self.timeout_s), ("batch_timeout_s", self.batch_timeout_s)):
            if not (math.isfinite(value) and value > 0):
                raise ConfigError(f"Embedding {name} is {value!r}; it must be a number of seconds above 0.")


class Provider(Protocol):
    """A kind of embedder. No method loads a model or sends anything."""

    def make(self, spec: EmbedderSpec, meter: Meter | None) -> Embedder:
        """A new embedder. ``meter`` is called for every counted request. Raises ProviderError or ConfigError
        for a spec that cannot be used."""

    def model_name(self, given: str) -> str:
        """The name of the model in effect; the default for ""."""

    def base_url(self, given: str) -> str:
        """The address that text is sent to; the default for "". Always "" when text stays in this process
        or its children."""


class _Local:
    """Models in GGUF files, loaded with llama.cpp in a child process."""

    def make(self, spec: EmbedderSpec, meter: Meter | None) -> Embedder:  # noqa: ARG002
        from openclaw_mem_engine.providers.local.embedder import LocalEmbedder

        return LocalEmbedder(
            spec.model,
            # Without a folder only a model that is a path can be used; its errors then name the path.
            folder=spec.model_folder or Path(spec.model).parent,
            idle_s=spec.idle_s,
            query_timeout_s=spec.timeout_s,
            batch_timeout_s=spec.batch_timeout_s,
        )

    def model_name(self, given: str) -> str:
        from openclaw_mem_engine.providers.local.model_file import DEFAULT_MODEL

        return given or DEFAULT_MODEL

    def base_url(self, given: str) -> str:  # noqa: ARG002
        return ""


#: "module:attribute" below this package, or the provider itself.
_PROVIDERS: dict[str, str | Provider] = {
    "static": "static:PROVIDER",
    "openai": "remote:OPENAI",
    "gemini": "remote:GEMINI",
    "voyage": "remote:VOYAGE",
    "mistral": "remote:MISTRAL",
    "ollama": "remote:OLLAMA",
    "local": _Local(),
}


def names() -> tuple[str, ...]:
    """All names that a spec may hold; "none" (BM25 only) is the one without a provider."""
    return (*_PROVIDERS, "none")


def provider_named(name: str) -> Provider:
    """The provider of a name; imports its module. Raises ConfigError for an unknown one."""
    found = _PROVIDERS.get(name)
    if found is None:
        raise _unknown(name)
    if isinstance(found, str):
        module, _, attribute = found.partition(":")
        found = cast("Provider", getattr(import_module(f"{__package__}.{module}"), attribute))
        _PROVIDERS[name] = found
    return found


def make_embedder(spec: EmbedderSpec, *, meter: Meter | None = None) -> Embedder | None:
    """The embedder that ``spec`` asks for, as :meth:`Provider.make` says; None for "none" (BM25 only).

    A missing API key or model file shows at the first text (NotConfigured), not here: the embedder still
    names its vector space, so that an index keeps its vectors.
    """
    return None if spec.provider == "none" else provider_named(spec.provider).make(spec, meter)


def _unknown(name: str) -> ConfigError:
    return ConfigError(f"There is no embedding provider {name!r}. Known: {', '.join(names())}.")
