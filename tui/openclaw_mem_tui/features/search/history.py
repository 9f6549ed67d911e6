"""The query history, the steps of the knobs, and finding a text by a part of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from openclaw_mem_engine.api import Knobs
from openclaw_mem_engine.dataclass import dataclass

if TYPE_CHECKING:
    from openclaw_mem_tui.features.search.baseline import Pin
    from openclaw_mem_tui.features.search.remembered import Left


@dataclass(slots=True)
class History:
    """Queries in the order they were last asked, without repeats; a cursor walks it. Bounded."""

    limit: int = 200
    queries: list[str] = field(default_factory=list)
    _at: int | None = None

    def add(self, query: str) -> None:
        """Remember a query that was answered. One that only continues the last one replaces it."""
        query = query.strip()
        if not query or (self._at is not None and self.queries[self._at] == query):
            return
        self._at = None
        if self.queries and query.startswith(self.queries[-1]):
            self.queries.pop()
        if query in self.queries:
            self.queries.remove(query)
        self.queries.append(query)
        del self.queries[: -self.limit]

    def previous(self, shown: str) -> str | None:
        """The query before the one that is ``shown``, or None at the oldest. Where another one is shown, or
        none, that is the one the history is at."""
        at = len(self.queries) - 1 if self._at is None else self._at
        return self._step(at - (self.queries[at : at + 1] == [shown.strip()]))

    def next(self) -> str | None:
        return None if self._at is None else self._step(self._at + 1)

    def newer(self, shown: str) -> str | None:
        """The query after the one that is ``shown``, or None where that is not the one the history is at."""
        at = self._at
        return self.next() if at is not None and self.queries[at] == shown.strip() else None

    @property
    def position(self) -> str:
        """Where it is at, of how many."""
        at = len(self.queries) - 1 if self._at is None else self._at
        return f"query {at + 1:,} of {len(self.queries):,}"

    def _step(self, at: int) -> str | None:
        if not 0 <= at < len(self.queries):
            return None
        self._at = at
        return self.queries[at]

    def matching(self, text: str) -> list[str]:
        """Newest first; with a text, those which hold it, best first."""
        return holding(text, reversed(self.queries))


class Tried(NamedTuple):
    """What a step changes: the knobs, or the simulated faults. ``by_swap``: also the baseline, which the
    knobs were swapped with. ``cleared``: the baseline, as its pin and its knobs, which a key cleared.
    ``left``: all that there was, which starting over took away."""

    knobs: Knobs
    faults: frozenset[str]
    by_swap: bool = False
    cleared: tuple[Pin | None, Knobs | None] | None = None
    left: Left | None = None

    def differs(self, other: Tried) -> bool:
        return self[:2] != other[:2] or (self.cleared, self.left) != (None, None)

    def of_kind(self, step: Tried) -> Tried:
        """Of these the fields that such a step changes."""
        cleared, left = self.cleared if step.cleared else None, self.left if step.left else None
        return self._replace(by_swap=step.by_swap, cleared=cleared, left=left)


@dataclass(slots=True)
class Steps:
    """Knobs and faults as they were before each step, and those that were taken back. Bounded. ``written``:
    what was configured before and after this session wrote its knobs there, until it took that back."""

    limit: int = 100
    done: list[Tried] = field(default_factory=list)
    undone: list[Tried] = field(default_factory=list)
    written: tuple[Knobs, Knobs] | None = None

    def made(self, before: Tried) -> None:
        """A step was made from these."""
        self.done.append(before)
        del self.done[: -self.limit]
        self.undone.clear()

    def undo(self, now: Tried) -> Tried | None:
        """What was before the last step; None without one."""
        return self._move(self.done, self.undone, now)

    def redo(self, now: Tried) -> Tried | None:
        return self._move(self.undone, self.done, now)

    @staticmethod
    def _move(source: list[Tried], target: list[Tried], now: Tried) -> Tried | None:
        while source:
            if (step := source.pop()).differs(now):  # else that is as it was already
                target.append(now.of_kind(step))
                return step
        return None

    def forget_knobs(self, now: Tried) -> None:
        """Other knobs were set than by a step: what the steps changed of faults can still be undone, and
        starting over."""
        for steps in (self.done, self.undone):
            of_faults = [step if step.left else Tried(now.knobs, step.faults) for step in steps]
            steps[:] = [step for step, after in pairwise([*of_faults, now]) if step != after]


def holding(text: str, items: Iterable[str], keys: Mapping[str, str] = MappingProxyType({})) -> list[str]:
    """The items that hold the text: the one with this key, those of which a word starts with the text, that
    hold it, that hold it but for the blanks; else in the given order. An underscore is a blank. ``keys`` of
    an item, as they are displayed."""
    typed = " ".join(text.replace("_", " ").split())
    wanted = typed.lower()
    packed = wanted.replace(" ", "")
    starts = re.compile(rf"(?<!\w){re.escape(wanted)}")
    found = []
    for order, item in enumerate(items):
        low = item.lower().replace("_", " ")
        if typed in keys.get(item, "").split(", "):
            found.append((0, order, item))
        elif starts.search(low):
            found.append((1, order, item))
        elif wanted in low:
            found.append((2, order, item))
        elif packed in low.replace(" ", ""):
            found.append((3, order, item))
    return [item for _, _, item in sorted(found)]
