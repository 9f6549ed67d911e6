"""The public surface of the engine: what programs around it (the workbench, other tools) import.

Everything here is imported from its own module; nothing is defined here. Importing it loads no database, no
numeric library and no network code: those come with the first memory that is opened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

# One memory: the facade, its settings and what it reports.
from openclaw_mem_engine.answer import Answer as Answer
from openclaw_mem_engine.config.settings import Settings as Settings
from openclaw_mem_engine.config.show import fragment as fragment

# Errors.
from openclaw_mem_engine.errors import Cancelled as Cancelled
from openclaw_mem_engine.errors import OpenClawMemError as OpenClawMemError
from openclaw_mem_engine.errors import UsageError as UsageError

# Explanations, and what an agent is shown.
from openclaw_mem_engine.explain import trace_markdown as trace_markdown

# The index: files, chunks, checks and repairs.
from openclaw_mem_engine.inspection.facade import Health as Health
from openclaw_mem_engine.inspection.file_chunks import Anatomy as Anatomy
from openclaw_mem_engine.inspection.file_chunks import AnatomyState as AnatomyState
from openclaw_mem_engine.inspection.file_chunks import Piece as Piece
from openclaw_mem_engine.inspection.file_list import STANDINGS as FILE_STATES
from openclaw_mem_engine.inspection.file_list import FileRow as FileRow
from openclaw_mem_engine.inspection.file_list import Overview as Overview
from openclaw_mem_engine.inspection.file_list import Standing as FileState
from openclaw_mem_engine.matches import Matches as Matches
from openclaw_mem_engine.model import Excerpt as Excerpt
from openclaw_mem_engine.model import Freshness as Freshness
from openclaw_mem_engine.model import Note as Note
from openclaw_mem_engine.model import Progress as Progress

# Providers.
from openclaw_mem_engine.providers.faults import FAULTS as FAULTS
from openclaw_mem_engine.providers.spent import Spent as Spent
from openclaw_mem_engine.providers.spent import summed as summed

# Ranking: knobs, pool in, trace out.
from openclaw_mem_engine.ranking.knob_table import KNOBS as KNOBS
from openclaw_mem_engine.ranking.knob_table import KnobSpec as KnobSpec
from openclaw_mem_engine.ranking.knob_table import KnobValue as KnobValue
from openclaw_mem_engine.ranking.knob_table import parse_settings as parse_settings
from openclaw_mem_engine.ranking.knobs import PROFILES as PROFILES
from openclaw_mem_engine.ranking.knobs import Knobs as Knobs
from openclaw_mem_engine.ranking.knobs import profile as profile
from openclaw_mem_engine.ranking.pool import Candidate as Candidate
from openclaw_mem_engine.ranking.pool import Pool as Pool
from openclaw_mem_engine.ranking.rank import rank as rank
from openclaw_mem_engine.ranking.trace import Operand as Operand
from openclaw_mem_engine.ranking.trace import Outcome as Outcome
from openclaw_mem_engine.ranking.trace import Row as Row
from openclaw_mem_engine.ranking.trace import Stage as Stage
from openclaw_mem_engine.ranking.trace import Trace as Trace
from openclaw_mem_engine.sanitize import visible as visible

# Events, sync, doctor.
from openclaw_mem_engine.status import Status as Status
from openclaw_mem_engine.stores.base import CacheSize as CacheSize
from openclaw_mem_engine.stores.base import Fingerprint as Fingerprint
from openclaw_mem_engine.stores.findings import INDEX as INDEX
from openclaw_mem_engine.stores.findings import REBUILD as REBUILD
from openclaw_mem_engine.stores.findings import VERIFY as VERIFY
from openclaw_mem_engine.stores.findings import Check as Check
from openclaw_mem_engine.stores.findings import Finding as Finding
from openclaw_mem_engine.stores.findings import Report as DoctorReport
from openclaw_mem_engine.sync.plan import Plan as Plan
from openclaw_mem_engine.sync.plan import PlannedSpace as PlannedSpace
from openclaw_mem_engine.sync.report import SyncReport as SyncReport
from openclaw_mem_engine.sync.watch import watch_notes as watch_notes
from openclaw_mem_engine.tools import present_snippet as present_snippet
from openclaw_mem_engine.tools import shows_citation as shows_citation

if TYPE_CHECKING:
    from openclaw_mem_engine.memory import Memory as Memory
    from openclaw_mem_engine.providers.records import DayUsage as DayUsage
    from openclaw_mem_engine.providers.registry import LinkState as LinkState
    from openclaw_mem_engine.state.events import Event as Event
    from openclaw_mem_engine.state.events import EventKind as EventKind

__all__ = ["FILE_STATES", "DoctorReport", "FileState"]

#: Names whose modules load the database: imported when they are first asked for.
_LAZY = {
    "Memory": "openclaw_mem_engine.memory",
    "DayUsage": "openclaw_mem_engine.providers.records",
    "LinkState": "openclaw_mem_engine.providers.registry",
    "Event": "openclaw_mem_engine.state.events",
    "EventKind": "openclaw_mem_engine.state.events",
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)
