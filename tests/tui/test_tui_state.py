"""The view and its changes: what is ranked at once, what waits, what is compared with what."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path

import lab_world as world
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_mem_engine.config.knobs import configured_knobs
from openclaw_mem_engine.config.load import load_settings
from openclaw_mem_engine.errors import OpenClawMemError
from openclaw_mem_engine.model import Freshness
from openclaw_mem_engine.ranking.knobs import KNOBS, Knobs
from openclaw_mem_engine.ranking.pipeline import rank
from openclaw_mem_engine.ranking.profiles import SELECTABLE, profile
from openclaw_mem_tui.bindings import ACTIONS
from openclaw_mem_tui.features import SCREENS, ScreenEntry
from openclaw_mem_tui.features.search import remembered, state
from openclaw_mem_tui.features.search.baseline import BEFORE, EDITED
from openclaw_mem_tui.features.search.history import History, holding
from openclaw_mem_tui.features.search.state import View
from openclaw_mem_tui.service import Service
from openclaw_mem_tui.sync_controller import SyncController


def test_a_free_knob_ranks_at_once() -> None:
    before = world.view()
    after = state.tuned(before, before.knobs.set({"min_score": 0.0}))
    assert not after.pending
    assert after.trace is not None and after.trace.knobs.min_score == 0.0
    assert len(after.trace.returned) == 3


def test_steps_of_a_knob_rank_the_baseline_once_for_a_pool() -> None:
    first = state.tuned(world.view(), Knobs().set({"min_score": 0.0}))
    second = state.tuned(first, first.knobs.set({"min_score": 0.1}))
    assert first.baseline is not None and second.baseline is not None
    assert second.baseline.trace is first.baseline.trace
    answered = state.answered(second, replace(world.pool()))
    assert answered.baseline is not None and answered.baseline.trace is not first.baseline.trace


def test_a_knob_that_retrieves_waits_and_keeps_the_rows() -> None:
    before = world.view()
    after = state.tuned(before, before.knobs.set({"lexical_form": "and"}))
    assert after.pending and state.needs_retrieval(after)
    assert after.trace is before.trace


def test_every_knob_that_is_declared_free_is_free() -> None:
    before = world.view()
    for name, spec in KNOBS.items():
        after = state.tuned(before, state.nudged(before.knobs, name, 1))
        if spec.free:
            assert not after.pending, name


def test_a_new_query_keeps_old_rows_until_answered() -> None:
    before = world.view()
    after = state.asked(before, "gateway")
    assert after.pending and after.trace is before.trace and not after.answers
    answered = state.answered(after, replace(world.pool(), query="gateway"))
    assert answered.answers and answered.trace is not None and answered.trace.query == "gateway"


def test_a_blank_query_has_no_rows() -> None:
    after = state.asked(world.view(), "   ")
    assert after.trace is None and not after.pending and not state.needs_retrieval(after)


def test_the_baseline_is_the_configured_default() -> None:
    view = state.tuned(world.view(), Knobs().set({"min_score": 0.0}))
    assert view.compares and view.baseline is not None
    assert view.baseline.trace.knobs == Knobs()
    assert view.baseline_name == "default"
    assert not world.view().compares


def test_a_pin_keeps_its_trace_for_its_query_and_its_knobs_for_others() -> None:
    tuned = state.tuned(world.view(), Knobs().set({"min_score": 0.0}))
    view = state.pinned(tuned)
    assert view.baseline_name == "pinned"
    assert state.pinned(tuned, "before the edit").baseline_name == "before the edit"
    back = state.tuned(view, Knobs())
    assert back.baseline is not None and back.baseline.trace is tuned.trace
    other = state.answered(state.asked(back, "gateway"), replace(world.pool(), query="gateway"))
    assert other.baseline is not None and other.baseline.trace.knobs.min_score == 0.0
    assert other.baseline_name == "pinned knobs"
    assert not state.against(state.tuned(view, Knobs())).compares


def test_the_run_before_an_edit_is_the_baseline_of_its_query_alone() -> None:
    view, made = state.pinned(world.view(), EDITED), Knobs().set({"min_score": 0.1})
    changed = state.tuned(state.pinned(view, BEFORE, made), made)
    assert state.unanswered(view, "It failed.").baseline_name == EDITED
    assert state.asked(view, "gateway").pin is None and state.asked(view, "").pin is None
    later = state.asked(changed, "gateway")
    assert later.pin is not None and later.pin.under is None and later.pin.name == BEFORE


def test_a_change_has_the_run_before_it_as_baseline_until_it_is_undone() -> None:
    configured = Knobs().set({"max_results": 5})
    first, second = ({"min_score": 0.1}, {"max_results": 2})
    view = world.view(configured, Knobs())
    for change in first, second:
        made = view.knobs.set(change)
        view = state.tuned(state.pinned(view, BEFORE, made), made)
        assert view.baseline_name == BEFORE and view.baseline_knobs == configured
        configured = made
    further = state.tuned(view, made.set({"max_results": 1}))
    assert further.baseline_name == BEFORE, "the same change, and more of it"
    once = state.tuned(view, made.set({"max_results": 5}))
    assert once.baseline_name == BEFORE and once.baseline_knobs == Knobs().set({"max_results": 5})
    assert state.tuned(once, once.baseline_knobs).baseline_name == "default", "both are undone"
    assert state.tuned(view, Knobs()).baseline_name == "default", "all knobs are reset"
    mine = state.tuned(state.pinned(world.view()), made)
    assert state.tuned(mine, Knobs()).baseline_name == "pinned", "of one's own it stays"


def test_a_pin_shows_what_an_edited_note_changes() -> None:
    view = state.pinned(world.view())
    edited = world.pool(bm25=((0, 9.0), (1, 2.0)), vector=((0, 0.9), (1, 0.5)))
    after = state.answered(view, edited)
    assert after.compares and after.baseline is not None and after.trace is not None
    first = after.trace.returned[0]
    assert first.chunk_id == "c0" and after.baseline.ranks["c0"] == 2


def test_a_baseline_that_needs_another_pool_gets_it() -> None:
    other = Knobs().set({"lexical_form": "and"})
    view = View(Knobs(), other, query="router vlan", pending=True)
    assert state.needs_baseline_pool(view)
    answered = state.answered(view, world.pool(), world.pool(bm25=((1, 4.0),)))
    assert answered.baseline is not None and answered.baseline.trace.knobs == Knobs()
    # A free knob after that keeps the baseline, though its pool is gone.
    later = state.tuned(answered, other.set({"min_score": 0.1}))
    assert later.baseline is not None and later.baseline.trace is answered.baseline.trace


def test_a_failure_keeps_the_rows_and_says_why() -> None:
    after = state.failed(state.asked(world.view(), "x"), "The index is locked.")
    assert after.trace is not None and after.error == "The index is locked." and not after.answers


def test_opening_brings_the_configured_knobs_unless_the_user_was_faster() -> None:
    configured = Knobs().set({"max_results": 9})
    assert state.opened(View(Knobs(), Knobs()), configured).knobs == configured
    mine = Knobs().set({"min_score": 0.1})
    assert state.opened(View(Knobs(), mine), configured).knobs == mine


def test_weights_stay_complements() -> None:
    knobs = state.nudged(Knobs(), "vector_weight", 1, large=True)
    assert (knobs.vector_weight, knobs.bm25_weight) == (0.9, 0.1)
    assert state.reset(knobs, Knobs(), "bm25_weight") == Knobs()


def test_a_profile_sets_everything_and_resets_everything() -> None:
    other = state.turned(View(Knobs(), Knobs()), state.PROFILE, 1, False)
    assert other.profile != "documented" and other.changes_from(Knobs())
    assert state.reset(other, Knobs(), state.PROFILE) == Knobs()


def test_another_profile_keeps_what_is_configured_and_drops_what_was_tried(tmp_path: Path) -> None:
    own = tmp_path / "config.toml"
    own.write_text("[query]\nmin_score = 0.35\nmax_results = 2\n", "utf-8")
    environ = {"OPENCLAW_MEM_CONFIG": str(own), "OPENCLAW_MEM_HOME": str(tmp_path / "data")}
    settings = load_settings(workspace=tmp_path / "w", environ=environ, home=tmp_path, cwd=tmp_path)
    defaults = configured_knobs(settings)
    view = View(defaults, defaults.set({"decay": True}), settings=settings)
    other = state.turned(view, state.PROFILE, 1, False)
    assert other.profile != "documented" and not other.decay
    assert (other.min_score, other.max_results) == (0.35, 2)
    assert remembered.changes(view, other) == {"profile": other.profile}
    assert remembered.changed(view, {"profile": other.profile}) == other
    assert remembered.changed(view, {"profile": "gone"}) == defaults
    assert state.turned(replace(view, knobs=other), state.PROFILE, -1, False) == defaults


def test_the_profiles_include_the_configured_one() -> None:
    """That of the external qmd cannot be chosen otherwise."""
    process = profile("qmd-process")
    view, seen = View(process, process), set[str]()
    for _ in (*SELECTABLE, process.profile):
        view = replace(view, knobs=state.turned(view, state.PROFILE, 1, False))
        seen.add(view.knobs.profile)
    assert view.knobs == process and seen == {*SELECTABLE, process.profile}


STEPS = st.tuples(st.sampled_from(state.KNOB_NAMES), st.sampled_from([-1, 1]), st.booleans())


@given(st.lists(STEPS, max_size=25))
def test_any_walk_over_the_knobs_can_be_ranked(steps: list[tuple[str, int, bool]]) -> None:
    knobs = Knobs()
    for name, direction, large in steps:
        knobs = state.turned(View(Knobs(), knobs), name, direction, large)
    trace = rank(world.pool(), knobs)
    assert len(trace.rows) == 3


def test_history_walks_and_merges() -> None:
    history = History()
    for query in ("router", "router vlan", "heron", "router vlan"):
        history.add(query)
    assert history.queries == ["heron", "router vlan"]
    assert history.previous("router vlan") == "heron"
    assert history.previous("heron") is None
    assert history.next() == "router vlan"
    assert history.next() is None
    assert history.previous("") == "router vlan", "it is not shown any more"
    history.add("  ")
    assert len(history.queries) == 2


def test_history_is_bounded() -> None:
    history = History(limit=3)
    for number in range(10):
        history.add(f"{number} query")
    assert history.queries == ["7 query", "8 query", "9 query"]


def test_a_text_finds_its_key_then_the_start_of_a_word_then_what_has_blanks_between() -> None:
    titles = ["Why not for any line of the memory", "Mode", "Theme", "Other themes"]
    assert holding("theme", titles) == ["Theme", "Other themes", titles[0]]
    assert holding("hem", titles) == ["Theme", "Other themes", titles[0]]
    assert holding("memo", titles) == [titles[0]], "no letters of words in another order"
    assert holding("m", titles, {"Theme": "M", titles[0]: "m ctrl+m"})[:2] == [titles[0], "Mode"]
    assert holding("", titles) == titles
    assert holding("whynot", titles) == titles[:1] and holding("wlm", titles) == [], "no scattered letters"


def test_a_presenter_publishes_changes_and_only_those() -> None:
    async def refresh() -> None:
        pass

    service = Service(world.failing(OpenClawMemError("not opened here")))
    controller = SyncController(service, False, refresh)
    published: list[str] = []

    def listener() -> None:
        published.append(controller.state.said)

    controller.listen(listener)
    controller.say("one")
    controller.say("one")
    controller.update(searching=True, said="two")
    controller.unlisten(listener)
    controller.say("three")
    assert published == ["one", "two"] and controller.state.said == "three"
    # What was said of an index that was fresh is over when it is stale, and only then.
    fresh = Freshness("fresh", 1, 0.0)
    for now, said in ((fresh, ""), (fresh, "up to date"), (replace(fresh, state="stale"), "")):
        controller.take_freshness(now)
        assert controller.state.said == said
        controller.say("up to date")


@pytest.mark.parametrize("entry", SCREENS, ids=lambda entry: entry.name)
def test_every_line_of_the_screen_table_is_a_folder_and_a_key(entry: ScreenEntry) -> None:
    screen = entry.load()
    action = next(action for action in ACTIONS if action.id == f"show_{entry.name}")
    assert entry.name == screen.WHERE
    assert action.keys == entry.key and action.command == f"app.show('{entry.name}')"
    assert any(action.where == entry.name for action in ACTIONS)


async def test_without_a_terminal_signals_stay_with_the_process(tmp_path: Path) -> None:
    """Else Ctrl-C ends the process of the tests ten seconds later, whatever test runs then."""
    ending = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in ending]
    async with world.workbench(tmp_path).run_test():
        assert [signal.getsignal(number) for number in ending] == before
