"""Which embedders a configuration asks for, in which role, and why; for each of the others, why not.

Nothing is loaded or sent here, and the module of a provider that is not in use is not imported.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from pathlib import Path
from typing import Literal

from openclaw_mem_engine.config.rules import is_uri, model_of, name_of
from openclaw_mem_engine.config.secret import printable, without_credentials
from openclaw_mem_engine.config.settings import (
    DEFAULT_ORIGIN,
    ENDPOINT_NAMES,
    KEY_VARIABLES,
    Endpoint,
    Settings,
)
from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_engine.errors import ConfigError
from openclaw_mem_engine.providers.registry import EmbedderSpec, provider_named

Role = Literal["primary", "fallback", "also", "not-selected"]

#: The order in which ``auto`` tries them, and after it those that only their name selects.
ORDER: tuple[str, ...] = ("local", *ENDPOINT_NAMES, "static", "none")

#: Seconds; a local model may have to be read from disk first, and it computes on this machine.
LOCAL_QUERY_TIMEOUT_S = 300.0
LOCAL_BATCH_TIMEOUT_S = 600.0

_KEY_HEADERS = ("authorization", "x-goog-api-key")


@dataclass(frozen=True, slots=True)
class Choice:
    """One provider and its role. All texts are for people and hold no key.

    ``why`` says how it came to its role. ``model`` and ``host`` (that text is sent to, "" when it does not
    leave this machine) are empty for one that is not selected, ``key_origin`` where there is no key. ``spec``
    says what to make; None for one that is not selected.
    """

    name: str
    role: Role
    why: str
    model: str = ""
    host: str = ""
    key_origin: str = ""
    spec: EmbedderSpec | None = field(default=None, compare=False, repr=False)


def choices(settings: Settings) -> tuple[Choice, ...]:
    """Every provider in :data:`ORDER`: exactly one is the primary, which may be ``none``.

    A provider is there more than once when several of its models are in use: first as primary or fallback
    (used when the primary fails), then once for each other model whose vectors are stored as well. There is
    no fallback of the primary's own provider, and neither with ``none``. A provider that is named without a
    key stays: the error at the first text says what is missing.
    Raises ConfigError for a base URL that cannot be used.
    """
    uses = list(_uses(settings))
    found: list[Choice] = []
    for name in ORDER:
        used = [_choice(settings, role, spec) for role, spec in uses if spec.provider == name]
        found += used or [
            Choice(name, "not-selected", _why_not(settings, name), key_origin=_key(settings, name))
        ]
    return tuple(found)


def prospects(settings: Settings) -> dict[str, str]:
    """By provider, in a few words for people: the host that note text would go to if it were selected, and
    what it needs, or why it cannot be used. Sends nothing."""
    found = {}
    for name in ORDER:
        if name == "none":
            continue
        try:
            host, is_here = _host(_spec(settings, name))
        except ConfigError as error:
            found[name] = printable(str(error))
            continue
        where = (f"this machine ({host})" if host else "this machine") if is_here else host
        found[name] = printable(f"{where}; {_need(settings, name)}")
    return found


def _need(settings: Settings, name: str) -> str:
    if name == "static":
        return "needs no key"
    if name == "local":
        model = settings.provider.local_model_path
        return f"model {without_credentials(model)}" if model else "default model"
    return _key_state(settings, name)


def _host(spec: EmbedderSpec) -> tuple[str, bool]:
    """The host that text is sent to, and whether that is this machine; "" when it stays in the process."""
    base_url = "" if spec.provider == "none" else provider_named(spec.provider).base_url(spec.base_url)
    if not base_url:
        return "", True
    from openclaw_mem_engine.providers.remote.endpoint import host_of

    return host_of(base_url, spec.provider)


def _uses(settings: Settings) -> Iterator[tuple[Role, EmbedderSpec]]:
    provider = settings.provider
    primary = _spec(settings, provider.chosen)
    yield "primary", primary
    if primary.provider == "none":
        return
    if provider.fallback in ORDER and provider.fallback not in ("none", primary.provider):
        yield "fallback", _spec(settings, provider.fallback)
    used = [primary]
    for name in ORDER:
        for entry in provider.also:
            if name_of(entry) == name:
                spec = _spec(settings, name, model_of(entry))
                # The default model under its own name is the same embedder once more.
                if all((spec.provider, _model(spec)) != (other.provider, _model(other)) for other in used):
                    used.append(spec)
                    yield "also", spec


def _spec(settings: Settings, name: str, model: str = "") -> EmbedderSpec:
    provider = settings.provider
    if name in ("static", "none"):
        return EmbedderSpec(name)
    if name == "local":
        return EmbedderSpec(
            name,
            model or provider.local_model_path or "",
            timeout_s=LOCAL_QUERY_TIMEOUT_S,
            batch_timeout_s=LOCAL_BATCH_TIMEOUT_S,
            model_folder=model_folder(settings),
            idle_s=provider.local_idle_minutes * 60,
        )
    endpoint = endpoint_of(settings, name)
    missing = endpoint.api_key.problem if endpoint.api_key is not None else None
    return EmbedderSpec(
        name,
        model or endpoint.model or "",
        endpoint.base_url or "",
        key_of(endpoint),
        missing or "",
        dict(endpoint.headers),
        concurrency=provider.concurrency,
    )


def model_folder(settings: Settings) -> Path:
    """Where downloaded models are: in our own data folder, not one that other programs clear or share."""
    folder = settings.provider.local_model_cache_dir
    return settings.data_dir / "models" if folder is None else Path(folder)


def endpoint_of(settings: Settings, name: str) -> Endpoint:
    """How a remote provider is reached, with its key as far as one was found."""
    provider = settings.provider
    found = next((provider.endpoints[known] for known in provider.endpoints if known == name), Endpoint())
    if name != provider.chosen:
        return found
    origin = found.key_origin
    return Endpoint(provider.base_url, provider.api_key, provider.headers, provider.model, origin)


def key_of(endpoint: Endpoint) -> str:
    """The key that is sent; "" when there is none. Raises ConfigError, with its origin, for one that cannot
    be sent."""
    key = endpoint.api_key
    if key is None or not key.available:
        return ""
    from openclaw_mem_engine.providers.remote.endpoint import check_key

    check_key(key.reveal().strip(), f"from {_origin(endpoint)}")
    return key.reveal()


def _origin(endpoint: Endpoint) -> str:
    return printable(endpoint.key_origin.where) if endpoint.key_origin else "the settings"


def _model(spec: EmbedderSpec) -> str:
    return "" if spec.provider == "none" else provider_named(spec.provider).model_name(spec.model)


def _choice(settings: Settings, role: Role, spec: EmbedderSpec) -> Choice:
    name = spec.provider
    host, is_here = _host(spec)
    auto, primary = settings.provider.provider == "auto", settings.provider.chosen
    why = [_state(settings, spec)]
    sent = "" if is_here else f"note text is sent to {host}"
    if host and is_here:
        why.append(f"at {host} on this machine")
    if role == "primary":
        if not auto:
            why.insert(0, _named(settings))
        elif sent:
            why.append(f"selected by auto, so {sent}")
    elif role == "fallback":
        why = [f"used when {primary} fails", *why, sent and f"then {sent}"]
    else:
        why = [f"its vectors are kept in addition to those of {primary}", *why, sent]
    return Choice(
        name,
        role,
        printable("; ".join(filter(None, why))),
        printable(without_credentials(_model(spec))),
        "" if is_here else host,
        _key(settings, name),
        spec,
    )


def _named(settings: Settings) -> str:
    origin, chosen = settings.origins.get("provider.name", DEFAULT_ORIGIN), settings.provider.chosen
    return f"provider.name = {chosen}" + (f" ({origin.where})" if origin != DEFAULT_ORIGIN else "")


def _state(settings: Settings, spec: EmbedderSpec) -> str:
    """What is known about an embedder in use, in a few words."""
    if spec.provider == "none":
        return "BM25 only"
    if spec.provider == "static":
        return "built-in model, English only"
    if spec.provider != "local":
        return _key_state(settings, spec.provider)
    if not spec.model:
        return "no model file is configured (provider.local_model_path), so the default model is used"
    provider = settings.provider
    if spec.model == provider.local_model_path and not provider.local_model_found and not is_uri(spec.model):
        return f"the model file {spec.model} does not exist"
    return f"model {without_credentials(spec.model)}"


def _key_state(settings: Settings, name: str) -> str:
    endpoint = endpoint_of(settings, name)
    if key_origin := _key(settings, name):
        return f"key from {key_origin}"
    if endpoint.api_key is not None and endpoint.api_key.problem:
        return endpoint.api_key.problem
    if name == "ollama":
        return "needs no key"
    needs = "may need" if endpoint.base_url else "needs"
    return "".join(f"{needs} {names[0]}" for known, names in KEY_VARIABLES.items() if known == name)


def _key(settings: Settings, name: str) -> str:
    """Where the key is set; "" when there is none."""
    if name not in ENDPOINT_NAMES:
        return ""
    endpoint = endpoint_of(settings, name)
    if endpoint.api_key is not None and endpoint.api_key.available:
        return _origin(endpoint)
    return "the headers" if any(header.lower() in _KEY_HEADERS for header in endpoint.headers) else ""


def _why_not(settings: Settings, name: str) -> str:
    provider = settings.provider
    if provider.provider != "auto":
        return f"provider.name = {provider.chosen}"
    if name == "none":
        return "not configured"
    if name == "ollama":
        return "used only when selected (provider.name)"
    if name == "local":
        return printable(_why_not_local(provider.local_model_path))
    if name != "static" and not _key(settings, name):
        return printable(_key_state(settings, name))
    return f"not needed: auto selects {provider.chosen} first"


def _why_not_local(model: str | None) -> str:
    if model is None:
        return "no model file is configured (provider.local_model_path)"
    if is_uri(model):
        return "its model would be downloaded, so it is used only when selected (provider.name)"
    return f"the model file {model} does not exist"
