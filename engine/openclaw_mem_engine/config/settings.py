"""The settings of one agent's memory, all typed, all frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from openclaw_mem_engine.config.secret import Secret
from openclaw_mem_engine.model import Note, Source

UsedName = Literal["static", "openai", "gemini", "voyage", "mistral", "ollama", "local", "none"]
ProviderName = Literal["auto"] | UsedName
RemoteName = Literal["openai", "gemini", "voyage", "mistral", "ollama"]
CitationMode = Literal["auto", "on", "off"]

#: The order in which ``auto`` looks for a key.
REMOTE_NAMES: tuple[RemoteName, ...] = ("openai", "gemini", "voyage", "mistral")
#: Providers that are reached by an address. ``ollama`` needs no key, so nothing but its name chooses it.
ENDPOINT_NAMES: tuple[RemoteName, ...] = (*REMOTE_NAMES, "ollama")
PROVIDER_NAMES: tuple[ProviderName, ...] = ("auto", "static", *ENDPOINT_NAMES, "local", "none")


def _nothing() -> Mapping[Any, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value came from; ``where`` is for people: a file and key, a variable, a flag."""

    kind: Literal["default", "openclaw", "toml", "env", "flag"]
    where: str


@dataclass(frozen=True, slots=True)
class Endpoint:
    """How to reach one remote provider. Headers and URL stay out of ``repr``: both may hold credentials.

    ``base_url`` is None for the provider's own usual address, ``model`` for its default model. ``key_origin``
    tells where the key stands (or where it should, when it cannot be had).
    """

    base_url: str | None = field(default=None, repr=False)
    api_key: Secret | None = None
    headers: Mapping[str, str] = field(default_factory=_nothing, repr=False)
    model: str | None = None
    key_origin: Origin | None = None


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """The provider's cheaper, slower batch interface."""

    enabled: bool = False
    wait: bool = True
    concurrency: int = 2
    poll_interval_ms: int = 2000
    timeout_minutes: int = 60


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """Which embeddings to use.

    ``base_url``, ``api_key``, ``headers`` and ``model`` belong to :attr:`chosen`, the provider that is named
    or that ``auto`` comes to. ``key_provider`` is that provider when it is remote and has a key, else None.
    ``endpoints`` holds all of :data:`ENDPOINT_NAMES`, for ``fallback`` and ``also``. A key, an address or a
    model is only ever paired with the provider that it was configured for. ``model`` is None for the
    provider's default model.

    ``also`` names embedders whose vectors are kept beside the chosen one's: ``provider`` or
    ``provider:model``. ``local_model_path`` is an absolute path or a URI, ``local_model_found`` True when it
    is the path of a file. Downloaded models lie in ``local_model_cache_dir`` (None: below our data folder).
    A local model leaves memory after ``local_idle_minutes`` without a text. ``concurrency`` is the number of
    requests in flight.
    """

    provider: ProviderName = "auto"
    model: str | None = None
    base_url: str | None = field(default=None, repr=False)
    api_key: Secret | None = None
    headers: Mapping[str, str] = field(default_factory=_nothing, repr=False)
    fallback: str = "none"
    key_provider: RemoteName | None = None
    endpoints: Mapping[RemoteName, Endpoint] = field(default_factory=_nothing)
    local_model_path: str | None = None
    local_model_cache_dir: str | None = None
    batch: BatchSettings = BatchSettings()
    also: tuple[str, ...] = ()
    concurrency: int = 4
    local_idle_minutes: float = 5.0
    local_model_found: bool = False

    @property
    def chosen(self) -> UsedName:
        """The provider in effect, never ``auto``: that is the local model when its file is there, then the
        first of :data:`REMOTE_NAMES` with a key, then the built-in table."""
        if self.provider != "auto":
            return self.provider
        return "local" if self.local_model_found else self.key_provider or "static"


@dataclass(frozen=True, slots=True)
class ChunkingSettings:
    """Sizes in tokens of about four characters; ``overlap`` is less than ``tokens``."""

    tokens: int = 400
    overlap: int = 80


@dataclass(frozen=True, slots=True)
class QuerySettings:
    """A ranking profile and the knobs that configuration changes on top of it.

    Names and types of the knobs are checked here; their ranges belong to the ranking.
    """

    profile: str = "documented"
    overrides: Mapping[str, object] = field(default_factory=_nothing)


@dataclass(frozen=True, slots=True)
class CacheSettings:
    """The cache of embeddings; ``max_entries`` counts vectors."""

    enabled: bool = True
    max_entries: int = 50_000


@dataclass(frozen=True, slots=True)
class SyncSettings:
    """When the index is brought up to date. ``interval_minutes`` 0 means never by the clock; a session
    threshold of 0 means at any growth. What a transcript has grown by below the thresholds is indexed when
    nothing was written to it for ``session_quiet_s`` seconds; 0 means that only the thresholds count."""

    on_session_start: bool = True
    on_search: bool = True
    watch: bool = True
    debounce_ms: int = 1500
    interval_minutes: int = 0
    session_delta_bytes: int = 100_000
    session_delta_messages: int = 50
    session_quiet_s: int = 600


@dataclass(frozen=True, slots=True)
class OpenClawFacts:
    """What OpenClaw's own configuration says about itself. For information: we write to none of it.

    ``store_path`` is OpenClaw's index, ``sessions_dir`` its transcripts of this agent; neither need exist.
    ``agents`` lists the configured agent ids.
    """

    config_file: Path | None
    state_dir: Path
    store_path: Path
    sessions_dir: Path
    backend: str = "builtin"
    agents: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that one agent's memory needs.

    ``origins`` has an entry for every key of :data:`.keys.RULES`. ``enabled`` is False when OpenClaw's
    configuration switches memory search off: tools offer nothing then. Paths are absolute; the workspace
    need not exist. A note larger than ``max_file_bytes`` is skipped.
    """

    workspace: Path
    agent: str
    data_dir: Path
    index_path: Path
    openclaw: OpenClawFacts
    enabled: bool = True
    provider: ProviderSettings = ProviderSettings()
    sources: tuple[Source, ...] = ("memory",)
    extra_paths: tuple[str, ...] = ()
    chunking: ChunkingSettings = ChunkingSettings()
    query: QuerySettings = QuerySettings()
    citations: CitationMode = "auto"
    cache: CacheSettings = CacheSettings()
    sync: SyncSettings = SyncSettings()
    max_file_bytes: int = 10 * 1024 * 1024
    vector_extension: bool = True
    editor: str | None = None
    theme: str | None = None
    origins: Mapping[str, Origin] = field(default_factory=_nothing)
    warnings: tuple[Note, ...] = ()
