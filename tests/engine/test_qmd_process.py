"""The external ``qmd``: what is called, and what its answers become."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from openclaw_mem_engine.errors import PathRefused, UsageError
from openclaw_mem_engine.ranking.trace import recompute
from openclaw_mem_engine.sidecar.paths import qmd_home
from openclaw_mem_engine.tools import memory_get, memory_search
from support.goldens import golden
from support.qmd_world import ROWS, QmdWorld, codes

CLI = {case["label"]: case for case in golden("qmd_cli")}


@pytest.fixture
def world(tmp_path: Path) -> QmdWorld:
    return QmdWorld(tmp_path)


# -- calls and answers ------------------------------------------------------------------------------------


def test_the_recorded_answer_and_the_recorded_calls(world: QmdWorld) -> None:
    """``search mode default`` of the goldens: the header of a snippet is not part of it, the program runs in
    our folder, and a collection without a folder is not made (tests/differences.md)."""
    case = CLI["search mode default (search)"]
    with world.memory() as memory:
        answer = memory.search("nadia")
    wanted = json.loads(case["stdout"])["results"]
    for row in wanted:
        row["snippet"] = row["snippet"].rpartition("@@")[2].partition("\n")[2] or row["snippet"]
    assert [hit.to_dict() for hit in answer.hits] == wanted
    for row in answer.trace.returned:
        assert recompute(row.operands) == pytest.approx(row.scores["final"], abs=1e-9)
    assert answer.pool.backend == "qmd" and answer.pool.fallback is None
    home = qmd_home(memory.settings)
    assert home.is_relative_to(memory.settings.data_dir)
    calls = [call for call in world.qmd.calls if call["argv"] != ["--version"]]
    recorded = [call["argv"] for call in case["qmd_calls"] if call["argv"] != ["update"]]
    shown = {"<SCRATCH>/ws": str(world.workspace), "<SCRATCH>/home": str(world.root / "home")}
    for argv in recorded:
        for old, new in shown.items():
            argv[:] = [word.replace(old, new) for word in argv]
    assert [call["argv"] for call in calls] == recorded
    assert {call["cwd"] for call in calls} == {str(home)}
    assert calls[0]["env"] == {
        "XDG_CONFIG_HOME": str(home / "xdg-config"),
        "XDG_CACHE_HOME": str(home / "xdg-cache"),
        "NO_COLOR": "1",
    }


def test_a_later_release_is_asked_once_for_all_collections(world: QmdWorld) -> None:
    world.qmd.answers(version="2.8.3", search={"rows": ROWS})
    with world.memory() as memory:
        memory.search("nadia")
        memory.search("--nadia")
    calls = world.qmd.commands
    assert calls.count("--version") == 1 and calls.count("collection list --json") == 1
    collections = " ".join(f"-c {name}-main" for name in ("memory-root", "memory-alt", "memory-dir", "notes"))
    # The blank keeps a query from being an option.
    assert calls[-2:] == [f"search {query} --json -n 6 {collections}" for query in ("nadia", " --nadia")]


@pytest.mark.parametrize("label", ["searchMode query", "searchMode vsearch", "han query"])
def test_the_mode_and_the_query_are_as_recorded(world: QmdWorld, label: str) -> None:
    case = CLI[label]
    mode = case["memory"]["qmd"].get("searchMode", "search")
    found: dict[str, Any] = {mode: {"rows": ROWS}}
    world.qmd.answers(**found)
    with world.memory({"searchMode": mode}) as memory:
        options = dict(zip(case["argv"][-2::2], case["argv"][-1::2], strict=True))
        knobs = memory.knobs.set({"max_results": options.get("--max-results", "6")})
        query = case["argv"][3]
        answer = memory.search(query, knobs)
    assert answer.pool.lists[0].id == f"qmd:{mode}" and answer.hits
    wanted = [" ".join(call["argv"]) for call in case["qmd_calls"] if call["argv"][0] == mode]
    assert [call for call in world.qmd.commands if call.startswith(mode)] == wanted


@pytest.mark.parametrize(
    ("output", "found"),
    [
        ({"stdout": 'warming up\n[{"score": 1, "file": "qmd://memory-root-main/MEMORY.md"}] done\n'}, 1),
        ({"stdout": "No results found.\n"}, 0),
        ({"stderr": "No results found above minimum score threshold."}, 0),
        ({"rows": [{"score": 1, "file": "qmd://unknown/x.md"}, {"docid": "#zz"}, 7]}, 0),
    ],
)
def test_what_surrounds_the_answer_is_no_error(world: QmdWorld, output: dict[str, Any], found: int) -> None:
    world.qmd.answers(search=output)
    with world.memory() as memory:
        answer = memory.search("nadia")
    assert (len(answer.hits), answer.pool.fallback) == (found, None)
    lost = [note.text for note in answer.trace.notes if note.code == "qmd-unlocated"]
    assert lost == (
        ["12 results of qmd cannot be shown: no file of a configured collection."] if "rows" in output else []
    )


def test_explicit_min_score_applies_and_the_configured_one_does_not(world: QmdWorld) -> None:
    with world.memory() as memory:
        assert len(memory.search("nadia").hits) == 3
        assert len(memory.search("nadia", memory.knobs.set({"min_score": 0.5})).hits) == 2
        reply = memory_search(memory, {"query": "nadia", "maxResults": 2})
        assert len(reply["results"]) == 2 and reply["provider"] == "qmd" and reply["mode"] == "fts-only"


def test_injected_characters_are_limited(world: QmdWorld) -> None:
    """The snippet that does not fit is cut, and the list ends there; the footer counts."""
    rows = [
        {
            "score": 1 - n / 10,
            "file": f"qmd://notes-main/{n}.md",
            "snippet": "x" * 50,
            "in": "notes-main",
            "context": "letters",
        }
        for n in range(3)
    ]
    world.qmd.answers(search={"rows": rows})
    with world.memory({"limits": {"timeoutMs": 60_000, "maxInjectedChars": 100}}) as memory:
        results = memory_search(memory, {"query": "x"})["results"]
        assert {row["context"] for row in results} == {"letters"}
    assert [len(row["snippet"]) for row in results] == [
        50 + len("\n\nSource: qmd/notes-main/0.md#L1"),
        100 - 82,
    ]


def test_the_slug_of_an_early_release_finds_its_file(world: QmdWorld) -> None:
    (world.root / "home" / "notes" / "My Note (2).md").write_text("by hand")
    rows = [{"score": 1, "file": "qmd://notes-main/my-note-2.md", "snippet": "by hand", "in": "notes-main"}]
    world.qmd.answers(search={"rows": rows})
    with world.memory() as memory:
        (hit,) = memory.search("hand").hits
        assert hit.path == "qmd/notes-main/My Note (2).md" and memory.get(hit.path).text == "by hand"


# -- retries ----------------------------------------------------------------------------------------------


def test_an_unknown_flag_is_asked_again_as_query(world: QmdWorld) -> None:
    world.qmd.answers(search={"code": 3, "stderr": "unknown option --x"}, query={"rows": ROWS})
    with world.memory() as memory:
        answer = memory.search("nadia")
    assert answer.pool.lists[0].id == "qmd:query" and len(answer.hits) == 3 and answer.pool.fallback is None


def test_a_missing_collection_is_made_and_asked_again(world: QmdWorld) -> None:
    with world.memory() as memory:
        memory.search("nadia")
        config = qmd_home(memory.settings) / "xdg-config" / "collections.json"
        config.unlink()
        lost = {"code": 1, "stderr": "Collection not found: memory-root-main", "once": {"rows": ROWS}}
        world.qmd.answers(search=lost)
        _ = world.qmd.commands
        assert memory.search("nadia").pool.fallback is None
    calls = world.qmd.commands
    assert sum(call.startswith("collection add") for call in calls) == 4 and "collection list --json" in calls


def test_collections_that_are_no_longer_configured_are_removed(world: QmdWorld) -> None:
    with world.memory() as memory:
        memory.search("nadia")
    with world.memory({"paths": [{"path": "~/notes", "name": "notes", "pattern": "*.md"}]}) as memory:
        memory.search("nadia")
    assert "collection remove notes-main" in world.qmd.commands


# -- reading ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("failing", [False, True])
def test_a_path_of_a_collection_can_be_read_also_during_a_fallback(world: QmdWorld, failing: bool) -> None:
    if failing:
        world.qmd.answers(search={"code": 1})
    with world.memory() as memory:
        assert (memory.search("nadia").pool.fallback is not None) == failing
        found = memory.get("qmd/notes-main/sub/n.md", 2, 1)
        assert (found.text, found.path) == ("second", "qmd/notes-main/sub/n.md")
        assert memory_get(memory.settings, {"path": "qmd/notes-main/none.md"}) == {
            "path": "qmd/notes-main/none.md",
            "text": "",
        }
        assert memory.get("MEMORY.md").found
        with pytest.raises(UsageError):
            memory.get(" ")


@pytest.mark.parametrize(
    "path",
    [
        "qmd/notes-main/../../secret.md",
        "qmd/notes-main/sub/../../../secret.md",
        "qmd/notes-main//etc/passwd.md",
        "qmd/notes-main/other.txt",
        "qmd/notes-main/link.md",
        "qmd/notes-main/linked/secret.md",
        "qmd/notes-main/.hidden/x.md",
        "qmd/notes-main/x\0.md",
        "qmd/memory-root-main/memory/2026-02-20.md",
        "qmd/unknown/x.md",
    ],
)
def test_no_path_leads_out_of_a_collection(world: QmdWorld, path: str) -> None:
    outside = world.root / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("secret")
    (world.root / "home" / "secret.md").write_text("secret")
    notes = world.root / "home" / "notes"
    (notes / "link.md").symlink_to(outside / "secret.md")
    (notes / "linked").symlink_to(outside)
    (notes / ".hidden").mkdir()
    (notes / ".hidden" / "x.md").write_text("secret")
    with world.memory() as memory, pytest.raises(PathRefused):
        memory.get(path)


def test_a_collection_inside_of_the_workspace_is_read_by_its_plain_path(world: QmdWorld) -> None:
    folder = world.workspace / "docs"
    folder.mkdir()
    (folder / "a.md").write_text("alpha")
    (folder / "b.txt").write_text("beta")
    rows = [{"score": 1, "file": "qmd://docs-main/a.md", "snippet": "alpha"}]
    world.qmd.answers(search={"rows": rows})
    with world.memory({"paths": [{"path": "docs", "name": "Docs"}]}) as memory:
        assert memory.search("alpha").hits[0].path == "docs/a.md"
        assert memory.get("docs/a.md").text == "alpha"
        with pytest.raises(PathRefused):
            memory.get("docs/b.txt")


# -- scope ------------------------------------------------------------------------------------------------


def test_a_group_is_denied_with_channel_and_chat_type_in_answer_and_log(world: QmdWorld) -> None:
    with world.memory() as memory:
        answer = memory.search("nadia", session_key="agent:main:telegram:group:123")
        (note,) = answer.trace.notes
        assert note.code == "scope-denied" and "channel telegram, chat type group" in note.text
        assert not answer.hits and "channel telegram, chat type group" in answer.text
        why = memory.why_not("nadia", "MEMORY.md", session_key="agent:main:telegram:group:123")
        assert why.stage == "session" and "channel telegram, chat type group" in why.text
        assert world.qmd.calls == [], "nothing was asked"
        event = memory.events(1)[0]
        assert event.kind == "denied" and "channel telegram, chat type group" in event.reason
        reply = memory_search(memory, {"query": "nadia"}, "agent:main:slack:channel:c1")
        assert reply["results"] == [] and "chat type channel" in reply["warning"]


def test_a_direct_chat_may_search_and_no_key_counts_as_one(world: QmdWorld) -> None:
    with world.memory() as memory:
        assert "scope-direct" in codes(memory)
        assert "scope-direct" not in codes(memory, session_key="agent:main:telegram:dm:5")


def test_the_scope_holds_while_the_builtin_index_answers(world: QmdWorld) -> None:
    world.qmd.answers(search={"code": 1})
    with world.memory() as memory:
        assert codes(memory) >= {"qmd-fallback", "scope-direct"}
        assert codes(memory, session_key="agent:main:x:group:1") == {"scope-denied"}
        assert memory.why_not("nadia", "MEMORY.md", session_key="agent:main:x:group:1").stage == "session"
        assert memory.why_not("nadia", "MEMORY.md").stage != "session"
