"""What an action is, and how its keys are displayed."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

#: Parts of screens with keys of their own: every other word of ``Action.where`` is a screen.
PARTS = frozenset({"query", "knobs", "lists"})
#: How keys are displayed that Textual names by words.
SIGNS = {
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
    "left_curly_bracket": "{",
    "right_curly_bracket": "}",
    "escape": "esc",
    "left": "←",
    "right": "→",
    "up": "↑",
    "down": "↓",
}


@cache
def signs(keys: str) -> str:
    """Keys as Textual names them, comma separated, as they are displayed."""
    return " ".join("+".join(SIGNS.get(part, part) for part in one.split("+")) for one in keys.split(","))


class Action(NamedTuple):
    """``keys`` as Textual names them, comma separated; ``label`` is how they are displayed where that is not
    by their ``signs`` ("": the action before it names them). ``where`` names the screens on which they work
    ("search": outside of its query line), parts of a screen (the knob panel, the list with the focus), or
    "everywhere". ``footer`` is the short text of the bottom line and ``rank`` its importance there (0: not
    shown; small numbers stay longest). ``run`` is the method, where it is not that of the ``id``. ``twin``
    is the action whose key it shares, also when a user gives that another key: ``close_chunks`` goes back by
    the key by which ``chunks`` opened them. The help has one row for a motion and its opposite: of
    ``next_match``, ``both`` is the text of that row, and ``back`` of ``previous_match`` is ``next_match``."""

    id: str
    keys: str
    help: str
    where: str = "search"
    footer: str = ""
    rank: int = 0
    group: str = ""
    label: str | None = None
    run: str = ""
    twin: str = ""
    both: str = ""
    back: str = ""

    @property
    def shown(self) -> str:
        """How its keys are displayed."""
        return signs(self.keys) if self.label is None else self.label

    @property
    def either(self) -> str:
        """Its keys as a text lists them: each of them does it."""
        return ", ".join(self.shown.split())

    @property
    def command(self) -> str:
        """The Textual action that a key or a click runs."""
        if self.group == "Screens":
            return f"app.show('{self.id.removeprefix('show_')}')"
        run = self.run or self.id
        return run if self.where in PARTS or run.startswith("app.") else f"screen.{run}"

    @property
    def in_palette(self) -> bool:
        """Motions within a screen, and what closes one, are not."""
        closes = (self.run or self.id) in ("leave", "cancel", "app.command_palette")
        return not (closes or self.both or self.back)

    @property
    def parts(self) -> frozenset[str]:
        """The words of ``where``."""
        return frozenset(self.where.split())

    def works_in(self, where: str) -> bool:
        """On this screen, as those do that work on every one, or in this part of a screen."""
        return where in self.parts or (where not in PARTS and self.where == "everywhere")

    @property
    def key(self) -> str:
        """The first of its keys, as it is displayed."""
        return self.shown.split()[0]
