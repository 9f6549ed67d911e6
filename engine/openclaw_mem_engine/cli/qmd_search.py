"""``openclaw-mem qmd search``, ``vsearch`` and ``query``: documents, best first, in the formats of QMD."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final

from openclaw_mem_engine.cli.parser import whole_number
from openclaw_mem_engine.cli.qmd_formats import ResultRow, results_text
from openclaw_mem_engine.cli.qmd_opening import Contexts, format_of, opened, out_formatted
from openclaw_mem_engine.cli.search import query_of, up_to_date
from openclaw_mem_engine.cli.tables import answer_line, stage_lines
from openclaw_mem_engine.cli.terminal import one_line, out, say, stoppable
from openclaw_mem_engine.errors import UsageError
from openclaw_mem_engine.explain import arithmetic
from openclaw_mem_engine.qmd.snippets import JSON_CHARS, TEXT_CHARS, Snippet, numbered, snippet
from openclaw_mem_engine.sanitize import visible

if TYPE_CHECKING:
    from openclaw_mem_engine.answer import Answer, Hit
    from openclaw_mem_engine.memory import Memory
    from openclaw_mem_engine.ranking.knobs import Knobs
    from openclaw_mem_engine.stores.qmd.searching import Document

#: What ``--all`` returns at most: as many as a candidate list holds.
_ALL: Final = 200
#: Results without ``-n``: more for programs.
_FEW, _MANY = 5, 20
#: One list, ranked by its own score: |bm25| / (1 + |bm25|), or the cosine.
_ALONE: Final = {
    "rerank": "off",
    "fusion": "weighted",
    "bm25_score": "ratio",
    "vector_score": "cosine",
    "bonus_first": 0,
    "bonus_next": 0,
    "expansion": "off",
}
#: The knobs of each command: full text alone, vectors alone (below a cosine of 0.3 nothing), all.
_MODES: Final[dict[str, dict[str, Any]]] = {
    "search": {"mode": "bm25", **_ALONE},
    "vsearch": {"mode": "vector", **_ALONE, "min_score": 0.3},
    "query": {"mode": "hybrid"},
}


def run(arguments: Namespace) -> int:
    """Bring the index up to date, search, print."""
    kind, query = format_of(arguments), query_of(arguments)
    if arguments.explain and kind not in ("cli", "json"):
        raise UsageError(f"--explain is not available in the format {kind}: choose cli or json.")
    if arguments.action == "search":
        arguments.provider = "none"  # full text alone: no model is loaded, nothing is sent
    with opened(arguments) as (memory, backend), memory.searching(), stoppable() as token:
        if arguments.action == "vsearch" and backend.embedder is None:
            raise UsageError("vsearch needs vectors; there are none (provider = none).")
        names = tuple(arguments.collection)
        for name in names:
            backend.store.collection(name)
        backend.only = names or None
        knobs = _knobs(memory, arguments, kind)
        # Without a sync the files are not looked at, as QMD never does.
        with nullcontext() if arguments.no_sync else up_to_date(memory, arguments, token):
            answer = memory.search(query, knobs, token, session_key=arguments.session_key)
        documents = backend.store.documents(hit.chunk_id for hit in answer.hits)
        contexts = Contexts(memory, backend)
    found = [(hit, documents[hit.chunk_id]) for hit in answer.hits if hit.chunk_id in documents]
    rows = [_row(answer, hit, one, contexts.of(one), arguments, kind) for hit, one in found]
    if kind == "cli":
        if arguments.explain:
            for line in stage_lines(answer):
                out(line)
            out("")
        for line in _lines(rows, answer):
            out(line)
    else:
        out_formatted(results_text(rows, kind), kind)
    _say_how_sound(answer, kind)
    return 1 if arguments.exit_status and not answer.found_something else 0


def _knobs(memory: Memory, arguments: Namespace, kind: str) -> Knobs:
    from openclaw_mem_engine.config.knobs import process_knobs
    from openclaw_mem_engine.ranking.knobs import parse_settings
    from openclaw_mem_engine.ranking.profiles import changed, selected

    base = memory.knobs
    if arguments.profile is not None:
        base = process_knobs(memory.settings, selected(arguments.profile))
    changes = dict(_MODES[arguments.action])
    if arguments.action == "vsearch" and base.expansion == "typed":
        changes |= {"expansion": "nearest", "strong_signal": False}  # as release 2.8 does
    wanted = whole_number(arguments.n, "-n", 1) or (_MANY if kind in ("json", "files") else _FEW)
    changes["max_results"] = _ALL if arguments.all else min(wanted, _ALL)
    if arguments.min_score is not None:
        changes["min_score"] = arguments.min_score
    if arguments.no_rerank:
        changes["rerank"] = "off"
    return changed(base, {**changes, **parse_settings(arguments.set)})


def _row(
    answer: Answer, hit: Hit, document: Document, context: str, arguments: Namespace, kind: str
) -> ResultRow:
    shown = _snippet(answer, hit, document, kind)
    text = document.text if arguments.full else shown.text
    if arguments.line_numbers:
        head, _, lines = ("", "", text) if arguments.full else text.partition("\n")
        first = 1 if arguments.full else shown.lines_before + 1
        text = "\n".join(filter(None, [head, numbered(lines, first)]))
    more: dict[str, Any] = {name: value for name, value in (("band", hit.band), ("weak", hit.weak)) if value}
    if arguments.explain and (row := answer.trace.row(hit.chunk_id)) is not None:
        more["explain"] = {
            "arithmetic": arithmetic(row, answer.trace),
            "ranks": dict(row.ranks),
            "scores": dict(row.scores),
        }
    return ResultRow(
        document.docid,
        min(1.0, max(0.0, hit.score)),
        document.uri,
        shown.line,
        document.title,
        text,
        context,
        full=arguments.full,
        more=more,
    )


def _snippet(answer: Answer, hit: Hit, document: Document, kind: str) -> Snippet:
    """The best lines of the document: where no word of the query is in it, those that its vector found."""
    chars = JSON_CHARS if kind == "json" else TEXT_CHARS
    found = snippet(document.text, answer.pool.query, chars, intent=answer.pool.intent)
    low = document.text.lower()
    if hit.best_line is None or any(word in low for word in answer.pool.query.lower().split()):
        return found
    lines = document.text.split("\n")
    return snippet(
        document.text,
        answer.pool.query,
        chars,
        chunk_pos=sum(len(line) + 1 for line in lines[: hit.best_line - 1]),
        intent=answer.pool.intent,
    )


def _lines(rows: list[ResultRow], answer: Answer) -> Iterator[str]:
    if not rows:
        cut = any(row.outcome.stage == "min_score" for row in answer.trace.unreturned)
        yield f"No results found{' above minimum score threshold' if cut else ''}."
    for number, row in enumerate(rows):
        if number:
            yield "\n"
        yield f"{visible(row.file)}:{row.line} #{row.docid}"
        yield f"Title: {one_line(row.title)}"
        if row.context:
            yield f"Context: {visible(row.context)}"
        says = ", ".join(filter(None, [f"{row.more.get('band', '')}", "weak" * bool(row.more.get("weak"))]))
        yield f"Score: {int(row.score * 100 + 0.5):>3}%{f' ({says})' if says else ''}"
        if "explain" in row.more:
            yield f"Explain: {visible(row.more['explain']['arithmetic'])}"
        yield ""
        yield visible(row.text)
    if rows:
        yield ""


def _say_how_sound(answer: Answer, kind: str) -> None:
    """On stderr: why there is nothing, and what makes the answer less than it could be."""
    text = answer_line(answer)
    if not answer.hits:
        say(text)
    for warning in answer.warnings:
        if answer.hits or warning != text:
            say(warning)
    if kind == "cli":
        for note in answer.trace.notes:
            if note.code in ("expanded-without-model", "not-expanded", "not-reranked"):
                say(note.text)
