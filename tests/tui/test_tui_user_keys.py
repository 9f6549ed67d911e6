"""Keys that the user has configured."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lab_world as world
import pytest
from lab_world import LARGE, SMALL, lab, press, settled
from test_tui_keys import DRILL, _declared_keys

from openclaw_mem_engine.api import IndexDamaged
from openclaw_mem_tui import bindings
from openclaw_mem_tui.features.search import apply
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render import status
from openclaw_mem_tui.render.damage import DAMAGED, in_full
from openclaw_mem_tui.render.spans import text_of
from openclaw_mem_tui.render.status import Activity
from openclaw_mem_tui.user_keys import take_keys
from openclaw_mem_tui.widgets.line_view import Pane
from openclaw_mem_tui.widgets.wrapped import WrappedTable

__all__ = ["_declared_keys"]


async def test_keys_of_the_user_work_and_are_named(tmp_path: Path) -> None:
    app = world.workbench(tmp_path, initial_query=DRILL, keys={"baseline": "f5,%", "clear_baseline": "b"})
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        screen = lab(app)
        await press(pilot, "f5")
        assert screen.search.view.pin is not None
        assert "b restores the configured one" in screen.status_line.text
        await press(pilot, "b")
        assert screen.search.view.pin is None, "the old key of the one is that of the other"
        await press(pilot, "percent_sign")
        assert screen.search.view.pin is not None
        await press(pilot, "question_mark")
        assert "f5, %" in app.screen.query_one("#help-rows", WrappedTable).text


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        (
            {"baselin": "f5"},
            "'baselin' is not the id of an action. Did you mean baseline? docs/keys.md lists the ids.",
        ),
        ({"why_nott": "ctrl+w"}, "Did you mean why_not? docs"),
        ({"baseline": "d"}, "d would be dropped and baseline, on screen search"),
        ({"rebuild": "j"}, "j would be down and rebuild, on screen index"),
        ({"quit": "z"}, "z would be undo_knob and quit, on screen search"),
        ({"more": "h"}, "h would be less and more, on screen knobs"),
        ({"baseline": ""}, 'baseline has no key. Write for example baseline = "f5". It keeps b.'),
        ({"baseline": "ctrl+q"}, "ctrl+q has a fixed meaning"),
        ({"quit": "ctrl+q"}, "ctrl+q has a fixed meaning"),
        ({"quit": "ctrl+c"}, "ctrl+c has a fixed meaning"),
        ({"baseline": "pagedwn"}, "'pagedwn' is not a key"),
        ({"baseline": "shift+x"}, "Write X"),
    ],
)
def test_a_clash_or_an_unknown_id_is_not_used(keys: dict[str, str], reason: str) -> None:
    keymap, (refused,) = take_keys({**keys, "export": "f12"})
    assert reason in refused and refused.startswith("[keys] of config.toml: ")
    assert keymap == {"export": "f12"}, "the other lines are used"
    assert all(bindings.action(name) == bindings.DECLARED[name] for name in keys if name in bindings.DECLARED)


def test_after_a_clash_both_have_their_default_and_what_then_clashes_too() -> None:
    keymap, refused = take_keys({"baseline": "f5", "clear_baseline": "f5", "columns": "b", "why_not": "d"})
    assert keymap == {} and len(refused) == 3, refused
    assert bindings.key("close_why_not") == "w", "it follows why_not"
    assert {bindings.key(name) for name in ("baseline", "clear_baseline", "columns")} == {"b", "B", "v"}


async def test_the_workbench_opens_with_mistakes_in_its_keys_and_names_all(tmp_path: Path) -> None:
    wrong = {"why_nott": "ctrl+w", "baseline": "pagedwn", "columns": "f5"}
    app = world.workbench(tmp_path, initial_query=DRILL, keys=wrong)
    async with app.run_test(size=SMALL) as pilot:
        await settled(pilot)
        shown = lab(app).notes.text
        assert (
            "[keys] of config.toml: 'why_nott' is not the id of an action" in shown and "1 more: !" in shown
        )
        mode = lab(app).hits.mode
        await press(pilot, "f5")
        assert lab(app).hits.mode != mode, "the line without a mistake"
        await press(pilot, "exclamation_mark")
        listed = " ".join(pane.text for pane in app.screen.query(Pane)).split()
        assert "why_not?" in listed and "'pagedwn'" in listed


def test_keys_of_every_kind_are_taken_and_the_way_back_has_the_key_of_the_way_in() -> None:
    take_keys({"quit": "ctrl+x", "columns": "percent_sign,+,alt+x,ctrl+g,ctrl+pagedown", "why_not": "f6"})
    assert bindings.key("close_why_not") == bindings.key("why_not") == "f6"
    take_keys({"why_not": "f6", "close_why_not": "f7"})
    assert bindings.key("close_why_not") == "f7"
    take_keys({"why_not_any": "f8"})
    assert bindings.key("pick_passage") == "f8", "another line is picked with the key of the first"


def test_messages_name_the_keys_of_the_user() -> None:
    take_keys({"rebuild": "f9", "repair": "f8", "show_index": "f3"})
    assert fmt.message("Run `openclaw-mem index --force`.") == "Press f9 on screen f3."
    assert fmt.message("The index is damaged: `openclaw-mem index --force`.") == "The index is damaged: f8."
    long = f"The index is damaged ({'malformed ' * 9}): run `openclaw-mem index --force`."
    assert fmt.message(long).startswith("f8: The index is damaged (malf"), (
        "a cut of the line does not hide it"
    )
    said = fmt.message_here(
        "Run `openclaw-mem index --force`: `openclaw-mem index --force` builds it; run it."
    )
    assert said == "Press f9: f9 builds it; run it.", "on the screen itself"


def test_what_repairs_a_damaged_index_is_said_with_the_keys_of_the_user() -> None:
    take_keys({"repair": "f8", "show_index": "f3"})
    failed = Activity(phase="failed", damage=IndexDamaged("malformed"))
    assert text_of(status.doing(failed, 0)).endswith(" f8 repairs")
    assert in_full(DAMAGED) == "the index is damaged: f8 repairs it"
    with bindings.typing(True):
        assert in_full(DAMAGED) == "the index is damaged: esc then f8 repairs it"
        assert (
            fmt.message("The index is damaged: `openclaw-mem index --force`.")
            == "The index is damaged: esc then f8."
        )
        assert fmt.message("Run `openclaw-mem index`.").startswith("Press esc then f3 ")
    with bindings.typing(False, "search"):
        assert fmt.message("Run `openclaw-mem index`.") == "Press r."
    assert in_full("another message") == "another message"


async def test_screens_name_the_keys_of_the_user(tmp_path: Path) -> None:
    keys = {"export": "f6", "chunks": "f7", "open_moment": "f8", "undo_edit": "f9"}
    app = world.workbench(tmp_path, own_notes=True, initial_query=DRILL, keys=keys)
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        await press(pilot, "A")
        assert "f6 c copies the knobs" in lab(app).status_line.text
        await press(pilot, "M", *"NAS is heron", "enter")
        assert "f9 undoes it" in lab(app).status_line.text
        await press(pilot, "3")
        assert "f7 shows them in the text" in app.screen.query_one("#detail", Pane).text
        await press(pilot, "4", "tab")
        assert "f8 shows all" in " ".join(app.screen.query_one("#moment", Pane).text.split())


async def test_the_key_that_switches_the_backend_is_that_of_the_user() -> None:
    take_keys({"backend": "f6"})
    said = list[str]()
    service = SimpleNamespace(reload=print, is_open=False, configured_backend="qmd")
    search = SimpleNamespace(service=service, view=None, say=said.append)
    screen: Any = SimpleNamespace(search=search)
    await apply.offer(screen)
    assert said == ["the configured backend is qmd; f6 switches to it"]
