"""What tries are made with: pools, the values of a number knob in one direction and the first of them that
helps; tries without pauses."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import ceil
from typing import Protocol

from openclaw_mem_engine.ranking.knobs import KNOBS, Knobs, KnobSpec, KnobValue
from openclaw_mem_engine.ranking.pipeline import to_rerank
from openclaw_mem_engine.ranking.pool import Pool

#: Values before the first that helps, which are tried to see that none of them does.
_CHECKED = 5


class Pools(Protocol):
    """The pools of one query. All methods may read an index and raise Cancelled."""

    def pool(self, knobs: Knobs) -> Pool:
        """The lists for knobs, the same object for the same lists, and no signals."""

    def complete(self, knobs: Knobs) -> Pool:
        """The same pool with its signals."""

    def same(self, knobs: Knobs) -> Knobs:
        """Other knobs that are known to give the same answer, or these."""


def steps_of(spec: KnobSpec, start: float, direction: int) -> list[KnobValue]:
    """The values of a number knob from ``start``, without it, step by step to the end of its range."""
    end = spec.low if direction < 0 else spec.high
    count = ceil(abs(end - start) / spec.step - 1e-9)
    numbers = (start + direction * at * spec.step for at in range(1, count + 1))
    inside = (min(spec.high, max(spec.low, number)) for number in numbers)
    return [int(number) if spec.kind == "int" else round(number, 6) for number in inside]


def hundredths(start: KnobValue, end: KnobValue) -> Iterator[float]:
    """The values with two digits between a number and a smaller one, without both, the largest first."""
    first, last = ceil(float(start) * 100 - 1e-9) - 1, int(float(end) * 100 + 1e-9)
    return (hundred / 100 for hundred in range(first, last, -1))


def first_that(count: int, helps: Callable[[int], bool]) -> int | None:
    """The first of ``count`` steps that helps: steps 1, 4, 16 … away and the last, then bisection. What helps
    need not go on helping: some of the steps before are tried too."""
    probes: list[int] = sorted({0, 3, 15, 63, 255, count - 1} & {*range(count)})
    best = next((at for at in probes if helps(at)), None)
    while best is not None:
        low, high = max((at for at in probes if at < best), default=-1), best
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if helps(middle) else (middle, high)
        stride = max(1, -(-high // _CHECKED))
        earlier = next((at for at in range(0, high, stride) if helps(at)), None)
        if earlier is None:
            return high
        best = earlier
    return None


@contextmanager
def no_collections() -> Iterator[None]:
    """Without the cyclic garbage collector: tries are freed without it, and it would walk through all lines
    of the pools again and again, a quarter of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def is_scored(pool: Pool, knobs: Knobs) -> bool:
    """Whether the pool has the rerank scores that a search with these knobs would have."""
    if pool.rerank_missing and not pool.rerank_scores:
        return True  # that search would get none either
    return all(chunk_id in pool.rerank_scores for chunk_id in to_rerank(pool, knobs))


def room(knobs: Knobs) -> tuple[int, int]:
    """How many candidates of each list, and how many fused ones, can go on."""
    return knobs.candidates, knobs.candidate_limit or int(KNOBS["candidate_limit"].high) + 1


def ways(name: str) -> Sequence[int]:
    """The directions in which a number is tried: a higher minimum score is no way to get a passage."""
    return (-1,) if name == "min_score" else (-1, 1)
