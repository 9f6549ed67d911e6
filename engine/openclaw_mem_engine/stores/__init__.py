"""Indexes behind protocols (``base.py``), and the registry that opens one by its kind."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from openclaw_mem_engine.config.secret import Secret
    from openclaw_mem_engine.stores.base import IndexStore

#: Each kind of store and its opener, ``module:function``, imported when it is used. An opener takes the
#: arguments of ``open_store`` after ``kind``. A new store is one line here.
STORES = {
    "sqlite": "openclaw_mem_engine.stores.sqlite.store:SqliteIndex",
    "postgres": "openclaw_mem_engine.stores.postgres.store:PostgresIndex",
}


class StoreLocation(NamedTuple):
    """Where a store that is no local file keeps an index: its server, the agent's name there, and the logical
    shard of the agent in words."""

    server: Secret
    agent: str
    shard: str = ""


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
