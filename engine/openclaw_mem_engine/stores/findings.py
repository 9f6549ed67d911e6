"""What an examination of the index comes to: checks that were made, and what they found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, field, replace
from itertools import islice
from typing import Any, Literal

from openclaw_mem_engine.commands import FIX, INDEX, REBUILD, VERIFY
from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_engine.ranking.unshown import Unshown, by_file
from openclaw_mem_engine.sanitize import one_line, visible

Severity = Literal["error", "warning", "info"]
#: The worst first.
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")

#: With one of these no sync runs, and nothing is written. Permissions can be changed, those of ``CLOSED``
#: always, and ``OPEN`` ones of what is not "unavailable".
CLOSED, OPEN = frozenset({"no-access", "not-writable"}), "permissions"
UNWRITABLE = frozenset({*CLOSED, "disk-full", "unavailable"})

#: Damaged indexes that a repair keeps, the last ones: each is as large as an index.
KEEP_DAMAGED = 2
#: What is repaired without a new index.
LOCATION_CODES = frozenset({"leftovers", "log-large", OPEN, *CLOSED})

#: How many paths or rows are shown of all; the text has the exact number. Characters of each.
EVIDENCE, _EVIDENCE_CHARS = 5, 200


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it should be. ``code`` is stable. An ``error`` makes answers wrong or
    incomplete without a word, a ``warning`` makes them less than they could be, ``info`` is worth knowing.
    ``repair`` is the command to type, "" when nothing need be done. ``fixable``: ``doctor --fix`` repairs it
    without a sync."""

    code: str
    severity: Severity
    text: str
    evidence: tuple[str, ...] = ()
    repair: str = ""
    fixable: bool = False

    @property
    def replaces(self) -> bool:
        """Whether its repair is a new index in place of the damaged one."""
        return self.fixable and self.code not in LOCATION_CODES

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"evidence": list(self.evidence)}


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was examined. ``worst`` is the severity of what it found: "info" when that is nothing,
    "error" also when it could not be done; ``detail`` is what was seen, with numbers. ``found`` counts its
    findings."""

    name: str
    worst: Severity
    detail: str
    found: int = 0

    @property
    def ok(self) -> bool:
        return self.worst == "info"

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "ok": self.ok, "detail": self.detail}


@dataclass(frozen=True, slots=True)
class DoctorReport:
    """Everything that was found, the worst first, every check, in order, and by file what no search shows."""

    findings: tuple[Finding, ...]
    checks: tuple[Check, ...]
    deep: bool = False
    unshown: Mapping[str, Unshown] = field(default_factory=dict)

    @property
    def errors(self) -> int:
        return sum(finding.severity == "error" for finding in self.findings)

    @property
    def warnings(self) -> int:
        return sum(finding.severity == "warning" for finding in self.findings)

    @property
    def fixable(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.fixable)

    @property
    def synced(self) -> tuple[Finding, ...]:
        """Those that a sync which reads every file repairs."""
        return tuple(finding for finding in self.findings if finding.repair in (INDEX, REBUILD, VERIFY))

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as ``openclaw-mem doctor --json`` prints it."""
        return {
            "deep": self.deep,
            "errors": self.errors,
            "findings": [finding.to_dict() for finding in self.findings],
            "checks": [check.to_dict() for check in self.checks],
            "unshown": by_file(self.unshown),
        }


class Outcome:
    """What one check collects."""

    def __init__(self) -> None:
        self.detail = ""
        self.findings: list[Finding] = []

    def add(
        self, code: str, severity: Severity, text: str, evidence: Iterable[str] = (), repair: str = ""
    ) -> None:
        """Note something. Of the evidence the first few are kept, printable and cut to a length."""
        some = tuple(one_line(item)[:_EVIDENCE_CHARS] for item in islice(evidence, EVIDENCE))
        fixable = repair.startswith(FIX)
        self.findings.append(Finding(code, severity, visible(text), some, repair, fixable))

    def check(self, name: str, *, ok: bool = True) -> Check:
        """The check as it went; not ``ok`` when it could not be done to its end."""
        found = {"info" if ok else "error", *(finding.severity for finding in self.findings)}
        worst = next(severity for severity in SEVERITIES if severity in found)
        return Check(name, worst, self.detail, len(self.findings))


def folded(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings, in order; those of one code with the same repair as one, with their number, and the
    texts of the others as evidence."""
    kinds: dict[tuple[object, ...], list[Finding]] = {}
    for finding in findings:
        kind = finding.code, finding.severity, finding.repair, finding.fixable
        kinds.setdefault(kind, []).append(finding)
    return tuple(_folded(first, more) for first, *more in kinds.values())


def _folded(first: Finding, more: Sequence[Finding]) -> Finding:
    if not more:
        return first
    evidence = (*first.evidence, *(finding.text for finding in more))[:EVIDENCE]
    return replace(first, text=f"{len(more) + 1} findings like this: {first.text}", evidence=evidence)
