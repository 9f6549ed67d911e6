"""``model``: what is there, and a download that nobody did not ask for."""

from __future__ import annotations

import hashlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from openclaw_mem_engine.providers.local.model_file import (
    DEFAULT_MODEL,
    EXPANSION_MODEL,
    RERANK_MODEL,
    local_path,
)
from support.commands import Call, World, until
from support.file_server import Hub, running_hub
from support.terminals import on_a_terminal

CONTENT = b"GGUF" + os.urandom(3 << 20)
MODEL = "hf:someone/some-repo/tiny.gguf"
URL_PATH = "/someone/some-repo/resolve/main/tiny.gguf"


@pytest.fixture
def hub() -> Iterator[Hub]:
    with running_hub(CONTENT) as hub:
        yield hub


def place(world: World) -> Path:
    return local_path(MODEL, world.data / "models")


def asked(hub: Hub) -> list[str]:
    """The methods of the requests for the address of the model."""
    return [method for method, path, _ in hub.requests if path == URL_PATH]


def test_status_tells_about_the_default_model_and_makes_nothing(call: Call, world: World) -> None:
    said = call("model")
    assert (said.code, said.err) == (0, "")
    assert DEFAULT_MODEL in said.out
    assert "https://huggingface.co/ggml-org/embeddinggemma-300M-GGUF/resolve/main/" in said.out
    assert "not on this machine" in said.out
    assert "Gemma terms" in said.out
    facts = call("model", "status", "--json").json
    assert (facts["model"], facts["present"], facts["size"], facts["partial"]) == (
        DEFAULT_MODEL,
        False,
        None,
        0,
    )
    assert facts["install"].startswith("uv tool install ")
    assert not world.data.exists()


def test_a_missing_library_is_told_with_the_command_that_brings_it(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "not installed; run: uv tool install '" in call("model").out


def test_status_of_a_path(call: Call, world: World) -> None:
    (world.root / "mine.gguf").write_bytes(b"GGUF" + bytes(2_500_000))
    said = call("model", "--model", "mine.gguf")
    assert f"{world.root / 'mine.gguf'} (2.5 MB)" in said.out
    facts = call("model", "--model", "mine.gguf", "--json").json
    assert (facts["present"], facts["size"], facts["url"]) == (True, 2_500_004, None)
    assert "There is no such file" in call("model", "--model", "other.gguf").out


def test_download_fetches_checks_and_shows_what_came(call: Call, world: World, hub: Hub) -> None:
    said = call("model", "download", "--model", MODEL, "--yes", "--from", hub.base_url)
    assert said.code == 0, said.err
    assert place(world).read_bytes() == CONTENT
    assert hashlib.sha256(CONTENT).hexdigest() in said.out
    assert f"{hub.base_url}{URL_PATH} → {place(world)}" in said.err
    assert f"downloading 3.1 MB to {place(world).parent}" in said.err
    again = call("model", "download", "--model", MODEL, "--yes", "--from", hub.base_url, "--json")
    assert again.json["sha256"] == hashlib.sha256(CONTENT).hexdigest()
    assert asked(hub) == ["HEAD", "GET", "HEAD"]
    assert call("model", "--model", MODEL, "--json").json["size"] == len(CONTENT)


def test_without_a_terminal_a_download_needs_yes_and_nothing_is_asked(
    call: Call, world: World, hub: Hub
) -> None:
    said = call("model", "download", "--model", MODEL, "--from", hub.base_url)
    assert (said.code, said.out) == (2, "")
    assert (
        f"Downloading {MODEL} ({hub.base_url.partition('//')[2]}) to {world.data / 'models'} needs"
        in said.err
    )
    assert "--yes" in said.err
    assert hub.requests == []
    assert not world.data.exists()


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 130), ("\n", 130)])
def test_a_terminal_is_asked(world: World, hub: Hub, answer: str, code: int) -> None:
    argv = ["model", "download", "--model", MODEL, "--from", hub.base_url]
    done, text = on_a_terminal(world, argv, typed=answer)
    assert f"Download 3.1 MB to {world.data / 'models'}? [y/N]" in text
    assert done == code, text
    assert place(world).exists() == (code == 0)
    assert asked(hub) == ["HEAD", "GET"][: 1 + (code == 0)]


def test_a_stopped_download_goes_on_where_it_was(world: World, hub: Hub) -> None:
    hub.hang_after = 1 << 20
    argv = ["model", "download", "--model", MODEL, "--from", hub.base_url, "--yes"]
    process = world.start(*argv)
    part = Path(f"{place(world)}.{hashlib.sha256(CONTENT).hexdigest()[:16]}.part")
    until(lambda: part.exists() and part.stat().st_size > 300_000)
    process.send_signal(signal.SIGINT)
    hub.hang_after = None
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130, err
    assert b"Traceback" not in err
    had = part.stat().st_size
    assert 0 < had < len(CONTENT)
    status = world.run("model", "--model", MODEL)
    assert b"of a stopped download are kept" in status.stdout
    done = world.run(*argv, "--json")
    assert done.returncode == 0, done.stderr
    assert place(world).read_bytes() == CONTENT
    assert json.loads(done.stdout)["size"] == len(CONTENT)
    assert hub.gets[-1]["Range"] == f"bytes={had}-"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["model", "download", "--model", "mine.gguf", "--yes"], "is a path"),
        (["model", "download", "--model", "hf:broken", "--yes"], "is not the address of a model"),
        (["model", "download", "--model", "hf:a/../b.gguf", "--yes"], "is not the address of a model"),
        (["model", "download", "--model", " ", "--yes"], "--model is empty"),
        (["model", "status", "--yes"], "There is no option --yes. See `openclaw-mem model status --help`"),
        (["model", "download", "--yes", "--from", "http://example.org"], "--from takes an https address"),
        (["model", "download", "--yes", "--from", "ftp://127.0.0.1"], "--from takes an https address"),
        (["model", "download", "--yes", "--from", "https://user:hunter2@example.org"], "--from takes"),
        (["model", "remove"], "There is no command 'remove'"),
    ],
)
def test_wrong_usage(call: Call, world: World, argv: list[str], message: str) -> None:
    said = call(*argv)
    assert (said.code, said.out) == (2, "")
    assert message in said.err
    assert "hunter2" not in said.err
    assert not world.data.exists()


def test_a_hub_that_is_not_there_is_exit_7(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openclaw_mem_engine.providers.local.download._FIRST_WAIT_S", 0.01)
    said = call("model", "download", "--model", MODEL, "--yes", "--from", "http://127.0.0.1:9")
    assert said.code == 7
    assert "could not be downloaded" in said.err


def test_status_has_an_entry_for_each_use(call: Call, world: World) -> None:
    said = call("model", "status")
    for model, size in (
        (DEFAULT_MODEL, "about 300 MB"),
        (RERANK_MODEL, "about 640 MB"),
        (EXPANSION_MODEL, "about 1.1 GB"),
    ):
        assert model in said.out
        assert f"{local_path(model, world.data / 'models')} (not on this machine, {size})" in said.out
    for option, use in (("", "embedding"), (" --for rerank", "rerank"), (" --for expansion", "expansion")):
        assert f"`openclaw-mem model download{option}` fetches the model for {use}" in said.out
    facts = call("model", "--json").json["models"]
    assert [(one["use"], one["provider"], one["present"]) for one in facts] == [
        ("embedding", "static", False),
        ("rerank", "none", False),
        ("expansion", "none", False),
    ]


def test_a_reranker_is_downloaded_by_its_use(call: Call, world: World, hub: Hub) -> None:
    said = call("model", "download", "--for", "rerank", "--yes", "--from", hub.base_url)
    assert said.code == 0, said.err
    assert local_path(RERANK_MODEL, world.data / "models").read_bytes() == CONTENT
    assert 'It is used when rerank.provider is "local".' in said.out
    assert "Gemma" not in said.out + said.err
    assert "openclaw-mem model download --for expansion" in call("model", "--for", "rerank").out
    assert [one["present"] for one in call("model", "--json").json["models"]] == [False, True, False]
