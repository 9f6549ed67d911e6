"""Indexes behind protocols (``base.py``), and the registry that opens one by its kind."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openclaw_mem_engine.config.settings import Settings
    from openclaw_mem_engine.config.store import StoreLocation
    from openclaw_mem_engine.stores.base import IndexStore

#: Each kind of store and its opener, ``module:function``, imported when it is used. An opener takes the
#: arguments of ``open_store`` after ``kind``. A new store is one line here.
STORES = {
    "sqlite": "openclaw_mem_engine.stores.sqlite.store:SqliteIndex",
    "postgres": "openclaw_mem_engine.stores.postgres.store:PostgresIndex",
}


def is_there(settings: Settings) -> bool:
    """Whether opening the index makes nothing: its file exists, or it is on a server. Raises
    IndexUnavailable for a file that is not ours or cannot be reached."""
    from openclaw_mem_engine.stores.sqlite.connections import index_is_there

    on_server = settings.store.location is not None and not settings.qmd_in_process
    return on_server or index_is_there(settings.index_path)


def open_store(
    kind: str,
    path: Path,
    *,
    resident: bool = False,
    extension: bool = True,
    full_text: bool = True,
    location: StoreLocation | None = None,
) -> IndexStore:
    """Open the index ``path``, made empty when there is none; with ``location`` the one there, which ``path``
    only names on this host.

    ``resident`` keeps vectors in memory between searches; ``extension`` allows native vector search;
    ``full_text`` False goes without full-text search, as where it is missing. May wait some seconds for
    another process. Raises KeyError for a kind that is not registered, IndexUnavailable."""
    module, _, opener = STORES[kind].partition(":")
    more = {} if location is None else {"location": location}
    opened: IndexStore = getattr(import_module(module), opener)(
        path, resident=resident, extension=extension, full_text=full_text, **more
    )
    return opened
