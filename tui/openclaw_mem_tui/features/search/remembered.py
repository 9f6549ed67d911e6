"""What of a session is remembered for the next one, as plain data and back. No Textual here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from openclaw_mem_engine.api import KNOBS, Knobs, OpenClawMemError, UsageError
from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_tui.bindings import key, reach, typing
from openclaw_mem_tui.features import SCREENS
from openclaw_mem_tui.features.search.baseline import PINNED, Pin
from openclaw_mem_tui.features.search.state import COLUMNS, PROFILE, View, of_profile, ranked
from openclaw_mem_tui.render import format as fmt

if TYPE_CHECKING:
    from openclaw_mem_engine.api import Row
    from openclaw_mem_tui.features.search.lab import Lab
    from openclaw_mem_tui.features.search.presenter import SearchPresenter
    from openclaw_mem_tui.features.search.state import Citations, Columns

#: The names of the screens over the lab.
_OTHERS = tuple(entry.name for entry in SCREENS[1:])
#: Characters of a query that are kept.
_LONGEST = 2_000


@dataclass(frozen=True, slots=True)
class Remembered:
    """``knobs`` are those that differ from the configuration, by name, with their profile (None: as
    configured). ``baseline`` has the query and such knobs of the pinned run (None: there was none).
    ``screen`` is the one that was left ("": the lab). ``columns`` were those of the hits, ``row`` has path
    and first line of the selected one (None: there was none). ``recent`` are the titles of actions picked in
    the palette. ``theme`` was chosen where ``usual_theme`` was configured. ``trouble`` says why nothing could
    be read."""

    queries: tuple[str, ...] = ()
    recent: tuple[str, ...] = ()
    query: str = ""
    knobs: Mapping[str, Any] | None = None
    baseline: Mapping[str, Any] | None = None
    screen: str = ""
    columns: str = ""
    row: Mapping[str, Any] | None = None
    theme: str = ""
    usual_theme: str = ""
    trouble: str = ""

    @classmethod
    def of(cls, data: Mapping[str, Any], trouble: str = "") -> Remembered:
        """From plain data; what is not as expected is left out."""

        def text(name: str) -> str:
            value = data.get(name)
            return value[:_LONGEST] if isinstance(value, str) else ""

        def table(name: str) -> Mapping[str, Any] | None:
            value = data.get(name)
            return value if isinstance(value, dict) else None

        def texts(name: str) -> tuple[str, ...]:
            value = data.get(name)
            found = value if isinstance(value, list) else []
            return tuple(item[:_LONGEST] for item in found if isinstance(item, str))[-200:]

        return cls(
            texts("queries"),
            texts("recent"),
            text("query"),
            table("knobs"),
            _pinned(table("baseline")),
            text("screen") if text("screen") in _OTHERS else "",
            text("columns") if text("columns") in COLUMNS else "",
            table("row"),
            text("theme"),
            text("usual_theme"),
            trouble,
        )

    def data(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__ if name != "trouble"}


def _pinned(saved: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """A baseline that can be run again."""
    known = saved is not None and isinstance(saved.get("query"), str) and isinstance(saved.get("knobs"), dict)
    return saved if known else None


#: What a row of the start page does, for the help.
CONTINUES = "“Continue” restores what the last session left: query, knobs, baseline and screen."
#: Nothing is remembered.
NOTHING = Remembered()


def changes(view: View, knobs: Knobs) -> dict[str, Any]:
    """What differs from the configured knobs, in a form that ``changed`` takes."""
    made: dict[str, Any] = dict(knobs.changes_from(of_profile(view, knobs.profile)))
    if made.keys() & {"vector_weight", "bm25_weight"}:
        made |= {"vector_weight": knobs.vector_weight, "bm25_weight": knobs.bm25_weight}
    return made if knobs.profile == view.defaults.profile else {PROFILE: knobs.profile, **made}


def changed(view: View, saved: Mapping[str, Any] | None) -> Knobs:
    """The knobs that were remembered, without those that there are no more; the configured ones where a value
    does not fit any more."""
    saved = saved or {}
    known = {name: value for name, value in saved.items() if name in KNOBS}
    try:
        return of_profile(view, str(saved.get(PROFILE, view.defaults.profile))).set(known)
    except (UsageError, TypeError, ValueError):
        return view.defaults


def offered(search: SearchPresenter, *, named: bool = False) -> tuple[str, str] | None:
    """The row of the start page that continues what was left, and what of it; None where that is nothing.
    ``named``: with the query below another screen, and that of a pinned baseline which is another."""
    left = search.remembered
    parts = _parts(search.view, left)
    if named and left.baseline is not None and left.baseline["query"] != left.query:
        parts[-1] += f" “{left.baseline['query']}”"
    title = f"Continue: {left.query}" if left.query else "Continue"
    for entry in SCREENS:
        if entry.name == left.screen:  # which covers the answer to the query
            title = f"Continue on {entry.key} {entry.tab}"
            parts = [f"query “{left.query}”"] * bool(named and left.query) + parts
    return (title, fmt.join(parts)) if left.query or left.screen or parts else None


def _parts(view: View, left: Remembered) -> list[str]:
    many = len(changed(view, left.knobs).changed_names(view.defaults))
    parts = [fmt.count(many, "changed knob")] if many else []
    return [*parts, "pinned baseline"] if left.baseline is not None else parts


async def resume(search: SearchPresenter) -> str:
    """Take over the knobs that were left, and their pinned baseline, which is run again. What continues,
    as a sentence; "" where the user went on meanwhile, and nothing does."""
    view, left = search.view, search.remembered
    pin, parts = None, _parts(view, left)
    if left.baseline is not None:
        query, knobs = left.baseline["query"], changed(view, left.baseline["knobs"])
        search.say("running the pinned baseline again")
        try:
            pool = await search.service.retrieve(query, knobs, healthy=True, session_key=view.session_key)
        except OpenClawMemError as error:
            parts[-1] = f"no baseline: {error}"
        else:
            pin = Pin(query, knobs, ranked(view, pool, knobs), pool, view.backend)
    if search.view is not view:
        search.say("")
        return ""
    search.remembered, search.state = NOTHING, replace(view, knobs=changed(view, left.knobs), last_pin=pin)
    search.publish()
    said = fmt.join([*(["the query"] if left.query else []), *parts]) or "the screen"
    return f"continued: {said} ({key('start_anew')} starts over)"


class Left(NamedTuple):
    """All that starting over takes away: what is shown, its columns and the selected row, its lesson, the
    citations, what the start page offered to continue, and what ``SearchPresenter.left`` has of other
    backends."""

    view: View
    columns: Columns
    row: Row | None
    lesson_at: int | None
    citations: Citations | None
    remembered: Remembered
    others: Mapping[str, tuple[Knobs, int | None]]


def left_now(lab: Lab) -> Left:
    search, hits, cited = lab.search, lab.hits, lab.preview.citations
    others = dict(search.left)
    return Left(search.view, hits.mode, hits.selected, search.lesson_at, cited, search.remembered, others)


def start_anew(search: SearchPresenter, left: Left) -> None:
    """No query, no simulated fault, and knobs and baseline as configured, of each backend. What was ``left``
    is one step."""
    search.history.add(left.view.query)
    search.remembered = to_remember(search, left.columns, left.row)
    search.left.clear()
    search.ask("")
    search.switch_faults(frozenset(), by_step=True)
    search.tune(search.view.defaults, by_step=True)
    search.compare_with()
    view, back = search.view, ""
    if (left.view.query.strip(), left.view.tried, left.view.last_pin) != ("", view.tried, None):
        search.steps.made(left.view.tried._replace(left=left))
        with typing(letters=True):  # the next query is typed
            back = f" ({reach('undo_knob')} undoes it)"
    session = view.session_key
    stays = f"; the session stays {fmt.inert(session)} ({key('session')})" * bool(session)
    said = "no query; knobs, baseline, backend, faults and citations as configured"
    search.say(f"started over{back}: {said}{stays}")


def bring_back(search: SearchPresenter, left: Left) -> None:
    """Show what was left, as far as it is not configured otherwise by now, to be searched again."""
    search.switch_faults(left.view.faults, by_step=True)
    now, view = search.view, left.view
    search.lesson_at, search.remembered, search.left = left.lesson_at, left.remembered, dict(left.others)
    kept = {name: getattr(now, name) for name in ("defaults", "settings", "expected", "session_key")}
    search.state = replace(view, **kept, pool_key=(), pending=bool(view.query.strip()), error="")
    search.publish()


def to_remember(search: SearchPresenter, columns: Columns, row: Row | None, screen: str = "") -> Remembered:
    """What may be continued: what this session is about, the ``columns`` and the selected ``row`` of its hits
    and the ``screen`` it is on, else what was left before. The theme is not known here."""
    view, left = search.view, search.remembered
    # A copy: what is half typed when this is saved does not stay in the history of the session.
    history = replace(search.history, queries=list(search.history.queries))
    history.add(view.query)
    queries = tuple(history.queries)
    if not (view.query.strip() or view.changed_knobs()):
        return replace(left, queries=queries, screen=screen or left.screen)
    selected = {"path": row.path, "line": row.start_line} if row is not None else None
    mine = Remembered(queries, query=view.query, screen=screen, columns=columns, row=selected)
    # Until the index is open, and with another backend, the knobs are not those of the configured one.
    if not search.service.is_open or view.backend != search.service.configured_backend:
        return mine
    pin = view.last_pin
    while pin is not None and pin.name != PINNED:
        pin = pin.under
    pinned = None
    if pin is not None and pin.backend == view.backend:
        pinned = {"query": pin.query, "knobs": changes(view, pin.knobs)}
    return replace(mine, knobs=changes(view, view.knobs) or None, baseline=pinned)
