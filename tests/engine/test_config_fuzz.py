"""Whatever stands in the files: settings, or an error of ours; never a crash, never a file written."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_mem_engine.config.openclaw import MEMORY_SEARCH
from openclaw_mem_engine.config.settings import SETTINGS
from openclaw_mem_engine.errors import ConfigError
from support.config_world import SCALARS, VALUES, World, settings_or_our_error

DOTTED = [
    *(f"agents.defaults.memorySearch.{key}" for key in MEMORY_SEARCH),
    *(f"memory.search.{key}" for key in MEMORY_SEARCH),
    "agents",
    "agents.list",
    "agents.entries",
    "agents.defaults.workspace",
    "agents.defaults.memorySearch",
    "memory.citations",
    "memory.backend",
    "models.providers.openai",
    "models.providers.openai.apiKey",
    "models.providers.google.headers",
    "env",
    "env.vars",
    "plugins.slots",
    "$include",
]


def planted(tree: dict[str, Any], dotted: str, value: object) -> None:
    *above, last = dotted.split(".")
    for name in above:
        if not isinstance(tree.get(name), dict):
            tree[name] = {}
        tree = tree[name]
    tree[last] = value


@settings(deadline=None, max_examples=200)
@given(st.lists(st.tuples(st.sampled_from(DOTTED), VALUES), max_size=6))
def test_any_openclaw_file(pairs: list[tuple[str, object]]) -> None:
    tree: dict[str, Any] = {}
    for dotted, value in pairs:
        planted(tree, dotted, value)
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder))
        world.openclaw(tree)
        settings_or_our_error(world)


@settings(deadline=None, max_examples=60)
@given(st.text(max_size=40) | st.text("{}[]:,'\"\\ab1./*\n", max_size=30))
def test_any_text_as_either_file(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder))
        world.openclaw_file.write_text(text, encoding="utf-8")
        settings_or_our_error(world)
        world.openclaw_file.unlink()
        world.own(text)
        settings_or_our_error(world)


@settings(deadline=None, max_examples=100)
@given(st.sampled_from(sorted(SETTINGS)), SCALARS.filter(lambda value: value is not None))
def test_any_value_of_our_own(key: str, value: Any) -> None:
    text = repr(value) if isinstance(value, float) else json.dumps(value)
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder))
        world.own(f"{key} = {text}\n")
        settings_or_our_error(world)


@pytest.mark.parametrize("number", ["1" + "0" * 400, "9" * 5000, "0x" + "f" * 5000])
def test_numbers_beyond_all_bounds(number: str, tmp_path: Path) -> None:
    world = World(tmp_path)
    world.openclaw(f"{{agents: {{defaults: {{memorySearch: {{cache: {{maxEntries: {number}}}}}}}}}}}")
    with pytest.raises(ConfigError) as caught:
        world.load()
    assert len(str(caught.value)) < 400
    world.openclaw_file.unlink()
    world.own(f"[cache]\nmax_entries = {number}")
    with pytest.raises(ConfigError) as caught:
        world.load()
    assert len(str(caught.value)) < 400
