"""``openclaw-mem index --agents``: the indexes of many agents, some at a time, and what became of each."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from threading import Event, Lock, RLock
from typing import Any

from openclaw_mem_engine.cli.opening import open_memory, replacing, settings_of
from openclaw_mem_engine.cli.parser import whole_number
from openclaw_mem_engine.cli.planning import announce
from openclaw_mem_engine.cli.progress import ProgressLine
from openclaw_mem_engine.cli.terminal import indented, one_line, say, show, stoppable
from openclaw_mem_engine.cli.text_format import duration
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.errors import Cancelled, ConfigError, OpenClawMemError, ProviderError, UsageError
from openclaw_mem_engine.model import WAITING, Progress
from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.sanitize import counted
from openclaw_mem_engine.sync.report import SyncReport, SyncRequest

#: How many agents are worked on at a time unless --jobs says otherwise.
JOBS = 4
ALL = "all"


class _Agent(NamedTuple):
    id: str
    workspace: str | None


class _AgentLine(ProgressLine):
    """Agents are counted; what an agent waits for is said with its id. Thread-safe."""

    unit = "agents"
    _guard = RLock()

    def __call__(self, done: int, total: int, label: str) -> None:
        with self._guard:
            super().__call__(done, total, label)

    def _text(self, done: int, total: int, label: str, now: float) -> str:
        # The others go on meanwhile: this time counts for the rate.
        return one_line(label) if label.startswith(WAITING) else super()._text(done, total, label, now)

    def of(self, agent: str) -> Progress:
        """The progress of the sync of one agent."""

        def show(_done: int, _total: int, label: str) -> None:
            if label.startswith(WAITING):
                self(0, 0, f"{label} (agent {agent})")

        return show


def run(arguments: Namespace) -> int:
    """Bring the indexes of all named agents up to date, and print what was done. One that fails does not end
    the others. The exit code is that of their error when all that failed have the same, else 8."""
    for name in ("agent", "workspace", "dry_run"):
        if getattr(arguments, name):
            raise UsageError(
                f"--agents names agents and their workspaces: leave --{name.replace('_', '-')} out."
            )
    agents = list(dict.fromkeys(_named(arguments)))
    jobs = whole_number(arguments.jobs, "--jobs", 1) or JOBS
    started, work = time.monotonic(), _Work(arguments)
    rows: list[dict[str, Any]] = []
    with stoppable() as token, _AgentLine() as progress, ThreadPoolExecutor(jobs) as pool:
        running = [pool.submit(work.one, agent, token, progress.of(agent.id)) for agent in agents]
        for future in as_completed(running):
            rows.append(future.result())
            progress(len(rows), len(agents), rows[-1]["agent"])
    order = {agent.id: number for number, agent in enumerate(agents)}
    rows.sort(key=lambda row: order[row["agent"]])
    failed = [row for row in rows if "error" in row]
    codes = {row["exitCode"] for row in failed}
    seconds = time.monotonic() - started
    data = {"agents": rows, "failed": len(failed), "seconds": round(seconds, 3)}
    show(data, _lines(rows, failed, seconds), as_json=arguments.json)
    if Cancelled.exit_code in codes:
        return Cancelled.exit_code
    return 0 if not codes else codes.pop() if len(codes) == 1 else OpenClawMemError.exit_code


def _named(arguments: Namespace) -> Iterator[_Agent]:
    if arguments.agents == ALL:
        settings = settings_of(arguments)
        yield from (_Agent(agent.lower(), None) for agent in settings.openclaw.agents or (settings.agent,))
        return
    try:
        lines = Path(arguments.agents).expanduser().read_text("utf-8").splitlines()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise UsageError(
            f"--agents {arguments.agents} cannot be read ({reason}): name a file with an agent's id on each "
            "line, and its workspace after it if no configuration has it, or `all`."
        ) from error
    for line in lines:
        words = line.partition("#")[0].split(maxsplit=1)
        if words:
            yield _Agent(words[0].lower(), words[1].strip() if len(words) > 1 else None)


class _Work:
    """The syncs of a run. Thread-safe."""

    def __init__(self, arguments: Namespace) -> None:
        self._arguments = arguments
        self._request = SyncRequest(arguments.force, arguments.verify, arguments.prune, tails=True)
        self._guard = Lock()
        self._index_of: dict[str, _Agent] = {}
        self._warned: set[str] = set()

    def one(self, agent: _Agent, token: Event, progress: Progress) -> dict[str, Any]:
        """What was done for one agent, or the error and its exit code."""
        started = time.monotonic()
        try:
            if token.is_set():
                raise Cancelled("Not started: the run was stopped.")
            own = vars(self._arguments) | {"agent": agent.id, "workspace": agent.workspace}
            settings = settings_of(Namespace(**own))
            self._claim(agent, settings)
            report = replacing(settings, self._request, partial(self._sync, settings, token, progress))
        except OpenClawMemError as error:
            return {"agent": agent.id, "error": str(error), "exitCode": error.exit_code}
        row: dict[str, Any] = {
            "agent": agent.id,
            "index": settings.index_name,
            "files": report.files,
            "chunks": report.chunks,
            "changed": len(report.changed) + len(report.without_text),
            "removed": len(report.removed),
            "embedded": report.embedded,
            "seconds": round(time.monotonic() - started, 3),
        }
        if report.incomplete:  # keywords find the new text, but what was asked for is not done
            row |= {"error": report.incomplete[0].text, "exitCode": ProviderError.exit_code}
        return row

    def _sync(self, settings: Settings, token: Event, progress: Progress, request: SyncRequest) -> SyncReport:
        with open_memory(settings) as memory:
            announce(memory, token, request)
            return memory.sync(request, progress, token)

    def _claim(self, agent: _Agent, settings: Settings) -> None:
        """Two entries that wrote one index would undo each other's work."""
        with self._guard:
            other = self._index_of.setdefault(settings.index_name, agent)
            new = [note.text for note in settings.warnings if note.level == "warning"]
            for text in dict.fromkeys(new):
                if text not in self._warned:
                    say(text)
            self._warned.update(new)
        if other.id == agent.id and other != agent:
            raise ConfigError(
                f"It is named on two lines, which have one index, {settings.index_name}: name it once, or "
                "each workspace as an agent of its own."
            )
        if other != agent:
            raise ConfigError(
                f"It would have the index of {other.id}, {settings.index_name}: let store.agent hold "
                "{agent}, as in `team-a/{agent}`."
            )


def _lines(rows: list[dict[str, Any]], failed: list[dict[str, Any]], seconds: float) -> Iterator[str]:
    changed = sum(bool(row.get("changed") or row.get("removed")) for row in rows if row not in failed)
    sums = {key: sum(row.get(key, 0) for row in rows) for key in ("files", "chunks", "embedded")}
    yield (
        f"{counted(len(rows), 'agent')} in {duration(seconds)}: {changed:,} with changes, "
        f"{len(rows) - len(failed) - changed:,} up to date, {len(failed):,} failed."
    )
    yield (
        f"  {counted(sums['files'], 'file')}, {counted(sums['chunks'], 'chunk')}, "
        f"{counted(sums['embedded'], 'text')} embedded"
    )
    yield from indented(one_line(f"{row['agent']}: {row['error']}") for row in failed)
