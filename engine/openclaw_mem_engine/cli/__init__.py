"""The ``openclaw-mem`` command: parse, call ``Memory``, print. Nothing else of the engine imports it."""
