"""Text of the search lab; here, what the help says about reading its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openclaw_mem_tui.widgets.help import Reading

READING: Reading = (
    "Reading the rows",
    (
        ("vec", "cosine similarity of the embeddings"),
        ("bm25", "text score, 1/(1 + keyword rank)"),
        ("fused", "both legs weighted, or places added (rrf)"),
        ("decay", "factor by the note's age"),
        ("evergreen", "no date: decay leaves it as it is"),
        ("#27", "27th in that leg, outside its candidates"),
        ("·", "leg found nothing, or stage left it alone"),
        ("▲2", "two places up against the baseline"),
        ("▼2", "two places down"),
        ("=", "the same place as in the baseline"),
        ("new", "not returned by the baseline"),
        ("out", "returned by the baseline, not now"),
        ("*", "rescued: a keyword hit below the minimum"),
        ("min", "out: below the minimum score"),
        ("max", "out: past the last result"),
        ("mmr", "out: too close to a better hit"),
        ("pool", "out: in no leg near enough to be ranked"),
        ("mode", "out: found only by a leg that is off"),
        ("gone", "out: no leg that ran found it"),
    ),
)
