"""``openclaw-mem prompt``."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from openclaw_mem_engine.cli.opening import open_memory, warned_settings
from openclaw_mem_engine.cli.terminal import (
    dim,
    indented,
    json_text,
    one_line,
    show,
    stoppable,
    strong,
    table,
)
from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.sanitize import counted, visible

if TYPE_CHECKING:
    from openclaw_mem_engine.config.settings import Settings
    from openclaw_mem_engine.lifecycle.prompt import MemoryPrompt, WholeMemory


class _Searched(NamedTuple):
    """Tokens of a search and a ``memory_get`` as the agent receives them, and of the files they replace."""

    search: int
    get: int
    files: int
    file_tokens: int


def run(arguments: Namespace) -> int:
    """The text, then the figures."""
    from openclaw_mem_engine.lifecycle.prompt import memory_prompt, whole_memory

    settings = warned_settings(arguments)
    whole = whole_memory(settings)
    prompt = memory_prompt(settings, arguments.session_type, arguments.citations)
    searched = _searched(settings, arguments, whole) if arguments.query is not None else None
    data, lines = _dict(prompt, whole, searched), _lines(prompt, whole, searched)
    show(data, lines, as_json=arguments.json, exact=True)
    return 0


def _searched(settings: Settings, arguments: Namespace, whole: WholeMemory) -> _Searched:
    """Search as the agent does, and get the lines of the best result."""
    from openclaw_mem_engine.cli.search import query_of, up_to_date
    from openclaw_mem_engine.lifecycle.prompt import tokens_of
    from openclaw_mem_engine.tools import memory_get, memory_search

    query, arguments.no_sync = query_of(arguments), False
    with open_memory(settings) as memory, stoppable() as token, up_to_date(memory, arguments, token):
        reply = memory_search(memory, {"query": query})
        found = reply["results"]
        get = ""
        if found:
            first, last = found[0]["startLine"], found[0]["endLine"]
            lines = {"path": found[0]["path"], "from": first, "lines": last - first + 1}
            get = json_text(memory_get(settings, lines))
    paths = {result["path"] for result in found}
    tokens = sum(whole.note_tokens.get(path, 0) for path in paths)
    return _Searched(tokens_of(json_text(reply)), tokens_of(get), len(paths), tokens)


def _dict(prompt: MemoryPrompt, whole: WholeMemory, searched: _Searched | None) -> dict[str, Any]:
    return {
        "sessionType": prompt.session,
        "prompt": prompt.text,
        "tokens": prompt.tokens,
        "citations": prompt.cites,
        "recall": prompt.recall,
        "files": [
            {
                "path": file.name,
                "content": file.text,
                "chars": file.chars,
                "missing": file.chars is None,
                "cutLine": file.cut_line,
            }
            for file in prompt.bootstrap.files
        ],
        "excluded": [{"path": name, "reason": why} for name, why in prompt.bootstrap.left_out],
        "warnings": list(prompt.bootstrap.warnings),
        "dailyLogs": [
            {"path": log.path, "tokens": log.tokens, "missing": bool(log.why)} for log in prompt.logs
        ],
        "wholeMemory": {"notes": whole.notes, "tokens": whole.tokens},
        "searched": searched._asdict() if searched is not None else None,
    }


def _lines(prompt: MemoryPrompt, whole: WholeMemory, searched: _Searched | None) -> Iterator[str]:
    from openclaw_mem_engine.lifecycle.prompt import tokens_of

    yield from visible(prompt.text).split("\n")
    yield ""
    yield strong(f"session {prompt.session}: about {counted(prompt.tokens, 'token')}")
    rows = [("part", "tokens", "")]
    if prompt.recall:
        cites = "with sources" if prompt.cites else "asks not to cite"
        rows.append(("instruction to search", f"{tokens_of(prompt.recall):,}", cites))
    else:
        rows.append(("instruction to search", "0", "this session has no memory_search"))
    for file in prompt.bootstrap.files:
        what = "missing" if file.chars is None else f"{file.chars:,} characters"
        if file.cut_line is not None:
            what += f", cut in line {file.cut_line:,}"
        rows.append((file.name, f"{tokens_of(file.text):,}", what))
    rows += [(name, "0", f"not in it: {one_line(why)}") for name, why in prompt.bootstrap.left_out]
    yield from table(rows)
    if prompt.logs:
        yield "Not in it; the agent is asked to read them (one OpenClaw document says that it loads them):"
        logs = [(log.path, one_line(log.why) if log.why else f"{log.tokens:,} tokens") for log in prompt.logs]
        yield from indented("  ".join(log) for log in logs)
    yield f"All {counted(whole.notes, 'note')} together: about {counted(whole.tokens, 'token')}."
    if searched is None:
        yield dim("--query Q shows how many tokens a search saves.")
        return
    both = searched.search + searched.get
    yield f"The search: {searched.search:,} tokens; getting the lines of its first result: {searched.get:,}."
    for what, tokens in (
        (f"the {counted(searched.files, 'file')} found", searched.file_tokens),
        ("all notes", whole.tokens),
    ):
        if tokens > both:
            share = f"{100 * (1 - both / tokens):.0f}% fewer tokens"
            yield f"Reading {what} instead: {tokens:,} tokens. Search and get need {share}."
        else:
            yield f"Reading {what} instead: {tokens:,} tokens, so the search saves nothing."
