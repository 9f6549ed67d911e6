"""The bundled demo: an agent workspace with its sessions, and queries: judged ones for measuring, suggested
ones that each teach one lesson about the ranking."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

from openclaw_mem_engine.demo.workspace import ANCHOR as ANCHOR
from openclaw_mem_engine.demo.workspace import DATA, shift_dates
from openclaw_mem_engine.demo.workspace import write_demo as write_demo

Group = Literal["lesson", "ordinary", "long"]


@dataclass(frozen=True, slots=True)
class Grade:
    """A passage that answers a query. ``quote`` occurs exactly once in the file at ``path`` (relative to the
    workspace); ``grade`` is 1 (touches it), 2 (helps) or 3 (answers it)."""

    path: str
    quote: str
    grade: int


@dataclass(frozen=True, slots=True)
class JudgedQuery:
    """A query with the passages that people found relevant, for recall, MRR and nDCG. ``group``: queries of
    lessons were chosen for what they teach, ``ordinary`` ones not; answers of ``long`` ones stand late in
    long notes."""

    id: str
    group: Group
    query: str
    grades: tuple[Grade, ...]


@dataclass(frozen=True, slots=True)
class SuggestedQuery:
    """A query that teaches one lesson. ``settings`` are knob settings (``decay=on``) of the run that is
    shown, ``against`` those of the run it is compared with; both are laid over the default profile of the
    ``backend`` ("": the configured one). ``quote`` is of the passage that the lesson is about ("": the best
    one that only the other run returns)."""

    query: str
    title: str
    lesson: str
    settings: tuple[str, ...]
    against: tuple[str, ...]
    backend: str = ""
    quote: str = ""


@dataclass(frozen=True, slots=True)
class DemoQueries:
    """All queries of the demo, in the order in which they are offered."""

    judged: tuple[JudgedQuery, ...]
    suggested: tuple[SuggestedQuery, ...]


def load_queries(shift_days: int) -> DemoQueries:
    """The queries with every date moved by ``shift_days``, as ``write_demo`` moved the files."""
    text = (DATA / "queries.json").read_text(encoding="utf-8")
    raw: dict[str, Any] = json.loads(shift_dates(text, shift_days))
    judged = (
        JudgedQuery(**item | {"grades": tuple(Grade(**grade) for grade in item["grades"])})
        for item in raw["judged"]
    )
    suggested = (
        SuggestedQuery(
            item["query"],
            item["title"],
            item["lesson"],
            tuple(item["set"]),
            tuple(item["against"]),
            item.get("backend", ""),
            item.get("quote", ""),
        )
        for item in raw["suggested"]
    )
    return DemoQueries(tuple(judged), tuple(suggested))
