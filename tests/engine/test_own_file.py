"""Writing our ``config.toml``: comments stay, nothing else is written, knobs hold, and it can be undone."""

from __future__ import annotations

import os
import re
from errno import ENOSPC
from pathlib import Path

import pytest

from openclaw_mem_engine.config.knobs import configured_knobs, knobs_as_settings
from openclaw_mem_engine.config.own_file import propose_settings, propose_undo, write_settings
from openclaw_mem_engine.errors import ConfigError, UsageError, WorkspaceError
from openclaw_mem_engine.ranking.profiles import profile
from openclaw_mem_engine.state.disk import replace_file
from support.config_world import World

OURS = '# mine\r\ntheme = "claw-dark" # keep\r\n\r\n[query]\r\n# why\r\nmin_score = 0.5\r\n'


@pytest.mark.parametrize(
    ("own", "theirs", "name", "knobs"),
    [
        (OURS, {}, "documented", {"vector_weight": 0.55, "min_score": 0.35, "decay": True}),
        (OURS, {}, "workbench", {"half_life_days": 90}),
        ("", {"query": {"minScore": 0.6, "maxResults": 9}}, "documented", {"min_score": 0.35}),
        ('[query]\nprofile = "workbench"\nbm25_weight = 0.4\n', {}, "documented", {}),
    ],
)
def test_knobs_hold_after_they_are_written(
    world: World,
    own: str,
    theirs: dict[str, object],
    name: str,
    knobs: dict[str, object],
) -> None:
    world.memory_search(theirs)
    openclaw = world.openclaw_file.read_bytes()
    if own:
        world.own(own)
    settings = world.load()
    wanted = profile(name).set(knobs)
    edit = propose_settings(settings, knobs_as_settings(settings, wanted))
    write_settings(settings, edit)
    assert configured_knobs(world.load()) == wanted
    assert world.own_file.stat().st_mode & 0o777 == 0o600 and world.openclaw_file.read_bytes() == openclaw
    assert not knobs_as_settings(world.load(), wanted)
    undo = propose_undo(world.load())
    write_settings(settings, undo)
    again = propose_undo(world.load())
    assert (edit.kind, undo.kind, again.kind) == ("write", "undo", "redo") and again.after == edit.after
    assert configured_knobs(world.load()) == configured_knobs(settings)
    assert world.own_file.exists() == bool(own)
    assert not own or world.own_file.read_bytes() == edit.before.encode()  # type: ignore[union-attr]


def test_comments_stay_and_secrets_are_masked_in_the_diff(world: World) -> None:
    world.own(OURS + '[provider]\r\napi_key = "sk-abcdefghijklmnop123456"\r\n')
    settings = world.load()
    edit = propose_settings(settings, {"query.min_score": 0.3, "provider.concurrency": 2})
    assert "sk-abcdefghijklmnop123456" not in edit.diff() and "+min_score = 0.3" in edit.diff()
    write_settings(settings, edit)
    text = world.own_file.read_text("utf-8")
    assert "# mine" in text and "# keep" in text and "# why" in text and "sk-abcdefghijklmnop123456" in text
    assert world.load().provider.concurrency == 2


def test_a_file_that_changed_meanwhile_is_not_overwritten(world: World) -> None:
    settings = world.load()
    edit = propose_settings(settings, {"theme": "claw-light"})
    world.own('theme = "claw-dark"\n')
    with pytest.raises(ConfigError, match="modified meanwhile"):
        write_settings(settings, edit)
    with pytest.raises(UsageError, match="no change"):
        propose_undo(settings)
    write_settings(settings, propose_settings(settings, {"theme": "claw-light"}))
    world.own('theme = "x"\n')
    with pytest.raises(UsageError, match="was modified since"):
        propose_undo(settings)
    assert world.own_file.read_text() == 'theme = "x"\n'


def test_what_is_not_ours_is_not_written(world: World) -> None:
    other = world.state / "ours.toml"
    other.write_text("", "utf-8")
    world.own_file.parent.mkdir(parents=True)
    world.own_file.symlink_to(other)
    with pytest.raises(ConfigError, match="nothing is written there"):
        propose_settings(world.load(), {"theme": "x"})
    world.own_file.unlink()
    world.own("query = { min_score = 0.2 }\n")
    settings = world.load()
    write_settings(settings, propose_settings(settings, {"query.max_results": 4}))
    assert dict(world.load().query.overrides) == {"min_score": 0.2, "max_results": 4}
    assert not list(world.own_file.parent.glob("*.tmp"))


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_disk_that_refuses_leaves_the_file_as_it_was(world: World) -> None:
    path: Path = world.own(OURS)
    settings = world.load()
    edit = propose_settings(settings, {"theme": "x"})
    path.parent.chmod(0o500)
    try:
        with pytest.raises(WorkspaceError, match="as it was"):
            write_settings(settings, edit)
    finally:
        path.parent.chmod(0o700)
    assert path.read_bytes() == OURS.encode()


def test_the_file_that_cannot_be_written_is_named(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept for the undo may be on another disk than the configuration."""
    settings, write, missing = world.load(), replace_file, [1]

    def replace(path: Path, data: bytes, **how: bool) -> None:
        if path.name.startswith("config.toml") != bool(missing):
            raise OSError(ENOSPC, "No space left on device")
        write(path, data, **how)

    monkeypatch.setattr("openclaw_mem_engine.config.own_file.replace_file", replace)
    edit = propose_settings(settings, {"query.min_score": 0.3})
    for named in (str(settings.data_dir), str(edit.path)):
        with pytest.raises(WorkspaceError, match=re.escape(f"that holds {named}") + ".* is full"):
            write_settings(settings, edit)
        missing.clear()
