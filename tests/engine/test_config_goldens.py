"""The documented defaults and clamps against recorded resolutions of the real program."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from openclaw_mem_engine.config.openclaw import MEMORY_SEARCH, resolved_keys
from openclaw_mem_engine.errors import ConfigError
from support.config_world import World

CASES = json.loads((Path(__file__).parents[1] / "data/openclaw/config_resolution.json").read_text("utf-8"))

#: Differences that are meant, by key; see the reasons.
MEANT = {
    "model": "the provider's default model is filled in by the providers, not by the configuration",
    "store.path": "resolved against the state folder: checked below with Settings.openclaw.store_path",
    "remote.batch": "the original leaves it out for provider local; we keep the defaults, unused",
}


def flat(node: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested objects as dotted keys; lists as tuples."""
    found: dict[str, Any] = {}
    for name, value in node.items():
        if isinstance(value, dict):
            found.update(flat(value, f"{prefix}{name}."))
        else:
            found[f"{prefix}{name}"] = tuple(value) if isinstance(value, list) else value
    return found


def compared(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if not key.startswith(tuple(MEANT))}


def label(case: dict[str, Any]) -> str:
    return json.dumps(case["memorySearch"])[:60]


@pytest.mark.goldens
@pytest.mark.parametrize("case", [case for case in CASES if case["resolved"]], ids=label)
def test_resolution_is_that_of_the_program(case: dict[str, Any]) -> None:
    given = flat(case["memorySearch"])
    resolved = resolved_keys(given)
    assert compared(resolved) == compared(flat(case["resolved"]))


@pytest.mark.goldens
def test_model_is_kept_when_it_is_given() -> None:
    assert resolved_keys({"model": "m", "provider": "openai"})["model"] == "m"


@pytest.mark.goldens
def test_disabled_search_resolves_to_nothing_there_and_to_a_flag_here(world: World) -> None:
    (case,) = [case for case in CASES if case["resolved"] is None]
    world.memory_search(case["memorySearch"])
    settings = world.load()
    assert settings.enabled is False
    assert settings.origins["enabled"].kind == "openclaw"


@pytest.mark.goldens
@pytest.mark.parametrize("case", [CASES[0], CASES[-1]], ids=label)
def test_the_original_store_is_recorded(world: World, case: dict[str, Any]) -> None:
    world.environ["OPENCLAW_STATE_DIR"] = str(world.root / "state")
    (world.root / "state").mkdir()
    (world.root / "state" / "openclaw.json").write_text(
        json.dumps({"agents": {"defaults": {"memorySearch": case["memorySearch"]}}}), encoding="utf-8"
    )
    recorded = case["resolved"]["store"]["path"]
    expected = recorded.replace("<SCRATCH>", str(world.root)).replace("<CWD>", str(world.cwd))
    settings = world.load()
    assert str(settings.openclaw.store_path) == expected
    assert settings.index_path != settings.openclaw.store_path


def as_read(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def refused_keys(case: dict[str, Any]) -> list[str]:
    """The recordings are of the resolver alone; the program's schema refuses some of these inputs before."""
    given = flat(case["memorySearch"])
    return [key for key, value in given.items() if not MEMORY_SEARCH[key].rule.fits(as_read(value))]


@pytest.mark.goldens
@pytest.mark.parametrize("case", [case for case in CASES if refused_keys(case)], ids=label)
def test_what_the_schema_refuses_is_refused(world: World, case: dict[str, Any]) -> None:
    world.memory_search(case["memorySearch"])
    with pytest.raises(ConfigError, match="allowed: "):
        world.load()


@pytest.mark.goldens
@pytest.mark.parametrize(
    "case", [case for case in CASES if case["resolved"] and not refused_keys(case)], ids=label
)
def test_settings_of_an_accepted_file_hold_the_same_numbers(world: World, case: dict[str, Any]) -> None:
    world.memory_search(case["memorySearch"])
    settings = world.load()
    resolved = case["resolved"]
    assert vars_of(settings.chunking) == resolved["chunking"]
    assert list(settings.sources) == resolved["sources"]
    assert list(settings.extra_paths) == resolved["extraPaths"]
    assert settings.provider.provider == resolved["provider"]
    assert settings.sync.debounce_ms == resolved["sync"]["watchDebounceMs"]
    hybrid = resolved["query"]["hybrid"]
    theirs = {
        "max_results": resolved["query"]["maxResults"],
        "min_score": resolved["query"]["minScore"],
        "vector_weight": hybrid["vectorWeight"],
        "bm25_weight": hybrid["textWeight"],
        "candidate_multiplier": hybrid["candidateMultiplier"],
        "mmr": hybrid["mmr"]["enabled"],
        "mmr_lambda": hybrid["mmr"]["lambda"],
        "decay": hybrid["temporalDecay"]["enabled"],
        "half_life_days": hybrid["temporalDecay"]["halfLifeDays"],
    }
    for name, value in settings.query.overrides.items():
        assert value == theirs[name], name


def vars_of(chunking: object) -> dict[str, int]:
    return {name: getattr(chunking, name) for name in ("tokens", "overlap")}
