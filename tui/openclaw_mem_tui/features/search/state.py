"""The state of the search lab as one frozen value, and the few ways in which it changes. No Textual here.
Everything on the screen is drawn from one ``View``. Ranking is asked of the engine's ``rank()``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Literal

from openclaw_mem_engine import api
from openclaw_mem_engine.api import KNOBS, SELECTABLE, profile
from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_tui.features.search.baseline import AFTER, BEFORE, Baseline, Pin, edited
from openclaw_mem_tui.features.search.history import Tried

if TYPE_CHECKING:
    from openclaw_mem_engine.api import Candidate, Expected, Knobs, KnobValue, Pool, Result, Settings, Trace

Columns = Literal["scores", "ranks", "contributions"]
COLUMNS: tuple[Columns, ...] = ("scores", "ranks", "contributions")
Citations = Literal["auto", "on", "off"]
CITATIONS: tuple[Citations, ...] = ("auto", "on", "off")

#: The first row of the knob panel; it sets all others.
PROFILE = "profile"
KNOB_NAMES: tuple[str, ...] = (PROFILE, *KNOBS)

#: The name of the baseline while a fault is simulated.
HEALTHY_RUN = "no fault"


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """One answer and everything needed to draw it.

    ``knobs`` are those set by the user; the shown rows, ranked with ``trace.knobs``, may wait for an answer
    (``pending``) or for nothing more (``error`` says why). ``against`` replaces the configured defaults as
    baseline (for a lesson), and ``pin`` both. ``faults`` are switched on, ``pool_faults`` are those under
    which the shown rows were found: then the baseline is what the same knobs make of ``other_pool``, that of
    the memory without faults; else ``other_pool`` is that of the baseline's knobs, where they need their own.
    ``expected`` passages are reported in every answer to the query of each ("": to any); ``earlier`` is the
    answer to the same query before. ``backend`` answers; ``scoring``: rerank scores of the shown rows are on
    their way; ``again``: their pool was shown before, ranked otherwise. ``settings`` decide how an answer of
    the built-in index is ranked when another backend is configured (None: as any), and which values stay with
    another profile (None: none). ``session_key`` ("": a direct chat) decides about scope and citations."""

    defaults: Knobs
    knobs: Knobs
    query: str = ""
    pool: Pool | None = None
    pool_key: tuple[object, ...] = ()
    trace: Trace | None = None
    baseline: Baseline | None = None
    against: Knobs | None = None
    last_pin: Pin | None = None
    pending: bool = False
    error: str = ""
    faults: frozenset[str] = frozenset()
    pool_faults: frozenset[str] = frozenset()
    other_pool: Pool | None = None
    expected: Mapping[Expected, str] = field(default_factory=dict)
    earlier: Trace | None = None
    backend: str = ""
    scoring: bool = False
    again: bool = False
    settings: Settings | None = None
    session_key: str = ""

    @property
    def shown_faults(self) -> frozenset[str]:
        """What the banner must name: also while the rows of a fault that was switched off are still there."""
        return self.faults | self.pool_faults

    @property
    def tried(self) -> Tried:
        return Tried(self.knobs, self.faults)

    @property
    def pin(self) -> Pin | None:
        """The pinned run that is the baseline: the last one, as long as it lasts."""
        return self.last_pin.lasting(self.knobs, self.defaults) if self.last_pin is not None else None

    @property
    def baseline_knobs(self) -> Knobs:
        if self.faults:
            return self.knobs
        return self.pin.knobs if self.pin is not None else self.against or self.defaults

    @property
    def baseline_name(self) -> str:
        if self.pool_faults:
            return HEALTHY_RUN
        if self.other_backend:
            return self.other_backend
        if self.pin is not None:
            return self.pin.name if self.pin.query == self.query else self.pin.knobs_name
        return "of the lesson" if self.against is not None else "default"

    @property
    def other_backend(self) -> str:
        """The backend whose answer is the baseline; empty when it is the one that answers."""
        if self.pin is None or self.faults or self.pin.backend == self.backend:
            return ""
        return self.pin.backend

    @property
    def compares(self) -> bool:
        """Whether there is a baseline that is not the shown trace itself."""
        return self.baseline is not None and self.baseline.trace is not self.trace

    @property
    def answers(self) -> bool:
        """Whether the shown rows belong to the query and knobs as they are now."""
        return self.trace is not None and not self.pending and not self.error

    def candidate(self, chunk_id: str) -> Candidate | None:
        """The chunk of a row, also of one that only the baseline found."""
        for pool in (self.pool, self.other_pool, self.pin.pool if self.pin is not None else None):
            if pool is not None and chunk_id in pool.candidates:
                return pool.candidates[chunk_id]
        return None

    def result(self, chunk_id: str) -> Result | None:
        """What the agent receives that shows lines of a chunk; None when it gets none of it."""
        results = self.trace.results if self.trace is not None else ()
        return next((result for result in results if chunk_id in result.chunk_ids), None)

    def results_of(self, path: str) -> list[Result]:
        """What the agent receives of a file."""
        results = self.trace.results if self.trace is not None else ()
        return [result for result in results if result.path == path]

    def changed_knobs(self) -> dict[str, KnobValue]:
        """What differs from the configured defaults."""
        return self.knobs.changes_from(self.defaults)


#: What the rows and the panes around them are drawn from.
_ROWS = attrgetter("trace", "baseline", "knobs", "defaults", "expected")


def same_rows(before: View, view: View) -> bool:
    """Whether the two are drawn the same but for the edges: an unanswered query changes no row."""
    return view.trace is not None and _ROWS(before) == _ROWS(view)


def opened(view: View, defaults: Knobs, backend: str = "") -> View:
    """The configured defaults are known; what the user has set meanwhile stays."""
    untouched = view.knobs == view.defaults
    knobs = defaults if untouched else view.knobs
    return replace(view, defaults=defaults, knobs=knobs, backend=backend)


def with_backend(view: View, backend: str, defaults: Knobs) -> View:
    """Another backend answers from now on, with its own configured knobs. The shown run becomes the baseline;
    its rows stay until they are answered anew."""
    pin = view.pin
    if view.trace is not None and view.answers and not view.shown_faults:
        pin = Pin(view.query, view.knobs, view.trace, view.pool, view.backend)
    view = replace(view, backend=backend, defaults=defaults, knobs=defaults, last_pin=pin, against=None)
    return replace(view, pool_key=(), pending=bool(view.query.strip()), error="", earlier=None)


def as_session(view: View, session_key: str) -> View:
    """Another session asks: the rows stay until they are answered anew."""
    pending = bool(view.query.strip())
    return replace(view, session_key=session_key, pool_key=(), earlier=None, error="", pending=pending)


def asked(view: View, query: str) -> View:
    """A new query: the old rows stay, marked as not the answer. A blank query has no rows."""
    pin = view.last_pin.asked(query) if view.last_pin is not None else None
    if not query.strip():
        bare = View(view.defaults, view.knobs, query, expected=view.expected, settings=view.settings)
        bare = replace(bare, backend=view.backend, session_key=view.session_key)
        return replace(bare, against=view.against, last_pin=pin, faults=view.faults)
    return replace(view, query=query, last_pin=pin, pending=True, error="")


def ranked(view: View, pool: Pool, knobs: Knobs) -> Trace:
    """As ``Memory.search`` ranks."""
    return api.rank(pool, knobs if view.settings is None else api.ranking_knobs(view.settings, pool, knobs))


def answered(view: View, pool: Pool, baseline_pool: Pool | None = None) -> View:
    """A pool has arrived, found under the faults that are on: rank it. ``baseline_pool`` is given when the
    baseline needs another one: its knobs do, or it is the run without faults."""
    key, trace = view.knobs.retrieval_key, ranked(view, pool, view.knobs)
    if view.trace is not None and not view.scoring:
        view = replace(view, earlier=view.trace if view.trace.query == pool.query else None)
    view = replace(view, again=pool is view.pool, pool=pool, pool_key=key, pool_faults=view.faults)
    view = replace(view, other_pool=baseline_pool, trace=trace, pending=False, error="", scoring=False)
    return _with_baseline(view, baseline_pool)


def scored(view: View, pool: Pool) -> View:
    """A pool whose rerank scores are on their way: its rows are shown as far as they are scored."""
    return replace(answered(view, pool, view.other_pool if view.scoring else None), scoring=True)


def failed(view: View, message: str) -> View:
    """There is no answer. Rows that are shown without all of their rerank scores say so."""
    if view.scoring and view.pool is not None:
        pool = replace(view.pool, rerank_missing="the search was stopped")
        view = replace(answered(view, pool, view.other_pool), pool_key=())
    return replace(view, pending=False, error=message)


def unanswered(view: View, message: str) -> View:
    """A search failed: rows stay below their own query only."""
    bare = replace(asked(view, ""), query=view.query, last_pin=view.last_pin)
    return failed(view if view.trace is not None and view.trace.query == view.query else bare, message)


def with_faults(view: View, faults: frozenset[str]) -> View:
    """Other faults are switched on: the rows, found under others, stay until they are answered anew."""
    if faults == view.faults:
        return view
    return replace(view, faults=faults, pending=bool(view.query.strip()), error="")


def tuned(view: View, knobs: Knobs) -> View:
    """Other knobs: ranked at once when the pool allows it, else pending until a retrieval."""
    view = replace(view, knobs=knobs)
    if view.pool is None or not view.query.strip():
        return view
    if knobs.retrieval_key != view.pool_key or view.faults != view.pool_faults:
        return replace(view, pending=True)
    if view.pool.query != view.query or view.error:
        return view
    trace = ranked(view, view.pool, knobs)
    return _with_baseline(replace(view, trace=trace, pending=False, again=True), None)


def needs_retrieval(view: View) -> bool:
    """Whether the pool at hand does not serve the present query and knobs."""
    if not view.query.strip():
        return False
    if view.faults != view.pool_faults:
        return True
    return view.pool is None or view.pool.query != view.query or view.knobs.retrieval_key != view.pool_key


def needs_baseline_pool(view: View) -> bool:
    """Whether the baseline is ranked from another pool than the answer."""
    if view.faults:
        return True
    if view.pin is not None and view.pin.query == view.query:
        return False
    if view.other_backend:
        return True
    return view.baseline_knobs.retrieval_key != view.knobs.retrieval_key


def pinned(view: View, name: str = "pinned", made: Knobs | None = None) -> View:
    """The present run becomes the baseline; of knobs that are to be ``made`` of its own, once they are tuned.
    Nothing changes without an answer, or while a fault is on."""
    if view.trace is None or not view.answers or view.shown_faults:
        return view
    under = view.pin if made is not None else None
    pin = Pin(view.query, view.knobs, view.trace, view.pool, view.backend, name, made, under)
    return _with_baseline(replace(view, last_pin=pin), None)


def against(view: View, pin: Pin | None = None, knobs: Knobs | None = None) -> View:
    """Another baseline: of a ``pin`` or of knobs, else as configured. Moves against the last one go too."""
    return _with_baseline(replace(view, last_pin=pin, against=knobs, earlier=None), None)


def swapped(view: View) -> View:
    """The shown run is the baseline: of a lesson by its knobs, else pinned. The knobs are to be tuned."""
    pin = view.pin
    if view.against is not None and pin is None:
        return replace(view, against=view.knobs)
    if pin is not None and pin.under is not None and (pin.name, pin.under.knobs) == (AFTER, view.knobs):
        return replace(view, last_pin=pin.under)
    assert view.trace is not None
    now = Pin(view.query, view.knobs, view.trace, view.pool, view.backend)
    if pin is not None and pin.name == BEFORE:
        now = replace(now, name=AFTER, made=pin.knobs, under=pin)
    return replace(view, last_pin=now)


def _with_baseline(view: View, baseline_pool: Pool | None) -> View:
    pool, trace, knobs = view.pool, view.trace, view.baseline_knobs
    if pool is None or trace is None:
        return replace(view, baseline=None)
    before = view.baseline
    by: Pool | None = pool  # what the baseline is ranked from
    if view.pool_faults:
        if (by := view.other_pool) is None:
            return replace(view, baseline=None)
        against = ranked(view, by, view.knobs)
    elif view.pin is not None and view.pin.query == view.query:
        against, by = view.pin.trace, view.pin.pool
    elif not view.other_backend and not knobs.changes_from(view.knobs):
        against = trace
    elif baseline_pool is not None:
        by = baseline_pool
        against = ranked(view, by, knobs)
    elif before is not None and before.pool is pool and before.trace.knobs == knobs:
        against = before.trace
    elif not view.other_backend and knobs.retrieval_key == view.pool_key:
        against = ranked(view, pool, knobs)
    elif before is not None and before.trace.query == view.query and before.trace.knobs == knobs:
        return replace(view, baseline=replace(before, name=view.baseline_name))
    else:
        return replace(view, baseline=None)
    by_file = by is not None and by.backend != pool.backend
    now = edited(against, trace) if by is not pool and not by_file else {}
    made = Baseline(view.baseline_name, against, {}, by_file, now, by)
    for row in against.returned:
        made.ranks.setdefault(made.key(row), row.outcome.rank or 0)
    return replace(view, baseline=made)


# -- knobs ------------------------------------------------------------------------------------------------


def turned(view: View, name: str, direction: int, large: bool) -> Knobs:
    """The knobs after one key on one of them; direction 0 is the key that resets it."""
    if not direction:
        return reset(view.knobs, view.defaults, name)
    if name != PROFILE:
        return nudged(view.knobs, name, direction, large)
    names = [*dict.fromkeys((*SELECTABLE, view.defaults.profile, view.knobs.profile))]
    return of_profile(view, names[(names.index(view.knobs.profile) + direction) % len(names)])


def of_profile(view: View, name: str) -> Knobs:
    """The knobs of a profile: the configuration's own values stay, those of the session do not. Raises
    UsageError."""
    if name == view.defaults.profile:
        return view.defaults
    return profile(name).set(view.settings.query.overrides if view.settings else {})


def nudged(knobs: Knobs, name: str, direction: int, large: bool = False) -> Knobs:
    """One key press on one knob that is not the profile. The weights stay complements."""
    return knobs.set({name: KNOBS[name].nudge(getattr(knobs, name), direction, large)})


def reset(knobs: Knobs, defaults: Knobs, name: str) -> Knobs:
    """One knob as configured; ``profile`` resets all."""
    if name == PROFILE:
        return defaults
    if name in ("vector_weight", "bm25_weight"):
        return replace(knobs, vector_weight=defaults.vector_weight, bm25_weight=defaults.bm25_weight)
    return replace(knobs, **{name: getattr(defaults, name)})
