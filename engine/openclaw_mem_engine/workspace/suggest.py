"""Paths that a mistyped one may have meant."""

from __future__ import annotations

from collections.abc import Sequence

#: Under this likeness (0 to 100) a suggestion would be noise.
LEAST_LIKENESS = 60.0


def suggest_paths(wrong: str, known: Sequence[str], limit: int = 5) -> list[str]:
    """The known paths most like ``wrong``, best first, ties by path, at most ``limit``.

    Upper and lower case are the same here. A path counts by the better of two likenesses: the whole path,
    and the file name alone (a little less), so that a right name in a wrong folder is found.
    """
    if limit < 1 or not wrong.strip() or not known:
        return []
    from rapidfuzz import fuzz, process  # only a failed look-up pays for loading it

    asked = wrong.strip().casefold()
    likeness: dict[str, float] = {}
    for share, part in ((1.0, 0), (0.95, 1)):
        choices = {path: _parts(path)[part] for path in known}
        query = _parts(asked)[part]
        found = process.extract(query, choices, scorer=fuzz.ratio, limit=None, score_cutoff=LEAST_LIKENESS)
        for _, score, path in found:
            likeness[path] = max(likeness.get(path, 0.0), share * score)
    return sorted(likeness, key=lambda path: (-likeness[path], path))[:limit]


def _parts(path: str) -> tuple[str, str]:
    folded = path.casefold().removesuffix(".md")
    return folded, folded.rpartition("/")[2]
