"""``openclaw-mem demo``: the bundled workspace, apart from everything that is the user's."""

from __future__ import annotations

import datetime
import os
import sys
import threading
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openclaw_mem_engine.cli.faults import banner, faults_of, in_order
from openclaw_mem_engine.cli.opening import open_memory
from openclaw_mem_engine.cli.search import bring_up_to_date, show
from openclaw_mem_engine.cli.terminal import Style, is_terminal, one_line, out, out_bytes, stoppable, width
from openclaw_mem_engine.cli.text_format import fallback_words
from openclaw_mem_engine.errors import UsageError, WorkspaceError

if TYPE_CHECKING:
    from openclaw_mem_engine.answer import Answer
    from openclaw_mem_engine.config.settings import Settings
    from openclaw_mem_engine.demo import SuggestedQuery
    from openclaw_mem_engine.memory import Memory

#: Variables that say how things look, not what is searched: the only ones that the demo hears.
_HEARD = ("OPENCLAW_MEM_EDITOR", "OPENCLAW_MEM_THEME", "VISUAL", "EDITOR")
_TOP_HITS = 3


def run(arguments: Namespace) -> int:
    """Write the demo; then print its path, open the workbench, or run every lesson."""
    for option in ("workspace", "config", "agent", "provider"):
        if getattr(arguments, option) is not None:
            raise UsageError(f"The demo has its own workspace and settings: leave --{option} out.")
    faults = faults_of(arguments)
    today = datetime.date.today()
    data_dir = _data_folder()
    target = data_dir / "demo" if arguments.dir is None else Path(arguments.dir).absolute()
    workspace = _written(target, today)
    if arguments.print_workspace:
        out_bytes(os.fsencode(workspace) + b"\n")
        return 0
    from openclaw_mem_engine.demo import load_queries
    from openclaw_mem_engine.demo.workspace import shift_days_for

    settings = demo_settings(workspace, data_dir)
    lessons = load_queries(shift_days_for(today)).suggested
    watched = not arguments.json and is_terminal(sys.stdin) and is_terminal(sys.stdout)
    if watched:
        from openclaw_mem_engine.cli.workbench import open_workbench

        return open_workbench(settings, lessons=lessons, query=arguments.query or "", faults=faults)
    return _run_lessons(settings, lessons, arguments, faults)


def _data_folder() -> Path:
    """Our own folder. The settings file is not asked: a broken one must not spoil the demo."""
    from openclaw_mem_engine.config.sources import user_folders

    named = os.environ.get("OPENCLAW_MEM_HOME", "").strip()
    return Path(named).expanduser().absolute() if named else user_folders().data


def _written(target: Path, today: datetime.date) -> Path:
    from openclaw_mem_engine.demo import write_demo

    try:
        return write_demo(target, today)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise WorkspaceError(
            f"The demo cannot be written to {target} ({reason}). Name another folder with --dir."
        ) from error


def demo_settings(workspace: Path, data_dir: Path) -> Settings:
    """Settings of the demo: built-in embedder, no network, nothing of the user's configuration. The demo's
    folder stands for home and for OpenClaw's state, so that its sessions are found and nothing else is."""
    from openclaw_mem_engine.config.load import load_settings
    from openclaw_mem_engine.config.settings import Origin
    from openclaw_mem_engine.config.sources import UserFolders

    target = workspace.parent
    environ = {name: value for name in _HEARD if (value := os.environ.get(name))}
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
    # Nobody typed the flag: the screens must not say so.
    return replace(settings, origins={**settings.origins, "provider.name": Origin("flag", "the demo")})


def _run_lessons(
    settings: Settings, lessons: Sequence[SuggestedQuery], arguments: Namespace, faults: frozenset[str]
) -> int:
    from openclaw_mem_engine.cli.formats import print_json

    style = Style.of(sys.stdout)
    if not arguments.json:
        for line in banner(faults):
            out(style.mark(line))
    # What goes wrong is shown on a good index: everything is in it before anything fails.
    with open_memory(settings) as healthy, stoppable() as token:
        bring_up_to_date(healthy, token)
    with open_memory(settings, faults) as memory, stoppable() as token:
        memory.freshness()
        if arguments.query is not None:
            answer = memory.search(arguments.query, cancel=token)
            if arguments.json:
                print_json(answer.to_dict(explain=True) | ({"faults": in_order(faults)} if faults else {}))
            else:
                show(answer, "table", explain=True)
            return 0
        told = []
        for place, lesson in enumerate(lessons, 1):
            shown, against = _both_runs(memory, lesson, token)
            if arguments.json:
                told.append(_lesson_dict(lesson, shown, against))
                continue
            for line in _lesson_lines(f"{place} of {len(lessons)}", lesson, shown, against):
                out(line)
        if arguments.json:
            workspace = str(settings.workspace)
            print_json({"workspace": workspace, "faults": in_order(faults), "lessons": told})
        else:
            out(f"The workspace of these lessons: {settings.workspace}")
            out("On a terminal, `openclaw-mem demo` opens it in the workbench.")
    return 0


def _both_runs(memory: Memory, lesson: SuggestedQuery, token: threading.Event) -> tuple[Answer, Answer]:
    from openclaw_mem_engine.ranking.knob_table import parse_settings

    shown, against = (
        memory.search(lesson.query, memory.knobs.set(parse_settings(list(settings))), token)
        for settings in (lesson.settings, lesson.against)
    )
    return shown, against


def _lesson_lines(place: str, lesson: SuggestedQuery, shown: Answer, against: Answer) -> Iterator[str]:
    from textwrap import wrap

    from openclaw_mem_engine.cli.tables import hit_lines, stage_lines

    style, columns = Style.of(sys.stdout), width()
    yield style.strong(f"Lesson {place}: {lesson.title}")
    yield f"query: {lesson.query}"
    yield from wrap(lesson.lesson, min(columns, 100))
    yield from _trouble(shown, style)
    for settings, answer in ((lesson.settings, shown), (lesson.against, against)):
        yield ""
        yield style.mark(f"--set {' --set '.join(settings)}")
        yield from (f"  {line}" for line in stage_lines(answer, style))
        yield from (f"  {line}" for line in hit_lines(answer, style, columns - 2, _TOP_HITS))
    yield ""
    yield ""


def _trouble(answer: Answer, style: Style) -> Iterator[str]:
    """What a fault has done to an answer, and who answered instead."""
    if answer.pool.fallback is not None:
        words = fallback_words(answer.pool.fallback, answer.pool.now)
        yield style.mark(f"fallback: {words}")
    for note in answer.trace.notes:
        if note.level == "warning" and note.code != "fault":
            yield style.mark(f"{note.level}: {one_line(note.text)}")


def _lesson_dict(lesson: SuggestedQuery, shown: Answer, against: Answer) -> dict[str, Any]:
    return {
        "query": lesson.query,
        "title": lesson.title,
        "lesson": lesson.lesson,
        "runs": [
            {"settings": list(settings), "answer": answer.to_dict(explain=True)}
            for settings, answer in ((lesson.settings, shown), (lesson.against, against))
        ],
    }
