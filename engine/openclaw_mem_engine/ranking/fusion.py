"""From two legs to one score: text and vector values of each candidate, and how they are combined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.pool import LegKind, Pool, Signals
from openclaw_mem_engine.ranking.trace import Operand

_NO_SIGNALS = Signals()


class LegValue(NamedTuple):
    """What one leg says of one candidate: ``value`` enters the fusion, ``inputs`` are what it came from."""

    value: float
    inputs: Mapping[str, float]
    note: str = ""


#: chunk id -> value, for the candidates of which the leg says anything.
LegValues = Mapping[str, LegValue]


class Places(NamedTuple):
    """Ranks of one leg (from 1) and its raw scores, by chunk id; ``cut`` is how many rows enter the pool;
    ``space`` as in the leg."""

    kind: LegKind
    ranks: Mapping[str, int]
    raw: Mapping[str, float]
    cut: int
    space: str = ""

    def inside(self, chunk_id: str) -> bool:
        return self.ranks.get(chunk_id, self.cut + 1) <= self.cut


def text_formula(knobs: Knobs) -> str:
    """The text score as readable mathematics."""
    bm25 = f"(bm25 + {knobs.line_text:g} × best line)" if knobs.line_text else "bm25"
    return {
        "rank": "1 / (1 + rank)",
        "one": "1 for every keyword hit",
        "max": f"{bm25} / largest in the pool",
    }[knobs.text_score]


def vector_formula(knobs: Knobs) -> str:
    """The vector score as readable mathematics."""
    share = knobs.line_vector
    cosine = f"{1 - share:g} × cosine + {share:g} × best line" if share else "cosine"
    return cosine if knobs.vector_score == "cosine" else f"({cosine} − min) / (max − min) in the pool"


def text_values(pool: Pool, knobs: Knobs, places: Places, members: Sequence[str]) -> dict[str, LegValue]:
    """Text values of the pool's members. With ``rank`` and ``one`` only rows inside the candidate cut count;
    with ``max`` every member with a bm25 does (when ``fill_missing`` has supplied it)."""
    if knobs.text_score == "max":
        mixed = {}
        for chunk_id in members:
            signals = pool.signals.get(chunk_id, _NO_SIGNALS)
            bm25 = _raw(places, chunk_id, signals.bm25, knobs)
            if bm25 is not None:
                line = signals.line_bm25 or 0.0
                mixed[chunk_id] = (bm25 + knobs.line_text * line, bm25, line)
        top = max((m[0] for m in mixed.values()), default=0.0)
        return {
            chunk_id: LegValue(
                total / top if top > 0 else 0.0,
                {"bm25": bm25, "line": line, "line_share": knobs.line_text, "max": top},
            )
            for chunk_id, (total, bm25, line) in mixed.items()
        }
    values = {}
    for chunk_id in members:
        if places.inside(chunk_id):
            rank = places.ranks[chunk_id]
            value = 1.0 if knobs.text_score == "one" else 1.0 / (1.0 + rank)
            values[chunk_id] = LegValue(value, {"rank": rank, "bm25": places.raw[chunk_id]})
    return values


def vector_values(pool: Pool, knobs: Knobs, places: Places, members: Sequence[str]) -> dict[str, LegValue]:
    """Vector values of the pool's members: cosine with the best line's share, as it is or spread."""
    mixed = {}
    for chunk_id in members:
        signals = pool.signals.get(chunk_id, _NO_SIGNALS)
        cosine = _raw(places, chunk_id, signals.cosine, knobs)
        if cosine is not None:
            # Without a line vector the chunk speaks for its lines, so that the share changes nothing.
            line = cosine if signals.line_cosine is None else signals.line_cosine
            mixed[chunk_id] = ((1 - knobs.line_vector) * cosine + knobs.line_vector * line, cosine, line)
    if knobs.vector_score == "cosine":
        return {
            chunk_id: LegValue(total, {"cosine": cosine, "line": line, "line_share": knobs.line_vector})
            for chunk_id, (total, cosine, line) in mixed.items()
        }
    low = min((m[0] for m in mixed.values()), default=0.0)
    high = max((m[0] for m in mixed.values()), default=0.0)
    spread = high - low
    return {
        chunk_id: LegValue(
            (total - low) / spread if spread > 0 else 0.0,
            {"cosine": cosine, "line": line, "line_share": knobs.line_vector, "min": low, "max": high},
        )
        for chunk_id, (total, cosine, line) in mixed.items()
    }


def _raw(places: Places, chunk_id: str, filled: float | None, knobs: Knobs) -> float | None:
    """The leg's raw score of a candidate: its row inside the cut, or (``fill_missing``) the true score."""
    if places.inside(chunk_id):
        return places.raw[chunk_id]
    if not knobs.fill_missing:
        return None
    return places.raw.get(chunk_id, filled)


def operands_of(
    chunk_id: str,
    legs: Sequence[tuple[Places, LegValues, float]],
    knobs: Knobs,
) -> tuple[Operand, ...]:
    """The additive operands of one candidate: for each leg ``value × weight`` (weighted), or
    ``1/(k + rank)`` with weight 1 (RRF; Cormack, Clarke and Büttcher, 2009). A leg that does not know the
    candidate adds 0 and says why."""
    made = []
    for places, values, weight in legs:
        label = "vector" if places.kind == "vector" else "text"
        rank = places.ranks.get(chunk_id)
        if knobs.fusion == "rrf":
            if places.inside(chunk_id) and rank is not None:
                made.append(
                    Operand(
                        "fusion",
                        label,
                        "add",
                        1.0 / (knobs.rrf_k + rank),
                        1.0,
                        {"rank": rank, "k": knobs.rrf_k},
                    )
                )
            else:
                made.append(Operand("fusion", label, "add", 0.0, 1.0, {}, _absence(places, rank)))
            continue
        known = values.get(chunk_id)
        if known is not None:
            made.append(Operand("fusion", label, "add", known.value, weight, known.inputs, known.note))
        else:
            made.append(Operand("fusion", label, "add", 0.0, weight, {}, _absence(places, rank)))
    return tuple(made)


def _absence(places: Places, rank: int | None) -> str:
    if rank is not None:
        return f"rank {rank}, cut at {places.cut}"
    return "no word matched" if places.kind == "lexical" else "not among the nearest"
