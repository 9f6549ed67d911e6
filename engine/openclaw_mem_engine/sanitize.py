"""The one gate that foreign text passes on its way to a terminal, a screen or a report."""

from __future__ import annotations

import unicodedata

# Joiners are letters' business: Persian and Indic words and many emoji need them.
_KEPT = "\n\t\u200c\u200d"


class _Notation(dict[int, str]):
    """What stands for a character that would act instead of being seen; filled as characters are met."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        if char in _KEPT or char.isprintable() or unicodedata.category(char) == "Zs":
            shown = char
        elif code < 0x20 or code == 0x7F:
            shown = f"^{chr(code ^ 0x40)}"
        else:
            shown = f"<U+{code:04X}>"
        self[code] = shown
        return shown


_NOTATION = _Notation()


def visible(text: str) -> str:
    """The text with every character that would act in notation: ``^[`` for escape, ``<U+202E>`` for the rest.

    Acting are control characters (escape sequences, C1), bidirectional and zero-width controls, line
    separators, unassigned code points and lone surrogates. Newlines and tabs stay; a carriage return before
    a newline goes.
    """
    if text.isascii() and text.isprintable():
        return text
    return text.replace("\r\n", "\n").translate(_NOTATION)
