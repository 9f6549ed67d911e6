"""Masks secrets in text that leaves the program: error messages, logs, exports, anything sent by HTTP.

The list of shapes is here and nowhere else: those that OpenClaw masks in transcripts, in its order, and the
forms of keys that providers publish. Matching is linear in the length of the text: no two neighbouring
repeats of a pattern can share a character, a run of characters is tried from its start only, and private-key
blocks, which would need a lazy scan from every BEGIN line, are found by pairing marker lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

#: Shorter secrets are masked whole; longer ones keep their first 6 and last 4 characters, to tell keys apart.
_WHOLE_BELOW = 18
_KEEP_START = 6
_KEEP_END = 4
#: Characters that a pattern may find of what is masked already: all of it, or up to the ellipsis.
_MASKED_LENGTHS = (_KEEP_START, _KEEP_START + 1 + _KEEP_END)

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
    r"\b[A-Z0-9_]*(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE)\b[<space>]*[=:][<space>]*"
    r"([\"']?)([^<space>\"'\\]+)\1",
    # JSON fields
    r'"[A-Z0-9_.-]*(?:(?:api|access|secret|account|private|signing)[-_]?key|token|secret|password|passwd|'
    r'passphrase)"[<space>]*:[<space>]*"([^"]+)"',
    # command line flags
    r"--(?:api[-_]?key|token|secret|password|passwd)[<space>]+([\"']?)([^<space>\"']+)\1",
    r"(?<![^<space>])(?:-u|--user)[<space>]+[\"']?[^<space>\"':]+:(?!\d+\b)([^<space>\"']+)",
    # HTTP headers; Basic is an ordinary word, and base64 of a pair nearly always holds a digit or ends in "="
    r"Authorization[\"']?[<space>]*[:=][<space>]*[\"']?(?:Bearer|Basic|Token)[<space>]+([A-Z0-9._\-+/=]+)",
    r"\bBearer[<space>]+([A-Z0-9._\-+=]{18,})\b",
    r"\bBasic[<space>]+(?=[A-Z+/]*[0-9=])([A-Z0-9+/]{16,}={0,2})",
    # addresses: a password before the host, a signature in the query, hooks that are keys themselves
    r"://[^<space>\"'<>/?#:@]*:([^<space>\"'<>/?#]+)@",
    r"[?&](?:sig|signature|x-amz-signature|x-goog-signature)=([^<space>\"'<>&#]+)",
    r"discord(?:app)?\.com/api/webhooks/\d+/([A-Z0-9_-]{20,})",
    r"hooks\.slack\.com/(?:services|workflows)/([A-Z0-9/]{20,})",
    # an AWS secret key has no form of its own: 40 characters soon after its name or its key id
    r"(?:secret|\bA[KS]IA[A-Z0-9]{16})[^\n]{1,40}?(?<![A-Z0-9/+])(?![0-9A-F]{40})([A-Z0-9/+]{40})(?![A-Z0-9/+=])",
)
_PEM_MARK = r"-----(BEGIN|END) [A-Z ]*PRIVATE KEY-----"
#: A line of a private key, in a quote or a diff too: chunks of a note, and the lines around a change, hold
#: some without both markers. It has digits, capitals and small letters: no checksum has, hardly any path.
_PEM_LINE = (
    r"(?m:^)([>+ -]{0,4})(?=[A-Z/+]*[0-9])(?-i:(?=[A-Z0-9/+]*[a-z])(?=[a-z0-9/+]*[A-Z]))"
    r"[A-Z0-9+/]{62,76}={0,2}(?m:(?=\r?$))"
)
#: How keys begin whose rest is letters and digits, or these, "_" and "-": 20 or more.
_PLAIN_PREFIXES = (
    *("gho_", "ghu_", "ghs_", "ghr_"),  # GitHub
    *("sk_live_", "sk_test_", "rk_live_", "rk_test_", "whsec_"),  # Stripe
    *("hf_", "r8_", "xai-", "fw_", "tvly-", "jina_", "csk-"),  # model providers
    *("dop_v1_", "shpat_", "shpss_", "lin_api_", "ntn_", "dapi", "sbp_", "key-", "xkeysib-", "vcp_"),
)
_MIXED_PREFIXES = (
    *("glpat-", "gldt-", "glrt-", "glptt-", "glcbt-", "glsoat-", "glft-"),  # GitLab
    *("ya29.", "GOCSPX-", "nvapi-", "pypi-", "hvs.", "dp.pt.", "tskey-", "ATATT3", "ATCTT3"),
    *("glc_", "glsa_", "xoxe-", "xoxe.", "xoxc-", "xoxd-", "AGE-SECRET-KEY-"),
)
#: Characters that a credential in a note has at least.
_FEWEST = 8
#: What stands for a credential instead of being one: a variable, a blank to fill in, a path, a host, a date.
_STANDS_FOR_ONE = (
    r"\$|<|\{|%\w+%|\*{3}|x{4}|\.{3}|…|^[A-Z_]+$|\.(?:md|json|env|ya?ml|toml|pem|txt)\b|"
    r"^(?:~|\.{1,2})?/|(?-i:^[a-z][a-z0-9._-]*(?:/[a-z0-9._-]+)+$)|"
    r"^\d{4}-\d\d-\d\d"
)
_QUOTES = "`'\"*.,;:()[]"
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
    rf"\b((?:{'|'.join(map(re.escape, _PLAIN_PREFIXES))})[A-Z0-9]{{20,}})\b",
    rf"(?<![A-Z0-9_-])((?:{'|'.join(map(re.escape, _MIXED_PREFIXES))})[A-Z0-9_-]{{20,}})",
    # AWS key ids, in capitals
    r"\b((?-i:A[KS]IA|ABIA|ACCA|AROA|AIDA)(?-i:[A-Z0-9]{16}))\b",
    # SendGrid; JSON web tokens; Discord bots
    r"(?<![A-Z0-9_-])((?-i:SG)\.[A-Z0-9_-]{16,}\.[A-Z0-9_-]{16,})",
    r"(?<![A-Z0-9_-])((?-i:eyJ)[A-Z0-9_-]{8,}\.(?-i:eyJ)[A-Z0-9_-]{8,}(?:\.[A-Z0-9_-]*)?)",
    r"(?<![A-Z0-9_.-])((?-i:[MNO])[A-Z0-9_-]{23,27}\.[A-Z0-9_-]{6}\.[A-Z0-9_-]{27,})(?![A-Z0-9_-])",
)
#: What every pattern needs one of, in small letters: looking for all of these is faster than one pattern.
_HINTS = (
    *("key", "token", "secret", "passw", "passphrase", "bearer", "basic", "authorization", "-u", "sig"),
    *(
        "sk-",
        "ghp_",
        "github_pat_",
        "xox",
        "xapp-",
        "gsk_",
        "aiza",
        "pplx-",
        "npm_",
        "-----begin",
        "webhooks/",
    ),
    *("hooks.slack.com", "akia", "asia", "abia", "acca", "aroa", "aida", "sg.", "eyj"),
    *map(str.lower, (*_PLAIN_PREFIXES, *_MIXED_PREFIXES)),
)
_OTHER_HINTS = r"\d{6}:|://[^/\s]*@|\.[A-Z0-9_-]{6}\.[A-Z0-9_-]{27}"


def _may_hold_secret(text: str) -> bool:
    """Whether any pattern can match: most text has none, and the patterns together take a while."""
    small = text.lower()
    others = (_OTHER_HINTS, _PEM_LINE)
    return any(hint in small for hint in _HINTS) or any(_pattern(hint).search(text) for hint in others)


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """``text`` with everything that looks like a secret masked.

    ``secrets``: values known to be secret; they are removed first, whatever they look like.
    """
    for secret in sorted(set(secrets), key=len, reverse=True):
        if secret:
            text = text.replace(secret, "***")
    return _masked(text, _mask_match)


def redacted(value: Any) -> Any:
    """Plain data for JSON with every text in it redacted; keys stay."""
    if isinstance(value, dict):
        return {key: redacted(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [redacted(item) for item in value]
    return redact(value) if isinstance(value, str) else value


def _masked(text: str, masked: Callable[[re.Match[str]], str]) -> str:
    """``text`` with private keys masked, and of every other secret what ``masked`` makes of its match."""
    if not _may_hold_secret(text):
        return text
    for pattern in _BEFORE_PEM:
        text = _pattern(pattern).sub(masked, text)
    text = _pattern(_PEM_LINE).sub(r"\1…redacted…", _mask_private_keys(text))
    for pattern in _AFTER_PEM:
        text = _pattern(pattern).sub(masked, text)
    return text


def credentials(text: str) -> list[tuple[int, str]]:
    """The lines that look like credentials: their numbers, from 1, and themselves with the secret masked.
    Stricter than ``redact``: what is masked must have the form of a credential, so "key: turns" and
    "KEY=$NAME" are none. Of a private key the line with BEGIN counts."""
    found: list[tuple[int, str]] = []
    if not _may_hold_secret(text):
        return found
    for number, line in enumerate(map(str.strip, text.split("\n")), 1):
        values: list[str] = []

        def remember(match: re.Match[str], values: list[str] = values) -> str:
            values.append(match.group(match.lastindex or 0))
            return _mask_match(match)

        masked = _masked(line, remember)
        begins_key = "-----BEGIN" in line and _pattern(_PEM_MARK).search(line)
        if begins_key or any(map(_is_credential, values)):
            found.append((number, masked))
    return found


def credential_warning(text: str) -> str:
    """One sentence for a text to keep that looks like a credential; else ""."""
    return "The text looks like a credential: every search may show it." if credentials(text) else ""


def _is_credential(masked: str) -> bool:
    """Whether something masked has the form of a credential: 8 characters or more, with a digit or a sign
    among letters, and nothing that stands for one."""
    secret = masked.strip(_QUOTES)
    letters = re.search(r"[A-Za-z]", secret) and re.search(r"[0-9!@#&+=^~]", secret)
    return bool(letters) and len(secret) >= _FEWEST and not _pattern(_STANDS_FOR_ONE).search(secret)


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
    if match.string[start + _KEEP_START : start + _KEEP_START + 1] == "…" and end - start in _MASKED_LENGTHS:
        return whole  # masked before, as in a transcript
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
