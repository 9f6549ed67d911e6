"""``openclaw-mem qmd`` beyond the recordings of the program: configured collections, commands of the user,
git, refusals, and the other commands with this backend."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from cli.test_providers import configure
from support.commands import Call, World
from support.embed_server import running_server


@pytest.fixture
def qmd(call: Call, world: World) -> Call:
    """The command with ``memory.backend`` qmd and the world's four notes indexed."""
    folder = world.home / ".openclaw"
    folder.mkdir()
    (folder / "openclaw.json").write_text('{"memory": {"backend": "qmd"}}')
    world.write("memory/blank.md", " \n")
    assert call("qmd", "update").code == 0
    return call


def test_configured_collections_are_changed_where_they_are_configured(qmd: Call) -> None:
    names = [one["name"] for one in qmd("qmd", "collection", "list", "--json").json]
    assert names == ["memory-root-main", "memory-alt-main", "memory-dir-main"]
    listed = qmd("qmd", "collection", "list").out
    assert "(qmd://memory-root-main/) [from the settings of memory.qmd]\n" in listed
    for command in (("remove", names[0]), ("rename", names[0], "x")):
        said = qmd("qmd", "collection", *command)
        assert said.code == 2 and "comes from the settings memory.qmd.include" in said.err
    assert qmd("qmd", "context", "add", f"qmd://{names[2]}/projects", "Garden").code == 0
    assert qmd("index").code == 0, "the configuration is taken in again, and contexts stay"
    assert "Context: Garden" in qmd("qmd", "search", "tomatoes", "-c", names[2]).out


def test_files_lists_what_is_excluded_and_says_what_it_does_not_list(qmd: Call) -> None:
    rows = {row["path"]: (row["state"], row["why"]) for row in qmd("files", "--json").json["files"]}
    assert rows["memory/blank.md"] == ("excluded", "is blank")
    *lines, not_included, _ = qmd("files").out.splitlines()
    assert len(lines) == len(rows)
    assert any(line.startswith("excluded ") and line.endswith(" is blank") for line in lines)
    assert not_included.startswith("Not listed: hidden files, ")


def test_every_change_of_a_collection_is_json_too(qmd: Call, world: World) -> None:
    world.write("one/a.md", "The kingfisher.\n")
    add = ("qmd", "collection", "add", str(world.workspace / "one"), "--name", "birds", "--json")
    assert qmd(*add).json["name"] == "birds"
    changed: dict[tuple[str, ...], dict[str, object]] = {
        ("context", "add", "qmd://birds", "Birds"): {"path": "qmd://birds/", "context": "Birds"},
        ("context", "rm", "qmd://birds"): {"path": "qmd://birds/", "context": None},
        ("context", "add", "/", "All"): {"path": "/", "context": "All"},
        ("collection", "exclude", "birds"): {"included": False},
        ("collection", "update-cmd", "birds", "true"): {"updateCommand": "true"},
        ("collection", "rename", "birds", "fowl"): {"name": "fowl", "files": 1},
        ("collection", "remove", "fowl"): {"removed": "fowl", "documents": 1},
    }
    for command, expected in changed.items():
        assert qmd("qmd", *command, "--json").json.items() >= expected.items(), command


def test_equal_collections_are_one(qmd: Call, world: World) -> None:
    for folder in ("one", "two"):
        world.write(f"{folder}/a.md", f"# {folder}\n\nThe kingfisher of {folder}.\n")
    added = ("qmd", "collection", "add", str(world.workspace / "one"), "--name", "birds")
    assert qmd(*added).code == 0
    assert qmd("qmd", "context", "add", "qmd://birds", "Birds").code == 0

    def configure(*paths: str) -> None:
        memory = {"backend": "qmd", "qmd": {"paths": [{"path": path} for path in paths]}}
        (world.home / ".openclaw/openclaw.json").write_text(json.dumps({"memory": memory}))

    configure("memory", "one", "two", "one")
    said = qmd("search", "kingfisher")
    assert said.code == 0, said.err
    assert "'custom-1-main' is not made: the collection 'memory-dir-main' already has" in said.out
    assert "'custom-4-main' is not made: the collection 'custom-2-main' already has" in said.out
    assert "'custom-1-main' is not made" in qmd("index").out
    said = qmd("qmd", "search", "kingfisher", "-c", "custom-2-main")
    assert "qmd://custom-2-main/a.md" in said.out and "Context: Birds" in said.out
    assert {one["name"] for one in qmd("qmd", "collection", "list", "--json").json} == {
        *("memory-root-main", "memory-alt-main", "memory-dir-main", "custom-2-main", "custom-3-main")
    }
    configure("memory", "two", "one")
    assert qmd("index").code == 0, "collections may change places"
    said = qmd("qmd", "search", "kingfisher", "-c", "custom-2-main")
    assert "The kingfisher of two." in said.out and "Birds" not in said.out


def test_the_documents_of_a_folder_that_is_gone_are_kept_until_they_are_pruned(
    qmd: Call, world: World
) -> None:
    shutil.rmtree(world.workspace / "memory")
    why = f"folder {world.workspace / 'memory'} of the collection 'memory-dir-main' does not exist"
    said = qmd("search", "router", "--json")
    assert said.json["results"] and said.json["freshness"]["state"] == "stale"
    assert any(why in note["text"] for note in said.json["notes"])
    assert "Unchanged" in qmd("index").out and why in qmd("index").out
    assert why in qmd("status").out
    assert qmd("index", "--prune", "--dry-run", "--json").json["removed"] == 3
    assert qmd("index", "--prune").code == 0
    said = qmd("search", "router", "--json")
    assert {row["path"] for row in said.json["results"]} == {"MEMORY.md"}
    assert said.json["freshness"]["state"] == "fresh"
    assert why not in qmd("index").out


def test_an_index_without_a_collection_says_so(call: Call, world: World) -> None:
    (world.home / ".openclaw").mkdir()
    memory = {"backend": "qmd", "qmd": {"includeDefaultMemory": False}}
    (world.home / ".openclaw/openclaw.json").write_text(json.dumps({"memory": memory}))
    why = "There is no collection to search: memory.qmd.includeDefaultMemory is off"
    assert why in call("index").out and why in call("search", "router").out
    assert call("qmd", "search", "router").err.count(why) == 1
    assert call("qmd", "collection", "add", str(world.workspace / "memory"), "--name", "own").code == 0
    assert why not in call("index").out and "own" in call("qmd", "search", "router").out


def test_what_the_backend_changes_of_the_profile_is_no_change_of_the_user(qmd: Call) -> None:
    assert " · profile qmd-documented · " in qmd("search", "router").out
    said = qmd("search", "router", "--set", "snippet_chars=500").out
    assert " · profile qmd-documented with snippet chars 500 · " in said


def test_search_forms_and_scores_that_say_nothing_is_relevant(qmd: Call) -> None:
    (row, *_) = qmd("qmd", "query", "router VLAN", "--json", "--explain").json
    assert row["file"].endswith("2026-02-20.md") and row["band"] == "high"
    assert "bonus 0.0500" in row["explain"]["arithmetic"]
    said = qmd("qmd", "query", "zebra crossing", "--exit-status", "--min-score", "0.1")
    assert said.code == 1 and "weak)" in said.out
    assert said.err.count("weak") == 1 and "All results are weak: no keyword match" in said.err
    assert qmd("qmd", "vsearch", "qwrtzpf", "--json").json == []
    assert qmd("qmd", "vsearch", "x", "--provider", "none").code == 2
    assert qmd("qmd", "search", "x", "--format", "csv", "--json").code == 2
    assert qmd("qmd", "search", "x", "--explain", "--xml").code == 2
    assert qmd("qmd", "search", "router", "--limit", "3").code == 2
    said = qmd("qmd", "search", "router", "-c", "memory-rot-main")
    assert said.code == 2 and "memory-root-main" in said.err
    denied = qmd("qmd", "search", "router", "--session-key", "agent:main:telegram:group:1")
    assert denied.err.count("denied by its scope") == 1 and "candidate list" not in denied.err


def test_full_text_alone_embeds_nothing(qmd: Call, world: World) -> None:
    assert qmd("qmd", "search", "router", "--files").out.startswith("#")
    assert qmd("qmd", "status", "--json").json["pending"] == 4
    assert qmd("qmd", "embed", "--json").json["documents"] == 4
    assert qmd("qmd", "embed").out == "All content hashes already have embeddings.\n"
    assert qmd("qmd", "embed", "-f", "--json").json["documents"] == 4
    assert "Vectors:  4 embedded\n\n" in qmd("qmd", "status").out
    (index,) = world.data.glob("qmd/*/main/index.sqlite")
    with closing(sqlite3.connect(index)) as database, database:
        last = "SELECT max(rowid) FROM content_vectors"
        database.execute(f"UPDATE content_vectors SET model = 'old' WHERE rowid = ({last})")
    said = qmd("qmd", "status").out
    unused = "  Unused:   1 embedded with another model, provider or endpoint\n"
    assert f"Vectors:  3 embedded\n{unused}  Pending:  1" in said
    assert "Vectors:  4 embedded\n" in qmd("qmd", "status", "--provider", "none").out
    assert qmd("qmd", "embed").code == 0
    unexpanded = "No model expands the query: it has no variants."
    assert unexpanded not in qmd("qmd", "vsearch", "router VLAN").err
    assert unexpanded in qmd("qmd", "vsearch", "router VLAN", "--profile", "qmd-2.8").err


def test_without_sync_a_query_looks_at_no_file(qmd: Call, world: World) -> None:
    shutil.rmtree(world.workspace)
    command = ("qmd", "query", "router VLAN", "--no-sync", "--files", "--provider", "none")
    done = world.run(*command, "--workspace", str(world.workspace), env={"PYTHONPROFILEIMPORTTIME": "1"})
    assert done.returncode == 0 and b"2026-02-20.md" in done.stdout
    times: list[str] = []
    said: list[str] = []
    for line in done.stderr.decode().splitlines():
        (times if line.startswith("import time:") else said).append(line)
    assert said == [], "nothing is said of files"
    loaded = {line.rpartition("|")[2].strip().removeprefix("openclaw_mem_engine.") for line in times}
    assert "retrieval.qmd_lists" in loaded
    own = {"stores.base", "sync.changes", "sync.plan", "providers.prices"}
    assert not loaded & {*own, "numpy", "csv", "html"}
    assert not loaded & {"textual", "openai", "httpx2", "llama_cpp", "watchfiles", "rich"}


def test_documents_by_the_path_that_agents_get(qmd: Call) -> None:
    assert "VLAN 40" in qmd("qmd", "get", "memory/2026-02-20.md").out
    assert qmd("qmd", "get", "memory/2026-02-20.md:4", "--json").json["line"] == 4
    said = qmd("qmd", "get", "memory/2026-02-21.md")
    assert (
        said.code == 2 and "Similar: 2026-02-20.md" in said.err and "`openclaw-mem qmd ls` lists" in said.err
    )
    assert qmd("get", "qmd/memory-dir-main/2026-02-25.md").out.startswith("# 2026-02-25")
    assert qmd("qmd", "multi-get", "nothing-*.md").code == 2
    assert "VLAN" in qmd("qmd", "multi-get", "memory/2026-02-20.md").out, "as the agent writes it"
    assert qmd("qmd", "ls", "memory-dir-main/projects", "--json").json[0]["size"] > 10


def test_what_a_search_finds_can_be_read(qmd: Call, world: World) -> None:
    guides = world.root / "guides"
    for path in ("g.md", "drafts/d.md", "node_modules/n.md"):
        (guides / path).parent.mkdir(parents=True, exist_ok=True)
        (guides / path).write_text("The kingfisher nests.\n")
    world.write("inner/i.md", "The kingfisher dives.\n")
    add = ("qmd", "collection", "add")
    assert qmd(*add, str(guides), "--name", "guides", "--ignore", "drafts/**").code == 0
    assert qmd(*add, str(world.workspace / "inner"), "--name", "inner").code == 0
    found = qmd("tool", "memory_search", '{"query": "kingfisher"}').json["results"]
    paths = {row["path"] for row in found if "kingfisher" in row["snippet"]}
    assert paths == {"qmd/guides/g.md", "inner/i.md"}
    for path in paths:
        assert "The kingfisher" in qmd("get", path).out
        assert "The kingfisher" in qmd("tool", "memory_get", json.dumps({"path": path})).json["text"]
    for path in ("drafts/d.md", "node_modules/n.md", "../secret.md"):
        assert qmd("get", f"qmd/guides/{path}").code == 4
    assert qmd("qmd", "collection", "remove", "guides").code == 0
    assert qmd("get", "qmd/guides/g.md").code == 4


def test_what_the_configuration_had_is_not_read(qmd: Call, world: World) -> None:
    config = world.home / ".openclaw/openclaw.json"
    (world.root / "guides").mkdir()
    (world.root / "guides/g.md").write_text("The kingfisher nests.\n")
    paths = [{"path": str(world.root / "guides"), "name": "guides"}]
    config.write_text(json.dumps({"memory": {"backend": "qmd", "qmd": {"paths": paths}}}))
    assert qmd("index").code == 0 and qmd("get", "qmd/guides-main/g.md").code == 0
    config.write_text(json.dumps({"memory": {"backend": "qmd"}}))
    assert qmd("get", "qmd/guides-main/g.md").code == 4


def test_a_command_of_the_user_runs_before_an_update(qmd: Call, world: World) -> None:
    folder = world.root / "more"
    folder.mkdir()
    assert qmd("qmd", "collection", "add", str(folder), "--name", "more").code == 0
    qmd("qmd", "collection", "update-cmd", "more", "printf heron > made.md; echo made it")
    assert qmd("index").code == 0 and qmd("search", "heron").code == 0
    assert not (folder / "made.md").exists(), "neither a search nor index runs it"
    said = qmd("qmd", "update", "-c", "more")
    assert "Running update command: printf heron > made.md" in said.out and "    made it" in said.out
    assert "Indexed: 1 new" in said.out
    # What stands in index.yml is written for the program qmd; it is never taken from there.
    (config,) = world.data.glob("qmd/*/main/index.yml")
    text = json.loads(config.read_text())
    text["collections"]["more"]["update"] = f"touch {world.root}/foreign"
    config.write_text(json.dumps(text))
    for file in config.parent.glob("index.sqlite*"):
        file.unlink()
    assert qmd("qmd", "update").code == 0 and not (world.root / "foreign").exists()
    qmd("qmd", "collection", "update-cmd", "more", "echo no >&2; exit 3")
    said = qmd("qmd", "update")
    assert said.code == 6 and "exit code 3): no" in said.err


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_pull_brings_the_work_tree_up_to_date_once(qmd: Call, world: World) -> None:
    def git(folder: Path, *words: str) -> None:
        own = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "init.defaultBranch=main"]
        subprocess.run(["git", *own, *words], cwd=folder, check=True, capture_output=True)

    origin, copy = world.root / "origin", world.root / "copy"
    origin.mkdir()
    git(origin, "init")
    (origin / "a.md").write_text("one")
    git(origin, "add", "-A")
    git(origin, "commit", "-m", "first")
    git(world.root, "clone", str(origin), str(copy))
    for name in ("all", "half"):
        how = ("--name", name, "--mask", f"{name[0]}*.md")
        assert qmd("qmd", "collection", "add", str(copy), *how).code == 0
    (origin / "ab.md").write_text("two")
    git(origin, "add", "-A")
    git(origin, "commit", "-m", "second")
    assert "0 new" in qmd("qmd", "update", "-c", "all").out
    (*_, everything, half) = qmd("qmd", "update", "--pull", "--json").json["collections"]
    assert everything["new"] == 1 and "git pull --ff-only" in everything["ran"][0]["command"]
    assert half["ran"] == [], "one work tree is brought up to date once"


def test_other_commands_say_true_things(qmd: Call, world: World) -> None:
    (index,) = world.data.glob("qmd/*/main/index.sqlite")
    status = qmd("status")
    assert str(index) in status.out and "texts" in status.out and "chunks" not in status.out
    assert qmd("config", "--json").json["indexPath"] == str(index)
    assert "not used" not in qmd("config").out.partition("memory.backend")[2].partition("\n")[0]
    assert qmd("index", "--dry-run", "--json").json["files"] == 0
    forced = qmd("index", "--dry-run", "--force", "--json").json
    assert (forced["files"], forced["embed"][0]["texts"]) == (5, 4), "the blank one is read, too"
    assert qmd("index").out.startswith("Indexed: 4 files in") or "4 files in" in qmd("index").out
    assert "4 files with 4 chunks in the index" in qmd("files").out
    why = qmd("why-not", "router", "MEMORY.md:3")
    assert why.code == 0 and "ok  collection" in why.out, why.err
    for command in (["chunks", "MEMORY.md"], ["cache", "stats"]):
        said = qmd(*command)
        assert said.code == 2 and "backend qmd" in said.err, command
    assert not world.indexes, "no index of the other backend is made"


def test_the_doctor_knows_this_index(qmd: Call, world: World) -> None:
    findings = {found["code"] for found in qmd("doctor", "--json").json["findings"]}
    assert findings == {"no-vectors"}
    world.write("memory/new.md", "heron")
    (world.workspace / "memory/binary.md").write_bytes(b"heron \0")
    assert {found["code"] for found in qmd("doctor", "--json").json["findings"]} == {
        *("no-vectors", "files-changed")
    }
    assert qmd("index").code == 0
    assert {found["code"] for found in qmd("doctor", "--json").json["findings"]} == {"files-excluded"}
    (index,) = world.data.glob("qmd/*/main/index.sqlite")
    index.write_bytes(index.read_bytes()[:8192] + b"x" * 9000)
    said = qmd("doctor", "--json")
    assert said.code == 6 and said.json["findings"][0]["code"] == "damaged"
    assert qmd("search", "router", "--no-sync").code == 6
    said = qmd("search", "router", "--exit-status")
    assert said.code == 0 and "is damaged: a new one is built" in said.err
    assert qmd("doctor").code == 0
    index.write_bytes(index.read_bytes()[:8192] + b"x" * 9000)
    said = qmd("doctor", "--fix")
    assert said.code == 0 and f"is kept as {index}.damaged-2; you can delete it" in said.out
    assert qmd("search", "heron", "--no-sync", "--exit-status").code == 0


def test_vectors_of_another_length_are_made_again_by_a_rebuild(bare: Call, world: World) -> None:
    with running_server() as server:
        path = configure(world, server.base_url)
        path.write_text(json.dumps({**json.loads(path.read_text()), "memory": {"backend": "qmd"}}))
        assert bare("index").code == 0
        server.dims = 24
        said = "now sends vectors of 24 dimensions, the index holds 256"
        assert said in " ".join(bare("search", "router").out.split())
        asked = len(server.requests)
        assert said in " ".join(bare("search", "router").out.split()) and len(server.requests) == asked
        indexed = bare("index")
        assert indexed.code == 7 and said in indexed.err and indexed.out.startswith("Incomplete: ")
        planned = bare("index", "--force", "--dry-run", "--json").json
        assert planned["embed"][0]["texts"] == 4
        assert bare("index", "--force").code == 0
        assert "dimensions" not in bare("search", "router").out and bare("index").code == 0


def test_a_damaged_index_of_the_program_qmd_stays_where_it_is(qmd: Call, world: World) -> None:
    assert qmd("index").code == 0
    (index,) = world.data.glob("qmd/*/main/index.sqlite")
    with closing(apsw.Connection(str(index))) as connection:
        connection.pragma("application_id", 0)
        connection.pragma("wal_checkpoint", "truncate")
    damaged = index.read_bytes()[:8192] + b"x" * 9000
    index.write_bytes(damaged)
    for command in (["doctor", "--fix"], ["index"], ["search", "router"]):
        assert qmd(*command).code == 6
        assert index.read_bytes() == damaged and not [*index.parent.glob("*.damaged*")]
    (finding,) = (one for one in qmd("doctor", "--json").json["findings"] if one["code"] == "damaged")
    assert finding["repair"].startswith(f"mv -- {index} {index}.damaged && openclaw-mem ")


def test_nothing_is_made_by_looking(call: Call, world: World) -> None:
    (world.home / ".openclaw").mkdir()
    (world.home / ".openclaw/openclaw.json").write_text('{"memory": {"backend": "qmd"}}')
    for command in (["status"], ["index", "--dry-run"], ["doctor"]):
        assert call(*command).code == 0
    assert not list(world.data.glob("qmd"))


def test_a_profile_keeps_our_settings(qmd: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "own.toml"
    own.write_text("[query]\ncandidate_limit = 1\n", "utf-8")
    asked = "qmd", "query", "router tomatoes", "--no-rerank", "--json", "--profile", "qmd-2.8"
    assert len(qmd(*asked).json) > 1
    monkeypatch.setenv("OPENCLAW_MEM_CONFIG", str(own))
    assert len(qmd(*asked).json) == 1
