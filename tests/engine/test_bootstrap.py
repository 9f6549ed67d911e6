"""The files that a conversation starts with: which session gets which, their limits, what is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest

from openclaw_mem_engine.lifecycle.bootstrap import (
    FIXED_FILES,
    Bootstrap,
    WorkspaceFile,
    bootstrap,
    files_for,
    fitted,
)
from openclaw_mem_engine.lifecycle.prompt import memory_prompt
from openclaw_mem_engine.lifecycle.sessions import SessionType, session_type
from openclaw_mem_engine.model import utf16_length
from support.goldens import golden
from support.sessions import NOW, SessionWorld

RECORDED = golden("bootstrap")
#: As long as the folder of the recording, whose name is a placeholder there.
ROOT = "/" + "r" * 27
TEXTS = {
    "AGENTS.md": "# AGENTS\n",
    "SOUL.md": "# SOUL\n",
    "USER.md": "# USER\n",
    "MEMORY.md": "# long term\n" + "m" * 30_000,
    "memory.md": "lower\n",
}
FILES = [WorkspaceFile(name, TEXTS.get(name)) for name in (*FIXED_FILES, "MEMORY.md", "memory.md")]


@pytest.fixture
def world(tmp_path: Path) -> SessionWorld:
    return SessionWorld(tmp_path)


@pytest.mark.parametrize("case", RECORDED["context"], ids=lambda case: str(case["limits"]))
def test_the_limits_of_the_release(case: dict[str, Any]) -> None:
    limits = case["limits"]
    found = fitted(FILES, ROOT, limits.get("maxChars", 20_000), limits.get("totalMaxChars", 150_000))
    assert [(file.name, utf16_length(file.text)) for file in found.files] == [
        (file["path"], file["chars"]) for file in case["files"]
    ]
    for file, recorded in zip(found.files, case["files"], strict=True):
        if tail := recorded.get("tail"):
            assert file.text.endswith(tail.replace("<SCRATCH>", ROOT))
    assert list(found.warnings) == case["warnings"]


@pytest.mark.parametrize(("key", "names"), RECORDED["by_session"])
def test_which_session_gets_which_file(key: str | None, names: list[str]) -> None:
    kind = session_type(key or "")
    shipped = [name for name in TEXTS if name in files_for(kind, shipped=True)]
    assert shipped == names
    documented = [name for name in TEXTS if name in files_for(kind)]
    assert documented == [name for name in names if kind == "main" or name not in ("MEMORY.md", "memory.md")]


def test_files_are_read_from_the_workspace(world: SessionWorld) -> None:
    root = world.root / "ws"
    (root / "AGENTS.md").write_text("# Rules\n")
    (root / "MEMORY.md").write_text("".join(f"line {n}\n" for n in range(1, 301)))
    (world.root / "away.md").write_text("secret\n")
    (root / "SOUL.md").symlink_to(world.root / "away.md")
    world.configure({"agents": {"defaults": {"bootstrapMaxChars": 1000}}})
    settings = world.settings()
    found = {kind: bootstrap(settings, kind) for kind in get_args(SessionType)}
    main, group = found["main"], found["group"]
    by_name = {file.name: file for file in main.files}
    assert by_name["AGENTS.md"].text == "# Rules" and by_name["AGENTS.md"].cut_line is None
    assert by_name["TOOLS.md"].text == f"[MISSING] Expected at: {root}/TOOLS.md"
    # 700 characters are 86 whole lines of "line 9\n", "line 10\n" and more, and a part of the next.
    cut = by_name["MEMORY.md"].cut_line
    assert cut is not None and f"line {cut - 1}\n" in by_name["MEMORY.md"].text.split("\n[...")[0]
    assert f"line {cut}\n" not in by_name["MEMORY.md"].text.split("\n[...")[0]
    assert main.left_out == (("SOUL.md", "is a link; links are not followed"),)
    assert "MEMORY.md" not in {file.name for file in group.files}
    assert ("MEMORY.md", "not for groups and channels") in group.left_out
    assert {file.name for file in found["cron"].files} == {"AGENTS.md", "TOOLS.md", "IDENTITY.md", "USER.md"}
    shipped = bootstrap(world.settings(profile="openclaw-2026.2"), "group")
    assert "MEMORY.md" in {file.name for file in shipped.files}


def test_no_character_is_cut_in_half() -> None:
    made: Bootstrap = fitted([WorkspaceFile("USER.md", "🙂" * 200)], ROOT, 101, 150_000)
    assert made.files[0].text.startswith("🙂" * 35 + "\n") and made.files[0].cut_line == 1


@pytest.mark.parametrize(
    ("slot", "searches"), [("memory-core", True), ("memory-lancedb", False), ("none", False)]
)
def test_the_instruction_to_search_is_there_with_the_tools_for_it(
    world: SessionWorld, slot: str, searches: bool
) -> None:
    world.configure({"plugins": {"slots": {"memory": slot}}})
    found = memory_prompt(world.settings(), "main", clock=lambda: NOW)
    assert ("memory_search" in found.text, bool(found.recall), bool(found.logs)) == (searches,) * 3
