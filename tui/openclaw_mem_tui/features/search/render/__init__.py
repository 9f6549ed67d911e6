"""Text of the search lab; here, what the help says about reading its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openclaw_mem_tui.widgets.dialogs import Reading

READING: Reading = (
    "Reading the rows",
    (
        ("vec", "cosine similarity of the embeddings"),
        ("bm25", "text score, 1/(1 + keyword rank)"),
        ("fused", "both lists weighted, or ranks added (rrf)"),
        ("decay", "factor by the note's age"),
        ("evergreen", "no date: decay does not change it"),
        ("#27", "27th in that list, outside its candidates"),
        ("·", "not found, or not changed by the stage"),
        ("▲2", "two ranks up against the baseline"),
        ("▼2", "two ranks down"),
        ("=", "the same rank as in the baseline"),
        ("new", "not returned by the baseline"),
        ("out", "returned by the baseline, not now"),
        ("*", "rescued: a keyword hit below the minimum"),
        ("min", "out: below the minimum score"),
        ("max", "out: past the last result"),
        ("mmr", "out: too close to a better hit"),
        ("pool", "out: in no list near enough to be ranked"),
        ("mode", "out: found only by a retriever that is off"),
        ("gone", "out: no retriever that ran found it"),
    ),
)
