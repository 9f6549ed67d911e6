"""Writing tuned knobs into our ``config.toml``, and taking its last change back, after a shown diff."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from openclaw_mem_engine.api import (
    Knobs,
    OpenClawMemError,
    Settings,
    SettingsEdit,
    UsageError,
    configured_knobs,
    knob_words,
    knobs_as_settings,
    propose_settings,
    propose_undo,
    write_settings,
)
from openclaw_mem_tui.bindings import key
from openclaw_mem_tui.features.search.render.knobs import idle
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.spans import Line, diff_lines, line, wrapped
from openclaw_mem_tui.widgets.dialogs import confirm

if TYPE_CHECKING:
    from openclaw_mem_tui.features.search.lab import Lab

_MOST_LINES = 200
_TITLES = {
    "write": "write the knobs to config.toml",
    "undo": "undo the last change of config.toml",
    "redo": "redo the last change of config.toml, which was undone",
}


async def offer(screen: Lab) -> None:
    """Ask whether to write the present knobs; when they are those configured, or those that were configured
    before the last write, whether to take the last change back, if it was one of knobs alone."""
    search = screen.search
    service, view = search.service, search.view
    if service.reload is None:
        search.say(
            f"the demo has its own settings; {key('export')} c copies the knobs for your configuration"
        )
        return
    if not service.is_open or view.backend != service.configured_backend:
        backend = service.configured_backend or "builtin"
        search.say(f"the configured backend is {backend}; {key('backend')} switches to it")
        return
    try:
        settings, edit = await asyncio.to_thread(_proposed, service.reload, view.knobs, search.steps.written)
    except OpenClawMemError as error:
        search.trouble(str(error))
        return
    if edit is None:
        search.say(
            f"no knob differs from the configuration; config.toml is {fmt.inert(str(settings.own_file))}"
        )
        return

    write = partial(screen.run_in, partial(_write, screen, settings, edit), "apply")
    needs = {name: idle(name, view.knobs) for name in view.changed_knobs()} if edit.kind == "write" else {}
    why = ""
    if edit.kind != "write":
        same = view.knobs == configured_knobs(settings)
        what = "as configured: there is nothing to write" if same else "those before that change"
        why = f"The shown knobs are {what}."
        if edit.kind == "undo" and search.steps.written is None:
            why += " This session did not make that change."
    confirm(screen, _TITLES[edit.kind], partial(_shown, edit, needs, why), edit.kind, write)


def _proposed(
    reload: Callable[[], Settings], knobs: Knobs, written: tuple[Knobs, Knobs] | None
) -> tuple[Settings, SettingsEdit | None]:
    """The settings as they are on disk, and what to write (None: nothing). ``written``: the knobs before and
    after our last write."""
    settings = reload()
    values = knobs_as_settings(settings, knobs)
    if not values or written == (knobs, configured_knobs(settings)):
        with suppress(UsageError):  # there is no change to take back, or the file was modified since
            undo = propose_undo(settings)
            if all(key.startswith("query.") for key in undo.keys):
                return settings, undo
    return settings, propose_settings(settings, values) if values else None


def _shown(edit: SettingsEdit, needs: Mapping[str, str], why: str, cells: int) -> list[Line]:
    """``needs`` of changed knobs say why they have no effect, where they have none; ``why`` there is nothing
    else to write, or empty."""
    where = fmt.inert(str(edit.path)) + (" (a new file)" if edit.before is None else "")
    form = f"{key('export')} c copies the knobs, for openclaw.json as far as that has keys for them"
    also = f"; {form}" if edit.kind == "write" else ""
    said = f"The agent is not affected: openclaw-mem alone reads this file{also}."
    warned = (f"{knob_words(name)} has no effect now: it {why}." for name, why in needs.items() if why)
    return [
        *wrapped(line((where, "strong")), cells),
        *(wrapped(line(why), cells) if why else []),
        *wrapped(line((said, "dim")), cells),
        *(row for text in warned for row in wrapped(line((text, "warn")), cells)),
        (),
        *diff_lines(edit.diff(), cells, _MOST_LINES),
    ]


async def _write(screen: Lab, settings: Settings, edit: SettingsEdit) -> None:
    """Write it, and go on with what is configured now."""
    search, reload = screen.search, screen.search.service.reload
    assert reload is not None
    try:
        await asyncio.to_thread(write_settings, settings, edit)
        now = await asyncio.to_thread(reload)
        knobs = configured_knobs(now)
    except OpenClawMemError as error:
        search.trouble(str(error))
        return
    wanted, undoes = search.view.knobs, edit.kind == "undo"
    search.steps.written = None if undoes else (search.view.defaults, knobs)
    if search.configure(knobs, now):
        screen.search_soon(0.0)
    name, left = fmt.inert(edit.path.name), len(wanted.changed_names(knobs))
    done = f"{name} is as before the change" if undoes else f"wrote {name}"
    then = f"{key('apply_knobs')} {'writes it again' if undoes else 'undoes it'}"
    differ = f"{fmt.count(left, 'knob')} {'differs' if left == 1 else 'differ'} from it"
    search.say(f"{done}; {differ if left else then}")
