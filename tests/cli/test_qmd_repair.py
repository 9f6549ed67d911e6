"""``memory.backend`` qmd: what makes vectors again, what repairs a damaged index, and what is said of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from cli.test_providers import configure
from support.commands import Call, World
from support.embed_server import Server, running_server

_FIX = "`openclaw-mem doctor --fix` repairs it"
_MOVE = "Move the file away, and `openclaw-mem qmd update` builds a new one"


@pytest.fixture
def server(bare: Call, world: World) -> Iterator[Server]:
    """The four notes are indexed with its vectors."""
    with running_server() as server:
        path = configure(world, server.base_url)
        path.write_text(json.dumps({**json.loads(path.read_text()), "memory": {"backend": "qmd"}}))
        assert bare("index").code == 0
        yield server


def index_of(world: World) -> Path:
    (index,) = world.data.glob("qmd/*/main/index.sqlite")
    return index


def use(world: World, backend: str) -> None:
    (world.home / ".openclaw").mkdir(exist_ok=True)
    (world.home / ".openclaw/openclaw.json").write_text(json.dumps({"memory": {"backend": backend}}))


def destroy(index: Path) -> None:
    """Of the file its first two pages remain."""
    index.write_bytes(index.read_bytes()[:8192] + b"x" * 9000)


def shorten_vectors(index: Path) -> None:
    """The file is sound, and what it holds are no vectors."""
    with closing(apsw.Connection(str(index))) as connection:
        connection.execute("UPDATE vectors_vec_vector_chunks00 SET vectors = zeroblob(8)")


def test_a_rebuild_finds_out_that_vectors_have_another_length(
    bare: Call, world: World, server: Server
) -> None:
    server.dims = 24
    sent = len(server.requests)
    assert bare("index").out.startswith("Up to date: ") and len(server.requests) == sent
    forced = bare("index", "--force")
    assert forced.code == 0 and forced.out.startswith("Indexed: 4 files")
    assert "4 texts embedded, 0 taken from the cache" in forced.out
    assert "dimensions" not in bare("search", "router").out
    again = bare("index", "--force")
    assert again.out.startswith("Up to date: ") and "embedded" not in again.out


def test_a_rebuild_without_an_answer_keeps_the_vectors(bare: Call, world: World, server: Server) -> None:
    server.max_inputs = 0
    forced = bare("index", "--force")
    assert forced.code == 7 and "No vectors were made: " in forced.err
    assert "Vectors:  4 embedded" in bare("qmd", "status").out


def test_the_doctor_finds_vectors_of_another_length_and_makes_them_again(
    bare: Call, world: World, server: Server
) -> None:
    server.dims = 24
    assert bare("search", "router").code == 0
    world.write("memory/new.md", "The plumber comes on Friday.\n")
    assert bare("qmd", "update").code == 0
    found = bare("doctor", "--json").json
    findings = {one["code"]: one for one in found["findings"]}
    said = "now sends vectors of 24 dimensions, the index holds 256"
    assert found["errors"] == 1 and said in findings["other-dims"]["text"]
    assert findings["other-dims"]["repair"] == "openclaw-mem index --force"
    assert findings["no-vectors"]["repair"] == "" and said in findings["no-vectors"]["text"]
    assert bare("doctor", "--fix").code == 0
    assert {one["code"] for one in bare("doctor", "--json").json["findings"]} == set()
    assert bare("index").code == 0


@pytest.mark.parametrize("damage", [destroy, shorten_vectors])
def test_a_damaged_index_is_repaired_by_what_its_message_names(
    call: Call, world: World, damage: Callable[[Path], None]
) -> None:
    use(world, "qmd")
    assert call("index").code == 0
    index = index_of(world)
    damage(index)
    said = [
        call("search", "router", "--no-sync"),
        call("qmd", "query", "router"),
        call("tool", "memory_search", '{"query": "router"}'),
    ]
    for each in said:
        shown = " ".join((each.out + each.err).split())
        assert _FIX in shown and _MOVE not in shown
    assert call("doctor", "--fix").code == 0
    assert index.with_name("index.sqlite.damaged").is_file()
    after = call("search", "router", "--no-sync", "--exit-status")
    assert after.code == 0 and "damaged" not in after.out + after.err


def test_what_the_doctor_does_not_look_at_is_moved_away(call: Call, world: World) -> None:
    use(world, "builtin")
    assert call("qmd", "update").code == 0
    index = index_of(world)
    destroy(index)
    said = call("qmd", "query", "router")
    assert said.code == 6 and _MOVE in said.err and _FIX not in said.err
    index.rename(index.with_suffix(".away"))
    assert call("qmd", "update").code == 0 and "router" in call("qmd", "search", "router").out


def test_the_vectors_of_all_texts_are_stored_again(call: Call, world: World) -> None:
    use(world, "qmd")
    assert call("qmd", "update").code == 0
    assert call("qmd", "embed").out == "Embedded 4 chunks of 4 documents.\n"
    stored = "Stored the vectors of 4 chunks of 4 documents: "
    assert call("qmd", "embed", "-f").out == f"{stored}0 embedded, 4 taken from the cache.\n"
    assert call("qmd", "cleanup").code == 0
    assert call("qmd", "embed", "-f").out == "Embedded 4 chunks of 4 documents.\n"
