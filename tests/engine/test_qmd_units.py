"""Settings ``memory.qmd.*``, scope, output and Han rewrite, against the recorded values."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from openclaw_mem_engine.config.qmd import Scope
from openclaw_mem_engine.config.rules import seconds_of
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.errors import ConfigError
from openclaw_mem_engine.qmd.output import InvalidOutput, parse_results
from openclaw_mem_engine.qmd.scope import decide, session_scope
from openclaw_mem_engine.sidecar.paths import collections_of
from openclaw_mem_engine.stores.query import han_keywords
from support.goldens import golden
from support.memories import settings_for

UNITS: dict[str, Any] = golden("qmd_units")


def loaded(root: Path, memory: Any, **environ: str) -> Settings:
    """The settings of an openclaw.json with this ``memory``."""
    folder = root / "home" / ".openclaw"
    folder.mkdir(parents=True)
    (root / "ws").mkdir()
    (folder / "openclaw.json").write_text(json.dumps({} if memory is None else {"memory": memory}))
    return settings_for(root / "ws", root / "home", **environ)


@pytest.mark.parametrize("case", UNITS["parseQmdQueryJson"], ids=lambda case: repr(case["stdout"][:20]))
def test_output_is_read_as_recorded(case: dict[str, Any]) -> None:
    if "error" in case:
        with pytest.raises(InvalidOutput, match=re.escape(case["error"])):
            parse_results(case["stdout"], case["stderr"])
    else:
        assert parse_results(case["stdout"], case["stderr"]) == case["ok"]


def test_lines_of_a_log_are_no_results() -> None:
    assert parse_results('[1] loading model\n[2, 3]\n[{"score": 0.5}]\nbye') == [{"score": 0.5}]
    assert parse_results("[ready] go\n[ ]\n") == []
    began = time.process_time()
    for output in ("[" * 190_000, "[{" * 95_000, "[{1] " * 45_000):
        with pytest.raises(InvalidOutput):
            parse_results(output)
    assert time.process_time() - began < 5, "one try for each bracket took minutes"


@pytest.mark.parametrize(
    "row",
    [
        *('{"score": NaN}', '{"score": Infinity}', '{"score": 1e999}', '{"score": true}', '{"score": "1"}'),
        f'{{"score": 1{"0" * 400}}}',
        '{"score": 1, "snippet": ["x"]}',
    ],
)
def test_a_row_that_cannot_be_ranked_or_shown_is_refused(row: str) -> None:
    for output in (f"[{row}]", f"log\n[{row}]", f'{{"results": [{row}]}}'):
        with pytest.raises(InvalidOutput, match=r"score is no|snippet is no"):
            parse_results(output)


@pytest.mark.parametrize("name", UNITS["scope"])
def test_scope_is_decided_as_recorded(name: str, tmp_path: Path) -> None:
    case = UNITS["scope"][name]
    scope = Scope()
    if case["scope"] is not None:
        scope = loaded(tmp_path, {"qmd": {"scope": case["scope"]}}).qmd.scope
    assert [[key, decide(scope, key).allowed] for key, _ in case["allowed"]] == case["allowed"]


def test_session_keys_are_read_as_recorded() -> None:
    for key, wanted in UNITS["parseSessionScope"]:
        found = session_scope(key)
        named = {"normalizedKey": found.key, "channel": found.channel, "chatType": found.chat_type}
        assert {name: value for name, value in named.items() if value} == wanted, key


def test_a_group_deeper_in_a_key_is_no_direct_chat() -> None:
    assert session_scope("agent:main:matrix:work:group:7").chat_type == "group"


def test_han_queries_are_rewritten_as_recorded() -> None:
    assert [han_keywords(case["q"]) for case in UNITS["hanQuery"]] == [
        case["out"] for case in UNITS["hanQuery"]
    ]
    assert len(han_keywords("数据库方案讨论保存路由器温室花园植物浇水记录").split()) == 12


@pytest.mark.parametrize("number", range(len(UNITS["backendConfig"])))
def test_settings_are_resolved_as_recorded(number: int, tmp_path: Path) -> None:
    """Apart from mcporter, which is not used, and the folder of the export, which is ours."""
    case = UNITS["backendConfig"][number]
    wanted = case["resolved"]
    settings = loaded(tmp_path, case["memory"], OPENCLAW_MEM_AGENT=case["agentId"])
    assert settings.openclaw.backend == wanted["backend"] and settings.citations == wanted["citations"]
    if wanted["backend"] != "qmd":
        return
    qmd, recorded = settings.qmd, wanted["qmd"]
    collections = [
        {
            "name": found.name,
            "path": str(found.root).replace(str(tmp_path), "<SCRATCH>"),
            "pattern": found.pattern,
            "kind": "memory" if found.name.startswith("memory-") else "custom",
        }
        for found in collections_of(settings)[0]
        if found.source == "memory"
    ]
    assert collections == recorded["collections"]
    assert (qmd.command or "qmd", qmd.search_mode) == (recorded["command"], recorded["searchMode"])
    update = qmd.update
    assert recorded["update"] == {
        "intervalMs": update.interval_s * 1000,
        "debounceMs": update.debounce_ms,
        "onBoot": update.on_boot,
        "waitForBootSync": update.wait_for_boot_sync,
        "embedIntervalMs": update.embed_interval_s * 1000,
        "commandTimeoutMs": update.command_timeout_ms,
        "updateTimeoutMs": update.update_timeout_ms,
        "embedTimeoutMs": update.embed_timeout_ms,
    }
    limits = qmd.limits
    assert recorded["limits"] == {
        "maxResults": limits.max_results,
        "maxSnippetChars": limits.max_snippet_chars,
        "maxInjectedChars": limits.max_injected_chars,
        "timeoutMs": limits.timeout_ms,
    }
    assert qmd.sessions.enabled == recorded["sessions"]["enabled"]
    assert qmd.sessions.retention_days == recorded["sessions"].get("retentionDays")
    # What OpenClaw replaces without a word is named here.
    replaced = case["memory"].get("qmd", {}).get("searchMode") == "bogus"
    assert any("'bogus'" in note.text for note in settings.warnings) == replaced


def test_every_key_is_shown_with_its_origin_and_unknown_ones_are_named(tmp_path: Path) -> None:
    from openclaw_mem_engine.config.show import describe, to_dict

    memory = {
        "backend": "qmd",
        "qmd": {
            "command": "qmd",
            "paths": [{"path": "docs", "pattern": "*.md"}],
            "update": {"interval": "5 min", "wrong": 1},
        },
    }
    settings = loaded(tmp_path, memory)
    rows = {row.key: row for row in describe(settings)}
    where = f"{tmp_path}/home/.openclaw/openclaw.json: memory.qmd"
    assert rows["qmd.update.interval"].origin.where == f"{where}.update.interval"
    assert rows["qmd.paths"].value_text == "docs (*.md)" and settings.qmd.update.interval_s == 300
    assert rows["qmd.scope"].value_text == "allow chatType direct; else deny"
    assert json.dumps(to_dict(settings))
    assert [item.key for item in settings.openclaw.ignored] == ["memory.qmd.update.wrong"]
    assert settings.qmd_process and not settings.openclaw.ignored[0].known


@pytest.mark.parametrize(
    ("scope", "said"),
    [
        ({"default": "maybe"}, "scope.default is 'maybe'; allowed: allow, deny"),
        ({"rules": [{"action": "deny", "match": {"chattype": "group"}}]}, "match holds 'chattype'"),
        ({"rules": [{"match": {}}]}, "rules[0].action is null"),
        ({"rules": {"action": "deny"}}, "allowed: a list of rules"),
        ("deny", "allowed: a table"),
    ],
)
def test_a_broken_scope_is_refused(tmp_path: Path, scope: object, said: str) -> None:
    """A rule that is not understood must not become one that lets everything through."""
    with pytest.raises(ConfigError, match=re.escape(said)):
        loaded(tmp_path, {"qmd": {"scope": scope}})


def test_our_own_file_sets_the_same_keys(tmp_path: Path) -> None:
    folder = tmp_path / "home" / "config"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(
        '[qmd]\ncommand = "~/bin/qmd"\npaths = [{path = "~/notes", name = "n"}]\n'
        '[qmd.update]\ninterval = "90s"\n'
        '[qmd.scope]\ndefault = "allow"\n'
    )
    settings = loaded(tmp_path, {"backend": "qmd", "qmd": {"command": "other"}})
    home = tmp_path / "home"
    assert settings.qmd.command == str(home / "bin" / "qmd") and settings.qmd.update.interval_s == 90
    assert [str(path) for path in settings.qmd.paths] == [f"n={home}/notes (**/*.md)"]
    assert settings.qmd.scope == Scope("allow")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5m", 300),
        ("5 min", 300),
        ("30s", 30),
        ("1h", 3600),
        ("2", 120),
        ("500ms", 0.5),
        ("x", None),
        ("-1m", None),
    ],
)
def test_durations(text: str, seconds: float | None) -> None:
    assert seconds_of(text) == seconds


def test_patterns_of_collections(tmp_path: Path) -> None:
    from openclaw_mem_engine.qmd.collections import Collection, why_excluded

    code = Collection("c", tmp_path, "**/*.{md,txt}, *.org")
    assert [not why_excluded(code, path) for path in ("a/b.md", "c.txt", "d.org", "e/d.org", "f.py")] == [
        *(True, True, True, False, False)
    ]
