"""``openclaw-mem search``: the search of agents, for people."""

from __future__ import annotations

import dataclasses
import os
import sys
import threading
import time
from argparse import Namespace
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from openclaw_mem_engine.cancellation import FIRST_INDEX_S, GRACE_S, INDEXING_S
from openclaw_mem_engine.cli.opening import open_memory, renewed, warned_settings
from openclaw_mem_engine.cli.terminal import (
    is_terminal,
    out,
    out_bytes,
    print_json,
    say,
    stoppable,
    width,
)
from openclaw_mem_engine.errors import (
    IndexDamaged,
    IndexLocked,
    IndexUnavailable,
    OpenClawMemError,
    UsageError,
    WorkspaceError,
)
from openclaw_mem_engine.model import Freshness, Note, utf8

if TYPE_CHECKING:
    from collections.abc import Iterator

    from openclaw_mem_engine.answer import Answer
    from openclaw_mem_engine.config.settings import Settings
    from openclaw_mem_engine.memory import Memory
    from openclaw_mem_engine.ranking.knobs import Knobs


def run(arguments: Namespace) -> int:
    """Bring the index up to date, search, print. An index that is found damaged is replaced first, where this
    search may write it."""
    # Before NumPy is imported: the threads that OpenBLAS starts take a tenth of the time, and get no work.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    kind = format_of(arguments)
    query = query_of(arguments)
    settings = warned_settings(arguments)
    try:
        answer = _answer(settings, arguments, query)
    except IndexDamaged as error:
        # A provider for this call alone must not make the index that others use.
        if arguments.provider is not None or not _syncs(settings, arguments):
            raise
        note = renewed(settings, error)
        answer = _answer(settings, arguments, query)
        notes = (*answer.trace.notes, note)
        answer = dataclasses.replace(answer, trace=dataclasses.replace(answer.trace, notes=notes))
    show_answer(answer, kind, explain=arguments.explain, null=arguments.null)
    return 1 if arguments.exit_status and not answer.found_something else 0


def _answer(settings: Settings, arguments: Namespace, query: str) -> Answer:
    """The answer, after a sync where that is wanted."""
    # A failure from here on leaves the search without an answer, and is logged as such.
    with open_memory(settings) as memory, memory.searching(), stoppable() as token:
        knobs = knobs_of(memory, arguments)
        failure, took = brought_up_to_date(memory, arguments, token, knobs)
        if knobs.rerank:
            from openclaw_mem_engine.cli.planning import announce_reranking

            announce_reranking(memory, knobs)
        # An explanation shows every vector space, also those that are not counted and take a request, and
        # ranks for which all vectors are read.
        key = arguments.session_key
        found = memory.search(query, knobs, token, compare=arguments.explain, session_key=key)
    answer = dataclasses.replace(found, sync_seconds=took)
    return answer if failure is None else outdated(answer, failure)


def query_of(arguments: Namespace) -> str:
    """The query of either form; bytes of the command line that are no UTF-8 count as unknown characters."""
    query = arguments.query if arguments.query is not None else " ".join(arguments.words)
    if not query.strip():
        raise UsageError('A query is required, for example "vpn certificate".')
    return utf8(query.encode("utf-8", "surrogateescape").decode("utf-8", "replace")).decode("utf-8")


def format_of(arguments: Namespace) -> str:
    """The output format. Raises UsageError for options that contradict each other."""
    kind = arguments.format or ("json" if arguments.json else "table")
    if arguments.json and kind != "json":
        raise UsageError(f"--json and --format {kind} contradict each other: leave one out.")
    if arguments.explain and kind in ("csv", "files", "lines"):
        raise UsageError(f"--explain is not available with --format {kind}: choose table, md or json.")
    if arguments.null and kind not in ("files", "lines"):
        raise UsageError(f"-0 is not available with --format {kind}: choose files or lines.")
    return str(kind)


def knobs_of(memory: Memory, arguments: Namespace) -> Knobs:
    """The configured ranking with the options over it. A profile gives the defaults only: the
    configuration's own values stay, as with ``query.profile``. Raises UsageError."""
    from openclaw_mem_engine.config.knobs import own_knobs
    from openclaw_mem_engine.ranking.knobs import KNOBS, parse_settings

    changes: dict[str, object] = {**parse_settings(arguments.set)}
    profile = changes.pop("profile", arguments.profile)
    base = memory.knobs if profile is None else own_knobs(memory.settings, str(profile))
    for name in ("max_results", "min_score"):
        if (value := getattr(arguments, name)) is not None:
            changes[name] = KNOBS[name].parse(value, f"--{name.replace('_', '-')}")
    return base.set(changes)


def brought_up_to_date(
    memory: Memory, arguments: Namespace, token: threading.Event, knobs: Knobs | None = None
) -> tuple[OpenClawMemError | None, float | None]:
    """Sync where settings and options want it, else look only, and with ``--no-sync`` not even that; see
    ``bring_up_to_date``. Raises when there is nothing to answer from."""
    if arguments.no_sync:  # reads the index alone, so that its freshness stays unknown
        return None, None
    # A provider for this call alone must not reshape an index that others use: BM25 only then.
    syncs = _syncs(memory.settings, arguments) and memory.capabilities.sync
    if not syncs or memory.needs_rebuild(arguments.provider):
        return look_only(memory), None
    return bring_up_to_date(memory, token, knobs)


@contextmanager
def up_to_date(
    memory: Memory, arguments: Namespace, token: threading.Event, knobs: Knobs | None = None
) -> Iterator[None]:
    """The body reads the index as ``brought_up_to_date`` leaves it. An error of that is printed at the end,
    unless the body raises one."""
    failure, _ = brought_up_to_date(memory, arguments, token, knobs)
    yield
    if failure is not None:
        say(without_update(failure))


def without_update(failure: OpenClawMemError) -> str:
    return f"{failure} The index was used without this update."


def _syncs(settings: Settings, arguments: Namespace) -> bool:
    """Whether settings and options let a search write the index."""
    from openclaw_mem_engine.retrieval.scoped import denial

    denied = "session_key" in arguments and denial(settings, arguments.session_key)
    return settings.sync.on_search and not denied and not arguments.no_sync


def bring_up_to_date(
    memory: Memory, token: threading.Event, knobs: Knobs | None = None
) -> tuple[OpenClawMemError | None, float | None]:
    """Sync for a search with ``knobs`` (None: the configured ones); a line on stderr says what was done.
    Returns the error and the seconds of the sync, None for one that was not done. An error is raised when
    there is no index to answer from."""
    from openclaw_mem_engine.cli.progress import ProgressLine
    from openclaw_mem_engine.cli.text_format import duration
    from openclaw_mem_engine.sanitize import counted
    from openclaw_mem_engine.sync.lock import SyncBusy
    from openclaw_mem_engine.sync.report import SyncRequest

    began = time.perf_counter()
    request = SyncRequest(wait_s=FIRST_INDEX_S, budget_s=INDEXING_S, files_s=INDEXING_S, knobs=knobs)
    try:
        if memory.hosts:
            from openclaw_mem_engine.cli.planning import announce

            announce(memory, token, request)
        with ProgressLine() as progress:
            try:
                report = memory.sync(dataclasses.replace(request, wait_s=GRACE_S), progress, token)
            except SyncBusy:
                if memory.paths():
                    raise
                # Nothing to answer from yet: wait for it.
                report = memory.sync(request, progress, token)
    except IndexDamaged:
        raise
    except (WorkspaceError, IndexUnavailable) as error:
        with suppress(WorkspaceError):
            if memory.paths() and memory.freshness().state in ("fresh", "partial"):
                return None, None  # another process writes, but nothing was to be written
        return _answered_as_it_was(memory, error), None
    if report.changed or report.without_text or report.removed:
        made = [f"{len(report.newly_excluded):,} excluded"] if report.newly_excluded else []
        made = [*report.taken_out, *made]
        if report.changed:
            made = [counted(len(report.changed), "new or modified file", "new or modified files"), *made]
        backend = memory.settings.openclaw.backend
        did = f"{'indexed' if report.changed else 'index:'} {', '.join(made)} in {duration(report.seconds)}"
        # Each backend has its own index, and the demo has lessons on both.
        say(f"{did}." if backend == "builtin" else f"{did} (backend {backend}).")
    for note in report.notes:
        # Which vectors are missing, and why, is in the answer.
        if note not in report.incomplete and note.code != "rebuild-later":
            say(note.text)
    can_sync = all(note.code != "read-only-index" for note in memory.notes)
    return None, time.perf_counter() - began if can_sync else None


def look_only(memory: Memory) -> OpenClawMemError | None:
    """Compare index and disk, so that the answer can say how fresh it is; change nothing."""
    try:
        memory.freshness()
    except WorkspaceError as error:
        return _answered_as_it_was(memory, error)
    return None


def _answered_as_it_was(memory: Memory, error: OpenClawMemError) -> OpenClawMemError:
    """The error when there is an index to answer from, otherwise raise it."""
    if not memory.paths():
        raise error
    return error


def outdated(answer: Answer, failure: OpenClawMemError) -> Answer:
    """The answer marked as one that could not be brought up to date."""
    pool, trace = answer.pool, answer.trace
    # Where not even the workspace can be read, what changed is unknown, which counts as stale.
    fresh = pool.freshness or Freshness("stale", 0, None)
    code = "sync-busy" if isinstance(failure, IndexLocked) else "sync-failed"
    # The sync that a stale index asks for is the one that failed.
    notes = [note for note in trace.notes if note.code != "stale"]
    notes.append(Note(code, without_update(failure), "warning"))
    return dataclasses.replace(
        answer,
        pool=dataclasses.replace(pool, freshness=fresh),
        trace=dataclasses.replace(trace, notes=tuple(notes)),
    )


def show_answer(answer: Answer, kind: str, *, explain: bool, null: bool = False) -> None:
    """Print an answer; what a program-friendly format cannot hold goes to stderr. ``null``: records end in
    NUL."""
    if kind == "json":
        print_json(answer.to_dict(explain=explain))
        return
    from openclaw_mem_engine.cli import tables
    from openclaw_mem_engine.cli.text_format import fallback_words

    if kind == "table":
        for line in tables.answer_lines(answer, width(), explain=explain):
            out(line)
        return
    if kind == "md":
        out(tables.explained_markdown(answer) if explain else tables.markdown_text(answer), end="")
    elif kind == "csv":
        out(tables.csv_text(answer), end="")
    else:
        exact = null and not is_terminal(sys.stdout)  # a terminal acts on what a path may hold
        records = tables.files_records if kind == "files" else tables.lines_records
        found = records(answer, str if exact else tables.escaped)
        made = "".join(record + ("\0" if null else "\n") for record in found)
        if exact:
            out_bytes(made.encode("utf-8", "surrogateescape"))
        else:
            out(made, end="")
    if not answer.hits:
        say(tables.answer_line(answer))
    if answer.pool.fallback is not None and kind != "md":
        say(f"fallback: {fallback_words(answer.pool.fallback, answer.pool.now)}.")
    for warning in answer.warnings:
        if warning.rstrip(".") != answer.text:
            say(warning)
