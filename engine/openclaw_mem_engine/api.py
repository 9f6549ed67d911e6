"""The public surface of the engine: the names that the workbench and other programs import.

A name is loaded at first use, so that importing this module costs nothing.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from openclaw_mem_engine.answer import Answer as Answer
    from openclaw_mem_engine.answer import Hit as Hit
    from openclaw_mem_engine.answer import Matches as Matches
    from openclaw_mem_engine.answer import Status as Status
    from openclaw_mem_engine.answer_text import Fate as Fate
    from openclaw_mem_engine.answer_text import fate as fate
    from openclaw_mem_engine.answer_text import found as found
    from openclaw_mem_engine.answer_text import unrelated as unrelated
    from openclaw_mem_engine.answer_text import unsearched as unsearched
    from openclaw_mem_engine.answer_text import would_add as would_add
    from openclaw_mem_engine.cancellation import CancelToken as CancelToken
    from openclaw_mem_engine.commands import DOCTOR as DOCTOR
    from openclaw_mem_engine.commands import FIX as FIX
    from openclaw_mem_engine.commands import INDEX as INDEX
    from openclaw_mem_engine.commands import PRUNE as PRUNE
    from openclaw_mem_engine.commands import REBUILD as REBUILD
    from openclaw_mem_engine.commands import VERIFY as VERIFY
    from openclaw_mem_engine.commands import advice as advice
    from openclaw_mem_engine.config.knob_settings import openclaw_key as openclaw_key
    from openclaw_mem_engine.config.knobs import configured_knobs as configured_knobs
    from openclaw_mem_engine.config.knobs import knobs_as_settings as knobs_as_settings
    from openclaw_mem_engine.config.knobs import ranking_knobs as ranking_knobs
    from openclaw_mem_engine.config.knobs import set_here as set_here
    from openclaw_mem_engine.config.knobs import usual_knobs as usual_knobs
    from openclaw_mem_engine.config.load import load_settings as load_settings
    from openclaw_mem_engine.config.load import with_backend as with_backend
    from openclaw_mem_engine.config.own_file import SettingsEdit as SettingsEdit
    from openclaw_mem_engine.config.own_file import propose_settings as propose_settings
    from openclaw_mem_engine.config.own_file import propose_undo as propose_undo
    from openclaw_mem_engine.config.own_file import write_settings as write_settings
    from openclaw_mem_engine.config.settings import Origin as Origin
    from openclaw_mem_engine.config.settings import Settings as Settings
    from openclaw_mem_engine.config.show import fragment as fragment
    from openclaw_mem_engine.config.show import fragment_files as fragment_files
    from openclaw_mem_engine.curation.curator import Curator as Curator
    from openclaw_mem_engine.curation.dry_run import Effect as Effect
    from openclaw_mem_engine.curation.material import Budget as Budget
    from openclaw_mem_engine.curation.material import FileUse as FileUse
    from openclaw_mem_engine.curation.material import Material as Material
    from openclaw_mem_engine.curation.material import NoteCandidate as NoteCandidate
    from openclaw_mem_engine.curation.material import masked_diff as masked_diff
    from openclaw_mem_engine.demo import SuggestedQuery as SuggestedQuery
    from openclaw_mem_engine.errors import Cancelled as Cancelled
    from openclaw_mem_engine.errors import ConfigError as ConfigError
    from openclaw_mem_engine.errors import IndexDamaged as IndexDamaged
    from openclaw_mem_engine.errors import IndexLocked as IndexLocked
    from openclaw_mem_engine.errors import IndexUnavailable as IndexUnavailable
    from openclaw_mem_engine.errors import OpenClawMemError as OpenClawMemError
    from openclaw_mem_engine.errors import PathRefused as PathRefused
    from openclaw_mem_engine.errors import ProviderError as ProviderError
    from openclaw_mem_engine.errors import UsageError as UsageError
    from openclaw_mem_engine.errors import WorkspaceError as WorkspaceError
    from openclaw_mem_engine.errors import did_you_mean as did_you_mean
    from openclaw_mem_engine.explain import diversity_sum as diversity_sum
    from openclaw_mem_engine.explain import final_digits as final_digits
    from openclaw_mem_engine.explain import made_of as made_of
    from openclaw_mem_engine.explain import not_searched as not_searched
    from openclaw_mem_engine.explain import relevance as relevance
    from openclaw_mem_engine.explain import returned_words as returned_words
    from openclaw_mem_engine.explain import trace_markdown as trace_markdown
    from openclaw_mem_engine.inspection import FILE_STATES as FILE_STATES
    from openclaw_mem_engine.inspection import FileRow as FileRow
    from openclaw_mem_engine.inspection import FileState as FileState
    from openclaw_mem_engine.inspection import Overview as Overview
    from openclaw_mem_engine.inspection import files_on_disk as files_on_disk
    from openclaw_mem_engine.inspection.file_chunks import Anatomy as Anatomy
    from openclaw_mem_engine.inspection.file_chunks import AnatomyState as AnatomyState
    from openclaw_mem_engine.inspection.file_chunks import Piece as Piece
    from openclaw_mem_engine.memory import Memory as Memory
    from openclaw_mem_engine.model import VECTORS as VECTORS
    from openclaw_mem_engine.model import WAITING as WAITING
    from openclaw_mem_engine.model import Excerpt as Excerpt
    from openclaw_mem_engine.model import ExcludedFile as ExcludedFile
    from openclaw_mem_engine.model import Expected as Expected
    from openclaw_mem_engine.model import Fallback as Fallback
    from openclaw_mem_engine.model import Freshness as Freshness
    from openclaw_mem_engine.model import Note as Note
    from openclaw_mem_engine.model import Progress as Progress
    from openclaw_mem_engine.model import says_damage as says_damage
    from openclaw_mem_engine.model import utf16_length as utf16_length
    from openclaw_mem_engine.notes.edit import NoteEdit as NoteEdit
    from openclaw_mem_engine.notes.editor import NoteEditor as NoteEditor
    from openclaw_mem_engine.notes.editor import Written as Written
    from openclaw_mem_engine.notes.routing import Proposal as Proposal
    from openclaw_mem_engine.notes.routing import remember as remember
    from openclaw_mem_engine.providers.factory import ProviderState as ProviderState
    from openclaw_mem_engine.providers.faults import FAULTS as FAULTS
    from openclaw_mem_engine.providers.prices import IN_PROCESS as IN_PROCESS
    from openclaw_mem_engine.providers.prices import Spent as Spent
    from openclaw_mem_engine.providers.prices import summed as summed
    from openclaw_mem_engine.providers.records import DayUsage as DayUsage
    from openclaw_mem_engine.providers.resolve import prospects as prospects
    from openclaw_mem_engine.providers.services import ServiceState as ServiceState
    from openclaw_mem_engine.qmd.scope import session_scope as session_scope
    from openclaw_mem_engine.ranking.kinds import RankedList as RankedList
    from openclaw_mem_engine.ranking.kinds import kinds_of as kinds_of
    from openclaw_mem_engine.ranking.knob_spec import knob_words as knob_words
    from openclaw_mem_engine.ranking.knobs import KNOBS as KNOBS
    from openclaw_mem_engine.ranking.knobs import Knobs as Knobs
    from openclaw_mem_engine.ranking.knobs import KnobSpec as KnobSpec
    from openclaw_mem_engine.ranking.knobs import KnobValue as KnobValue
    from openclaw_mem_engine.ranking.knobs import parse_settings as parse_settings
    from openclaw_mem_engine.ranking.lines import NoteLine as NoteLine
    from openclaw_mem_engine.ranking.lines import note_lines as note_lines
    from openclaw_mem_engine.ranking.pipeline import rank as rank
    from openclaw_mem_engine.ranking.pool import Candidate as Candidate
    from openclaw_mem_engine.ranking.pool import Pool as Pool
    from openclaw_mem_engine.ranking.profiles import PROFILES as PROFILES
    from openclaw_mem_engine.ranking.profiles import SELECTABLE as SELECTABLE
    from openclaw_mem_engine.ranking.profiles import changed as changed
    from openclaw_mem_engine.ranking.profiles import profile as profile
    from openclaw_mem_engine.ranking.query_words import FUNCTION_WORDS as FUNCTION_WORDS
    from openclaw_mem_engine.ranking.stages.decay import age_of as age_of
    from openclaw_mem_engine.ranking.trace import Drop as Drop
    from openclaw_mem_engine.ranking.trace import Operand as Operand
    from openclaw_mem_engine.ranking.trace import Outcome as Outcome
    from openclaw_mem_engine.ranking.trace import Result as Result
    from openclaw_mem_engine.ranking.trace import Row as Row
    from openclaw_mem_engine.ranking.trace import Stage as Stage
    from openclaw_mem_engine.ranking.trace import Trace as Trace
    from openclaw_mem_engine.ranking.trace import recompute as recompute
    from openclaw_mem_engine.ranking.unshown import never_shown as never_shown
    from openclaw_mem_engine.ranking.unshown import percent as percent
    from openclaw_mem_engine.redact import redacted as redacted
    from openclaw_mem_engine.retrieval import examine_unopened as examine_unopened
    from openclaw_mem_engine.retrieval import repair_unopened as repair_unopened
    from openclaw_mem_engine.retrieval.scoped import scope_decision as scope_decision
    from openclaw_mem_engine.retrieval.unread import damage_of as damage_of
    from openclaw_mem_engine.sanitize import byte_size as byte_size
    from openclaw_mem_engine.sanitize import capital as capital
    from openclaw_mem_engine.sanitize import counted as counted
    from openclaw_mem_engine.sanitize import ordinal as ordinal
    from openclaw_mem_engine.sanitize import visible_line as visible_line
    from openclaw_mem_engine.sidecar.state import QmdFacts as QmdFacts
    from openclaw_mem_engine.sidecar.state import known_of as known_of
    from openclaw_mem_engine.state import private_folder as private_folder
    from openclaw_mem_engine.state.events import Event as Event
    from openclaw_mem_engine.state.events import EventKind as EventKind
    from openclaw_mem_engine.state.workbench import WorkbenchState as WorkbenchState
    from openclaw_mem_engine.stores.base import CacheSize as CacheSize
    from openclaw_mem_engine.stores.base import Fingerprint as Fingerprint
    from openclaw_mem_engine.stores.damage import file_damage as file_damage
    from openclaw_mem_engine.stores.damage import index_stamp as index_stamp
    from openclaw_mem_engine.stores.damage import saveable_embeddings as saveable_embeddings
    from openclaw_mem_engine.stores.findings import CLOSED as CLOSED
    from openclaw_mem_engine.stores.findings import KEEP_DAMAGED as KEEP_DAMAGED
    from openclaw_mem_engine.stores.findings import UNWRITABLE as UNWRITABLE
    from openclaw_mem_engine.stores.findings import Check as Check
    from openclaw_mem_engine.stores.findings import DoctorReport as DoctorReport
    from openclaw_mem_engine.stores.findings import Finding as Finding
    from openclaw_mem_engine.sync.coordinator import set_aside as set_aside
    from openclaw_mem_engine.sync.events import Journal as Journal
    from openclaw_mem_engine.sync.follow import FollowEvent as FollowEvent
    from openclaw_mem_engine.sync.plan import Plan as Plan
    from openclaw_mem_engine.sync.plan import PlannedSpace as PlannedSpace
    from openclaw_mem_engine.sync.report import SyncReport as SyncReport
    from openclaw_mem_engine.sync.report import SyncRequest as SyncRequest
    from openclaw_mem_engine.timeline.merge import TimelineReader as TimelineReader
    from openclaw_mem_engine.timeline.merge import missed_flushes as missed_flushes
    from openclaw_mem_engine.timeline.model import Moment as Moment
    from openclaw_mem_engine.timeline.model import Session as Session
    from openclaw_mem_engine.timeline.model import Timeline as Timeline
    from openclaw_mem_engine.timeline.model import Write as Write
    from openclaw_mem_engine.timeline.model import sparkline as sparkline
    from openclaw_mem_engine.timeline.writes import Difference as Difference
    from openclaw_mem_engine.timeline.writes import FileDay as FileDay
    from openclaw_mem_engine.timeline.writes import by_file_and_day as by_file_and_day
    from openclaw_mem_engine.timeline.writes import difference as difference
    from openclaw_mem_engine.tools import memory_get as memory_get
    from openclaw_mem_engine.tools import memory_search as memory_search
    from openclaw_mem_engine.tools import present_snippet as present_snippet
    from openclaw_mem_engine.tools import shows_citation as shows_citation
    from openclaw_mem_engine.why_not import ONLY_HERE_MEANS as ONLY_HERE_MEANS
    from openclaw_mem_engine.why_not import Change as Change
    from openclaw_mem_engine.why_not import Passage as Passage
    from openclaw_mem_engine.why_not import Step as Step
    from openclaw_mem_engine.why_not import TextChange as TextChange
    from openclaw_mem_engine.why_not import WhyNot as WhyNot
    from openclaw_mem_engine.workspace.listing import notes_not_included as notes_not_included
    from openclaw_mem_engine.workspace.reading import BUDGET_LINES as BUDGET_LINES
    from openclaw_mem_engine.workspace.reading import BUDGET_SEVERITY as BUDGET_SEVERITY

else:  # a type checker that saw this would accept any name

    def __getattr__(name: str) -> Any:
        if (module := _modules().get(name)) is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(module), name)
        return value


@cache
def _modules() -> dict[str, str]:
    """Public name to its module, as the imports above say it to type checkers: there is no second list."""
    source = Path(__file__).read_text(encoding="utf-8")
    return {name: module for module, name in re.findall(r"^    from (\S+) import (\w+) as ", source, re.M)}
