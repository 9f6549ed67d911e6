"""Addresses, keys and headers: which host they name, and whether they can be sent."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from openclaw_mem_engine.errors import ConfigError


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


def check_sendable(provider: str, api_key: str, headers: Mapping[str, str]) -> None:
    """Raises ConfigError, without quoting a value, for a key or header that HTTP cannot carry."""
    # The HTTP library would quote the offending value in its error.
    if not re.fullmatch(r"[!-~]*", api_key):
        raise ConfigError(
            f"The API key of the {provider} provider holds blanks, line breaks or non-ASCII characters; "
            "copy it again without the text around it."
        )
    for name, value in headers.items():
        if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", name) or not re.fullmatch(r"[ -~]*", value):
            raise ConfigError(
                f"The header {name!r} of the {provider} provider cannot be sent: "
                "use plain ASCII in its name and value."
            )
