"""Values that must never be shown, and how other values are shown in messages."""

from __future__ import annotations

import re

from openclaw_mem_engine.errors import ConfigError

#: The longest piece of a refused value that a message repeats, in characters.
SHOWN_CHARS = 60

# Key shapes of well-known services: a key pasted under the wrong name must not end up in a message.
_KEY_SHAPE = (
    r"(sk-|ghp_|gho_|github_pat_|xox[abprs]-|xapp-|gsk_|AIza|pplx-|npm_|pa-|Bearer\s)\S{6,}"
    r"|[A-Za-z0-9_\-+/=]{32,}"
)
_USERINFO = r"(?<=://)[^/?#\s]+@"
_URL_REST = r"([?#])\S*"


class Secret:
    """A text that ``repr``, ``str``, ``format`` and copies of dataclasses never show.

    A secret may also be known to be unobtainable (it names an environment variable that is not set). That is
    only an error when it is needed: ``problem`` says why then, and :meth:`reveal` raises.
    """

    __slots__ = ("_value", "problem")

    def __init__(self, value: str, *, problem: str | None = None) -> None:
        self._value = value
        self.problem = problem

    @classmethod
    def missing(cls, problem: str) -> Secret:
        """A secret that cannot be had; ``problem`` is the message of the later ConfigError."""
        return cls("", problem=problem)

    @property
    def available(self) -> bool:
        return self.problem is None

    def reveal(self) -> str:
        """The text itself, for the code that sends it. Raises ConfigError when it cannot be had."""
        if self.problem is not None:
            raise ConfigError(self.problem)
        return self._value

    def __repr__(self) -> str:
        return "Secret(set)" if self.available else "Secret(missing)"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return (self._value, self.problem) == (other._value, other.problem)

    def __hash__(self) -> int:
        return hash((Secret, self._value, self.problem))


def shown(value: object, *, secret: bool = False) -> str:
    """A refused value as a message may repeat it: short, on one line, and nothing that looks like a key."""
    if isinstance(value, (dict, list, tuple)):
        return "an object" if isinstance(value, dict) else "a list"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int) and abs(value) > 10**30:
        return "a very large number"  # Python refuses to write out the largest ones
    if secret:
        return f"a hidden {'text' if isinstance(value, str) else 'number'}"
    if isinstance(value, str) and re.search(_KEY_SHAPE, value):
        return "a hidden text (it looks like a key)"
    text = repr(without_credentials(value) if isinstance(value, str) else value)
    return text if len(text) <= SHOWN_CHARS else text[: SHOWN_CHARS - 1] + "…"


def without_credentials(url: str) -> str:
    """A URL without ``user:password@`` and without its query string and fragment, which often hold a key."""
    return re.sub(_URL_REST, r"\1…", re.sub(_USERINFO, "…@", url)) if "://" in url else url


def printable(text: str) -> str:
    """Text that is safe to show: control and other invisible characters become ``\\x1b`` and the like."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
