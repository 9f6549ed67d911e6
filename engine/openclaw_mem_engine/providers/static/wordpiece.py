"""BERT's uncased WordPiece tokenisation, in pure Python, made for many lines at once.

The rules are those of the BERT-uncased tokenizer without special tokens and without a length limit: text that
is not ASCII is decomposed (NFD) and cleaned as ``_clean_character`` does, then a word is cut into pieces by
the longest match first; one without a match, or of more than 100 characters, is the unknown token.

Word pieces are remembered per word as packed 16-bit ids, so that a text is one regex scan, one dictionary
look-up per word and one join of bytes.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections.abc import Iterable, Sequence

#: Separates the ids of two lines; no token has it (a vocabulary holds fewer than 65,535 entries).
LINE_END = 0xFFFF

_MAX_WORD = 100
#: Words to remember before starting afresh: some 25 MB at most.
_MAX_REMEMBERED = 131_072
_MAX_CODE_POINTS = 65_536

_SYMBOLS = r"!-/:-@\[-`{-~"
_WORD = re.compile(rf"[{_SYMBOLS}\n]|[^ \n{_SYMBOLS}]+")
_ASCII_CLEANED: dict[int, str | None] = {
    **dict.fromkeys((*range(32), 127)),
    **dict.fromkeys(map(ord, "\t\n\r"), " "),
}
_IDEOGRAPHS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


class WordPiece:
    """Tokens of text for one vocabulary of fewer than 65,535: ``vocabulary[id]`` is the token; inner pieces
    begin with ``##``, and there is ``[UNK]``."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self._words = _Words(vocabulary)

    def ids(self, text: str) -> list[int]:
        """The token ids of one text; line breaks are just white space."""
        packed = array("H")
        packed.frombytes(self.pack_lines([text.replace("\n", " ")]))
        return packed.tolist()[:-1]

    def pack_lines(self, lines: Iterable[str]) -> bytes:
        """The ids of many lines as native unsigned 16-bit numbers, ``LINE_END`` after each line.

        No line may hold a line feed. Tokens never cross lines, so the ids of a text are those of its lines.
        """
        # isprintable() is False for every control character: the cheapest test for "nothing to clean".
        cleaned = [
            line.lower() if line.isascii() and line.isprintable() else _clean_line(line) for line in lines
        ]
        cleaned.append("")
        return b"".join(map(self._words.__getitem__, " \n ".join(cleaned).split(" ")))


class _Words(dict[str, bytes]):
    """What stands between two spaces -> its packed ids: words and symbols, or the end of a line."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        super().__init__()
        self._ids = ids = dict(zip(vocabulary, range(len(vocabulary)), strict=True))
        self._unknown = self._pack([ids["[UNK]"]])
        self._line_end = self._pack([LINE_END])

    @staticmethod
    def _pack(ids: list[int]) -> bytes:
        return array("H", ids).tobytes()

    def __missing__(self, text: str) -> bytes:
        words = _WORD.findall(text)
        if len(words) > 1:
            packed = b"".join(map(self.__getitem__, words))
        elif len(text) > _MAX_WORD:
            return self._unknown
        else:
            packed = self._line_end if text == "\n" else self._pieces(text)
        if len(text) <= _MAX_WORD:  # one blob of base64 may be megabytes long
            if len(self) >= _MAX_REMEMBERED:
                self.clear()
            self[text] = packed
        return packed

    def _pieces(self, word: str) -> bytes:
        pieces: list[int] = []
        start, mark = 0, ""
        while start < len(word):
            for end in range(len(word), start, -1):
                piece = self._ids.get(mark + word[start:end])
                if piece is not None:
                    pieces.append(piece)
                    start, mark = end, "##"
                    break
            else:
                return self._unknown
        return self._pack(pieces)


class _Characters(dict[int, str]):
    """code point -> its replacement in the cleaned text (for ``str.translate``); filled as met."""

    def __missing__(self, code: int) -> str:
        if len(self) >= _MAX_CODE_POINTS:
            self.clear()
        self[code] = cleaned = _clean_character(chr(code))
        return cleaned


def _clean_character(char: str) -> str:
    category = unicodedata.category(char)
    if char in "\t\n\r" or category[0] == "Z":
        return " "
    if category[0] == "C" or category == "Mn" or char == "\ufffd":
        return ""
    is_ascii_symbol = "!" <= char <= "~" and not char.isalnum()
    if category[0] == "P" or is_ascii_symbol or any(low <= ord(char) <= high for low, high in _IDEOGRAPHS):
        return f" {char} "
    return char.lower()


_CHARACTERS = _Characters()


def _clean_line(line: str) -> str:
    """A line as lower-case words; what must be a word of its own has spaces round it."""
    if line.isascii():
        return line.translate(_ASCII_CLEANED).lower()
    return unicodedata.normalize("NFD", line).translate(_CHARACTERS)
