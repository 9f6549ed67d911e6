"""What OpenClaw's configuration says about memory: agents, workspaces, memory search, providers.

Ranges and clamps are those of release 2026.2.26. The schema there refuses a value out of range before any
command runs; what the schema accepts is still clamped. Unknown keys of newer releases are only reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from openclaw_mem_engine.config.groups import PLUGIN_ELSEWHERE, PLUGIN_KEYS
from openclaw_mem_engine.config.ignored import (
    IgnoredKey,
    ignored_keys,
    notes_of,
    object_at,
    unknown_key,
)
from openclaw_mem_engine.config.layers import Entry, Layer, missing_variable, secret_from
from openclaw_mem_engine.config.read_groups import lifecycle_layer, qmd_layer
from openclaw_mem_engine.config.rules import Rule
from openclaw_mem_engine.config.secret import Secret, printable, shown
from openclaw_mem_engine.config.settings import SETTINGS, Origin
from openclaw_mem_engine.config.sources import OpenClawLocation, read_json5
from openclaw_mem_engine.errors import ConfigError
from openclaw_mem_engine.model import Note
from openclaw_mem_engine.named_tuple import NamedTuple


class ForeignKey(NamedTuple):
    """A key below ``memorySearch``: what it may be, its default (None: absent), and our key that it sets."""

    rule: Rule
    default: object = None
    ours: str | None = None


_TEXT, _BACKEND = Rule("text"), Rule("text", choices=("builtin", "qmd"))
#: The keys below ``memorySearch`` in OpenClaw's configuration, as of release 2026.2.26: what it accepts and
#: its defaults. Those without a setting of ours are read for what they imply, or only accepted.
MEMORY_SEARCH: Mapping[str, ForeignKey] = MappingProxyType(
    {
        known.openclaw: ForeignKey(known.openclaw_rule, known.foreign_default, key)
        for key, known in SETTINGS.items()
        if known.openclaw
    }
    | {
        "experimental.sessionMemory": ForeignKey(Rule("switch"), False),
        "query.hybrid.enabled": ForeignKey(Rule("switch"), True),
        "store.driver": ForeignKey(Rule("text", choices=("sqlite",)), "sqlite"),
        "store.path": ForeignKey(_TEXT),
        # A native library that another program trusts: read, never loaded by us.
        "store.vector.extensionPath": ForeignKey(_TEXT),
    }
)

_WEIGHTS = ("query.hybrid.vectorWeight", "query.hybrid.textWeight")
_CHUNKING = ("chunking.tokens", "chunking.overlap")
#: Keys that name a provider, and other names of ours there.
_NAMING, _ALIASES = ("provider", "fallback"), {"google": "gemini"}
_MULTIPLIER = "query.hybrid.candidateMultiplier"

#: Where releases after 2026.2 have it. Their ranges may differ, so what does not fit there is only reported.
_LATER_LOCATION = "memory.search"


class AgentEntry(NamedTuple):
    """One configured agent; ``where`` is the key in the file. The id is as written, not yet checked."""

    id: str
    where: str
    settings: Mapping[str, Any]


class OpenClawConfig:
    """A read configuration file, or an empty one. ``environ`` is the environment with the file's
    own ``env`` block below it, as OpenClaw applies it. ``notes`` collects warnings for the user, ``ignored``
    the keys without effect."""

    def __init__(self, location: OpenClawLocation, environ: Mapping[str, str]) -> None:
        self.location = location
        self.notes: list[Note] = []
        self.ignored: list[IgnoredKey] = []
        self._root: Mapping[str, Any] = {}
        if location.note:
            self._warn("config-missing", location.note)
        if location.config_file is not None:
            self._root = self._must_be_object(read_json5(location.config_file), "the top level")
        block = [*self._object("env").items(), *self._object("env.vars").items()]
        self.env_block = {name: value for name, value in block if isinstance(value, str)}
        self.environ = {**self.env_block, **{name: value for name, value in environ.items() if value}}
        self.agents = tuple(self._agents())

    def where(self, key: str) -> str:
        """The name of a key for people: file and dotted path."""
        return f"{self.location.config_file}: {key}"

    @property
    def default_agent(self) -> AgentEntry | None:
        """The agent marked as default, else the first; None when none is configured."""
        marked = (agent for agent in self.agents if agent.settings.get("default") is True)
        return next(marked, self.agents[0] if self.agents else None)

    def agent(self, agent_id: str) -> AgentEntry | None:
        """The entry of an agent; ids are compared without regard to case."""
        return next((agent for agent in self.agents if agent.id.lower() == agent_id), None)

    def workspace(self, agent_id: str, is_default: bool) -> Entry | None:
        """The configured workspace of an agent. ``agents.defaults.workspace`` is for the default agent."""
        agent, shared = self.agent(agent_id), "agents.defaults"
        nodes = [(agent.where, agent.settings)] if agent else []
        nodes += [(shared, self._object(shared))] if is_default else []
        for where, node in nodes:
            if text := self._text(node, "workspace", where):
                return Entry(text, self._origin(f"{where}.workspace"))
        return None

    def memory_layer(self, agent_id: str) -> tuple[Layer, Entry | None]:
        """The memory settings that hold for an agent, and the store path of OpenClaw's own, if configured.
        Raises ConfigError for a value of the wrong type or out of range, as OpenClaw itself refuses it."""
        found = self._memory_search(agent_id)
        resolved = resolved_keys({key: entry.value for key, entry in found.items()})
        layer: Layer = {}
        for key, entry in found.items():
            value, used = entry.value, resolved[key]
            if key not in _WEIGHTS and isinstance(value, (int, float)) and used != value:
                where = entry.origin.where
                self._warn("config-clamped", f"{where} is {value}; {used} is used, as OpenClaw does.")
            if (ours := MEMORY_SEARCH[key].ours) is not None:
                layer[ours] = entry._replace(value=_ALIASES.get(used, used) if key in _NAMING else used)
        for pair in (_WEIGHTS, _CHUNKING):
            # Each depends on the other: one that is configured decides both.
            for key, other in (pair, pair[::-1]):
                if other in found and key not in found:
                    layer[str(MEMORY_SEARCH[key].ours)] = found[other]._replace(value=resolved[key])
        if hybrid := found.get("query.hybrid.enabled"):
            layer["query.mode"] = hybrid._replace(value="hybrid" if hybrid.value else "vector")
        citations = self._object("memory").get("citations")
        if citations is not None:
            checked = SETTINGS["citations"].rule.check(citations, self.where("memory.citations"))
            layer["citations"] = Entry(checked, self._origin("memory.citations"))
        layer |= self._plugin_layer()
        layer |= qmd_layer(self._object("memory.qmd"), self.where, self._warn, self.ignored)
        layer |= self._lifecycle(agent_id)
        self.ignored += ignored_keys(self._root, [(agent.where, agent.settings) for agent in self.agents])
        self.notes += notes_of(self.location.config_file, self.ignored)
        return layer, found.get("store.path")

    def _plugin_layer(self) -> Layer:
        """The memory plug-in and its configuration. Raises ConfigError for a value of the wrong type or out
        of range, as the plug-in itself refuses it."""
        layer: Layer = {}
        if slot := self._text(self._object("plugins.slots"), "memory", "plugins.slots"):
            layer["plugin.slot"] = Entry(slot, self._origin("plugins.slots.memory"))
        entry = "plugins.entries.memory-lancedb.config"
        for name, value in object_at(self._object("plugins.entries"), "memory-lancedb.config").items():
            dotted = f"{entry}.{printable(name)}"
            if (ours := PLUGIN_KEYS.get(name)) is None:
                hint = PLUGIN_ELSEWHERE.get(name)
                key = IgnoredKey(dotted, hint, known=True) if hint else unknown_key(entry, name, PLUGIN_KEYS)
                self.ignored.append(key)
                continue
            rule = SETTINGS[f"plugin.{ours}"].rule
            checked = rule.check(rule.floored(value), self.where(dotted))
            layer[f"plugin.{ours}"] = Entry(checked, self._origin(dotted))
        return layer

    @property
    def backend(self) -> str:
        """``memory.backend``: recorded, not acted upon."""
        name = self._text(self._object("memory"), "backend", "memory") or "builtin"
        return str(_BACKEND.check(name, self.where("memory.backend")))

    def provider_entry(self, provider_id: str) -> tuple[Mapping[str, Any], str]:
        """The object ``models.providers.<provider_id>`` (empty when absent) and its dotted path."""
        key = f"models.providers.{provider_id}"
        return self._object(key), key

    def auth_order(self, provider_id: str) -> tuple[str, ...]:
        """The ids of auth profiles that are to be used for a provider, in order. Not ours to check: what is
        no list of ids counts as absent."""
        return texts_in(object_at(self._root, "auth.order").get(provider_id))

    def secret(self, value: object, where: str) -> Secret | None:
        """A configured key: a text, maybe with ``${NAME}``, or a reference to an environment variable."""
        if value is None:
            return None
        if not isinstance(value, dict):
            return secret_from(str(Rule("secret").check(value, where)), self.environ, where)
        name = value.get("id")
        if value.get("source") != "env" or not isinstance(name, str):
            return Secret.missing(
                f"{where} refers to a secret store that openclaw-mem does not read. "
                f"Set the provider's environment variable instead."
            )
        text = self.environ.get(name, "")
        return Secret(text) if text else Secret.missing(missing_variable(where, printable(name)))

    def _lifecycle(self, agent_id: str) -> Layer:
        nodes = {"agents.defaults": self._object("agents.defaults"), "": self._root}
        if agent := self.agent(agent_id):
            nodes[agent.where] = agent.settings
        return lifecycle_layer(nodes, self.where, self._warn, self.ignored)

    def _memory_search(self, agent_id: str) -> dict[str, Entry]:
        """Values by key of MEMORY_SEARCH with the location of each; an agent's own ones win."""
        # The first is a legacy location that OpenClaw migrates.
        common = ("memorySearch", _LATER_LOCATION, "agents.defaults.memorySearch")
        nodes = [(key, self._object(key)) for key in common]
        agent = self.agent(agent_id)
        if agent and (own := agent.settings.get("memorySearch")) is not None:
            key = f"{agent.where}.memorySearch"
            nodes.append((key, self._must_be_object(own, key)))
        found: dict[str, Entry] = {}
        for location, node in nodes:
            for key, value in self._walk(node, location, ""):
                if key == "extraPaths" and key in found:
                    # OpenClaw adds an agent's paths to the common ones; everything else replaces.
                    value = trimmed_unique([*_items(found[key].value), *_items(value)])
                found[key] = Entry(value, self._origin(f"{location}.{key}"))
        return found

    def _walk(self, node: Mapping[str, Any], location: str, prefix: str) -> Iterator[tuple[str, object]]:
        for name, value in node.items():
            key, dotted = f"{prefix}{name}", f"{location}.{prefix}{name}"
            known = MEMORY_SEARCH.get(key)
            if known is not None and known.rule.kind == "secret":
                secret = self.secret(value, self.where(dotted))
                if secret is not None:
                    yield key, secret
            elif known is not None:
                try:
                    value = known.rule.check(value, self.where(dotted))
                except ConfigError as error:
                    if location != _LATER_LOCATION:
                        raise
                    self._warn("config-unknown-value", f"{error} It is ignored.")
                    continue
                yield key, tuple(value) if isinstance(value, list) else value
            elif any(other.startswith(f"{key}.") for other in MEMORY_SEARCH):
                yield from self._walk(self._must_be_object(value, dotted), location, f"{key}.")
            else:
                self.ignored.append(unknown_key(location, key, MEMORY_SEARCH))

    def _agents(self) -> Iterator[AgentEntry]:
        agents = self._object("agents")
        listed = agents.get("list", [])
        if not isinstance(listed, list):
            raise ConfigError(f"{self.where('agents.list')} is {shown(listed)}; allowed: a list of agents.")
        for number, item in enumerate(listed):
            where = f"agents.list[{number}]"
            settings = self._must_be_object(item, where)
            yield AgentEntry(self._text(settings, "id", where), where, settings)
        # Later releases have a table instead of a list.
        for name, item in self._object("agents.entries").items():
            where = f"agents.entries.{name}"
            yield AgentEntry(name.strip(), where, self._must_be_object(item, where))

    def _object(self, dotted: str) -> Mapping[str, Any]:
        """The object at a dotted path; empty when it or one above it is absent."""
        above, _, name = dotted.rpartition(".")
        value = (self._object(above) if above else self._root).get(name)
        return {} if value is None else self._must_be_object(value, dotted)

    def _must_be_object(self, value: object, dotted: str) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            raise ConfigError(f"{self.where(dotted)} is {shown(value, secret=True)}; allowed: an object.")
        if "$include" in value:
            text = f"{self.where(dotted)} includes other files; openclaw-mem does not read those."
            if all(note.text != text for note in self.notes):
                self._warn("config-include", text)
            return {name: item for name, item in value.items() if name != "$include"}
        return value

    def _text(self, node: Mapping[str, Any], name: str, location: str) -> str:
        """The text ``name`` of the object at ``location``; empty when it is absent."""
        value = node.get(name, "")
        return str(_TEXT.check("" if value is None else value, self.where(f"{location}.{name}"))).strip()

    def _origin(self, dotted: str) -> Origin:
        return Origin("openclaw", self.where(dotted))

    def _warn(self, code: str, text: str) -> None:
        self.notes.append(Note(code, text, "warning"))


def _items(value: object) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (list, tuple)) else ()


def texts_in(value: object) -> tuple[str, ...]:
    """The texts of a list; none for what is no list."""
    return tuple(item for item in _items(value) if isinstance(item, str))


def resolved_keys(values: Mapping[str, object]) -> dict[str, Any]:
    """Every documented key with its value in effect: defaults filled in, clamps applied, weights divided by
    their sum. ``values`` maps keys of :data:`MEMORY_SEARCH` to values of the right type, of any size. Keys
    without default and without value are absent."""
    given: dict[str, Any] = {key: known.default for key, known in MEMORY_SEARCH.items()}
    given = {key: value for key, value in given.items() if value is not None} | dict(values)
    for key, value in given.items():
        given[key] = MEMORY_SEARCH[key].rule.clamped(value)
    given[_MULTIPLIER] = min(20, given[_MULTIPLIER])
    tokens, overlap = (given[key] for key in _CHUNKING)
    given["chunking.overlap"] = min(overlap, tokens - 1)
    weights = [given[key] for key in _WEIGHTS]
    parts = [weight / sum(weights) for weight in weights] if sum(weights) > 0 else (0.7, 0.3)
    given |= zip(_WEIGHTS, parts, strict=True)
    # Transcripts count only when the experiment is switched on as well; nothing left means notes.
    sessions = given["experimental.sessionMemory"] is True
    names = dict.fromkeys(name for name in _items(given["sources"]) if name == "memory" or sessions)
    given["sources"] = tuple(names) or ("memory",)
    given["extraPaths"] = trimmed_unique(given["extraPaths"])
    return given


def trimmed_unique(paths: object) -> tuple[str, ...]:
    """The paths without surrounding blanks, empty ones and repetitions, in their order."""
    return tuple(dict.fromkeys(text for path in _items(paths) if (text := str(path).strip())))
