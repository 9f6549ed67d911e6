"""How long a timeline takes to open: 500 transcripts with 200 MB, the first time and after that.

    uv run python benchmarks/timeline.py [--sessions 500] [--megabytes 200] [--rounds 7]

Baseline: decoding every line of the same transcripts.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from _bench import Goal, Times, ZipfText, embedder_words, given, in_turn, print_times, scratch, settings_for
from workbench import measure, open_resident, settled

from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.timeline.merge import TimelineReader, read_timeline
from openclaw_mem_tui.app import Workbench

_START = datetime(2026, 1, 5, 8, 0, tzinfo=UTC)
_PROMPT = "Pre-compaction memory flush. Store durable memories now in memory/{}.md; else reply with NO_REPLY."


def transcript(draw: random.Random, pieces: list[str], start: datetime, size: int) -> str:
    """One session: users, thinking answers, tools with results of some kB, usage, and flushes before most
    compactions."""
    at, lines, written, tokens = start, [], 0, 12_000

    def add(kind: str, **rest: Any) -> None:
        nonlocal written, at
        at += timedelta(seconds=draw.randint(3, 90))
        stamp = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        row = {"type": kind, "id": f"{len(lines):08x}", "parentId": None, "timestamp": stamp, **rest}
        lines.append(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")
        written += len(lines[-1])

    def say(role: str, blocks: list[dict[str, Any]], **rest: Any) -> None:
        add("message", message={"role": role, "content": blocks, **rest})

    def answer(*blocks: dict[str, Any]) -> None:
        nonlocal tokens
        tokens += draw.randint(800, 4_000)
        usage = {"input": 900, "output": 300, "cacheRead": tokens - 1200, "totalTokens": tokens}
        say("assistant", list(blocks), model="model-1", usage=usage, stopReason="stop")

    add("session", version=3, cwd="/workspace")
    while written < size:
        piece = draw.choice(pieces)
        say("user", [{"type": "text", "text": piece[: draw.randint(40, 400)]}])
        name_of_tool = draw.choice(("read", "exec", "exec", "memory_search", "edit"))
        arguments = {
            "path": "src/main.py",
            "command": "ls -l",
            "query": piece[:30],
            "newText": piece[:200],
        }
        call = {"type": "toolCall", "id": f"call_{len(lines)}", "name": name_of_tool}
        answer({"type": "thinking", "thinking": piece[:1500]}, {**call, "arguments": arguments})
        found = [{"path": f"memory/{n}.md", "startLine": 1, "score": 0.5} for n in range(6)]
        said = json.dumps({"results": found}) if name_of_tool == "memory_search" else piece
        result = [{"type": "text", "text": said}]
        say("toolResult", result, toolCallId=call["id"], toolName=name_of_tool, isError=False)
        answer({"type": "text", "text": piece[: draw.randint(100, 1500)]})
        if tokens > 176_000:
            if draw.random() < 0.8:
                day = at.date().isoformat()
                say("user", [{"type": "text", "text": _PROMPT.format(day)}])
                write = {"path": f"memory/{day}.md", "content": piece[:300]}
                answer({"type": "toolCall", "id": f"w{len(lines)}", "name": "write", "arguments": write})
                answer({"type": "text", "text": "NO_REPLY"})
            add("compaction", tokensBefore=tokens, summary=piece[:800])
            tokens = 20_000
    return "".join(lines)


def write_transcripts(folder: Path, sessions: int, megabytes: float) -> None:
    folder.mkdir(parents=True)
    text, draw = ZipfText(embedder_words()), random.Random(7)
    pieces = [text.lines(6_000) for _ in range(60)]
    size = int(megabytes * 1e6 / sessions)
    index: dict[str, Any] = {}
    for number in range(sessions):
        name = f"{number:08x}-5d2b-4a6e-9c10-000000000000"
        start = _START + timedelta(hours=7 * number)
        (folder / f"{name}.jsonl").write_text(transcript(draw, pieces, start, size), "utf-8")
        index[f"agent:main:telegram:direct:{number}"] = {"sessionId": name, "contextTokens": 200_000}
    (folder / "sessions.json").write_text(json.dumps(index))


def decode_all(folder: Path) -> int:
    rows = 0
    for path in folder.glob("*.jsonl"):
        with path.open("rb") as file:
            rows += sum(isinstance(json.loads(line), dict) for line in file)
    return rows


def settings_in(folder: Path) -> Settings:
    workspace = folder / "workspace"
    workspace.mkdir(exist_ok=True)
    (workspace / "MEMORY.md").write_text("# Memory\n")
    return settings_for(workspace, folder / "home", "none", OPENCLAW_STATE_DIR=str(folder / "state"))


def main() -> None:
    options = given(sessions=500, megabytes=200.0, rounds=7)
    with scratch() as folder:
        settings = settings_in(folder)
        transcripts = settings.openclaw.sessions_dir
        write_transcripts(transcripts, options.sessions, options.megabytes)
        cpu, wall = time.process_time(), time.perf_counter()
        whole = read_timeline(settings)
        first = Times()
        first.add(time.process_time() - cpu, time.perf_counter() - wall)
        assert len(whole.sessions) == options.sessions
        resident = TimelineReader(settings)
        resident.read()
        calls = {
            "decoding every line": lambda: decode_all(transcripts),
            "opening again": lambda: read_timeline(settings),
            "reading again, resident": resident.read,
        }
        times = {**in_turn(calls, options.rounds), "first read": first}
        resident.close()
        pressed = asyncio.run(keys(settings, options.rounds * 2))
    goal = Goal("CPU", 1000.0 * options.sessions / 500)
    title = f"Timeline of {options.sessions:,} sessions, {options.megabytes:.0f} MB"
    print_times(title, times, "decoding every line", {"opening again": goal})
    goals = {name: Goal("CPU", 15) for name in pressed if name.startswith("a move")}
    print_times(f"{title}: the screen at 120x36", pressed, "a key that changes nothing", goals)


async def keys(settings: Settings, rounds: int) -> dict[str, Times]:
    """CPU and wall time of moves on the screen, from the key to the repainted screen."""
    with Memory.open(settings) as memory:
        memory.sync()
    moves = {
        "a key that changes nothing": ("f9", "f9"),
        "a move over the events": ("j", "k"),
        "a page of the events": ("ctrl+d", "ctrl+u"),
        "a move over the sessions": ("j", "k"),
        "another zoom": ("plus", "plus"),
        "to a write, with its difference": ("j", "k"),
    }
    before = {
        "a move over the events": ("v", "s", "j"),
        "a move over the sessions": ("tab", "j"),
        "to a write, with its difference": ("v", "w", "j"),
    }
    times = {name: Times() for name in moves}
    async with Workbench(partial(open_resident, settings)).run_test(size=(120, 36)) as pilot:
        await settled(pilot)
        await pilot.press("escape", "4")
        await settled(pilot)
        for name, pressed in moves.items():
            await measure(pilot, before.get(name, ()), pressed, rounds, times[name])
    return times


if __name__ == "__main__":
    main()
