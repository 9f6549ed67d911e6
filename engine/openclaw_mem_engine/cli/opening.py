"""From options to settings to an open memory."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from openclaw_mem_engine.cli.terminal import say, stoppable
from openclaw_mem_engine.errors import ConfigError, IndexDamaged, UsageError, WorkspaceError
from openclaw_mem_engine.stores import is_there

if TYPE_CHECKING:
    from openclaw_mem_engine.config.settings import Settings
    from openclaw_mem_engine.memory import Memory
    from openclaw_mem_engine.model import Note
    from openclaw_mem_engine.providers.base import Chat
    from openclaw_mem_engine.sync.report import SyncReport, SyncRequest


def settings_of(
    arguments: Namespace,
    variables: Mapping[str, str] | None = None,
    *,
    own_keys: Collection[str] = (),
    creates_own_file: bool = False,
) -> Settings:
    """The settings in effect for these options and this process (or these environment variables); see
    ``load_settings``. Raises ConfigError, UsageError."""
    from openclaw_mem_engine.config.load import load_settings

    try:
        home = Path.home()
    except RuntimeError:
        raise ConfigError("Your home folder cannot be determined: set the variable HOME.") from None
    try:
        cwd = Path.cwd()
    except OSError as error:
        raise ConfigError(
            f"The current folder cannot be used ({error.strerror}): go to another one."
        ) from error
    return load_settings(
        workspace=Path(arguments.workspace) if arguments.workspace else None,
        config=Path(arguments.config) if arguments.config else None,
        agent=arguments.agent,
        provider=arguments.provider,
        include=arguments.include,
        environ=os.environ if variables is None else variables,
        home=home,
        cwd=cwd,
        own_keys=own_keys,
        creates_own_file=creates_own_file,
    )


def warned_settings(arguments: Namespace) -> Settings:
    """The same, after what is odd about the configuration was printed on stderr."""
    settings = settings_of(arguments)
    say_warnings(settings)
    return settings


def open_memory(settings: Settings, faults: frozenset[str] = frozenset()) -> Memory:
    """Open the index of a workspace that exists: a mistyped path must not leave an empty index behind.

    Raises what ``Memory.open`` raises, and WorkspaceError.
    """
    if not is_there(settings):
        from openclaw_mem_engine.workspace.rules import open_workspace

        open_workspace(settings.workspace)

    from openclaw_mem_engine.memory import Memory

    return Memory.open(settings, faults=faults)


def faults_of(arguments: Namespace) -> frozenset[str]:
    """The faults that ``--fault`` asks for, one an option or several with commas. Raises UsageError."""
    if not arguments.fault:
        return frozenset()
    from openclaw_mem_engine.providers.faults import FAULTS, check_faults

    names = [name.strip() for item in arguments.fault for name in item.split(",") if name.strip()]
    if not names:
        raise UsageError(f"--fault is empty: name one of {', '.join(FAULTS)}.")
    return check_faults(names)


@contextmanager
def looking(settings: Settings, *, needs_workspace: bool = True, damaged: bool = False) -> Iterator[Memory]:
    """A memory that is only read. One that was never indexed, or whose index is ``damaged``, is opened with a
    temporary index, so that nothing is left behind; that has the embeddings which can be read.

    Raises what ``Memory.open`` raises, and with ``needs_workspace`` WorkspaceError.
    """
    if is_there(settings) and not damaged:
        with open_memory(settings) as memory:
            yield memory
        return
    import tempfile

    from openclaw_mem_engine.memory import Memory

    if needs_workspace:
        from openclaw_mem_engine.workspace.rules import open_workspace

        open_workspace(settings.workspace)
    with tempfile.TemporaryDirectory(prefix="openclaw-mem-") as folder:
        elsewhere = settings.with_index(Path(folder) / settings.index_path.name)
        if damaged and not settings.qmd_in_process:
            from openclaw_mem_engine.stores.sqlite.repair import save_embeddings

            save_embeddings(settings.index_path, elsewhere.index_path)
        with Memory.open(elsewhere) as memory:
            yield memory


@contextmanager
def flush_model(settings: Settings) -> Iterator[Chat | None]:
    """The chat model of ``flush.*``, None when none is configured. Its usage is recorded."""
    from openclaw_mem_engine.providers.factory import RECORDS_FILE
    from openclaw_mem_engine.providers.records import ProviderRecords
    from openclaw_mem_engine.providers.services import Services

    records = ProviderRecords(settings.data_dir / RECORDS_FILE)
    with closing(records), closing(Services(settings, records.add_usage)) as services:
        yield services.flush_chat


def check_workspace(settings: Settings) -> None:
    """Raise WorkspaceError where there is no workspace; what is odd about the configuration is said before,
    because that may be why."""
    from openclaw_mem_engine.workspace.rules import open_workspace

    try:
        open_workspace(settings.workspace)
    except WorkspaceError:
        say_warnings(settings)
        raise


def say_warnings(settings: Settings) -> None:
    """Print on stderr what is odd about the configuration; ``status`` has it in its report instead."""
    for note in settings.warnings:
        if note.level == "warning":
            say(note.text)


def replacing(
    settings: Settings, request: SyncRequest, once: Callable[[SyncRequest], SyncReport]
) -> SyncReport:
    """The report of ``once``, which does a sync. An index file that is damaged is renamed first, and replaced
    by one that holds its embeddings; then the report has a note."""
    try:
        check_file(settings)
        return once(request)
    except IndexDamaged as error:
        note = renewed(settings, error)
    report = once(replace(request, force=False))  # all of it is new
    report.rebuilt = True
    report.notes.append(note)
    return report


def renewed(settings: Settings, error: IndexDamaged) -> Note:
    """Rename a damaged index file, replace it by one that holds its embeddings, and say so; the note of that.
    Raises ``error`` for an index on a server."""
    from openclaw_mem_engine.sync.coordinator import replaced

    note = replaced(settings, error)
    say("The index file is damaged: a new one is built from your notes.")
    return note


def check_file(settings: Settings) -> None:
    """Raise IndexDamaged for an index file with a damaged page: a sync with little to do does not read it."""
    from openclaw_mem_engine.stores.damage import file_damage

    with stoppable() as token:
        if (damage := file_damage(settings, token)) is not None:
            raise damage
