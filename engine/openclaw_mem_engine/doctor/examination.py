"""Whether the index is whole: every check, what each found, and mending what can be mended safely."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import apsw

from openclaw_mem_engine.cancellation import CancelToken
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.doctor.file_checks import (
    Disk,
    check_bootstrap,
    check_by_products,
    check_files,
    check_hashes,
    check_notes,
)
from openclaw_mem_engine.doctor.location_checks import (
    check_event_log,
    check_left_overs,
    check_permissions,
    check_records,
    check_size,
    mend_places,
)
from openclaw_mem_engine.doctor.write_checks import check_writing
from openclaw_mem_engine.errors import Cancelled, IndexDamaged, IndexUnavailable, WorkspaceError
from openclaw_mem_engine.model import Progress
from openclaw_mem_engine.providers.base import Embedders, space_of
from openclaw_mem_engine.stores.findings import INDEX, REBUILD, SEVERITIES, Check, Finding, Outcome, Report
from openclaw_mem_engine.stores.sqlite.checks import check_version, diagnose
from openclaw_mem_engine.stores.sqlite.files import index_is_there, unreachable
from openclaw_mem_engine.stores.sqlite.repair import INDEX_CODES, repair
from openclaw_mem_engine.stores.sqlite.snapshot import Snapshot
from openclaw_mem_engine.sync.indexer import fingerprint_of, needs_rebuild
from openclaw_mem_engine.sync.lock import Killed, SyncLock

#: How long mending waits for a sync that is at work, seconds.
LOCK_WAIT_S = 10.0

_FULL_TEXT = "full text"
#: With one of these nothing is written to the index file but by a rebuild.
_HANDS_OFF = frozenset({"damaged", "unreadable", "newer-schema", "tables-missing"})
#: What a damaged page may raise while it is read: SQLite's errors, and ours over NULLs and nonsense.
_DAMAGE = (apsw.Error, TypeError, ValueError, LookupError, AttributeError, ArithmeticError)


def examine(
    settings: Settings,
    embedders: Embedders,
    *,
    deep: bool = False,
    progress: Progress | None = None,
    cancel: CancelToken | None = None,
) -> Report:
    """Look at everything, change nothing, send nothing.

    The index is read as it is, on a connection of its own: opening it for use would already mend some of it.
    ``deep`` also makes every chunk, its words and its vectors' rows again and compares them byte for byte. A
    check that cannot be done is in the report, and the others go on. ``progress`` counts checks or files.
    Raises Cancelled.
    """
    look = _Examination(settings, embedders, deep, progress, cancel)
    look.run()
    findings = sorted(look.findings, key=lambda finding: SEVERITIES.index(finding.severity))
    return Report(tuple(findings), tuple(look.checks), deep)


def fix(
    settings: Settings,
    report: Report,
    cancel: CancelToken | None = None,
    *,
    killed: Killed = lambda *_: None,
) -> list[str]:
    """Mend what ``examine`` found and can be mended; what was done, in words.

    Everything comes from what is on this machine: notes are not touched, nothing is embedded. An index whose
    pages are damaged, or that a newer program wrote, is not written to: that needs a rebuild. ``killed``:
    see ``SyncLock``. Raises SyncBusy when another process keeps the index, IndexUnavailable when it cannot be
    written, Cancelled while it waits for the lock: nothing is mended then.
    """
    codes = {finding.code for finding in report.fixable}
    if any(finding.code in _HANDS_OFF for finding in report.findings):
        codes -= INDEX_CODES
    if not codes:
        return []
    with SyncLock(settings.index_path, "repairing", killed=killed).holding(LOCK_WAIT_S, cancel):
        done = mend_places(settings, codes)
        return done + repair(settings.index_path, codes, extension=settings.vector_extension)


@dataclass(slots=True)
class _Examination:
    settings: Settings
    embedders: Embedders
    deep: bool
    progress: Progress | None
    cancel: CancelToken | None
    findings: list[Finding] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)

    def run(self) -> None:
        settings = self.settings
        self._check("sqlite", lambda out: check_version(None, out))
        self._check("writing", lambda out: check_writing(settings, out))
        self._check("permissions", lambda out: check_permissions(settings, out))
        self._check("left-overs", lambda out: check_left_overs(settings, out))
        self._check("provider records", lambda out: check_records(settings, out))
        self._check("event log", lambda out: check_event_log(settings, out))
        self._check("root files", lambda out: check_bootstrap(settings, out))
        snap = self._open()
        if snap is None:
            return
        try:
            self._look_at(snap)
        finally:
            snap.close()

    def _open(self) -> Snapshot | None:
        """The index, or None with the reason among the findings."""
        path, out = self.settings.index_path, Outcome()
        snap = None
        try:
            if index_is_there(path):
                snap = Snapshot(path, self.cancel, extension=self.settings.vector_extension)
                out.detail = "can be opened"
            else:
                out.detail = "there is none yet"
                out.add("not-there", "info", f"There is no index yet: {path}.", repair=INDEX)
        except IndexDamaged as error:
            out.detail = "cannot be read"
            out.add("damaged", "error", str(error), repair=REBUILD)
        except IndexUnavailable as error:
            out.detail = "cannot be opened"
            if not self._found("no-access"):  # that tells why
                out.add("unavailable", "error", str(error))
        self._take("index", out)
        return snap

    def _look_at(self, snap: Snapshot) -> None:
        settings, deep = self.settings, self.deep
        in_use = [
            space_of(embedder)
            for embedder in (self.embedders.primary, self.embedders.fallback, *self.embedders.also)
        ]
        checks = diagnose(snap, deep=deep, in_use=in_use)
        self._check("integrity", checks["integrity"])
        if not self._check("tables", checks["tables"]) and self._found("tables-missing"):
            return
        self._check("facts", checks["facts"])
        if self._found("newer-schema"):
            return  # its tables mean what only that program knows
        self._check("fingerprint", lambda out: self._fingerprint(snap, out))
        for name in ("chunks", _FULL_TEXT, "vectors", "cache", "recall"):
            self._check(name, checks[name])
        self._check("size", lambda out: check_size(settings, snap, out))
        self._check("by-products", lambda out: check_by_products(settings, snap, out))
        disk = Disk(settings, snap, self.progress, self.cancel)
        self._check("files", lambda out: check_files(disk, out))
        self._check("hashes", lambda out: check_hashes(disk, out))
        if deep:
            self._check("notes", lambda out: self._notes(disk, out))

    def _fingerprint(self, snap: Snapshot, out: Outcome) -> None:
        if self._found("fingerprint-unreadable"):
            out.detail = "cannot be read"
            return
        known = snap.fingerprint()
        wanted = fingerprint_of(self.settings, self.embedders.primary)
        if known is None:
            out.detail = "the index was never begun"
            return
        out.detail = f"built with {known.space.label or 'no provider'}"
        if needs_rebuild(known, wanted):
            told = "; ".join(known.differences(wanted))
            text = f"The index was built with other settings ({told}): the next sync builds it anew."
            out.add("other-fingerprint", "warning", text, repair=INDEX)

    def _notes(self, disk: Disk, out: Outcome) -> None:
        known = None if self._found("fingerprint-unreadable") else disk.snap.fingerprint()
        wanted = fingerprint_of(self.settings, self.embedders.primary)
        if known is None or needs_rebuild(known, wanted) or known.space != wanted.space:
            out.detail = "not compared: the index was built with other settings"
            return
        primary = self.embedders.primary
        check_notes(disk, out, primary.max_input_bytes if primary else None)

    # -- one check --------------------------------------------------------------------------------------

    def _check(self, name: str, look: Callable[[Outcome], None]) -> bool:
        """Do one check; whether it found nothing wrong. Raises Cancelled."""
        if self.cancel is not None and self.cancel.is_set():
            raise Cancelled("The examination was stopped.")
        if self.progress is not None:
            self.progress(len(self.checks), 0, f"checking {name}")
        out = Outcome()
        try:
            look(out)
        except apsw.InterruptError as error:
            raise Cancelled("The examination was stopped.") from error
        except WorkspaceError as error:
            out.detail = "the workspace cannot be looked at"
            out.add("workspace", "error", str(error))
        except OSError as error:
            out.detail = f"could not be done: {error.strerror or error}"
            if not self._found("no-access"):
                text = f"The check of {name} could not be done: {unreachable(self._place(error), error)}"
                out.add("unreachable", "error", text)
            return self._take(name, out, ok=False)
        except _DAMAGE as error:
            out.detail = f"could not be done: {error}"
            if self._found("damaged") or (name == _FULL_TEXT and self._found("full-text-damaged")):
                return self._take(name, out, ok=False)  # that tells all there is to tell
            text = f"The check of {name} met something that cannot be read ({type(error).__name__}: {error})."
            out.add("unreadable", "error", text, repair=REBUILD)
        return self._take(name, out)

    def _place(self, error: OSError) -> Path:
        """What the system refused, as far as it says."""
        return Path(os.fsdecode(error.filename)) if error.filename else self.settings.data_dir

    def _take(self, name: str, out: Outcome, *, ok: bool = True) -> bool:
        check = out.check(name, ok=ok)
        self.checks.append(check)
        self.findings += out.findings
        return check.ok

    def _found(self, code: str) -> bool:
        return any(finding.code == code for finding in self.findings)
