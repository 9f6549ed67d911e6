"""A damaged index: what it cost to make is saved up to the first damage."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw
import pytest

from cli.test_providers import configure
from support.commands import Call, Said, World
from support.embed_server import Server, running_server

#: The same command, killed when it has taken over the first embeddings.
_KILLED = """
    import os, signal
    from openclaw_mem_engine.cli.main import run
    from openclaw_mem_engine.stores.sqlite.store import SqliteIndex

    real = SqliteIndex.cache_vectors

    def cache_vectors(self, *arguments):
        real(self, *arguments)
        os.kill(os.getpid(), signal.SIGKILL)

    SqliteIndex.cache_vectors = cache_vectors
    run(["index", "--force"])
"""


def write_many(world: World) -> None:
    for number in range(600):
        world.write(f"memory/many/{number:03}.md", f"# Note {number}\n\nAbout subject{number}.\n")


@contextmanager
def many_indexed(bare: Call, world: World) -> Iterator[tuple[Server, Path]]:
    """Those notes indexed with embeddings of a running server: the server, and the index."""
    write_many(world)
    with running_server(dims=256) as server:
        configure(world, server.base_url)
        assert bare("index").code == 0
        (index,) = world.indexes
        yield server, index


def damage(index: Path, first: int = -2) -> None:
    """A page of embeddings, and every 12th behind it, is nothing but zeros."""
    with closing(apsw.Connection(str(index))) as connection:
        sql = "SELECT pageno FROM dbstat WHERE name = 'embedding_cache' AND pagetype = 'leaf'"
        rows = [row[0] for row in connection.execute(sql)]
    with index.open("r+b") as file:
        for page in rows[first::12]:
            file.seek((page - 1) * 16_384)
            file.write(bytes(16_384))


def saved_by(said: Said) -> int:
    """How many embeddings ``index`` says that it has saved."""
    found = re.search(r"The new one took (\d+) embeddings from it", said.out)
    assert said.code == 0 and found is not None, said.out
    return int(found[1])


def test_a_damaged_index_gives_its_embeddings_to_the_new_one(bare: Call, world: World) -> None:
    """With a provider that takes money, only what cannot be read any more is paid for again."""
    with many_indexed(bare, world) as (server, index):
        damage(index)
        before = len(server.requests)
        said = bare("index")
        saved = saved_by(said)
        assert said.out.startswith("Rebuilt: ") and "a new one is built from your notes" in said.err
        assert 540 < saved < 604
        assert f"{saved} taken from the cache" in said.out
        sent = [text for inputs in server.inputs[before:] for text in inputs]
        assert len(sent) == len(set(sent)) == 604 - saved, "and each of the others once"
    assert bare("doctor").code == 0
    assert sorted(path.name for path in index.parent.iterdir() if ".tmp-" in path.name) == []


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_whoever_is_killed_while_saving_leaves_all_of_it_to_the_next(bare: Call, world: World) -> None:
    with many_indexed(bare, world) as (_, index):
        damage(index)
        before = index.read_bytes()
        older = index.with_name(f"{index.name}.damaged")
        older.write_text("set aside before")
        process = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(_KILLED)], env=world.environ, cwd=world.root, check=False
        )
        assert process.returncode == -signal.SIGKILL
        assert older.read_text() == "set aside before"
        assert index.read_bytes() == before, "it stays where it is, as it is"
        saved = saved_by(bare("index", "--force"))
        assert 540 < saved < 604
    assert older.read_text() == "set aside before"
    newer = index.with_name(f"{older.name}-2")
    assert newer.read_bytes().startswith(b"SQLite format 3"), "the damaged one is beside it"
    assert [path.name for path in index.parent.iterdir() if ".tmp-" in path.name] == []
    assert bare("doctor").code == 0


def test_the_state_of_a_damaged_index_is_not_fresh(bare: Call, world: World) -> None:
    """A query whose words and vectors are elsewhere meets no damage; the state is read from every page."""
    with many_indexed(bare, world) as (server, index):
        sound = bare("status").out
        assert re.search(r"^state +fresh", sound, re.M) and "with a vector" in sound
        damage(index)
        status = bare("status")
        said = status.out
        assert status.code == 6, "a script need not read it"
        assert re.search(r"^state +damaged", said, re.M) and "what it holds is not known" in said
        assert not re.search(r"^(files|chunks|cache)", said, re.M), "what a damaged page says may be wrong"
        assert "with a vector" not in said and "with its vectors" not in said
        assert "`openclaw-mem doctor --fix` repairs it" in " ".join(said.split())
        assert "in database main" not in said
        assert [note["code"] for note in bare("status", "--json").json["notes"]] == ["index-damaged"]
        files = bare("files")
        assert files.code == 6
        assert "the index is damaged" in files.out and "up to date.\n" not in files.out
        assert bare("files", "--json").json["state"] == "damaged"
        refused = bare("search", "subject7", "--no-sync")
        assert refused.code == 6 and "`openclaw-mem doctor --fix` repairs it" in refused.err
        before = len(server.requests)
        answer = bare("search", "subject7", "--json")
        assert "The index file is damaged: a new one is built from your notes." in answer.err
        assert answer.json["freshness"]["state"] == "fresh" and answer.json["results"]
        assert "damaged-replaced" in [note["code"] for note in answer.json["notes"]]
        assert len(server.requests) > before and bare("status").code == 0
        assert "index fresh" in bare("search", "subject7").out


def test_an_index_run_with_nothing_to_do_repairs_damaged_pages(call: Call, bare: Call, world: World) -> None:
    """It reads hardly a page of the file: it said that the index was up to date."""
    assert call("index").code == 0
    (index,) = world.indexes
    sound = index.read_bytes()

    def zero_a_page() -> None:
        with closing(apsw.Connection(str(index))) as connection:
            sql = "SELECT pageno, pgsize FROM dbstat WHERE name = 'embedding_cache' AND pagetype = 'leaf'"
            ((page, size),) = connection.execute(sql)
        index.write_bytes(sound[: (page - 1) * size] + bytes(size) + sound[page * size :])

    zero_a_page()
    said = call("index", "--json")
    assert said.code == 0 and said.json["rebuilt"] and "is damaged" in said.err
    (note,) = said.json["notes"]
    kept = index.with_name(f"{index.name}.damaged")
    assert note["code"] == "damaged-replaced" and f"is kept as {kept}; you can delete it." in note["text"]
    assert kept.is_file() and call("doctor").code == 0
    assert call("index").out.startswith("Up to date: ")
    zero_a_page()
    (world.root / "agents").write_text(f"main {world.workspace}\n")
    said = bare("index", "--agents", str(world.root / "agents"), "--json")
    assert said.code == 0 and "is damaged" in said.err
    assert call("doctor").code == 0


@pytest.mark.parametrize("ending", ["_idx", "_config"])
def test_damaged_words_are_damage_for_every_command(call: Call, world: World, ending: str) -> None:
    """Only a search said so: the pages of the full-text tables were sound, and their content was not read."""
    assert call("index").code == 0
    (index,) = world.indexes
    with closing(apsw.Connection(str(index))) as connection:
        connection.execute(f"DROP TABLE chunks_fts_stemmed{ending}")
    for command in (("status",), ("files",), ("chunks", "MEMORY.md")):
        said = call(*command)
        text = said.out + said.err
        assert said.code == 6 and "amaged" in text and "doctor --fix` repairs it" in text, text
        assert "up to date" not in text.splitlines()[-1] and "fresh" not in text
        assert "(SQLite" not in text.partition("repairs it.")[0], "SQLite's words come last"
    assert call("search", "router", "--no-sync", "--json").json["error"]["code"] == "IndexDamaged"
    assert call("index", "--json").json["rebuilt"] and call("status").code == 0


def test_an_index_file_that_was_emptied_is_not_silently_a_first_index(call: Call, world: World) -> None:
    assert "0 bytes" not in call("index").out
    (index,) = world.indexes
    index.write_bytes(b"")
    assert "(empty: 0 bytes)" in call("status").out
    assert "had lost its content (0 bytes)" in call("index").out
    assert "had lost its content" in call("log").out and "0 bytes" not in call("index", "--force").out


def test_an_index_without_the_records_of_its_files_is_built_anew(call: Call, world: World) -> None:
    assert call("index").code == 0
    (index,) = world.indexes
    with closing(apsw.Connection(str(index))) as connection:
        connection.execute("DELETE FROM files")
    assert "up to date" not in call("files").out
    assert "had lost chunks or records and was rebuilt" in call("index").out


def test_files_that_an_index_has_lost_are_indexed_again(call: Call, world: World) -> None:
    assert call("index").code == 0
    (index,) = world.indexes
    with closing(apsw.Connection(str(index))) as connection:
        connection.execute("DELETE FROM files WHERE path = 'MEMORY.md'")
    assert call("index", "--json").json["changed"] == ["MEMORY.md"]
    assert call("doctor", "--deep").code == 0


def test_a_second_damage_is_saved_from_too(bare: Call, world: World) -> None:
    with many_indexed(bare, world) as (_, index):
        for first in (-2, -3):
            damage(index, first)
            assert 540 < saved_by(bare("index", "--force")) < 604


def test_a_stored_vector_of_another_length_is_damage_and_no_other_model(call: Call, world: World) -> None:
    """It is the one from which the length is read."""
    assert call("index").code == 0
    (index,) = world.indexes
    with closing(apsw.Connection(str(index))) as connection:
        first = "SELECT id FROM embedding_cache WHERE space = 1 AND embedding IS NOT NULL LIMIT 1"
        connection.execute(f"UPDATE embedding_cache SET embedding = zeroblob(28) WHERE id = ({first})")
    said = call("search", "router VLAN", "--json")
    assert said.code == 0 and "another model" not in said.out
    assert "damaged-replaced" in [note["code"] for note in said.json["notes"]]
    assert said.json["provider"] == "static" and said.json["results"]
    assert call("doctor").code == 0


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE chunks_fts_stemmed",
        "UPDATE files SET size = 'x'",
        "UPDATE chunks SET text = 'other words'",
    ],
    ids=["opening", "sync", "search"],
)
def test_the_agent_gets_the_same_answer_wherever_damage_is_noticed(
    call: Call, world: World, statement: str
) -> None:
    assert call("index").code == 0
    (index,) = world.indexes
    with closing(apsw.Connection(str(index))) as connection:
        connection.execute(statement)
    said = call("tool", "memory_search", '{"query": "router"}')
    assert said.code == 0 and said.json["disabled"] and said.json["results"] == []
    assert "The index is damaged." in said.json["error"] and said.json["action"]


@pytest.mark.parametrize("repairs", [["doctor", "--fix"], ["search", "router"], ["index"]])
def test_a_file_emptied_beside_a_log_in_use_is_damaged_and_not_locked(
    call: Call, world: World, repairs: list[str]
) -> None:
    assert call("index").code == 0
    (index,) = world.indexes
    with closing(apsw.Connection(str(index))) as other:  # a workbench, say
        other.execute("BEGIN; UPDATE files SET path = path; COMMIT; SELECT * FROM files").fetchone()
        index.write_bytes(b"")
        for looks in ("doctor", "status"):
            said = call(looks)
            assert said.code == 6 and "the file is empty" in said.out + said.err
        said = call(*repairs)
        assert said.code == 0 and "damaged" in said.out + said.err
        assert call("search", "router", "--no-sync").code == 0 or repairs[0] == "doctor"
    assert "memory/" in call("search", "router").out
