"""What ``rank()`` costs: the default pool, 400 candidates with MMR, and one step of a knob.

    uv run python benchmarks/ranking.py [--rounds 25]

Baseline: the textbook MMR loop over the same candidates with Python sets, which compares every candidate with
every chosen one, again for each pick. Both must choose the same hits, or the run stops with an error.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle

from _bench import LAST_DAY_S, Goal, ZipfText, given, in_turn, made_up_words, print_times

from openclaw_mem_engine.model import snippet_of
from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.pipeline import rank
from openclaw_mem_engine.ranking.pool import (
    OVERFETCH,
    Candidate,
    CandidateList,
    DateKind,
    ListRow,
    Pool,
    Signal,
)
from openclaw_mem_engine.ranking.profiles import DOCUMENTED, WORKBENCH
from openclaw_mem_engine.ranking.stages.mmr import mmr_order, token_bitsets, unicode_tokens
from openclaw_mem_engine.ranking.trace import Row

DAY_S = 86_400


def made_pool() -> Pool:
    """Two full lists without a common chunk: 400 candidates of 1,600 characters, some near-duplicates."""
    text = ZipfText(made_up_words(ZipfText(["seed"]).draw, 5_000))
    candidates: dict[str, Candidate] = {}
    for number in range(2 * OVERFETCH):
        body = text.lines(1_600)
        if number % 8 == 7:  # repeats most of its neighbour, as daily logs do
            body = f"{text.line()}\n{candidates[f'{number - 1:064}'].text}"
        date = LAST_DAY_S - number * DAY_S if number % 3 else None
        path = f"memory/note-{number}.md"
        kind: DateKind = "evergreen" if date is None else "dated"
        candidates[f"{number:064}"] = Candidate(f"{number:064}", path, 1, 30, body, "memory", date, kind)
    ids = list(candidates)
    nearest = tuple(ListRow(ids[at], 0.9 - at * 0.003) for at in range(OVERFETCH))
    matching = tuple(ListRow(ids[OVERFETCH + at], 12.0 - at * 0.05) for at in range(OVERFETCH))
    lists = (
        CandidateList("vector", "vector", "words", nearest, space_number=0),
        CandidateList("bm25", "lexical", '"words"', matching),
    )
    lines = {key: candidate.text.count("\n") + 1 for key, candidate in candidates.items()}
    signals = {
        "bm25": {key: Signal(5.0, tuple(at % 7 / 2 for at in range(lines[key]))) for key in ids},
        "vector": {key: Signal(0.4, tuple(at % 5 / 10 for at in range(lines[key]))) for key in ids},
    }
    return Pool("words", lists, candidates, float(LAST_DAY_S), signals)


def afresh(pool: Pool, knobs: Knobs) -> None:
    """Rank as right after a retrieval: nothing remembered of an earlier ranking."""
    explained(replace(pool, memo={}), knobs)


def explained(pool: Pool, knobs: Knobs) -> list[Row]:
    """Rank and read every row: the workbench reads those in sight."""
    return [*rank(pool, knobs).rows]


def textbook_mmr(scores: Sequence[float], texts: Sequence[str], lam: float, picks: int) -> list[int]:
    """Carbonell and Goldstein's loop as one would write it down."""
    words = [unicode_tokens(snippet_of(text)) for text in texts]
    low, high = min(scores), max(scores)
    left, chosen = list(range(len(scores))), list[int]()

    def value(index: int) -> tuple[float, float, int]:
        alike = 0.0
        for other in chosen:
            union = len(words[index] | words[other])
            alike = max(alike, len(words[index] & words[other]) / union if union else 1.0)
        relevance = (scores[index] - low) / (high - low)
        return lam * relevance - (1 - lam) * alike, scores[index], -index

    while left and len(chosen) < picks:
        best = max(left, key=value)
        chosen.append(best)
        left.remove(best)
    return chosen


def same_choice(pool: Pool, scores: Sequence[float], texts: Sequence[str], picks: int) -> bool:
    sets = token_bitsets(pool, "unicode", list(pool.candidates))
    ours = [selected.position for selected in mmr_order(scores, sets, 0.7)]
    return ours[:picks] == textbook_mmr(scores, texts, 0.7, picks)


def main() -> int:
    options = given(rounds=25)
    pool = made_pool()
    everything = DOCUMENTED.set({"decay": True, "mmr": True, "pool_results": 200})
    default_mmr = DOCUMENTED.set({"decay": True, "mmr": True})
    unpacked = WORKBENCH.set({"snippet": "head"})
    steps = cycle([everything.set({"mmr_lambda": 0.65}), everything.set({"mmr_lambda": 0.7})])
    weights = cycle([DOCUMENTED.set({"vector_weight": 0.65}), DOCUMENTED])

    texts = [candidate.text for candidate in pool.candidates.values()]
    scores = [1.0 / (1 + at) for at in range(len(texts))]
    if not same_choice(pool, scores, texts, 24):
        print("mmr_order and the textbook loop choose differently", file=sys.stderr)
        return 1
    calls = {
        "textbook MMR, 400 candidates, 6 picks": lambda: textbook_mmr(scores, texts, 0.7, 6),
        "default pool": lambda: afresh(pool, DOCUMENTED),
        "default pool, results alone": lambda: rank(replace(pool, memo={}), DOCUMENTED),
        "default pool, decay and MMR": lambda: afresh(pool, default_mmr),
        "workbench profile": lambda: afresh(pool, WORKBENCH),
        "workbench profile without packing": lambda: afresh(pool, unpacked),
        "400 candidates, decay and MMR": lambda: afresh(pool, everything),
        "knob step: a weight, default pool": lambda: explained(pool, next(weights)),
        "knob step: λ, 400 candidates": lambda: explained(pool, next(steps)),
    }
    goals = {
        "default pool": Goal("CPU", 2),
        "workbench profile": Goal("CPU", 10),
        "400 candidates, decay and MMR": Goal("CPU", 16),
        "knob step: a weight, default pool": Goal("CPU", 20),
        "knob step: λ, 400 candidates": Goal("CPU", 20),
    }
    times = in_turn(calls, options.rounds)
    print_times(
        f"rank(), pool of {len(pool.candidates)}", times, "textbook MMR, 400 candidates, 6 picks", goals
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
