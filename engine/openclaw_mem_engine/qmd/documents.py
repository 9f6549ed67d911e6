"""How QMD names a document: content hash, docid, title, virtual path, slug, file patterns.

Behaviour: QMD 2.8.3 (and 1.0.7 where said), tests/engine/test_qmd_goldens.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from unicodedata import category
from urllib.parse import quote, unquote

from openclaw_mem_engine.errors import UsageError
from openclaw_mem_engine.sanitize import WHITE

#: The index that commands use when none is named.
DEFAULT_INDEX: Final = "index"
_SCHEME = "qmd://"
_DOCID_LENGTH = 6

_DOCID = re.compile(r"[0-9a-f]{6,}", re.IGNORECASE)
_HEADING = re.compile(r"^##?\s+(.+)$", re.MULTILINE)
_SECOND_HEADING = re.compile(r"^##\s+(.+)$", re.MULTILINE)
_ORG_TITLE = re.compile(r"^#\+TITLE:\s*(.+)$", re.MULTILINE | re.IGNORECASE)
_ORG_HEADING = re.compile(r"^\*+\s+(.+)$", re.MULTILINE)
#: A first heading that names no document: the next heading of level 2 is taken instead.
_NO_NAME = ("Notes", "\N{MEMO} Notes")
_EXTENSION = re.compile(r"\.[^.]+$")
_SHORT_EXTENSION = re.compile(r"\.[a-z0-9]+$", re.IGNORECASE)


def docid(hash_: str) -> str:
    """The short name of a content: the first 6 hex digits of its hash."""
    return hash_[:_DOCID_LENGTH]


def docid_text(text: str) -> str:
    """What a user wrote for a docid, without white space around it, quotes and the leading ``#``."""
    text = text.strip(WHITE)
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
        text = text[1:-1]
    return text.removeprefix("#")


def is_docid(text: str) -> bool:
    """Whether a reference can be a docid: 6 or more hex digits, with or without ``#`` and quotes. A file
    with such a name is reached by its virtual path only."""
    return _DOCID.fullmatch(docid_text(text)) is not None


def title_of(text: str, path: str) -> str:
    """The title of a document: for ``.md`` the first ``#`` or ``##`` heading, also one in a code block; for
    ``.org`` ``#+TITLE:`` or the first heading; else, and where there is none, the file name without its
    extension. Front matter and underlined headings do not count."""
    name = path.rsplit("/", 1)[-1]
    extension = _EXTENSION.search(name)
    match extension and extension[0].lower():
        case ".md":
            title = _first(_HEADING, text)
            if title in _NO_NAME:
                title = _first(_SECOND_HEADING, text) or title
        case ".org":
            title = _first(_ORG_TITLE, text) or _first(_ORG_HEADING, text)
        case _:
            title = ""
    return title or _EXTENSION.sub("", name) or name


def _first(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found[1].strip(WHITE) if found else ""


@dataclass(frozen=True, slots=True)
class VirtualPath:
    """``qmd://collection/path``; ``path`` is "" for the whole collection, ``index`` "" for the default."""

    collection: str
    path: str
    index: str = ""

    def __str__(self) -> str:
        suffix = f"?index={quote(self.index, safe='')}" if self.index not in ("", DEFAULT_INDEX) else ""
        return f"{_SCHEME}{self.collection}/{self.path}{suffix}"

    @classmethod
    def parse(cls, text: str) -> VirtualPath | None:
        """What ``text`` names; None when it is no virtual path or has no collection. ``qmd:////c/p`` and
        ``//c/p`` are taken as well."""
        if not is_virtual(text):
            return None
        rest, _, parameters = text.strip(WHITE).removeprefix("qmd:").lstrip("/").partition("?")
        collection, _, path = rest.partition("/")
        index = next((p.removeprefix("index=") for p in parameters.split("&") if p.startswith("index=")), "")
        return cls(collection, path.lstrip("/"), unquote(index)) if collection else None


def is_virtual(text: str) -> bool:
    """Whether a reference has the form of a virtual path."""
    return text.strip(WHITE).startswith(("qmd:", "//"))


def handelize(path: str, *, legacy: bool = False) -> str:
    """The slug of a path, as older indexes store it: runs of anything but letters, digits and ``$`` become
    ``-``, ``___`` becomes ``/``, symbols become their hex code points. ``legacy`` is the form of QMD 1.0:
    lower case, and symbols are dropped. Raises UsageError when nothing of the file name would be left."""
    if not path.strip(WHITE):
        raise UsageError("handelize: path cannot be empty")
    name = next((part for part in reversed(path.split("/")) if part), "")
    stem = _EXTENSION.sub("", name)
    if not any(_is_kept(c) or (not legacy and _is_symbol(c)) for c in stem):
        raise UsageError(f'handelize: path "{path}" has no valid filename content')
    path = path.replace("___", "/")
    *folders, last = (path.lower() if legacy else path).split("/")
    found = _SHORT_EXTENSION.search(last)
    extension = found[0] if found else ""
    parts = [_slug(part, legacy) for part in (*folders, last.removesuffix(extension))]
    parts[-1] += extension
    return "/".join(part for part in parts if part)


def _slug(part: str, legacy: bool) -> str:
    if not legacy:
        part = "".join(f"-{ord(c):x}-" if _is_symbol(c) else c for c in part)
    return re.sub("-+", "-", "".join(c if _is_kept(c) else "-" for c in part)).strip("-")


def _is_kept(character: str) -> bool:
    return character == "$" or category(character)[0] in "LN"


def _is_symbol(character: str) -> bool:
    return category(character) in ("So", "Sk")


def split_masks(mask: str) -> list[str]:
    """The globs of a comma list; commas inside of ``{}`` or ``[]`` belong to a glob. A list without any glob
    is returned as it is."""
    globs, start, depth = [], 0, 0
    for position, character in enumerate(mask):
        depth = max(0, depth + (character in "{[") - (character in "}]"))
        if character == "," and not depth:
            globs.append(mask[start:position])
            start = position + 1
    globs.append(mask[start:])
    return [glob.strip(WHITE) for glob in globs if glob.strip(WHITE)] or [mask]
