"""``openclaw-mem qmd``: keeping the index up to date, its state, warming up the external program."""

from __future__ import annotations

import shlex
import time
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openclaw_mem_engine.cli.opening import warned_settings
from openclaw_mem_engine.cli.planning import announce
from openclaw_mem_engine.cli.progress import ProgressLine
from openclaw_mem_engine.cli.qmd_collections import ago, collection_facts
from openclaw_mem_engine.cli.qmd_opening import opened
from openclaw_mem_engine.cli.terminal import one_line, out, print_json, printed, say, stoppable
from openclaw_mem_engine.commands import advice
from openclaw_mem_engine.errors import IndexUnavailable, ProviderError, UsageError
from openclaw_mem_engine.model import as_json
from openclaw_mem_engine.qmd.collections import Collection
from openclaw_mem_engine.qmd.documents import VirtualPath
from openclaw_mem_engine.sanitize import counted, visible

if TYPE_CHECKING:
    from openclaw_mem_engine.retrieval.qmd import QmdBackend
    from openclaw_mem_engine.sidecar.upkeep import Step
    from openclaw_mem_engine.stores.qmd.maintenance import Status


def add(arguments: Namespace) -> int:
    """Add a folder and index it. Raises UsageError for what is no folder, and a name that is taken."""
    root = Path(arguments.path).expanduser().resolve()
    if not root.is_dir():
        what = "is not a directory" if root.exists() else "does not exist"
        raise UsageError(f"The path of a collection is a folder; {root} {what}.")
    new = Collection(arguments.name or root.name, root, arguments.mask or "**/*.md", tuple(arguments.ignore))
    with opened(arguments) as (_, backend):
        with backend.writing() as store:
            store.add_collection(new)
        lines = list(_update_lines(backend, arguments, new.name))
        facts = collection_facts(backend.store, new.name)
    created = f"Collection '{new.name}' created successfully"
    return printed(arguments, facts, (f"Creating collection '{new.name}'...", *lines, created))


def update(arguments: Namespace) -> int:
    """Take in what changed in every collection, or in one: commands of the user first, then the files."""

    with opened(arguments) as (_, backend):
        if arguments.json:
            print_json({"collections": [*_updated(backend, arguments, arguments.collection)]})
            return 0
        number = 1 if arguments.collection else len(backend.store.collections())
        if not number:
            out(
                advice(
                    "No collections found. Run `openclaw-mem qmd collection add .` to index markdown files."
                )
            )
            return 0
        out(f"Updating {number} collection(s)...")
        for line in _update_lines(backend, arguments, arguments.collection, of=number):
            out(visible(line))
    return 0


def _updated(backend: QmdBackend, arguments: Namespace, name: str | None) -> Iterator[dict[str, Any]]:
    """Update; what was done to each collection, with what was run for it."""

    ran: list[dict[str, str]] = []
    pulled: dict[Path, None] = {}
    with stoppable() as token, ProgressLine() as progress:

        def before(one: Collection) -> None:
            from openclaw_mem_engine.sidecar.hooks import pull, run_command, work_tree

            ran.clear()
            limit = backend.settings.qmd.update.update_timeout_ms / 1000
            if getattr(arguments, "pull", False):
                tree = work_tree(one.root, token)
                if tree is not None and tree not in pulled:
                    pulled[tree] = None
                    ran.append(
                        {"command": f"git pull --ff-only, in {tree}", "output": pull(tree, limit, token)}
                    )
            if one.update_command:
                output = run_command(one.update_command, one.root, limit, token)
                ran.append({"command": one.update_command, "output": output})

        for one, report in backend.update(name, before, progress, token):
            (done,) = report.collections
            yield {
                "name": one.name,
                "path": str(one.root),
                "pattern": one.pattern,
                "ran": list(ran),
                **{key: getattr(done, key) for key in ("new", "updated", "unchanged", "removed")},
                "orphans": report.orphans,
                "trouble": done.trouble or None,
                "excluded": [{"path": file.path, "reason": file.reason} for file in done.excluded],
            }


def _update_lines(
    backend: QmdBackend, arguments: Namespace, name: str | None, *, of: int = 0
) -> Iterator[str]:
    """Update, and what was done in words; ``of`` collections are counted."""
    for number, done in enumerate(_updated(backend, arguments, name), 1):
        if of:
            yield f"\n[{number}/{of}] {done['name']} ({done['pattern']})"
        for ran in done["ran"]:
            yield f"    Running update command: {ran['command']}"
            yield from (f"    {line}" for line in ran["output"].strip().splitlines())
        if done["trouble"]:
            yield done["trouble"]
            continue
        yield f"Collection: {done['path']} ({done['pattern']})\n"
        counts = ", ".join(f"{done[key]} {key}" for key in ("new", "updated", "unchanged", "removed"))
        yield f"Indexed: {counts}"
        if done["orphans"]:
            yield f"Cleaned up {done['orphans']} orphaned content hash(es)"
        for file in done["excluded"]:
            say(f"{done['name']}: {file['path']} {file['reason']}: not indexed.")
    if of:
        yield "\nAll collections updated."
    if waiting := _waiting(backend):
        run = advice("Run `openclaw-mem qmd embed` to update embeddings")
        yield f"\n{run} ({waiting} unique hashes need vectors)"


def _waiting(backend: QmdBackend) -> int:
    """Texts without vectors of the model in use; 0 without one."""
    from openclaw_mem_engine.stores.qmd.searching import VectorSpace

    embedder = backend.embedder
    return backend.store.pending(VectorSpace.of(embedder)) if embedder else 0


def embed(arguments: Namespace) -> int:
    """Make the vectors that are missing, or store all anew. Exit code 7 when texts were refused."""

    with opened(arguments) as (memory, backend), stoppable() as token:
        announce(memory, token)
        with ProgressLine() as progress:
            made = backend.embed(force=arguments.force, progress=progress, cancel=token)
        waiting = _waiting(backend)
    sent = made.chunks - made.cached
    documents = counted(made.documents, "document")
    done = f"Embedded {counted(sent, 'chunk')} of {documents}."
    if made.cached:
        done = f"Stored the vectors of {counted(made.chunks, 'chunk')} of {documents}: "
        done += f"{sent} embedded, {made.cached} taken from the cache."
    lines = [done] if made.documents else ["All content hashes already have embeddings."] * (not made.refused)
    printed(arguments, as_json(made) | {"pending": waiting}, lines)
    for document, reason in made.refused:
        say(f"{document}: {reason}")
    return ProviderError.exit_code if made.refused else 0


def status(arguments: Namespace) -> int:
    """Print what the index holds."""
    from openclaw_mem_engine.stores.qmd.searching import VectorSpace

    with opened(arguments) as (memory, backend):
        embedder = backend.embedder
        found = backend.store.status(VectorSpace.of(embedder) if embedder else None)
        collections, fresh, waiting = backend.store.collections(), memory.freshness(), _waiting(backend)
    facts = as_json(found) | {"path": str(backend.store.path), "pending": waiting}
    facts |= {"collections": [as_json(one) for one in found.collections], "waste": as_json(found.waste)}
    facts |= {"freshness": fresh.state, "changed": fresh.changed_count}
    lines = [f"QMD Status\n\nIndex: {backend.store.path}\nSize:  {found.bytes / 1024:.1f} KB\n"]
    lines += ("Documents", f"  Total:    {found.documents} files indexed")
    lines.append(f"  Vectors:  {found.embedded} embedded")
    for number, what in (
        (found.others, "Unused:   {} embedded with another model, provider or endpoint"),
        (waiting, advice("Pending:  {} need embedding (run `openclaw-mem qmd embed`)")),
        (fresh.changed_count, advice("Stale:    {} changed on disk (run `openclaw-mem qmd update`)")),
    ):
        lines += [f"  {what.format(number)}"] if number else []
    lines += ["", *_collection_lines(found, collections)] if collections else ["", "No collections."]
    model = f"{embedder.id} {embedder.model}".strip() if embedder else "none, by choice"
    return printed(arguments, facts, [*lines, "\nModels", f"  Embedding:   {model}"])


def _collection_lines(status: Status, collections: tuple[Collection, ...]) -> Iterator[str]:
    """The collections of an index."""
    yield "Collections"
    for one, held in zip(collections, status.collections, strict=True):
        yield f"  {one.name} ({VirtualPath(one.name, '')})"
        yield f"    Pattern:  {one.pattern}"
        yield f"    Files:    {held.files} (updated {ago(held)})"
        if one.contexts:
            yield f"    Contexts: {len(one.contexts)}"
        for prefix, text in one.contexts.items():
            yield f"      /{prefix.strip('/')}: {text}"


def cleanup(arguments: Namespace) -> int:
    """Remove what nothing needs any more, or only count it."""

    with opened(arguments) as (_, backend):
        if arguments.dry_run:
            found = backend.store.cleanup(dry_run=True)
        else:
            with backend.writing() as store:
                found = store.cleanup()
    clear, remove, end = ("Cleared", "Removed", "FTS compacted, database vacuumed")
    lines = []
    if arguments.dry_run:
        lines.append("Dry run: no changes made.\n")
        clear, remove, end = "Would clear", "Would remove", "Would compact FTS and vacuum the database"
    lines.append(f"{clear} {found.cached} cached API responses")
    lines += [f"{clear} {found.embeddings} cached embeddings"] if found.embeddings else []
    orphaned = f"{remove} {found.vectors} orphaned embeddings"
    lines.append(orphaned if found.vectors else "No orphaned embeddings to remove")
    lines.append(f"{remove} {found.inactive} inactive document records")
    lines.append(f"{remove} {found.content} orphaned content hashes\n{end}")
    return printed(arguments, as_json(found) | {"dryRun": arguments.dry_run}, lines)


def warm_up(arguments: Namespace) -> int:
    """Collections, update, vectors and one query, each within its time limit; prints each as it is done.
    Exit code 6 when one of them failed."""
    from openclaw_mem_engine.sidecar.command import QmdCommand
    from openclaw_mem_engine.sidecar.paths import qmd_home
    from openclaw_mem_engine.sidecar.upkeep import QmdUpkeep

    settings = warned_settings(arguments)
    if settings.qmd.command is None:
        raise UsageError(
            "memory.qmd.command is not set: there is no external program to warm up. Set it in openclaw.json "
            '("memory": {"backend": "qmd", "qmd": {"command": "qmd"}}).'
        )
    command = QmdCommand(settings.qmd.command, qmd_home(settings))
    upkeep = QmdUpkeep(settings, command, time.time)
    steps: list[Step] = []
    try:
        with stoppable() as token:
            if not arguments.json:
                for name, value in command.variables.items():
                    out(f"export {name}={shlex.quote(value)}")
            for step in upkeep.warm_up(token, models=arguments.models):
                steps.append(step)
                if not arguments.json:
                    out(_line(step))
    finally:
        upkeep.close()
    if arguments.json:
        print_json({"variables": command.variables, "steps": [step._asdict() for step in steps]})
    return IndexUnavailable.exit_code if any(step.error for step in steps) else 0


def _line(step: Step) -> str:
    done = f"failed: {one_line(step.error)}" if step.error else "done"
    return f"{step.what}: {done} ({step.seconds:.1f} s)"
