"""What ``qmd … --json`` prints: JSON, maybe with lines around it, or a sentence that nothing matches."""

from __future__ import annotations

import json
import re
import sys
from itertools import islice
from typing import Any

_MARKER = r"(?:(?:\[[^\]\n]*\]|(?:warn|warning|info|error|qmd)\s*:)\s*)*no\s+results\s+found\.?"
_QUOTED_CHARS = 120
_MOST = sys.float_info.max
#: Where a list of results may begin among other output, and how many such beginnings are tried.
_LIST, _TRIES = re.compile(r"\[(?=\s*[{\]])"), 50


class InvalidOutput(ValueError):
    """The program printed something else than results."""


def parse_results(stdout: str, stderr: str = "") -> list[Any]:
    """The rows that were printed; none for "no results found" (in stderr when stdout is empty).

    Also read: the rows as ``results`` of an object, and the first list of objects, or empty, in other output.
    The score of an object is a finite number, its snippet a text. Releases before 1.1 say "No results found
    above minimum score threshold." instead of ``[]``. Raises InvalidOutput.
    """
    text = stdout.strip()
    if not text:
        if _says_nothing(stderr):
            return []
        said = stderr.strip()
        said = said if len(said) <= _QUOTED_CHARS else f"{said[: _QUOTED_CHARS - 3]}..."
        raise _invalid(f"stdout empty (stderr: {said})" if said else "stdout empty")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = _first_list(text)
    if isinstance(found, dict):
        found = found.get("results")
    if isinstance(found, list):
        if wrong := next(filter(None, map(_wrong, found)), ""):
            raise _invalid(wrong)
        return found
    if _says_nothing(text):
        return []
    raise _invalid("qmd query JSON response was not an array")


def _invalid(reason: str) -> InvalidOutput:
    return InvalidOutput(f"qmd query returned invalid JSON: {reason}")


def _says_nothing(text: str) -> bool:
    """Whether a line says that there are no results, and nothing else."""
    above = r"(?:\s+above\s+minimum\s+score\s+threshold\.?)?"
    return any(re.fullmatch(_MARKER + above, line.strip(), re.IGNORECASE) for line in text.splitlines())


def _wrong(row: object) -> str:
    """What makes a row no result that can be ranked and shown; "" for one that can, or that is no object."""
    if not isinstance(row, dict):
        return ""
    score, snippet = row.get("score", 0), row.get("snippet")
    if isinstance(score, bool) or not isinstance(score, (int, float)) or not abs(score) <= _MOST:
        return "a score is not a finite number"
    return "" if snippet is None or isinstance(snippet, str) else "a snippet is not a text"


def _first_list(text: str) -> object:
    """The first list of the text that is empty or holds only objects; without one that of the first bracket,
    and None when that begins no list."""
    starts = [match.start() for match in islice(_LIST.finditer(text), _TRIES)]
    for start in starts:
        found = _decoded(text, start)
        if isinstance(found, list) and all(isinstance(row, dict) for row in found):
            return found
    return _decoded(text, text.find("["))


def _decoded(text: str, start: int) -> object:
    """The JSON that begins there; None when none does."""
    try:
        return json.JSONDecoder().raw_decode(text, max(0, start))[0]
    except (ValueError, RecursionError):
        return None
