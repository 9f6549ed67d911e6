"""What a sync did, as sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from openclaw_mem_tui.render import format as fmt

if TYPE_CHECKING:
    from openclaw_mem_engine.api import DoctorReport, ExcludedFile, Freshness, SyncReport


class Done(NamedTuple):
    """What was done before a sync: ``text`` is said before what that found, which does not repeat the name of
    the note ``path``, and ``then`` behind it."""

    text: str = ""
    path: str = ""
    then: str = ""

    def around(self, found: str) -> str:
        """One sentence of all of it."""
        return fmt.join((self.text, found.removeprefix(f"{self.path} "), self.then), "; ")


def outcome(report: SyncReport) -> str:
    """What a sync did, as a sentence; empty when it did nothing."""
    changed, gone, left_out = report.changed, report.deleted, report.newly_excluded
    each = [f"{path} indexed" for path in changed] + [f"{path} deleted" for path in gone]
    each += [f"{path} not included any more" for path in report.not_included]
    each += [f"excluded: {file.path}, {file.reason}" for file in left_out]
    if not each and report.embedded:
        return f"{fmt.count(report.embedded, 'vector')} made"
    if len(each) < 2:
        return "".join(each)
    parts = (
        fmt.count(len(changed), "file") + " indexed" if changed else "",
        f"{len(gone)} deleted" if gone else "",
        f"{len(report.not_included)} not included any more" if report.not_included else "",
        f"{len(left_out)} excluded" if left_out else "",
    )
    return f"{fmt.join(parts, ', ')} in {report.seconds:.1f} s"


def embeddings(report: SyncReport) -> str:
    """Where the embeddings of a new index are from; empty for one without."""
    if not report.cache_hits + report.embedded:
        return ""
    return f"{fmt.count(report.cache_hits, 'embedding')} reused, {report.embedded:,} made"


def examined(report: DoctorReport, at: float) -> str:
    """What the start page says of checks that ran ``at``, as it does of those in the log; empty when they
    found neither errors nor warnings."""
    if not (report.errors or report.warnings):
        return ""
    found = f"{fmt.count(report.errors, 'error')}, {fmt.count(report.warnings, 'warning')}."
    return f"doctor, {fmt.clock(at, at)}: {found}"


def unchanged(freshness: Freshness | None) -> str:
    """What a sync says that had nothing to do: it has read nothing, so it knows nothing of the index."""
    emptied = freshness.emptied if freshness is not None else None
    return f"the index is kept: {cause(emptied)}" if emptied else "no note changed"


def cause(emptied: ExcludedFile) -> str:
    """Why a sync keeps what the index has of notes that are not found any more."""
    return fmt.inert(emptied.reason.partition(": ")[0])


def verified(report: SyncReport) -> str:
    """What a sync that read every file and found nothing to do has shown."""
    out = sum(not (file.by_rule or file.of_workspace) for file in report.excluded)
    read = f"{fmt.count(report.verified, 'file')} read: index matches disk"
    return f"{read}; {fmt.count(out, 'file')} excluded" if out else read
