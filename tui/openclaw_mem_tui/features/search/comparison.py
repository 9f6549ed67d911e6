"""The shown run against its baseline, and what answered each: plain numbers and rows, no Textual."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from openclaw_mem_engine import api
from openclaw_mem_tui.features.search.baseline import OF_NOTES, SYNCED, Baseline, Pin
from openclaw_mem_tui.features.search.state import View, against

if TYPE_CHECKING:
    from openclaw_mem_engine.api import Pool, Row, Trace

#: Stage of a row that the baseline returned and the shown run did not even find.
GONE = "gone"


class Compared(NamedTuple):
    """``same`` of ``of`` hits are returned by both runs: ``of`` counts the longer answer. ``moved`` of the
    same have another rank. ``lost`` are rows of the baseline, ``new`` rows of the shown run, each best first.
    ``unit``: what is counted. ``why``: what returns the new ones, where that is one thing."""

    same: int
    of: int
    moved: int
    lost: tuple[Row, ...]
    new: tuple[Row, ...]
    unit: str = "result"
    why: str = ""


def compared(view: View) -> Compared | None:
    """None when there is no baseline, or it is the shown run itself."""
    if view.trace is None or view.baseline is None or not view.compares:
        return None
    key = view.baseline.key
    before, now = _firsts(view.baseline, view.baseline.trace), _firsts(view.baseline, view.trace)
    ranks = {key(row): row.outcome.rank for row in now}
    kept = [row for row in before if key(row) in ranks]
    new = tuple(row for row in now if view.baseline.rank(row) is None)
    return Compared(
        len(kept),
        max(len(before), len(now)),
        sum(1 for row in kept if ranks[key(row)] != row.outcome.rank),
        tuple(row for row in before if key(row) not in ranks),
        new,
        "file" if view.baseline.by_file else "result",
        uncut(view.trace) if _uncut(view.trace, view.baseline, new) else "",
    )


def _uncut(trace: Trace, baseline: Baseline, new: Sequence[Row]) -> bool:
    """Whether the min score, which dropped the new rows in the baseline, does not apply to the shown run."""
    cut, before = baseline.trace.cut, (baseline.row(row) for row in new)
    if cut is None or trace.cut is not None:
        return False
    return all(row is not None and row.outcome.stage == cut.name for row in before)


def is_older(view: View) -> bool:
    """Whether the baseline was found in an earlier state of the index, and its name does not say so."""
    baseline, pool = view.baseline, view.pool
    return baseline is not None and baseline.name not in OF_NOTES and _index_changed(baseline.pool, pool)


def _index_changed(before: Pool | None, now: Pool | None) -> bool:
    """Whether the index of a backend changed between two answers of it."""
    if before is None or now is None or before.backend != now.backend:
        return False
    was, known = before.freshness, now.freshness
    return was is not None and known is not None and was.generation != known.generation


def synced(before: View, view: View) -> View:
    """The same asked again after a sync: the run before is the baseline where that changed a returned chunk
    (an edit gives it another id) or their order, and nothing else is compared."""
    if before.trace is None or view.trace is None or not (before.answers and view.answers):
        return view
    same = (before.query, before.knobs, before.faults) == (view.query, view.knobs, view.faults)
    if not same or before.against or before.compares or view.compares:
        return view
    was, now = ([row.chunk_id for row in trace.returned] for trace in (before.trace, view.trace))
    if was == now or not _index_changed(before.pool, view.pool):
        return view
    return against(view, Pin(before.query, before.knobs, before.trace, before.pool, before.backend, SYNCED))


def uncut(trace: Trace) -> str:
    """That the min score is not applied, and which scores of ranks are the cause."""
    cause = "RRF" if trace.knobs.fusion == "rrf" else f"{api.kinds_of(trace.lists)} only"
    return f"min score not applied ({cause})"


def _firsts(baseline: Baseline, trace: Trace) -> list[Row]:
    """What a run returned, best first; of those that compare as one, the first."""
    firsts: dict[str, Row] = {}
    for row in trace.returned:
        firsts.setdefault(baseline.key(row), row)
    return list(firsts.values())


def lost(view: View) -> list[Row]:
    """What the baseline returned and this run does not, best first, as rows of this run: without any score
    where no retriever of this run found it."""
    seen, baseline = compared(view), view.baseline
    if seen is None or baseline is None or view.trace is None:
        return []
    rows = ((row, baseline.now(row, view.trace)) for row in seen.lost)
    gone = api.Outcome(
        "dropped", stage=GONE, reason=api.unsearched(view.trace.notes) or "in no candidate list"
    )
    return [
        row._replace(scores={}, ranks={}, operands=(), outcome=gone, diversity=None) if now is None else now
        for row, now in rows
        if now is not None or view.candidate(row.chunk_id) is not None
    ]


def swaps(view: View) -> bool:
    """Whether the baseline is one of other knobs, so that the two can be swapped."""
    return (
        view.answers
        and not view.shown_faults
        and not view.other_backend
        and view.baseline_knobs != view.knobs
    )


def answered_by(pool: Pool) -> str:
    """Where the hits of a pool come from: ``vectors of static-minilm and BM25``, ``BM25 only``."""
    vector, lexical = pool.first("vector"), pool.first("lexical")
    if vector is None:
        return "BM25 only" if lexical is not None else "no retriever"
    whose = vector.space or pool.model or pool.provider
    return f"vectors of {whose} and BM25" if lexical is not None else f"vectors of {whose} only"
