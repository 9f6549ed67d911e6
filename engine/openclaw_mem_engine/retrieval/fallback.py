"""A backend that may fail, and the built-in one that answers until it works again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from openclaw_mem_engine.cancellation import LinkedToken
from openclaw_mem_engine.config.knobs import builtin_knobs, ranking_knobs
from openclaw_mem_engine.config.load import with_backend
from openclaw_mem_engine.errors import Cancelled, OpenClawMemError, UsageError
from openclaw_mem_engine.model import Fallback, Freshness, Note, Progress
from openclaw_mem_engine.providers.faults import QMD_FAULTS
from openclaw_mem_engine.ranking.profiles import QMD_PROCESS
from openclaw_mem_engine.retrieval import Backend, BackendContext, IndexStatus, PassageQuestion, builtin
from openclaw_mem_engine.retrieval.builtin import BuiltinBackend
from openclaw_mem_engine.retrieval.external_passages import ExternalLookup
from openclaw_mem_engine.retrieval.freshness import note_staleness
from openclaw_mem_engine.retrieval.lookup import checked
from openclaw_mem_engine.retrieval.qmd_process import QmdProcessBackend
from openclaw_mem_engine.retrieval.scoped import denial
from openclaw_mem_engine.sync.report import DEFAULT_REQUEST, SyncReport, SyncRequest

if TYPE_CHECKING:
    from openclaw_mem_engine.cancellation import CancelToken
    from openclaw_mem_engine.ranking.knobs import Knobs
    from openclaw_mem_engine.ranking.pool import Pool
    from openclaw_mem_engine.ranking.unshown import Unshown
    from openclaw_mem_engine.sidecar.state import QmdFacts, QmdState
    from openclaw_mem_engine.why_not import WhyNot

_OLDER = Note(
    "qmd-stale",
    "The index of qmd may be older than your notes, deleted ones included: run `openclaw-mem index`.",
    "warning",
)


def open_backend(context: BackendContext) -> Backend:
    """The external program, with the built-in backend for when it does not answer. Raises what opening the
    latter raises."""
    primary = QmdProcessBackend(context)
    index_path = with_backend(context.settings, "builtin").index_path
    if context.settings.qmd_in_process:  # a simulated fault, without the program
        settings = replace(context.settings, index_path=index_path)
        context = replace(context, settings=settings)
    backend = FallbackBackend(primary, primary.upkeep.state, builtin.open_backend(context), context)
    if not context.faults & QMD_FAULTS:
        primary.upkeep.start(resident=context.resident)
    return backend


class FallbackBackend:
    """Contract: ``retrieval.Backend``. ``primary`` searches; after any failure ``builtin`` does, with the
    reason, until a later search finds ``primary`` working. What is asked of an index (``sync``, ``files``,
    ``chunks``, ``doctor``, ``cache``) is asked of the built-in one, so that it is ready; a ``sync``
    also updates ``primary``: that of a search when the notes changed, within the time of a search."""

    def __init__(
        self, primary: QmdProcessBackend, state: QmdState, builtin: BuiltinBackend, context: BackendContext
    ) -> None:
        self.primary = primary
        self.builtin = builtin
        self.settings = context.settings
        self.scores = builtin.scores
        self.capabilities = builtin.capabilities
        self.plan, self.would_rebuild = builtin.plan, builtin.would_rebuild
        self.files, self.chunks = builtin.files, builtin.chunks
        self.examine, self.repair = builtin.examine, builtin.repair
        self.cache_sizes, self.prune_cache = builtin.cache_sizes, builtin.prune_cache
        self._state = state
        self._clock = context.clock
        self._journal = context.journal

    @property
    def name(self) -> str:
        """That of the backend which answers, as far as is known without asking."""
        return self.primary.name if self.fallback is None else self.builtin.name

    @property
    def fallback(self) -> Fallback | None:
        """Why the built-in backend answers; None when ``primary`` does."""
        facts = self._state.facts
        if facts.failing(self.primary.command.command, self._clock()):
            return self._failure(facts)
        missing = self.primary.command.missing
        return Fallback(self.primary.name, missing, "builtin") if missing else None

    def _failure(self, facts: QmdFacts) -> Fallback:
        return Fallback(self.primary.name, facts.reason, "builtin", facts.failed_since, facts.retry_at)

    @property
    def notes(self) -> tuple[Note, ...]:
        notes = (*self.primary.notes, *self.builtin.notes)
        fallback = self.fallback
        return notes if fallback is None else (_note(fallback), *notes)

    # -- searching -------------------------------------------------------------------------------------

    def retrieve(
        self, query: str, knobs: Knobs, cancel: CancelToken | None = None, *, compare: bool = False
    ) -> Pool:
        fallback = self.fallback
        if fallback is None or self._clock() >= (fallback.next_retry or 0.0):
            try:
                pool = self.primary.retrieve(query, knobs, cancel, compare=compare)
            except (Cancelled, UsageError):
                raise
            except (OpenClawMemError, OSError) as error:
                facts = self._state.failed(self.primary.command.command, str(error), self._clock())
                fallback = self._failure(facts)
            else:
                self._state.answered()
                self._journal.answered(None, self.primary.name)
                return self._dated(pool)
        self._journal.answered(fallback, None)
        own = builtin_knobs(self.settings, knobs) if knobs.profile == QMD_PROCESS.profile else knobs
        pool = self.builtin.retrieve(query, own, cancel, compare=compare)
        return replace(pool, fallback=fallback, notes=(_note(fallback), *pool.notes))

    def paths(self) -> tuple[str, ...]:
        return tuple(sorted({*self.primary.paths(), *self.builtin.paths()}))

    def freshness(self) -> Freshness:
        """That of the built-in index, and stale while the program has not seen what it has seen."""
        found = self.builtin.freshness()
        behind = found.state != "empty" and self.fallback is None and self._behind
        return replace(found, state="stale") if behind else found

    @property
    def _behind(self) -> bool:
        """Whether the built-in index has changed since the last update of ``primary`` that followed it."""
        return self._state.facts.generation != self.builtin.store.generation()

    def _dated(self, pool: Pool) -> Pool:
        """An answer of ``primary`` with what is known of its freshness."""
        known, notes = self.builtin.tracker.known, [*pool.notes]
        if self._behind:
            notes.append(_OLDER)
            known = replace(known or Freshness("stale", 0, None), state="stale")
        elif known is not None and known.state == "stale":
            note_staleness(known, notes)
        elif known is not None and known.state == "empty":  # what the program has indexed is not known
            known = None
        return replace(pool, freshness=known, notes=tuple(notes))

    def status(self) -> IndexStatus:
        """The sizes of the built-in index, and who answers."""
        found = self.builtin.status()
        served = self.primary.status() if self.fallback is None else found
        return replace(found, provider=served.provider, model=served.model)

    def interrupt(self) -> None:
        self.primary.interrupt()
        self.builtin.interrupt()

    def close(self) -> None:
        self.primary.close()
        self.builtin.close()

    # -- what is asked of the built-in index -----------------------------------------------------------

    def sync(
        self,
        request: SyncRequest = DEFAULT_REQUEST,
        progress: Progress | None = None,
        cancel: CancelToken | None = None,
    ) -> SyncReport:
        report = self.builtin.sync(request, progress, cancel)
        searching, generation = request.files_s is not None, self.builtin.store.generation()
        if searching and (self.fallback is not None or not self._behind):
            return report
        limit_s = self.settings.qmd.limits.timeout_ms / 1000 if searching else None
        for step in self.primary.upkeep.update(
            cancel, embed=request.tails, debounce=searching, within_s=limit_s
        ):
            if progress is not None:
                progress(0, 0, f"qmd {step.what}")
            if step.error and not searching:  # the answer of a search says so
                report.notes.append(Note("qmd-update-failed", f"QMD: {step.error}", "warning"))
            elif step.what.startswith("update") and not step.error:
                self._state.set(generation=generation)
            report.seconds += step.seconds
        return report

    def unshown(self, knobs: Knobs) -> dict[str, Unshown]:
        return self.builtin.unshown(builtin_knobs(self.settings, knobs))

    def why_not(self, question: PassageQuestion, cancel: CancelToken | None = None) -> WhyNot:
        """Of what answers: of the program files, collections, scope and its own answer; all steps of the
        built-in index."""
        query, knobs = checked(question.query, question.path), question.knobs
        # A search that the scope denies is not made.
        pool = None if denial(self.settings, question.session_key) else self.retrieve(query, knobs, cancel)
        fallback = self.fallback if pool is None else pool.fallback
        if fallback is None:
            return ExternalLookup(self.primary, pool, question, LinkedToken(cancel)).why_not()
        own = knobs if pool is None else ranking_knobs(self.settings, pool, knobs)
        found = self.builtin.why_not(replace(question, knobs=own), cancel)
        return replace(found, notes=(_note(fallback), *found.notes))


def _note(fallback: Fallback) -> Note:
    return Note("qmd-fallback", f"QMD failed: {fallback.reason} The built-in index is used.", "warning")
