"""Which provider is meant, and which key, address and headers belong to it.

The rule that matters: a key goes only to the provider that it was configured for. When a flag chooses another
provider than a file does, the file's key, address and model stay with the file's provider.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import takewhile
from types import MappingProxyType
from typing import cast
from urllib.parse import urlsplit

from openclaw_mem_engine.config.layers import Chosen, Entry, Layer, merged
from openclaw_mem_engine.config.openclaw import OpenClawConfig
from openclaw_mem_engine.config.rules import is_uri, model_of, name_of
from openclaw_mem_engine.config.secret import Secret, shown, without_credentials
from openclaw_mem_engine.config.settings import (
    DEFAULT_ORIGIN,
    ENDPOINT_NAMES,
    KEY_VARIABLES,
    PROVIDER_NAMES,
    REMOTE_NAMES,
    SETTINGS,
    BatchSettings,
    Endpoint,
    Origin,
    ProviderName,
    ProviderSettings,
    RemoteName,
)
from openclaw_mem_engine.config.shared_keys import OPENCLAW_IDS, FoundKey, SharedKeys
from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_engine.errors import ConfigError

_HEADER_NAME = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
#: What ``also`` may name.
_EMBEDDERS = tuple(name for name in PROVIDER_NAMES if name not in ("auto", "none"))

_Keys = Mapping[RemoteName, FoundKey | None]


@dataclass(frozen=True, slots=True)
class ProviderResolver:
    """Works out :class:`ProviderSettings` from the layers, lowest first. ``chosen`` gets the origins, and
    notes about what is not used; ``local`` holds what is configured of the local model."""

    layers: Sequence[Layer]
    openclaw: OpenClawConfig
    chosen: Chosen
    shared: SharedKeys
    local: ProviderSettings

    def resolve(self) -> ProviderSettings:
        """Raises ConfigError when the chosen provider's settings cannot be used."""
        name = self._checked("provider.name", "static")
        fallback = self._checked("provider.fallback", "none")
        also = self._also()
        owned, named = self._layers_by_owner()
        # Settings without a provider name are for the first in the order when a key is among them, else for
        # the first that has a key.
        first = REMOTE_NAMES[0]
        if not any("provider.api_key" in layer for layer in owned.get("auto", ())):
            first = next(filter(self.shared.usable, REMOTE_NAMES), first)
        for layers in (owned, named):
            layers.setdefault(first, []).extend(layers.pop("auto", []))
        keys = {remote: self._key(remote, owned.get(remote, [])) for remote in ENDPOINT_NAMES}
        # The file of a local model comes before all that would send text away.
        searched = REMOTE_NAMES if name == "auto" and not self.local.local_model_found else ()
        passed = tuple(takewhile(lambda remote: not ((key := keys[remote]) and key.key.available), searched))
        picked = next((remote for remote in ENDPOINT_NAMES if remote == name), None)
        if len(passed) < len(searched):
            picked = searched[len(passed)]
        wanted = {picked, fallback, *map(name_of, also)}
        self._note_missing_keys(passed, wanted, keys)
        endpoints: dict[RemoteName, Endpoint] = {}
        origins: dict[RemoteName | None, dict[str, Origin]] = {}
        for remote, key in keys.items():
            mine, models = owned.get(remote, []), named.get(remote, [])
            try:
                endpoints[remote], origins[remote] = self._endpoint(remote, mine, models, key)
            except ConfigError as error:
                if remote in wanted:
                    raise
                # The provider is not in use: its error is raised when it is asked for.
                endpoints[remote] = Endpoint(api_key=Secret.missing(str(error)))
        own = endpoints[picked] if picked else Endpoint()
        for part in ("base_url", "api_key", "headers", "model"):
            origin = origins.get(picked, {}).get(part, DEFAULT_ORIGIN)
            self.chosen.origins[f"provider.{part}"] = origin
        self._note_unused_model(name, named.get(name, []))
        settings = replace(
            self.local,
            provider=cast(ProviderName, name),
            model=own.model,
            base_url=own.base_url,
            api_key=own.api_key,
            headers=own.headers,
            fallback=fallback,
            key_provider=picked if own.api_key is not None else None,
            endpoints=MappingProxyType(endpoints),
            batch=self.chosen.group(BatchSettings, "provider.batch"),
            concurrency=self.chosen.value("provider.concurrency"),
            local_idle_minutes=float(self.chosen.value("provider.local_idle_minutes")),
        )
        self._note_missing_model(settings)
        return replace(settings, also=self._needed(also, settings))

    def _checked(self, key: str, instead: str) -> str:
        """A provider name. OpenClaw knows some that we do not: ``instead`` is used then, and a note names
        it. Never another remote provider, to which the user has not agreed."""
        text = self.chosen.text(key) or str(SETTINGS[key].default)
        if SETTINGS[key].rule.fits(text):
            return text
        where = self.chosen.origins[key].where
        self.chosen.origins[key] = Origin("default", f"instead of {shown(text)}, which {where} names")
        what = (
            "the built-in embedder is used, and no text is sent" if instead == "static" else "there is none"
        )
        self.chosen.note(
            "provider-unsupported",
            f"{where} is {shown(text)}, a provider that openclaw-mem does not support: {what}. Supported are "
            f"{', '.join(PROVIDER_NAMES[1:])}: name one with --provider or in config.toml.",
        )
        return instead

    def _layers_by_owner(self) -> tuple[dict[str, list[Layer]], dict[str, list[Layer]]]:
        """For each provider, the layers whose key and address are meant for it, and those whose model is."""
        owned: dict[str, list[Layer]] = {}
        named: dict[str, list[Layer]] = {}
        owner = "auto"
        for layer in self.layers:
            entry = layer.get("provider.name")
            owner = str(entry.value).strip() or owner if entry else owner
            target = owner
            fallback = layer.get("provider.fallback")
            if owner in ("local", "static", "none") and fallback and str(fallback.value) in ENDPOINT_NAMES:
                # These need no address, so the one given is that of the fallback. A model is another matter:
                # what names a local model must never be asked of a remote provider.
                target = str(fallback.value)
            owned.setdefault(target, []).append(layer)
            named.setdefault(owner, []).append(layer)
        return owned, named

    def _endpoint(
        self, name: RemoteName, layers: list[Layer], model_layers: list[Layer], key: FoundKey | None
    ) -> tuple[Endpoint, dict[str, Origin]]:
        """The endpoint and the origins of its parts. Address and headers of memory search win over those of
        ``models.providers``; headers are united."""
        origins: dict[str, Origin] = {}
        theirs: Layer = {}
        node, dotted = self.openclaw.provider_entry(OPENCLAW_IDS[name])
        for foreign, ours in (("baseUrl", "provider.base_url"), ("headers", "provider.headers")):
            if node.get(foreign) is not None:
                where = self.openclaw.where(f"{dotted}.{foreign}")
                value = SETTINGS[ours].rule.check(node[foreign], where)
                theirs[ours] = Entry(value, Origin("openclaw", where))
        layers = [theirs, *layers]
        url = model = None
        entry = merged(layers).get("provider.base_url")
        if entry and (url := checked_url(self.chosen.filled(entry).strip(), entry.origin.where)):
            origins["base_url"] = entry.origin
        headers: dict[str, str] = {}
        for layer in layers:
            if entry := layer.get("provider.headers"):
                origins["headers"] = entry.origin
                for header, text in self.chosen.filled(entry).items():
                    _check_header(header, text, entry.origin.where)
                    # Header names have no case: a later one replaces an earlier one in any spelling.
                    headers = {old: value for old, value in headers.items() if old.lower() != header.lower()}
                    headers[header] = text
        entry = merged(model_layers).get("provider.model")
        if entry and (model := self.chosen.filled(entry).strip() or None):
            origins["model"] = entry.origin
        if key is not None:
            origins["api_key"] = key.origin
        secret, origin = key or (None, None)
        return Endpoint(url, secret, MappingProxyType(headers), model, origin), origins

    def _key(self, name: RemoteName, layers: list[Layer]) -> FoundKey | None:
        entry = merged(layers).get("provider.api_key")
        if entry is None:
            return self.shared.found.get(name)
        assert isinstance(entry.value, Secret)
        literal = entry.value.reveal() if entry.value.available else ""
        if name == "gemini" and literal in KEY_VARIABLES["gemini"]:
            # OpenClaw takes the name of the variable for its value, for this provider only.
            text = self.openclaw.environ.get(literal, "")
            missing = Secret.missing(f"{entry.origin.where} names {literal}, which is not set.")
            return FoundKey(Secret(text) if text else missing, Origin("env", f"env {literal}"))
        return FoundKey(entry.value, entry.origin)

    def _note_missing_keys(self, passed: Sequence[RemoteName], wanted: set[str | None], keys: _Keys) -> None:
        """Why a key is not there, for providers that ``auto`` has passed over and for those wanted."""
        for remote in ENDPOINT_NAMES:
            found = keys[remote]
            if found is None or found.key.available or not (remote in passed or remote in wanted):
                continue
            if remote in self.shared.logins and found is self.shared.found.get(remote):
                self.chosen.note("chat-login", str(found.key.problem), "info")
            elif remote in passed:
                text = f"{found.key.problem} Until then {remote} is passed over."
                self.chosen.note("provider-key-missing", text)
        if passed or wanted.intersection(ENDPOINT_NAMES):
            self.chosen.notes.extend(self.shared.notes)

    def _note_unused_model(self, name: str, layers: list[Layer]) -> None:
        if name != "static" and not (name == "local" and self.local.local_model_path is None):
            return
        entry = merged(layers).get("provider.model")
        if entry is not None and str(entry.value).strip():
            instead = "name its file in provider.local_model_path." if name == "local" else "it has only one."
            text = f"{entry.origin.where} is not used by provider {name}: {instead}"
            self.chosen.note("model-unused", text)

    def _note_missing_model(self, settings: ProviderSettings) -> None:
        """That a local model is configured, and ``auto`` sends text to a remote provider all the same."""
        model = settings.local_model_path
        if settings.provider == "auto" and model is not None and settings.key_provider is not None:
            why = "it would be downloaded" if is_uri(model) else "there is no such file"
            where = self.chosen.origins["provider.local_model_path"].where
            text = f"{where} is {shown(without_credentials(model))}, but {why}: auto uses {settings.chosen}, "
            self.chosen.note(
                "local-model-passed", f"{text}to which text is sent. Provider local uses no other."
            )

    def _also(self) -> tuple[str, ...]:
        """The entries of ``also``, each once. Raises ConfigError for one that names no provider."""
        key = "provider.also"
        entries: dict[str, None] = {}
        for item in self.chosen.value(key):
            name, _, model = str(item).partition(":")
            name, model = name.strip(), model.strip()
            where = self.chosen.origins[key].where
            if name not in _EMBEDDERS:
                raise ConfigError(
                    f"{where} holds {shown(item)}; allowed: a provider, or provider:model. "
                    f"Providers are {', '.join(_EMBEDDERS)}."
                )
            if name == "static" and model:
                raise ConfigError(f"{where} holds {shown(item)}, but static has one model: write static.")
            if name == "local" and model and not is_uri(model):
                model = str(self.chosen.absolute(key, model))
            entries[f"{name}:{model}" if model else name] = None
        return tuple(entries)

    def _needed(self, also: Sequence[str], settings: ProviderSettings) -> tuple[str, ...]:
        """``also`` without what the chosen provider does already; notes report that, and such a fallback."""
        chosen = settings.chosen
        own_model = (settings.local_model_path if chosen == "local" else settings.model) or ""
        kept = []
        for entry in also:
            if name_of(entry) == chosen and model_of(entry) in ("", own_model):
                where = self.chosen.origins["provider.also"].where
                text = f"{where}: {entry} is ignored, because it is the chosen embedder."
                self.chosen.note("also-ignored", text, "info")
            else:
                kept.append(entry)
        if settings.fallback == chosen != "none":
            where = self.chosen.origins["provider.fallback"].where
            text = f"{where} is ignored: {settings.fallback} cannot be its own fallback."
            self.chosen.note("fallback-ignored", text, "info")
        return tuple(kept)


def checked_url(url: str, where: str) -> str | None:
    """The address without a slash at its end; None for a blank one. Raises ConfigError."""
    if not url:
        return None
    usable = re.match(r"https?://[^/?#]", url) and url.isprintable() and " " not in url
    with suppress(ValueError):  # no address of IPv6, or no port
        if usable and urlsplit(url).port != 0:
            return url.rstrip("/")
    # The value is not repeated: it may hold a password.
    raise ConfigError(
        f"{where} is not a usable URL; allowed: http://… or https://…, with a port of 1 to 65535 if any."
    )


def _check_header(name: str, text: str, where: str) -> None:
    if not re.fullmatch(_HEADER_NAME, name) or not re.fullmatch(r"[ -~]*", text):
        raise ConfigError(f"{where} holds a header that cannot be sent: use plain ASCII in name and value.")
