"""Widgets of the lab: they draw lines that ``lines/`` made, and report what the user does."""
