"""Which files are memory: recorded lists, every kind of file that is left out, and extra paths."""

from __future__ import annotations

import json
import os
import shutil
import socket
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_mem_engine.errors import WorkspaceError
from openclaw_mem_engine.model import NOT_INCLUDED
from openclaw_mem_engine.workspace.listing import list_memory, notes_not_included
from openclaw_mem_engine.workspace.opening import NoteRefused
from openclaw_mem_engine.workspace.reading import get_excerpt
from openclaw_mem_engine.workspace.rules import below, is_ignored_folder
from openclaw_mem_engine.workspace.walk import Listing
from support.memories import settings_for

DATA = Path(__file__).parents[1] / "data" / "openclaw"
GOLDENS: dict[str, Any] = json.loads((DATA / "listing.json").read_text(encoding="utf-8"))
NOBODY = 65534


def paths(listing: Listing) -> list[str]:
    return [file.path for file in listing.files]


def reasons(listing: Listing) -> dict[str, str]:
    return {file.path: file.reason for file in listing.excluded}


def write(root: Path, *names: str) -> None:
    for name in names:
        place = root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"text of {name}\n", encoding="utf-8")


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    root = tmp_path / "ws"
    write(root, "MEMORY.md", "memory/2026-02-20.md", "memory/projects/greenhouse.md")
    return root


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """The workspace of the recorded listing, with the files that its note names."""
    root = tmp_path / "ws"
    shutil.copytree(DATA / "workspace", root)
    outside = tmp_path / "outside"
    write(outside, "secret.md")
    names = ["memory.md", "memory/upper.MD", "memory/.hidden/h.md", "memory/node_modules/n.md"]
    write(root, *names, "memory/data.txt", "docs/extra.md", "docs/extra.txt", "README.md")
    (root / "memory" / "dir.md").mkdir()
    (root / "memory" / "link.md").symlink_to(outside / "secret.md")
    (root / "memory" / "linkdir").symlink_to(outside)
    return root


@pytest.mark.goldens
@pytest.mark.parametrize(("golden", "extra"), [("default", []), ("extra_docs", ["docs", "README.md"])])
def test_recorded_listing(recorded: Path, golden: str, extra: list[str]) -> None:
    listing = list_memory(recorded, extra)
    ours_only_skip = {"memory/.hidden/h.md", "memory/node_modules/n.md"}  # on purpose: see `reasons` below
    assert paths(listing) == [path for path in GOLDENS[golden] if path not in ours_only_skip]
    assert reasons(listing) == {
        "memory/.hidden": "hidden folder; nothing in it is memory",
        "memory/node_modules": "folder of a tool; nothing in it is memory",
        "memory/link.md": "is a link; links are not followed",
        "memory/linkdir": "is a link to a folder; links are not followed",
        "memory/upper.MD": 'ends in another spelling of ".md"; only lower case counts',
    }


def test_what_a_file_says(ws: Path) -> None:
    file = list_memory(ws).files[1]
    place = ws / "memory" / "2026-02-20.md"
    status = place.stat()
    assert (file.path, file.absolute, file.source) == ("memory/2026-02-20.md", str(place), "memory")
    assert (file.size, file.mtime_ns, file.inode) == (status.st_size, status.st_mtime_ns, status.st_ino)


def test_a_missing_workspace_is_an_error_that_helps(tmp_path: Path) -> None:
    with pytest.raises(WorkspaceError, match=r"does not exist\. Name the folder .* `openclaw-mem demo`"):
        list_memory(tmp_path / "none")
    (tmp_path / "file").write_text("")
    with pytest.raises(WorkspaceError, match=f"is a file.* --workspace {tmp_path}"):
        list_memory(tmp_path / "file")
    with pytest.raises(WorkspaceError, match=r"is not a folder\. Name the folder"):
        list_memory(tmp_path / "file" / "below")
    with pytest.raises(WorkspaceError, match="cannot be opened"):
        list_memory(Path(str(tmp_path) + "\0"))
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    with pytest.raises(WorkspaceError):
        list_memory(tmp_path / "circle")


def test_an_empty_workspace_lists_nothing(tmp_path: Path) -> None:
    assert list_memory(tmp_path) == Listing((), (), frozenset({str(tmp_path.resolve())}))


def test_the_workspace_itself_may_be_a_link(ws: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(ws)
    assert list_memory(tmp_path / "link") == list_memory(ws)
    absolute = str(tmp_path / "link" / "memory")
    assert list_memory(tmp_path / "link", [absolute]) == list_memory(ws)


def test_both_spellings_when_they_are_two_files(ws: Path) -> None:
    write(ws, "memory.md", "Memory.md")
    listing = list_memory(ws)
    assert paths(listing)[:2] == ["MEMORY.md", "memory.md"]
    assert reasons(listing) == {"Memory.md": "only the spellings MEMORY.md and memory.md count"}


def test_one_file_under_two_names_counts_once(ws: Path) -> None:
    os.link(ws / "MEMORY.md", ws / "memory.md")
    os.link(ws / "memory" / "2026-02-20.md", ws / "memory" / "a-copy.md")
    os.link(ws / "memory" / "2026-02-20.md", ws / "memory" / "2026-01-01.md")
    listing = list_memory(ws)
    assert paths(listing) == ["MEMORY.md", "memory/2026-01-01.md", "memory/projects/greenhouse.md"]
    assert reasons(listing) == {
        "memory.md": "the same file as MEMORY.md",
        "memory/2026-02-20.md": "the same file as memory/2026-01-01.md",
        "memory/a-copy.md": "the same file as memory/2026-01-01.md",
    }


def test_overlapping_extra_paths_list_a_file_once_and_say_nothing(ws: Path) -> None:
    listing = list_memory(ws, [".", "memory", "memory/projects", str(ws / "MEMORY.md"), "./memory/../memory"])
    assert listing == list_memory(ws)


def test_special_files_are_reported(ws: Path) -> None:
    os.mkfifo(ws / "memory" / "pipe.md")
    os.mkfifo(ws / "memory" / "pipe.txt")
    server = socket.socket(socket.AF_UNIX)
    here = Path.cwd()
    os.chdir(ws / "memory")  # the name of a socket may only be about 100 bytes long
    try:
        server.bind("socket.md")
    finally:
        os.chdir(here)
        server.close()
    assert reasons(list_memory(ws)) == {
        "memory/pipe.md": "is a FIFO, not a plain file",
        "memory/socket.md": "is a socket, not a plain file",
    }


def test_a_device_is_reported(ws: Path) -> None:
    try:
        os.mknod(ws / "memory" / "null.md", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("making a device needs rights that this user does not have")
    assert reasons(list_memory(ws)) == {"memory/null.md": "is a device, not a plain file"}


def test_links_of_all_kinds_are_reported(ws: Path, tmp_path: Path) -> None:
    memory = ws / "memory"
    write(tmp_path / "outside", "x.md")
    (memory / "file.md").symlink_to(tmp_path / "outside" / "x.md")
    (memory / "inner.md").symlink_to(memory / "2026-02-20.md")
    (memory / "folder").symlink_to(tmp_path / "outside")
    (memory / "folder.md").symlink_to(tmp_path / "outside")
    (memory / "broken.md").symlink_to(tmp_path / "none.md")
    (memory / "circle.md").symlink_to(memory / "circle.md")
    (memory / "circle").symlink_to(memory / "circle")
    (memory / "upper.MD").symlink_to(tmp_path / "outside" / "x.md")
    (memory / "text.txt").symlink_to(tmp_path / "outside" / "x.md")  # no note by its name: not reported
    link, folder = "is a link; links are not followed", "is a link to a folder; links are not followed"
    listing = list_memory(ws)
    assert paths(listing) == ["MEMORY.md", "memory/2026-02-20.md", "memory/projects/greenhouse.md"]
    assert reasons(listing) == {
        "memory/file.md": link,
        "memory/inner.md": link,
        "memory/folder": folder,
        "memory/folder.md": folder,
        "memory/broken.md": link,
        "memory/circle.md": link,
        "memory/upper.MD": link,
    }


@pytest.mark.parametrize(("kind", "reason"), [("link", "is a link to a folder"), ("file", "is not a folder")])
def test_a_memory_folder_that_is_none(tmp_path: Path, kind: str, reason: str) -> None:
    write(tmp_path, "ws/MEMORY.md", "elsewhere/x.md")
    if kind == "link":
        (tmp_path / "ws" / "memory").symlink_to(tmp_path / "elsewhere")
    else:
        write(tmp_path, "ws/memory")
    listing = list_memory(tmp_path / "ws")
    assert paths(listing) == ["MEMORY.md"]
    assert reasons(listing)["memory"].startswith(reason)


def test_linked_and_odd_root_files(tmp_path: Path) -> None:
    write(tmp_path, "secret.md")
    (tmp_path / "ws" / "memory.md").mkdir(parents=True)
    (tmp_path / "ws" / "MEMORY.md").symlink_to(tmp_path / "secret.md")
    assert reasons(list_memory(tmp_path / "ws")) == {
        "MEMORY.md": "is a link; links are not followed",
        "memory.md": "is a folder, not a plain file",
    }


def test_the_size_limit(ws: Path) -> None:
    (ws / "memory" / "at.md").write_bytes(b"x" * 100)
    (ws / "memory" / "over.md").write_bytes(b"x" * 101)
    with (ws / "memory" / "huge.md").open("wb") as file:
        file.truncate(2**40)  # sparse: it takes no room
    listing = list_memory(ws, max_bytes=100)
    assert "memory/at.md" in paths(listing)
    assert reasons(listing) == {
        "memory/over.md": "too large: 101 bytes, the limit is 100",
        "memory/huge.md": "too large: 1,099,511,627,776 bytes, the limit is 100",
    }


def test_folders_of_tools_are_reported_once(ws: Path) -> None:
    for name in (".git", ".obsidian", "node_modules", ".venv", "venv", "__pycache__", ".tox", ".pnpm-store"):
        write(ws, f"memory/{name}/a.md", f"memory/{name}/deep/b.md")
    write(ws, "memory/.hidden-file.md", "memory/venvs/kept.md")
    listing = list_memory(ws)
    assert len(listing.excluded) == 8
    assert {"memory/.hidden-file.md", "memory/venvs/kept.md"} < set(paths(listing))


def test_a_hidden_folder_that_the_user_names_is_taken(ws: Path) -> None:
    write(ws, "memory/.vault/a.md", "memory/.vault/.git/b.md")
    listing = list_memory(ws, ["memory/.vault"])
    assert "memory/.vault/a.md" in paths(listing)
    assert list(reasons(listing)) == ["memory/.vault/.git"]


def test_extra_paths_of_every_form(ws: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    write(tmp_path, "home/notes/h.md", "outside/o.md", "outside/deep/p.md", "single/s.md", "single/t.md")
    write(ws, "docs/d.md", "docs/d.txt")
    extra = ["docs", "~/notes", str(tmp_path / "outside"), "../single/s.md", "  docs/  "]
    listing = list_memory(ws, extra)
    assert [path for path in paths(listing) if not path.lower().startswith("memory")] == [
        "../home/notes/h.md",
        "../outside/deep/p.md",
        "../outside/o.md",
        "../single/s.md",
        "docs/d.md",
    ]
    assert listing.excluded == ()
    assert all(Path(file.absolute).is_file() for file in listing.files)


def test_extra_paths_that_give_nothing_say_why(
    ws: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    write(tmp_path, "home/notes.md", "outside/o.md", "outside/o.txt")
    (tmp_path / "link").symlink_to(tmp_path / "outside")
    (tmp_path / "link.md").symlink_to(tmp_path / "outside" / "o.md")
    (ws / "linked").symlink_to(tmp_path / "outside")
    os.mkfifo(ws / "pipe.md")
    extra = [
        "none",
        "../outside/o.txt",
        "../link",
        "../link.md",
        "linked/o.md",
        "pipe.md",
        "~",
        "/",
        "~/../*/*.md",
        " ",
        "a\0b",
    ]
    listing = list_memory(ws, extra)
    hint = "name the path that it points to"
    too_wide = (
        "extra path: the whole home folder, or one above it, is not used as memory; name a folder in it"
    )
    assert paths(listing) == paths(list_memory(ws))
    assert reasons(listing) == {
        "none": "extra path: does not exist",
        "../outside/o.txt": "extra path: is neither a folder nor a file that ends in .md",
        "../link": f"extra path: is a link to a folder; links are not followed; {hint}",
        "../link.md": f"extra path: is a link; links are not followed; {hint}",
        "linked/o.md": f"extra path: leads through a link (linked); links are not followed; {hint}",
        "pipe.md": "is a FIFO, not a plain file",
        "~": too_wide,
        " ": "extra path: is blank",
        "/": too_wide,
        "~/../*/*.md": too_wide,
        "a\\x00b": "extra path: holds a NUL character",
    }


def test_names_that_are_not_utf8_are_reported(ws: Path) -> None:
    for name in (b"caf\xe9.md", b"dir\xff/x.md"):
        place = os.fsencode(ws) + b"/memory/" + name
        try:
            os.makedirs(os.path.dirname(place), exist_ok=True)  # noqa: PTH103, PTH120 - bytes
            Path(os.fsdecode(place)).write_text("x")
        except OSError:
            pytest.skip("this file system takes only UTF-8 names")
    write(ws, "memory/温室.md", "memory/line\nbreak.md", "memory/UPPER\x1b[31m.MD")
    listing = list_memory(ws)
    assert {"memory/温室.md", "memory/line\nbreak.md"} < set(paths(listing))
    assert reasons(listing) == {
        "memory/caf\\xe9.md": "its name is not UTF-8 text; rename it",
        "memory/dir\\xff": "its name is not UTF-8 text; rename it",
        "memory/UPPER\\x1b[31m.MD": 'ends in another spelling of ".md"; only lower case counts',
    }


@pytest.fixture
def unprivileged() -> Iterator[Path]:
    """A workspace that another user reads, so that permissions count even where tests run as root."""
    user = os.geteuid()
    place = Path(tempfile.mkdtemp(dir="/tmp" if user == 0 else None))
    place.chmod(0o755)
    yield place
    os.seteuid(user)
    subprocess.run(["chmod", "-R", "u+rwx", place], check=True)
    shutil.rmtree(place)


def test_unreadable_files_and_folders_are_reported(unprivileged: Path) -> None:
    write(unprivileged, "MEMORY.md", "memory/open.md", "memory/closed.md", "memory/locked/x.md")
    (unprivileged / "memory" / "closed.md").chmod(0)
    (unprivileged / "memory" / "locked").chmod(0)
    if os.geteuid() == 0:
        os.seteuid(NOBODY)
    listing = list_memory(unprivileged, ["memory/locked/x.md"])
    assert paths(listing) == ["MEMORY.md", "memory/open.md"]
    assert reasons(listing) == {
        "memory/closed.md": "may not be read; change its permissions",
        "memory/locked": "folder may not be read; change its permissions",
        "memory/locked/x.md": "extra path: may not be read; change its permissions",
    }


def test_an_unreadable_workspace_is_an_error(unprivileged: Path) -> None:
    root = unprivileged / "ws"
    root.mkdir(mode=0)
    if os.geteuid() == 0:
        os.seteuid(NOBODY)
    with pytest.raises(WorkspaceError, match="may not be read"):
        list_memory(root)


def test_a_path_too_long_to_open_is_reported(ws: Path) -> None:
    name = "d" * 200
    folder = os.open(ws / "memory", os.O_RDONLY)
    try:
        for _ in range(30):
            os.mkdir(name, dir_fd=folder)
            inner = os.open(name, os.O_RDONLY, dir_fd=folder)
            os.close(folder)
            folder = inner
    finally:
        os.close(folder)
    listing = list_memory(ws)
    assert len(paths(listing)) == 3
    assert [file.reason for file in listing.excluded] == ["folder cannot be read: File name too long"]


NAMES = st.sampled_from(["a.md", "b.MD", "c.txt", ".d.md", "memory", ".git", "venv", "é.md", "x y.md", "sub"])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(NAMES, min_size=1, max_size=4), max_size=12))
def test_each_note_is_listed_or_explained(trees: list[list[str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        for parts in trees:
            place = root.joinpath("memory", *parts)
            try:
                write(root, str(place.relative_to(root)))
            except OSError:
                continue  # a file stands where this one needs a folder, or the reverse
        listing = list_memory(root)
        listed, excluded = set(paths(listing)), set(reasons(listing))
        assert paths(listing) == sorted(listed) and not listed & excluded
        for place in root.rglob("*"):
            names = place.relative_to(root).parts
            hidden = any(is_ignored_folder(name) for name in names[1:-1])
            if place.is_file() and place.name.endswith(".md") and not hidden:
                assert "/".join(names) in listed
            elif place.is_file() and place.name.endswith(".MD") and not hidden:
                assert "/".join(names) in excluded


def test_below_is_about_folders_not_prefixes() -> None:
    assert below("/ws", "/ws/a/b") == "a/b"
    assert below("/ws", "/ws") == ""
    assert below("/ws", "/ws2/a") is None
    assert below("/", "/a") == "a"


# -- globs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("globs", "taken"),
    [
        (["docs/*.md"], ["docs/a.md"]),
        (["docs/**/*.md"], ["docs/a.md", "docs/deep/b.md"]),
        (["**/b.md", "docs/?.md"], ["docs/a.md", "docs/deep/b.md"]),
        (["d*s/a.md"], ["docs/a.md"]),
        (["docs/*.txt"], []),
        (["/no/such/*.md"], []),
        (["docs/z*.md", "docs/a.md"], ["docs/a.md"]),
    ],
)
def test_extra_paths_with_wildcards(ws: Path, globs: list[str], taken: list[str]) -> None:
    write(ws, "docs/a.md", "docs/deep/b.md", "docs/c.txt", ".git/b.md")
    notes = [file.path for file in list_memory(ws).files]
    assert sorted(set(paths(list_memory(ws, globs))) - set(notes)) == taken
    empty = {
        "docs/*.txt": "'docs/*.txt' matches no .md file",
        "docs/z*.md": "'docs/z*.md' matches no",
    }
    assert reasons(list_memory(ws, globs)).get(NOT_INCLUDED, "").startswith(empty.get(globs[0], ""))
    for path in taken:
        assert get_excerpt(ws, path, extra_paths=globs).found
    if "docs/deep/b.md" not in taken:
        with pytest.raises(NoteRefused):
            get_excerpt(ws, "docs/deep/b.md", extra_paths=globs)


@pytest.mark.parametrize("globs", [["memory/dreaming/**"], ["memory/dreaming"], ["**/light/*.md", "**/x.md"]])
def test_what_is_excluded_is_no_memory(ws: Path, globs: list[str]) -> None:
    before = paths(list_memory(ws))
    write(ws, "memory/dreaming/light/a.md", "memory/dreaming/x.md")
    listing = list_memory(ws, exclude=globs)
    assert paths(listing) == before
    excluded = [file for file in listing.excluded if "by the setting exclude" in file.reason]
    assert excluded and all(file.by_rule for file in excluded)


def test_notes_of_a_workspace_without_memory_are_counted(tmp_path: Path) -> None:
    root = tmp_path / "vault"
    write(root, "AGENTS.md", "MEMORY.md", ".git/a.md")
    assert NOT_INCLUDED not in reasons(list_memory(root))
    write(root, "a.md", "deep/er/b.md")
    assert reasons(list_memory(root))[NOT_INCLUDED].startswith("2 Markdown files here and no folder memory")
    assert NOT_INCLUDED not in reasons(list_memory(root, ["**/*.md"]))
    assert len(list_memory(root, ["**/*.md"]).files) == 4
    configured = settings_for(root, tmp_path / "home")
    assert notes_not_included(configured) == "", "that is said where files are listed"
    write(root, "memory/c.md", "memory/deep/d.md")
    assert NOT_INCLUDED not in reasons(list_memory(root)), "no search looks for them"
    assert notes_not_included(configured).startswith(
        "Outside the memory, not searched by your agent: 2 Markdown files"
    )
    (root / "a.md").unlink()
    assert notes_not_included(configured).startswith(
        "Outside the memory, not searched by your agent: 1 Markdown file"
    )
    assert notes_not_included(replace(configured, exclude=("deep",))) == ""
    assert notes_not_included(replace(configured, extra_paths=("docs",))) == "", "the user has chosen"
