"""Widgets of the lab: they draw lines that ``render`` made, and report what the user does."""
