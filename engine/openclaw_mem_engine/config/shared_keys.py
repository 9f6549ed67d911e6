"""Keys that are not given for memory search alone: auth profiles, the environment, ``models.providers``.

OpenClaw keeps keys of its agents in ``auth-profiles.json``, another program's file: only ever read. Only keys
count there. A login (of a chat subscription) is not one: no provider embeds for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from openclaw_mem_engine.config.openclaw import OpenClawConfig, texts_in
from openclaw_mem_engine.config.secret import Secret, shown
from openclaw_mem_engine.config.settings import ENDPOINT_NAMES, KEY_VARIABLES, Origin, RemoteName
from openclaw_mem_engine.config.sources import is_there, read_json5
from openclaw_mem_engine.errors import ConfigError
from openclaw_mem_engine.model import Note
from openclaw_mem_engine.named_tuple import NamedTuple

#: OpenClaw's names of our providers, for keys and for everything below ``models.providers``.
OPENCLAW_IDS: Mapping[RemoteName, str] = {name: name for name in ENDPOINT_NAMES} | {"gemini": "google"}

#: Further ids under which a chat subscription of the same company is kept.
_CHAT_IDS: Mapping[RemoteName, tuple[str, ...]] = {
    "openai": ("openai-codex",),
    "gemini": ("google-gemini-cli", "google-antigravity"),
}

#: Every agent has its own file; what it lacks is taken from the one of this agent.
_SHARED_AGENT = "main"


class FoundKey(NamedTuple):
    """A key and where it was found; the key may be known to be missing."""

    key: Secret
    origin: Origin


class _Profile(NamedTuple):
    """One entry. ``where`` names file and profile for people; ``kind`` is ``api_key``, ``oauth``, …"""

    provider: str
    kind: str
    key: object
    where: str

    def __repr__(self) -> str:
        return f"_Profile({self.where})"


class SharedKeys:
    """The key found for each provider: in a profile, else in the environment, else in ``models.providers``.

    A location whose key is missing gives way to the next. When none has a key, the first of them says what is
    missing, and after it a chat login that was taken for a key. ``logins`` are the providers for which there
    is only such a login. ``notes`` says which files could not be used: only worth reporting when a key is
    wanted.
    """

    def __init__(self, openclaw: OpenClawConfig, agent: str) -> None:
        self._openclaw = openclaw
        self._profiles: dict[str, _Profile] = {}
        self._order: dict[str, tuple[str, ...]] = {}
        self._last_good: dict[str, str] = {}
        self.notes: list[Note] = []
        self.logins: set[RemoteName] = set()
        self.found: dict[RemoteName, FoundKey] = {}
        for folder in dict.fromkeys((agent, _SHARED_AGENT)):
            path = openclaw.location.state_dir / "agents" / folder / "agent" / "auth-profiles.json"
            try:
                if is_there(path):
                    self._read(path)
            except ConfigError as error:
                text = f"{error} The keys in it are not used."
                self.notes.append(Note("auth-profiles-unreadable", text, "warning"))
        for name in ENDPOINT_NAMES:
            keys = list(self._keys(name))
            if found := next((key for key in keys if key.key.available), keys[0] if keys else None):
                self.found[name] = found
            elif login := self._login(name):
                self.logins.add(name)
                self.found[name] = login

    def usable(self, name: RemoteName) -> bool:
        return name in self.found and self.found[name].key.available

    def _keys(self, name: RemoteName) -> Iterator[FoundKey]:
        """The keys of a provider in order, those included that are known to be missing."""
        for profile in self._of(OPENCLAW_IDS[name]):
            try:
                secret = (
                    self._openclaw.secret(profile.key, profile.where) if profile.kind == "api_key" else None
                )
            except ConfigError as error:
                secret = Secret.missing(str(error))
            if secret is not None:
                yield FoundKey(secret, Origin("openclaw", profile.where))
        environ, block = self._openclaw.environ, self._openclaw.env_block
        for variable in KEY_VARIABLES.get(name, ()):
            if text := environ.get(variable, "").strip():
                inner = block.get(variable) == environ[variable]
                where = self._openclaw.where(f"env.{variable}") if inner else f"env {variable}"
                yield FoundKey(Secret(text), Origin("openclaw" if inner else "env", where))
        node, key = self._openclaw.provider_entry(OPENCLAW_IDS[name])
        where = self._openclaw.where(f"{key}.apiKey")
        secret = self._openclaw.secret(node.get("apiKey"), where)
        if secret is not None:
            yield FoundKey(secret, Origin("openclaw", where))

    def _login(self, name: RemoteName) -> FoundKey | None:
        """What to report about a chat login with this provider; None without one."""
        for provider_id in (OPENCLAW_IDS[name], *_CHAT_IDS.get(name, ())):
            for profile in self._of(provider_id):
                if profile.kind in ("oauth", "token"):
                    text = f"{profile.where} is a chat login and gives no embeddings."
                    if variables := KEY_VARIABLES.get(name):
                        text += f" Set {variables[0]} to an API key of {name}."
                    return FoundKey(Secret.missing(text), Origin("openclaw", profile.where))
        return None

    def _of(self, provider_id: str) -> Iterator[_Profile]:
        """The profiles of a provider. A given order also excludes: a profile that is not in it is unused."""
        order = self._order.get(provider_id) or self._openclaw.auth_order(provider_id)
        if not order:
            last_good = self._last_good.get(provider_id)
            order = tuple(sorted(self._profiles, key=lambda profile_id: profile_id != last_good))
        found = (self._profiles[profile_id] for profile_id in order if profile_id in self._profiles)
        return (profile for profile in found if profile.provider == provider_id)

    def _read(self, path: Path) -> None:
        root = read_json5(path)
        profiles = root.get("profiles", {})
        if not isinstance(profiles, dict):
            raise ConfigError(f"{path}: profiles is {shown(profiles, secret=True)}; allowed: an object.")
        for profile_id, entry in profiles.items():
            if not isinstance(entry, dict):
                continue
            # Both words are in use for the kind, and keys may be references to where they are kept.
            kind, provider = entry.get("type") or entry.get("mode"), entry.get("provider")
            key = entry.get("keyRef") or entry.get("key")
            if isinstance(kind, str) and isinstance(provider, str):
                where = f"{path}: profile {shown(profile_id)}"
                profile = _Profile(provider.strip().lower(), kind, key, where)
                self._profiles.setdefault(profile_id, profile)
        for name in ("order", "lastGood"):
            table = root.get(name)
            for provider, value in table.items() if isinstance(table, dict) else ():
                if name == "order" and isinstance(value, list):
                    self._order.setdefault(provider.strip().lower(), texts_in(value))
                elif name == "lastGood" and isinstance(value, str):
                    self._last_good.setdefault(provider.strip().lower(), value)
