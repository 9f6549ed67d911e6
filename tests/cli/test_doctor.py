"""``openclaw-mem doctor``: what it prints, what it mends, and with which code it leaves."""

from __future__ import annotations

import os
import signal
import stat
from contextlib import closing
from typing import Any

import apsw
import pytest

from openclaw_mem_engine.errors import IndexLocked
from openclaw_mem_engine.providers.factory import RECORDS_FILE
from openclaw_mem_engine.providers.records import ProviderRecords
from openclaw_mem_engine.workspace import opening
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
        assert "0 errors, 0 warnings, 0 info from" in said.out
    assert "integrity_check ok" in said.out and not said.err


def test_without_an_index_the_repair_makes_one(call: Call, world: World) -> None:
    said = call("doctor")
    assert said.code == 0 and "to do: openclaw-mem index" in said.out
    assert "`openclaw-mem doctor --fix` repairs 1 finding" in said.out
    assert world.indexes == [] and not world.data.exists()
    said = call("doctor", "--fix")
    assert said.code == 0 and "the index was synced" in said.out and "not-there" not in said.out
    (index,) = world.indexes
    index.write_bytes(b"")
    for part in index.parent.glob("main.sqlite-*"):
        part.unlink()
    status = call("status")
    assert "(empty: 0 bytes)" in status.out and index.stat().st_size == 0
    assert "not-there" in call("doctor").out
    assert call("search", "router", "--format", "files").out


def test_a_missing_workspace_is_an_error_and_names_no_command_that_needs_one(bare: Call) -> None:
    said = bare("doctor", "--workspace", "nowhere")
    assert said.code == 5 and "error workspace: The workspace " in said.out
    assert "--workspace DIR, or try `openclaw-mem demo`." in said.out and "1 error, " in said.out
    assert "info not-there" in said.out and "to do: " not in said.out


def test_a_damaged_index_is_one_finding_and_its_rebuild_does_not_advise_itself(
    call: Call, world: World
) -> None:
    call("index")
    (index,) = world.indexes
    with closing(apsw.Connection(str(index))) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        sql = "SELECT pageno FROM dbstat WHERE name = 'chunks'"
        pages = [row[0] for row in connection.execute(sql)]
        ((size,),) = connection.execute("PRAGMA page_size")
    with index.open("r+b") as file:
        for page in pages:
            file.seek((page - 1) * size)
            file.write(bytes(size))
    found = call("doctor")
    assert found.code == 6 and found.out.count("error damaged: ") == 1, found.out
    said = call("doctor", "--fix")
    assert said.code == 0 and "a new index replaces the damaged one" in said.out, said.out
    assert f"is kept as {index}.damaged; you can delete it." in said.out
    assert "the index was synced: it has 4 files" in said.out and "not repaired" not in said.out
    index.write_bytes(b"nothing of the kind" * 500)
    rebuilt = call("index")
    assert rebuilt.code == 0 and "a new one is built from your notes" in rebuilt.err
    assert "openclaw-mem index" not in rebuilt.err


def test_damage_leaves_with_6_and_its_repair(call: Call, world: World) -> None:
    call("index")
    damage(world, "DELETE FROM chunks_fts_stemmed WHERE rowid = 1")
    said = call("doctor")
    assert said.code == 6
    assert "error full-text-missing: 1 chunk is missing from the BM25 index" in said.out
    assert "to do: openclaw-mem doctor --fix" in said.out
    assert "1 error, 0 warnings, 0 info from" in said.out and "repairs 1 finding" in said.out
    report = call("doctor", "--json")
    assert report.code == 6
    assert [finding["code"] for finding in report.json["findings"]] == ["full-text-missing"]
    assert report.json["errors"] == 1 and report.json["fixed"] == []


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_a_stop_after_the_mending_does_not_hide_it(
    call: Call, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    from openclaw_mem_engine import doctor

    call("index")
    damage(world, "DELETE FROM chunks_fts_stemmed WHERE rowid = 1")
    real = doctor.fix

    def fix_and_press_ctrl_c(*arguments: Any, **named: Any) -> list[str]:
        done = real(*arguments, **named)
        os.kill(os.getpid(), signal.SIGINT)
        return done

    monkeypatch.setattr(doctor, "fix", fix_and_press_ctrl_c)
    said = call("doctor", "--fix")
    assert (said.code, said.out) == (130, "")
    assert "Repaired: a new index replaces the damaged one." in said.err
    assert said.err.rstrip().endswith("The checks after that were stopped.")
    event = call("log", "--kind", "doctor", "--json").json["events"][-1]
    assert event["text"].startswith("Repaired: ") and event["counts"] == {"repaired": 1}
    assert ".." not in said.err and call("doctor").code == 0


def test_fix_mends_and_tells(call: Call, world: World) -> None:
    call("index")
    damage(
        world,
        "DELETE FROM chunks_fts_stemmed WHERE rowid = 1",
        "UPDATE meta SET value = 'x' WHERE key = 'generation'",
    )
    said = call("doctor", "--fix")
    assert said.code == 0
    assert "repaired\n  a new index replaces the damaged one." in said.out
    assert "the index was synced: it has 4 files" in said.out
    assert [row["code"] for row in call("doctor", "--json", "--fix").json["findings"]] == ["damaged-aside"]
    assert "network" not in call("search", "coffee").out
    assert call("search", "GRN-40417").code == 0


def fact(world: World, key: str) -> str:
    (index,) = world.indexes
    connection = apsw.Connection(str(index))
    ((value,),) = connection.execute("SELECT value FROM meta WHERE key = ?", (key,))
    connection.close()
    return str(value)


UNREADABLE = [
    ("generation", "many"),
    ("generation", "-3"),
    ("generation", "9" * 30),
    ("synced_at", "today"),
    ("synced_at", "nan"),
    ("synced_at", "1e300"),
    ("synced_at", ""),
]


@pytest.mark.parametrize(("key", "value"), UNREADABLE)
def test_a_fact_that_cannot_be_read_is_told_with_a_way_out(
    call: Call, world: World, key: str, value: str
) -> None:
    call("index")
    damage(world, f"UPDATE meta SET value = '{value}' WHERE key = '{key}'")
    # Not those that sync: a sync that writes something sets both anew.
    for command in (["search", "router", "--no-sync"], ["status"]):
        said = call(*command)
        assert said.code == 6 and ("(cannot be read)" in said.out if command == ["status"] else not said.out)
        assert (
            "The index is damaged." in said.err
            and "Found: its " in said.err
            and str(world.indexes[0]) in said.err
        )
        assert "`openclaw-mem doctor --fix` repairs" in said.err
    assert call("doctor").code == 6
    assert call("doctor", "--fix").code == 0
    if key == "synced_at":
        call("index")  # the doctor forgot it
    for command in (["search", "router"], ["status"], ["doctor"]):
        assert call(*command).code == 0


@pytest.mark.parametrize(("key", "value"), UNREADABLE)
def test_an_index_with_such_a_fact_is_rebuilt_with_its_cache(
    call: Call, world: World, key: str, value: str
) -> None:
    call("index")
    damage(world, f"UPDATE meta SET value = '{value}' WHERE key = '{key}'")
    said = call("index", "--force", "--json")
    assert (said.code, said.err) == (0, "")
    assert said.json["rebuilt"] and said.json["embedded"] == 0, "nothing is paid for twice"
    assert [path.name for path in world.indexes[0].parent.glob("*.damaged")] == []
    for command in (["search", "router"], ["status"], ["doctor", "--deep"]):
        assert call(*command).code == 0
    if key == "generation":
        assert int(fact(world, key)) > 10**12, "above any that was counted up from 1"


def test_a_change_counts_on_from_a_generation_that_cannot_be_read(call: Call, world: World) -> None:
    call("index")
    damage(world, "UPDATE meta SET value = 'many' WHERE key = 'generation'")
    world.write("memory/new.md", "# New\n")
    assert call("index").code == 0
    assert int(fact(world, "generation")) > 10**12
    assert call("doctor").code == 0


def test_fix_syncs_where_that_repairs(call: Call, world: World) -> None:
    call("index")
    damage(
        world,
        "DELETE FROM chunks_fts_stemmed WHERE rowid = 1",
        "UPDATE chunks SET end_line = 99 WHERE seq = 2",
    )
    found = call("doctor")
    assert (
        found.code == 6
        and "`openclaw-mem doctor --fix` repairs 2 findings, and may embed text again." in found.out
    )
    said = call("doctor", "--fix", "--json")
    assert (said.code, said.err) == (0, "")
    assert [row["code"] for row in said.json["findings"]] == ["damaged-aside"]
    assert said.json["fixed"][1:] == ["the index was synced: it has 4 files"], (
        "no full text of altered chunks"
    )
    assert call("doctor", "--deep").code == 0


def test_fix_reads_every_file_where_that_repairs(
    call: Call, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "RACY_NS", -60_000_000_000)  # no file counts as written to a moment ago
    call("index")
    damage(world, "UPDATE files SET hash = 'x' || substr(hash, 2) WHERE path = 'MEMORY.md'")
    said = call("doctor")
    assert (
        "error stale-hash" in said.out
        and "`openclaw-mem doctor --fix` repairs 1 finding, and may embed text again." in said.out
    )
    said = call("doctor", "--fix")
    assert said.code == 0 and "the index was synced" in said.out and "stale-hash" not in said.out


def test_fix_of_a_database_of_another_program_is_a_report(call: Call, world: World) -> None:
    call("index")
    (index,) = world.indexes
    for part in index.parent.glob("main.sqlite*"):
        part.unlink()
    with closing(apsw.Connection(str(index))) as connection:
        connection.execute("CREATE TABLE theirs(x)")
    index.chmod(0o644)
    assert "--fix" not in call("doctor").out
    said = call("doctor", "--fix")
    assert said.code == 6 and "error unavailable: " in said.out and "warning permissions: " in said.out
    assert index.stat().st_mode & 0o777 == 0o644


def test_what_fix_cannot_repair_is_said_with_what_to_do(
    call: Call, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    from openclaw_mem_engine.memory import Memory

    def busy(*_: object) -> None:
        raise IndexLocked("Another process is writing to the index.")

    call("index")
    damage(world, "UPDATE chunks SET end_line = 99")
    monkeypatch.setattr(Memory, "sync", busy)
    said = call("doctor", "--fix")
    assert said.code == 6 and "Another process is writing" in said.err, "the new index is empty"
    assert "not repaired: files-not-indexed" in said.out
    assert said.out.endswith("To do: `openclaw-mem index`.\n")


def test_lost_chunks_are_noticed_by_a_search_and_indexed_again(call: Call, world: World) -> None:
    call("index")
    damage(world, "DELETE FROM chunks WHERE rowid % 2")
    said = call("search", "VLAN", "--no-sync")
    assert said.code == 6 and "The index is damaged" in said.err and "2 chunks, and words of 4" in said.err
    said = call("search", "VLAN")
    assert said.code == 0 and "index fresh" in said.out and "is damaged: a new one is built" in said.err
    assert call("doctor", "--deep").code == 0


def test_printed_commands_choose_the_same_index(bare: Call, world: World) -> None:
    chosen = ("--workspace", str(world.workspace), "--agent", "main")
    bare("index", *chosen)
    damage(world, "DELETE FROM chunks_fts_stemmed WHERE rowid = 1")
    command = f"openclaw-mem {' '.join(chosen)} doctor --fix"
    (finding,) = bare("doctor", "--json", *chosen).json["findings"]
    assert finding["repair"] == command and f"to do: {command}\n" in bare("doctor", *chosen).out
    world.indexes[0].write_bytes(b"nothing of the kind" * 500)
    assert f"`{command}`" in bare("search", "VLAN", "--no-sync", *chosen).err


def test_notes_are_never_touched(call: Call, world: World) -> None:
    call("index")
    damage(world, "DELETE FROM files", "DELETE FROM chunks_fts_stemmed", "DROP TABLE chunks_terms")
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in world.workspace.rglob("*.md")}
    call("doctor", "--fix", "--deep")
    assert before == {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in world.workspace.rglob("*.md")}


def test_a_file_that_is_no_database_is_told_with_a_way_out(call: Call, world: World) -> None:
    call("index")
    (index,) = world.indexes
    index.write_bytes(b"nothing of the kind" * 500)
    said = call("doctor")
    assert said.code == 6 and "to do: " not in said.out, "the finding names the command"
    assert "`openclaw-mem doctor --fix` repairs it." in said.out
    plan = call("index", "--dry-run", "--force", "--json")
    assert plan.code == 0 and plan.json["chunks"] == 4, "a plan of what repairs the index"
    plan = call("index", "--dry-run")
    assert plan.code == 0 and "`openclaw-mem index` would replace it" in plan.err
    assert index.read_bytes().startswith(b"nothing")
    said = call("doctor", "--fix")
    assert said.code == 0 and "None of its embeddings could be read" in said.out
    assert call("doctor", "--json").json["findings"][0]["code"] == "damaged-aside"


@pytest.mark.skipif(os.name == "nt", reason="modes are those of POSIX")
def test_looking_leaves_the_records_of_a_provider_as_they_are(
    call: Call, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which API key is in use is looked up in them before anything is examined."""
    call("index")
    monkeypatch.setenv("OPENCLAW_MEM_PROVIDER", "openai")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
    path = world.data / RECORDS_FILE
    records = ProviderRecords(path)
    records.drop_job("x")
    records.close()
    path.chmod(0o644)
    for _ in range(2):
        codes = {finding["code"] for finding in call("doctor", "--json").json["findings"]}
        assert "permissions" in codes
    assert call("doctor", "--fix", "--json").json["fixed"][0].startswith("permissions of ")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_in_a_process_of_its_own(world: World) -> None:
    workspace = str(world.workspace)
    assert world.run("index", "--workspace", workspace).returncode == 0
    done = world.run("doctor", "--workspace", workspace)
    assert (done.returncode, done.stderr) == (0, b"")


def test_keys_that_the_workbench_does_not_use_are_a_warning_each(call: Call, world: World) -> None:
    call("index")
    ours = world.home / ".config/openclaw-mem/config.toml"
    ours.parent.mkdir(parents=True)
    for keys, why in (
        ('rebuild = "r"', "r would be sync_now and rebuild, on screen index. Both keep their default keys"),
        ('rebiuld = "f9"', "'rebiuld' is not the id of an action. Did you mean rebuild?"),
        ('rebuild = "f9"', ""),
    ):
        ours.write_text(f"[keys]\n{keys}\n", "utf-8")
        doctor, config = call("doctor", "--json"), call("config")
        found = [finding for finding in doctor.json["findings"] if finding["code"] == "keys"]
        assert doctor.code == config.code == 0
        assert [finding["severity"] for finding in found] == ["warning"] * bool(why)
        texts = [*(finding["text"] for finding in found), *filter(None, [config.err])]
        assert len(texts) == 2 * bool(why) and all(why in text and str(ours) in text for text in texts)
