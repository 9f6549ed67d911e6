"""``openclaw-mem doctor``: what it prints, what it mends, and with which code it leaves."""

from __future__ import annotations

import apsw

from support.commands import Call, World


def damage(world: World, *statements: str) -> None:
    (index,) = world.indexes
    connection = apsw.Connection(str(index))
    for statement in statements:
        connection.execute(statement)
    connection.close()


def test_a_whole_index_leaves_with_0(call: Call) -> None:
    assert call("index").code == 0
    for options in ((), ("--deep",), ("--fix",)):
        said = call("doctor", *options)
        assert said.code == 0
        assert "0 errors, 0 warnings, 0 remarks" in said.out
    assert "integrity_check ok" in said.out and not said.err


def test_without_an_index_none_is_made(call: Call, world: World) -> None:
    said = call("doctor", "--fix")
    assert said.code == 0 and "repair: openclaw-mem index" in said.out
    assert world.indexes == [] and not world.data.exists()


def test_damage_leaves_with_6_and_its_repair(call: Call, world: World) -> None:
    call("index")
    damage(world, "DELETE FROM chunks_fts WHERE rowid = 1")
    said = call("doctor")
    assert said.code == 6
    assert "error full-text-missing: Not in chunks_fts" in said.out
    assert "repair: openclaw-mem doctor --fix" in said.out
    assert "1 error, 0 warnings, 0 remarks" in said.out and "mends 1 of them" in said.out
    told = call("doctor", "--json")
    assert told.code == 6
    assert [finding["code"] for finding in told.json["findings"]] == ["full-text-missing"]
    assert told.json["errors"] == 1 and told.json["fixed"] == []


def test_fix_mends_and_tells(call: Call, world: World) -> None:
    call("index")
    damage(
        world,
        "DELETE FROM chunks_fts WHERE rowid = 1",
        "UPDATE meta SET value = 'x' WHERE key = 'generation'",
    )
    said = call("doctor", "--fix")
    assert said.code == 0
    assert "mended" in said.out and "full-text tables were made anew from 4 chunks" in said.out
    assert call("doctor", "--json", "--fix").json["findings"] == []
    assert "network" not in call("search", "coffee").out
    assert call("search", "GRN-40417").code == 0


def test_fix_leaves_with_6_when_errors_are_left(call: Call, world: World) -> None:
    call("index")
    damage(world, "DELETE FROM chunks_fts WHERE rowid = 1", "UPDATE chunks SET model = 'x' WHERE seq = 2")
    said = call("doctor", "--fix", "--json")
    assert said.code == 6 and said.json["fixed"]
    assert {finding["code"] for finding in said.json["findings"]} == {"altered-chunks", "mixed-models"}
    assert call("index", "--force").code == 0
    assert call("doctor", "--deep").code == 0


def test_notes_are_never_touched(call: Call, world: World) -> None:
    call("index")
    damage(world, "DELETE FROM files", "DELETE FROM chunks_fts", "DROP TABLE chunks_terms")
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in world.workspace.rglob("*.md")}
    call("doctor", "--fix", "--deep")
    assert before == {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in world.workspace.rglob("*.md")}


def test_a_file_that_is_no_database_is_told_with_a_way_out(call: Call, world: World) -> None:
    call("index")
    (index,) = world.indexes
    index.write_bytes(b"nothing of the kind" * 500)
    said = call("doctor", "--fix")
    assert said.code == 6 and "repair: openclaw-mem index --force" in said.out
    assert call("index", "--force").code == 0
    assert call("doctor", "--json").json["findings"][0]["code"] == "damaged-aside"


def test_in_a_process_of_its_own(world: World) -> None:
    workspace = str(world.workspace)
    assert world.run("index", "--workspace", workspace).returncode == 0
    done = world.run("doctor", "--workspace", workspace)
    assert (done.returncode, done.stderr) == (0, b"")
