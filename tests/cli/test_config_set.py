"""``config set`` and ``config undo``: what changes is shown, a yes is needed, bad values are refused."""

from __future__ import annotations

import hashlib
import json

import pytest

from support.commands import Call, World


def test_a_setting_is_written_after_it_was_shown(call: Call, world: World) -> None:
    ours = world.home / ".config/openclaw-mem/config.toml"
    said = call("config")
    assert f"config.toml        {ours} (none yet)" in said.out
    said = call("config", "set", "query.min_score=0.2", "sync.watch=off", "exclude=a/**, b", "--dry-run")
    assert said.code == 0 and "+min_score = 0.2" in said.out and "nothing written (dry run)" in said.out
    said = call("config", "set", "query.min_score=0.2")
    assert said.code == 2 and "needs confirmation" in said.err and not ours.exists()
    said = call("config", "set", "query.min_score=0.2", "sync.watch=off", "exclude=a/**, b", "--yes")
    assert said.code == 0 and "written" in said.out and str(ours) in said.out
    found = call("config", "--json").json["settings"]
    assert found["query.min_score"]["value"] == 0.2 and found["query.min_score"]["origin"]["kind"] == "toml"
    assert found["sync.watch"]["value"] is False and found["exclude"]["value"] == ["a/**", "b"]
    assert "nothing to write" in call("config", "set", "query.min_score=0.2").out
    assert call("config", "undo", "--yes", "--json").json["written"] is True and not ours.exists()


def test_a_change_with_keys_that_are_not_known_any_more_is_taken_back(call: Call, world: World) -> None:
    """They were written by an earlier version."""
    ours = world.home / ".config/openclaw-mem/config.toml"
    assert call("config", "set", "query.decay=on", "--yes").code == 0
    before = ours.read_text()
    assert call("config", "set", "query.bm25_weight=0.4", "query.bm25_score=max", "--yes").code == 0
    old = ours.read_text().replace("bm25_", "text_").encode()
    (last,) = world.data.glob("settings/last.json")
    meta = json.loads(last.read_bytes())
    last.write_text(json.dumps({**meta, "after": hashlib.sha256(old).hexdigest()}))
    ours.write_bytes(old)
    said = call("search", "router")
    assert said.code == 3 and said.err.count(" is not a known key. Did you mean query.bm25_") == 2
    assert call("config", "set", "query.mmr=on", "--yes").code == 3, "a change of it would keep them"
    assert call("config", "undo", "--yes").code == 0 and ours.read_text() == before
    said = call("config", "undo", "--yes")
    assert said.code == 3 and "Nothing was written, because then: " in said.err and ours.read_text() == before


def test_a_file_that_the_environment_names_is_created(
    call: Call, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = world.root / "new" / "own.toml"
    monkeypatch.setenv("OPENCLAW_MEM_CONFIG", str(new))
    assert call("status").code == 3, "any other command needs it"
    assert call("config", "set", "query.min_score=0.2", "--yes").code == 0
    assert new.read_text("utf-8") == "[query]\nmin_score = 0.2\n" and call("status").code == 0
    for there in (False, True):
        assert call("config", "undo", "--yes").code == 0 and new.exists() is there


def test_values_mean_what_the_shell_means(call: Call, world: World) -> None:
    lines = call("config", "set", "workspace=notes", 'extra_paths=["a b", "c"]', "--dry-run").out
    assert f'+workspace = "{world.root / "notes"}"' in lines and '+extra_paths = ["a b", "c"]' in lines
    assert '+workspace = "~/notes"' in call("config", "set", "workspace=~/notes", "--dry-run").out


def test_what_could_not_be_loaded_is_refused_and_nothing_is_written(call: Call, world: World) -> None:
    for given, code, why in (
        (("set", "min_score=1"), 2, "Did you mean query.min_score?"),
        (("set", "query.min_score=3"), 2, "allowed: 0 to 1"),
        (("set", "sync.watch=perhaps"), 2, "true or false"),
        (("set", "provider.api_key=abc"), 2, "not set on the command line"),
        (("set", "rerank.provider=openai"), 3, "because then: "),
        (("set", "query.max_results", "7"), 2, "needs a value: write query.max_results=7."),
        (("set", "theme=claw-drak"), 2, "There is no theme 'claw-drak'"),
        (("set",), 2, "Name what to set"),
        (("undo",), 2, "no change"),
        (("set", "quey=1"), 2, "`openclaw-mem config` lists the settings"),
        (("undo", "theme"), 2, "See `openclaw-mem config undo --help`"),
        (("show", "theme=x"), 2, "written by `openclaw-mem config set theme=x`"),
        (("show", "quer"), 2, "Did you mean query?"),
        (("show", "query.min_scor"), 2, "Did you mean query.min_score?"),
        (("show", "--yes"), 2, "There is no option --yes. See `openclaw-mem config show --help`"),
    ):
        said = call("config", *given, *([] if given[0] == "show" else ["--yes"]))
        assert said.code == code and why in said.err, (given, said)
    assert not (world.home / ".config").exists()


def test_single_settings_and_tables_are_shown(call: Call) -> None:
    said = call("config", "show", "query.min_score", "snapshot")
    assert [line.split()[0] for line in said.out.splitlines()] == ["snapshot.messages", "query.min_score"]
    assert [*call("config", "show", "theme", "--json").json["settings"]] == ["theme"]
    assert "bootstrap.max_chars" in call("config").out and "index  " in call("config").out


def test_a_variable_that_comes_first_is_named(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENCLAW_MEM_PROFILE", "workbench")
    said = call("config", "set", "query.profile=documented", "--yes")
    assert said.code == 0 and "env OPENCLAW_MEM_PROFILE sets query.profile too" in said.err
