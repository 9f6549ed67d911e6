"""The settings of one agent's memory: every value with its meaning, range, default and names beside it.

:data:`SETTINGS` lists them by key. The keys are those of ``config.toml`` (``provider.model`` is ``model`` in
the table ``[provider]``), of ``Settings.origins`` and of the listing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from openclaw_mem_engine.config.groups import (
    BootstrapSettings,
    CompactionSettings,
    ExpansionSettings,
    FlushSettings,
    PluginSettings,
    RerankSettings,
    SandboxSettings,
    SnapshotSettings,
)
from openclaw_mem_engine.config.ignored import IgnoredKey
from openclaw_mem_engine.config.knob_settings import KNOB_SETTINGS
from openclaw_mem_engine.config.qmd import QmdSettings
from openclaw_mem_engine.config.rules import Rule, Setting, declared, setting
from openclaw_mem_engine.config.secret import Secret
from openclaw_mem_engine.config.store import StoreSettings
from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_engine.model import Note, Source
from openclaw_mem_engine.ranking.knob_spec import KnobValue
from openclaw_mem_engine.ranking.profiles import SELECTABLE

UsedName = Literal["static", "openai", "gemini", "voyage", "mistral", "ollama", "local", "none"]
ProviderName = Literal["auto"] | UsedName
RemoteName = Literal["openai", "gemini", "voyage", "mistral", "ollama"]
CitationMode = Literal["auto", "on", "off"]

#: The order in which ``auto`` looks for a key.
REMOTE_NAMES: tuple[RemoteName, ...] = ("openai", "gemini", "voyage", "mistral")
#: Providers that are reached by an address. ``ollama`` needs no key, so nothing but its name chooses it.
ENDPOINT_NAMES: tuple[RemoteName, ...] = (*REMOTE_NAMES, "ollama")
PROVIDER_NAMES: tuple[ProviderName, ...] = ("auto", "static", *ENDPOINT_NAMES, "local", "none")

#: The environment variables in which the key of a provider is looked for, the first match wins. Other
#: programs share them, so a key that a file gives for memory search comes first.
KEY_VARIABLES: Mapping[RemoteName, tuple[str, ...]] = {
    "openai": ("OPENAI_API_KEY",),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "voyage": ("VOYAGE_API_KEY",),
    "mistral": ("MISTRAL_API_KEY",),
}

_SWITCH, _TEXT, _PATH, _NUMBER = Rule("switch"), Rule("text"), Rule("path"), Rule("number")
_INT, _COUNT, _POSITIVE, _UNIT = Rule("int"), Rule("int", 0), Rule("int", 1), Rule("number", 0, 1)
_MS, _SECONDS, _MINUTES = (Rule("int", 0, unit=unit) for unit in ("ms", "seconds", "minutes"))
_BYTES, _MESSAGES = Rule("int", 0, unit="bytes"), Rule("int", 0, unit="messages")
_SOURCES = Rule("texts", choices=("memory", "sessions"))


def _nothing() -> Mapping[Any, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value came from; ``where`` is for people: a file and key, a variable, a flag."""

    kind: Literal["default", "openclaw", "toml", "env", "flag"]
    where: str


DEFAULT_ORIGIN = Origin("default", "built in")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """How to reach one remote provider. Headers and URL stay out of ``repr``: both may hold credentials.

    ``base_url`` is None for the usual address, ``model`` for the default model. ``key_origin`` is where the
    key was found, or was expected when it is missing.
    """

    base_url: str | None = field(default=None, repr=False)
    api_key: Secret | None = None
    headers: Mapping[str, str] = field(default_factory=_nothing, repr=False)
    model: str | None = None
    key_origin: Origin | None = None


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """The provider's cheaper, slower batch interface."""

    enabled: bool = setting(_SWITCH, "embed notes in batch jobs", False, "remote.batch.enabled")
    wait: bool = setting(_SWITCH, "a sync waits for its job", True, "remote.batch.wait")
    concurrency: int = setting(_POSITIVE, "jobs at once", 2, "remote.batch.concurrency")
    poll_interval_ms: int = setting(
        Rule("int", 1, unit="ms"),
        "time between two requests for the state of a job",
        2000,
        "remote.batch.pollIntervalMs",
        foreign_rule=_COUNT,
    )
    timeout_minutes: int = setting(
        Rule("int", 1, unit="minutes"), "how long a job may take", 60, "remote.batch.timeoutMinutes"
    )


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """Which embeddings to use.

    ``base_url``, ``api_key``, ``headers`` and ``model`` belong to :attr:`chosen`; ``key_provider`` is that
    provider when it is remote and has a key, else None. ``endpoints`` holds all of :data:`ENDPOINT_NAMES`: a
    key, an address or a model is only ever paired with the provider that it was configured for.
    ``local_model_path`` is an absolute path or a URI, ``local_model_found`` True when it is that of a file.
    """

    provider: ProviderName = setting(
        Rule("text", choices=PROVIDER_NAMES),
        "the primary provider",
        "auto",
        "provider",
        name="name",
        foreign_rule=_TEXT,
        variable="OPENCLAW_MEM_PROVIDER",
        flag="--provider",
    )
    model: str | None = setting(_TEXT, "its model, instead of the default model", None, "model")
    base_url: str | None = setting(
        Rule("url"), "its address, instead of the usual one", None, "remote.baseUrl", repr=False
    )
    api_key: Secret | None = setting(Rule("secret"), "its key", None, "remote.apiKey")
    headers: Mapping[str, str] = setting(
        Rule("headers"), "further HTTP headers", MappingProxyType({}), "remote.headers", repr=False
    )
    fallback: str = setting(
        Rule("text", choices=PROVIDER_NAMES[1:]),
        "the provider used when the primary fails",
        "none",
        "fallback",
        foreign_rule=_TEXT,
    )
    also: tuple[str, ...] = setting(
        Rule("texts", unit="provider or provider:model"),
        "embedders whose vectors are kept for comparison",
        (),
    )
    concurrency: int = setting(Rule("int", 1, 32, unit="requests"), "requests at a time", 4)
    local_model_path: str | None = setting(
        _PATH, "the GGUF file, or its hf: address", None, "local.modelPath"
    )
    local_model_cache_dir: str | None = setting(
        _PATH, "folder of downloaded models (default: in the data folder)", None, "local.modelCacheDir"
    )
    local_idle_minutes: float = setting(
        Rule("number", 0, unit="minutes"), "idle time after which a local model leaves memory", 5.0
    )
    batch: BatchSettings = BatchSettings()
    key_provider: RemoteName | None = None
    endpoints: Mapping[RemoteName, Endpoint] = field(default_factory=_nothing)
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

    tokens: int = setting(Rule("int", 1, unit="tokens"), "length of a chunk", 400, "chunking.tokens")
    overlap: int = setting(
        Rule("int", 0, unit="tokens"),
        "how much of the previous chunk each chunk repeats",
        80,
        "chunking.overlap",
    )


@dataclass(frozen=True, slots=True)
class CacheSettings:
    enabled: bool = setting(_SWITCH, "keep embeddings for later", True, "cache.enabled")
    max_entries: int = setting(
        _POSITIVE, "how many embeddings are kept", 50_000, "cache.maxEntries", foreign_default=None
    )


@dataclass(frozen=True, slots=True)
class SyncSettings:
    """When the index is brought up to date. Growth of a transcript below both thresholds waits for quiet."""

    on_session_start: bool = setting(_SWITCH, "sync when the workbench starts", True, "sync.onSessionStart")
    on_search: bool = setting(_SWITCH, "sync before a search", True, "sync.onSearch")
    watch: bool = setting(_SWITCH, "sync when a note changes", True, "sync.watch")
    debounce_ms: int = setting(
        _MS, "quiet time after the last change before a sync", 1500, "sync.watchDebounceMs"
    )
    interval_minutes: int = setting(_MINUTES, "sync this often; 0: never", 0, "sync.intervalMinutes")
    session_delta_bytes: int = setting(
        _BYTES, "growth after which a transcript is indexed; 0: any", 100_000, "sync.sessions.deltaBytes"
    )
    session_delta_messages: int = setting(
        _MESSAGES,
        "new messages after which a transcript is indexed; 0: any",
        50,
        "sync.sessions.deltaMessages",
    )
    session_quiet_s: int = setting(_SECONDS, "quiet time after which the rest is indexed; 0: never", 600)


@dataclass(frozen=True, slots=True)
class QuerySettings:
    """A ranking profile and the knobs that configuration changes on top of it."""

    profile: str = setting(
        Rule("text", choices=SELECTABLE),
        "the ranking profile",
        "documented",
        variable="OPENCLAW_MEM_PROFILE",
        flag="--profile",
    )
    overrides: Mapping[str, KnobValue] = field(default_factory=_nothing)


@dataclass(frozen=True, slots=True)
class OpenClawFacts:
    """What OpenClaw's own configuration says about itself; we write to none of it. ``store_path`` is its
    index, ``sessions_dir`` its transcripts of this agent: neither need exist. ``agents`` are configured ids,
    ``ignored`` the keys about memory without effect here. ``switched``: ``backend`` is that of this process
    alone."""

    config_file: Path | None
    state_dir: Path
    store_path: Path
    sessions_dir: Path
    backend: str = "builtin"
    agents: tuple[str, ...] = ()
    ignored: tuple[IgnoredKey, ...] = ()
    switched: bool = False


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that one agent's memory needs.

    ``origins`` has an entry for every key of :data:`SETTINGS`. ``enabled`` is False when OpenClaw's
    configuration switches memory search off: tools offer nothing then. Paths are absolute; the workspace and
    ``own_file``, our ``config.toml``, need not exist. A note larger than ``max_file_bytes`` is not indexed.
    """

    index_path: Path
    own_file: Path
    openclaw: OpenClawFacts
    workspace: Path = setting(
        _PATH,
        "the folder that holds MEMORY.md and memory/",
        MISSING,
        variable="OPENCLAW_MEM_WORKSPACE",
        flag="--workspace",
    )
    agent: str = setting(
        _TEXT, "the agent whose memory is used", MISSING, variable="OPENCLAW_MEM_AGENT", flag="--agent"
    )
    data_dir: Path = setting(
        _PATH, "the data folder: indexes, models, caches", MISSING, variable="OPENCLAW_MEM_HOME"
    )
    enabled: bool = setting(_SWITCH, "memory search is on for the agent", True, "enabled")
    sources: tuple[Source, ...] = setting(_SOURCES, "what is indexed", ("memory",), "sources")
    extra_paths: tuple[str, ...] = setting(
        Rule("texts"),
        "more notes to index: files, folders, or globs (`**/*.md`)",
        (),
        "extraPaths",
        flag="--include",
    )
    exclude: tuple[str, ...] = setting(
        Rule("texts", unit="globs"), "files that are not indexed, by path, such as memory/dreaming/**", ()
    )
    citations: CitationMode = setting(
        Rule("text", choices=("auto", "on", "off")), "whether answers name path and lines", "auto"
    )
    max_file_bytes: int = setting(
        Rule("int", 1, unit="bytes"), "larger notes are not indexed", 10 * 1024 * 1024
    )
    vector_extension: bool = setting(
        _SWITCH, "search vectors with sqlite-vec where it loads", True, "store.vector.enabled"
    )
    editor: str | None = setting(_TEXT, "the editor of notes", variable="OPENCLAW_MEM_EDITOR")
    theme: str | None = setting(
        _TEXT, "the theme of the workbench (default: claw-dark)", variable="OPENCLAW_MEM_THEME"
    )
    keys: Mapping[str, str] = setting(
        Rule("map"), 'keys of the workbench by action: `rebuild = "f5"`', MappingProxyType({})
    )
    user_timezone: str | None = setting(
        _TEXT, "the time zone of the daily log, such as Europe/Paris (default: this machine's)"
    )
    provider: ProviderSettings = ProviderSettings()
    chunking: ChunkingSettings = ChunkingSettings()
    cache: CacheSettings = CacheSettings()
    sync: SyncSettings = SyncSettings()
    query: QuerySettings = QuerySettings()
    rerank: RerankSettings = RerankSettings()
    expansion: ExpansionSettings = ExpansionSettings()
    qmd: QmdSettings = QmdSettings()
    store: StoreSettings = StoreSettings()
    plugin: PluginSettings = PluginSettings()
    compaction: CompactionSettings = CompactionSettings()
    flush: FlushSettings = FlushSettings()
    sandbox: SandboxSettings = SandboxSettings()
    snapshot: SnapshotSettings = SnapshotSettings()
    bootstrap: BootstrapSettings = BootstrapSettings()
    origins: Mapping[str, Origin] = field(default_factory=_nothing)
    warnings: tuple[Note, ...] = ()

    @property
    def index_name(self) -> str:
        """Where the index is, for people: its file, or its server."""
        at = self.store.location
        return str(self.index_path) if at is None or self.qmd_in_process else at.shown

    def with_index(self, path: Path) -> Settings:
        """The same settings with an index of their own in a file."""
        return replace(self, index_path=path, store=StoreSettings())

    @property
    def qmd_in_process(self) -> bool:
        """Whether QMD is to search in this process."""
        return self.openclaw.backend == "qmd" and self.qmd.command is None

    @property
    def qmd_process(self) -> bool:
        """Whether the external program of ``memory.qmd.command`` is to search."""
        return self.openclaw.backend == "qmd" and self.qmd.command is not None


#: Every setting by its key.
SETTINGS: Mapping[str, Setting] = MappingProxyType(
    declared(Settings) | {f"query.{name}": knob for name, knob in KNOB_SETTINGS.items()}
)
