"""The bundled demo: what is in it, and that writing it is safe and repeatable."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import re
import unicodedata
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from openclaw_mem_engine.demo import ANCHOR, load_queries, workspace, write_demo
from openclaw_mem_engine.demo.workspace import (
    DATA,
    MANIFEST,
    edited_files,
    last_day,
    shift_dates,
    shift_days_for,
    shift_epochs,
    written_day,
)
from openclaw_mem_engine.errors import WorkspaceError
from openclaw_mem_engine.ranking.knobs import Knobs, parse_settings
from openclaw_mem_engine.ranking.profiles import changed
from openclaw_mem_engine.state.disk import LOCK

TODAY = datetime.date(2027, 8, 14)
DAILY = re.compile(r"\d{4}-\d\d-\d\d\.md")
AUTHORED = sorted(path for path in DATA.rglob("*") if path.is_file())


@pytest.fixture
def demo(tmp_path: Path) -> Path:
    write_demo(tmp_path / "demo", TODAY)
    return tmp_path / "demo"


def daily_logs(target: Path) -> list[str]:
    return sorted(p.name for p in (target / "workspace" / "memory").iterdir() if DAILY.fullmatch(p.name))


def fingerprint(target: Path) -> dict[str, tuple[str, int]]:
    return {
        path.relative_to(target).as_posix(): (
            hashlib.sha256(path.read_bytes()).hexdigest(),
            0 if path.name in (MANIFEST, LOCK) else path.stat().st_mtime_ns,
        )
        for path in target.rglob("*")
        if path.is_file()
    }


# What is in it


def test_it_is_as_large_as_promised() -> None:
    notes = [path for path in AUTHORED if path.suffix == ".md"]
    logs = [path for path in notes if DAILY.fullmatch(path.name)]
    assert 75 <= len(notes) <= 100
    assert 50 <= len(logs) <= 65
    assert sum(path.stat().st_size for path in AUTHORED) < 350_000
    assert max(path.stat().st_size for path in AUTHORED) < 60_000
    assert all(8 <= len(path.read_text("utf-8").splitlines()) <= 60 for path in logs)
    assert len(list(DATA.glob("agents/main/sessions/*.jsonl"))) == 6


def test_it_spans_eight_months_and_ends_on_the_anchor() -> None:
    days = sorted(p.stem for p in AUTHORED if DAILY.fullmatch(p.name))
    assert days[-1] == ANCHOR.isoformat()
    assert 220 <= (ANCHOR - datetime.date.fromisoformat(days[0])).days <= 250


@pytest.mark.parametrize("path", AUTHORED, ids=lambda path: path.relative_to(DATA).as_posix())
def test_a_file_is_plain_text_without_traces_of_its_making(path: Path) -> None:
    text = path.read_bytes().decode("utf-8")
    hidden = {c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Co", "Cs") and c not in "\n"}
    assert not hidden, f"invisible characters: {hidden!r}"
    assert not re.search(r"/(home|root|Users|work|tmp|var/folders)/", text)
    assert text.endswith("\n")
    assert text == unicodedata.normalize("NFC", text)


@pytest.mark.parametrize("path", AUTHORED, ids=lambda path: path.relative_to(DATA).as_posix())
def test_nothing_in_a_file_becomes_false_when_it_is_shifted(path: Path) -> None:
    text = path.read_text("utf-8")
    names = (
        r"(mon|tues|wednes|thurs|fri|satur|sun)days?|january|february|april|june|july|august|september"
        r"|october|november|december|lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche"
        r"|janvier|février|avril|juin|juillet|août|septembre|octobre|novembre|décembre"
    )
    assert not re.search(rf"\b({names})\b", text, re.IGNORECASE)
    assert not re.search(r"\b(March|May)\b|[月火水木金土日]曜|\d+月\d*日?", text)
    # A year alone would not move with the rest.
    assert not re.search(r"(?<![\d.,A-Za-z-])20(2[4-9]|3\d)(?![\d-])", text)


def test_no_date_is_misread_and_none_is_impossible() -> None:
    for path in AUTHORED:
        for found in re.findall(r"(?<!\d)20\d\d-\d\d-\d\d(?!\d)", path.read_text("utf-8")):
            datetime.date.fromisoformat(found)


def test_what_the_lessons_need_is_there() -> None:
    texts = {path: path.read_text("utf-8") for path in AUTHORED if path.suffix == ".md"}

    def holders(needle: str) -> list[str]:
        return [path.name for path, text in texts.items() if needle in text]

    assert holders("GRN-40417") == ["2025-09-18.md"]
    assert holders("box 418") == ["2025-08-19.md"]
    assert len(holders("## Morning status")) == 8
    assert "allerg" not in texts[DATA / "workspace/memory/2026-03-12.md"].lower()
    assert max(sum(line.startswith("|") for line in text.splitlines()) for text in texts.values()) > 62


# Dates


def test_shifting_moves_dates_and_nothing_else() -> None:
    assert shift_dates("2026-03-31T09:00Z, 2024-02-29, INV-2291, 10.40.110.5", 1) == (
        "2026-04-01T09:00Z, 2024-03-01, INV-2291, 10.40.110.5"
    )
    assert shift_dates("2026-02-31 stays, so does 12026-03-31", 5) == "2026-02-31 stays, so does 12026-03-31"
    assert shift_dates(shift_dates("2025-08-19", 700), -700) == "2025-08-19"
    assert shift_epochs('{"updatedAt": 1774956020000, "id": "a1774956020000"}', 1) == (
        '{"updatedAt": 1775042420000, "id": "a1774956020000"}'
    )


def test_the_last_log_is_of_today_and_all_names_have_moved(demo: Path) -> None:
    days = shift_days_for(TODAY)
    names = daily_logs(demo)
    assert names[-1] == "2027-08-14.md"
    assert names == [shift_dates(p.name, days) for p in AUTHORED if DAILY.fullmatch(p.name)]
    assert (demo / "workspace/memory/2027-08-14.md").read_text("utf-8").startswith("# 2027-08-14\n")
    for name in names:
        assert name.removesuffix(".md") in (demo / "workspace/memory" / name).read_text("utf-8")
    assert (demo / "workspace/memory/2027-05-30-vpn-certificates.md").is_file()


def test_the_authored_day_gives_the_authored_bytes(tmp_path: Path) -> None:
    workspace = write_demo(tmp_path, ANCHOR)
    assert workspace == tmp_path / "workspace"
    for path in AUTHORED:
        if path.name != "queries.json":
            assert (tmp_path / path.relative_to(DATA)).read_bytes() == path.read_bytes()


def test_times_of_last_change_follow_the_dates(demo: Path) -> None:
    def changed(path: str) -> datetime.datetime:
        return datetime.datetime.fromtimestamp((demo / path).stat().st_mtime, datetime.UTC)

    for name in daily_logs(demo):
        assert changed(f"workspace/memory/{name}") == datetime.datetime.fromisoformat(
            f"{name.removesuffix('.md')}T18:00:00+00:00"
        )
    undated = [p for p in (demo / "workspace").rglob("*.md") if not re.match(r"\d{4}-", p.name)]
    ages = [(TODAY - changed(p.relative_to(demo).as_posix()).date()).days for p in undated]
    assert min(ages) >= 1
    assert max(ages) > 150
    assert len(set(ages)) == len(ages)


# Sessions


def test_sessions_are_openclaw_transcripts_that_moved_along(demo: Path) -> None:
    sessions = demo / "agents/main/sessions"
    entries = json.loads((sessions / "sessions.json").read_text("utf-8"))
    assert len(entries) == 6
    latest = max(entry["updatedAt"] for entry in entries.values())
    assert datetime.datetime.fromtimestamp(latest / 1000, datetime.UTC).date() == TODAY
    flushed = 0
    for entry in entries.values():
        rows = [json.loads(line) for line in (sessions / entry["sessionFile"]).open(encoding="utf-8")]
        assert rows[0]["type"] == "session"
        assert rows[0]["id"] == entry["sessionId"]
        messages = [row for row in rows if row["type"] == "message"]
        assert {"user", "assistant"} <= {row["message"]["role"] for row in messages}
        for row in messages:
            stamp = datetime.datetime.fromisoformat(row["timestamp"]).timestamp() * 1000
            assert abs(row["message"]["timestamp"] - stamp) < 1000
        assert sum(row["type"] == "compaction" for row in rows) == entry["compactionCount"]
        assert entry["totalTokens"] < entry["contextTokens"]
        if "memoryFlushAt" in entry:
            flushed += 1
            assert entry["memoryFlushAt"] <= entry["updatedAt"]
            assert entry["memoryFlushCompactionCount"] == entry["compactionCount"]
    assert flushed == 4


# Writing


def test_writing_again_on_the_same_day_changes_nothing(demo: Path) -> None:
    before = fingerprint(demo)
    note = demo / "workspace/MEMORY.md"
    written = note.stat()
    write_demo(demo, TODAY)
    assert fingerprint(demo) == before
    assert note.stat().st_ctime_ns == written.st_ctime_ns, "what is not written need not be indexed again"


def test_several_first_runs_at_once_write_one_demo(tmp_path: Path, demo: Path) -> None:
    target = tmp_path / "again"
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(partial(write_demo, today=TODAY), [target] * 4))
    assert found == [target / "workspace"] * 4 and fingerprint(target) == fingerprint(demo)


def test_an_edited_demo_is_kept_until_it_is_reset(demo: Path, tmp_path: Path) -> None:
    note, tomorrow = demo / "workspace/MEMORY.md", TODAY + datetime.timedelta(days=1)
    written = note.read_bytes()
    note.write_text("mine", "utf-8")
    edited = fingerprint(demo)
    write_demo(demo, tomorrow)
    assert fingerprint(demo) == edited and written_day(demo) == TODAY
    assert edited_files(demo) == ["workspace/MEMORY.md"]
    note.write_bytes(written)  # as ``undo`` does
    write_demo(demo, tomorrow)
    assert written_day(demo) == tomorrow
    (demo / "workspace/memory/style-guide.md").unlink()
    assert edited_files(demo) == ["workspace/memory/style-guide.md"]
    write_demo(demo, tomorrow, reset=True)
    write_demo(tmp_path / "fresh", tomorrow)
    assert fingerprint(demo) == fingerprint(tmp_path / "fresh")


def test_a_run_that_broke_off_is_not_taken_for_edits(
    demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tomorrow = TODAY + datetime.timedelta(days=1)
    with monkeypatch.context() as patched, pytest.raises(OSError, match="full"):
        write, left = workspace._write, iter(range(20))

        def until_full(path: Path, content: bytes) -> None:
            if next(left, None) is None:
                raise OSError("full")
            write(path, content)

        patched.setattr(workspace, "_write", until_full)
        write_demo(demo, tomorrow)
    write_demo(demo, tomorrow)
    write_demo(tmp_path / "fresh", tomorrow)
    assert fingerprint(demo) == fingerprint(tmp_path / "fresh")


def test_an_edit_after_a_reset_that_was_killed_is_kept(
    demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tomorrow, note = TODAY + datetime.timedelta(days=1), demo / "workspace/MEMORY.md"
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        write = workspace._write

        def killed(path: Path, content: bytes) -> None:
            write(path, content)
            if path.name == MANIFEST:
                raise KeyboardInterrupt

        patched.setattr(workspace, "_write", killed)
        write_demo(demo, tomorrow, reset=True)
    assert edited_files(demo) == []
    note.write_text("mine", "utf-8")
    write_demo(demo, tomorrow)
    assert note.read_text("utf-8") == "mine" and edited_files(demo) == ["workspace/MEMORY.md"]
    write_demo(demo, tomorrow, reset=True)
    write_demo(tmp_path / "fresh", tomorrow)
    assert fingerprint(demo) == fingerprint(tmp_path / "fresh")


def test_another_day_replaces_the_dated_files_and_keeps_what_is_not_ours(demo: Path, tmp_path: Path) -> None:
    mine = demo / "workspace/memory/my-own.md"
    mine.write_text("mine", "utf-8")
    tomorrow = TODAY + datetime.timedelta(days=1)
    write_demo(demo, tomorrow)
    assert daily_logs(demo)[-1] == "2027-08-15.md"
    assert len(daily_logs(demo)) == sum(bool(DAILY.fullmatch(p.name)) for p in AUTHORED)
    assert mine.read_text("utf-8") == "mine"
    mine.unlink()
    write_demo(tmp_path / "fresh", tomorrow)
    assert fingerprint(demo) == fingerprint(tmp_path / "fresh")


def test_a_foreign_folder_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "diary.md").write_text("private", "utf-8")
    with pytest.raises(WorkspaceError, match="not empty"):
        write_demo(tmp_path, TODAY)
    assert [path.name for path in tmp_path.iterdir()] == ["diary.md"]


def test_folders_and_files_are_for_this_user_alone(tmp_path: Path) -> None:
    write_demo(tmp_path / "data" / "demo", ANCHOR)
    made = [tmp_path / "data", *(tmp_path / "data").rglob("*")]
    modes = {(path.is_dir(), oct(path.stat().st_mode & 0o777)) for path in made}
    assert modes == {(True, "0o700"), (False, "0o600")}


def test_a_file_as_target_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", "utf-8")
    with pytest.raises(WorkspaceError, match="is a file"):
        write_demo(tmp_path / "file", TODAY)


def test_a_file_of_somebody_else_in_the_way_is_not_overwritten(demo: Path) -> None:
    tomorrow = TODAY + datetime.timedelta(days=1)
    mine = demo / f"workspace/memory/{tomorrow}.md"
    mine.write_text("mine", "utf-8")
    before = fingerprint(demo)
    with pytest.raises(WorkspaceError, match="not written by the demo"):
        write_demo(demo, tomorrow)
    assert fingerprint(demo) == before


@pytest.mark.parametrize("path", ["../outside.md", "/etc/hosts", "workspace/../../outside.md", "notes/x.md"])
def test_a_manifest_that_points_elsewhere_is_refused(demo: Path, tmp_path: Path, path: str) -> None:
    outside = tmp_path / "outside.md"
    outside.write_text("precious", "utf-8")
    (demo / MANIFEST).write_text(json.dumps({"version": 1, "files": {path: "0"}}), "utf-8")
    with pytest.raises(WorkspaceError, match="own folders"):
        write_demo(demo, TODAY)
    assert outside.read_text("utf-8") == "precious"


def test_a_link_to_another_workspace_is_not_written_through(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    target = tmp_path / "demo"
    target.mkdir()
    (target / MANIFEST).write_text('{"version": 1, "files": {}}', "utf-8")
    (target / "workspace").symlink_to(real, target_is_directory=True)
    with pytest.raises(WorkspaceError, match="own folders"):
        write_demo(target, TODAY)
    assert not list(real.iterdir())


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no FIFOs")
def test_a_fifo_is_no_manifest(demo: Path) -> None:
    (demo / MANIFEST).unlink()
    os.mkfifo(demo / MANIFEST)  # opening one would wait for a writer
    with pytest.raises(WorkspaceError, match="cannot be read"):
        write_demo(demo, TODAY)


@pytest.mark.parametrize("content", ["not json", "[]", '{"files": 3}', "{}"])
def test_a_broken_manifest_is_an_error_that_says_what_to_do(demo: Path, content: str) -> None:
    (demo / MANIFEST).write_text(content, "utf-8")
    with pytest.raises(WorkspaceError, match="cannot be read"):
        write_demo(demo, TODAY)


# Queries


@pytest.mark.parametrize("today", [ANCHOR, TODAY])
def test_every_judged_quote_stands_exactly_once_in_its_file(tmp_path: Path, today: datetime.date) -> None:
    workspace = write_demo(tmp_path, today)
    queries = load_queries(shift_days_for(today))
    assert Counter(judged.group for judged in queries.judged) == {"lesson": 10, "ordinary": 10, "long": 3}
    assert len({judged.id for judged in queries.judged}) == 23
    for judged in queries.judged:
        assert any(grade.grade == 3 for grade in judged.grades)
        for grade in judged.grades:
            assert grade.grade in (1, 2, 3)
            text = (workspace / grade.path).read_text("utf-8")
            assert text.count(grade.quote) == 1


def test_suggested_queries_are_short_and_their_knobs_exist() -> None:
    suggested = load_queries(0).suggested
    assert len(suggested) == 15
    assert len({item.title for item in suggested}) == 15
    for item in suggested:
        assert 1 <= len(re.findall(r"[.!?](?:\s|$)", item.lesson)) <= 2, item.title
        shown = changed(Knobs(), parse_settings(list(item.settings)))
        other = changed(Knobs(), parse_settings(list(item.against)))
        assert shown != other, item.title


@pytest.mark.parametrize(("hour", "day"), [(0, 9), (17, 9), (18, 10), (23, 10)])
def test_nothing_in_the_demo_is_later_than_now(tmp_path: Path, hour: int, day: int) -> None:
    now = datetime.datetime(2026, 6, 10, hour, 1, tzinfo=datetime.UTC)
    assert last_day(now) == datetime.date(2026, 6, day)
    write_demo(tmp_path / "demo", last_day(now))
    for file in (tmp_path / "demo").rglob("*"):
        if file.is_file() and file.name not in (MANIFEST, LOCK):
            assert file.stat().st_mtime <= now.timestamp(), file
        if file.suffix == ".jsonl":
            stamps = re.findall(r'"timestamp":\s*"([^"]+)"', file.read_text("utf-8"))
            assert all(datetime.datetime.fromisoformat(stamp) <= now for stamp in stamps), file
