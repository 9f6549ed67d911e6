"""The committed screenshots show what the workbench draws today."""

from __future__ import annotations

from pathlib import Path

import pytest
import textual
from lab_world import first_index, make

RECORDED = make.HERE / "textual.txt"


@pytest.mark.parametrize(
    "name",
    [
        "lab",
        "demo",
        "demo-small",
        "knobs",
        "get-small",
        "providers",
        "fault",
        "fault-providers-small",
        "index",
        "chunks-small",
    ],
)
async def test_scene_is_as_committed(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = RECORDED.read_text().strip() if RECORDED.exists() else "none"
    if recorded != textual.__version__:
        pytest.skip(f"screens were drawn with Textual {recorded}, this is {textual.__version__}")
    # The rendering sets a fixed clock in this module; monkeypatch puts the real one back.
    monkeypatch.setattr(make.ranking_state, "perf_counter", make.ranking_state.perf_counter)
    monkeypatch.setattr(make, "demo_memory", first_index)  # the screens show the events of the first sync
    scene = next(scene for scene in make.SCENES if scene.name == name)
    drawn = make.text_of(await make.render(scene, tmp_path))
    committed = make.text_of((make.HERE / f"{name}.svg").read_text(encoding="utf-8"))
    assert drawn == committed, "run `uv run python screenshots/make.py` and look at the pictures"
