"""Curation of one memory: candidates that were not rejected, their effect, and writing them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from itertools import starmap

from openclaw_mem_engine.cancellation import CancelToken
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.curation.candidates import candidates_of
from openclaw_mem_engine.curation.dry_run import DryRun, Effect, Probe
from openclaw_mem_engine.curation.material import Material, NoteCandidate, Recall, material_of
from openclaw_mem_engine.demo import load_queries
from openclaw_mem_engine.demo.workspace import shift_days_for, written_day
from openclaw_mem_engine.errors import Cancelled, IndexDamaged, OpenClawMemError, UsageError
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.notes.edit import NoteEdit
from openclaw_mem_engine.notes.editor import NoteEditor, Written
from openclaw_mem_engine.state.curation import CurationState
from openclaw_mem_engine.stores.sqlite.files import damaged
from openclaw_mem_engine.timeline.merge import TimelineReader
from openclaw_mem_engine.workspace.listing import notes_of

#: Queries of the agent that a change is measured with, the newest.
MOST_PROBES = 20
#: Passages of a judged query count from this grade on (1 to 3): it helps.
FEWEST_GRADE = 2


class Curator:
    """The curation of the notes of ``settings``. Close it. Use one thread at a time."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.time) -> None:
        self.settings = settings
        self.editor = NoteEditor(settings, clock)
        self.state = CurationState(settings.data_dir, settings.agent, settings.workspace, clock)
        self._judged = judged_probes(settings)
        self._dry_run: DryRun | None = None

    def close(self) -> None:
        self._end_dry_run()
        self.state.close()

    def _end_dry_run(self) -> None:
        if self._dry_run is not None:
            self._dry_run.close()
            self._dry_run = None

    def material(self, memory: Memory | None = None) -> Material:
        """The notes as they are on disk; with ``memory`` also what no search shows, unless its index is
        damaged. Raises WorkspaceError."""
        self._end_dry_run()
        settings = self.settings
        listing = notes_of(settings)
        texts = {}
        unread = [f"{file.path} was not read: {file.reason}" for file in listing.excluded if file.transient]
        for file in listing.files:
            try:
                texts[file.path] = self.editor.read(file.path) or ""
            except OpenClawMemError as error:
                why = str(error).removeprefix(file.path).lstrip(": ")
                unread.append(f"{file.path} was not read: {why}")
        hidden = dict[str, float]()
        with suppress(IndexDamaged):  # the notes are read without an index
            hidden = {path: found.share for path, found in memory.unshown().items()} if memory else {}
        limit = settings.bootstrap.max_chars
        modified = {file.path: file.mtime_ns / 1e9 for file in listing.files}
        recalls = (*transcript_recalls(settings), *starmap(Recall, self.state.searches()))
        return material_of(texts, recalls, hidden, limit, unread, modified)

    def candidates(self, material: Material, *, rejected: bool = False) -> list[NoteCandidate]:
        """The candidates that were not rejected, or those that were."""
        gone = self.state.rejected()
        return candidates_of(material, lambda found: (found.id in gone) == rejected)

    def effect(
        self,
        memory: Memory,
        edits: Sequence[NoteEdit],
        material: Material,
        cancel: CancelToken | None = None,
    ) -> Effect:
        """What the edits do to judged queries, to the agent's latest queries, and to expected passages. The
        copy is kept for further edits of this ``material``. Raises UsageError where it cannot be measured,
        IndexDamaged, Cancelled."""
        if self.settings.openclaw.backend != "builtin":
            raise UsageError("The effect is measured only with the built-in backend.")
        if memory.hosts and not self.settings.index_path.is_file():
            hosts = ", ".join(memory.hosts)
            if self.settings.store.location is not None:
                raise UsageError(f"The copy of an index on a server would send all notes to {hosts} again.")
            raise UsageError(f"The effect needs the index: `openclaw-mem index` makes it, with {hosts}.")
        try:
            if self._dry_run is None:
                probes, pins = self.probes(material), memory.expected.read()
                self._dry_run = DryRun(self.settings, memory.knobs, probes, pins)
            return self._dry_run.effect(edits, cancel)
        except Cancelled:  # the copy is as it was
            raise
        except IndexDamaged as damage:  # of the copy, which has every page of the index itself
            self._end_dry_run()
            raise damaged(damage.cause, self.settings.index_path, damage.repair) from damage
        except BaseException:
            self._end_dry_run()
            raise

    def probes(self, material: Material) -> tuple[Probe, ...]:
        """The queries that a change is measured with."""
        latest = dict.fromkeys(recall.query for recall in reversed(material.recalls))
        known = {probe.query for probe in self._judged}
        asked = [Probe(query) for query in latest if query.strip() and query not in known]
        return (*self._judged, *asked[:MOST_PROBES])

    def apply(self, edits: Sequence[NoteEdit]) -> list[Written]:
        """Write the edits of a candidate, all or none. Raises UsageError for a candidate without edits, and
        as ``NoteEditor.write``."""
        if not edits:
            raise UsageError("This proposal is advice: there is nothing to write.")
        done: list[Written] = []
        try:
            for edit in edits:
                done.append(self.editor.write(edit))
        except OpenClawMemError:
            self.undo(done)
            raise
        return done

    def undo(self, done: Sequence[Written]) -> None:
        """Take back what ``apply`` wrote, the last first. Raises as ``NoteEditor.undo``."""
        for written in reversed(done):
            self.editor.undo(written.id)


def judged_probes(settings: Settings) -> tuple[Probe, ...]:
    """The judged queries of the demo when its workspace is the one of ``settings``."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        queries = load_queries(shift_days_for(written_day(settings.workspace.parent)))
        return tuple(
            Probe(query.query, tuple(grade.quote for grade in query.grades if grade.grade >= FEWEST_GRADE))
            for query in queries.judged
        )
    return ()


def transcript_recalls(settings: Settings) -> list[Recall]:
    """The agent's own calls of memory_search, with what they returned, from OpenClaw's transcripts."""
    with closing(TimelineReader(settings)) as reader:
        sessions, _ = reader.sessions()
    return [
        Recall(
            moment.at,
            moment.query,
            tuple((r.path, r.start_line, r.end_line or r.start_line) for r in moment.results if r.start_line),
        )
        for session in sessions
        for moment in session.moments
        if moment.kind == "search" and moment.results
    ]
