"""The keys that the user gives to actions (``[keys]`` of config.toml): checked, and as Textual takes them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from openclaw_mem_engine.api import ConfigError
from openclaw_mem_tui.bindings import DECLARED, PARTS, Action, use

#: Actions that end or repeat what another one begins have its key, unless they are given one of their own.
_TWINS = {"close_why_not": "why_not", "close_chunks": "chunks", "pick_passage": "why_not_any"}
_SIGNS = {
    "slash": "/",
    "full_stop": ".",
    "comma": ",",
    "plus": "+",
    "minus": "-",
    "colon": ":",
    "question_mark": "?",
    "exclamation_mark": "!",
    "less_than_sign": "<",
    "greater_than_sign": ">",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "escape": "esc",
    "left": "←",
    "right": "→",
    "up": "↑",
    "down": "↓",
}
_NAMES = {sign: name for name, sign in _SIGNS.items()}


def take_keys(keys: Mapping[str, str], origin: str = "[keys] of config.toml") -> dict[str, str]:
    """Use these keys, by the id of an action (several with commas), and the declared ones for the others; the
    keymap for Textual. Raises what ``with_keys`` raises; then nothing changes."""
    made, keymap = with_keys(keys, origin)
    use(made)
    return keymap


def with_keys(keys: Mapping[str, str], origin: str) -> tuple[dict[str, Action], dict[str, str]]:
    """The actions with these keys, and what differs. ``origin`` is where they were configured. Raises
    ConfigError for an unknown id, for no key, for one that can never work or that two actions of a screen
    would share."""
    made, keymap = dict(DECLARED), dict[str, str]()
    for name, text in keys.items():
        if name not in DECLARED:
            known = ", ".join(sorted(DECLARED))
            raise ConfigError(f"{origin}: {name[:80]!r} is no id of a key. The ids are: {known}.")
        names = [_NAMES.get(one.strip(), one.strip()) for one in re.split(r",(?=.)", text)]
        if not all(names):
            raise ConfigError(f'{origin}: {name} has no key. Write for example {name} = "f5".')
        if wrong := next(filter(None, (_refusal(one, name) for one in names)), ""):
            raise ConfigError(f"{origin}: {name}: {wrong}.")
        for twin in (name, *(own for own, other in _TWINS.items() if other == name and own not in keys)):
            keymap[twin] = ",".join(names)
            made[twin] = made[twin]._replace(keys=keymap[twin], shown=signs(keymap[twin]))
    if clash := _clash(tuple(made.values())):
        raise ConfigError(f"{origin}: {clash}. Give one of them another key.")
    return made, keymap


def signs(keys: str) -> str:
    """Keys as Textual names them, comma separated, as they are displayed."""
    return " ".join(_SIGNS.get(one, one) for one in keys.split(","))


def _refusal(key: str, name: str) -> str:  # why it can never work, or ""
    from textual.keys import KEY_NAME_REPLACEMENTS, Keys, key_to_character

    *modifiers, base = key.split("+") if len(key) > 1 else [key]
    if key == "ctrl+c" or (key == "ctrl+q" and name != "quit"):
        return f"{key} has a fixed meaning. Choose another key"
    if modifiers == ["shift"] and len(base) == 1 and base.isalpha():
        return f"terminals do not send {key}. Write {base.upper()}"
    known = {*KEY_NAME_REPLACEMENTS.values(), *(one.value for one in Keys)}
    if len(base) == 1 or base in known or key_to_character(base):
        return ""
    return f"{key[:80]!r} is no key. Write a sign, or a name such as f5, pagedown or ctrl+g"


def _clash(made: tuple[Action, ...]) -> str:
    """The first key that two actions share where both would work."""
    screens = dict.fromkeys(word for a in made for word in sorted(a.parts - PARTS))
    for where in ("knobs", *screens):
        here = {where, "lists", *(["everywhere"] if where != "knobs" else [])}
        taken: dict[str, str] = {}
        for a in made:
            for one in a.keys.split(",") if here & a.parts else ():
                if taken.setdefault(one, a.id) != a.id:
                    return f"{_SIGNS.get(one, one)} would be {taken[one]} and {a.id}, on screen {where}"
    return ""
