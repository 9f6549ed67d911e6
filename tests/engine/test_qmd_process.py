"""The external ``qmd``: what is called, what its answers become, and what follows when it fails."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from openclaw_mem_engine.cancellation import Deadline
from openclaw_mem_engine.errors import Cancelled, PathRefused, UsageError
from openclaw_mem_engine.ranking.trace import recompute
from openclaw_mem_engine.retrieval.fallback import FallbackBackend
from openclaw_mem_engine.sidecar import command
from openclaw_mem_engine.sidecar.paths import qmd_home
from openclaw_mem_engine.sidecar.state import RETRY_MAX_S, RETRY_S, QmdState
from openclaw_mem_engine.state.disk import held
from openclaw_mem_engine.tools import memory_get, memory_search
from support.commands import is_running, until
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
    lost = [note.text for note in answer.trace.notes if note.code == "qmd-unplaced"]
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


# -- failures ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("search", "reason"),
    [
        ({"code": 1, "stderr": "kaboom"}, "qmd search failed with exit code 1: kaboom."),
        ({"stdout": "{broken"}, "qmd search printed something else than a JSON list of results: {broken."),
        ({"stdout": "x" * 300_000}, "printed more than 200,000 characters"),
    ],
)
def test_any_failure_is_answered_by_the_builtin_index(
    world: QmdWorld, search: dict[str, Any], reason: str
) -> None:
    world.qmd.answers(search=search)
    with world.memory() as memory:
        memory._backend.builtin.sync()  # type: ignore[attr-defined]
        answer = memory.search("router")
        assert {hit.path for hit in answer.hits} == {"MEMORY.md", "memory/2026-02-20.md"}
        fallback = answer.pool.fallback
        assert fallback is not None and reason in fallback.reason
        assert (fallback.origin, fallback.served, answer.pool.backend) == ("qmd", "builtin", "builtin")
        assert (fallback.since, fallback.next_retry) == (world.clock.now, world.clock.now + RETRY_S)
        assert "qmd-fallback" in {note.code for note in answer.trace.notes}
        assert answer.trace.knobs.profile == "documented"
        status = memory.status()
        assert status.backend == "builtin" and status.fallback == fallback
        event = memory.events(1)[0]
        assert (event.kind, event.text) == ("fallback", "Built-in index (qmd failed).")
        assert memory_search(memory, {"query": "router"})["fallback"]["from"] == "qmd"


def test_a_missing_program_names_how_to_install_it(world: QmdWorld) -> None:
    with world.memory({"command": str(world.root / "none")}) as memory:
        status = memory.status()
        assert (status.backend, status.provider) == ("builtin", "static"), "before the first search"
        assert status.fallback is not None and "npm install -g @tobilu/qmd" in status.fallback.reason
        assert "qmd-fallback" in {note.code for note in status.notes}
        fallback = memory.search("router").pool.fallback
    assert fallback is not None and "npm install -g @tobilu/qmd" in fallback.reason


def test_it_recovers_by_itself_and_waits_longer_after_each_failure(world: QmdWorld) -> None:
    world.qmd.answers(search={"code": 1})
    with world.memory() as memory:
        waits = []
        for _ in range(3):
            fallback = memory.search("nadia").pool.fallback
            assert fallback is not None and fallback.next_retry is not None
            waits.append(fallback.next_retry - world.clock.now)
            _ = world.qmd.commands
            assert memory.search("nadia").pool.fallback is not None
            assert world.qmd.commands == [], "it is not asked before its time"
            world.clock.now = fallback.next_retry
        assert waits == [RETRY_S, 2 * RETRY_S, 4 * RETRY_S]
        assert fallback is not None and fallback.since == 1_000_000.0
    world.qmd.answers(search={"rows": ROWS})
    with world.memory() as memory:  # known to another process, too
        assert memory.status().backend == "builtin"
        answer = memory.search("nadia")
        assert answer.pool.fallback is None and answer.hits[0].score == 0.9
        assert memory.status().backend == "qmd" and memory.fallback() is None
        assert memory.events(1)[0].text == "Searches use qmd again."


def test_a_failure_is_forgotten_with_its_cause(world: QmdWorld) -> None:
    world.qmd.answers(search={"code": 1})
    with world.memory() as memory:
        memory.search("nadia")
        assert memory.fallback() is not None
        backend = memory.backend
        assert isinstance(backend, FallbackBackend)
        world.qmd.answers(search={"rows": ROWS})
        assert not [step.error for step in backend.primary.upkeep.warm_up() if step.error]
        assert memory.fallback() is None and memory.search("nadia").pool.fallback is None
        state = backend.primary.upkeep.state
        for retry_at in (float("inf"), float("nan"), world.clock.now + RETRY_MAX_S + 1):
            state.failed(str(world.qmd.path), "simulated", world.clock.now)
            assert memory.fallback() is not None
            state.set(retry_at=retry_at)
            assert memory.fallback() is None and backend.name == "qmd"
        state.failed("/another/qmd", "simulated", world.clock.now)
        assert memory.fallback() is None
        assert state.facts == QmdState(qmd_home(memory.settings) / "state.json").facts


def test_a_timeout_ends_the_program_and_what_it_started(world: QmdWorld) -> None:
    world.qmd.answers(search={"hang": True})
    limits = {"timeoutMs": 60_000}
    with world.memory({"limits": limits}) as memory:
        memory._backend.primary.upkeep.ensure_collections(_no_deadline())  # type: ignore[attr-defined]
    with world.memory({"limits": {"timeoutMs": 1_500}}) as memory:
        fallback = memory.search("router").pool.fallback
    assert fallback is not None and "did not end within" in fallback.reason
    assert len(world.qmd.hanging) == 2
    for pid in world.qmd.hanging:
        until(lambda pid=pid: not is_running(pid))  # type: ignore[misc]


def test_one_process_at_a_time_changes_the_collections(
    world: QmdWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program reads and writes all of them at each change: of two at once one would be lost."""
    child = """if True:
        import sys, time
        from pathlib import Path
        from openclaw_mem_engine.cancellation import Deadline
        from openclaw_mem_engine.errors import IndexUnavailable
        from openclaw_mem_engine.sidecar.command import QmdCommand
        from openclaw_mem_engine.sidecar.paths import qmd_home
        from openclaw_mem_engine.sidecar.upkeep import QmdUpkeep
        from support.memories import settings_for
        root, seconds = Path(sys.argv[1]), float(sys.argv[2])
        settings = settings_for(root / "ws", root / "home", OPENCLAW_MEM_PROVIDER="static")
        upkeep = QmdUpkeep(settings, QmdCommand(settings.qmd.command, qmd_home(settings)), time.time)
        try:
            print(len(upkeep.ensure_collections(Deadline(seconds), again=True)))
        except IndexUnavailable as error:
            print(error)
    """

    def another_process(seconds: str) -> str:
        run = [sys.executable, "-c", child, str(world.root), seconds]
        path = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
        return subprocess.run(run, env=path, capture_output=True, text=True, check=True, timeout=60).stdout

    run = command.QmdCommand.run
    said: list[str] = []

    def changing(self: command.QmdCommand, arguments: list[str], *rest: Any, **options: Any) -> Any:
        if arguments[:2] == ["collection", "add"] and not said:
            said.append(another_process("0.2"))
        return run(self, arguments, *rest, **options)

    monkeypatch.setattr(command.QmdCommand, "run", changing)
    with world.memory() as memory:
        upkeep = memory._backend.primary.upkeep  # type: ignore[attr-defined]
        made = [collection.name for collection in upkeep.ensure_collections(_no_deadline())]
    assert said[0].startswith("Another process has been writing the collections of QMD for 0.")
    assert [call.split()[:2] for call in world.qmd.commands] == [["collection", "list"]] + [
        ["collection", "add"]
    ] * len(made)
    assert another_process("60") == f"{len(made)}\n"
    assert world.qmd.commands == ["collection list --json"], "they are those of the configuration"


def test_waiting_for_another_process_that_changes_the_collections_can_be_stopped(world: QmdWorld) -> None:
    stop = threading.Event()
    stop.set()
    with world.memory() as memory, held(qmd_home(memory.settings), "the collections of QMD"):
        upkeep = memory._backend.primary.upkeep  # type: ignore[attr-defined]
        with ThreadPoolExecutor(1) as other, pytest.raises(Cancelled, match="Waiting for another process"):
            other.submit(upkeep.ensure_collections, Deadline(3.0), stop, again=True).result()


def _no_deadline() -> Any:
    return Deadline(None)


@pytest.mark.skipif(not hasattr(signal, "SIGCHLD"), reason="the system has no signal for that")
def test_where_the_end_of_children_is_ignored_the_program_answers_too(world: QmdWorld) -> None:
    """As services and containers start others: the system collects what has ended by itself."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with world.memory() as memory:
            answer = memory.search("nadia")
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert answer.pool.fallback is None and answer.hits


def test_what_a_program_leaves_behind_is_ended_and_what_it_printed_is_read() -> None:
    """What it started holds the pipe, and would go on for an hour."""
    script = "import subprocess, sys; subprocess.Popen(['sleep', '3600']); print('qmd 1.0.7')"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", script], stdout=pipe, start_new_session=True) as process:
        assert process.stdout is not None
        again = os.dup(process.stdout.fileno())
        assert command.output_of(process, Deadline(None), None, 100) == ("qmd 1.0.7\n", "", True)
        assert os.read(again, 1) == b"", "nothing has the pipe any more"
        os.close(again)


def test_a_version_that_could_not_be_read_is_asked_again(world: QmdWorld) -> None:
    unread: dict[str, Any] = {"--version": {"code": 1}}
    world.qmd.answers(**unread)
    with world.memory() as memory:
        backend = memory.backend
        assert isinstance(backend, FallbackBackend)
        assert backend.primary.upkeep.version(60.0) == ()
        world.qmd.answers()
        assert backend.primary.upkeep.version(60.0) == (1, 0, 7)


def test_closing_ends_a_running_call_and_interrupting_a_search(world: QmdWorld) -> None:
    from openclaw_mem_engine.errors import Cancelled

    world.qmd.answers(search={"hang": True})
    with world.memory() as memory:
        errors: list[BaseException] = []

        def search() -> None:
            try:
                memory.search("router")
            except Cancelled as error:
                errors.append(error)

        thread = threading.Thread(target=search)
        thread.start()
        until(lambda: world.qmd.hanging)
        memory.interrupt()
        thread.join(30)
        assert errors and not thread.is_alive()
    for pid in world.qmd.hanging:
        until(lambda pid=pid: not is_running(pid))  # type: ignore[misc]


def test_variables_that_lead_out_of_our_folder_are_not_handed_on(
    world: QmdWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INDEX_PATH", "/elsewhere")
    with world.memory() as memory:
        memory.search("nadia")
    assert all("INDEX_PATH" not in call["env"] for call in world.qmd.calls)


# -- reading ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("failing", [False, True])
def test_a_path_of_a_collection_can_be_read_also_during_a_fallback(world: QmdWorld, failing: bool) -> None:
    if failing:
        world.qmd.answers(search={"code": 1})
    with world.memory() as memory:
        assert (memory.search("nadia").pool.fallback is not None) == failing
        found = memory.get("qmd/notes-main/sub/n.md", 2, 1)
        assert (found.text, found.path) == ("second", "qmd/notes-main/sub/n.md")
        assert memory_get(memory, {"path": "qmd/notes-main/none.md"}) == {
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
        assert not answer.hits and "channel telegram, chat type group" in answer.verdict
        why = memory.why_not("nadia", "MEMORY.md", session_key="agent:main:telegram:group:123")
        assert why.stage == "session" and "channel telegram, chat type group" in why.verdict
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
