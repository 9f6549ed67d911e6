"""``openclaw-mem demo``: the bundled workspace, apart from everything that is the user's."""

from __future__ import annotations

import datetime
import os
import shlex
import threading
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openclaw_mem_engine.cli.opening import faults_of, open_memory
from openclaw_mem_engine.cli.search import bring_up_to_date, show_answer, without_update
from openclaw_mem_engine.cli.terminal import (
    indented,
    marked,
    one_line,
    out,
    out_bytes,
    print_json,
    say,
    stoppable,
    strong,
    width,
)
from openclaw_mem_engine.cli.text_format import fallback_words
from openclaw_mem_engine.cli.tui import can_draw, open_workbench
from openclaw_mem_engine.commands import advice, choose
from openclaw_mem_engine.errors import UsageError, WorkspaceError

if TYPE_CHECKING:
    from openclaw_mem_engine.answer import Answer
    from openclaw_mem_engine.config.settings import Settings
    from openclaw_mem_engine.demo import SuggestedQuery
    from openclaw_mem_engine.memory import Memory

    #: Settings as ``--set`` takes them, and the answer with these.
    _Run = tuple[Sequence[str], Answer]

#: Variables of appearance, not of what is searched: the only ones that the demo reads.
_ENVIRONMENT = ("OPENCLAW_MEM_EDITOR", "OPENCLAW_MEM_THEME", "VISUAL", "EDITOR")
_TOP_HITS = 3


def run(arguments: Namespace) -> int:
    """Write the demo; then print its path, open the workbench, or run every lesson."""
    for option in ("workspace", "config", "agent", "provider", "include"):
        if getattr(arguments, option):
            raise UsageError(f"The demo has its own workspace and settings: leave --{option} out.")
    from openclaw_mem_engine.demo import load_queries, write_demo
    from openclaw_mem_engine.demo.workspace import edited_files, last_day, shift_days_for, written_day

    faults = faults_of(arguments)
    data_dir = _data_folder()
    target = data_dir / "demo" if arguments.dir is None else Path(arguments.dir).absolute()
    try:
        today = last_day(datetime.datetime.now(datetime.UTC))
        workspace = write_demo(target, today, reset=arguments.reset)
        day = written_day(target)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise WorkspaceError(
            f"The demo cannot be written to {target} ({reason}). Name another folder with --dir."
        ) from error
    kept = _kept(arguments.dir) if edited_files(target) else ""
    if kept:
        say(kept)
    if arguments.print_workspace and arguments.json:
        print_json({"workspace": str(workspace)})
        return 0
    if arguments.print_workspace:
        out_bytes(os.fsencode(workspace) + b"\n")
        return 0
    settings = demo_settings(workspace, data_dir)
    choose({"workspace": workspace, "provider": "static"})
    lessons = load_queries(shift_days_for(day)).suggested
    if not arguments.json and can_draw():
        return open_workbench(
            settings, lessons=lessons, query=arguments.query or "", faults=faults, notice=kept
        )
    return _run_lessons(settings, lessons, arguments, faults)


def _kept(folder: str | None) -> str:
    """That an edited demo stays as it is, and the command that writes it anew."""
    where = f" --dir {shlex.quote(folder)}" if folder else ""
    return f"The demo is kept as edited; `openclaw-mem demo{where} --reset` writes it anew."


def _data_folder() -> Path:
    """Our own folder. The settings file is not asked: a broken one must not spoil the demo."""
    from openclaw_mem_engine.config.sources import user_folders

    named = os.environ.get("OPENCLAW_MEM_HOME", "").strip()
    return Path(named).expanduser().absolute() if named else user_folders().data


def demo_settings(workspace: Path, data_dir: Path) -> Settings:
    """Settings of the demo: built-in embedder, no network, nothing of the user's configuration. The demo's
    folder is used as home and as OpenClaw's state, so that its sessions are found and nothing else is."""
    from openclaw_mem_engine.config.load import load_settings
    from openclaw_mem_engine.config.settings import Origin
    from openclaw_mem_engine.config.sources import UserFolders

    target = workspace.parent
    environ = {name: value for name in _ENVIRONMENT if (value := os.environ.get(name))}
    environ |= {"OPENCLAW_MEM_HOME": str(data_dir), "OPENCLAW_STATE_DIR": str(target)}
    settings = load_settings(
        workspace=workspace,
        agent="main",
        provider="static",
        environ=environ,
        home=target,
        cwd=target,
        folders=UserFolders(data_dir, target),
    )
    # The user gave no flag: the screens must not say so.
    return replace(settings, origins={**settings.origins, "provider.name": Origin("flag", "set by the demo")})


def _run_lessons(
    settings: Settings, lessons: Sequence[SuggestedQuery], arguments: Namespace, faults: frozenset[str]
) -> int:
    from openclaw_mem_engine.providers.faults import FAULTS

    names = [name for name in FAULTS if name in faults]
    if not arguments.json:
        for name in names:
            out(marked(f"SIMULATED FAULT  {name}: {FAULTS[name]}"))
    # What goes wrong is shown on a good index: everything is in it before anything fails.
    backends = dict.fromkeys(["", *(lesson.backend for lesson in lessons if arguments.query is None)])
    for backend in backends:
        with open_memory(_with_backend(settings, backend)) as healthy, stoppable() as token:
            failure, _ = bring_up_to_date(healthy, token)
        if failure is not None:
            say(without_update(failure))
    with ExitStack() as opened, stoppable() as token:
        memories = {
            backend: opened.enter_context(open_memory(_with_backend(settings, backend), faults))
            for backend in backends
        }
        for memory in memories.values():
            memory.freshness()
        if arguments.query is not None:
            answer = memories[""].search(arguments.query, cancel=token)
            if arguments.json:
                print_json(answer.to_dict(explain=True) | ({"faults": names} if names else {}))
            else:
                show_answer(answer, "table", explain=True)
            return 0
        taught = ((lesson, _both_runs(memories[lesson.backend], lesson, token)) for lesson in lessons)
        if arguments.json:
            found = [_lesson_dict(lesson, runs) for lesson, runs in taught]
            print_json({"workspace": str(settings.workspace), "faults": names, "lessons": found})
            return 0
        for number, (lesson, runs) in enumerate(taught, 1):
            for line in _lesson_lines(f"{number} of {len(lessons)}", lesson, runs):
                out(line)
    out(f"The workspace of these lessons: {settings.workspace}")
    out("On a terminal, `openclaw-mem demo` opens it in the workbench.")
    return 0


def _with_backend(settings: Settings, backend: str) -> Settings:
    from openclaw_mem_engine.config.load import with_backend

    return with_backend(settings, backend) if backend else settings


def _both_runs(memory: Memory, lesson: SuggestedQuery, token: threading.Event) -> list[_Run]:
    """The run that shows the lesson, and the one to compare it with."""
    from openclaw_mem_engine.ranking.knobs import parse_settings
    from openclaw_mem_engine.ranking.profiles import changed

    return [
        (settings, memory.search(lesson.query, changed(memory.knobs, parse_settings(list(settings))), token))
        for settings in (lesson.settings, lesson.against)
    ]


def _lesson_lines(number: str, lesson: SuggestedQuery, runs: Sequence[_Run]) -> Iterator[str]:
    from textwrap import wrap

    from openclaw_mem_engine.cli.tables import hit_lines, stage_lines

    columns = width()
    yield strong(f"Lesson {number}: {lesson.title}")
    yield f"query: {lesson.query}"
    yield from wrap(lesson.lesson, min(columns, 100))
    yield from _trouble(runs[0][1])
    for settings, answer in runs:
        yield ""
        yield marked(f"--set {' --set '.join(settings)}")
        yield from indented(stage_lines(answer))
        yield from indented(hit_lines(answer, columns - 2, _TOP_HITS))
    yield ""
    yield ""


def _trouble(answer: Answer) -> Iterator[str]:
    """What a fault has done to an answer, and which fallback answered."""
    if answer.pool.fallback is not None:
        yield marked(f"fallback: {fallback_words(answer.pool.fallback, answer.pool.now)}")
    for note in answer.trace.notes:
        if note.level == "warning" and note.code != "fault":
            yield marked(f"{note.level}: {one_line(advice(note.text))}")


def _lesson_dict(lesson: SuggestedQuery, runs: Sequence[_Run]) -> dict[str, Any]:
    found = [{"settings": list(names), "answer": answer.to_dict(explain=True)} for names, answer in runs]
    return {"query": lesson.query, "title": lesson.title, "lesson": lesson.lesson, "runs": found}
