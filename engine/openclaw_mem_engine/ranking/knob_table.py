"""Range, step and meaning of every knob, in one table: for parsing, for help, and for the knob panel."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

from openclaw_mem_engine.errors import UsageError

KnobValue = str | int | float | bool


@dataclass(frozen=True, slots=True)
class KnobSpec:
    """Range, steps and meaning of one knob. ``low``/``high`` are inclusive; ``step``/``leap`` are the small
    and large change of a key press; ``free`` is True where a change needs no new retrieval."""

    name: str
    kind: Literal["choice", "int", "float", "switch"]
    help: str
    choices: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 1.0
    step: float = 0.05
    leap: float = 0.2
    free: bool = True

    @property
    def allowed(self) -> str:
        if self.kind == "switch":
            return "on or off"
        if self.kind == "choice":
            return ", ".join(self.choices)
        return f"{self.low:g} to {self.high:g}" + (", a whole number" if self.kind == "int" else "")

    def parse(self, value: object) -> KnobValue:
        """The typed value of a setting. Raises UsageError."""
        if self.kind == "switch":
            if isinstance(value, bool):
                return value
            word = str(value).strip().lower()
            if word in ("on", "true", "yes", "1"):
                return True
            if word in ("off", "false", "no", "0"):
                return False
            raise self._refuse(value)
        if self.kind == "choice":
            word = str(value).strip().lower()
            if word in self.choices:
                return word
            raise self._refuse(value)
        return self._parse_number(value)

    def _parse_number(self, value: object) -> KnobValue:
        if isinstance(value, bool):
            raise self._refuse(value)
        try:
            number = float(value) if isinstance(value, (int, float)) else float(str(value).strip())
        except (ValueError, OverflowError):
            raise self._refuse(value) from None
        if not math.isfinite(number) or not self.low <= number <= self.high:
            raise self._refuse(value)
        if self.kind == "int":
            if number != int(number):
                raise self._refuse(value)
            return int(number)
        return number

    def _refuse(self, value: object) -> UsageError:
        return UsageError(f"{self.name} cannot be {value!r}: allowed is {self.allowed}.")

    def nudge(self, value: KnobValue, direction: int, large: bool = False) -> KnobValue:
        """The next value in a direction (+1, -1): the other switch position, the next choice, a step up."""
        if self.kind == "switch":
            return not value
        if self.kind == "choice":
            place = (self.choices.index(str(value)) + direction) % len(self.choices)
            return self.choices[place]
        step = self.leap if large else self.step
        moved = min(self.high, max(self.low, float(value) + direction * step))
        return int(moved) if self.kind == "int" else round(float(moved), 6)


#: The vector legs of a pool by number: an index can hold vectors of several embedders.
SPACES = ("primary", "second", "third")

KNOBS: Mapping[str, KnobSpec] = {
    item.name: item
    for item in (
        KnobSpec("mode", "choice", "which legs take part", ("hybrid", "bm25", "vector")),
        KnobSpec(
            "vector_space", "choice", "whose vectors count, when the index holds several", SPACES, free=False
        ),
        KnobSpec("fusion", "choice", "how the legs become one score", ("weighted", "rrf")),
        KnobSpec("vector_weight", "float", "share of the vector score in weighted fusion"),
        KnobSpec("text_weight", "float", "share of the text score in weighted fusion"),
        KnobSpec("rrf_k", "int", "rank constant of RRF: 1 / (k + rank)", low=1, high=1000, step=5, leap=20),
        KnobSpec("decay", "switch", "older dated notes count less"),
        KnobSpec(
            "half_life_days", "float", "age at which a score is halved", low=1, high=3650, step=5, leap=30
        ),
        KnobSpec("mmr", "switch", "prefer hits that differ from those already chosen"),
        KnobSpec("mmr_lambda", "float", "1 is pure relevance, 0 pure diversity"),
        KnobSpec("min_score", "float", "hits below this are cut"),
        KnobSpec(
            "keyword_rescue",
            "choice",
            "keep keyword hits that the cut would lose",
            ("off", "when-empty", "fill"),
        ),
        KnobSpec("max_results", "int", "how many hits the agent gets", low=1, high=200, step=1, leap=5),
        KnobSpec(
            "candidate_multiplier",
            "int",
            "candidates a leg = max results × this",
            low=1,
            high=20,
            step=1,
            leap=4,
        ),
        KnobSpec(
            "pool_results",
            "int",
            "size the pool for at least so many results",
            low=1,
            high=200,
            step=1,
            leap=5,
        ),
        KnobSpec(
            "text_score",
            "choice",
            "bm25 as 1/(1+rank), 1 for all, or share of the best",
            ("rank", "one", "max"),
        ),
        KnobSpec("vector_score", "choice", "cosine as it is, or spread from 0 to 1", ("cosine", "minmax")),
        KnobSpec("mmr_tokens", "choice", "words that MMR compares", ("unicode", "ascii")),
        KnobSpec(
            "lexical_form",
            "choice",
            "any word (or) or every word (and) must match",
            ("or", "and"),
            free=False,
        ),
        KnobSpec(
            "lexical_index",
            "choice",
            "stemmed words and CJK bigrams, or plain words",
            ("stemmed", "plain"),
            free=False,
        ),
        KnobSpec("line_text", "float", "how much the best line's bm25 adds", free=False),
        KnobSpec("line_vector", "float", "share of the best line's cosine", free=False),
        KnobSpec("fill_missing", "switch", "score a hit of one leg on the other too", free=False),
    )
}


def spec(name: str) -> KnobSpec:
    """The table entry of a knob. Raises UsageError with the nearest known names."""
    try:
        return KNOBS[name]
    except KeyError:
        near = get_close_matches(name, [*KNOBS, "profile"], 3, 0.5)
        hint = f" Did you mean {', '.join(near)}?" if near else ""
        raise UsageError(f"There is no knob {name!r}.{hint} Known: profile, {', '.join(KNOBS)}.") from None


def parse_settings(texts: list[str]) -> dict[str, str]:
    """``["decay=on", "min_score=0.2"]`` as a mapping. Raises UsageError for a text without ``=``."""
    settings: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"{text!r} is not a setting: write knob=value, for example decay=on.")
        settings[name.strip()] = value.strip()
    return settings
