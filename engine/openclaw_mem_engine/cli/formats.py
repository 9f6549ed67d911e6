"""Answers for programs: JSON, CSV, Markdown, bare paths."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from openclaw_mem_engine.cli.terminal import out, speaks_utf8
from openclaw_mem_engine.sanitize import visible

if TYPE_CHECKING:
    from openclaw_mem_engine.answer import Answer

CSV_COLUMNS = ("rank", "score", "path", "start_line", "end_line", "source", "rescued", "snippet")

# A spreadsheet takes a cell that begins so for a formula, and runs it.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def print_json(value: Any) -> None:
    """The value as JSON, indented. Readable characters stay as they are where stdout can hold them; lone
    surrogates, which UTF-8 cannot hold, become JSON escapes by way of the stream's ``backslashreplace``."""
    out(json.dumps(value, ensure_ascii=not speaks_utf8(sys.stdout), indent=2))


def csv_text(answer: Answer) -> str:
    """One row for each hit below a header; cells that a spreadsheet would run begin with an apostrophe."""
    import csv
    import io

    made = io.StringIO()
    writer = csv.writer(made, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for hit in answer.hits:
        writer.writerow(
            (
                hit.rank,
                f"{hit.score:.6f}",
                guarded(hit.path),
                hit.start_line,
                hit.end_line,
                hit.source,
                "yes" if hit.rescued else "no",
                guarded(hit.to_dict()["snippet"]),
            )
        )
    return made.getvalue()


def guarded(text: str) -> str:
    """A text as a cell that no spreadsheet takes for a formula and no terminal for a command."""
    text = visible(text)
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text


def files_text(answer: Answer) -> str:
    """Each path once, best first, one on each line: for ``xargs -d '\\n'`` and editors."""
    paths = dict.fromkeys(hit.path for hit in answer.hits)
    return "".join(f"{visible(path)}\n" for path in paths)


def markdown_text(answer: Answer) -> str:
    """The hits as a Markdown list to paste into a chat or a note."""
    from openclaw_mem_engine.explain import digits_of, fenced, inline

    digits = digits_of(answer.trace.knobs)
    lines = [f"# {inline(visible(answer.trace.query))}", *_fallback_lines(answer)]
    for hit in answer.hits:
        where = inline(visible(f"{hit.path}:{hit.start_line}-{hit.end_line}"))
        rescued = " (kept by keyword rescue)" if hit.rescued else ""
        lines += ["", f"## {hit.rank}. {where} · {hit.score:.{digits}f}{rescued}", ""]
        lines += fenced(visible(hit.to_dict()["snippet"]))
    return "\n".join(lines) + "\n"


def explained_markdown(answer: Answer) -> str:
    """The whole explanation as Markdown, with the fallback at its head."""
    from openclaw_mem_engine.explain import trace_markdown

    head, _, rest = trace_markdown(answer).partition("\n")
    return "\n".join([head, *_fallback_lines(answer), rest])


def _fallback_lines(answer: Answer) -> list[str]:
    if answer.pool.fallback is None:
        return []
    from openclaw_mem_engine.cli.text_format import fallback_words
    from openclaw_mem_engine.explain import plain

    fallback = answer.pool.fallback
    return [
        "",
        f"> fallback: {plain(visible(f'{fallback_words(fallback, answer.pool.now)}: {fallback.reason}'))}",
    ]
