"""The OpenAI embeddings protocol without the network: what is sent, how answers and refusals are read."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import re
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from openclaw_mem_engine.errors import ConfigError
from openclaw_mem_engine.model import utf8
from openclaw_mem_engine.providers.base import BadAnswer

#: Inputs go into one request until their UTF-8 bytes pass this; a single larger input travels alone.
MAX_BATCH_BYTES = 8000
#: OpenAI takes 2,048 inputs per request; compatible servers often far fewer.
MAX_BATCH_ITEMS = 128
#: Refusals that may mean "too many or too long inputs", however the message words it.
SPLIT_STATUSES = frozenset({400, 413, 422})


def model_name(model: str) -> str:
    """The name that the server knows: without blanks round it and without an ``openai/`` prefix."""
    return model.strip().removeprefix("openai/")


def provider_key(base_url: str, model: str, headers: Mapping[str, str]) -> str:
    """SHA-256 hex of what determines the vector space, formed as OpenClaw does for its ``providerKey``.

    That is compact JSON of provider, base URL (no slash at the end), model and all headers except
    Authorization, sorted by name. The API key is no part of it: another key for the same endpoint gives the
    same vectors.
    """
    sent = {"Content-Type": "application/json", **headers}
    pairs = sorted(
        ([name, value] for name, value in sent.items() if name.lower() != "authorization"),
        key=lambda pair: (pair[0].lower(), pair[0]),
    )
    identity = {"provider": "openai", "baseUrl": base_url.rstrip("/"), "model": model, "headers": pairs}
    text = json.dumps(identity, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def batch_end(sizes: Sequence[int], start: int, max_bytes: int, max_items: int) -> int:
    """Where the batch that begins at ``start`` ends (exclusive); it holds at least one input.

    ``sizes`` are UTF-8 bytes per input. Bytes stand in for tokens, which they never fall below.
    """
    end = start + 1
    total = sizes[start]
    while end < len(sizes) and end - start < max_items and total + sizes[end] <= max_bytes:
        total += sizes[end]
        end += 1
    return end


def rows_of_answer(body: bytes, *, expected: int, provider: str) -> list[object]:
    """The embeddings of an answer in the order of the inputs, not yet checked as vectors.

    They are put in order by ``index`` when every item has one and together they number all inputs; servers
    that leave it out, or send 0 everywhere, answer in order. Raises BadAnswer when the body is none such.
    """
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        raise BadAnswer(
            f"{provider} sent something that is not JSON ({len(body):,} bytes). "
            "Check that the base URL is that of an embeddings API (it usually ends in /v1)."
        ) from None
    items = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(items, list) or not all(
        isinstance(item, dict) and "embedding" in item for item in items
    ):
        raise BadAnswer(
            f"{provider} sent JSON without a list of embeddings. "
            "Check that the base URL is that of an OpenAI-compatible embeddings API."
        )
    numbers = [item.get("index") for item in items]
    if all(type(number) is int for number in numbers) and sorted(numbers) == list(range(expected)):
        items = sorted(items, key=lambda item: int(item["index"]))
    return [item["embedding"] for item in items]


def advice(status: int | None) -> str:
    """What to do about an HTTP status; None stands for no answer."""
    if status is None:
        return "Check the base URL, the network and that the server runs, then try again."
    if status in (401, 403):
        return "Check the API key (OPENAI_API_KEY or remote.apiKey) and that it may use this model."
    if status == 404:
        return "Check the base URL (it usually ends in /v1) and the model name."
    if status == 429:
        return "Wait and try again, or check quota and rate limit of the account."
    if 300 <= status < 400:
        return "Redirects are not followed; set the base URL to the final address."
    if status in SPLIT_STATUSES:
        return "Check the model name; a text may be too long for this model."
    return "Try again later, or choose another provider."


def error_of_body(body: str) -> tuple[str, str]:
    """(message, code and type) of an error answer; the body itself when it has no such fields."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return body, ""
    error = answer.get("error", answer) if isinstance(answer, dict) else answer
    if not isinstance(error, dict):
        return (error if isinstance(error, str) else body), ""
    message = error.get("message")
    return (message if isinstance(message, str) else body), f"{error.get('code')} {error.get('type')}"


def sendable(text: str) -> str:
    """``text`` with lone surrogates replaced: JSON in UTF-8 cannot carry them."""
    return text if text.isascii() else utf8(text).decode()


def host_of(base_url: str) -> tuple[str, bool]:
    """(host with port, is it this machine); without user name and password, so that it may be shown.

    Raises ConfigError when ``base_url`` is no http(s) address.
    """
    try:
        parts = urlsplit(base_url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or parts.scheme not in ("http", "https"):
        raise ConfigError(
            "The base URL of the openai provider must look like https://host/v1; the one given has no host "
            "or another scheme. Set OPENAI_BASE_URL or remote.baseUrl."
        )
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = host == "localhost" or host.endswith(".localhost")
    return (f"{host}:{port}" if port else host), loopback


def check_sendable(api_key: str, headers: Mapping[str, str]) -> None:
    """Raises ConfigError, without quoting a value, for a key or header that HTTP cannot carry."""
    # The HTTP library would quote the offending value in its error, so it never gets that far.
    if not re.fullmatch(r"[!-~]*", api_key):
        raise ConfigError(
            "The API key of the openai provider holds blanks, line breaks or non-ASCII characters; "
            "copy it again without what stands round it."
        )
    for name, value in headers.items():
        if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", name) or not re.fullmatch(r"[ -~]*", value):
            raise ConfigError(
                f"The header {name!r} of the openai provider cannot be sent: "
                "use plain ASCII in its name and value."
            )
