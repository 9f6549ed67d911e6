"""What the keys for whole runs do: the one that is the baseline, those of the lessons, their export."""

from __future__ import annotations

from openclaw_mem_tui.bindings import key as key_of
from openclaw_mem_tui.features.search.comparison import is_older, swaps
from openclaw_mem_tui.features.search.lab import Lab
from openclaw_mem_tui.features.search.remembered import resume
from openclaw_mem_tui.features.search.render.knobs import changed_words
from openclaw_mem_tui.features.search.state import COLUMNS
from openclaw_mem_tui.features.search.steps import clear_baseline
from openclaw_mem_tui.render.choices import Choice
from openclaw_mem_tui.sync_controller import Job

#: Those that the key switches between.
_BACKENDS = ("builtin", "qmd")


class RunActions(Lab):
    """The baseline of the shown run, its backend, the lessons, export, sync."""

    def action_baseline(self) -> None:
        self.search.pin_baseline()

    def action_clear_baseline(self) -> None:
        clear_baseline(self)

    def action_swap(self) -> None:
        view, knobs = self.search.view, self.search.view.baseline_knobs
        if swaps(view):
            older = is_older(view)
            if self.search.swap():
                self.search_soon(0.0)
            again = ", of the index as it is now" * older
            self.search.say(f"{changed_words(view.knobs, knobs)}{again}; {key_of('swap')} swaps back")
        elif view.answers:
            other = f"is of {view.other_backend}: {key_of('backend')} switches the backend"
            same = other if view.other_backend else "has the same knobs"
            self.search.say(f"nothing to swap: the baseline {same}")
        else:
            self.search.say("there is no run to swap yet")

    def action_backend(self) -> None:
        """Let the other backend answer; the shown answer becomes the baseline."""
        search = self.search
        name = next(known for known in _BACKENDS if known != (search.wanted or search.view.backend))

        def compare() -> None:
            self.search_soon(0.0)
            other = search.view.other_backend
            search.say(f"backend: {name}" + f"; baseline: {other}" * bool(other))

        self.use_backend(name, compare)

    def action_guide(self) -> None:
        guide = self.search.guide
        if guide is None:
            return
        from openclaw_mem_tui.widgets.dialogs import pick

        titles = [(f"{number:2}  {lesson.title}", lesson.query) for number, lesson in enumerate(guide, 1)]
        # Half of a narrow screen is too little for a title: there the query gives way to it.
        if self.narrow:
            titles = [(" · ".join(texts), "") for texts in titles]
        behind = len("15  ")
        choices = [Choice(str(at), title, query, indent=behind) for at, (title, query) in enumerate(titles)]

        def load(picked: str) -> None:
            self._ask_lesson(int(picked))
            self.set_focus(self.hits)

        start = self.search.lesson_at or 0
        pick(self, "demo lessons", lambda _: choices, load, start=start)

    def _ask_lesson(self, number: int) -> None:
        self.search.say("")  # what was said is of the view before
        self.load_lesson(number)

    def action_next_lesson(self) -> None:
        self._ask_lesson(self.search.lesson_after(1))

    def action_previous_lesson(self) -> None:
        self._ask_lesson(self.search.lesson_after(-1))

    def action_export(self) -> None:
        from openclaw_mem_tui.features.search.export import offer_export

        offer_export(self)

    def action_sync(self) -> None:
        self.resync(Job(tails=True))


async def continue_session(lab: Lab) -> None:
    """Ask the query that was left as it was asked then, and show the screen that was left."""
    left = lab.search.remembered
    if said := await resume(lab.search):
        lab.query_line.put(left.query)
        lab.hits.mode = next((name for name in COLUMNS if name == left.columns), lab.hits.mode)
        lab.opens_on = (left.row.get("path"), left.row.get("line")) if left.row else None
        if lab.search.ask(left.query):
            lab.search_soon(0.0)
        if left.screen:
            lab.app.action_show(left.screen)  # type: ignore[attr-defined]
        lab.search.say(said)
