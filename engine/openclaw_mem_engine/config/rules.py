"""What a setting is: one declaration per field, from which readers, listing and reference are derived."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import MISSING, field, fields, is_dataclass
from typing import Any, Literal

from openclaw_mem_engine.config.secret import shown
from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_engine.errors import ConfigError, did_you_mean
from openclaw_mem_engine.named_tuple import NamedTuple

Kind = Literal[
    "switch",
    "int",
    "number",
    "text",
    "texts",
    "path",
    "secret",
    "secrets",
    "headers",
    "url",
    "duration",
    "table",
    "tables",
    "map",
]

_KIND_NAMES: Mapping[Kind, str] = {
    "switch": "true or false",
    "int": "an integer",
    "number": "a number",
    "text": "a string",
    "texts": "a list of strings",
    "path": "a path",
    "secret": "a string (secret)",
    "secrets": "a list of strings (secret)",
    "headers": "a table of strings",
    "url": "a URL",
    "duration": "a duration (30s, 5m, 1h)",
    "table": "a table",
    "tables": "a list of tables",
    "map": "a table of strings",
}

#: Beyond this, numbers of JSON are not exact any more.
_LARGEST = 2**53


class Rule(NamedTuple):
    """``low`` and ``high`` are inclusive; ``choices`` limits a text (or each text of a list)."""

    kind: Kind
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    unit: str = ""

    @property
    def secret(self) -> bool:
        """True when a message must not repeat the value, not even a refused one."""
        return self.kind in ("secret", "secrets", "headers")

    @property
    def allowed(self) -> str:
        """The range in words, for messages and for the listing."""
        if self.choices:
            words = ", ".join(self.choices)
            return f"a list of: {words}" if self.kind == "texts" else words
        name = _KIND_NAMES[self.kind] + (f" ({self.unit})" if self.unit else "")
        if self.low is not None and self.high is not None:
            return f"{name}, {self.low:g} to {self.high:g}"
        if self.low is not None:
            return f"{name}, {self.low:g} or more"
        return name

    def fits(self, value: object) -> bool:
        if self.kind == "switch":
            return isinstance(value, bool)
        if self.kind in ("int", "number"):
            return self._fits_number(value)
        if self.kind in ("texts", "secrets"):
            return isinstance(value, list) and all(self._fits_text(item) for item in value)
        if self.kind == "duration":
            return isinstance(value, str) and seconds_of(value) is not None
        if self.kind == "table":
            return isinstance(value, dict)
        if self.kind == "tables":
            return isinstance(value, list) and all(isinstance(item, dict) for item in value)
        if self.kind in ("headers", "map"):
            return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())
        return self._fits_text(value)

    def _fits_text(self, value: object) -> bool:
        if not isinstance(value, str) or (self.choices and value not in self.choices):
            return False
        try:
            # What the operating system would refuse later, with less to say about it: NUL, lone surrogates.
            return b"\0" not in os.fsencode(value)
        except UnicodeEncodeError:
            return False

    def _fits_number(self, value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return False
        # The first comparison also keeps whole numbers away that no float can hold.
        if abs(value) > _LARGEST or not math.isfinite(value):
            return False
        whole = self.kind != "int" or value == int(value)
        return whole and (self.low is None or value >= self.low) and (self.high is None or value <= self.high)

    def clamped(self, value: Any) -> Any:
        """The nearest number that is allowed, a whole one rounded down; a value of another kind as it is."""
        if self.kind not in ("int", "number"):
            return value
        number = math.floor(value) if self.kind == "int" else float(value)
        number = number if self.low is None else max(number, self.low)
        return number if self.high is None else min(number, self.high)

    def floored(self, value: Any) -> Any:
        """A number rounded down where a whole one is asked for; other values as they are."""
        whole = self.kind == "int" and isinstance(value, float) and math.isfinite(value)
        return math.floor(value) if whole else value

    def check(self, value: object, where: str) -> object:
        """The value, with a whole ``4.0`` turned into 4 where a whole number is asked for. Raises ConfigError
        naming ``where`` (file and key, and the position in a list), the value and what is allowed."""
        if self.fits(value):
            return int(value) if self.kind == "int" else value  # type: ignore[call-overload]
        if self.kind == "texts" and isinstance(value, list):
            item = Rule("text", choices=self.choices)
            for number, text in enumerate(value):
                item.check(text, f"{where}[{number}]")
        hint = did_you_mean(value, self.choices) if isinstance(value, str) and self.choices else ""
        raise ConfigError(f"{where} is {shown(value, secret=self.secret)}; allowed: {self.allowed}.{hint}")


_UNITS = {"ms": 0.001, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0}


def seconds_of(text: str) -> float | None:
    """The length of a duration: ``30s``, ``5m``, ``5 min``, ``1h``; a bare number counts minutes, as in
    OpenClaw. None for any other text."""
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)\s*([a-z]*)", text.strip().lower())
    unit = _UNITS.get(match[2] or "m") if match else None
    return None if match is None or unit is None else float(match[1]) * unit


@dataclass(frozen=True, slots=True)
class Setting:
    """One declared setting.

    ``default`` is None for a value that is absent or computed when nothing configures it. ``openclaw`` is the
    key below ``memorySearch``; there ``foreign_rule`` replaces ``rule``, and ``foreign_default`` the default.
    ``variable`` and ``flag`` set the value too.
    """

    rule: Rule
    meaning: str
    default: Any = None
    openclaw: str = ""
    foreign_rule: Rule | None = None
    foreign_default: Any = None
    variable: str = ""
    flag: str = ""
    name: str = ""

    @property
    def openclaw_rule(self) -> Rule:
        return self.foreign_rule or self.rule


def setting(
    rule: Rule, meaning: str, default: Any = None, openclaw: str = "", *, repr: bool = True, **more: Any
) -> Any:
    """A dataclass field that is a setting; ``more`` are fields of :class:`Setting`.

    ``name`` is the last part of the key where it differs from the field's name. With ``default=MISSING`` the
    field has no default: the loader works it out. OpenClaw's default is ours unless ``foreign_default`` says
    otherwise; an empty table counts as absent there.
    """
    if default is MISSING:
        return field(repr=repr, metadata={"setting": Setting(rule, meaning, **more)})
    more.setdefault("foreign_default", default or None if isinstance(default, Mapping) else default)
    known = Setting(rule, meaning, default, openclaw, **more)
    return field(default_factory=lambda: default, repr=repr, metadata={"setting": known})


def declared(group: type, prefix: str = "") -> dict[str, Setting]:
    """The settings of a dataclass by dotted key, those of its nested dataclasses after its own."""
    found: dict[str, Setting] = {}
    nested: dict[str, Setting] = {}
    for item in fields(group):
        if (known := item.metadata.get("setting")) is not None:
            found[f"{prefix}{known.name or item.name}"] = known
        elif is_dataclass(item.default):
            nested |= declared(type(item.default), f"{prefix}{item.name}.")
    return found | nested


def name_of(entry: str) -> str:
    """The provider of an entry ``provider`` or ``provider:model`` of ``provider.also``."""
    return entry.partition(":")[0]


def model_of(entry: str) -> str:
    """The model of such an entry; empty for the one that is configured for this provider, or its default."""
    return entry.partition(":")[2]


def is_uri(model: str) -> bool:
    """True for the address of a local model, which is downloaded on demand, False for a path."""
    return model.lower().startswith(("hf:", "http:", "https:"))
