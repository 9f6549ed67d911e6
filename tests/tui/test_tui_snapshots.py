"""The screens as text, at both sizes: what is drawn today is what ``snapshots/`` holds.

``OPENCLAW_MEM_SNAPSHOTS=write uv run pytest tests/tui/test_tui_snapshots.py`` writes them anew; git shows the
difference.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import textual
from lab_world import first_index, make

SNAPSHOTS = Path(__file__).parent / "snapshots"
SCENES = [scene for scene in make.SCENES if scene.snapshot]
WRITE = os.environ.get("OPENCLAW_MEM_SNAPSHOTS") == "write"


@pytest.fixture(autouse=True)
def _same_textual() -> None:
    drawn_with = (make.HERE / "textual.txt").read_text(encoding="utf-8").strip()
    if drawn_with != textual.__version__:
        pytest.skip(f"screens were drawn with Textual {drawn_with}, this is {textual.__version__}")


def snapshot_of(name: str) -> list[str]:
    return (SNAPSHOTS / f"{name}.txt").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
async def test_a_screen_is_as_its_snapshot(
    scene: make.Scene,  # type: ignore[name-defined]
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The rendering sets a fixed clock in this module; monkeypatch restores the real one.
    monkeypatch.setattr(make.ranking_state, "perf_counter", make.ranking_state.perf_counter)
    monkeypatch.setattr(make, "demo_memory", first_index)  # the screens show the events of the first sync
    drawn = make.text_of(await make.render(scene, tmp_path))
    if WRITE:
        SNAPSHOTS.mkdir(exist_ok=True)
        (SNAPSHOTS / f"{scene.name}.txt").write_text("\n".join(drawn) + "\n", encoding="utf-8", newline="\n")
    assert drawn == snapshot_of(scene.name)


@pytest.mark.parametrize("name", [scene.name for scene in SCENES])
def test_the_committed_picture_shows_the_same(name: str) -> None:
    picture = make.text_of((make.HERE / f"{name}.svg").read_text(encoding="utf-8"))
    assert picture == snapshot_of(name), "run `uv run python screenshots/make.py` and look at the pictures"


def test_no_snapshot_is_left_over() -> None:
    assert {path.stem for path in SNAPSHOTS.iterdir()} == {scene.name for scene in SCENES}
