"""The themes that come with the program: no file is read for them at the start. Files of the user have the
same tables (see ``loading``)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

DEFAULT = "claw-dark"


class Theme(NamedTuple):
    """A checked theme. Colours are ``#rgb``, ``#rrggbb`` or ``ansi_NAME``; of ``variables`` those that are
    left out are mixed from the colours."""

    name: str
    dark: bool
    colors: Mapping[str, str]
    variables: Mapping[str, str] = MappingProxyType({})


_THEMES = (
    # Slate and one warm accent: calm on a dark terminal.
    Theme(
        "claw-dark",
        True,
        {
            "primary": "#f0876a",
            "secondary": "#7aa2c9",
            "accent": "#f0876a",
            "foreground": "#d6dae0",
            "background": "#15181c",
            "surface": "#15181c",
            "panel": "#1d2026",
            "success": "#8fbf8a",
            "warning": "#d9b36c",
            "error": "#e0707a",
        },
        {
            "quiet": "#a0a9b8",  # secondary text
            "faint": "#8791a0",  # rules, zeros, separators
            "frame": "#353b45",  # borders
            "cursor": "#252a31",  # the selected row
            "total": "#c2c9d3",  # bars of totals
            "vector": "#b493d6",  # bars of vector lists; those of lexical ones are secondary
        },
    ),
    # Paper and one warm accent, dark enough for small text.
    Theme(
        "claw-light",
        False,
        {
            "primary": "#b54329",
            "secondary": "#2f6690",
            "accent": "#b54329",
            "foreground": "#24292f",
            "background": "#fbfaf7",
            "surface": "#fbfaf7",
            "panel": "#f0eee8",
            "success": "#2b7537",
            "warning": "#895f00",
            "error": "#b3261e",
        },
        {
            "quiet": "#505862",
            "faint": "#616974",
            "frame": "#cfd1cd",
            "cursor": "#ece8de",
            "total": "#4a525c",
            "vector": "#7a4a9e",
        },
    ),
    # Black, white and yellow: every text at 7:1 or more, on the selected row too.
    Theme(
        "claw-contrast",
        True,
        {
            "primary": "#ffd500",
            "secondary": "#66d9ff",
            "accent": "#ffd500",
            "foreground": "#ffffff",
            "background": "#000000",
            "surface": "#000000",
            "panel": "#000000",
            "success": "#5fff87",
            "warning": "#ffaf5f",
            "error": "#ff9a9a",
        },
        {
            "quiet": "#e0e0e0",
            "faint": "#b8b8b8",
            "frame": "#ffffff",
            "cursor": "#2a2a00",
            "total": "#ffffff",
            "vector": "#ff9cf0",
        },
    ),
)
BUILT_IN: Mapping[str, Theme] = {theme.name: theme for theme in _THEMES}
