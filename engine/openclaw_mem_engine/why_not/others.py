"""What a change does to the other results, compared as the agent receives them."""

from __future__ import annotations

from collections.abc import Collection

from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.ranking.state import RankingState


class Others(NamedTuple):
    """The fields of ``Change`` with these names."""

    lost: tuple[str, ...]
    gained: tuple[str, ...]
    cuts: int
    results: tuple[int, int] | None


def others(before: RankingState, after: RankingState, wanted: Collection[str]) -> Others:
    """The difference of two answers, without the chunks that are ``wanted``. A result of packed lines is a
    file: they are compared by file where both answers are packed, else by chunk."""
    states = before, after
    packed = [state.knobs.snippet == "packed" for state in states]
    then, now = (_returned(state, by_file=all(packed)) for state in states)
    own = {at for i, at in (*then.items(), *now.items()) if i in wanted}
    lost = dict.fromkeys(at for at in then.values() if at not in {*now.values(), *own})
    gained = dict.fromkeys(at for at in now.values() if at not in {*then.values(), *own})
    cut_then, cut = ({i for i, shown in state.shown.items() if shown.best_line_cut} for state in states)
    newly = (cut & then.keys()) - cut_then - {*wanted}
    cuts = {next(n for n, one in enumerate(after.results) if i in one.chunk_ids) for i in newly}
    counts = len(before.results), len(after.results)
    differs = any(packed) != all(packed) and counts[0] != counts[1]
    return Others(tuple(lost), tuple(gained), len(cuts), counts if differs else None)


def _returned(state: RankingState, *, by_file: bool) -> dict[str, str]:
    """Where the returned passages are (``path:line``, or ``by_file``), by chunk id."""
    chunks = (state.pool.candidates[item.chunk_id] for item in state.ranked)
    return {one.chunk_id: one.path if by_file else f"{one.path}:{one.start_line}" for one in chunks}
