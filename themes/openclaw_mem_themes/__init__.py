"""Colour themes of the workbench: TOML files, three of ours and any of the user's."""

from openclaw_mem_themes.loading import BUILT_IN, DEFAULT, ThemeError, ThemeFile, load_theme

__all__ = ["BUILT_IN", "DEFAULT", "ThemeError", "ThemeFile", "load_theme"]
