"""Keeping an index up to date with the files."""
