"""Colour themes of the workbench: three of ours, and TOML files of the user."""

from openclaw_mem_themes.built_in import BUILT_IN, DEFAULT, Theme
from openclaw_mem_themes.loading import ThemeError, load_theme

__all__ = ["BUILT_IN", "DEFAULT", "Theme", "ThemeError", "load_theme"]
