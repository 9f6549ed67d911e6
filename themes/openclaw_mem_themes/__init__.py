"""Themes of the workbench, as TOML package data."""
