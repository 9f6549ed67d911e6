"""What a server said, made fit for an error message: one line, short, no secrets, no terminal controls."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Collection
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from openclaw_mem_engine.redact import redact

_QUOTE_CHARS = 300
_READ_CHARS = 64_000
#: Shorter keys are dummies for local servers.
_SHORTEST_KEY = 4
#: Shorter values may be ordinary words; and so many characters of a longer one are masked anywhere.
_SECRET_CHARS = 8


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
    details = error.get("details")
    if isinstance(details, list):
        codes += [detail.get("reason") for detail in details if isinstance(detail, dict)]
    # Voyage says "detail", others "message".
    said = next((error[name] for name in ("message", "detail") if isinstance(error.get(name), str)), body)
    return said, " ".join(code for code in codes if isinstance(code, str))


def secrets_in(url: str) -> list[str]:
    """What may be a secret in an address, as written and decoded: passwords before a host (also that
    of a second address in the path, as gateways have it) and the values of the query. Host, path and the
    names of the query are no secrets: messages need them."""
    parts = urlsplit(url)
    user, _, password = parts.netloc.rpartition("@")[0].partition(":")
    found = [password or user]
    before = "/"
    for segment in parts.path.removeprefix("/").split("/"):
        user, _, password = segment.rpartition("@")[0].partition(":")
        if password or not before:  # not a revision: models/name@2
            found.append(password or user)
        before = segment
    for field in parts.query.split("&"):
        name, _, value = field.partition("=")
        found.append(value or name)
    found += [value for _, value in parse_qsl(parts.query)]
    found += [unquote(secret) for secret in found]
    return [secret for secret in dict.fromkeys(found) if secret]


def _shapes(secret: str) -> list[str]:
    data = secret.encode()
    shapes = [
        secret,
        quote(secret, safe=""),
        html.escape(secret),
        json.dumps(secret)[1:-1],
        secret[::-1],
        data.hex(),
        base64.b64encode(data).decode(),
        base64.urlsafe_b64encode(data).decode(),
    ]
    # Without the padding it is found at the start of something longer, too.
    return [*shapes, *(shape.rstrip("=") for shape in shapes[-2:])]
