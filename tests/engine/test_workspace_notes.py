"""Notes read whole for the index: text, its file's state, typed refusals; and locations that people write."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_mem_engine.errors import UsageError
from openclaw_mem_engine.workspace.opening import NoteRefused
from openclaw_mem_engine.workspace.reading import Location, parse_location, read_note


@pytest.mark.parametrize(
    ("data", "kind", "reason"),
    [
        (b"abc\0def", "binary", "binary: NUL at byte 3"),
        (b"caf\xe9", "not-utf8", "not UTF-8 at byte 3; save it as UTF-8"),
        (
            b"\xed\xa0\x80",
            "not-utf8",
            "not UTF-8 at byte 0; save it as UTF-8",
        ),  # a surrogate written as UTF-8
        (b"\xc0\xaf", "not-utf8", "not UTF-8 at byte 0; save it as UTF-8"),
        (
            "# Títle".encode("utf-16"),
            "not-utf8",
            "not UTF-8 at byte 0 (it looks like UTF-16); save it as UTF-8",
        ),
        ("x".encode("utf-16-be"), "binary", "binary: NUL at byte 0"),
    ],
)
def test_notes_that_are_no_text(tmp_path: Path, data: bytes, kind: str, reason: str) -> None:
    place = tmp_path / "x.md"
    place.write_bytes(data)
    with pytest.raises(NoteRefused) as caught:
        read_note(str(place))
    assert (caught.value.kind, caught.value.reason) == (kind, reason)


@given(st.binary(max_size=200))
def test_any_bytes_are_text_or_a_typed_refusal(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    place = tmp_path_factory.getbasetemp() / "any.md"
    place.write_bytes(data)
    try:
        note = read_note(str(place))
    except NoteRefused as refused:
        assert refused.kind in ("binary", "not-utf8")
    else:
        assert note.text.encode("utf-8") == data.replace(b"\0", "\ufffd".encode())
        assert note.size == len(data) and note.settled


def test_a_byte_order_mark_and_carriage_returns_stay(tmp_path: Path) -> None:
    place = tmp_path / "bom.md"
    place.write_bytes(b"\xef\xbb\xbf# T\r\n")
    note = read_note(str(place))
    assert note.text == "\ufeff# T\r\n"
    status = place.stat()
    assert (note.size, note.mtime_ns) == (status.st_size, status.st_mtime_ns)
    assert (note.inode, note.device) == (status.st_ino, status.st_dev)


def test_links_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "x.md").write_text("text")
    (tmp_path / "x.md").symlink_to(tmp_path / "real" / "x.md")
    (tmp_path / "linked").symlink_to(tmp_path / "real")
    assert read_note(str(tmp_path / "linked" / "x.md")).text == "text"  # without a root only the file counts
    for path, root in ((tmp_path / "x.md", None), (tmp_path / "linked" / "x.md", str(tmp_path))):
        with pytest.raises(NoteRefused) as caught:
            read_note(str(path), root)
        assert caught.value.kind == "link"
    with pytest.raises(NoteRefused) as caught:
        read_note(str(tmp_path / "none.md"), str(tmp_path))
    assert caught.value.kind == "missing"


@pytest.mark.parametrize("change", ["grow", "shrink", "past-limit"])
def test_a_file_that_changes_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    place = tmp_path / "x.md"
    place.write_bytes(b"first\n")
    read = os.read
    done: list[bool] = []

    def changing(descriptor: int, size: int) -> bytes:
        if not done:
            done.append(True)
            if change == "shrink":
                place.write_bytes(b"f")
            else:
                with place.open("ab") as file:
                    file.write(b"second\n" * (1 if change == "grow" else 100_000))
        return read(descriptor, size)

    monkeypatch.setattr(os, "read", changing)
    if change == "past-limit":
        with pytest.raises(NoteRefused, match="too large"):
            read_note(str(place), max_bytes=1000)
        return
    note = read_note(str(place))
    assert note.settled is False
    assert note.size == 6  # from before, so that the next scan finds another size
    assert note.text == ("first\nsecond\n" if change == "grow" else "f")


@pytest.mark.parametrize(
    ("text", "location"),
    [
        ("memory/x.md", ("memory/x.md", None, None)),
        ("memory/x.md:12", ("memory/x.md", 12, 12)),
        ("memory/x.md:12-20", ("memory/x.md", 12, 20)),
        ("memory/x.md:12:5", ("memory/x.md", 12, 12)),
        ("memory/x.md#L12", ("memory/x.md", 12, 12)),
        ("memory/x.md#L12-L20", ("memory/x.md", 12, 20)),
        ("memory/x.md#L12-20", ("memory/x.md", 12, 20)),
        (" memory/a b.md:3 ", ("memory/a b.md", 3, 3)),
        ("memory/x.md:12-12", ("memory/x.md", 12, 12)),
        ("memory/x.md#top", ("memory/x.md#top", None, None)),
        ("memory/x.md:", ("memory/x.md:", None, None)),
        ("memory/10:30.md", ("memory/10:30.md", None, None)),
        ("memory/x.md:" + "9" * 5000, ("memory/x.md:" + "9" * 5000, None, None)),
        ("memory/x.md:١٢", ("memory/x.md:١٢", None, None)),
        (":12", (":12", None, None)),
        ("", ("", None, None)),
    ],
)
def test_locations(text: str, location: tuple[str, int | None, int | None]) -> None:
    assert parse_location(text) == Location(*location)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        *((text, "x.md has no line 0") for text in ("x.md:0", "x.md:00-3", "x.md#L0")),
        *((text, f"{text} ends before it begins") for text in ("x.md:20-12", "x.md#L20-L12", "x.md:3-0")),
    ],
)
def test_lines_that_cannot_be_are_refused(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        parse_location(text)


@given(st.text())
def test_any_text_is_some_location(text: str) -> None:
    try:
        location = parse_location(text)
    except UsageError:
        return
    assert text.strip().startswith(location.path)


def test_a_few_nul_bytes_are_replaced(tmp_path: Path) -> None:
    path = tmp_path / "log.md"
    path.write_bytes(b"valve\0log with enough text\n")
    read = read_note(str(path))
    assert (read.text, read.nuls) == ("valve\ufffdlog with enough text\n", 1)
