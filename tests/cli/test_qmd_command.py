"""``openclaw-mem`` with an external ``qmd``: search, get, index, status, doctor, and ``qmd warm-up``."""

from __future__ import annotations

import json

import pytest

from support.commands import Call, World
from support.fake_qmd import FakeQmd
from support.qmd_world import ROWS


@pytest.fixture
def qmd(world: World) -> FakeQmd:
    """The fake program, configured in openclaw.json, with a collection outside of the workspace."""
    fake = FakeQmd(world.root / "bin", [("memory-dir-main", "2026-02-20.md", "cccc3344")])
    fake.answers(search={"rows": ROWS})
    folder = world.home / ".openclaw"
    folder.mkdir()
    notes = world.home / "notes" / "sub"
    notes.mkdir(parents=True)
    (notes / "n.md").write_text("first\nsecond\n")
    settings = {
        "command": str(fake.path),
        "paths": [{"path": "~/notes", "name": "notes"}],
        "limits": {"timeoutMs": 60_000},
    }
    (folder / "openclaw.json").write_text(json.dumps({"memory": {"backend": "qmd", "qmd": settings}}))
    return fake


def test_search_names_who_answered(call: Call, qmd: FakeQmd) -> None:
    said = call("search", "nadia", "--json", "--explain")
    assert (said.code, said.json["backend"], said.json["profile"]) == (0, "qmd", "qmd-process")
    assert [row["path"] for row in said.json["results"]] == [
        *("MEMORY.md", "qmd/notes-main/sub/n.md", "memory/2026-02-20.md")
    ]
    assert call("search", "nadia", "--explain").code == 0
    assert call("status", "--json").json["backend"] == "qmd"
    qmd.answers(search={"code": 1, "stderr": "\x1b[?25lkaboom"})
    said = call("search", "gateway", "--json")
    assert (said.code, said.json["backend"], said.json["fallback"]["from"]) == (0, "builtin", "qmd")
    assert said.json["fallback"]["reason"] == "qmd search failed with exit code 1: kaboom."
    assert said.json["results"][0]["path"] == "MEMORY.md"
    status = call("status")
    assert "built-in index (qmd failed)" in status.out
    assert "vectors of builtin" not in status.out + said.out


def test_a_session_key_decides_the_scope(call: Call, qmd: FakeQmd) -> None:
    denied = call("search", "nadia", "--session-key", "agent:main:telegram:group:1")
    assert denied.code == 0 and denied.out.count("channel telegram, chat type group") == 1
    assert qmd.calls == []
    denied = call("search", "nadia", "--session-key", "agent:main:telegram:group:1", "--json")
    assert denied.json["syncSeconds"] is None, "no sync for nothing"
    assert call("search", "nadia", "--session-key", "agent:main:x:group:1", "--exit-status").code == 1
    why = call("why-not", "nadia", "MEMORY.md", "--session-key", "agent:main:telegram:group:1", "--json")
    assert why.json["stage"] == "session" and "channel telegram" in why.json["answer"]
    assert "No session key was given" in call("search", "nadia").out + call("search", "nadia").err
    assert "denied by its scope" in call("log", "--kind", "denied").out


def test_get_reads_a_file_of_a_collection(call: Call, qmd: FakeQmd) -> None:
    assert call("get", "qmd/notes-main/sub/n.md:2").out == "second\n"
    refused = call("get", "qmd/notes-main/../../.openclaw/openclaw.md")
    assert refused.code == 4 and "leads out of the collection notes-main" in refused.err
    assert qmd.calls == []


def test_index_updates_the_program_too(call: Call, qmd: FakeQmd) -> None:
    assert call("index").code == 0
    assert qmd.commands[-1] == "update"


def test_warm_up_prints_each_step_and_the_variables(call: Call, qmd: FakeQmd, world: World) -> None:
    said = call("qmd", "warm-up")
    assert said.code == 0
    lines = [line.partition(" (")[0] for line in said.out.splitlines()]
    assert lines[0].startswith(f"export XDG_CONFIG_HOME={world.data}/qmd/")
    assert lines[2:] == ["version 1.0.7: done", "collections: done", "update: done", "search: done"]
    assert [step["what"] for step in call("qmd", "warm-up", "--models", "--json").json["steps"]][-2:] == [
        *("embed", "query")
    ]
    assert qmd.commands[-1] == "query test -c memory-root-main --json"
    qmd.answers(update={"code": 1, "stderr": "no room"})
    failed = call("qmd", "warm-up")
    assert failed.code == 6 and "update: failed: qmd update failed with exit code 1: no room." in failed.out


def test_warm_up_needs_a_program(call: Call, world: World) -> None:
    said = call("qmd", "warm-up")
    assert said.code == 2 and "memory.qmd.command is not set" in said.err
    assert call("qmd").code == 2
    assert not (world.data / "qmd").exists()


def test_the_doctor_names_what_is_missing(call: Call, qmd: FakeQmd) -> None:
    call("index")
    report = call("doctor", "--json").json
    assert any(check["name"] == "qmd" and check["detail"].endswith("qmd 1.0.7") for check in report["checks"])
    assert not [finding for finding in report["findings"] if finding["code"].startswith("qmd")]
    qmd.answers(search={"code": 1})
    call("search", "gateway")
    findings = {finding["code"]: finding for finding in call("doctor", "--json").json["findings"]}
    assert "qmd search failed" in findings["qmd-failing"]["text"]
    assert findings["qmd-failing"]["repair"].endswith("qmd warm-up")
    qmd.path.unlink()
    findings = {finding["code"]: finding for finding in call("doctor", "--json").json["findings"]}
    assert "npm install -g @tobilu/qmd" in findings["qmd-missing"]["text"]


def test_no_check_of_the_program_where_none_is_configured(call: Call) -> None:
    assert all(check["name"] != "qmd" for check in call("doctor", "--json").json["checks"])
