"""A data folder that this user may not use, a full disk, a blocked lock: told before a command fails."""

from __future__ import annotations

import os
import pwd
import shlex
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support import commands
from support.commands import Call, Said, World, new_world

NOBODY = 65534


@pytest.fixture
def plain(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[tuple[Call, World]]:
    """An indexed world of a user for whom permissions count: for root they do not."""
    folder = Path(tempfile.mkdtemp())
    world = new_world(folder / "world")
    call = commands.caller(world, monkeypatch, capsys, ["--workspace", str(world.workspace)])
    # All that is imported late is imported now: another user need not be able to read this installation.
    for argv in (["index"], ["status"], ["search", "router"], ["providers"], ["doctor", "--json"]):
        assert call(*argv).code == 0
    became = os.geteuid() == 0
    if became:
        subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", str(folder)], check=True)
        os.seteuid(NOBODY)
    try:
        yield call, world
    finally:
        if became:
            os.seteuid(0)
        subprocess.run(["chmod", "-R", "u+rwX", str(folder)], check=True)
        shutil.rmtree(folder)


def owner_of() -> str:
    return pwd.getpwuid(os.geteuid()).pw_name


def finding(said: Said, code: str) -> Any:
    (found,) = [found for found in said.json["findings"] if found["code"] == code]
    return found


def names(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


@pytest.mark.parametrize("closed", ["data", "data/indexes"])
def test_a_data_folder_that_may_not_be_entered(plain: tuple[Call, World], closed: str) -> None:
    call, world = plain
    (world.root / closed).chmod(0)
    named = f"{world.root / closed} (d---------, owner {owner_of()})"
    for argv in (["status"], ["search", "router"], ["index"], ["providers"]):
        said = call(*argv)
        assert said.code == 6 and said.out.startswith("agent " if argv == ["status"] else "")
        assert (said.out == "") is (argv != ["status"])
        assert "Permission denied: " in said.err and f"This user may not use {named}." in said.err
    said = call("doctor", "--json")
    assert said.code == 6
    found = finding(said, "no-access")
    assert found["text"].startswith(f"Permission denied: {Path(closed).name} cannot be used.")
    assert found["text"].endswith(f" Path: {world.root / closed}")
    assert said.json["errors"] == 1 and found["evidence"] == [named] and found["fixable"]
    world.data.chmod(0)  # and a folder on the way, where that is another one
    assert "this user may use" in call("doctor", "--fix").out
    assert call("search", "router").code == 0


def test_an_index_that_may_not_be_read_is_named_with_mode_and_owner(plain: tuple[Call, World]) -> None:
    call, world = plain
    (index,) = world.indexes
    index.chmod(0)
    named = (
        f"This user may not use {index} (----------, owner {owner_of()}). `chmod u+rwX {index}` allows it."
    )
    for command in (["status"], ["search", "router"], ["index"]):
        said = call(*command)
        assert said.code == 6 and named in said.err and "for writing" not in said.err
    said = call("doctor", "--json")
    assert "chmod" not in finding(said, "unavailable")["text"], "once is enough"
    assert finding(said, "not-writable")["fixable"]
    assert "this user may use 1 file or folder again" in call("doctor", "--fix").out
    assert (index.stat().st_mode & 0o777, call("search", "router").code) == (0o600, 0)


def test_a_data_folder_that_may_not_be_written_to(plain: tuple[Call, World]) -> None:
    call, world = plain
    world.write("memory/later.md", "# Later\n")
    subprocess.run(["chmod", "-R", "a-w", str(world.data)], check=True)
    said = call("doctor", "--json")
    found = finding(said, "not-writable")
    assert (said.code, found["severity"], found["fixable"]) == (6, "error", True)
    assert str(world.data) in found["evidence"][0]
    assert "files-not-indexed" in call("doctor").out
    fixed = call("doctor", "--fix")
    assert "files or folders again" in fixed.out and fixed.code == 0
    assert "later.md" in call("files").out and call("index").code == 0


def test_a_file_that_may_not_be_written_to_is_enough(plain: tuple[Call, World]) -> None:
    call, world = plain
    lock = world.indexes[0].with_name("main.sqlite.lock")
    lock.chmod(0o400)
    found = finding(call("doctor", "--json"), "not-writable")
    assert found["evidence"] == [f"{lock} (-r--------, owner {owner_of()})"]
    assert found["text"].endswith("`openclaw-mem doctor --fix` gives this user access.")
    assert call("doctor", "--fix").code == 0 and lock.stat().st_mode & 0o777 == 0o600


def test_a_folder_that_is_still_to_be_made(
    plain: tuple[Call, World], monkeypatch: pytest.MonkeyPatch
) -> None:
    call, world = plain
    above = world.root / "closed"
    above.mkdir(mode=0o500)
    monkeypatch.setenv("OPENCLAW_MEM_HOME", str(above / "data"))
    found = finding(call("doctor", "--json"), "not-writable")
    assert str(above) in found["evidence"][0]
    above.chmod(0o700)
    assert call("doctor").code == 0
    (world.root / "file").write_text("")
    monkeypatch.setenv("OPENCLAW_MEM_HOME", str(world.root / "file/data"))
    assert "Not a directory" in finding(call("doctor", "--json"), "no-access")["text"]


# -- the lock ----------------------------------------------------------------------------------------------


def a_folder(path: Path) -> None:
    path.mkdir()


def a_link(path: Path) -> None:
    path.symlink_to("elsewhere")


@pytest.mark.parametrize("make", [a_folder, a_link])
def test_something_else_in_the_place_of_the_lock(
    call: Call, world: World, make: Callable[[Path], None]
) -> None:
    call("index")
    lock = world.indexes[0].with_name("main.sqlite.lock")
    lock.unlink()
    make(lock)
    world.write("memory/new.md", "zeppelin")
    assert call("index").code == 6
    before = names(world.data)
    said = call("doctor", "--json")
    found = finding(said, "lock-blocked")
    assert (said.code, found["severity"]) == (6, "error")
    assert names(world.data) == before, "looking leaves nothing behind"
    subprocess.run(shlex.split(found["repair"]), check=True)
    assert call("index").code == 0
    assert call("doctor").code == 0


# -- the disk ----------------------------------------------------------------------------------------------


@pytest.fixture
def tiny_disk(world: World) -> Iterator[Path]:
    with commands.small_disk(world.data, 4) as disk:
        yield disk


def fill(disk: Path, leave: int) -> Path:
    """Use up the disk but for so many bytes."""
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(max(0, shutil.disk_usage(disk).free - leave)))
    return ballast


def test_a_full_disk_is_an_error(call: Call, world: World, tiny_disk: Path) -> None:
    assert call("index").code == 0
    assert call("doctor").code == 0
    ballast = fill(tiny_disk, 40_000)
    world.write("memory/new.md", "zeppelin " * 20_000)
    assert call("index").code == 6
    said = call("doctor", "--json")
    found = finding(said, "disk-full")
    assert (said.code, found["severity"]) == (6, "error")
    assert " KB free, and a sync needs 1.0 MB" in found["text"]
    assert not any(found["repair"] for found in said.json["findings"] if found["code"] != "permissions")
    ballast.unlink()
    assert call("index").code == 0
    ballast = fill(tiny_disk, 0)
    for command in (["search", "router"], ["search", "router", "--no-sync"], ["status"]):
        said = call(*command)
        assert said.code == 0 and "main.sqlite cannot be written: " in said.out
    assert call("index").code == 6
    ballast.unlink()
    assert call("index").code == 0


def test_a_disk_with_room_for_a_sync_and_none_for_a_rebuild_is_a_warning(
    call: Call, world: World, tiny_disk: Path
) -> None:
    for number in range(300):
        world.write(f"memory/bulk/{number}.md", f"# Bulk {number}\n\nAbout subject{number}.\n" * 3)
    assert call("index").code == 0
    size = world.indexes[0].stat().st_size
    assert 2 * size > 1_200_000
    fill(tiny_disk, 1_100_000)
    said = call("doctor", "--json")
    assert said.code == 0
    found = finding(said, "no-room-to-rebuild")
    assert (found["severity"], "and a rebuild needs" in found["text"]) == ("warning", True)


def test_a_search_leaves_a_read_only_index_as_it_is(plain: tuple[Call, World]) -> None:
    """Files that SQLite makes beside it have its mode: no later sync could write to them."""
    call, world = plain
    (index,) = world.indexes
    index.chmod(0o444)
    before = names(index.parent)
    assert "cannot be written: it is searched as it is" in call("search", "vlan", "--no-sync").out
    assert stat.S_IMODE(index.stat().st_mode) == 0o400, "narrowed, and nothing added"
    assert names(index.parent) == before
    assert call("search", "vlan", "--json").json["syncSeconds"] is None, "no sync was done"
    index.chmod(0o600)
    world.write("memory/later.md", "# Later\n\nA VLAN was added.\n")
    index.parent.chmod(0o500)
    index.chmod(0o400)
    said = call("search", "vlan")
    assert "sync-failed" in call("search", "vlan", "--json").out
    assert "of sync" not in said.out, "none was done"
    assert "cannot be written" in said.out and "cannot be opened" not in said.out
    assert "is stale" not in said.out and "This user may not use" in said.out, "no sync can run"
    assert call("search", "vlan", "--json").json["syncSeconds"] is None
    index.parent.chmod(0o700)
    index.chmod(0o600)
    assert "1 new or modified" in call("index").out


def test_permissions_of_the_lock_are_repaired_without_it(plain: tuple[Call, World]) -> None:
    call, world = plain
    (index,) = world.indexes
    lock = index.with_name(f"{index.name}.lock")
    lock.chmod(0o444)
    said = call("index")
    assert said.code == 6 and f"{lock.name} cannot be taken" in said.err
    assert "Check its permissions" in said.err
    assert "`openclaw-mem doctor --fix` repairs 2 findings" in call("doctor").out
    said = call("doctor", "--fix")
    assert "permissions of 1 file or folder narrowed" in said.out and "again" in said.out
    assert stat.S_IMODE(lock.stat().st_mode) == 0o600
    assert call("index").code == 0
