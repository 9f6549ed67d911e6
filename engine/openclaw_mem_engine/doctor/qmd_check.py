"""The checks of QMD: of the external program, and what it or its index last failed at; of our own index."""

from __future__ import annotations

import tempfile
import time
from contextlib import closing
from pathlib import Path

from openclaw_mem_engine.commands import FIX, INDEX
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.doctor.opened import check_dims
from openclaw_mem_engine.errors import IndexDamaged, IndexUnavailable
from openclaw_mem_engine.providers.base import space_of
from openclaw_mem_engine.providers.circuit_breaker import GuardedEmbedder
from openclaw_mem_engine.sanitize import counted, counted_have
from openclaw_mem_engine.sidecar.command import QmdCommand, QmdFailed
from openclaw_mem_engine.sidecar.paths import qmd_home
from openclaw_mem_engine.sidecar.state import QmdState
from openclaw_mem_engine.sidecar.upkeep import QmdUpkeep
from openclaw_mem_engine.stores.findings import Outcome
from openclaw_mem_engine.stores.qmd.searching import VectorSpace
from openclaw_mem_engine.stores.qmd.store import QmdStore
from openclaw_mem_engine.stores.sqlite.connections import refuse_foreign
from openclaw_mem_engine.stores.sqlite.files import damaged_path, quoted

WARM_UP = "openclaw-mem qmd warm-up"


def check_qmd(settings: Settings, out: Outcome) -> None:
    """The program of ``memory.qmd.command`` tells its version, its index is there, and nothing failed last.
    Runs ``qmd --version`` in a folder of its own."""
    name, home = str(settings.qmd.command), qmd_home(settings)
    out.detail = f"{name} cannot be run"
    try:
        with tempfile.TemporaryDirectory(prefix="openclaw-mem-") as folder:
            limit = settings.qmd.update.command_timeout_ms / 1000
            version = QmdCommand(name, Path(folder)).version(limit)
    except QmdFailed as error:
        out.add("qmd-missing", "warning", f"{error} The built-in index is used instead.")
        return
    out.detail = f"{name} {'.'.join(map(str, version)) or 'of an unknown version'}"
    facts = QmdState(home / "state.json").facts
    if facts.failing(name, time.time()):
        since = time.strftime("%Y-%m-%d %H:%M", time.localtime(facts.failed_since))
        out.add(
            "qmd-failing",
            "warning",
            f"The built-in index is used since {since}: {facts.reason}",
            repair=WARM_UP,
        )
    command = QmdCommand(name, home)
    for what, reason in QmdUpkeep(settings, command, time.time).failures:
        out.add("qmd-update", "warning", f"{what}: {reason}", repair=WARM_UP)
    if not command.index_path.is_file():
        out.add("qmd-no-index", "info", "There is no QMD index of this workspace yet.", repair=WARM_UP)


def check_qmd_index(settings: Settings, embedder: GuardedEmbedder | None, out: Outcome) -> None:
    """Our own index opens and is whole; which files and vectors it lacks. Only reads."""
    path = settings.index_path
    if not path.is_file():
        out.detail = "there is none yet"
        out.add("not-there", "info", "There is no index yet.", [str(path)], INDEX)
        return
    try:
        refuse_foreign(path)
        repair = FIX
    except IndexUnavailable:  # the program QMD made it
        repair = f"mv -- {quoted([path, damaged_path(path)])} && {INDEX}"
    try:
        with closing(QmdStore.open(path, read_only=True)) as store:
            if found := store.integrity():
                out.detail = "is damaged"
                out.add("damaged", "error", f"The index {path} is damaged.", found, repair)
                return
            out.detail = f"can be opened and is whole: {counted(store.status().documents, 'document')}"
            if embedder is not None:
                space = VectorSpace.of(embedder)
                store.check_vectors(space)
                check_dims(embedder, store.vector_dims(space), out)
                if waiting := store.pending(space):
                    text = f"{counted_have(waiting, 'text')} no vectors of {space_of(embedder).label}."
                    out.add("no-vectors", "info", text, repair="openclaw-mem qmd embed")
            _check_files(store, out)
    except IndexDamaged as error:
        out.detail = "cannot be read"
        out.add("damaged", "error", f"The index {path} is damaged.", [str(error.cause)], repair)
    except IndexUnavailable as error:
        out.detail = "cannot be opened"
        out.add("unavailable", "error", str(error))


def _check_files(store: QmdStore, out: Outcome) -> None:
    seen = store.differences()
    changed = [f"qmd://{name}/{file.path}" for name, one in seen.items() for file in one.changed]
    changed += [f"qmd://{name}/{path}" for name, one in seen.items() for path in one.gone]
    if changed:
        text = f"{counted(len(changed), 'file')} changed since the last update."
        out.add("files-changed", "info", text, changed, INDEX)
    refused = [
        f"qmd://{name}/{file.path}: {file.reason}"
        for name, one in seen.items()
        for file in one.excluded
        if not file.by_rule
    ]
    if refused:
        text = f"{counted(len(refused), 'file')} of collections cannot be indexed."
        out.add("files-excluded", "warning", text, refused)
    missing = [one for one in store.collections() if seen[one.name].trouble]
    # The configuration names folders that a workspace need not have.
    if named := [f"{one.name}: {one.root}" for one in missing if not one.configured or store.ls(one.name)]:
        text = f"The folder of {counted(len(named), 'collection')} cannot be read; the documents stay."
        out.add("collections-unreadable", "warning", text, named)
