"""Dates for decay, and suggestions for a mistyped path."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_mem_engine.workspace.reading import suggest_paths
from openclaw_mem_engine.workspace.rules import NoteDate, note_date

DATA = Path(__file__).parents[1] / "data" / "openclaw"
GOLDENS: list[dict[str, Any]] = json.loads((DATA / "hybrid_units.json").read_text(encoding="utf-8"))["decay"][
    "paths"
]


@pytest.mark.goldens
@pytest.mark.parametrize("case", GOLDENS, ids=lambda case: case["path"])
def test_recorded_dates(case: dict[str, Any]) -> None:
    found = note_date(case["path"], "memory")
    stamp = found.epoch_seconds
    seen = (
        datetime.fromtimestamp(stamp, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z") if stamp is not None else None
    )
    assert seen == case["date"]
    assert (found.kind == "evergreen") is case["evergreen"]
    assert (found.kind == "dated") is (stamp is not None)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("memory/2026-02-30.md", "mtime"),
        ("memory/0000-01-01.md", "mtime"),
        ("memory/0099-12-31.md", "mtime"),
        ("memory/0100-01-01.md", "dated"),
        ("memory/9999-12-31.md", "dated"),
        ("memory/2024-02-29.md", "dated"),
        ("memory/2026-00-10.md", "mtime"),
        ("memory/2026-02-20.md\n", "evergreen"),
        ("memory/٢٠٢٦-٠٢-٢٠.md", "evergreen"),
        ("xmemory/2026-02-20.md", "mtime"),
        ("../notes/memory/2026-02-20.md", "dated"),
        ("a\nb/memory/2026-02-20.md", "dated"),
        ("././memory/x.md", "mtime"),
        ("", "mtime"),
    ],
)
def test_edges(path: str, kind: str) -> None:
    assert note_date(path).kind == kind


def test_transcripts_are_never_evergreen() -> None:
    assert note_date("sessions/abc.jsonl", "sessions") == NoteDate("mtime")
    assert note_date("memory/projects.md", "sessions") == NoteDate("mtime")
    assert note_date("memory/1970-01-02.md", "sessions") == NoteDate("dated", 86_400)


@given(st.dates(min_value=datetime(100, 1, 1).date()))
def test_every_day_has_its_midnight(day: Any) -> None:
    found = note_date(f"memory/{day:%Y}-{day:%m}-{day:%d}.md".replace(f"{day:%Y}", f"{day.year:04}"))
    midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
    assert found == NoteDate("dated", round((midnight - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()))


@given(st.text())
def test_any_path_has_a_kind(path: str) -> None:
    found = note_date(path)
    assert (found.epoch_seconds is None) is (found.kind != "dated")


KNOWN = [
    "MEMORY.md",
    "memory/2026-01-12.md",
    "memory/2026-01-13.md",
    "memory/projects/greenhouse.md",
    "memory/network.md",
    "memory/notes-fr.md",
    "memory/notes-zh.md",
]


@pytest.mark.parametrize(
    ("wrong", "best"),
    [
        ("memory/grenhouse.md", "memory/projects/greenhouse.md"),
        ("greenhouse", "memory/projects/greenhouse.md"),
        ("Memory.md", "MEMORY.md"),
        ("memory/netwrok.md", "memory/network.md"),
        ("memory/2026-1-12.md", "memory/2026-01-12.md"),
        ("memory/NOTES-FR.MD", "memory/notes-fr.md"),
    ],
)
def test_the_best_suggestion(wrong: str, best: str) -> None:
    assert suggest_paths(wrong, KNOWN)[0] == best


def test_suggestions_are_few_and_stable() -> None:
    assert suggest_paths("memory/notes.md", KNOWN, limit=2) == ["memory/notes-fr.md", "memory/notes-zh.md"]
    assert suggest_paths("memory/notes.md", KNOWN[::-1], limit=2) == [
        "memory/notes-fr.md",
        "memory/notes-zh.md",
    ]
    assert suggest_paths("zzzzqqqq", KNOWN) == []
    assert suggest_paths("  ", KNOWN) == suggest_paths("x", []) == suggest_paths("MEMORY.md", KNOWN, 0) == []


@given(st.text(), st.lists(st.text(max_size=30), max_size=8))
def test_suggestions_of_any_text(wrong: str, known: list[str]) -> None:
    found = suggest_paths(wrong, known)
    assert set(found) <= set(known) and len(found) == len(set(found)) <= 5


def test_rapidfuzz_is_loaded_only_when_asked() -> None:
    code = (
        "import sys\n"
        "import openclaw_mem_engine.workspace.rules, openclaw_mem_engine.workspace.reading\n"
        "import openclaw_mem_engine.workspace.listing, openclaw_mem_engine.chunking.line_chunker\n"
        "sys.exit('rapidfuzz' in sys.modules or 'numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
