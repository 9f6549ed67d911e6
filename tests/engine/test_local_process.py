"""The parent's side of the model process, against children that misbehave. No model library is needed."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openclaw_mem_engine.errors import Cancelled
from openclaw_mem_engine.model import Prompted
from openclaw_mem_engine.providers.base import BadAnswer, NotConfigured, ProcessEnded, RequestFailed
from openclaw_mem_engine.providers.circuit_breaker import GuardedEmbedder
from openclaw_mem_engine.providers.local.embedder import LocalEmbedder
from openclaw_mem_engine.providers.records import ProviderRecords
from support import local_models
from support.commands import until

#: A child that speaks the protocol and gives every text the vector (length, 1). What it does besides is put
#: in place of {begin} (before anything is sent) and {each} (with ``request`` before every answer).
CHILD = """
import os, struct, sys, time
from multiprocessing.connection import Connection
from openclaw_mem_engine.providers.local import packed, unpacked
socket = Connection(0)
def send(header, payload=b""):
    socket.send_bytes(packed(header, payload))
{begin}
while True:
    request = unpacked(socket.recv_bytes()).header
    op, number, texts = request["op"], request["id"], request.get("texts", [])
    about = {{"dims": 2, "architecture": "bert"}}
    {each}
    if op == "load":
        send({{"op": "ready", "id": number, **about}})
    elif op == "embed":
        rows = b"".join(struct.pack("<ff", len(text), 1.0) for text in texts)
        send({{"op": "done", "id": number, "none": [], "cut": 0}}, rows)
"""


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return local_models.bert(tmp_path_factory.mktemp("models") / "tiny.gguf")


class Maker:
    """Embedders with a made-up child; all are closed at the end of a test."""

    def __init__(self, model: Path) -> None:
        self._model = model
        self._made: list[LocalEmbedder] = []

    def __call__(self, begin: str = "", each: str = "", timeout_s: float = 10.0) -> LocalEmbedder:
        script = CHILD.format(begin=begin, each=each or "pass")
        return self.script(script, timeout_s)

    def script(self, script: str, timeout_s: float = 10.0) -> LocalEmbedder:
        made = LocalEmbedder(
            str(self._model),
            folder=self._model.parent,
            query_timeout_s=timeout_s,
            batch_timeout_s=timeout_s,
            command=[sys.executable, "-c", script],
        )
        self._made.append(made)
        return made

    def close(self) -> None:
        for made in self._made:
            made.close()


@pytest.fixture
def embedder_with(tiny: Path) -> Iterator[Maker]:
    maker = Maker(tiny)
    yield maker
    maker.close()


def test_a_child_that_behaves(embedder_with: Maker) -> None:
    embedder = embedder_with()
    vector = embedder.embed_query("abcd")
    assert vector is not None
    np.testing.assert_allclose(vector, np.array([4, 1]) / np.sqrt(17), rtol=1e-6)


def test_what_a_child_prints_does_no_harm(embedder_with: Maker) -> None:
    embedder = embedder_with(
        begin='print("welcome to this Python", flush=True); print("\\x1b[31mwarning", file=sys.stderr)',
        each='print("between messages", flush=True); print("x" * 200_000, file=sys.stderr, flush=True)',
    )
    assert all(vector is not None for vector in embedder.embed_documents(["abcd"] * 100))


@pytest.mark.parametrize(
    ("begin", "each"),
    [
        ('print("I am no model", flush=True); time.sleep(30)', ""),
        ('print("y" * 100_000, flush=True); time.sleep(30)', ""),
        ("", "op == 'embed' and (os.write(0, struct.pack('!i', 99) + b'part'), os._exit(0))"),
        ("", "op == 'embed' and os.write(0, struct.pack('!i', 1 << 30))"),
        ("", "op == 'embed' and os.write(0, b'\\xff' * 12)"),
        ("", "op == 'embed' and socket.send_bytes(b'[' * 4)"),
        ("", "op == 'embed' and socket.send_bytes(b'[' * 100_000)"),
        ("", "op == 'embed' and socket.send_bytes(b'[]')"),
    ],
    ids=["greeting", "flood", "cut-off", "too-long", "far-too-long", "no-json", "deep", "no-object"],
)
def test_garbage_is_an_error_and_the_child_is_ended(embedder_with: Maker, begin: str, each: str) -> None:
    # What says nothing of the protocol ends with its time; the others have as much as they need.
    embedder = embedder_with(begin, each, timeout_s=0.5 if begin else 20.0)
    for _ in range(2):
        with pytest.raises(RequestFailed, match="in time" if begin else "unreadable"):
            embedder.embed_query("abcd")
        assert embedder.pid is None


@pytest.mark.parametrize(
    ("op", "header", "payload"),
    [
        ("embed", "'op': 'done', 'none': [7], 'cut': 0", ""),
        ("embed", "'op': 'done', 'none': [0, 0], 'cut': 0", ""),
        ("embed", "'op': 'done', 'none': [], 'cut': 0", "123"),
        ("embed", "'op': 'done', 'none': [], 'cut': 0", "12345678abcd"),
        ("embed", "'op': 'done', 'none': [0], 'cut': 0", "12345678"),
        ("embed", "'op': 'done', 'none': [[0]], 'cut': 0", ""),
        ("embed", "'op': 'done', 'none': 3", ""),
        ("embed", "'op': 'done', 'none': [], 'cut': 0", ""),
        ("embed", "'op': 'what'", ""),
        ("load", "'op': 'ready', 'dims': 0, 'window': 1", ""),
        ("load", "'op': 'ready', 'dims': 'many', 'window': 1", ""),
    ],
    ids=range(11),
)
def test_answers_that_fit_no_question_are_bad_answers(
    embedder_with: Maker, op: str, header: str, payload: str
) -> None:
    each = f"op == '{op}' and send({{'id': number, {header}}}, b'{payload}')"
    with pytest.raises(BadAnswer):
        embedder_with(each=each).embed_query("abcd")


def test_an_answer_to_an_older_request_is_passed_over(embedder_with: Maker) -> None:
    old = "op == 'embed' and send({'op': 'error', 'id': number - 1, 'kind': 'failed', 'text': 'old'})"
    assert embedder_with(each=old).embed_query("abcd") is not None


@pytest.mark.parametrize("when", ["load", "embed"])
def test_a_child_that_hangs_ends_in_a_timeout(embedder_with: Maker, when: str) -> None:
    embedder = embedder_with(each=f"op == '{when}' and time.sleep(60)", timeout_s=1.0)
    started = time.monotonic()
    with pytest.raises(RequestFailed, match="did not answer in time"):
        embedder.embed_query("abcd")
    assert time.monotonic() - started < 30, "less than the child sleeps"
    assert embedder.pid is None
    with pytest.raises(RequestFailed, match="did not answer in time"):
        embedder.embed_documents(["abcd"])


def test_a_child_that_reads_nothing_cannot_block_us(embedder_with: Maker) -> None:
    embedder = embedder_with.script("import time; time.sleep(60)", timeout_s=1.0)
    with pytest.raises(RequestFailed, match="did not answer in time while loading"):
        embedder.embed_documents(["x" * 60_000] * 50)
    assert embedder.pid is None


def hangs(when: str, at: Path) -> str:
    """A child that hangs, and makes a file when it does."""
    return f"{when} and (open({str(at)!r}, 'w').close(), time.sleep(60))"


def test_close_does_not_wait_for_a_request_that_hangs(embedder_with: Maker, tmp_path: Path) -> None:
    at_work = tmp_path / "hangs"
    embedder = embedder_with(each=hangs("texts == ['hang']", at_work), timeout_s=50.0)
    embedder.embed_query("abcd")
    failed: list[str] = []

    def work() -> None:
        with pytest.raises(RequestFailed) as caught:
            embedder.embed_documents(["hang"])
        failed.append(str(caught.value))

    thread = threading.Thread(target=work)
    thread.start()
    until(at_work.exists)
    embedder.close()
    thread.join(30)  # less than the request may take
    assert "it was closed" in failed[0]
    assert embedder.embed_query("abcd") is not None


class SetWhen(threading.Event):
    """A cancel token that is set as soon as there is a file."""

    def __init__(self, at: Path) -> None:
        super().__init__()
        self._at, self.since = at, 0.0

    def is_set(self) -> bool:
        if not self.since and self._at.exists():
            self.since = time.monotonic()
        return self.since > 0


@pytest.mark.parametrize("op", ["embed", "load"])
def test_a_child_that_ignores_cancel_is_killed(embedder_with: Maker, tmp_path: Path, op: str) -> None:
    """Two seconds after a request, at once while it loads."""
    cancel = SetWhen(tmp_path / "hangs")
    embedder = embedder_with(each=hangs(f"op == '{op}'", tmp_path / "hangs"), timeout_s=50.0)
    with pytest.raises(Cancelled):
        embedder.embed_documents(["abcd"], cancel=cancel)
    took = time.monotonic() - cancel.since
    assert (1.9 if op == "embed" else 0) < took < 30, "less than the request may take"
    assert embedder.pid is None


def test_a_thread_that_waits_for_a_turn_can_cancel_and_times_out(
    embedder_with: Maker, tmp_path: Path
) -> None:
    at_work, stop = tmp_path / "hangs", threading.Event()
    embedder = embedder_with(each=hangs("op == 'embed'", at_work), timeout_s=50.0)

    def work() -> None:
        with pytest.raises(Cancelled):
            embedder.embed_documents(["abcd"], cancel=stop)

    first = threading.Thread(target=work)
    first.start()
    until(at_work.exists)
    cancel = threading.Event()
    threading.Timer(0.2, cancel.set).start()
    with pytest.raises(Cancelled):
        embedder.embed_documents(["abcd"], cancel=cancel)
    embedder._query_timeout_s = 0.2
    with pytest.raises(RequestFailed, match="was busy"):
        embedder.embed_query("abcd")
    assert first.is_alive(), "it has not waited for the other"
    stop.set()
    first.join()


def test_what_a_dying_child_said_is_quoted_without_secrets_and_control_characters(
    embedder_with: Maker,
) -> None:
    each = (
        "op == 'embed' and (print('\\x1b[2J panic: OPENAI_API_KEY=sk-abcdefghijklmnopqrstuvwx',"
        " file=sys.stderr, flush=True), os._exit(7))"
    )
    with pytest.raises(RequestFailed) as caught:
        embedder_with(each=each).embed_query("abcd")
    message = str(caught.value)
    assert "ended while embedding: exit code 7" in message
    assert "panic" in message
    assert "abcdefghijklmnop" not in message
    assert "\x1b" not in message


def test_a_child_that_fails_at_a_text_says_so_and_lives(embedder_with: Maker) -> None:
    each = (
        "\n    if texts == ['bad']: "
        "send({'op': 'error', 'id': number, 'kind': 'failed', 'text': 'no\\x07 room'}); continue"
    )
    embedder = embedder_with(each=each)
    embedder.embed_query("good")
    pid = embedder.pid
    with pytest.raises(RequestFailed, match=r"failed while embedding: no\^G room"):
        embedder.embed_query("bad")
    embedder.embed_query("good")
    assert embedder.pid == pid


def test_a_command_that_cannot_be_started(tiny: Path) -> None:
    embedder = LocalEmbedder(str(tiny), folder=tiny.parent, command=["/no/such/program"])
    with pytest.raises(RequestFailed, match="cannot be started"):
        embedder.embed_query("abcd")


def test_what_is_missing_is_said_without_starting_anything(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def why(model: str, **options: Any) -> str:
        embedder = LocalEmbedder(model, folder=tmp_path, **options)
        problem = embedder.why_not()
        assert embedder.pid is None
        return problem or ""

    child = {"command": ["/no/such/program"]}
    assert why(str(tiny), **child) == ""
    assert "openclaw-mem model download" in why("")
    assert "There is no model file" in why(str(tmp_path / "none.gguf"), **child)
    assert "is not the address of a model" in why("hf:nonsense", **child)
    (tmp_path / "bad.gguf").write_bytes(b"<html>")
    assert "not a usable GGUF model: it begins with b'<htm'" in why(str(tmp_path / "bad.gguf"), **child)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "uv tool install" in why(str(tiny))


def test_the_architecture_that_the_child_names_decides_about_prompts(embedder_with: Maker) -> None:
    """Where the name of the file says nothing; texts that come with a prompt get no other."""
    gemma, plain = embedder_with(each="about['architecture'] = 'gemma-embedding'"), embedder_with()
    prompt = len("title: none | text: ")
    for embedder, more in ((gemma, prompt), (plain, 0)):
        assert embedder.dims is None
        for text, length in (("abcd", 4 + more), (Prompted("abcd"), 4)):
            [vector] = embedder.embed_documents([text])
            assert vector is not None and float(vector[0] / vector[1]) == pytest.approx(length)
        assert embedder.dims == 2


def test_a_file_that_could_not_be_loaded_is_remembered_for_a_while(embedder_with: Maker) -> None:
    begin = "send({'op': 'error', 'id': 0, 'kind': 'model', 'text': 'unknown architecture'}); sys.exit()"
    embedder = embedder_with(begin=begin)
    assert embedder.why_not() is None
    with pytest.raises(NotConfigured) as caught:
        embedder.embed_query("abcd")
    assert embedder.why_not() == str(caught.value)
    embedder.close()
    assert embedder.why_not() is None


def test_the_real_child_without_the_library_says_how_to_install_it(embedder_with: Maker) -> None:
    script = (
        "import sys; sys.modules['llama_cpp'] = None\n"
        "import runpy; runpy.run_module('openclaw_mem_engine.providers.local.child', run_name='__main__')"
    )
    with pytest.raises(NotConfigured, match=r"uv tool install '\.\[local\]'"):
        embedder_with.script(script).embed_query("abcd")


@pytest.mark.local
def test_the_real_child_beside_a_chatty_interpreter_loads_the_functions_alone(
    tiny: Path, embedder_with: Maker
) -> None:
    pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
    script = (
        "import os, sys; print('hello from sitecustomize', flush=True)\n"
        "import threading, time\n"
        "def chat():\n"
        "    while True: os.write(1, b'noise ' * 100); time.sleep(0.001)\n"
        "def later():\n"
        "    time.sleep(0.5)\n"
        "    if {'numpy', 'jinja2'} & {*sys.modules}: os._exit(9)\n"
        "    chat()\n"
        "threading.Thread(target=later, daemon=True).start()\n"
        "import runpy; runpy.run_module('openclaw_mem_engine.providers.local.child', run_name='__main__')"
    )
    embedder = embedder_with.script(script)
    embedder.embed_query("warm")
    time.sleep(0.6)
    assert all(vector is not None for vector in embedder.embed_documents(["tea time"] * 300))


def test_the_environment_of_the_child_starts_no_debugger(embedder_with: Maker) -> None:
    check = "assert os.environ['GGML_NO_BACKTRACE'] == '1' and os.getsid(0) == os.getpid()"
    assert embedder_with(begin=check).embed_query("abcd") is not None
    assert "GGML_NO_BACKTRACE" not in os.environ


def test_importing_the_provider_is_cheap() -> None:
    script = (
        "import sys\n"
        "import openclaw_mem_engine.providers.local.embedder, openclaw_mem_engine.providers.local.download\n"
        "heavy = {'llama_cpp', 'numpy', 'httpx', 'httpx2', 'ctypes'} & set(sys.modules)\n"
        "print(sorted(heavy))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_a_query_starts_a_child_again_that_was_killed_while_idle(
    embedder_with: Maker, tmp_path: Path
) -> None:
    """It is still there when the query is sent, and does not answer it."""
    started = tmp_path / "started"
    begin = f"first = not os.path.exists({str(started)!r}); open({str(started)!r}, 'w').close()"
    embedder = embedder_with(begin, "if first and texts == ['second']: os._exit(9)")
    embedder.embed_query("one")
    pid = embedder.pid
    vector = embedder.embed_query("second")
    assert vector is not None and embedder.pid not in (None, pid)


def test_a_dying_child_opens_no_circuit(embedder_with: Maker, tmp_path: Path) -> None:
    """Neither for the next query of this process, nor for those of others."""
    broken = embedder_with(each="if texts: os._exit(9)")
    records = ProviderRecords(tmp_path / "providers.sqlite", lambda: 1_770_000_000.0)
    guard, other = (GuardedEmbedder(made, records) for made in (broken, embedder_with()))
    for ask in (guard.embed_query, guard.embed_query, lambda text: guard.embed_documents([text])):
        with pytest.raises(ProcessEnded, match=r"exit code 9.* The next text starts it again"):
            ask("tea")
    assert guard.key == other.key and other.health.failures == 0
    assert other.embed_query("tea") is not None
    with pytest.raises(ProcessEnded):
        guard.probe()
    assert other.health.next_retry is None
    records.close()
