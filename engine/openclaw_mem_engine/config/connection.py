"""Which provider is meant, and which key, address and headers belong to it.

The rule that matters: a key goes only to the provider that it was configured for. When a flag chooses another
provider than a file does, the file's key, address and model stay with the file's provider.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import cast

from openclaw_mem_engine.config.env import KEY_VARIABLES
from openclaw_mem_engine.config.keys import RULES
from openclaw_mem_engine.config.layers import Chosen, Entry, Layer, merged
from openclaw_mem_engine.config.openclaw import OpenClawConfig
from openclaw_mem_engine.config.secret import Secret, shown
from openclaw_mem_engine.config.settings import (
    REMOTE_NAMES,
    BatchSettings,
    Endpoint,
    Origin,
    ProviderName,
    ProviderSettings,
    RemoteName,
)
from openclaw_mem_engine.errors import ConfigError
from openclaw_mem_engine.model import Note

#: Our names of providers in OpenClaw's ``models.providers``.
_OPENCLAW_IDS: Mapping[RemoteName, str] = {
    "openai": "openai",
    "gemini": "google",
    "voyage": "voyage",
    "mistral": "mistral",
}
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_DEFAULT = Origin("default", "built in")


class ProviderResolver:
    """Works out :class:`ProviderSettings` from the layers, lowest first. ``notes`` says what was left out."""

    def __init__(self, layers: Sequence[Layer], openclaw: OpenClawConfig, chosen: Chosen) -> None:
        self._layers = layers
        self._openclaw = openclaw
        self._chosen = chosen
        self._found: dict[RemoteName, tuple[Secret, Origin]] = {}
        self._origins: dict[RemoteName, dict[str, Origin]] = {name: {} for name in REMOTE_NAMES}
        self.notes: list[Note] = []

    def resolve(self) -> ProviderSettings:
        """Raises ConfigError when the chosen provider's settings cannot be used."""
        name = self._checked("provider.name", "auto")
        fallback = self._checked("provider.fallback", "none")
        owned = self._layers_by_owner()
        self._found = self._shared_keys()
        first = self._auto_owner(owned.pop("auto", []))
        owned.setdefault(first[0], []).extend(first[1])
        keys = {remote: self._key(remote, owned.get(remote, [])) for remote in REMOTE_NAMES}
        picked = self._picked(name, keys)
        endpoints = {
            remote: self._endpoint(remote, owned.get(remote, []), key, remote in (picked, fallback))
            for remote, key in keys.items()
        }
        own = endpoints[picked] if picked else Endpoint()
        for key in ("base_url", "api_key", "headers"):
            origin = self._origins[picked].get(key, _DEFAULT) if picked else _DEFAULT
            self._chosen.origins[f"provider.{key}"] = origin
        return ProviderSettings(
            provider=cast(ProviderName, name),
            model=self._model(owned.get(picked or name, [])),
            base_url=own.base_url,
            api_key=own.api_key,
            headers=own.headers,
            fallback=fallback,
            key_provider=picked if own.api_key is not None else None,
            endpoints=MappingProxyType(endpoints),
            local_model_path=self._chosen.text("provider.local_model_path"),
            local_model_cache_dir=self._chosen.text("provider.local_model_cache_dir"),
            batch=self._batch(),
        )

    def _checked(self, key: str, default: str) -> str:
        """A provider name. Checked only here, for OpenClaw knows some that we do not: that is only an error
        when no higher layer names another."""
        text = self._chosen.text(key) or default
        rule = RULES[key]
        if not rule.fits(text):
            where = self._chosen.origins[key].where
            raise ConfigError(
                f"{where} is {shown(text)}; openclaw-mem can use {rule.allowed}. "
                f"Choose one with --provider or in our own settings file."
            )
        return text

    def _layers_by_owner(self) -> dict[str, list[Layer]]:
        """For each provider, the layers whose key, address and model are meant for it."""
        owned: dict[str, list[Layer]] = {}
        owner = "auto"
        for layer in self._layers:
            entry = layer.entry("provider.name")
            owner = str(entry.value).strip() or owner if entry else owner
            target = owner
            fallback = layer.entry("provider.fallback")
            if owner in ("local", "static", "none") and fallback and str(fallback.value) in REMOTE_NAMES:
                # A local provider needs no address, so the one given is that of the fallback.
                target = str(fallback.value)
            owned.setdefault(target, []).append(layer)
        return owned

    def _auto_owner(self, layers: list[Layer]) -> tuple[RemoteName, list[Layer]]:
        """Whose settings those are that stand beside no provider name: the first in the order with a key.

        With a key among them that is openai, the first to be tried.
        """
        if any("provider.api_key" in layer for layer in layers):
            return REMOTE_NAMES[0], layers
        usable = (name for name in REMOTE_NAMES if name in self._found and self._found[name][0].available)
        return next(usable, REMOTE_NAMES[0]), layers

    def _shared_keys(self) -> dict[RemoteName, tuple[Secret, Origin]]:
        """Keys that are not given for memory search alone: the environment, then ``models.providers``."""
        found: dict[RemoteName, tuple[Secret, Origin]] = {}
        for name in REMOTE_NAMES:
            for variable in KEY_VARIABLES[name]:
                text = self._openclaw.environ.get(variable, "").strip()
                if text and name not in found:
                    found[name] = Secret(text), self._variable_origin(variable)
            node, key = self._openclaw.provider_entry(_OPENCLAW_IDS[name])
            where = self._openclaw.where(f"{key}.apiKey")
            if name not in found and (secret := self._openclaw.secret(node.get("apiKey"), where)):
                found[name] = secret, Origin("openclaw", where)
        return found

    def _variable_origin(self, variable: str) -> Origin:
        block = self._openclaw.env_block
        if variable in block and self._openclaw.environ[variable] == block[variable]:
            return Origin("openclaw", self._openclaw.where(f"env.{variable}"))
        return Origin("env", f"env {variable}")

    def _endpoint(
        self, name: RemoteName, layers: list[Layer], key: tuple[Secret, Origin] | None, needed: bool
    ) -> Endpoint:
        try:
            url, headers = self._address(name, layers)
        except ConfigError as error:
            if needed:
                raise
            # Nobody asked for this provider: its trouble is told when somebody does.
            return Endpoint(api_key=Secret.missing(str(error)))
        if key is not None:
            self._origins[name]["api_key"] = key[1]
        return Endpoint(url, key[0] if key else None, MappingProxyType(headers))

    def _key(self, name: RemoteName, layers: list[Layer]) -> tuple[Secret, Origin] | None:
        entry = merged(layers).entry("provider.api_key")
        if entry is None:
            return self._found.get(name)
        assert isinstance(entry.value, Secret)
        literal = entry.value.reveal() if entry.value.available else ""
        if name == "gemini" and literal in KEY_VARIABLES["gemini"]:
            # OpenClaw lets the name of the variable stand for its value, for this provider only.
            text = self._openclaw.environ.get(literal, "")
            missing = Secret.missing(f"{entry.origin.where} names {literal}, which is not set.")
            return (Secret(text) if text else missing), Origin("env", f"env {literal}")
        return entry.value, entry.origin

    def _address(self, name: RemoteName, layers: list[Layer]) -> tuple[str | None, dict[str, str]]:
        """URL and headers: those of memory search over those of ``models.providers``; headers are united."""
        entries: dict[str, list[Entry]] = {"base_url": [], "headers": []}
        node, dotted = self._openclaw.provider_entry(_OPENCLAW_IDS[name])
        for theirs, ours in (("baseUrl", "base_url"), ("headers", "headers")):
            if node.get(theirs) is not None:
                where = self._openclaw.where(f"{dotted}.{theirs}")
                value = RULES[f"provider.{ours}"].check(node[theirs], where)
                entries[ours].append(Entry(value, Origin("openclaw", where)))
        for layer in layers:
            for ours, found in entries.items():
                if entry := layer.entry(f"provider.{ours}"):
                    found.append(entry)
        url: str | None = None
        if entries["base_url"]:
            last = entries["base_url"][-1]
            url = _checked_url(self._chosen.typed(last, str).strip(), last.origin.where)
            self._origins[name]["base_url"] = last.origin if url else _DEFAULT
        headers: dict[str, str] = {}
        for entry in entries["headers"]:
            self._origins[name]["headers"] = entry.origin
            for header, text in self._chosen.typed(entry, dict).items():
                _check_header(header, text, entry.origin.where)
                # Header names have no case: a later one replaces an earlier one in any spelling.
                headers = {old: value for old, value in headers.items() if old.lower() != header.lower()}
                headers[header] = text
        return url, headers

    def _picked(
        self, name: str, keys: Mapping[RemoteName, tuple[Secret, Origin] | None]
    ) -> RemoteName | None:
        """The named provider if it is a remote one; for ``auto`` the first whose key can be had."""
        if name != "auto":
            return next((remote for remote in REMOTE_NAMES if remote == name), None)
        for remote in REMOTE_NAMES:
            found = keys[remote]
            if found is not None and found[0].available:
                return remote
            if found is not None:
                text = f"{found[0].problem} Until then {remote} is passed over."
                self.notes.append(Note("provider-key-missing", text, "warning"))
        return None

    def _model(self, layers: list[Layer]) -> str | None:
        entry = merged(layers).entry("provider.model")
        text = self._chosen.typed(entry, str).strip() if entry else ""
        self._chosen.origins["provider.model"] = entry.origin if entry and text else _DEFAULT
        return text or None

    def _batch(self) -> BatchSettings:
        get = self._chosen.value
        usual = BatchSettings()
        return BatchSettings(
            enabled=get("provider.batch.enabled", bool, usual.enabled),
            wait=get("provider.batch.wait", bool, usual.wait),
            concurrency=get("provider.batch.concurrency", int, usual.concurrency),
            poll_interval_ms=get("provider.batch.poll_interval_ms", int, usual.poll_interval_ms),
            timeout_minutes=get("provider.batch.timeout_minutes", int, usual.timeout_minutes),
        )


def _checked_url(url: str, where: str) -> str | None:
    if not url:
        return None
    if not url.startswith(("http://", "https://")) or not url.isprintable() or " " in url:
        # The value is not repeated: it may hold a password.
        raise ConfigError(f"{where} is not a usable URL; allowed: http://… or https://….")
    return url.rstrip("/")


def _check_header(name: str, text: str, where: str) -> None:
    if not _HEADER_NAME.fullmatch(name) or any(char in text for char in "\r\n\0"):
        raise ConfigError(
            f"{where} holds a header that cannot be sent: a bad name, or a line break in its text."
        )
