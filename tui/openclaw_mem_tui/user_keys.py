"""The keys that the user gives to actions (``[keys]`` of config.toml): checked, and as Textual takes them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from openclaw_mem_engine.api import did_you_mean
from openclaw_mem_tui.actions import PARTS, SIGNS, Action, signs
from openclaw_mem_tui.bindings import DECLARED, IN_TURN, use

_NAMES = {sign: name for name, sign in SIGNS.items()}


def take_keys(keys: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Use these keys, by the id of an action (several with commas), and the declared ones for the others; the
    keymap for Textual, and what ``with_keys`` refuses."""
    made, keymap, refused = with_keys(keys, "[keys] of config.toml")
    use(made)
    return keymap, refused


def with_keys(
    keys: Mapping[str, str], origin: str
) -> tuple[dict[str, Action], dict[str, str], tuple[str, ...]]:
    """The actions with these keys, what differs, and a sentence for each line that is not used: an unknown
    id, no key, one that can never work or that two actions of a screen would share. ``origin`` is where they
    were configured."""
    refused, good = list[str](), dict[str, str]()
    for name, text in keys.items():
        names = [_NAMES.get(one.strip(), one.strip()) for one in re.split(r",(?=.)", text)]
        keeps = f"It keeps {signs(DECLARED[name].keys)}." if name in DECLARED else ""
        if name not in DECLARED:
            hint = did_you_mean(name, DECLARED)
            refused.append(f"{name[:80]!r} is not the id of an action.{hint} docs/keys.md lists the ids.")
        elif not all(names):
            refused.append(f'{name} has no key. Write for example {name} = "f5". {keeps}')
        elif wrong := next(filter(None, map(_refusal, names)), ""):
            refused.append(f"{name}: {wrong}. {keeps}")
        else:
            good[name] = ",".join(names)
    made, keymap = _made(good)
    while clash := _clash(tuple(made.values())):
        sign, screen, *both = clash
        for one in both:
            good.pop(one if one in good else DECLARED[one].twin, None)
        refused.append(
            f"{sign} would be {both[0]} and {both[1]}, on screen {screen}. Both keep their default keys: "
            "give one of them another key."
        )
        made, keymap = _made(good)
    return made, keymap, tuple(f"{origin}: {text}" for text in refused)


def _made(keys: Mapping[str, str]) -> tuple[dict[str, Action], dict[str, str]]:
    made, keymap = dict(DECLARED), dict[str, str]()
    for name, text in keys.items():
        for twin in (name, *(a.id for a in DECLARED.values() if a.twin == name and a.id not in keys)):
            keymap[twin] = text
            made[twin] = made[twin]._replace(keys=text, label=signs(text))
    return made, keymap


def _refusal(key: str) -> str:  # why it can never work, or ""
    from textual.keys import KEY_NAME_REPLACEMENTS, Keys, key_to_character

    *modifiers, base = key.split("+") if len(key) > 1 else [key]
    if key in ("ctrl+c", "ctrl+q"):
        return f"{key} has a fixed meaning. Choose another key"
    if modifiers == ["shift"] and len(base) == 1 and base.isalpha():
        return f"terminals do not send {key}. Write {base.upper()}"
    known = {*KEY_NAME_REPLACEMENTS.values(), *(one.value for one in Keys)}
    if len(base) == 1 or base in known or key_to_character(base):
        return ""
    return f"{key[:80]!r} is not a key. Write a sign, or a name such as f5, pagedown or ctrl+g"


def _clash(made: tuple[Action, ...]) -> tuple[str, str, str, str] | None:
    """The first key that two actions share where both would work, the screen, and both."""
    screens = dict.fromkeys(word for a in made for word in sorted(a.parts - PARTS))
    for where in ("knobs", *screens):
        here = {where, "lists", *(["everywhere"] if where != "knobs" else [])}
        taken: dict[str, str] = {}
        for a in made:
            for one in a.keys.split(",") if here & a.parts else ():
                if taken.setdefault(one, a.id) != a.id and not {taken[one], a.id} <= IN_TURN:
                    return SIGNS.get(one, one), where, taken[one], a.id
    return None
