"""Settings without any file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import platformdirs
import pytest

from openclaw_mem_engine.config.load import load_settings
from openclaw_mem_engine.config.settings import SETTINGS
from openclaw_mem_engine.config.sources import user_folders
from support.config_world import World


def test_without_any_file_everything_is_the_documented_default(world: World) -> None:
    settings = world.load()
    assert settings.workspace == world.home / ".openclaw" / "workspace"
    assert settings.agent == "main"
    assert settings.data_dir == world.home / ".local" / "share" / "openclaw-mem"
    assert settings.index_path.is_relative_to(settings.data_dir / "indexes")
    assert settings.index_path.name == "main.sqlite"
    assert (settings.provider.provider, settings.provider.fallback) == ("auto", "none")
    assert settings.provider.api_key is None and settings.provider.key_provider is None
    assert (settings.chunking.tokens, settings.chunking.overlap) == (400, 80)
    assert settings.query.profile == "documented" and dict(settings.query.overrides) == {}
    assert settings.cache.max_entries == 50_000
    assert settings.sources == ("memory",) and settings.enabled
    assert settings.openclaw.config_file is None
    assert settings.warnings == ()


def test_every_key_has_an_origin_and_it_is_the_default(world: World) -> None:
    settings = world.load()
    assert set(settings.origins) == set(SETTINGS)
    assert {origin.kind for origin in settings.origins.values()} == {"default"}


def test_nothing_is_written(world: World) -> None:
    world.memory_search({"provider": "openai"})
    world.own('theme = "dark"\n')
    before = sorted((path, path.stat().st_mtime_ns) for path in world.root.rglob("*"))
    world.load()
    assert sorted((path, path.stat().st_mtime_ns) for path in world.root.rglob("*")) == before


def test_settings_cannot_be_changed(world: World) -> None:
    settings = world.load()
    with pytest.raises(AttributeError):
        settings.agent = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        settings.query.overrides["mmr"] = True  # type: ignore[index]


@pytest.mark.parametrize("variables", [{}, {"XDG_DATA_HOME": "/x/data", "XDG_CONFIG_HOME": "/x/conf"}])
def test_our_folders_are_those_of_the_platform(
    variables: dict[str, str], world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(world.home))
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    if variables:
        assert user_folders() == (Path("/x/data/openclaw-mem"), Path("/x/conf/openclaw-mem"))
        return
    world.own('theme = "dark"')
    settings = load_settings(environ={}, home=world.home, cwd=world.cwd)
    assert settings.data_dir == user_folders().data == world.home / ".local/share/openclaw-mem"
    assert settings.theme == "dark" and world.own_file.parent == user_folders().config


def test_a_relative_xdg_folder_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", "data")
    assert user_folders().data == tmp_path / ".local/share/openclaw-mem"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere they are those of platformdirs")
@pytest.mark.parametrize("named", [None, "", " ", "data", "/x/data", "/x/data/", "~/data", "//x"])
def test_the_folders_are_those_of_platformdirs(
    named: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
        if named is not None:
            monkeypatch.setenv(name, named)
    dirs = platformdirs.PlatformDirs("openclaw-mem", appauthor=False)
    assert user_folders() == (dirs.user_data_path, dirs.user_config_path)


def test_loading_without_files_imports_no_parser() -> None:
    program = (
        "import sys\nfrom pathlib import Path\n"
        "from openclaw_mem_engine.config.load import load_settings\n"
        "load_settings(environ={}, home=Path('/nonexistent'), cwd=Path('/'))\n"
        "heavy = {'json5', 'pyjson5', 'tomllib', 'difflib', 'json', 'numpy', 'apsw'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
