"""Our themes as those of Textual, and the variables that our style sheets use under any theme."""

from __future__ import annotations

from pathlib import Path

from textual.color import Color, ColorParseError
from textual.theme import BUILTIN_THEMES
from textual.theme import Theme as TextualTheme

from openclaw_mem_themes import Theme, ThemeError, load_theme


def textual_theme(theme: Theme) -> TextualTheme:
    """A theme as Textual knows it."""
    colors = dict(theme.colors)
    return TextualTheme(
        name=theme.name,
        primary=colors.pop("primary"),
        dark=theme.dark,
        variables=dict(theme.variables),
        **colors,  # type: ignore[arg-type]
    )


def theme_trouble(name: str, folder: Path) -> str:
    """Why this theme cannot be used; "" where it can. ``folder`` holds the user's own themes."""
    try:
        if name not in BUILTIN_THEMES:
            load_theme(name, folder)
    except ThemeError as error:
        return str(error)
    return ""


#: Of the text colour in the mixture.
_SHARES = {"quiet": 0.72, "faint": 0.55, "frame": 0.22, "cursor": 0.12, "total": 0.85}
_OF_A_PALETTE = {
    "quiet": "ansi_default",
    "faint": "ansi_bright_black",
    "frame": "ansi_bright_black",
    "cursor": "ansi_black",
    "total": "ansi_default",
}


def mixed_variables(variables: dict[str, str]) -> dict[str, str]:
    """``quiet``, ``faint``, ``frame``, ``cursor``, ``total`` for themes that do not say: mixed from text and
    background. A terminal's own palette cannot be mixed and gets its nearest names. ``vector`` is the accent
    for them."""
    try:
        text = Color.parse(variables["foreground"])
        ground = Color.parse(variables["background"])
        if text.ansi is not None or ground.ansi is not None:
            raise ColorParseError("a palette colour has no mixture")
        mixed = {name: ground.blend(text, share).hex6 for name, share in _SHARES.items()}
    except ColorParseError:
        mixed = _OF_A_PALETTE
    return {**mixed, "vector": variables["accent"]}
