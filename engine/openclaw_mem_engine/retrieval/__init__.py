"""From a query to a pool of candidates. Backends by name; a new one is a module and one line here."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openclaw_mem_engine.retrieval.base import Backend, BackendContext

DEFAULT_BACKEND = "builtin"
#: Name to module; each has a function ``open_backend(context)``. Loaded when it is used.
BACKENDS = {
    "builtin": "openclaw_mem_engine.retrieval.builtin",
}


def open_backend(name: str, context: BackendContext) -> Backend:
    """The backend ``name``; the default one for a name that is only known to the configuration.

    Raises what opening raises, mostly IndexUnavailable.
    """
    module = import_module(BACKENDS.get(name, BACKENDS[DEFAULT_BACKEND]))
    backend: Backend = module.open_backend(context)
    return backend
