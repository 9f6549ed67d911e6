"""By what a change returns a passage, where that is not its own score: such a change is fragile."""

from __future__ import annotations

from collections.abc import Collection
from math import nan

from openclaw_mem_engine.ranking.trace import Row, Trace
from openclaw_mem_engine.sanitize import apart

#: Scores that differ by less are equal: only rounding tells them apart.
_EQUAL = 1e-9


def means(trace: Trace, chunk_ids: Collection[str], rank: int) -> str:
    """How the result ``rank`` (from 1), which holds one of the chunks, was returned: by keyword rescue, or by
    a tie with what is not returned; empty where its own score returns it."""
    held = {*trace.results[rank - 1].chunk_ids} & {*chunk_ids} if rank else set[str]()
    row = next((row for row in trace.returned if row.chunk_id in held), None)
    if row is None or row.final is None:
        return ""
    if row.outcome.rescued:
        least = trace.knobs.min_score
        none = all(other.outcome.rescued for other in trace.returned)
        own = f"although its score {apart(row.final, least, trace.knobs.digits)} is below"
        low = "as no score reaches" if none else own
        return f"keyword rescue returns it, {low} min score {least:g}"
    if many := _tied(trace, row):
        others = "candidate" if many == 1 else "candidates"
        return f"a tie-break returns it: {many} {others} with the same score {_are(many)} not returned"
    return ""


def _tied(trace: Trace, row: Row) -> int:
    """How many candidates that rank decides about have what the row has, and are dropped."""
    many, own = 0, _decisive(trace, row)
    by_rank = {stage.name for kind in ("count", "order") for stage in trace.of_kind(kind)}
    for other in trace.unreturned:  # nearest to being returned first
        if other.outcome.stage == "snippet":
            continue
        equal = zip(own, _decisive(trace, other), strict=True)
        if other.outcome.stage not in by_rank or not all(abs(a - b) <= _EQUAL for a, b in equal):
            break
        many += 1
    return many


def _decisive(trace: Trace, row: Row) -> tuple[float, ...]:
    """The numbers that decide its rank, and the score that decides where they are equal. A stage that it did
    not reach gave none: NaN, which equals nothing."""
    names = (*(stage.name for stage in trace.of_kind("order")), "final")
    return tuple(row.scores.get(name, nan) for name in names)


def _are(many: int) -> str:
    return "is" if many == 1 else "are"
