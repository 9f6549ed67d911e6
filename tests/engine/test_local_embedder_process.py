"""The process of the local model: several threads, cancelling, its end, idle time, fork."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from test_local_embedder import LONG, embedder, folder, one, tiny

from openclaw_mem_engine.errors import Cancelled, ProviderError
from openclaw_mem_engine.providers.base import NotConfigured, RequestFailed
from openclaw_mem_engine.providers.local.embedder import LocalEmbedder
from support import local_models
from support.local_models import needs_llama_cpp

__all__ = ["embedder", "folder", "tiny"]


pytestmark = needs_llama_cpp


DESCRIPTORS = Path("/proc/self/fd")


@pytest.fixture(scope="module")
def slow(folder: Path) -> Path:
    """About half a second of work per full window."""
    return local_models.bert(folder / "slow.gguf", dims=512, layers=12)


@pytest.fixture(scope="module")
def busy(folder: Path) -> Path:
    """A tenth of that: fifty full windows last for some seconds, and the file is small."""
    return local_models.bert(folder / "busy.gguf", dims=128, layers=12)


def children() -> list[str]:
    """State letters of our child processes (Z: a zombie)."""
    found = subprocess.run(
        ["ps", "-o", "stat=", "--ppid", str(os.getpid())], capture_output=True, text=True
    ).stdout.split()
    return [state[0] for state in found]


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until(is_so: object, seconds: float = 30.0) -> bool:
    assert callable(is_so)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if is_so():
            return True
        time.sleep(0.02)
    return False


def test_several_threads_share_one_model(embedder: LocalEmbedder) -> None:
    expected = {f"text {number}": one(embedder, f"text {number}") for number in range(8)}
    pid = embedder.pid
    problems: list[object] = []

    def work(offset: int) -> None:
        try:
            for turn in range(12):
                text = f"text {(turn + offset) % 8}"
                is_query = turn % 3 > 0
                found = embedder.embed_query(text) if is_query else embedder.embed_documents([text, LONG])[0]
                if found is None or float(found @ expected[text]) < 0.999:
                    problems.append(text)
        except ProviderError as exc:
            problems.append(exc)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert embedder.pid == pid


def test_a_query_goes_before_waiting_documents(busy: Path, tmp_path: Path) -> None:
    embedder = LocalEmbedder(str(busy), folder=tmp_path, threads=1)
    cancel = threading.Event()
    done: list[float] = []

    def sync() -> None:
        with pytest.raises(Cancelled):
            embedder.embed_documents([LONG] * 500, cancel=cancel)
        done.append(time.monotonic())

    try:
        one(embedder, "tea")
        thread = threading.Thread(target=sync)
        thread.start()
        time.sleep(0.3)
        for _ in range(3):
            one(embedder, "tea")
        assert not done
        cancel.set()
        thread.join()
    finally:
        embedder.close()


def test_cancel_stops_soon_keeps_what_was_done_and_the_model(slow: Path, tmp_path: Path) -> None:
    embedder = LocalEmbedder(str(slow), folder=tmp_path, threads=1)
    try:
        one(embedder, "tea")
        pid = embedder.pid
        for delay in (0.05, 0.6):
            kept: list[int] = []
            cancel = threading.Event()
            kept_by_then: list[int] = []

            def note(at: Sequence[int], _vectors: object, kept: list[int] = kept) -> None:
                kept.extend(at)

            def stop(
                cancel: threading.Event = cancel,
                kept: list[int] = kept,
                kept_by_then: list[int] = kept_by_then,
            ) -> None:
                cancel.set()
                kept_by_then.append(len(kept))

            threading.Timer(delay, stop).start()
            with pytest.raises(Cancelled):
                embedder.embed_documents([LONG] * 50, cancel=cancel, keep=note)
            assert len(kept) <= kept_by_then[0] + 1 < 50, "at most what was under way"
            assert kept == list(range(len(kept)))
            assert embedder.pid == pid
        one(embedder, "tea")
        assert embedder.pid == pid
        with pytest.raises(Cancelled):
            embedder.embed_documents(["tea"], cancel=cancel)
    finally:
        embedder.close()


def test_ctrl_c_stops_the_request_and_keeps_the_model(slow: Path, tmp_path: Path) -> None:
    embedder = LocalEmbedder(str(slow), folder=tmp_path, threads=1)
    try:
        one(embedder, "tea")
        pid = embedder.pid
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        kept: list[int] = []
        with pytest.raises(KeyboardInterrupt):
            embedder.embed_documents([LONG] * 50, keep=lambda at, _: kept.extend(at))
        assert len(kept) < 25
        one(embedder, "tea")
        assert embedder.pid == pid
    finally:
        embedder.close()


def test_an_error_of_the_caller_stops_the_request_and_keeps_the_model(busy: Path, tmp_path: Path) -> None:
    embedder = LocalEmbedder(str(busy), folder=tmp_path, threads=1)

    def full(_at: Sequence[int], _vectors: object) -> None:
        raise OSError("disk full")

    try:
        before = one(embedder, "tea")
        pid = embedder.pid
        with pytest.raises(OSError, match="disk full"):
            embedder.embed_documents([LONG] * 3, keep=full)
        assert float(one(embedder, "tea") @ before) > 0.9999
        assert embedder.pid == pid
    finally:
        embedder.close()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGABRT, signal.SIGSEGV])
def test_a_child_that_is_killed_is_reported_and_started_again(
    busy: Path, tmp_path: Path, number: signal.Signals
) -> None:
    embedder = LocalEmbedder(str(busy), folder=tmp_path, threads=1)
    try:
        one(embedder, "tea")
        pid = embedder.pid
        assert pid is not None
        threading.Timer(0.6, os.kill, (pid, number)).start()
        with pytest.raises(
            RequestFailed, match=rf"ended while embedding: killed by signal .*{number.name}"
        ) as caught:
            embedder.embed_documents([LONG] * 50)
        assert ("GGML_NATIVE=OFF" in str(caught.value)) is (number == signal.SIGSEGV)
        assert embedder.pid is None
        one(embedder, "tea")
        assert embedder.pid is not None and embedder.pid != pid

        os.kill(embedder.pid, number)  # while idle: nothing was lost, so nothing is reported
        assert wait_until(lambda: embedder.pid is None and "Z" not in children())
        one(embedder, "tea")
    finally:
        embedder.close()


def test_idle_gives_the_memory_back_and_the_next_text_loads_again(tiny: Path, tmp_path: Path) -> None:
    embedder = LocalEmbedder(str(tiny), folder=tmp_path, threads=1, idle_s=0.5)
    one(embedder, "tea")
    pid = embedder.pid
    assert pid is not None
    assert wait_until(lambda: not is_running(pid))
    assert embedder.pid is None
    one(embedder, "tea")
    assert embedder.pid not in (None, pid)
    embedder.close()


def test_close_twice_and_embed_after_it(tiny: Path, tmp_path: Path) -> None:
    # A thread of an earlier test may still end meanwhile, and close its files: none of ours may stay.
    gc.collect()
    threads, descriptors = set(threading.enumerate()), len(list(DESCRIPTORS.iterdir()))
    embedder = LocalEmbedder(str(tiny), folder=tmp_path, threads=1)
    embedder.close()
    for _ in range(3):
        first = one(embedder, "tea")
        embedder.close()
        embedder.close()
        assert embedder.pid is None
    assert float(first @ one(embedder, "tea")) > 0.9999
    embedder.close()
    gc.collect()
    assert wait_until(lambda: set(threading.enumerate()) <= threads)
    assert len(list(DESCRIPTORS.iterdir())) <= descriptors
    assert "Z" not in children()


def test_the_child_ends_with_its_parent(tiny: Path, tmp_path: Path) -> None:
    script = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from openclaw_mem_engine.providers.local.embedder import LocalEmbedder\n"
        "embedder = LocalEmbedder(sys.argv[1], folder=Path('/tmp'), threads=1)\n"
        "embedder.embed_query('tea')\n"
        "print(embedder.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tiny)], capture_output=True, text=True)
    assert done.returncode == -9
    assert wait_until(lambda: not is_running(int(done.stdout)))


def test_nothing_is_printed_by_us_when_a_model_is_loaded_or_refused(
    tiny: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    embedder = LocalEmbedder(str(tiny), folder=tmp_path, threads=1)
    one(embedder, "tea")
    embedder.close()
    broken = local_models.truncated(tiny, tmp_path / "m.gguf", -1000)
    with pytest.raises(NotConfigured):
        LocalEmbedder(str(broken), folder=tmp_path).embed_query("tea")
    assert capfd.readouterr() == ("", "")
