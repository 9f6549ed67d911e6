"""A trace in words: the arithmetic can be done again by hand, and a report interprets nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from openclaw_mem_engine.cli.tables import closing
from openclaw_mem_engine.explain import (
    arithmetic,
    diversity,
    fenced,
    inline,
    plain,
    stage_name,
    trace_markdown,
)
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.ranking.profiles import changed
from support.memories import open_memory, write_notes

NOTES = {
    "MEMORY.md": "# Facts\n\nThe zeppelin hangar is behind the door.\n",
    "memory/2026-02-20.md": "# 2026-02-20\n\nThe zeppelin moved to hangar 40.\nzeppelin zeppelin\n",
    "memory/2025-08-25.md": "# 2025-08-25\n\nRain all day, airships stay inside.\n",
    "memory/hostile.md": "zeppelin | <b>bold</b>\n````\n# heading \x1b[31m\n",
}
SETTINGS = [
    {},
    {"decay": "on"},
    {"decay": "on", "mmr": "on"},
    {"fusion": "rrf"},
    {"mode": "bm25"},
    {"mode": "vector", "decay": "on"},
    {"profile": "workbench", "mmr": "on"},
    {"profile": "openclaw-2026.2"},
]

#: Each printed number is rounded.
NEAR = 0.006

_TERM = re.compile(
    r"(?:vector|BM25) (?P<value>-?[\d.]+)(?: \[(?P<made>.*?)\])?"
    r"(?: × (?P<weight>[\d.]+) = (?P<product>[-\d.]+))?"
)


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    memory = open_memory(
        write_notes(tmp_path / "workspace", NOTES), tmp_path / "home", clock=lambda: 1_772_000_000.0
    )
    memory.sync()
    return memory


def calculated(text: str) -> float:
    """The value of printed arithmetic (ours, so it may be evaluated)."""
    text = re.sub("(low|high)est ", "", text.replace("×", "*").replace("−", "-"))
    assert re.fullmatch(r"[\d.e+*/() -]+", text), text
    return float(eval(text))


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_printed_arithmetic_is_right_to_the_last_digit_but_one(
    memory: Memory, settings: dict[str, str]
) -> None:
    answer = memory.search("zeppelin hangar", changed(memory.knobs, settings))
    ranked = [row for row in answer.trace.rows if row.final is not None]
    assert ranked
    for row in ranked:
        text = arithmetic(row, answer.trace)
        lists = sum(operand.stage == "fusion" for operand in row.operands)
        sums, _, rest = text.partition(f"  → {'fused' if lists > 1 else 'score'} ")
        total = 0.0
        for term in sums.split("  +  "):
            found = _TERM.fullmatch(term.partition(" (")[0] if " 0 (" in term else term)
            assert found, term
            value = float(found["value"])
            if found["made"]:
                assert calculated(found["made"]) == pytest.approx(value, abs=NEAR)
            if found["weight"]:
                assert value * float(found["weight"]) == pytest.approx(float(found["product"]), abs=NEAR)
            total += float(found["product"] or value)
        for number, *_ in re.findall(r"× decay (\d\.\d+)( \([^)]*\))? = ([\d.]+)", rest):
            total *= float(number)
        for number, age in re.findall(r"× decay (\d\.\d+) \(([\d.]+) days", rest):
            half_life = answer.trace.knobs.half_life_days
            assert f"{0.5 ** (float(age) / half_life):.3f}" == number, (
                "the age that is shown gives the factor"
            )
        if row.diversity is not None:
            relevance, _, made = diversity(row, answer.trace).rpartition("rel ")[2].partition(" = ")
            assert f"{calculated(made):.3f}" == relevance
        assert total == pytest.approx(row.final, abs=NEAR)
        last = float(re.findall(r"-?\d\.\d+", text)[-1])
        assert last == pytest.approx(row.final, abs=NEAR)


def test_a_row_outside_the_pool_has_no_arithmetic(memory: Memory) -> None:
    answer = memory.search(
        "zeppelin", memory.knobs.set({"max_results": 1, "candidate_multiplier": 1, "pool_results": 1})
    )
    outside = [row for row in answer.trace.rows if row.outcome.stage == "pool"]
    assert outside
    assert arithmetic(outside[0], answer.trace) == ""
    assert diversity(outside[0], answer.trace) == ""


def test_a_report_tells_everything_and_interprets_nothing(memory: Memory) -> None:
    answer = memory.search(
        "zeppelin | `x` <b>", memory.knobs.set({"decay": "on", "mmr": "on", "min_score": 0})
    )
    text = trace_markdown(answer)
    assert text.startswith("# Search: ``zeppelin | `x` <b>``\n")
    for stage in answer.trace.stages:
        name = stage_name(stage, answer.trace)
        assert f"| {name} | {stage.entered} | {stage.left} |" in text
    for row in answer.trace.rows:
        assert row.location.replace("_", r"\_") in text
    assert "`````text\nzeppelin | <b>bold</b>\n````\n# heading ^[[31m\n`````\n" in text
    assert "\x1b" not in text
    headings = [
        line for line in re.sub(r"(?ms)^(`{3,})text$.*?^\1$", "", text).splitlines() if line[:1] == "#"
    ]
    assert [line.split()[1] for line in headings if line.startswith("## ")] == ["Stages", "Returned", "Not"]


def test_a_report_names_the_profile_as_the_command_line_does(memory: Memory) -> None:
    answer = memory.search("zeppelin", memory.knobs.set({"min_score": 0.28}))
    assert "\n- profile: documented with min score 0.28\n" in trace_markdown(answer)
    assert " · profile documented with min score 0.28 · " in " ".join(closing(answer, explain=True))


def test_foreign_text_inside_markdown() -> None:
    assert inline("a`b") == "``a`b``"
    assert inline("`") == "`` ` ``"
    assert plain("a|b <i> *c*\nd") == r"a\|b \<i\> \*c\* d"
    assert fenced("x\n```\n") == ["````text", "x", "```", "````"]
