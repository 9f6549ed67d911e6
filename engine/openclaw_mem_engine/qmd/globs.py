"""Globs over paths with ``/``, as QMD takes them for collections and for several documents at once."""

from __future__ import annotations

import re
from typing import Final

_WORDS: Final = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
_TOKEN = re.compile(r"\*\*/|\*\*|\*|\?|\\.|\[[!^]?\]?[^\]/]*\]|[{},]|.", re.DOTALL)


def is_glob(text: str) -> bool:
    """Whether a text holds a wildcard: ``*``, ``?``, or a group in ``{}`` or ``[]``."""
    return re.search(r"[*?]|\{.*\}|\[.*\]", text, re.DOTALL) is not None


def glob_regex(glob: str) -> str:
    """The regular expression of a glob, to be matched against a whole path (with DOTALL). ``**`` crosses
    folders, ``*`` and ``?`` do not; ``{a,b}`` is one of several globs, ``[a-c]`` and ``[!a-c]`` one
    character; ``\\`` takes the next character as it is. A brace without its partner is itself."""
    tokens = _TOKEN.findall(glob.removeprefix("./"))
    closes, opened = set[int](), list[int]()
    for position, token in enumerate(tokens):
        if token == "{":
            opened.append(position)
        elif token == "}" and opened:
            closes |= {opened.pop(), position}
    parts, depth = [], 0
    for position, token in enumerate(tokens):
        if position in closes:
            depth += 1 if token == "{" else -1
            parts.append("(?:" if token == "{" else ")")
        elif token == "," and depth:
            parts.append("|")
        elif token in _WORDS:
            parts.append(_WORDS[token])
        elif len(token) > 2 and token[0] == "[":
            parts.append(_characters(token[1:-1]))
        else:
            parts.append(re.escape(token[-1]))
    return "".join(parts)


def _characters(inner: str) -> str:
    """A set of characters; one that is no set is itself."""
    negated = inner[0] in "!^"
    held = inner[negated:].replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")
    text = f"(?!/)[{'^' * negated}{held.replace('^', chr(92) + '^')}]"
    try:
        re.compile(text)
    except re.error:
        return re.escape(f"[{inner}]")
    return text
