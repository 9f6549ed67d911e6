"""``openclaw-mem index --agents``: many agents at a time, on a server and in files."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from openclaw_mem_engine.cli import index_agents, planning
from openclaw_mem_engine.cli.main import run
from openclaw_mem_engine.cli.opening import open_memory
from openclaw_mem_engine.cli.progress import progress_text
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.model import WAITING
from openclaw_mem_engine.sync.report import SyncReport
from support import postgres
from support.memories import write_notes

AGENTS = ("ada", "bob", "cyd", "dan", "eve")


@pytest.fixture
def workspaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for agent in AGENTS:
        write_notes(tmp_path / agent, {"MEMORY.md": f"# {agent}\n\nThe door of {agent} is green.\n"})
    monkeypatch.setenv("OPENCLAW_MEM_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("OPENCLAW_STATE_DIR", raising=False)
    (tmp_path / "home").mkdir()
    rows = [f"{agent} {tmp_path / agent}" for agent in AGENTS]
    (tmp_path / "agents").write_text("# all of them\n\n" + "\n".join(rows) + "\n")
    return tmp_path


def result(capsys: pytest.CaptureFixture[str], *argv: str, code: int = 0) -> Any:
    assert run(["index", *argv, "--provider", "static", "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_each_agent_has_its_rows_on_the_server(
    workspaces: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = postgres.variables()
    base = variables["OPENCLAW_MEM_STORE_AGENT"]
    for name, value in (variables | {"OPENCLAW_MEM_STORE_AGENT": f"{base}/{{agent}}"}).items():
        monkeypatch.setenv(name, value)
    argv = ["--agents", str(workspaces / "agents"), "--jobs", "3"]
    first = result(capsys, *argv)
    assert [row["agent"] for row in first["agents"]] == list(AGENTS) and first["failed"] == 0
    assert all(
        row["changed"] == 1 and f"agent {base}/{row['agent']}" in row["index"] for row in first["agents"]
    )
    assert run(["index", *argv, "--provider", "static"]) == 0
    assert "5 agents" in (said := capsys.readouterr().out) and "5 up to date, 0 failed" in said
    options = ["--agent", "bob", "--workspace", str(workspaces / "bob"), "--provider", "static", "--json"]
    assert run(["search", "green door", "--no-sync", *options]) == 0
    found = json.loads(capsys.readouterr().out)["results"]
    assert len(found) == 1 and "bob" in found[0]["snippet"], "the rows of no other agent"
    monkeypatch.setenv("OPENCLAW_MEM_STORE_AGENT", base)
    shared = result(capsys, *argv, code=3)
    assert shared["failed"] == 4 and "It would have the index of " in json.dumps(shared)
    (workspaces / "agents").write_text(f"ada {workspaces / 'ada'}\nada {workspaces / 'bob'}\n")
    twice = result(capsys, *argv, code=3)
    assert twice["failed"] == 1 and "named on two lines" in json.dumps(twice)


def test_never_more_than_jobs_at_a_time_and_never_fewer(
    workspaces: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    guard, both, running, most = threading.Lock(), threading.Barrier(2), 0, 0

    def counted(settings: Any) -> Any:
        nonlocal running, most
        with guard:
            running += 1
            most = max(most, running)
        if settings.agent in AGENTS[:2]:
            both.wait(timeout=60)  # the first two meet here, or the test fails
        with guard:
            running -= 1
        return open_memory(settings)

    monkeypatch.setattr(index_agents, "open_memory", counted)
    assert result(capsys, "--agents", str(workspaces / "agents"), "--jobs", "2")["failed"] == 0
    assert most == 2


def test_what_fails_is_named_and_the_others_are_done(
    workspaces: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = workspaces / "agents"
    file.write_text(file.read_text() + f"fay {workspaces / 'nowhere'}\n")
    found = result(capsys, "--agents", str(file), code=5)
    assert found["failed"] == 1 and found["agents"][-1]["agent"] == "fay" and found["agents"][0]["files"] == 1
    file.write_text(file.read_text() + "no/agent\n")
    assert run(["index", "--agents", str(file), "--provider", "static"]) == 8, "errors of two kinds"
    said = capsys.readouterr().out
    assert "5 up to date, 2 failed" in said and "  fay: " in said and "  no/agent: " in said


def test_all_agents_are_those_of_the_configuration(
    workspaces: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = workspaces / "openclaw.json"
    entries = [{"id": agent, "workspace": str(workspaces / agent)} for agent in AGENTS[:2]]
    config.write_text(json.dumps({"agents": {"list": entries}}))
    found = result(capsys, "--agents", "all", "--config", str(config))
    assert [row["agent"] for row in found["agents"]] == ["ada", "bob"] and found["failed"] == 0


def test_a_run_that_is_stopped_says_what_was_not_begun(
    workspaces: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = planning.announce

    def stopping(memory: Any, token: threading.Event, request: Any) -> None:
        token.set()
        real(memory, token, request)

    monkeypatch.setattr(index_agents, "announce", stopping)
    found = result(capsys, "--agents", str(workspaces / "agents"), "--jobs", "1", code=130)
    assert "Not started" in found["agents"][-1]["error"]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--agents", "nowhere.txt"], "cannot be read"),
        (["--agents", "all", "--agent", "x"], "leave --agent out"),
        (["--agents", "all", "--dry-run"], "leave --dry-run out"),
        (["--agents", "all", "--jobs", "0"], "--jobs"),
        (["--jobs", "2"], "--jobs needs --agents"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    workspaces: Path, capsys: pytest.CaptureFixture[str], argv: list[str], message: str
) -> None:
    assert run(["index", *argv]) == 2
    assert message in capsys.readouterr().err


def test_the_progress_counts_agents() -> None:
    assert "3/9 agents" in progress_text(3, 9, "bob", 1.0, index_agents._AgentLine.unit)


def test_what_an_agent_waits_for_is_said_with_its_id(
    workspaces: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Waiting(Memory):
        def sync(self, *given: Any) -> SyncReport:
            given[1](0, 0, f"{WAITING}127.0.0.1:8803")
            given[1](0, 1, "memory/x.md")
            return super().sync(*given)

    said: list[str] = []
    monkeypatch.setattr(index_agents._AgentLine, "__call__", lambda _, *progress: said.append(progress[2]))
    monkeypatch.setattr("openclaw_mem_engine.memory.Memory", Waiting)
    result(capsys, "--agents", str(workspaces / "agents"), "--jobs", "1")
    waited = [f"waiting for 127.0.0.1:8803 (agent {one})" for one in AGENTS]
    assert sorted(label for label in said if label not in AGENTS) == waited
