"""Reading notes for the index and by lines: recorded answers, refusals of every kind, hostile files."""

from __future__ import annotations

import json
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_mem_engine.errors import OpenClawMemError, PathRefused, UsageError, WorkspaceError
from openclaw_mem_engine.workspace import opening
from openclaw_mem_engine.workspace.listing import list_memory
from openclaw_mem_engine.workspace.opening import NoteRefused, printable, read_bytes
from openclaw_mem_engine.workspace.reading import get_excerpt, read_note

DATA = Path(__file__).parents[1] / "data" / "openclaw"
GOLDENS: dict[str, Any] = json.loads((DATA / "memory_get.json").read_text(encoding="utf-8"))
#: The original reads through this link to a folder outside; here it is refused.
THROUGH_A_LINK = "memory/linkdir/secret.md"


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    root = tmp_path / "ws"
    shutil.copytree(DATA / "workspace", root)
    for name, text in {
        "outside/secret.md": "outside text\n",
        "outside/notes.txt": "no\n",
        "ws/docs/extra.md": "extra doc\nline two\n",
        "ws/docs/extra.txt": "no\n",
        "ws/README.md": "no\n",
        "ws/memory/data.txt": "no\n",
        "ws/memory/.git/x.md": "no\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    (root / "memory" / "dir.md").mkdir()
    (root / "memory" / "link.md").symlink_to(tmp_path / "outside" / "secret.md")
    (root / "memory" / "linkdir").symlink_to(tmp_path / "outside")
    (root / "memory" / "inner").symlink_to(root / "memory" / "projects")
    return root


def refusal(root: Path, path: str, extra: tuple[str, ...] = ()) -> NoteRefused:
    with pytest.raises(PathRefused) as caught:
        get_excerpt(root, path, extra_paths=extra)
    assert isinstance(caught.value, NoteRefused)
    assert caught.value.exit_code == 4
    return caught.value


def as_number(value: Any) -> int | None:
    """What the tool makes of its arguments before it asks for an excerpt."""
    return None if value is None else int(float(value))


CASES = [(case, []) for case in GOLDENS["cases"]] + [
    (case, GOLDENS["with_extraPaths"]["extraPaths"]) for case in GOLDENS["with_extraPaths"]["cases"]
]


@pytest.mark.goldens
@pytest.mark.parametrize(("case", "extra"), CASES, ids=lambda value: str(value)[:60])
def test_recorded_answers(recorded: Path, case: dict[str, Any], extra: list[str]) -> None:
    scratch = str(recorded.parent)
    extra = [path.replace("<SCRATCH>", scratch) for path in extra]
    args, result = case["args"], case["result"]
    path = args["path"].replace("<SCRATCH>", scratch)
    start, lines = as_number(args.get("from")), as_number(args.get("lines"))
    if "thrown" in result:
        with pytest.raises(UsageError, match="path is required"):
            get_excerpt(recorded, path, start, lines, extra)
    elif "error" in result or path == THROUGH_A_LINK:
        with pytest.raises(PathRefused):
            get_excerpt(recorded, path, start, lines, extra)
    else:
        excerpt = get_excerpt(recorded, path, start, lines, extra)
        assert (excerpt.text, excerpt.path) == (result["text"], result["path"])


@pytest.mark.parametrize(
    ("path", "kind", "reason"),
    [
        (THROUGH_A_LINK, "link", "leads through a link (linkdir); links are not followed"),
        ("memory/inner/greenhouse.md", "link", "leads through a link (inner); links are not followed"),
        ("memory/link.md", "link", "is a link; links are not followed"),
        ("memory/dir.md", "not-regular", "is a folder, not a plain file"),
        ("memory/data.txt", "not-markdown", "only files that end in .md (lower case) are memory"),
        ("memory/.git/x.md", "not-memory", "this path is in .git, which is not a memory folder"),
        ("README.md", "not-memory", "this path is not memory: only MEMORY.md"),
        ("memory", "not-memory", "this path is not memory: only MEMORY.md"),
        (".", "not-memory", "this path is not memory: only MEMORY.md"),
        ("../outside/secret.md", "outside", "this path is outside of the workspace"),
        ("memory/../../outside/secret.md", "outside", "this path is outside of the workspace"),
        ("/etc/passwd", "outside", "this path is outside of the workspace"),
        ("/etc/passwd.md", "outside", "this path is outside of the workspace"),
        ("~/notes.md", "not-memory", "this path is not memory: only MEMORY.md"),
        ("memory/a\0.md", "outside", "holds a NUL character"),
        ("memory/\ud800.md", "unreadable", "is not a possible path"),
        ("memory/" + "x" * 300 + ".md", "unreadable", "cannot be read: File name too long"),
    ],
)
def test_refusals_say_why(recorded: Path, path: str, kind: str, reason: str) -> None:
    refused = refusal(recorded, path)
    assert refused.kind == kind
    assert refused.reason.startswith(reason)
    assert str(refused) == f"{printable(path)}: {refused.reason}"


def test_a_prefix_is_not_a_folder(recorded: Path) -> None:
    sibling = recorded.parent / "ws2"
    (sibling / "memory").mkdir(parents=True)
    (sibling / "memory" / "x.md").write_text("other workspace")
    assert refusal(recorded, str(sibling / "memory" / "x.md")).kind == "outside"
    assert refusal(recorded, "memory2/x.md").kind == "not-memory"


def test_refusals_of_extra_paths(recorded: Path) -> None:
    (recorded / "docs" / "linked").symlink_to(recorded.parent / "outside")
    (recorded.parent / "linkroot").symlink_to(recorded.parent / "outside")
    assert refusal(recorded, "docs/linked/secret.md", ("docs",)).kind == "link"
    assert refusal(recorded, "../linkroot/secret.md", ("../linkroot",)).kind == "link"
    assert refusal(recorded, "docs/extra.txt", ("docs",)).kind == "not-markdown"
    assert refusal(recorded, "docs", ("docs",)).kind == "not-markdown"
    assert refusal(recorded, "../outside/notes.txt", ("../outside/notes.txt",)).kind == "not-markdown"
    assert refusal(recorded, "/etc/passwd.md", ("/",)).kind == "outside"


def test_extra_paths_in_every_spelling(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outside = recorded.parent / "outside"
    # A linked way to a real folder is the user's choice.
    (recorded.parent / "way").symlink_to(recorded.parent)
    for extra in ("../outside", str(outside), str(recorded.parent / "way" / "outside")):
        for asked in ("../outside/secret.md", str(outside / "secret.md")):
            excerpt = get_excerpt(recorded, asked, extra_paths=[extra])
            assert (excerpt.path, excerpt.text) == ("../outside/secret.md", "outside text\n")
    monkeypatch.setenv("HOME", str(recorded.parent))
    assert get_excerpt(recorded, "../outside/secret.md", extra_paths=["~/outside"]).found
    with pytest.raises(PathRefused, match="is outside"):
        get_excerpt(recorded, "../outside/secret.md", extra_paths=["~"])


def test_a_linked_workspace_gives_the_same_paths(recorded: Path) -> None:
    link = recorded.parent / "far" / "link"
    link.parent.mkdir()
    link.symlink_to(recorded)
    for asked in ("memory/network.md", str(link / "memory/network.md"), str(recorded / "memory/network.md")):
        assert get_excerpt(link, asked, 1, 1).path == "memory/network.md"
    assert get_excerpt(link, "../outside/secret.md", extra_paths=[str(recorded.parent / "outside")]).found


def test_what_is_listed_can_be_read_and_nothing_else(recorded: Path) -> None:
    extra = ["docs", "../outside/secret.md", "memory/.git"]
    listing = list_memory(recorded, extra)
    assert {"docs/extra.md", "../outside/secret.md", "memory/.git/x.md"} < {f.path for f in listing.files}
    for file in listing.files:
        whole = get_excerpt(recorded, file.path, extra_paths=extra)
        assert whole.path == file.path
        assert whole.text == read_note(file.absolute).text
    for excluded in listing.excluded:
        refusal(recorded, excluded.path, tuple(extra))


@pytest.mark.parametrize(
    ("start", "lines", "text", "first", "last"),
    [
        (None, None, "a\nb\r\nc\n", 1, 4),
        (0, 0, "a\nb\r\nc\n", 1, 4),
        (0, None, "a\nb\r\nc\n", 1, 4),
        (0, 2, "a\nb\r", 1, 2),
        (-7, None, "a\nb\r\nc\n", 1, 4),
        (-7, -7, "a", 1, 1),
        (2, 0, "b\r", 2, 2),
        (2, 1, "b\r", 2, 2),
        (3, 99, "c\n", 3, 4),
        (4, None, "", 4, 4),
        (5, None, "", 5, 4),
        (10**30, 10**30, "", 10**30, 10**30 - 1),
    ],
)
def test_line_ranges(
    recorded: Path, start: int | None, lines: int | None, text: str, first: int, last: int
) -> None:
    (recorded / "memory" / "abc.md").write_bytes(b"a\nb\r\nc\n")
    excerpt = get_excerpt(recorded, "memory/abc.md", start, lines)
    assert (excerpt.text, excerpt.start_line, excerpt.end_line) == (text, first, last)
    assert (excerpt.total_lines, excerpt.found) == (4, True)


def test_missing_files_are_not_errors(recorded: Path) -> None:
    for path in ("memory/2099-01-01.md", "memory/no/such/x.md", "memory/network.md/x.md", "memory.md"):
        excerpt = get_excerpt(recorded, path, 3, 2)
        assert (excerpt.path, excerpt.text, excerpt.found, excerpt.total_lines) == (path, "", False, 0)
    with pytest.raises(WorkspaceError, match="does not exist"):
        get_excerpt(recorded / "none", "MEMORY.md")


def test_text_that_is_not_utf8_can_still_be_looked_at(recorded: Path) -> None:
    (recorded / "memory" / "latin.md").write_bytes(b"caf\xe9 \0 \xf0\x9f\x99 end")
    assert get_excerpt(recorded, "memory/latin.md").text == "caf\ufffd \0 \ufffd end"


def test_size_limits(recorded: Path) -> None:
    place = recorded / "memory" / "big.md"
    place.write_bytes(b"x" * 1001)
    for call in (
        lambda: get_excerpt(recorded, "memory/big.md", 1, 1, max_bytes=1000),
        lambda: read_note(str(place), max_bytes=1000),
    ):
        with pytest.raises(NoteRefused, match="too large: 1,001 bytes, the limit is 1,000") as caught:
            call()
        assert caught.value.kind == "too-large"
    assert read_note(str(place), max_bytes=1001).size == 1001


def test_a_fifo_is_refused_without_waiting(recorded: Path) -> None:
    os.mkfifo(recorded / "memory" / "pipe.md")
    for call in (
        lambda: get_excerpt(recorded, "memory/pipe.md"),
        lambda: read_note(str(recorded / "memory" / "pipe.md")),
    ):
        caught: list[Exception] = []

        def run(call: Any = call, caught: list[Exception] = caught) -> None:
            try:
                call()
            except OpenClawMemError as error:
                caught.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(5)
        assert not thread.is_alive(), "the FIFO was opened and waited for"
        assert str(caught[0]).endswith("is a FIFO, not a plain file")


def test_a_device_is_refused() -> None:
    with pytest.raises(NoteRefused, match="is a device, not a plain file"):
        read_note("/dev/null")


def test_the_way_without_folder_descriptors(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "supports_dir_fd", frozenset())
    assert get_excerpt(recorded, "memory/network.md", 1, 1).text == "# Network reference"
    assert get_excerpt(recorded, "memory/none.md").found is False
    kinds = {
        path: refusal(recorded, path).kind for path in (THROUGH_A_LINK, "memory/link.md", "memory/dir.md")
    }
    assert list(kinds.values()) == ["link", "link", "not-regular"]


def test_a_link_planted_after_the_check_is_not_followed(
    recorded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = recorded / "memory" / "network.md"
    check = opening._check
    swapped: list[bool] = []

    def swap(status: os.stat_result, shown: str, max_bytes: int | None) -> None:
        check(status, shown, max_bytes)
        if not swapped:
            swapped.append(True)
            place.unlink()
            place.symlink_to(recorded.parent / "outside" / "secret.md")

    monkeypatch.setattr(opening, "_check", swap)
    assert refusal(recorded, "memory/network.md").kind == "link"
    assert swapped


def test_descriptors_are_closed(recorded: Path) -> None:
    def count() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    if not Path("/proc/self/fd").exists():
        pytest.skip("no /proc to count descriptors in")
    before = count()
    for path in ("memory/network.md", THROUGH_A_LINK, "memory/dir.md", "memory/none/x.md", "memory/link.md"):
        try:
            get_excerpt(recorded, path)
        except PathRefused:
            continue
    with pytest.raises(NoteRefused):
        read_bytes(str(recorded), "memory/network.md", max_bytes=1)
    assert count() == before


@given(st.text(max_size=40), st.sampled_from(["", "memory/", "../", "memory/../", "/", "docs/"]))
def test_no_path_leads_out(tmp_path_factory: pytest.TempPathFactory, text: str, prefix: str) -> None:
    root = tmp_path_factory.getbasetemp() / "hostile"
    (root / "memory").mkdir(parents=True, exist_ok=True)
    try:
        excerpt = get_excerpt(root, prefix + text)
    except (PathRefused, UsageError):
        return
    assert excerpt.found is False  # nothing is there
    assert excerpt.path in ("MEMORY.md", "memory.md") or excerpt.path.startswith("memory/")
    assert excerpt.path.endswith(".md") and ".." not in excerpt.path.split("/")
