"""``openclaw-mem cache``."""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from typing import TYPE_CHECKING, Any

from openclaw_mem_engine.cli.arguments import whole_number
from openclaw_mem_engine.cli.formats import print_json
from openclaw_mem_engine.cli.opening import open_memory, settings_of
from openclaw_mem_engine.cli.terminal import Style, aligned, one_line, out, stoppable
from openclaw_mem_engine.cli.text_format import byte_size, count, moment
from openclaw_mem_engine.errors import UsageError
from openclaw_mem_engine.stores.sqlite.files import index_is_there

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openclaw_mem_engine.config.settings import Settings
    from openclaw_mem_engine.stores.base import CacheSize


def run(arguments: Namespace) -> int:
    """Tell the sizes, or prune. Without an index there is no cache, and none is made."""
    most = whole_number(arguments.max, "--max", 0)
    if most is not None and arguments.action != "prune":
        raise UsageError("--max belongs to `openclaw-mem cache prune`.")
    settings = settings_of(arguments)
    if arguments.action == "prune":
        return _prune(settings, _most(settings) if most is None else most, as_json=arguments.json)
    return _stats(settings, as_json=arguments.json)


def _most(settings: Settings) -> int:
    """How many a sync lets stay."""
    return settings.cache.max_entries if settings.cache.enabled else 0


def _stats(settings: Settings, *, as_json: bool) -> int:
    exists, sizes = index_is_there(settings.index_path), []
    if exists:
        with open_memory(settings) as memory:
            sizes = memory.cache_sizes()
    if as_json:
        print_json({"indexPath": str(settings.index_path), "exists": exists} | _totals(sizes, settings))
        return 0
    if not exists:
        out(_no_index(settings))
        return 0
    for line in stats_lines(sizes, settings, Style.of(sys.stdout), time.time()):
        out(line)
    return 0


def _totals(sizes: Sequence[CacheSize], settings: Settings) -> dict[str, Any]:
    return {
        "entries": sum(size.entries for size in sizes),
        "live": sum(size.live for size in sizes),
        "bytes": sum(size.bytes for size in sizes),
        "maxEntries": _most(settings),
        "spaces": [
            {
                "provider": size.space.provider,
                "model": size.space.model,
                "entries": size.entries,
                "live": size.live,
                "bytes": size.bytes,
                "oldest": size.oldest,
                "newest": size.newest,
            }
            for size in sizes
        ],
    }


def stats_lines(sizes: Sequence[CacheSize], settings: Settings, style: Style, now: float) -> list[str]:
    """The cache space by space, for people; ``now`` is epoch seconds."""
    if not sizes:
        return ["The cache holds no embeddings yet: `openclaw-mem index` fills it."]
    rows = [("embeddings of", "entries", "needed", "size", "oldest", "newest")]
    for size in sizes:
        counts = (f"{size.entries:,}", f"{size.live:,}", byte_size(size.bytes))
        times = (moment(size.oldest, now), moment(size.newest, now))
        rows.append((one_line(size.space.label), *counts, *times))
    head, *lines = aligned(rows)
    entries = sum(size.entries for size in sizes)
    total = f"{count(entries, 'embedding')}, {byte_size(sum(size.bytes for size in sizes))}"
    return [
        style.strong(head),
        *lines,
        f"{total}; an index run keeps at most {_most(settings):,}, and always those that passages need.",
    ]


def _prune(settings: Settings, most: int, *, as_json: bool) -> int:
    exists = index_is_there(settings.index_path)
    gone, left, live = 0, 0, 0
    if exists:
        with open_memory(settings) as memory, stoppable() as token:
            gone = memory.prune_cache(most, token)
            sizes = memory.cache_sizes()
        left, live = sum(size.entries for size in sizes), sum(size.live for size in sizes)
    spared = max(0, left - most)
    if as_json:
        told = {"indexPath": str(settings.index_path), "exists": exists}
        print_json(told | {"max": most, "removed": gone, "spared": spared, "entries": left, "live": live})
    elif not exists:
        out(_no_index(settings))
    else:
        out(f"{count(gone, 'embedding')} forgotten; {left:,} stay, {live:,} of them needed by passages.")
        if spared:
            out(f"That is {spared:,} more than {most:,}: what a passage needs is spared.")
    return 0


def _no_index(settings: Settings) -> str:
    return (
        f"There is no index yet ({one_line(str(settings.index_path))}), so there is no cache: "
        "`openclaw-mem index` makes both."
    )
