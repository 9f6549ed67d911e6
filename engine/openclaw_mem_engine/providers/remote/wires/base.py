"""What the protocols of all remote providers have in common."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, Protocol
from urllib.parse import urlsplit

from openclaw_mem_engine.errors import ConfigError
from openclaw_mem_engine.model import utf8
from openclaw_mem_engine.providers.base import BadAnswer
from openclaw_mem_engine.providers.remote.hosts import is_loopback

Purpose = Literal["query", "document"]

#: Refusals that may mean "too many or too long inputs", however the message words it.
SPLIT_STATUSES = frozenset({400, 413, 422})


class Wire(Protocol):
    """The protocol of one provider; without state, so one object serves all."""

    @property
    def id(self) -> str: ...

    @property
    def default_model(self) -> str: ...

    @property
    def default_base_url(self) -> str: ...

    @property
    def public_host(self) -> str:
        """The provider's own host, which always wants a key; "" when there is no such host."""
        ...

    @property
    def key_variable(self) -> str:
        """The environment variable that holds the key, for advice; "" when no key is needed."""
        ...

    @property
    def key_header(self) -> str:
        """The header that carries the key."""
        ...

    @property
    def max_items(self) -> int:
        """The most inputs of a request that the provider documents, or a number that all servers take."""
        ...

    def base_url(self, given: str) -> str:
        """The address that paths are appended to, without a slash at the end; the default for ""."""
        ...

    def model_name(self, given: str) -> str:
        """The name that the server knows; the default for ""."""
        ...

    def key_value(self, api_key: str) -> str:
        """What ``key_header`` holds."""
        ...

    def space_key(self, base_url: str, model: str, headers: Mapping[str, str]) -> str:
        """SHA-256 hex over what determines the vector space; the API key is no part of it."""
        ...

    def request(self, model: str, texts: Sequence[str], purpose: Purpose) -> tuple[str, dict[str, object]]:
        """(path below the base URL, JSON body)."""
        ...

    def rows(self, answer: object, expected: int) -> list[object] | None:
        """The embeddings in the order of the texts, not yet checked; None when there are none."""
        ...

    def tokens(self, answer: object) -> int:
        """How many tokens the provider counted; 0 when it does not say."""
        ...

    def advice(self, status: int | None) -> str:
        """What to do about an HTTP status; None stands for no answer."""
        ...


def parsed(body: bytes, label: str) -> object:
    """The JSON of an answer. ``label`` names provider and host. Raises BadAnswer."""
    try:
        answer: object = json.loads(body)
    except (ValueError, RecursionError):
        raise BadAnswer(
            f"{label} sent something that is not JSON ({len(body):,} bytes). "
            "Check that the base URL is that of an embeddings API."
        ) from None
    return answer


def field_of(answer: object, *names: str) -> object:
    """The value at a path of keys, or None when the answer has another shape."""
    for name in names:
        if not isinstance(answer, dict):
            return None
        answer = answer.get(name)
    return answer


def count_of(value: object) -> int:
    """``value`` when it is a count, else 0."""
    return value if type(value) is int and value > 0 else 0


def error_of_body(body: str) -> tuple[str, str]:
    """(message, codes and types) of an error answer; the body itself when it has no such fields."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return body, ""
    if isinstance(answer, list) and answer:  # Gemini wraps some errors in a list
        answer = answer[0]
    error = answer.get("error", answer) if isinstance(answer, dict) else answer
    if not isinstance(error, dict):
        return (error if isinstance(error, str) else body), ""
    codes = [error.get(name) for name in ("code", "type", "status")]
    details = error.get("details")
    if isinstance(details, list):
        codes += [field_of(detail, "reason") for detail in details]
    # Voyage says "detail", others "message".
    said = next((error[name] for name in ("message", "detail") if isinstance(error.get(name), str)), body)
    return said, " ".join(code for code in codes if isinstance(code, str))


def advice(
    status: int | None,
    *,
    key_variable: str,
    address: str = "Check the base URL and the model name.",
    silence: str = "Check the base URL, the network and that the server runs, then try again.",
) -> str:
    """What to do about an HTTP status; None stands for no answer."""
    if status is None:
        return silence
    if status in (401, 403):
        where = f" ({key_variable} or remote.apiKey)" if key_variable else ""
        return f"Check the API key{where} and that it may use this model."
    if status == 404:
        return address
    if status == 429:
        return "Wait and try again, or check quota and rate limit of the account."
    if 300 <= status < 400:
        return "Redirects are not followed; set the base URL to the final address."
    if status in SPLIT_STATUSES:
        return "Check the model name; a text may be too long for this model."
    return "Try again later, or choose another provider."


def hash_of(identity: Mapping[str, object]) -> str:
    """SHA-256 hex of compact JSON with the keys in the given order."""
    text = json.dumps(identity, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def header_pairs(headers: Mapping[str, str], without: Iterable[str]) -> list[list[str]]:
    """All headers but those in ``without`` (lower case), sorted by name, as they enter a ``space_key``."""
    sent = {"Content-Type": "application/json", **headers}
    left_out = set(without)
    return sorted(
        ([name, value] for name, value in sent.items() if name.lower() not in left_out),
        key=lambda pair: (pair[0].lower(), pair[0]),
    )


def plain_space_key(provider: str, base_url: str, default_base_url: str, model: str) -> str:
    """The key of a space named by provider and model. Another server may mean another model by the same
    name, so an address that is not the provider's own is part of it."""
    identity = {"provider": provider, "model": model}
    if base_url != default_base_url:
        identity["baseUrl"] = base_url
    return hash_of(identity)


def sendable(text: str) -> str:
    """``text`` with lone surrogates replaced: JSON in UTF-8 cannot carry them."""
    return text if text.isascii() else utf8(text).decode()


def host_of(base_url: str, provider: str) -> tuple[str, bool]:
    """(host with port, is it this machine); without user name and password, so that it may be shown.

    Raises ConfigError when ``base_url`` is no http(s) address.
    """
    try:
        parts = urlsplit(base_url)
        host, port = parts.hostname, parts.port
        (host or "").encode("idna")  # raises for labels that are empty or too long
    except ValueError:
        host = port = None
    # A blank or control character would be an error of the HTTP library, which quotes the whole address.
    if (
        not host
        or parts.scheme not in ("http", "https")
        or not re.fullmatch(r"[^\s\x00-\x1f\x7f]+", base_url)
    ):
        raise ConfigError(
            f"The base URL of the {provider} provider must look like https://host/v1; the one given has no "
            "host or another scheme, or holds blanks. Set remote.baseUrl."
        )
    shown = f"[{host}]" if ":" in host else host
    return (f"{shown}:{port}" if port else shown), is_loopback(host)


def check_sendable(provider: str, api_key: str, headers: Mapping[str, str]) -> None:
    """Raises ConfigError, without quoting a value, for a key or header that HTTP cannot carry."""
    # The HTTP library would quote the offending value in its error, so it never gets that far.
    if not re.fullmatch(r"[!-~]*", api_key):
        raise ConfigError(
            f"The API key of the {provider} provider holds blanks, line breaks or non-ASCII characters; "
            "copy it again without what stands round it."
        )
    for name, value in headers.items():
        if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", name) or not re.fullmatch(r"[ -~]*", value):
            raise ConfigError(
                f"The header {name!r} of the {provider} provider cannot be sent: "
                "use plain ASCII in its name and value."
            )
