"""What of a session is remembered for the next one, as plain data and back. No Textual here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from openclaw_mem_engine.api import KNOBS, Knobs, UsageError
from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_tui.bindings import key
from openclaw_mem_tui.features.search.state import PROFILE, View, of_profile
from openclaw_mem_tui.render import format as fmt

if TYPE_CHECKING:
    from openclaw_mem_tui.features.search.presenter import SearchPresenter

#: Characters of a query that are kept.
_LONGEST = 2_000


@dataclass(frozen=True, slots=True)
class Remembered:
    """``knobs`` are those that differ from the configuration, by name, with their profile (None: as
    configured). A baseline is a run, and ends with its session. ``recent`` are the titles of actions picked
    in the palette. ``theme`` was chosen where ``usual_theme`` was configured. ``trouble`` says why nothing
    could be read."""

    queries: tuple[str, ...] = ()
    recent: tuple[str, ...] = ()
    query: str = ""
    knobs: Mapping[str, Any] | None = None
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
            text("theme"),
            text("usual_theme"),
            trouble,
        )

    def data(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__ if name != "trouble"}


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


def continued(view: View, remembered: Remembered) -> tuple[View, str]:
    """The view with the knobs of the last session, and a sentence that says what continues; "" when nothing
    does."""
    knobs = changed(view, remembered.knobs) if view.knobs == view.defaults else view.knobs
    said = ["the query"] if view.query and view.query == remembered.query else []
    if many := len(knobs.changed_names(view.defaults)):
        said.append(f"{fmt.count(many, 'knob')} changed")
    again = f"{key('focus_query')} asks another, {key('start_anew')} starts over"
    shown = [f"continued: {fmt.join(said)} ({again})"] if said else []
    return replace(view, knobs=knobs), fmt.join((*shown, remembered.trouble))


def start_anew(search: SearchPresenter) -> None:
    """No query, no simulated fault, and knobs and baseline as configured, of each backend."""
    search.continued = ""
    search.history.add(search.view.query)
    search.left.clear()
    search.ask("")
    search.switch_faults(frozenset())
    search.tune(search.view.defaults)
    search.clear_baseline()
    session = search.view.session_key
    stays = f"; the session stays {fmt.inert(session)} ({key('session')})" * bool(session)
    search.say(f"started over: knobs, baseline, backend, faults and citations as configured{stays}")


def to_remember(search: SearchPresenter) -> Remembered:
    """What the next session may continue; the theme is not known here."""
    view = search.view
    # A copy: what is half typed when this is saved does not stay in the history of the session.
    history = replace(search.history, queries=list(search.history.queries))
    history.add(view.query)
    # Until the index is open, the knobs are those of the last session.
    kept = replace(search.remembered, queries=tuple(history.queries), query=view.query)
    if not search.service.is_open or view.backend != search.service.configured_backend:
        return kept
    return replace(kept, knobs=changes(view, view.knobs) or None)
