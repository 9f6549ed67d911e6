"""Keys that are not given for memory search alone: auth profiles, the environment, ``models.providers``."""

from __future__ import annotations

from collections.abc import Iterator

from openclaw_mem_engine.config.auth_profiles import OPENCLAW_IDS, AuthProfiles
from openclaw_mem_engine.config.env import KEY_VARIABLES
from openclaw_mem_engine.config.openclaw import OpenClawConfig
from openclaw_mem_engine.config.secret import Secret
from openclaw_mem_engine.config.settings import ENDPOINT_NAMES, Origin, RemoteName
from openclaw_mem_engine.model import Note


class SharedKeys:
    """What can be found for each provider, in the order above.

    A place whose key cannot be had gives way to the next. When there is none at all, the first such place
    says what is missing, and after it a chat login that was taken for a key.
    """

    def __init__(self, openclaw: OpenClawConfig, agent: str) -> None:
        self._openclaw = openclaw
        self._profiles = AuthProfiles(openclaw, agent)
        self._found: dict[RemoteName, tuple[Secret, Origin]] = {}
        #: Providers for which there is only a chat login.
        self.logins: set[RemoteName] = set()
        for name in ENDPOINT_NAMES:
            for secret, origin in self._places(name):
                if secret.available:
                    self._found[name] = secret, origin
                    break
                self._found.setdefault(name, (secret, origin))
            login = None if name in self._found else self._login(name)
            if login is not None:
                self.logins.add(name)
                self._found[name] = login

    @property
    def notes(self) -> list[Note]:
        """Files that could not be used. Only worth telling when a key is wanted."""
        return self._profiles.notes

    def get(self, name: RemoteName) -> tuple[Secret, Origin] | None:
        """The key and its place; the key may be known to be missing."""
        return self._found.get(name)

    def usable(self, name: RemoteName) -> bool:
        return name in self._found and self._found[name][0].available

    def _places(self, name: RemoteName) -> Iterator[tuple[Secret, Origin]]:
        profile = self._profiles.key(name)
        if profile is not None:
            yield profile
        environ, block = self._openclaw.environ, self._openclaw.env_block
        for variable in KEY_VARIABLES.get(name, ()):
            text = environ.get(variable, "").strip()
            if text and block.get(variable) == environ[variable]:
                yield Secret(text), Origin("openclaw", self._openclaw.where(f"env.{variable}"))
            elif text:
                yield Secret(text), Origin("env", f"env {variable}")
        node, key = self._openclaw.provider_entry(OPENCLAW_IDS[name])
        where = self._openclaw.where(f"{key}.apiKey")
        secret = self._openclaw.secret(node.get("apiKey"), where)
        if secret is not None:
            yield secret, Origin("openclaw", where)

    def _login(self, name: RemoteName) -> tuple[Secret, Origin] | None:
        login = self._profiles.login(name)
        if login is None:
            return None
        text = login[0]
        if variables := KEY_VARIABLES.get(name):
            text += f" Set {variables[0]} to an API key of {name}."
        return Secret.missing(text), login[1]
