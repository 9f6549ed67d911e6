"""Masks secrets in text that leaves the program: error messages, logs, anything sent to a remote service.

The 17 shapes are those that OpenClaw masks in transcripts. Matching is linear in the length of the text: no
two neighbouring repeats of a pattern can share a character, and private-key blocks, which would need a lazy
scan from every BEGIN line, are found by pairing marker lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

#: Shorter secrets are masked whole; longer ones keep their first 6 and last 4 characters, to tell keys apart.
_WHOLE_BELOW = 18
_KEEP_START = 6
_KEEP_END = 4

# ECMAScript's white space. Otherwise the patterns are ASCII, as there: a Cyrillic letter is no word
# character.
_SPACE = r"\s\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"


@cache
def _pattern(source: str) -> re.Pattern[str]:
    """Compiled at first use: together they take milliseconds, and most commands mask nothing."""
    return re.compile(source.replace("<space>", _SPACE), re.IGNORECASE | re.ASCII)


# The secret is the last group that took part; without a group it is the whole match.
_BEFORE_PEM = (
    # NAME=value and NAME: value
    r"\b[A-Z0-9_]*(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD)\b[<space>]*[=:][<space>]*([\"']?)([^<space>\"'\\]+)\1",
    # JSON fields
    r'"(?:apiKey|token|secret|password|passwd|accessToken|refreshToken)"[<space>]*:[<space>]*"([^"]+)"',
    # command line flags
    r"--(?:api[-_]?key|token|secret|password|passwd)[<space>]+([\"']?)([^<space>\"']+)\1",
    # HTTP headers
    r"Authorization[<space>]*[:=][<space>]*Bearer[<space>]+([A-Z0-9._\-+=]+)",
    r"\bBearer[<space>]+([A-Z0-9._\-+=]{18,})\b",
)
_PEM_MARK = r"-----(BEGIN|END) [A-Z ]*PRIVATE KEY-----"
_AFTER_PEM = (
    # keys known by how they begin
    r"\b(sk-[A-Z0-9_-]{8,})\b",
    r"\b(ghp_[A-Z0-9]{20,})\b",
    r"\b(github_pat_[A-Z0-9_]{20,})\b",
    r"\b(xox[baprs]-[A-Z0-9-]{10,})\b",
    r"\b(xapp-[A-Z0-9-]{10,})\b",
    r"\b(gsk_[A-Z0-9_-]{10,})\b",
    r"\b(AIza[0-9A-Z\-_]{20,})\b",
    r"\b(pplx-[A-Z0-9_-]{10,})\b",
    r"\b(npm_[A-Z0-9]{10,})\b",
    # Telegram bot tokens
    r"\bbot(\d{6,}:[A-Z0-9_-]{20,})\b",
    r"\b(\d{6,}:[A-Z0-9_-]{20,})\b",
)


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """``text`` with everything that looks like a secret masked.

    ``secrets``: values known to be secret; they are removed first, whatever they look like.
    """
    for secret in sorted(set(secrets), key=len, reverse=True):
        if secret:
            text = text.replace(secret, "***")
    for pattern in _BEFORE_PEM:
        text = _pattern(pattern).sub(_mask_match, text)
    text = _mask_private_keys(text)
    for pattern in _AFTER_PEM:
        text = _pattern(pattern).sub(_mask_match, text)
    return text


def mask(secret: str) -> str:
    """How a secret is shown: ``***``, or its two ends when it is long enough to keep the middle secret."""
    if not secret.isascii() and max(secret) > "\uffff":
        # Counted in UTF-16 units, as there; half a character at a cut becomes U+FFFD.
        units = secret.encode("utf-16-le", "surrogatepass")
        ends = (units[: 2 * _KEEP_START], units[-2 * _KEEP_END :])
        start, end = (part.decode("utf-16-le", "replace") for part in ends)
        return "***" if len(units) < 2 * _WHOLE_BELOW else f"{start}…{end}"
    if len(secret) < _WHOLE_BELOW:
        return "***"
    return f"{secret[:_KEEP_START]}…{secret[-_KEEP_END:]}"


def _mask_match(match: re.Match[str]) -> str:
    whole = match.group(0)
    group = match.lastindex or 0
    start, end = match.span(group)
    offset = match.start()
    # Replaced by position: the same characters may also occur in the name before it.
    return whole[: start - offset] + mask(match.group(group)) + whole[end - offset :]


def _mask_private_keys(text: str) -> str:
    """Masks from a BEGIN marker to the next END marker with something between; one pass over the markers."""
    if "-----" not in text:
        return text
    parts: list[str] = []
    done = 0
    begin: re.Match[str] | None = None
    for mark in _pattern(_PEM_MARK).finditer(text):
        if mark.group(1).upper() == "BEGIN":
            begin = begin or mark
        elif begin is not None and mark.start() > begin.end():
            parts += (text[done : begin.start()], _mask_block(text[begin.start() : mark.end()]))
            done = mark.end()
            begin = None
    return "".join([*parts, text[done:]])


def _mask_block(block: str) -> str:
    lines = [line for line in re.split(r"\r?\n", block) if line]
    return f"{lines[0]}\n…redacted…\n{lines[-1]}" if len(lines) > 1 else "***"
