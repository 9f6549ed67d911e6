"""Keeping the external program's index up to date: collections, updates, vectors; at once or by a timer."""

from __future__ import annotations

import hashlib
import json
import math
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from openclaw_mem_engine.cancellation import CancelToken, Deadline
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.errors import Cancelled, WorkspaceError
from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.qmd.collections import Collection
from openclaw_mem_engine.sidecar.command import UPDATE_BYTES, QmdCommand, QmdFailed
from openclaw_mem_engine.sidecar.paths import collections_of
from openclaw_mem_engine.sidecar.session_export import export_sessions
from openclaw_mem_engine.sidecar.state import QmdState
from openclaw_mem_engine.state.disk import held

#: A failed embed is tried again after so many seconds, then after twice as many, up to an hour.
_EMBED_RETRY_S, _EMBED_RETRY_MAX_S = 60.0, 3_600.0
#: The update at the start is tried so often while the index is locked or the program too slow; the pause
#: before a new attempt doubles.
_BOOT_TRIES, _BOOT_PAUSE_S = 3, 0.5
#: Embeds of one process follow each other: each takes every core.
_EMBEDDING = threading.Lock()


class Step(NamedTuple):
    """One call that was made: what, how long it took, and why it failed ("": it did not)."""

    what: str
    seconds: float
    error: str = ""


class QmdUpkeep:
    """Collections, updates and vectors of one external program. Thread-safe. ``clock``: epoch seconds."""

    def __init__(self, settings: Settings, command: QmdCommand, clock: Callable[[], float]) -> None:
        self.settings = settings
        self.command = command
        self.state = QmdState(command.home / "state.json")
        self._clock = clock
        self._updating = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def collections(self) -> list[Collection]:
        """Those whose folder is there: the program refuses others."""
        return [found for found in collections_of(self.settings)[0] if found.root.is_dir()]

    @property
    def failures(self) -> list[tuple[str, str]]:
        """What the last update, and the last embed where vectors are searched, failed at, each with why."""
        facts, vectors = self.state.facts, self.settings.qmd.search_mode != "search"
        found = [("The QMD index could not be updated", facts.update_error)]
        found += [("QMD could not make vectors", facts.embed_error)] if vectors else []
        return [(what, error) for what, error in found if error]

    # -- collections -----------------------------------------------------------------------------------

    def ensure_collections(
        self,
        deadline: Deadline,
        cancel: CancelToken | None = None,
        *,
        again: bool = False,
    ) -> list[Collection]:
        """Make the program's collections those of the configuration, one process at a time: each change
        writes all of them; ``again``: also when they were seen to be. Raises QmdFailed, Cancelled."""
        wanted = self.collections
        digest = hashlib.sha256(repr([(c.name, str(c.root), c.pattern) for c in wanted]).encode()).hexdigest()
        if not again and self.state.facts.collections == digest and self.command.index_path.exists():
            return wanted
        try:
            with held(self.command.home, "the collections of QMD", self._limit(deadline), cancel):
                self._make(wanted, deadline, cancel)
        except WorkspaceError as error:
            raise QmdFailed("busy", str(error)) from error
        self.state.set(collections=digest)
        return wanted

    def _make(self, wanted: list[Collection], deadline: Deadline, cancel: CancelToken | None) -> None:
        present = _listed(self._run(["collection", "list", "--json"], deadline, cancel))
        old = set(present) - {collection.name for collection in wanted}
        drifted = {c.name for c in wanted if not _same(c, present.get(c.name, {}))} & present.keys()
        for name in sorted(old | drifted):
            self._run(["collection", "remove", name], deadline, cancel)
        for collection in wanted:
            if collection.name in drifted or collection.name not in present:
                add = ["collection", "add", str(collection.root), "--name", collection.name]
                try:
                    self._run([*add, "--mask", collection.pattern], deadline, cancel)
                except QmdFailed as error:
                    if "already exists" not in error.output:
                        raise

    def _limit(self, deadline: Deadline) -> float:
        """Seconds that one call may take."""
        return min(self.settings.qmd.update.command_timeout_ms / 1000, deadline.left_s)

    def _run(self, arguments: list[str], deadline: Deadline, cancel: CancelToken | None) -> str:
        return self.command.run(arguments, self._limit(deadline), cancel).stdout

    def version(self, timeout_s: float) -> tuple[int, ...]:
        """The program's version; () when it does not say. Asked once for each program file. Raises
        QmdFailed."""
        path = shutil.which(self.command.command)
        try:
            status = Path(path or self.command.command).stat()
            program = f"{path} {status.st_size} {status.st_mtime_ns}"
        except OSError:
            program = ""
        facts = self.state.facts
        if program and facts.program == program:
            return facts.version
        limit = min(timeout_s, self.settings.qmd.update.command_timeout_ms / 1000)
        found = self.command.version(limit)
        if found:  # what failed once is asked again
            self.state.set(program=program, version=found)
        return found

    # -- updates ---------------------------------------------------------------------------------------

    def update(
        self,
        cancel: CancelToken | None = None,
        *,
        debounce: bool = False,
        embed: bool = False,
        tries: int = 1,
        within_s: float | None = None,
    ) -> Iterator[Step]:
        """Export conversations, make collections, ``update``, and ``embed`` where vectors are searched; step
        by step. With ``debounce`` nothing is done soon after the last update; vectors are made when they are
        due, with ``embed`` in any case. ``within_s``: what a search may wait; it makes no vectors. Failures
        are steps, too, and are kept. Raises Cancelled."""
        qmd, deadline = self.settings.qmd, Deadline(within_s)
        if not self._updating.acquire(timeout=-1 if within_s is None else within_s):
            return
        try:
            now, tried = self._clock(), self.state.facts.tried_at
            if debounce and 0 <= now - tried < qmd.update.debounce_ms / 1000:
                return
            self.state.set(tried_at=now)
            if qmd.sessions.enabled:
                yield self._step("sessions", partial(export_sessions, self.settings, now))
            step = self._step("collections", lambda: self.ensure_collections(deadline, cancel, again=True))
            yield step
            for attempt in range(tries if not step.error else 0):
                if attempt and self._stop.wait(_BOOT_PAUSE_S * 2 ** (attempt - 1)):
                    break
                limit_s = min(qmd.update.update_timeout_ms / 1000, deadline.left_s)
                step = self._step("update", partial(self._call, "update", limit_s, cancel))
                yield step
                if "timeout" not in step.error and "locked" not in step.error:
                    break
            if step.error:
                self.state.set(update_error=step.error)
                return
            self.state.set(updated_at=self._clock(), update_error="")
        finally:
            self._updating.release()
        if within_s is None and qmd.search_mode != "search" and (embed or self._embed_due()):
            yield self._embedded(cancel)

    def warm_up(self, cancel: CancelToken | None = None, *, models: bool = False) -> Iterator[Step]:
        """Everything that a first search would wait for: an update and one search; vectors and a query that
        loads the models only with ``models``, or where the search mode needs them. Step by step; a failed
        step ends it. Raises Cancelled."""
        settings = self.settings.qmd
        found: list[str] = []
        asked = self._step("version", lambda: found.append(".".join(map(str, self.version(math.inf)))))
        yield asked._replace(what=" ".join(["version", *(text or "unknown" for text in found)]))
        if asked.error:
            return
        models = models or settings.search_mode != "search"
        for step in self.update(cancel, embed=True):
            yield step
            if step.error:
                return
        if models and settings.search_mode == "search":
            yield (step := self._embedded(cancel))
            if step.error:
                return
        names = [collection.name for collection in self.collections][:1]
        mode = "query" if models else "search"
        ask = [mode, "test", *(word for name in names for word in ("-c", name)), "--json"]
        limit = settings.update.embed_timeout_ms / 1000
        step = self._step(mode, lambda: self.command.run(ask, limit, cancel))
        if not step.error:
            self.state.answered()
        yield step

    def _call(self, name: str, timeout_s: float, cancel: CancelToken | None) -> None:
        self.command.run([name], timeout_s, cancel, most=UPDATE_BYTES)

    def _embed_due(self) -> bool:
        facts, every = self.state.facts, self.settings.qmd.update.embed_interval_s
        now = self._clock()
        due = not facts.embedded_at or (every > 0 and now - facts.embedded_at >= every)
        return due and now >= facts.embed_retry_at

    def _embedded(self, cancel: CancelToken | None) -> Step:
        with _EMBEDDING:
            timeout = self.settings.qmd.update.embed_timeout_ms / 1000
            step = self._step("embed", lambda: self._call("embed", timeout, cancel))
        if step.error:
            wait = min(_EMBED_RETRY_MAX_S, 2 * self.state.facts.embed_retry_s or _EMBED_RETRY_S)
            self.state.set(embed_error=step.error, embed_retry_s=wait, embed_retry_at=self._clock() + wait)
        else:
            self.state.set(embedded_at=self._clock(), embed_error="", embed_retry_s=0.0, embed_retry_at=0.0)
        return step

    def _step(self, what: str, work: Callable[[], object]) -> Step:
        began, error = time.monotonic(), ""
        try:
            work()
        except Cancelled:
            raise
        except QmdFailed as failure:
            error = f"{'timeout: ' if failure.kind == 'timeout' else ''}{failure}"
        except OSError as failure:
            error = f"the conversations cannot be exported ({failure.strerror})"
        return Step(what, time.monotonic() - began, error)

    # -- the timer -------------------------------------------------------------------------------------

    def start(self, *, resident: bool) -> None:
        """The update at the start, waited for or in a thread that a ``resident`` process also needs for the
        timer. The thread ends with ``close``."""
        update = self.settings.qmd.update
        waits = update.on_boot and update.wait_for_boot_sync
        if waits:
            list(self.update(embed=True, tries=_BOOT_TRIES))
        if resident and (update.interval_s > 0 or (update.on_boot and not waits)):
            boot = update.on_boot and not waits
            self._thread = threading.Thread(target=self._keep_up, args=(boot,), name="qmd", daemon=True)
            self._thread.start()

    def _keep_up(self, boot: bool) -> None:
        interval = self.settings.qmd.update.interval_s
        with suppress(Cancelled):  # by close
            if boot:
                list(self.update(self._stop, embed=True, tries=_BOOT_TRIES))
            while interval > 0 and not self._stop.wait(interval):
                list(self.update(self._stop, debounce=True))

    def wait_idle(self, seconds: float) -> None:
        """Wait for an update that is running, so many seconds at most."""
        if self._updating.acquire(timeout=seconds):
            self._updating.release()

    def close(self) -> None:
        """End the thread and every running call."""
        self._stop.set()
        self.command.close()
        if self._thread is not None:
            self._thread.join(5.0)


def _listed(text: str) -> dict[str, dict[str, str]]:
    """The collections that ``collection list`` prints: what is said of each, by name. JSON is a list of names
    or of objects; released versions ignore ``--json`` and print lines."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, list):
        rows = [row if isinstance(row, dict) else {"name": row} for row in found]
        return {str(row["name"]): {k: str(v) for k, v in row.items() if v} for row in rows if row.get("name")}
    collections: dict[str, dict[str, str]] = {}
    name = ""
    for line in text.splitlines():
        if match := re.match(r"([A-Za-z0-9_.-]+) \(qmd://", line):
            name = match[1]
            collections[name] = {}
        elif name and (match := re.match(r"\s+(Path|Root|Pattern|Mask):\s+(.*\S)", line)):
            collections[name][match[1].lower()] = match[2]
    return collections


def _same(collection: Collection, seen: dict[str, str]) -> bool:
    """Whether what was listed does not contradict the configuration."""
    pattern, root = seen.get("pattern") or seen.get("mask"), seen.get("path") or seen.get("root")
    same_root = root is None or Path(root).expanduser() in (collection.root, collection.root.resolve())
    return same_root and pattern in (None, collection.pattern)
