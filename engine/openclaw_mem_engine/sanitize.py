"""Text that is shown: foreign text made safe, numbers with their nouns; which scripts have no spaces."""

from __future__ import annotations

import re
import unicodedata

#: Scripts written without spaces (ideographs, kana, Hangul): words cannot be found by looking for gaps.
#: The inside of a regular expression's square brackets.
CJK = (
    "\u3005\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0002fa1f"
)

#: White space and line ends of ECMAScript. It differs from ``str.isspace()`` by U+FEFF (white here) and by
#: U+001C-U+001F and U+0085 (not white here).
WHITE = (
    "\t\n\v\f\r \u00a0\u1680"
    "\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)

# Joiners are part of words: Persian and Indic words and many emoji need them.
_KEPT = "\n\t\u200c\u200d"


class _Notation(dict[int, str]):
    """Replacements of characters that would act instead of being seen; filled as characters are met."""

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


def visible_line(text: str) -> str:
    """Visible text as one line: a newline within it, also one of a file name, becomes ``⏎``."""
    return visible(text).replace("\n", "⏎")


def one_line(text: str) -> str:
    """``visible_line`` without runs of blanks, for messages and for what is laid out in columns."""
    return " ".join(visible_line(text.strip()).split())


#: What JSON may hold as it is, but a terminal acts on: DEL, C1, line separators, bidirectional controls.
_ACTING = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def inert_json(text: str) -> str:
    """JSON with the characters in it that a terminal acts on as escapes; it holds the same values."""
    return (
        text if text.isascii() and "\x7f" not in text else _ACTING.sub(lambda m: f"\\u{ord(m[0]):04x}", text)
    )


def mostly_not_latin(text: str) -> bool:
    """Whether more than half of the letters of a text are of other scripts than Latin."""
    letters = [unicodedata.name(char, "").startswith("LATIN ") for char in text if char.isalpha()]
    return sum(letters) * 2 < len(letters)


def ordinal(number: int) -> str:
    """``1st``, ``22nd``, ``11th``"""
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{ending}"


def figure(value: float, digits: int) -> str:
    """So many decimals, with the minus of formulas, which no zero has."""
    return f"{value:z.{digits}f}".replace("-", "−")


def decimals(value: float, limit: float, least: int = 3) -> int:
    """So many that the rounded value is on the same side of the limit; ``least`` or more."""
    below = value < limit
    return next((many for many in range(least, 9) if (round(value, many) < limit) is below), 9)


def apart(value: float, limit: float, least: int = 3) -> str:
    """The value with as many decimals as show on which side of the limit it is."""
    return figure(value, decimals(value, limit, least))


def byte_size(count: float) -> str:
    """``512 B``, ``6.1 KB``, ``295 KB``, ``4.2 MB``, ``12 GB``: each unit is 1,000 of the one before."""
    size = float(count)
    for unit in ("B", "KB", "MB", "GB"):
        if size < 999.5 or unit == "GB":
            break
        size /= 1000
    return f"{size:,.{int(unit != 'B' and size < 9.95)}f} {unit}"


def capital(text: str) -> str:
    """A text as a sentence begins; its other letters stay."""
    return f"{text[0].upper()}{text[1:]}"


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """``1 chunk``, ``1,904 chunks``"""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def counted_are(number: int, noun: str, plural: str | None = None) -> str:
    """``1 chunk is``, ``1,904 chunks are``"""
    return f"{counted(number, noun, plural)} {'is' if number == 1 else 'are'}"


def counted_have(number: int, noun: str) -> str:
    """``1 chunk has``, ``1,904 chunks have``"""
    return f"{counted(number, noun)} {'has' if number == 1 else 'have'}"
