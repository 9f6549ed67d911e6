"""Examining an index and the files around it: the table of checks, and the repair of what they find."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

import apsw

from openclaw_mem_engine.cancellation import CancelToken
from openclaw_mem_engine.commands import FIX, INDEX, REBUILD, UPGRADE
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.doctor import file_checks as files
from openclaw_mem_engine.doctor import lifecycle_checks as lifecycle
from openclaw_mem_engine.doctor import location_checks as locations
from openclaw_mem_engine.doctor.opened import Examined, FileSnapshot, SharedStore, check_dims
from openclaw_mem_engine.doctor.qmd_check import check_qmd, check_qmd_index
from openclaw_mem_engine.errors import (
    Cancelled,
    ConfigError,
    IndexDamaged,
    IndexUnavailable,
    WorkspaceError,
)
from openclaw_mem_engine.model import Progress
from openclaw_mem_engine.providers.base import space_of
from openclaw_mem_engine.providers.circuit_breaker import Embedders
from openclaw_mem_engine.ranking.unshown import Unshown
from openclaw_mem_engine.stores.damage import kept
from openclaw_mem_engine.stores.findings import (
    CLOSED,
    LOCATION_CODES,
    OPEN,
    SEVERITIES,
    UNWRITABLE,
    Check,
    DoctorReport,
    Finding,
    Outcome,
    folded,
)
from openclaw_mem_engine.stores.sqlite.checks import diagnose
from openclaw_mem_engine.stores.sqlite.connections import index_is_there, refuse_foreign
from openclaw_mem_engine.stores.sqlite.files import may, unreachable
from openclaw_mem_engine.stores.sqlite.repair import replace_damaged
from openclaw_mem_engine.stores.sqlite.snapshot import check_version
from openclaw_mem_engine.sync.events import Journal
from openclaw_mem_engine.sync.fingerprint import fingerprint_of, needs_rebuild
from openclaw_mem_engine.sync.lock import SyncLock

#: How long a repair waits for a sync that is at work, seconds.
LOCK_WAIT_S = 10.0

#: What a damaged page may raise while it is read: SQLite's errors, and ours over NULLs and nonsense.
_DAMAGE = (apsw.Error, TypeError, ValueError, LookupError, AttributeError, ArithmeticError)
_STOPPED = "The checks were stopped."


def examine(
    settings: Settings,
    embedders: Embedders,
    *,
    deep: bool = False,
    progress: Progress | None = None,
    cancel: CancelToken | None = None,
) -> DoctorReport:
    """Run every check of ``CHECKS``; change nothing, send nothing. ``deep`` also makes every chunk, its words
    and its vectors' rows again and compares them byte for byte. A check that cannot be done is in the report,
    and the others go on. ``progress`` counts checks or files. Blocks for seconds, with ``deep`` for minutes.
    Raises Cancelled."""
    examination = Examination(settings, embedders, deep, progress, cancel)
    examination.run()
    findings = sorted(examination.findings, key=lambda finding: SEVERITIES.index(finding.severity))
    newer = examination.found("newer-schema")
    down = embedders.primary.trouble if embedders.primary is not None else None
    failing = f"{str(down).removesuffix('.')}. A sync makes them, once it answers." if down else ""
    failing = failing or next((f.text for f in examination.findings if f.code == "other-dims"), "")
    # What can do nothing without notes, or as long as nothing can be written, is not offered.
    idle = (
        (INDEX, FIX) if examination.found(*UNWRITABLE) else (INDEX,) if examination.found("workspace") else ()
    )
    spared = {*CLOSED} if examination.found("unavailable") else {OPEN, *CLOSED}

    def offered(finding: Finding) -> Finding:
        if finding.fixable and newer and finding.code not in LOCATION_CODES:
            finding = replace(finding, fixable=False, repair=UPGRADE)
        if failing and finding.code in ("vectors-awaited", "no-vectors"):  # no sync makes them now
            finding = replace(finding, text=f"{finding.text} {failing}", repair="")
        if finding.repair.startswith(idle) and finding.code not in spared:
            finding = replace(finding, fixable=False, repair="")
        return finding

    findings = [offered(finding) for finding in findings]
    return DoctorReport(folded(findings), tuple(examination.checks), deep, examination.unshown)


def fix(
    settings: Settings,
    report: DoctorReport,
    cancel: CancelToken | None = None,
) -> list[str]:
    """Repair what ``examine`` found and can be repaired; what was done, in words. Notes are not touched, and
    nothing is embedded. A damaged index, whatever its damage, is set aside, and replaced by one with its
    embeddings, which the next sync fills; one that a newer program wrote is not written to. Raises
    SyncBusy when another process keeps the index, IndexUnavailable when it cannot be written, Cancelled while
    it waits for the lock: nothing but permissions is repaired then."""
    codes = {finding.code for finding in report.fixable}
    if not codes:
        return []
    refuse_foreign(settings.index_path)
    # Not under the lock: that file may be one of them.
    done = locations.open_to_user(settings) if codes & CLOSED else []
    done += locations.narrow_permissions(settings) if OPEN in codes else []
    if codes <= {OPEN, *CLOSED}:
        return done
    with SyncLock(settings.index_path, "repairing").holding(LOCK_WAIT_S, cancel):
        done += locations.repair_locations(settings, codes)
        if codes - LOCATION_CODES:
            moved = replace_damaged(settings.index_path, of_qmd=settings.qmd_in_process)
            done.append(f"a new index replaces the damaged one. {kept(*moved)}")
        return done


def repair(
    settings: Settings,
    embedders: Embedders,
    journal: Journal,
    report: DoctorReport,
    progress: Progress | None = None,
    cancel: CancelToken | None = None,
) -> tuple[list[str], DoctorReport | None]:
    """``fix``, then ``examine`` as ``report`` was made; both go into the event log. What was done, in words,
    and the new report: None when that examination was stopped. Raises what ``fix`` raises."""
    started = time.perf_counter()
    done = fix(settings, report, cancel)
    repaired = time.perf_counter()
    journal.repaired(done, repaired - started)
    try:
        after = examine(settings, embedders, deep=report.deep, progress=progress, cancel=cancel)
    except Cancelled:
        return done, None
    journal.examined(after, time.perf_counter() - repaired)
    return done, after


@dataclass(slots=True)
class Examination:
    """One run through the table. ``disk``, and ``diagnosis``, the checks of the store, are there once the
    check "index" has opened the index."""

    settings: Settings
    embedders: Embedders
    deep: bool
    progress: Progress | None
    cancel: CancelToken | None
    findings: list[Finding] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    opened: Examined | None = None
    disk: files.Disk = field(init=False)
    diagnosis: Mapping[str, Callable[[Outcome], None]] = field(default_factory=dict)
    unshown: Mapping[str, Unshown] = field(default_factory=dict)

    @property
    def snap(self) -> Examined:
        """The opened index; only for checks that come after "index"."""
        assert self.opened is not None
        return self.opened

    @property
    def file(self) -> FileSnapshot:
        """The same where it is a file."""
        assert isinstance(self.opened, FileSnapshot)
        return self.opened

    def run(self) -> None:
        """Every check in order, until one finds what makes the others meaningless. Raises Cancelled."""
        try:
            shared = _SHARED_CHECKS if self.settings.store.location else CHECKS
            for name, check in (_QMD_CHECKS if self.settings.qmd_in_process else shared).items():
                if (name in _DEEP and not self.deep) or (name == "qmd" and not self.settings.qmd_process):
                    continue
                self._run(name, check)
                unusable = name == "index" and (self.opened is None or self.found("no-access"))
                if unusable or self.found("damaged", "tables-missing", "newer-schema"):
                    return
        finally:
            if self.opened is not None:
                self.opened.close()

    def found(self, *codes: str) -> bool:
        """Whether a check before has found one of these."""
        return any(finding.code in codes for finding in self.findings)

    def _run(self, name: str, check: Callable[[Examination, Outcome], None]) -> None:
        if self.cancel is not None and self.cancel.is_set():
            raise Cancelled(_STOPPED)
        if self.progress is not None:
            self.progress(len(self.checks), 0, f"checking {name}")
        out = Outcome()
        done = True
        try:
            check(self, out)
        except apsw.InterruptError as error:
            raise Cancelled(_STOPPED) from error
        except WorkspaceError as error:
            out.detail = "the workspace cannot be read"
            if not self.found("workspace"):
                out.add("workspace", "error", str(error))
        except IndexUnavailable as error:
            done, out.detail = False, "could not be done"
            out.add("unavailable", "error", str(error))
        except OSError as error:
            done = False
            out.detail = f"could not be done: {error.strerror or error}"
            if not self.found("no-access"):
                # The file or folder that the system refused, as far as it says.
                path = Path(os.fsdecode(error.filename)) if error.filename else self.settings.data_dir
                text = f"The check of {name} failed: {unreachable(path, error)}"
                out.add("unreachable", "error", text)
        except _DAMAGE as error:
            cause = "text that is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
            out.detail = f"could not be done: {cause}"
            if not self.found("altered-chunks"):  # which name the files
                text = f"The check of {name} found something that cannot be read ({cause})."
                out.add("unreadable", "error", text, repair=REBUILD)
        self.checks.append(out.check(name, ok=done))
        self.findings += out.findings


# -- checks of the index against the settings -------------------------------------------------------------


def _open_index(run: Examination, out: Outcome) -> None:
    path = run.settings.index_path
    try:
        if index_is_there(path):
            run.opened = snap = FileSnapshot(path, run.cancel)
            run.disk = files.Disk(run.settings, snap, run.progress, run.cancel)
            asked = (run.embedders.primary, run.embedders.fallback, *run.embedders.also)
            in_use = [space_of(embedder) for embedder in asked]
            run.diagnosis = diagnose(snap, deep=run.deep, in_use=in_use)
            out.detail = "can be opened"
        else:
            out.detail = "there is none yet"
            out.add("not-there", "info", "There is no index yet.", [str(path)], INDEX)
    except IndexDamaged as error:
        out.detail = "cannot be read"
        out.add("damaged", "error", str(error), repair=FIX)
    except IndexUnavailable as error:
        out.detail = "cannot be opened"
        if not run.found("no-access"):  # that says why, and so does the other, with the command
            closed = run.found("not-writable") and not may(path, os.R_OK)
            text = "This user cannot read the index. No search can run." if closed else str(error)
            out.add("unavailable", "error", text)


def _open_shared(run: Examination, out: Outcome) -> None:
    try:
        run.opened = opened = SharedStore(run.settings, out)
        run.diagnosis = opened.store.diagnosis()
        run.disk = files.Disk(run.settings, opened, run.progress, run.cancel)
    except (ConfigError, IndexUnavailable) as error:
        out.detail = "cannot be opened"
        out.add("unavailable", "error", str(error))


def _check_fingerprint(run: Examination, out: Outcome) -> None:
    if run.found("fingerprint-unreadable"):
        out.detail = "cannot be read"
        return
    known, wanted = run.snap.fingerprint(), fingerprint_of(run.settings, run.embedders.primary)
    if known is None:
        out.detail = "the index was never built"
        return
    out.detail = known.space.label or "no provider"
    if needs_rebuild(known, wanted):
        differences = "; ".join(known.differences(wanted))
        text = f"The index was built with other settings. The next sync rebuilds it: {differences}."
        out.add("other-fingerprint", "warning", text, repair=INDEX)
    elif (primary := run.embedders.primary) is not None:
        check_dims(primary, run.snap.vector_dims(space_of(primary)), out)


def _check_notes(run: Examination, out: Outcome) -> None:
    known = None if run.found("fingerprint-unreadable") else run.snap.fingerprint()
    primary = run.embedders.primary
    wanted = fingerprint_of(run.settings, primary)
    if known is None or needs_rebuild(known, wanted) or known.space != wanted.space:
        out.detail = "not compared: the index was built with other settings"
        return
    files.check_notes(run.disk, out, primary.max_input_bytes if primary else None)


def _check_snippets(run: Examination, out: Outcome) -> None:
    run.unshown = files.check_snippets(run.settings, run.snap, out)


def _of_store(name: str) -> Callable[[Examination, Outcome], None]:
    return lambda run, out: run.diagnosis[name](out)


#: By name, in the order in which they are made. Those after "index" read the snapshot that it opens.
CHECKS: Mapping[str, Callable[[Examination, Outcome], None]] = {
    "sqlite": lambda _, out: check_version(out),
    "writing": lambda run, out: locations.check_writing(run.settings, out),
    "permissions": lambda run, out: locations.check_permissions(run.settings, out),
    "leftovers": lambda run, out: locations.check_left_overs(run.settings, out),
    "provider records": lambda run, out: locations.check_records(run.settings, out),
    "event log": lambda run, out: locations.check_event_log(run.settings, out),
    "qmd": lambda run, out: check_qmd(run.settings, out),
    "root files": lambda run, out: files.check_bootstrap(run.settings, out),
    "flushes": lambda run, out: lifecycle.check_flush(run.settings, out),
    "credentials": lambda run, out: lifecycle.check_credentials(run.settings, out),
    "index": _open_index,
    "integrity": _of_store("integrity"),
    "tables": _of_store("tables"),
    "format": _of_store("format"),
    "built with": _check_fingerprint,
    "chunks": _of_store("chunks"),
    "BM25 index": _of_store("BM25 index"),
    "vectors": _of_store("vectors"),
    "cache": _of_store("cache"),
    "size": lambda run, out: locations.check_size(run.settings, run.file, out),
    "generated notes": lambda run, out: files.check_by_products(run.settings, run.file, out),
    "snippets": _check_snippets,
    "files": lambda run, out: files.check_files(run.disk, out),
    "hashes": lambda run, out: files.check_hashes(run.disk, out),
    "notes": _check_notes,
}
#: Those that only a deep examination makes.
_DEEP = frozenset({"notes"})
_BEFORE_INDEX = dict(islice(CHECKS.items(), list(CHECKS).index("index")))
#: The same before "index"; then those of a store that is no file, whose own checks are "server" and "rows".
_SHARED_CHECKS: Mapping[str, Callable[[Examination, Outcome], None]] = {
    **_BEFORE_INDEX,
    "index": _open_shared,
    "server": _of_store("server"),
    "rows": _of_store("rows"),
    **{name: CHECKS[name] for name in ("built with", "snippets", "files", "hashes", "notes")},
}
#: The same before "index"; an index of QMD is checked as a whole.
_QMD_CHECKS: Mapping[str, Callable[[Examination, Outcome], None]] = {
    **_BEFORE_INDEX,
    "index": lambda run, out: check_qmd_index(run.settings, run.embedders.primary, out),
}
