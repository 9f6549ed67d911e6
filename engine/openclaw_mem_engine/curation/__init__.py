"""Curation of MEMORY.md: what should be in it, and what should not, each proposal with its evidence."""
