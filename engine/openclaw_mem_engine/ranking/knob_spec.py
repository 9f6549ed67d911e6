"""One knob as data: its kind, range, steps and meaning."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import field
from typing import Any, Literal, TypeVar

from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_engine.errors import UsageError, did_you_mean

KnobValue = str | int | float | bool
_T = TypeVar("_T", bound=KnobValue)

#: Key of the :class:`KnobSpec` in the metadata of a field of ``Knobs``.
SPEC = "knob"

_WRITTEN = {word.lower(): word for word in ("BM25", "MMR", "RRF")} | {
    "half_life_days": "half-life in days",
}
_SWITCH = dict.fromkeys(("on", "true", "yes", "1"), True) | dict.fromkeys(("off", "false", "no", "0"), False)


@dataclass(frozen=True, slots=True)
class KnobSpec:
    """Range, steps and meaning of one knob. ``low``/``high`` are inclusive; ``step``/``leap`` are the small
    and large change of a key press; ``free`` is True where a change needs no new retrieval. ``needs`` are
    settings of other knobs without which this one has no effect: ``knob=value`` or ``knob=one|other``;
    ``zero`` is the other name of 0 where that is no number: ``none``, ``auto``. ``means`` says of each choice
    what it is, where its name does not."""

    name: str
    kind: Literal["choice", "int", "float", "switch"]
    help: str
    choices: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 1.0
    step: float = 0.05
    leap: float = 0.2
    free: bool = True
    needs: tuple[str, ...] = ()
    zero: str = ""
    means: tuple[str, ...] = ()

    @property
    def allowed(self) -> str:
        if self.kind == "switch":
            return "on or off"
        if self.kind == "choice":
            return ", ".join(self.choices)
        if self.kind == "float":
            return f"{self.low:g} to {self.high:g}"
        named = f" ({self.zero})" if self.zero else ""
        return f"{self.low:,.0f}{named} to {self.high:,.0f}, an integer"

    @property
    def explained(self) -> str:
        """``allowed``, with what the choices mean."""
        pairs = zip(self.choices, self.means, strict=True) if self.means else ()
        return ", ".join(f"{choice} ({means})" for choice, means in pairs) or self.allowed

    def says(self, value: KnobValue) -> str:
        """What the knob does, and what a choice of it means; of a switch that is off, what it would do."""
        if self.kind == "switch" and not value:
            return f"when on, {self.help}"
        return f"{self.help}: {self.meant(value)}" if self.means else self.help

    def meant(self, value: KnobValue) -> str:
        """What a choice is, of a knob that says so of each."""
        return self.means[self.choices.index(str(value))]

    def meaning(self, value: KnobValue) -> str:
        """What a value means where the number does not say it; empty for any other."""
        return "" if value else self.zero

    def parse(self, value: object, name: str = "") -> KnobValue:
        """The typed value of a setting, which an error calls ``name`` or else as the knob. Raises
        UsageError."""
        word = str(value).strip().lower()
        if self.zero and word == self.zero:
            return 0
        if self.kind == "switch":
            if word in _SWITCH:
                return _SWITCH[word]
        elif self.kind == "choice":
            if word in self.choices:
                return word
        else:
            with suppress(ValueError):  # also of True, which is no number here
                number = float(word)
                if self.low <= number <= self.high and (self.kind == "float" or number.is_integer()):
                    return number if self.kind == "float" else int(number)
        hint = did_you_mean(word, self.choices)
        raise UsageError(f"{name or self.name} is {value!r}; allowed: {self.allowed}.{hint}")

    def nudge(self, value: KnobValue, direction: int, large: bool = False) -> KnobValue:
        """The next value in a direction (+1, -1): the other switch position, the next choice, a step up."""
        if self.kind == "switch":
            return not value
        if self.kind == "choice":
            return self.choices[(self.choices.index(str(value)) + direction) % len(self.choices)]
        step = self.leap if large else self.step
        moved = min(self.high, max(self.low, float(value) + direction * step))
        return int(moved) if self.kind == "int" else round(float(moved), 6)


def knob_words(name: str) -> str:
    """The name of a knob as texts write it: ``BM25 weight``."""
    return _WRITTEN.get(name) or " ".join(_WRITTEN.get(word, word) for word in name.split("_"))


def value_text(value: KnobValue) -> str:
    """A value as it is written in a setting; switches are on or off."""
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def knob(default: _T, help: str, **details: Any) -> _T:
    """A field of ``Knobs``: its default, meaning, and those details of :class:`KnobSpec` that differ from
    the usual. The kind follows from the default, the choices from the annotation."""
    kinds: dict[type, Literal["choice", "int", "float", "switch"]]
    kinds = {bool: "switch", int: "int", float: "float", str: "choice"}
    details = {"kind": kinds[type(default)], **details}
    return field(default=default, metadata={SPEC: KnobSpec("", help=help, **details)})


def parse_settings(texts: Sequence[str], form: str = "NAME=VALUE, for example decay=on") -> dict[str, str]:
    """``["decay=on", "min_score=0.2"]`` as a mapping. Raises UsageError for a text that has not this form."""
    settings: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"{text!r} is not {form}.")
        settings[name.strip()] = value.strip()
    return settings
