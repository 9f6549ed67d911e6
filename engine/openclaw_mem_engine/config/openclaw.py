"""What OpenClaw's configuration says about memory: agents, workspaces, memory search, providers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from openclaw_mem_engine.config.layers import Entry, Layer
from openclaw_mem_engine.config.openclaw_file import OpenClawPlace, parse_openclaw
from openclaw_mem_engine.config.openclaw_keys import MEMORY_SEARCH, resolved_keys, trimmed_unique
from openclaw_mem_engine.config.placeholders import missing_variable, secret_from
from openclaw_mem_engine.config.rules import Rule
from openclaw_mem_engine.config.secret import Secret, printable, shown
from openclaw_mem_engine.config.settings import Origin
from openclaw_mem_engine.errors import ConfigError
from openclaw_mem_engine.model import Note

_WEIGHTS = ("query.hybrid.vectorWeight", "query.hybrid.textWeight")
_CHUNKING = ("chunking.tokens", "chunking.overlap")

#: Where releases after 2026.2 have it. Their ranges may differ, so what does not fit there is only reported.
_LATER_PLACE = "memory.search"


class AgentEntry(NamedTuple):
    """One configured agent; ``where`` is the key in the file. The id is as written, not yet checked."""

    id: str
    where: str
    settings: Mapping[str, Any]


class OpenClawConfig:
    """A read configuration file, or an empty one when there is no file.

    ``environ`` is the environment with the file's own ``env`` block below it, as OpenClaw applies it.
    ``notes`` collects what is worth telling the user but does not stop anything.
    """

    def __init__(self, place: OpenClawPlace, environ: Mapping[str, str]) -> None:
        self.place = place
        self.notes: list[Note] = []
        self._root: Mapping[str, Any] = {}
        if place.note:
            self._warn("config-missing", place.note)
        if place.config_file is not None:
            self._root = self._must_be_object(parse_openclaw(place.config_file), "the top level")
        self.env_block = self._env_block()
        self.environ = {**self.env_block, **{name: value for name, value in environ.items() if value}}
        self.agents = tuple(self._agents())

    def where(self, key: str) -> str:
        """The name of a key for people: file and dotted path."""
        return f"{self.place.config_file}: {key}"

    @property
    def default_agent(self) -> AgentEntry | None:
        """The agent marked as default, else the first; None when none is configured."""
        marked = (agent for agent in self.agents if agent.settings.get("default") is True)
        return next(marked, self.agents[0] if self.agents else None)

    def agent(self, agent_id: str) -> AgentEntry | None:
        """The entry of an agent; ids are compared without regard to case."""
        return next((agent for agent in self.agents if agent.id.lower() == agent_id), None)

    def workspace(self, agent_id: str, is_default: bool, cwd: Path) -> Entry | None:
        """The configured workspace of an agent. ``agents.defaults.workspace`` is for the default agent."""
        agent = self.agent(agent_id)
        if agent is not None:
            own = self._text(agent.settings, "workspace", f"{agent.where}.workspace")
            if own:
                return Entry(own, self._origin(f"{agent.where}.workspace"), cwd)
        if is_default:
            key = "agents.defaults.workspace"
            shared = self._text(self._object("agents.defaults"), "workspace", key)
            if shared:
                return Entry(shared, self._origin(key), cwd)
        return None

    def memory_layer(self, agent_id: str) -> tuple[Layer, Entry | None]:
        """The memory settings that hold for an agent, and the store path of OpenClaw's own, if configured.

        Raises ConfigError when a value has the wrong type or is out of range, as OpenClaw itself refuses it.
        """
        found = self._memory_search(agent_id)
        resolved = resolved_keys({key: value for key, (value, _) in found.items()})
        for key, (value, where) in found.items():
            used = resolved[key]
            if key not in _WEIGHTS and isinstance(value, (int, float)) and used != value:
                self._warn("config-clamped", f"{where} is {value}; {used} is used, as OpenClaw does.")
        layer = Layer()
        for key, (value, where) in found.items():
            ours = MEMORY_SEARCH[key].ours
            if ours is not None:
                used = resolved[key] if not isinstance(value, (Secret, dict)) else value
                layer.put(ours, Entry(used, Origin("openclaw", where)))
        self._put_related(layer, found, resolved)
        citations = self._object("memory").get("citations")
        if citations is not None:
            rule = Rule("text", choices=("auto", "on", "off"))
            checked = rule.check(citations, self.where("memory.citations"))
            layer.put("citations", Entry(checked, self._origin("memory.citations")))
        if self._object("plugins.slots").get("memory") == "none":
            layer.put("enabled", Entry(False, self._origin("plugins.slots.memory")))
        store = found.get("store.path")
        return layer, Entry(store[0], Origin("openclaw", store[1])) if store else None

    @property
    def backend(self) -> str:
        """``memory.backend``: recorded, not acted upon."""
        name = self._text(self._object("memory"), "backend", "memory.backend") or "builtin"
        return str(Rule("text", choices=("builtin", "qmd")).check(name, self.where("memory.backend")))

    def provider_entry(self, provider_id: str) -> tuple[Mapping[str, Any], str]:
        """The object ``models.providers.<provider_id>`` (empty when absent) and its dotted path."""
        key = f"models.providers.{provider_id}"
        return self._object(key), key

    def auth_order(self, provider_id: str) -> tuple[str, ...]:
        """The ids of auth profiles that are to be used for a provider, in order; empty when nothing is said.

        The place is not ours to judge: what is no list of ids says nothing.
        """
        node: object = self._root
        for name in ("auth", "order", provider_id):
            node = node.get(name) if isinstance(node, dict) else None
        return tuple(item for item in _items(node) if isinstance(item, str))

    def secret(self, value: object, where: str) -> Secret | None:
        """A configured key: a text, maybe with ``${NAME}``, or a reference to an environment variable."""
        if value is None:
            return None
        if isinstance(value, dict):
            name = value.get("id")
            if value.get("source") != "env" or not isinstance(name, str):
                return Secret.missing(
                    f"{where} refers to a secret store that openclaw-mem does not read. "
                    f"Set the provider's environment variable instead."
                )
            text = self.environ.get(name, "")
            return Secret(text) if text else Secret.missing(missing_variable(where, printable(name)))
        Rule("secret").check(value, where)
        return secret_from(str(value), self.environ, where)

    def _put_related(
        self, layer: Layer, found: Mapping[str, tuple[object, str]], resolved: Mapping[str, object]
    ) -> None:
        """Keys of ours that depend on more than one of theirs."""
        for pair in (_WEIGHTS, _CHUNKING):
            where = next((found[key][1] for key in pair if key in found), None)
            for key in pair if where else ():
                entry = Entry(
                    resolved[key], Origin("openclaw", found[key][1] if key in found else str(where))
                )
                layer.put(str(MEMORY_SEARCH[key].ours), entry)
        if "query.hybrid.enabled" in found:
            hybrid, where = found["query.hybrid.enabled"]
            layer.put("query.mode", Entry("hybrid" if hybrid else "vector", Origin("openclaw", where)))
        for key, ours in (("sources", "sources"), ("extraPaths", "extra_paths")):
            if key in found:
                layer.put(ours, Entry(resolved[key], Origin("openclaw", found[key][1])))

    def _memory_search(self, agent_id: str) -> dict[str, tuple[object, str]]:
        """Values by key of MEMORY_SEARCH with the place of each; an agent's own ones win."""
        # The first is a legacy place that OpenClaw migrates.
        places = [(key, self._object(key)) for key in ("memorySearch", _LATER_PLACE)]
        places.append(("agents.defaults.memorySearch", self._object("agents.defaults.memorySearch")))
        agent = self.agent(agent_id)
        if agent is not None and agent.settings.get("memorySearch") is not None:
            key = f"{agent.where}.memorySearch"
            places.append((key, self._must_be_object(agent.settings["memorySearch"], key)))
        found: dict[str, tuple[object, str]] = {}
        for place, node in places:
            for key, value in self._walk(node, place, ""):
                if key == "extraPaths" and key in found:
                    # OpenClaw adds an agent's paths to the common ones; everything else replaces.
                    value = trimmed_unique([*_items(found[key][0]), *_items(value)])
                found[key] = (value, self.where(f"{place}.{key}"))
        return found

    def _walk(self, node: Mapping[str, Any], place: str, prefix: str) -> Iterator[tuple[str, object]]:
        for name, value in node.items():
            key, dotted = f"{prefix}{name}", f"{place}.{prefix}{name}"
            known = MEMORY_SEARCH.get(key)
            if known is not None and known.rule.kind == "secret":
                secret = self.secret(value, self.where(dotted))
                if secret is not None:
                    yield key, secret
            elif known is not None:
                try:
                    value = known.rule.check(value, self.where(dotted))
                except ConfigError as error:
                    if place != _LATER_PLACE:
                        raise
                    self._warn("config-unknown-value", f"{error} It is ignored.")
                    continue
                yield key, tuple(value) if isinstance(value, list) else value
            elif any(other.startswith(f"{key}.") for other in MEMORY_SEARCH):
                yield from self._walk(self._must_be_object(value, dotted), place, f"{key}.")
            else:
                self._warn(
                    "config-unknown-key", f"{self.where(printable(dotted))} is not known and is ignored."
                )

    def _agents(self) -> Iterator[AgentEntry]:
        agents = self._object("agents")
        listed = agents.get("list", [])
        if not isinstance(listed, list):
            raise ConfigError(f"{self.where('agents.list')} is {shown(listed)}; allowed: a list of agents.")
        for number, item in enumerate(listed):
            where = f"agents.list[{number}]"
            settings = self._must_be_object(item, where)
            yield AgentEntry(self._text(settings, "id", f"{where}.id") or "", where, settings)
        # Later releases have a table instead of a list.
        for name, item in self._object("agents.entries").items():
            where = f"agents.entries.{name}"
            yield AgentEntry(name.strip(), where, self._must_be_object(item, where))

    def _env_block(self) -> dict[str, str]:
        block = self._object("env")
        direct = {name: value for name, value in block.items() if isinstance(value, str)}
        nested = {name: value for name, value in self._object("env.vars").items() if isinstance(value, str)}
        return {**direct, **nested}

    def _object(self, dotted: str) -> Mapping[str, Any]:
        """The object at a dotted path; empty when it or one above it is absent."""
        node: Mapping[str, Any] = self._root
        path = ""
        for name in dotted.split("."):
            path = f"{path}.{name}" if path else name
            if node.get(name) is None:
                return {}
            node = self._must_be_object(node[name], path)
        return node

    def _must_be_object(self, value: object, dotted: str) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            raise ConfigError(f"{self.where(dotted)} is {shown(value, secret=True)}; allowed: an object.")
        if "$include" in value:
            text = f"{self.where(dotted)} includes other files; openclaw-mem does not read those."
            if all(note.text != text for note in self.notes):
                self._warn("config-include", text)
            return {name: item for name, item in value.items() if name != "$include"}
        return value

    def _text(self, node: Mapping[str, Any], name: str, dotted: str) -> str | None:
        value = node.get(name)
        if value is None:
            return None
        return str(Rule("text").check(value, self.where(dotted))).strip() or None

    def _origin(self, dotted: str) -> Origin:
        return Origin("openclaw", self.where(dotted))

    def _warn(self, code: str, text: str) -> None:
        self.notes.append(Note(code, text, "warning"))


def _items(value: object) -> tuple[str, ...]:
    return tuple(value) if isinstance(value, (list, tuple)) else ()
