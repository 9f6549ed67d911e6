"""Typed settings: where each value came from, what is allowed, and what was wrong with it.

:mod:`.load` builds :class:`.settings.Settings`, :mod:`.show` prints them. Nothing here writes a file,
touches the network, or reads the process environment on its own: it comes in as a parameter.
"""
