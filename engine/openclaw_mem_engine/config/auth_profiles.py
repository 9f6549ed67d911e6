"""Keys that OpenClaw keeps for its agents, in ``auth-profiles.json``. Another program's file: only ever read.

Only keys count. A login (of a chat subscription) is not one: no provider embeds for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from openclaw_mem_engine.config.openclaw import OpenClawConfig
from openclaw_mem_engine.config.secret import Secret, shown
from openclaw_mem_engine.config.settings import Origin, RemoteName
from openclaw_mem_engine.config.text_file import is_there, read_config_text
from openclaw_mem_engine.errors import ConfigError
from openclaw_mem_engine.model import Note

#: Our names of OpenClaw's providers, for keys and for everything below ``models.providers``.
OPENCLAW_IDS: Mapping[RemoteName, str] = {
    "openai": "openai",
    "gemini": "google",
    "voyage": "voyage",
    "mistral": "mistral",
    "ollama": "ollama",
}

#: Further ids under which a chat subscription of the same company is kept.
_CHAT_IDS: Mapping[RemoteName, tuple[str, ...]] = {
    "openai": ("openai-codex",),
    "gemini": ("google-gemini-cli", "google-antigravity"),
}

#: Every agent has its own file; what it lacks is taken from the one of this agent.
_SHARED_AGENT = "main"


class Profile(NamedTuple):
    """One entry. ``where`` names file and profile for people; ``kind`` is ``api_key``, ``oauth``, …"""

    provider: str
    kind: str
    key: object
    where: str

    def __repr__(self) -> str:
        return f"Profile({self.where})"


class AuthProfiles:
    """The profiles of one agent. ``notes`` says which files could not be used; a missing file is usual."""

    def __init__(self, openclaw: OpenClawConfig, agent: str) -> None:
        self._openclaw = openclaw
        self._profiles: dict[str, Profile] = {}
        self._order: dict[str, list[str]] = {}
        self._last_good: dict[str, str] = {}
        self.notes: list[Note] = []
        for name in dict.fromkeys((agent, _SHARED_AGENT)):
            path = openclaw.place.state_dir / "agents" / name / "agent" / "auth-profiles.json"
            if not is_there(path):
                continue
            try:
                self._add(_parsed(path), path)
            except ConfigError as error:
                text = f"{error} The keys in it are not used."
                self.notes.append(Note("auth-profiles-unreadable", text, "warning"))

    def key(self, name: RemoteName) -> tuple[Secret, Origin] | None:
        """The first key of a provider that can be had; else the first that is named but cannot be had."""
        missing: tuple[Secret, Origin] | None = None
        for profile in self._ordered(OPENCLAW_IDS[name]):
            secret = self._secret(profile) if profile.kind == "api_key" else None
            if secret is None:
                continue
            found = secret, Origin("openclaw", profile.where)
            if secret.available:
                return found
            missing = missing or found
        return missing

    def login(self, name: RemoteName) -> tuple[str, Origin] | None:
        """What to tell about a chat login with this provider, and where it stands; None without one."""
        for provider_id in (OPENCLAW_IDS[name], *_CHAT_IDS.get(name, ())):
            for profile in self._ordered(provider_id):
                if profile.kind in ("oauth", "token"):
                    text = f"{profile.where} is a chat login and gives no embeddings."
                    return text, Origin("openclaw", profile.where)
        return None

    def _secret(self, profile: Profile) -> Secret | None:
        try:
            return self._openclaw.secret(profile.key, profile.where)
        except ConfigError as error:
            return Secret.missing(str(error))

    def _ordered(self, provider_id: str) -> Iterator[Profile]:
        """The profiles of a provider. A given order also leaves out: who is not in it is not to be used."""
        order: Sequence[str] = self._order.get(provider_id) or self._openclaw.auth_order(provider_id)
        if not order:
            last_good = self._last_good.get(provider_id)
            order = sorted(self._profiles, key=lambda profile_id: profile_id != last_good)
        for profile_id in order:
            profile = self._profiles.get(profile_id)
            if profile is not None and profile.provider == provider_id:
                yield profile

    def _add(self, root: Mapping[str, Any], path: Path) -> None:
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
                profile = Profile(provider.strip().lower(), kind, key, where)
                self._profiles.setdefault(profile_id, profile)
        for provider, order in _table(root, "order"):
            if isinstance(order, list):
                self._order.setdefault(provider, [item for item in order if isinstance(item, str)])
        for provider, last in _table(root, "lastGood"):
            if isinstance(last, str):
                self._last_good.setdefault(provider, last)


def _table(root: Mapping[str, Any], name: str) -> Iterator[tuple[str, object]]:
    table = root.get(name)
    for provider, value in table.items() if isinstance(table, dict) else ():
        yield provider.strip().lower(), value


def _parsed(path: Path) -> Mapping[str, Any]:
    import json  # only for those who have such a file

    text = read_config_text(path)
    try:
        root = json.loads(text)
    except RecursionError:
        raise ConfigError(f"{path} is not valid JSON: it is nested too deeply.") from None
    except ValueError as error:
        # Not chained: the parser's error carries the document, keys included.
        place = getattr(error, "lineno", 1), getattr(error, "colno", 1)
        raise ConfigError(f"{path} is not valid JSON (line {place[0]}, column {place[1]}).") from None
    if not isinstance(root, dict):
        raise ConfigError(f"{path} holds no profiles: it must be one object, in braces.")
    return root
