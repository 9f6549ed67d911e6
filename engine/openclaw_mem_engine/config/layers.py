"""Values with their origins, and one set of them laid over another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar

from openclaw_mem_engine.config.placeholders import absolute, fill_placeholders
from openclaw_mem_engine.config.settings import Origin

T = TypeVar("T")

#: Origins whose texts may hold ``${NAME}``; a shell has already done its own work on flags and variables.
_WITH_PLACEHOLDERS = ("openclaw", "toml")


class Entry(NamedTuple):
    """One configured value, as it stands in its source. ``base`` is where a relative path starts."""

    value: object
    origin: Origin
    base: Path | None = None

    def __repr__(self) -> str:
        # Headers and addresses may hold credentials.
        return f"Entry({self.origin.where})"


class Layer:
    """The values that one source gives (a file, the environment, the flags), by key of :mod:`.keys`."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}

    def put(self, key: str, entry: Entry) -> None:
        self._entries[key] = entry

    def entry(self, key: str) -> Entry | None:
        return self._entries.get(key)

    def drop(self, key: str) -> None:
        self._entries.pop(key, None)

    def under(self, prefix: str) -> Iterator[tuple[str, Entry]]:
        """The entries whose key begins with ``prefix``, without it."""
        for key, entry in self._entries.items():
            if key.startswith(prefix):
                yield key.removeprefix(prefix), entry

    def __contains__(self, key: str) -> bool:
        return key in self._entries


_WEIGHTS = ("query.vector_weight", "query.text_weight")


def merged(layers: Iterable[Layer]) -> Layer:
    """One layer out of many, lowest first: a later one wins key by key."""
    result = Layer()
    for layer in layers:
        if any(key in layer for key in _WEIGHTS):
            # The two weights are one decision: a single new one must not be paired with an old other one.
            for key in _WEIGHTS:
                result.drop(key)
        for key, entry in layer.under(""):
            result.put(key, entry)
    return result


class Chosen:
    """Takes typed values out of the merged layer and notes the origin of each.

    Placeholders are filled here and not earlier: one whose variable is not set does no harm as long as a
    higher layer gives another value. All methods raise ConfigError when such a value is needed after all.
    """

    __slots__ = ("_environ", "_home", "_layer", "origins")

    def __init__(self, layer: Layer, environ: Mapping[str, str], home: Path) -> None:
        self._layer = layer
        self._environ = environ
        self._home = home
        self.origins: dict[str, Origin] = {}

    def value(self, key: str, kind: type[T], default: T) -> T:
        """The configured value of ``key``, or ``default``. The readers of the layers have checked types."""
        entry = self._layer.entry(key)
        if entry is None:
            self.origins[key] = Origin("default", "built in")
            return default
        self.origins[key] = entry.origin
        return self.typed(entry, kind)

    def typed(self, entry: Entry, kind: type[T]) -> T:
        """The value of an entry with its placeholders filled."""
        value = entry.value
        if entry.origin.kind in _WITH_PLACEHOLDERS:
            value = self._filled(value, entry.origin.where)
        if not isinstance(value, kind):
            raise TypeError(f"{entry.origin.where}: {kind.__name__} expected")
        return value

    def text(self, key: str) -> str | None:
        """A text that may be absent; a blank one counts as absent."""
        return self.value(key, str, "").strip() or None

    def path(self, key: str, default: Path) -> Path:
        """A path, made absolute from where its source stands."""
        return self.place(key, self.text(key), Path("/")) or default

    def place(self, key: str, text: str | None, base: Path) -> Path | None:
        """The path that ``text``, the value of ``key``, names; ``base`` is for sources without a folder."""
        entry = self._layer.entry(key)
        if entry is None or text is None:
            self.origins[key] = Origin("default", "built in")
            return None
        return absolute(text, entry.base or base, self._home)

    def _filled(self, value: object, where: str) -> object:
        if isinstance(value, str):
            return fill_placeholders(value, self._environ, where)
        if isinstance(value, tuple):
            return tuple(self._filled(item, where) for item in value)
        if isinstance(value, dict):
            return {name: self._filled(item, f"{where}.{name}") for name, item in value.items()}
        return value
