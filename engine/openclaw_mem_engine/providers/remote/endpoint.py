"""Addresses, keys and headers: which host they name, whether they can be sent, and how a server's words about
them are quoted: one line, short, no secrets, no terminal controls."""

from __future__ import annotations

import base64
import ipaddress
import json
import re
from collections.abc import Collection, Mapping
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from openclaw_mem_engine.errors import ConfigError
from openclaw_mem_engine.redact import redact

_QUOTE_CHARS = 300
_READ_CHARS = 64_000
#: Shorter keys are dummies for local servers.
_SHORTEST_KEY = 4
#: Shorter values may be ordinary words; and so many characters of a longer one are masked anywhere.
_SECRET_CHARS = 8


def is_loopback(host: str) -> bool:
    """Whether ``host``, a name or an address without port and brackets, is this machine; False for ""."""
    name = host.strip().lower().removesuffix(".")
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return name == "localhost" or name.endswith(".localhost")
    mapped = getattr(address, "ipv4_mapped", None)  # ::ffff:127.0.0.1
    return address.is_loopback or (mapped is not None and mapped.is_loopback)


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
    # The HTTP library would quote the whole address in its error about a blank or control character.
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


def check_key(api_key: str, which: str) -> None:
    """Raises ConfigError, without quoting it, for a key that HTTP cannot carry; ``which`` tells it from
    others."""
    # The HTTP library would quote the offending value in its error.
    if not re.fullmatch(r"[!-~]*", api_key):
        raise ConfigError(
            f"The API key {which} holds blanks, line breaks or non-ASCII characters; "
            "copy it again without the text around it."
        )


def check_sendable(provider: str, api_key: str, headers: Mapping[str, str]) -> None:
    """Raises ConfigError, without quoting a value, for a key or header that HTTP cannot carry."""
    check_key(api_key, f"of the {provider} provider")
    for name, value in headers.items():
        if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", name) or not re.fullmatch(r"[ -~]*", value):
            raise ConfigError(
                f"The header {name!r} of the {provider} provider cannot be sent: "
                "use plain ASCII in its name and value."
            )


def merged(*headers: Mapping[str, str]) -> dict[str, str]:
    """All headers; a later one replaces an earlier one of the same name, whatever its case."""
    found = {name.lower(): (name, value) for some in headers for name, value in some.items()}
    return dict(found.values())


class Quoting:
    """Knows the secrets that were sent, since careless servers echo them: whole, cut off, or encoded."""

    def __init__(self, keys: Collection[str], values: Collection[str] = ()) -> None:
        """``keys`` are secret for certain, ``values`` (of headers) when they are long enough."""
        found: dict[str, None] = {}
        for value in (*keys, *values):
            # A header may hold more than the key: "Bearer sk-…".
            for part in (value, *value.split()):
                if len(part) >= (_SHORTEST_KEY if part in keys else _SECRET_CHARS):
                    found.update(dict.fromkeys(_shapes(part)))
        self._secrets = tuple(found)
        self._long = tuple(secret for secret in found if len(secret) >= _SECRET_CHARS)

    def quote(self, said: str) -> str:
        """At most 300 characters of ``said``."""
        # Controls go first: a key with one in the middle would not be recognised.
        text = "".join(char if char.isprintable() else " " for char in said[:_READ_CHARS])
        line = " ".join(redact(text, self._secrets).split())
        line = self._without_pieces(line[: 4 * _QUOTE_CHARS])
        return line if len(line) <= _QUOTE_CHARS else f"{line[:_QUOTE_CHARS]}…"

    def _without_pieces(self, line: str) -> str:
        """``line`` without any eight or more characters of a secret in a row."""
        parts: list[str] = []
        start = 0
        while start < len(line):
            end = start
            for secret in self._long:
                size = _SECRET_CHARS
                while start + size <= len(line) and line[start : start + size] in secret:
                    end = max(end, start + size)
                    size += 1
            parts.append("***" if end > start else line[start])
            start = max(end, start + 1)
        return "".join(parts)


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
    if isinstance(details := error.get("details"), list):
        codes += [detail.get("reason") for detail in details if isinstance(detail, dict)]
    # Voyage says "detail", others "message".
    said = next((error[name] for name in ("message", "detail") if isinstance(error.get(name), str)), body)
    return said, " ".join(code for code in codes if isinstance(code, str))


def secrets_in(url: str) -> list[str]:
    """What may be a secret in an address, as written and decoded: passwords before a host (also before one in
    the path) the values of the query, and the fragment. Messages need all the rest."""
    parts = urlsplit(url)
    found: list[str] = []
    before = ""
    for segment in (parts.netloc, *parts.path.split("/")[1:]):
        user, _, password = segment.rpartition("@")[0].partition(":")
        if password or not before:  # not a revision: models/name@2
            found.append(password or user)
        before = segment
    for field in (*parts.query.split("&"), *parts.fragment.split("&")):
        name, _, value = field.partition("=")
        found.append(value or name)
    found += [value for text in (parts.query, parts.fragment) for _, value in parse_qsl(text)]
    found += [unquote(secret) for secret in found]
    return [secret for secret in dict.fromkeys(found) if secret]


def _shapes(secret: str) -> list[str]:
    from html import escape

    data = secret.encode()
    plain = [secret, quote(secret, safe=""), escape(secret), json.dumps(secret)[1:-1], secret[::-1]]
    coded = [base64.b64encode(data).decode(), base64.urlsafe_b64encode(data).decode()]
    # Without the padding it is found at the start of something longer, too.
    return [*plain, data.hex(), *coded, *(shape.rstrip("=") for shape in coded)]
