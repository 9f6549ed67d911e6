"""The values that a knob can be set to, for trying them one by one."""

from __future__ import annotations

from openclaw_mem_engine.ranking.knobs import KNOBS, Knobs, KnobValue
from openclaw_mem_engine.why_not.changes import MOST_ROWS

#: A number with more values in a direction is tried at the end of its range alone.
_MANY = 20


def values_of(knobs: Knobs, name: str) -> list[list[KnobValue]]:
    """The other values of a knob, nearest first; of a number those below, then those above the present one. A
    higher minimum score is never proposed, nor what alone makes a pool of more rows than ``MOST_ROWS``."""
    spec, now = KNOBS[name], getattr(knobs, name)
    if spec.kind == "switch":
        return [[not now]]
    if spec.kind == "choice":
        return [[value for value in spec.choices if value != now]]
    start = float(knobs.budget if name == "snippet_budget" else now)
    ways: list[list[KnobValue]] = []
    for direction, end in ((-1, spec.low), (1, spec.high)):
        steps, at = list[KnobValue](), start
        while at != end and not (name == "min_score" and direction > 0):
            at = round(start + direction * (len(steps) + 1) * spec.step, 6)
            at = max(at, end) if direction < 0 else min(at, end)
            rows = knobs.set({name: at}).candidates
            if direction > 0 and rows > max(MOST_ROWS, knobs.candidates):
                break
            steps.append(int(at) if spec.kind == "int" else at)
        ways.append(steps if len(steps) <= _MANY else steps[-1:])
    return ways


def few_values(knobs: Knobs, name: str) -> list[KnobValue]:
    """The same in one list."""
    return [value for way in values_of(knobs, name) for value in way] or [getattr(knobs, name)]
