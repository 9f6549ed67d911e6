"""Writes of the timeline: commits, kept texts and calls of tools, and the difference of each."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.notes.editor import NoteEditor
from openclaw_mem_engine.timeline import writes
from openclaw_mem_engine.timeline.merge import read_timeline
from openclaw_mem_engine.timeline.model import Moment, Timeline
from openclaw_mem_engine.timeline.writes import Difference, by_file_and_day, difference
from support.flushes import START, Talk
from support.memories import empty_workspace

DAY = "memory/2026-02-14.md"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return empty_workspace(tmp_path, OPENCLAW_STATE_DIR=str(tmp_path / "state"))


def git(settings: Settings, *arguments: str, at: float = 0.0) -> None:
    stamp = {"GIT_AUTHOR_DATE": f"{int(at)} +0000", "GIT_COMMITTER_DATE": f"{int(at)} +0000"}
    names = ("-c", "user.name=n", "-c", "user.email=n@example.org")
    command = ("git", *names, "-C", str(settings.workspace), *arguments)
    subprocess.run(
        command, check=True, capture_output=True, env={"PATH": "/usr/bin:/bin", "HOME": "/", **stamp}
    )


def commit(settings: Settings, text: str, at: float) -> None:
    (settings.workspace / DAY).write_text(text)
    git(settings, "add", "-A")
    git(settings, "commit", "-qm", "notes\x01 of the \x1b[1mday", at=at)


def shown(settings: Settings, found: Timeline, moment: Moment) -> Difference:
    session = next((session for session in found.sessions if session.id == moment.session), None)
    return difference(settings, moment.writes[0] if moment.writes else None, moment, session)


def lines(found: Difference) -> list[str]:
    return [line for line in found.text.splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")]


def test_without_git_the_call_says_what_a_flush_wrote(settings: Settings) -> None:
    talk = Talk().answer("a", 177_000).flush("- one\n- SECRET_KEY=abcdefghijk\n")
    talk.user("go on").call("edit", path="MEMORY.md", old_string="old\n", new_string="new\n")
    talk.call("exec", command="echo x >> memory/x.md").compaction().save(settings.openclaw.sessions_dir)
    found = read_timeline(settings)
    compaction, shell, edit, flush = found.moments
    written = shown(settings, found, flush)
    assert lines(written) == ["+- one", "+- SECRET_KEY=***"]
    assert written.source == "written by the agent's write tool"
    assert lines(shown(settings, found, edit)) == ["-old", "+new"]
    assert shown(settings, found, shell).text == "echo x >> memory/x.md"
    assert shown(settings, found, compaction) == Difference("What was said.", "")
    for path in settings.openclaw.sessions_dir.iterdir():
        path.write_text("{}\n" * 400)
    assert "is not there any more" in shown(settings, found, flush).source
    assert shown(settings, found, compaction).source == "The transcript does not hold the summary."
    path.unlink()
    assert "cannot be shown" in shown(settings, found, flush).source


def test_commits_are_writes_and_show_what_a_flush_wrote(settings: Settings) -> None:
    git(settings, "init", "-q")
    commit(settings, "# Day\n", START.timestamp() - 600)
    Talk().answer("a", 177_000).flush().save(settings.openclaw.sessions_dir)
    commit(settings, "# Day\n- in git\n", START.timestamp() + 3600)
    found = read_timeline(settings)
    first, flush, last = sorted(found.moments, key=lambda moment: moment.at)
    assert [moment.kind for moment in (first, flush, last)] == ["write", "flush", "write"]
    assert last.text.endswith(f": {DAY}, +1 line") and "\x1b" not in last.why
    assert lines(shown(settings, found, last)) == ["+- in git"]
    of_flush = shown(settings, found, flush)
    assert lines(of_flush) == ["+- in git"]
    assert of_flush.source.endswith(", the first after this write")
    ((day, path, count, added, removed, origin),) = by_file_and_day(found.moments)
    assert (day[:7], path, count, added, removed, origin) == ("2026-02", DAY, 2, 2, 0, "git")


def test_a_workspace_below_the_root_of_a_repository(settings: Settings) -> None:
    subprocess.run(["git", "init", "-q", str(settings.workspace.parent)], check=True)
    commit(settings, "# Day\n", START.timestamp())
    found = read_timeline(settings)
    assert [write.path for write in found.moments[0].writes] == [DAY]
    assert lines(shown(settings, found, found.moments[0])) == ["+# Day"]


def test_a_git_that_hangs_is_said_and_costs_a_moment(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = tmp_path / "bin/git"
    slow.parent.mkdir()
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow.parent}:/usr/bin:/bin")
    monkeypatch.setattr(writes, "GIT_TIMEOUT_S", 0.2)
    (settings.workspace / ".git").mkdir()
    Talk().flush().save(settings.openclaw.sessions_dir)
    found = read_timeline(settings)
    assert "git did not answer" in found.notes[-1] and len(found.sessions) == 1
    slow.unlink()
    slow.parent.joinpath("git").write_text("no program")
    assert read_timeline(settings).sessions


def test_edits_of_ours_with_the_text_before_them(settings: Settings) -> None:
    editor = NoteEditor(settings, lambda: START.timestamp())
    editor.append(DAY, "first", "remember")
    editor.append(DAY, "second", "flush")
    found = read_timeline(settings)
    second, first = found.moments
    assert (first.text, second.text) == (f"remember: {DAY}, +1 line", f"flush: {DAY}, +1 line")
    assert lines(shown(settings, found, first)) == ["+first"]
    assert lines(shown(settings, found, second)) == ["+second"]
    (settings.workspace / DAY).write_text("first\nsecond\nthird\n")
    later = shown(settings, found, second)
    assert lines(later) == ["+second", "+third"] and "modified by others since" in later.source
