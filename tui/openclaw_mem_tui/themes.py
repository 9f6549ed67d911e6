"""Theme files as Textual themes, and the variables that our style sheets use under any theme."""

from __future__ import annotations

from pathlib import Path

from textual.color import Color, ColorParseError
from textual.theme import Theme

from openclaw_mem_themes import BUILT_IN, ThemeFile, load_theme


def textual_theme(file: ThemeFile) -> Theme:
    """One theme file as Textual knows it."""
    colors = dict(file.colors)
    return Theme(
        name=file.name,
        primary=colors.pop("primary"),
        dark=file.dark,
        variables={**_SHARED, **file.variables},
        **colors,  # type: ignore[arg-type]
    )


#: Parts of Textual's own widgets that would bring a second accent.
_SHARED = {"block-cursor-text-style": "bold", "footer-key-foreground": "$accent"}


def our_themes() -> list[Theme]:
    return [textual_theme(load_theme(name)) for name in BUILT_IN]


def chosen_theme(name_or_path: str, folder: Path | None) -> Theme:
    """The user's theme. Raises ThemeError."""
    return textual_theme(load_theme(name_or_path, folder))


def mixed_variables(variables: dict[str, str]) -> dict[str, str]:
    """``quiet``, ``faint``, ``frame``, ``cursor``, ``total`` for themes that do not say: mixed from text and
    background. A terminal's own palette cannot be mixed and gets its nearest names."""
    try:
        text = Color.parse(variables["foreground"])
        ground = Color.parse(variables["background"])
        if text.ansi is not None or ground.ansi is not None:
            raise ColorParseError("a palette colour has no mixture")
        return {
            "quiet": ground.blend(text, 0.72).hex6,
            "faint": ground.blend(text, 0.55).hex6,
            "frame": ground.blend(text, 0.22).hex6,
            "cursor": ground.blend(text, 0.12).hex6,
            "total": ground.blend(text, 0.85).hex6,
        }
    except ColorParseError:
        return {
            "quiet": "ansi_default",
            "faint": "ansi_bright_black",
            "frame": "ansi_bright_black",
            "cursor": "ansi_black",
            "total": "ansi_default",
        }
