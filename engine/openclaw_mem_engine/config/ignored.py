"""Keys of OpenClaw's configuration about memory that have no effect here: those of parts that are not used,
unknown ones, and those in a wrong section."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from openclaw_mem_engine.config.groups import OPENCLAW_KEYS
from openclaw_mem_engine.config.secret import printable
from openclaw_mem_engine.errors import RENAMED
from openclaw_mem_engine.model import Note
from openclaw_mem_engine.named_tuple import NamedTuple

#: Those of ``agents.defaults`` that ``config.read_groups`` reads.
_LIFECYCLE = tuple(dict.fromkeys(key.split(".")[2] for key in OPENCLAW_KEYS if key.startswith("agents.*.")))
#: Sections that are looked through, by dotted path, with the keys that are read in each.
SECTIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "": ("agents", "memory", "memorySearch", "models", "plugins"),
        "memory": ("backend", "citations", "qmd", "search"),
        "agents": ("defaults", "list", "entries"),
        "agents.defaults": ("memorySearch", "workspace", *_LIFECYCLE),
        "agent": (),
    }
)
#: Those of which every other key is named; of the rest, which hold more than memory, only misspelled ones.
_WHOLE = ("memory", "agents", "agent")
#: Keys of OpenClaw's, in any section, for which there is nothing here.
_NOT_USED = ("compaction",)
_NAMED, _DEPTH = 3, 5
_LEAF_CUTOFF = 0.85


class IgnoredKey(NamedTuple):
    """``key`` is a dotted path, ``hint`` says more of it; ``known``: OpenClaw has such a key."""

    key: str
    hint: str = ""
    known: bool = False

    @property
    def text(self) -> str:
        return f"{self.key} ({self.hint})" if self.hint else self.key

    def to_dict(self) -> dict[str, Any]:
        return {"key": self.key, "reason": "not used" if self.known else "unknown", "hint": self.hint or None}


def ignored_keys(
    root: Mapping[str, Any], agents: Sequence[tuple[str, Mapping[str, Any]]]
) -> Iterator[IgnoredKey]:
    """The keys of a configuration that are ignored, ``memorySearch`` apart. ``agents`` are the agents'
    entries with the dotted path of each."""
    for path, node in (*((path, object_at(root, path)) for path in SECTIONS), *agents):
        read = SECTIONS.get(path, SECTIONS["agents.defaults"])
        prefix = printable(f"{path}.") if path else ""
        for name, value in node.items():
            key = prefix + printable(name)
            moved = path in ("agent", "agents") and name in SECTIONS["agents.defaults"]
            if name in _NOT_USED and name not in read:
                yield from (IgnoredKey(leaf, known=True) for leaf in leaves(key, value))
            elif name not in (*read, "$include") and not (key in SECTIONS and isinstance(value, dict)):
                one = nearest(name, read, 0.8)
                near = f"agents.defaults.{name}" if moved else one and f"{prefix}{one}"
                if near or path in _WHOLE:
                    yield IgnoredKey(key, f"did you mean {near}?" if near else "")


def unknown_key(location: str, key: str, known: Iterable[str]) -> IgnoredKey:
    """A key below ``location`` that is none of the ``known``, nor a group of them."""
    near = nearest(key, with_groups(known), 0.75)
    hint = f"did you mean {location}.{near}?" if near else ""
    return IgnoredKey(printable(f"{location}.{key}"), printable(hint))


def notes_of(file: Path | None, ignored: Sequence[IgnoredKey]) -> Iterator[Note]:
    """One note for the keys that are not used, and one for those that are unknown: the first three and how
    many more. It is only a warning when search would be another with them."""
    for known, code, words in (
        (True, "config-not-used", "not used"),
        (False, "config-unknown-key", "not known and ignored"),
    ):
        if found := [item for item in ignored if item.known == known]:
            more = f" and {len(found) - _NAMED} more (`openclaw-mem config` names all)"
            names = ", ".join(item.text for item in found[:_NAMED]) + (more if len(found) > _NAMED else "")
            text = f"{file}: {names} {'is' if len(found) == 1 else 'are'} {words}."
            only_lifecycle = all("compaction" in item.key.split(".") for item in found)
            yield Note(code, text, "info" if only_lifecycle else "warning")


def nearest(key: str, known: Sequence[str], cutoff: float = 0.65) -> str | None:
    """The known key that was probably meant, if any."""
    from difflib import get_close_matches  # only for those who have such a key

    group, dot, name = key.rpartition(".")
    key = f"{group}{dot}{RENAMED.get(name, name)}"

    # The last part alone finds a name in the wrong table: "min_score" for "query.min_score".
    for form, limit in ((str, cutoff), (_last_part, _LEAF_CUTOFF)):
        by_form = {form(one).lower(): one for one in reversed(known)}
        if near := get_close_matches(form(key).lower(), by_form, n=1, cutoff=limit):
            return by_form[near[0]]
    return None


def _last_part(key: str) -> str:
    return key.rpartition(".")[2]


def with_groups(keys: Iterable[str]) -> list[str]:
    """Dotted keys, and every group above one of them."""
    parts = (key.split(".") for key in keys)
    return list(dict.fromkeys(".".join(key[:end]) for key in parts for end in range(len(key), 0, -1)))


def value_at(node: Mapping[str, Any], dotted: str) -> Any:
    """The value at a dotted path; None where it or an object above it is absent."""
    found: Any = node
    for name in dotted.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


def object_at(node: Mapping[str, Any], dotted: str) -> Mapping[str, Any]:
    """The object at a dotted path ("": ``node`` itself); empty for anything else."""
    found = value_at(node, dotted) if dotted else node
    return found if isinstance(found, dict) else {}


def leaves(key: str, value: object) -> Iterator[str]:
    """``key``, or of an object each dotted path below it that leads to no further object; printable."""
    if isinstance(value, dict) and value and key.count(".") < _DEPTH:
        for name, item in value.items():
            yield from leaves(printable(f"{key}.{name}"), item)
    else:
        yield key
