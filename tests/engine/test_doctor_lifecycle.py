"""The doctor on how memory is written: MEMORY.md's budget, flushes, transcripts, credentials."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.redact import credentials
from support.damage import codes, indexed, looked, named
from support.sessions import SessionWorld

KEY = "sk-proj-abcdefghijklmnop1234567890ABCD"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return indexed(tmp_path)


def test_a_long_memory_is_said(settings: Settings) -> None:
    (settings.workspace / "MEMORY.md").write_text("".join(f"- fact {number}\n" for number in range(201)))
    found = named(looked(settings), "memory-long")
    assert found.severity == "warning" and found.text.startswith("MEMORY.md has 201 lines (200 advised).")
    (settings.workspace / "MEMORY.md").write_text("".join(f"- fact {number}\n" for number in range(200)))
    assert "memory-long" not in codes(looked(settings))


def test_the_limit_of_the_configuration_counts(settings: Settings) -> None:
    (settings.workspace / "MEMORY.md").write_text("x" * 60 + "\n")
    assert "bootstrap-cut" not in codes(looked(settings))
    short = replace(settings, bootstrap=replace(settings.bootstrap, max_chars=50))
    assert "the limit is 50" in named(looked(short), "bootstrap-cut").text


def test_credentials_are_counted_and_never_repeated(settings: Settings) -> None:
    note = settings.workspace / "memory/keys.md"
    note.write_text(
        f"# Keys\nthe spare key: it turns\n\napi key = {KEY}\n-----BEGIN RSA PRIVATE KEY-----\nabc\n"
    )
    report = looked(settings)
    found = named(report, "credentials")
    assert found.evidence == ("memory/keys.md:4", "memory/keys.md:5") and found.severity == "warning"
    assert KEY not in json.dumps(report.to_dict())


def test_notes_with_a_further_name_are_named(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.txt").write_text("a text of another program\n")
    (settings.workspace / "memory/linked.md").hardlink_to(tmp_path / "elsewhere.txt")
    found = named(looked(settings), "hard-links")
    assert (found.severity, found.evidence) == ("info", ("memory/linked.md",))


@pytest.mark.parametrize(
    "line",
    [
        "the key: turns slowly",
        "token: yes",
        "password: (in the vault)",
        "key=value",
        "monkey 12",
        "a key is here",
    ],
)
def test_words_are_no_credentials(line: str) -> None:
    assert credentials(f"x\n{line}\n") == []


@pytest.mark.parametrize("line", [f"use {KEY}", "TOKEN=a1b2c3d4e5f6", "bot123456789:AAabcdefghij_klmnopq"])
def test_forms_of_credentials(line: str) -> None:
    ((number, masked),) = credentials(f"x\n\n{line}\ny")
    assert number == 3 and line not in masked


def test_flushes_are_examined(tmp_path: Path) -> None:
    world = SessionWorld(tmp_path)
    assert "flush-off" not in codes(looked(world.settings()))
    world.configure({"agents": {"defaults": {"compaction": {"memoryFlush": {"enabled": False}}}}})
    assert "memoryFlush.enabled" in named(looked(world.settings()), "flush-off").text
    world.configure({"agents": {"defaults": {"contextTokens": 20_000}}})
    found = named(looked(world.settings()), "flush-never-due")
    assert "20,000 - 20,000 - 4,000 = -4,000 tokens" in found.evidence[0]


def test_a_session_without_transcript_is_named(tmp_path: Path) -> None:
    world = SessionWorld(tmp_path)
    world.session().file.unlink()
    assert named(looked(world.settings()), "no-transcript").evidence == (world.session().label,)


def test_missed_flushes_are_counted(tmp_path: Path) -> None:
    world = SessionWorld(tmp_path)
    compaction = {"type": "compaction", "timestamp": "2026-02-14T10:00:00.000Z", "tokensBefore": 190_000}
    with world.session().file.open("a") as file:
        file.write(json.dumps(compaction) + "\n")
    found = named(looked(world.settings()), "flush-missed")
    assert found.text.startswith("1 missed flush in 1 session.")
    assert found.repair == "openclaw-mem timeline --kind compaction"
