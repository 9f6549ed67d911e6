"""docs/json.md lists the names of stages, steps, scores and errors: they are those of the program."""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import openclaw_mem_engine
from openclaw_mem_engine.errors import OpenClawMemError
from openclaw_mem_engine.ranking.pipeline import STAGES
from support.commands import Call

ROOT = Path(__file__).parents[2]
ENGINE = ROOT / "engine" / "openclaw_mem_engine"
PAGE = (ROOT / "docs" / "json.md").read_text("utf-8")


def named(what: str) -> list[str]:
    """The names in the rows of the table of names that say so."""
    rows = re.findall(rf"^\| ([^|]+) \| {re.escape(what)}", PAGE, flags=re.M)
    return re.findall(r"`(\w+)`", " ".join(rows))


def test_stages_have_their_order() -> None:
    assert named("stage, in this order") == [name for name in STAGES if name != "candidates"]


def test_steps_of_why_not() -> None:
    source = "".join(
        file.read_text("utf-8") for part in ("retrieval", "why_not") for file in (ENGINE / part).glob("*.py")
    )
    steps = {*re.findall(r'\b(?:_pass|_stop_at|Step)\(\s*"(\w+)"', source)}
    assert {"file", "session", "retrieval"} < steps
    assert {*named("step of `why-not`")} == steps - STAGES.keys()


def test_outcomes_of_what_is_outside_the_ranking() -> None:
    source = (ENGINE / "ranking" / "stages" / "scores.py").read_text("utf-8")
    assert {*named("`stage` of an outcome")} == {*re.findall(r'Outcome\("dropped", None, "(\w+)"', source)}


def test_keys_of_scores_and_ranks(call: Call) -> None:
    scores, ranks = set[str](), set[str]()
    for profile in ("documented", "qmd-documented"):
        options = ("--profile", profile, "--set", "decay=on", "--set", "mmr=on")
        for row in call("search", "router VLAN", "--json", "--explain", *options).json["trace"]["rows"]:
            scores |= row["scores"].keys()
            ranks |= row["ranks"].keys()
    assert {*named("key of `scores`")} == scores
    assert ranks == scores - {"text"}


def errors(kind: type[OpenClawMemError] = OpenClawMemError) -> Iterator[type[OpenClawMemError]]:
    for one in kind.__subclasses__():
        yield one
        yield from errors(one)


def test_errors_by_exit_code() -> None:
    for module in pkgutil.walk_packages(openclaw_mem_engine.__path__, "openclaw_mem_engine."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    codes: dict[int, set[str]] = {}
    for error in errors():
        if error.__module__.startswith("openclaw_mem_engine."):
            codes.setdefault(error.exit_code, set()).add(error.__name__)
    listed = re.findall(r"^\| (`[A-Z][^|]+`) \| (\d+) \|$", PAGE, flags=re.M)
    assert {int(code): {*re.findall(r"\w+", names)} for names, code in listed} == codes
