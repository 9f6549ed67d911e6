"""The screens at both sizes: the text that is drawn today is that of the pictures in ``screenshots/``.

``uv run python screenshots/make.py NAME`` makes a picture anew; look at it before you commit it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import textual
from lab_world import first_index, make


@pytest.fixture(autouse=True)
def _same_textual() -> None:
    drawn_with = (make.HERE / "textual.txt").read_text(encoding="utf-8").strip()
    if drawn_with != textual.__version__:
        pytest.skip(f"screens were drawn with Textual {drawn_with}, this is {textual.__version__}")


@pytest.mark.parametrize(
    "scene", [scene for scene in make.SCENES if scene.snapshot], ids=lambda scene: scene.name
)
async def test_a_screen_is_as_its_picture(
    scene: make.Scene,  # type: ignore[name-defined]
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The rendering sets a fixed clock in this module; monkeypatch restores the real one.
    monkeypatch.setattr(make.ranking_state, "perf_counter", make.ranking_state.perf_counter)
    monkeypatch.setattr(make, "demo_memory", first_index)  # the screens show the events of the first sync
    drawn = make.text_of(await make.render(scene, tmp_path))
    picture = make.text_of((make.HERE / f"{scene.name}.svg").read_text(encoding="utf-8"))
    assert drawn == picture, "if this is on purpose, make the picture anew and look at it"
