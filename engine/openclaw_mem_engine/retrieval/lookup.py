"""What every lookup of a passage does, whichever backend searches: the walk, and the changes that help."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from openclaw_mem_engine.cancellation import SEARCH_STOPPED, CancelToken
from openclaw_mem_engine.config.knob_settings import openclaw_key
from openclaw_mem_engine.config.knobs import ranking_knobs
from openclaw_mem_engine.errors import UsageError
from openclaw_mem_engine.model import Note
from openclaw_mem_engine.providers.base import stop_if_cancelled
from openclaw_mem_engine.ranking.knobs import Knobs, KnobValue
from openclaw_mem_engine.ranking.pipeline import ranked
from openclaw_mem_engine.ranking.pool import CHUNKS, Candidate, CandidateList, Pool
from openclaw_mem_engine.ranking.state import RankingState
from openclaw_mem_engine.ranking.trace import NOT_SHOWN, Trace
from openclaw_mem_engine.retrieval.scoped import checked_query, denial, scope_decision
from openclaw_mem_engine.why_not import (
    NO_CHANGE,
    RETURNED,
    SAME_LINE,
    Change,
    Passage,
    Step,
    TextChange,
    WhyNot,
)
from openclaw_mem_engine.why_not.changes import Search
from openclaw_mem_engine.why_not.text_changes import text_changes
from openclaw_mem_engine.why_not.tries import MADE_WITH
from openclaw_mem_engine.why_not.walk import ListFact, lines_text, same_line, walk
from openclaw_mem_engine.workspace.reading import checked_path, past_end

if TYPE_CHECKING:
    from openclaw_mem_engine.retrieval import Backend, PassageQuestion

INDEX = TextChange("index", "Run `openclaw-mem index`.")


def checked(query: str, path: str) -> str:
    """The query without blanks around it. Raises UsageError when either is blank, or the query too long."""
    query = checked_query(query)
    checked_path(path)
    return query


def check_line(line: int | None, path: str, lines: int) -> None:
    """Raise UsageError for a line after the last one of a file: as in the range of a chunk, the empty text
    after a last newline counts."""
    if line is not None and line > lines:
        raise UsageError(past_end(path, lines, line))


def _only_here(settings: Mapping[str, KnobValue]) -> bool:
    """Whether the agent cannot be configured with all of these knobs."""
    return any(openclaw_key(name, value) is None for name, value in settings.items())


class Found(Protocol):
    """The candidate lists of a query, and their chunks by id."""

    @property
    def lists(self) -> tuple[CandidateList, ...]: ...
    @property
    def candidates(self) -> Mapping[str, Candidate]: ...


class Holding(Protocol):
    """A chunk that holds what is asked about."""

    @property
    def chunk_id(self) -> str: ...
    @property
    def start_line(self) -> int: ...
    @property
    def end_line(self) -> int: ...


F = TypeVar("F", bound=Found)
C = TypeVar("C", bound=Holding)


class Lookup(ABC, Generic[F, C]):
    """Why one query does not find one passage. Used once, in one thread."""

    #: Knobs that the lists of this backend are made with.
    made_with: Collection[str] = MADE_WITH
    #: Changes of the note that would help.
    _text_changes = staticmethod(text_changes)

    def __init__(self, backend: Backend, question: PassageQuestion, cancel: CancelToken) -> None:
        self._question = question
        self._query = checked(question.query, question.path)
        self._answering = backend
        self._asked = question.path.strip()
        self._line = None if question.line is None else max(1, question.line)
        self._cancel = cancel
        self._steps: list[Step] = []
        self._notes: list[Note] = []
        self._tried = ""
        self._path = self._asked
        # By what they depend on: what was found first is the beginning of what is found for other knobs.
        self._searches: dict[tuple[object, ...], F] = {}
        self._pools: dict[tuple[object, ...], Pool] = {}
        self._completed: dict[tuple[object, ...], Pool] = {}

    def why_not(self) -> WhyNot:
        """Walk and look for changes. Raises as ``Backend.why_not``."""
        chunks = self._file_steps()
        settings, knobs = self._answering.settings, self._question.knobs
        complete, session_key = self._question.complete, self._question.session_key
        if reason := denial(settings, session_key):  # whatever the index holds
            self._steps = [step for step in self._steps if step.ok]
            return self._stop_at("session", f"the scope denies the search: {reason}")
        if isinstance(chunks, WhyNot):
            return chunks
        if settings.openclaw.backend == "qmd":  # also while the built-in index answers
            self._pass("session", f"the scope allows it: {scope_decision(settings, session_key).reason}")
        found = self._found(knobs)
        pool = self._pool_of(found, knobs)
        if complete is not None:
            pool = complete(pool, knobs, self._cancel)
        self._first = pool
        knobs = ranking_knobs(settings, pool, knobs)
        self._knobs = knobs
        state = ranked(pool, knobs)
        trace = state.trace()
        holding, chunks = chunks, self._asked_for(chunks)
        several = len(holding) > 1
        if self._line is not None and not self._showing(chunks, state):
            chunks = self._showing(holding, state) or chunks  # another result has the line already
        chunk = self._nearest(chunks, state, trace, found)
        for at, step in enumerate(self._steps):
            if step.name == "chunk" and several:
                lines = lines_text(chunk)
                self._steps[at] = replace(step, text=f"{step.text}; the next steps are about {lines}")
        others = (one.chunk_id for one in holding) if self._line is not None else ()
        wanted = tuple(dict.fromkeys((chunk.chunk_id, *others)))
        passage = Passage(self._path, chunk.start_line, chunk.end_line, chunk.chunk_id)
        lists = [self._fact(found, chunk.chunk_id, at, trace) for at in range(len(found.lists))]
        walked = walk(self._steps, passage, self._line, lists, state, trace)
        self._notes += trace.notes
        changes, texts = list[Change](), list[TextChange]()
        if walked.stage != RETURNED:
            if sent_in := same_line(pool.candidates.get(chunk.chunk_id), self._line, trace):
                text = f"The text of line {self._line} is also in result {sent_in}, so the agent gets it."
                self._notes.insert(0, Note(SAME_LINE, text))
            if self._line is None:  # the line that the snippet cuts off, not one that another ranking prefers
                self._line = walked.fate.best_line
            changes, texts = self._changes(state, trace, wanted, walked.stage, lists, chunk.chunk_id)
        return WhyNot(
            self._query,
            passage,
            walked.fate.rank is not None,
            walked.fate.rank,
            walked.stage,
            walked.outcome,
            walked.steps,
            tuple(changes),
            tuple(texts),
            tuple(self._notes),
            self._tried,
        )

    def _showing(self, chunks: Sequence[C], state: RankingState) -> Sequence[C]:
        """Those of which the agent receives the whole line."""
        line = self._line or 0
        return [one for one in chunks if state.shown.get(one.chunk_id, NOT_SHOWN).holds(line)]

    def _asked_for(self, chunks: Sequence[C]) -> Sequence[C]:
        """The chunk that the question names, else all that hold the line."""
        asked = self._question
        if named := [chunk for chunk in chunks if chunk.chunk_id == asked.chunk_id]:
            return named
        lines = asked.line, asked.end_line
        whole = [chunk for chunk in chunks if (chunk.start_line, chunk.end_line) == lines]
        if whole:
            self._line = None
        return whole or chunks

    def _changes(
        self,
        state: RankingState,
        trace: Trace,
        wanted: Collection[str],
        stage: str,
        lists: Sequence[ListFact],
        chunk_id: str,
    ) -> tuple[list[Change], list[TextChange]]:
        """What would bring the chunks in; a note when no setting does."""
        stop = partial(stop_if_cancelled, self._cancel, SEARCH_STOPPED)
        asked = stage, self, stop, self.made_with, self.is_known, _only_here
        search = Search(state, wanted, self._line, *asked)
        changes = search.changes()
        if changes and all(change.best_line_cut for change in changes):
            changes += Search(state, wanted, search.best_line, *asked).changes()
        candidate = self._first.candidates.get(chunk_id)
        texts = [*self._text_changes(search, candidate, trace, stage, lists)]
        if not changes:
            settings, self._tried = search.tried
            whole = f"line {self._line}" if self._line else "its best line"
            self._notes.insert(
                0, Note(NO_CHANGE, f"No change returns it with {whole} whole. Tried: {settings}.")
            )
        return changes, texts

    @abstractmethod
    def _file_steps(self) -> Sequence[C] | WhyNot:
        """The chunks that hold the line, or the answer when a step before the ranking says no."""

    def _found(self, knobs: Knobs) -> F:
        """The lists that these knobs need."""
        key = self._key(knobs)
        if key not in self._searches:
            self._searches[key] = self._lists_of(knobs, next(iter(self._searches.values()), None))
        return self._searches[key]

    @abstractmethod
    def _key(self, knobs: Knobs) -> tuple[object, ...]:
        """What the lists themselves depend on."""

    @abstractmethod
    def _lists_of(self, knobs: Knobs, before: F | None) -> F:
        """Search for these knobs, with what the first search found where it is the same."""

    @abstractmethod
    def _pool_of(self, found: F, knobs: Knobs) -> Pool:
        """The pool that a search makes of these lists."""

    @abstractmethod
    def _nearest(self, chunks: Sequence[C], state: RankingState, trace: Trace, found: F) -> C:
        """The chunk that the walk is about."""

    @abstractmethod
    def _fact(self, found: F, chunk_id: str, at: int, trace: Trace) -> ListFact:
        """What the list number ``at`` says of a chunk."""

    # What counterfactuals are tried with: see ``why_not.steps.Pools``.
    def pool(self, knobs: Knobs) -> Pool:
        key = self._key(knobs)
        if key not in self._pools:
            found = self._found(knobs)
            made = replace(self._first, lists=found.lists, candidates=found.candidates, signals={})
            self._pools[key] = self._again(made)
        return self._pools[key]

    def _again(self, pool: Pool) -> Pool:
        """What is remembered of chunks is true of every pool; of lists and signals, of its own."""
        return replace(pool, memo={key: self._first.memo[key] for key in CHUNKS & self._first.memo.keys()})

    @abstractmethod
    def complete(self, knobs: Knobs) -> Pool: ...
    def same(self, knobs: Knobs) -> Knobs:
        return knobs

    def is_known(self, knobs: Knobs) -> bool:  # noqa: ARG002 - of a backend that asks no model
        """Whether what a search with these knobs finds can be said without asking a model."""
        return True

    def _pass(self, name: str, text: str) -> None:
        self._steps.append(Step(name, True, text))

    def _stop_at(self, name: str, text: str, *changes: TextChange) -> WhyNot:
        """The answer for a passage that the ranking never sees."""
        self._steps.append(Step(name, False, text))
        line = self._line or 0
        return WhyNot(
            self._query,
            Passage(self._path, line, line),
            False,
            None,
            name,
            f"{self._path}{f':{line}' if line else ''} is not returned",
            tuple(self._steps),
            (),
            changes,
            tuple(self._answering.notes),
        )

    def _shown_first(self, ids: Collection[str], state: RankingState, trace: Trace) -> str | None:
        """Of chunks that hold a line the one that shows it, else the one nearest to being returned; None when
        all are outside of the pool."""
        rows = [row.chunk_id for row in trace.rows if row.chunk_id in ids]
        line = self._line
        showing = (i for i in rows if line is not None and state.shown.get(i, NOT_SHOWN).holds(line))
        return next(showing, rows[0]) if rows else None
