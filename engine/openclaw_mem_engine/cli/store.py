"""``openclaw-mem store``: the servers that hold indexes instead of a file."""

from __future__ import annotations

import os
import time
from argparse import Namespace
from contextlib import closing
from typing import TYPE_CHECKING, Any

from openclaw_mem_engine.cli.opening import settings_of
from openclaw_mem_engine.cli.progress import ProgressLine
from openclaw_mem_engine.cli.terminal import agreed, can_ask, flush_out, indented, one_line, show, stoppable
from openclaw_mem_engine.cli.text_format import duration
from openclaw_mem_engine.errors import IndexUnavailable, UsageError
from openclaw_mem_engine.sanitize import byte_size, counted

if TYPE_CHECKING:
    from openclaw_mem_engine.config.settings import Settings
    from openclaw_mem_engine.stores.postgres.removing import Held

#: The variable of ``store.kind``.
_KIND = "OPENCLAW_MEM_STORE"


def _on_servers(arguments: Namespace) -> Settings:
    settings = settings_of(arguments)
    if settings.store.kind != "postgres":
        raise UsageError(
            "store.kind is sqlite: the index is in a file, which needs no server. For indexes on servers set "
            "store.kind to postgres, and name them in store.servers."
        )
    return settings


def init(arguments: Namespace) -> int:
    """Make or update tables, policies and rights on every server of the settings."""
    from openclaw_mem_engine.config.secret import Secret
    from openclaw_mem_engine.config.store import check_address
    from openclaw_mem_engine.stores.postgres.installing import OWNER_VARIABLE, example, install

    settings = _on_servers(arguments)
    servers = settings.store.servers
    owners = [Secret(address) for address in os.environ.get(OWNER_VARIABLE, "").split()]
    if len(owners) != len(servers):
        examples = " ".join(example(server, "OWNER") for server in servers)
        raise UsageError(
            f"{OWNER_VARIABLE} holds {len(owners)} addresses for {counted(len(servers), 'server')}: set it "
            f"to that of the role that owns the tables of each, as '{examples}', and run `openclaw-mem store "
            "init` again. The role of store.servers makes no tables: it is to own nothing."
        )
    for number, owner in enumerate(owners, 1):
        check_address(owner, f"{OWNER_VARIABLE}: server {number}")
    done = [install(owner, server) for owner, server in zip(owners, servers, strict=True)]
    data = {"servers": [{"server": server, "role": role} for server, role in done]}
    lines = [f"{one_line(at)}: the tables are there; {one_line(role)} may use them." for at, role in done]
    show(data, lines, as_json=arguments.json)
    return 0


def status(arguments: Namespace) -> int:
    """Print where the agent's index is, and ask every server."""
    from openclaw_mem_engine.stores import is_there, open_store

    settings = settings_of(arguments)
    at = settings.store.location
    data: dict[str, Any] = {
        "kind": settings.store.kind,
        "agent": settings.agent,
        "index": settings.index_name,
    }
    lines = [f"{settings.store.kind}: {one_line(settings.index_name)}"]
    failed = False
    if at is not None:
        data |= {"name": at.agent, "shard": at.shard, "servers": _asked(settings)}
        failed = any("error" in server for server in data["servers"])
    try:
        if not is_there(settings):
            held = None
        else:
            with closing(open_store(settings.store.kind, settings.index_path, location=at)) as store:
                held = store.counts() if store.fingerprint() is not None else None
                synced, data["index"] = store.synced_at(), store.location
        if held is None:
            lines.append("  There is no index yet: `openclaw-mem index` makes it.")
        else:
            data |= {"files": held.files, "chunks": held.chunks, "embeddings": held.cached}
            data["syncedAt"] = synced
            since = f"{duration(time.time() - synced)} ago" if synced is not None else "never"
            lines = [f"{settings.store.kind}: {one_line(str(data['index']))}"]
            sizes = _counts(held.files, held.chunks, held.cached)
            lines.append(f"  {sizes}; last synced: {since}")
    except IndexUnavailable as error:
        data["error"], failed = str(error), True
        lines.append(f"  {one_line(str(error))}")
    for number, server in enumerate(data.get("servers", ()), 1):
        lines.append(f"server {number}: {one_line(server['server'])}, shards {server['shards']}")
        lines += indented([one_line(server.get("error") or server["version"])])
    show(data, lines, as_json=arguments.json)
    return IndexUnavailable.exit_code if failed else 0


def _asked(settings: Settings) -> list[dict[str, str]]:
    """Each server, with the versions and the role that it names, or why it cannot be used."""
    from openclaw_mem_engine.config.store import SHARDS, server_name
    from openclaw_mem_engine.stores.postgres.checks import versions

    found = []
    shards = settings.store.shards or (f"0-{SHARDS - 1}",)
    for server, ranges in zip(settings.store.servers, shards, strict=True):
        row = {"server": server_name(server), "shards": ranges}
        try:
            row["version"] = versions(server)
        except IndexUnavailable as error:
            row["error"] = str(error)
        found.append(row)
    return found


def migrate(arguments: Namespace) -> int:
    """Copy the index of the agent to the other kind of store."""
    from openclaw_mem_engine.sync.transfer import migrate as copied_to

    other = {"postgres": "sqlite", "sqlite": "postgres"}[arguments.to]
    source, target = (settings_of(arguments, os.environ | {_KIND: kind}) for kind in (other, arguments.to))
    with stoppable() as token, ProgressLine() as progress:
        done = copied_to(source, target, replace=arguments.replace, progress=progress, cancel=token)
    in_use = settings_of(arguments).store.kind
    if in_use == arguments.to:
        then = f"The copy is in use: store.kind is {in_use}."
    else:
        then = f"Not in use yet, store.kind is {in_use}: set it, or {_KIND}, to {arguments.to}."
    sizes = _counts(done.files, done.chunks, done.embeddings)
    lines = [f"Copied {sizes} to {one_line(done.target)}."]
    lines += indented([f"{one_line(done.source)} is as it was.", then])
    show(done._asdict(), lines, as_json=arguments.json)
    return 0


def remove(arguments: Namespace) -> int:
    """Remove the agent from all servers, after a confirmation."""
    from openclaw_mem_engine.sync import transfer

    settings = _on_servers(arguments)
    at = settings.store.location
    assert at is not None
    if settings.store.per_agent and not arguments.agent:
        raise UsageError("Name the agent that is to be removed: --agent ID. Nothing was removed.")
    if arguments.agent and not settings.store.per_agent:
        raise UsageError(
            f"--agent does not choose here: store.agent names {one_line(at.agent)} for every agent. Leave it "
            "out to remove that one. Nothing was removed."
        )
    held, removed = transfer.held(settings), False
    if not arguments.json:
        show(None, [f"agent {one_line(at.agent)}:", *indented(map(_sizes, held))], as_json=False)
        flush_out()
    if not (arguments.yes or can_ask()):
        raise UsageError(
            "Removing an agent needs confirmation: use a terminal, or add --yes. Nothing was removed."
        )
    if arguments.yes or agreed("Remove it, with all text and embeddings, from these servers?"):
        with stoppable() as token:
            held, removed = transfer.remove(settings, cancel=token), True
    lines = ["Nothing was removed."]
    if removed:
        servers = ", ".join(one_line(each.server) for each in held)
        lines = [f"Removed {counted(sum(each.chunks for each in held), 'chunk')} from {servers}."]
        lines += indented(["A host that still has the agent's notes makes its index again at its next sync."])
    data = {"name": at.agent, "servers": [each._asdict() for each in held], "removed": removed}
    show(data, lines, as_json=arguments.json)
    return 0


def _counts(files: int, chunks: int, embeddings: int, words: str = "") -> str:
    sizes = (counted(files, "file"), counted(chunks, "chunk"), words, counted(embeddings, "embedding"))
    return ", ".join(filter(None, sizes))


def _sizes(held: Held) -> str:
    sizes = _counts(held.files, held.chunks, held.embeddings, f"{counted(held.words, 'row')} of words")
    return f"{one_line(held.server)}: {sizes}: {byte_size(held.bytes)}"
