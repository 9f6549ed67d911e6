"""Downloading a model: asked first, resumed byte for byte, checked, and nothing half under the final name."""

from __future__ import annotations

import random
import socket
import threading
import time
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from openclaw_mem_engine.errors import Cancelled, ConfigError
from openclaw_mem_engine.providers.local import download as downloading
from openclaw_mem_engine.providers.local.download import DownloadFailed, download
from support.file_server import HANGS_S, URI, Hub, running_hub

CONTENT = b"GGUF" + random.Random(3).randbytes(3_000_000)
OTHER = b"GGUF" + random.Random(4).randbytes(3_000_000)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What fails is tried again at once."""
    monkeypatch.setattr(downloading, "_FIRST_WAIT_S", 0.01)


def fetch(hub: Hub, folder: Path, **options: Any) -> Path:
    options.setdefault("confirm", lambda size: True)
    return download(URI, folder, base_url=hub.base_url, **options)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock")


def test_a_download_asks_shows_and_arrives_whole_and_private(tmp_path: Path) -> None:
    asked: list[int] = []
    seen: list[tuple[int, int, str]] = []
    folder = tmp_path / "models"

    def confirm(size: int) -> bool:
        assert not folder.exists()
        asked.append(size)
        return True

    with running_hub(CONTENT) as hub:
        path = fetch(hub, folder, confirm=confirm, progress=lambda *event: seen.append(event))
        assert path == folder / "org_repo_sub_model.gguf"
        assert path.read_bytes() == CONTENT
        assert asked == [len(CONTENT)]
        assert names(folder) == [path.name]
        assert (path.stat().st_mode & 0o777, folder.stat().st_mode & 0o777) == (0o600, 0o700)
        assert (len(CONTENT), len(CONTENT), "model.gguf") in seen
        for _, _, headers in hub.requests:
            assert not {"authorization", "cookie"} & {name.lower() for name in headers}

        assert fetch(hub, folder, confirm=confirm) == path  # there already: nobody is asked, nothing fetched
        assert len(asked) == len(hub.gets) == 1


def test_not_agreed_means_nothing_is_fetched_or_written(tmp_path: Path) -> None:
    with running_hub(CONTENT) as hub:
        with pytest.raises(Cancelled, match="3,000,004 bytes"):
            fetch(hub, tmp_path / "models", confirm=lambda size: False)
        assert hub.gets == []
    assert not (tmp_path / "models").exists()


@pytest.mark.parametrize("cuts", [[1], [1000, 500_000], [1, 2, 3, 2_000_000]], ids=str)
def test_broken_connections_are_resumed_byte_for_byte(tmp_path: Path, cuts: list[int | None]) -> None:
    with running_hub(CONTENT, cuts=list(cuts)) as hub:
        assert fetch(hub, tmp_path).read_bytes() == CONTENT
        sent = [headers.get("Range") for headers in hub.gets]
    assert sent[0] is None
    assert [int(value.split("=")[1][:-1]) for value in sent[1:] if value] == [
        sum(cut or 0 for cut in cuts[: number + 1]) for number in range(len(cuts))
    ]


def stopped_half_way(hub: Hub, folder: Path) -> int:
    """A first try that is cancelled when half of the file has come; how many bytes were kept."""
    cancel = threading.Event()
    hub.hang_after = len(hub.content) // 2

    def stop(done: int, _total: int, _label: str) -> None:
        if done > 1_000_000:
            cancel.set()

    with pytest.raises(Cancelled):
        fetch(hub, folder, cancel=cancel, progress=stop)
    hub.hang_after = None
    [part] = folder.glob("*.part")
    assert not list(folder.glob("*.gguf"))
    return part.stat().st_size


def test_a_cancelled_download_goes_on_where_it_stopped(tmp_path: Path) -> None:
    with running_hub(CONTENT) as hub:
        kept = stopped_half_way(hub, tmp_path)
        assert 1_000_000 < kept <= len(CONTENT) // 2
        assert fetch(hub, tmp_path).read_bytes() == CONTENT
        assert hub.gets[-1]["Range"] == f"bytes={kept}-"
    assert len(names(tmp_path)) == 1


@pytest.mark.parametrize("sha256", [None, ""], ids=["checksum", "no checksum"])
def test_a_changed_file_is_fetched_from_the_start(tmp_path: Path, sha256: str | None) -> None:
    with running_hub(CONTENT, sha256=sha256) as hub:
        stopped_half_way(hub, tmp_path)
        hub.content = OTHER
        assert fetch(hub, tmp_path).read_bytes() == OTHER
    assert names(tmp_path) == ["org_repo_sub_model.gguf"], "the part of the older version is gone"


def test_a_file_that_changes_between_two_connections_is_fetched_from_the_start(tmp_path: Path) -> None:
    with running_hub(CONTENT, sha256="", cuts=[500_000], after_cut=OTHER) as hub:
        assert fetch(hub, tmp_path).read_bytes() == OTHER


def test_a_server_without_ranges_sends_all_again(tmp_path: Path) -> None:
    with running_hub(CONTENT, ranges=False, cuts=[1_000_000]) as hub:
        assert fetch(hub, tmp_path).read_bytes() == CONTENT
        assert len(hub.gets) == 2


def test_without_etag_and_checksum_nothing_old_is_trusted(tmp_path: Path) -> None:
    with running_hub(CONTENT, etag="", sha256="") as hub:
        stopped_half_way(hub, tmp_path)
        assert fetch(hub, tmp_path).read_bytes() == CONTENT
        assert "Range" not in hub.gets[-1]


def test_a_damaged_part_is_found_by_its_checksum_and_deleted(tmp_path: Path) -> None:
    with running_hub(CONTENT) as hub:
        stopped_half_way(hub, tmp_path)
        [part] = tmp_path.glob("*.part")
        data = bytearray(part.read_bytes())
        data[1000] ^= 1
        part.write_bytes(data)
        with pytest.raises(DownloadFailed, match="wrong SHA-256 checksum and was deleted"):
            fetch(hub, tmp_path)
        assert names(tmp_path) == []
        assert fetch(hub, tmp_path).read_bytes() == CONTENT


def test_a_wrong_checksum_leaves_an_older_file_alone(tmp_path: Path) -> None:
    target = tmp_path / "org_repo_sub_model.gguf"
    target.write_bytes(b"GGUF old")
    with running_hub(CONTENT, sha256="0" * 64) as hub, pytest.raises(DownloadFailed, match="checksum"):
        fetch(hub, tmp_path)
    assert names(tmp_path) == [target.name]
    assert target.read_bytes() == b"GGUF old"


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
@pytest.mark.parametrize("lie", [-1000, 1000])
def test_a_server_that_lies_about_the_length(tmp_path: Path, lie: int, chunked: bool) -> None:
    with (
        running_hub(CONTENT, announced=len(CONTENT) + lie, chunked=chunked, sha256="") as hub,
        pytest.raises(DownloadFailed, match=r"more than|in a row"),
    ):
        fetch(hub, tmp_path)
    assert not list(tmp_path.glob("*.gguf"))


def test_something_else_than_a_model_is_deleted(tmp_path: Path) -> None:
    page = b"<html>Please log in</html>"
    with running_hub(page, sha256="") as hub, pytest.raises(DownloadFailed, match="not a GGUF file"):
        fetch(hub, tmp_path)
    assert names(tmp_path) == []


def test_a_server_that_refuses_head(tmp_path: Path) -> None:
    with running_hub(CONTENT, heads=False) as hub:
        assert fetch(hub, tmp_path).read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("status", "said"), [(404, "Check the address"), (401, "Accept its licence"), (403, "Accept its licence")]
)
def test_refusals_say_what_to_do(tmp_path: Path, status: int, said: str) -> None:
    with running_hub(CONTENT, status=status) as hub, pytest.raises(DownloadFailed, match=said):
        fetch(hub, tmp_path)


def test_no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        hub = Hub(b"", base_url=f"http://127.0.0.1:{free.getsockname()[1]}")
        with pytest.raises(DownloadFailed, match="Check the network"):
            fetch(hub, tmp_path)
        monkeypatch.setattr(downloading, "_FIRST_WAIT_S", 60.0)
        cancel = threading.Event()
        threading.Timer(0.2, cancel.set).start()
        started = time.monotonic()
        with pytest.raises(Cancelled):
            fetch(hub, tmp_path, cancel=cancel)
        assert time.monotonic() - started < 30, "less than until the second try"


@pytest.mark.parametrize("silent", ["content", "everything"])
def test_a_hung_server_does_not_hold_up_a_cancel(
    tmp_path: Path, silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancel = threading.Event()
    monkeypatch.setattr(downloading, "_SILENCE_S", HANGS_S)

    def cancelled_soon(call: Callable[[], object]) -> None:
        threading.Timer(0.4, cancel.set).start()
        started = time.monotonic()
        with pytest.raises(Cancelled):
            call()
        assert time.monotonic() - started < HANGS_S / 2, "less than the server hangs"

    if silent == "content":
        with running_hub(CONTENT, hang_after=100) as hub:
            cancelled_soon(lambda: fetch(hub, tmp_path, cancel=cancel))
        return
    with socket.create_server(("127.0.0.1", 0)) as mute:
        hub = Hub(b"", base_url=f"http://127.0.0.1:{mute.getsockname()[1]}")
        cancelled_soon(lambda: fetch(hub, tmp_path, cancel=cancel))


def test_no_room_is_said_before_anything_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda folder: Namespace(free=1000))
    with running_hub(CONTENT) as hub:
        with pytest.raises(
            DownloadFailed, match=r"not enough space .* 3,000,004 bytes .* only 1,000 are free"
        ):
            fetch(hub, tmp_path)
        assert hub.gets == []


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with running_hub(CONTENT) as hub, pytest.raises(DownloadFailed, match="cannot be written"):
        fetch(hub, tmp_path / "file")


@pytest.mark.parametrize(
    "store", ["http://example.invalid/x", "ftp://127.0.0.1/x", "file:///etc/passwd", "http://10.0.0.1/x"]
)
def test_redirects_lead_only_to_https(tmp_path: Path, store: str) -> None:
    with running_hub(CONTENT, store=store) as hub, pytest.raises(DownloadFailed, match="without https"):
        fetch(hub, tmp_path)


def test_a_circle_of_redirects_ends(tmp_path: Path) -> None:
    circle = "/org/repo/resolve/main/sub/model.gguf"
    with running_hub(CONTENT, store=circle) as hub, pytest.raises(DownloadFailed, match="TooManyRedirects"):
        fetch(hub, tmp_path)


@pytest.mark.parametrize("base", ["http://example.invalid", "ftp://127.0.0.1", "nonsense"])
def test_only_https_is_asked(tmp_path: Path, base: str) -> None:
    with pytest.raises(ConfigError, match="over https only"):
        download(URI, tmp_path, base_url=base, confirm=lambda size: True)


def test_only_one_process_downloads_a_file(tmp_path: Path) -> None:
    with running_hub(CONTENT) as hub:
        with (
            FileLock(tmp_path / "org_repo_sub_model.gguf.lock"),
            pytest.raises(DownloadFailed, match="another process"),
        ):
            fetch(hub, tmp_path)
        assert fetch(hub, tmp_path).read_bytes() == CONTENT
