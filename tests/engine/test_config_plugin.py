"""``plugin.*``: which memory plug-in counts, from OpenClaw's file and from ours, with the origin of each."""

from __future__ import annotations

from typing import Any

import pytest

from openclaw_mem_engine.config.show import describe
from openclaw_mem_engine.errors import ConfigError
from support.config_world import World
from support.goldens import golden


def _entry(config: object) -> dict[str, Any]:
    return {"plugins": {"entries": {"memory-lancedb": {"config": config}}}}


def test_every_key_is_a_row_with_its_origin(world: World) -> None:
    plugins = _entry({"autoCapture": True, "captureMaxChars": 250.9, "dbPath": "/x", "odd": 1})["plugins"]
    file = world.openclaw({"plugins": plugins | {"slots": {"memory": "memory-lancedb"}}})
    world.own("[plugin]\nauto_recall = false\n")
    settings = world.load()
    rows = {row.key: row for row in describe(settings)}
    found = {name: (row.value_text, row.origin.where) for name, row in rows.items() if "plugin." in name}
    entry = f"{file}: plugins.entries.memory-lancedb.config"
    assert found["plugin.slot"] == ("memory-lancedb", f"{file}: plugins.slots.memory")
    assert found["plugin.auto_capture"] == ("true", f"{entry}.autoCapture")
    assert found["plugin.capture_max_chars"] == ("250", f"{entry}.captureMaxChars")
    assert found["plugin.auto_recall"][0] == "false" and "config.toml" in found["plugin.auto_recall"][1]
    ignored = {key.key.rpartition(".")[2]: key.hint for key in settings.openclaw.ignored}
    assert ignored == {"dbPath": "memories are in the data folder", "odd": ""}
    assert settings.enabled


def test_numbers_are_those_of_the_plugin(world: World) -> None:
    for case in golden("lancedb")["config"]:
        wanted = (case.get("out") or {}).get("captureMaxChars")
        if not isinstance(case["in"], dict):
            continue
        world.openclaw(_entry({key: value for key, value in case["in"].items() if key != "embedding"}))
        if "captureMaxChars" in case.get("error", ""):
            with pytest.raises(ConfigError, match="captureMaxChars"):
                world.load()
        elif wanted is not None:
            plugin = world.load().plugin
            assert (plugin.capture_max_chars, plugin.auto_capture, plugin.auto_recall) == (
                wanted,
                case["out"]["autoCapture"],
                case["out"]["autoRecall"],
            )


def test_an_infinite_number_is_refused(world: World) -> None:
    world.openclaw(_entry({"captureMaxChars": float("inf")}))
    with pytest.raises(ConfigError, match="captureMaxChars"):
        world.load()


@pytest.mark.parametrize("own", [True, False])
def test_the_slot_none_switches_memory_search_off_wherever_it_is_set(world: World, own: bool) -> None:
    if own:
        world.own('[plugin]\nslot = "none"\n')
    else:
        world.openclaw({"plugins": {"slots": {"memory": "none"}}})
    settings = world.load()
    assert not settings.enabled and settings.origins["enabled"] == settings.origins["plugin.slot"]
    assert [note.code for note in settings.warnings] == ["memory-off"]


@pytest.mark.parametrize("own", [True, False])
def test_an_unknown_slot_is_said(world: World, own: bool) -> None:
    if own:
        world.own('[plugin]\nslot = "memory-x"\n')
    else:
        world.openclaw({"plugins": {"slots": {"memory": "memory-x"}}})
    settings = world.load()
    (note,) = settings.warnings
    assert note.code == "plugin-unknown" and "'memory-x', which is not known here" in note.text
    assert settings.enabled
