"""Copying an agent's index from a file to a server and back, and removing it from all servers."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

from openclaw_mem_engine.cancellation import CancelToken
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.errors import Cancelled, IndexChanged, IndexUnavailable, UsageError
from openclaw_mem_engine.model import Progress
from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.sanitize import counted
from openclaw_mem_engine.stores import is_there, open_store
from openclaw_mem_engine.stores.base import FileChange, FileState, Generation, IndexStore
from openclaw_mem_engine.stores.sqlite.files import make_folder
from openclaw_mem_engine.sync.index_update import change_of
from openclaw_mem_engine.sync.lock import SyncLock

if TYPE_CHECKING:
    from openclaw_mem_engine.stores.postgres.removing import Held

#: Embeddings that are copied together.
_GROUP = 500


class Copied(NamedTuple):
    """What an index holds now that was copied into it."""

    source: str
    target: str
    files: int
    chunks: int
    embeddings: int


def migrate(
    source: Settings,
    target: Settings,
    *,
    replace: bool = False,
    progress: Progress,
    cancel: CancelToken,
) -> Copied:
    """Copy the index of ``source`` to where ``target`` keeps its own, which is replaced in one step, and only
    if ``replace`` says so when it holds files. The source is only read. Both are settings of one agent.
    Raises UsageError, IndexUnavailable, SyncBusy, Cancelled; the target is then as it was."""
    if source.qmd_in_process or source.qmd_process:
        raise UsageError("memory.backend is qmd: its index stays in its file. There is nothing to migrate.")
    if not is_there(source):
        raise IndexUnavailable(f"There is no index at {source.index_name}: nothing to migrate.")
    make_folder(source.index_path)
    with SyncLock(source.index_path, "migrating").holding(cancel=cancel), ExitStack() as opened:
        old, new = (
            opened.enter_context(
                closing(open_store(at.store.kind, at.index_path, location=at.store.location))
            )
            for at in (source, target)
        )
        held = new.counts().files
        if held and not replace:
            files = counted(held, "file")
            raise UsageError(
                f"The index at {target.index_name} holds {files}: with --replace it is replaced."
            )
        with new.exclusive():
            return copy_index(old, new, progress, cancel)


def held(settings: Settings) -> list[Held]:
    """What the servers have of the agent, for ``remove``. Raises UsageError when none knows it, and
    IndexUnavailable unless all of them answer."""
    from openclaw_mem_engine.stores.postgres import removing

    home = settings.store.location
    assert home is not None
    found = [each for _, each in removing.held(home)]
    if not found:
        raise UsageError(
            f"No server of store.servers has an agent {home.agent}: there is nothing to remove. The name is "
            "what store.agent makes of --agent and --workspace; `openclaw-mem store status` shows it."
        )
    return found


def remove(settings: Settings, *, cancel: CancelToken) -> list[Held]:
    """Remove the agent from all servers: text, words, embeddings and name. Returns what they had. Raises as
    ``held``, SyncBusy and IndexLocked while a process syncs the index; each server loses all or nothing."""
    from openclaw_mem_engine.stores.postgres import removing

    home = settings.store.location
    done: list[Held] = []
    assert home is not None
    make_folder(settings.index_path)
    with SyncLock(settings.index_path, "removing").holding(cancel=cancel):
        for at, each in removing.held(home):
            try:
                removing.forget(at)
            except IndexUnavailable as error:
                if not done:
                    raise
                gone = ", ".join(one.server for one in done)
                raise IndexUnavailable(f"Removed from {gone}, not from {each.server}: {error}") from error
            done.append(each)
    return done


def copy_index(source: IndexStore, target: IndexStore, progress: Progress, cancel: CancelToken) -> Copied:
    """Replace all that ``target`` holds by what ``source`` holds, in one step for its readers, and only when
    the copy has the same numbers of files, chunks and vectors. Raises IndexUnavailable, IndexChanged,
    Cancelled; the target is then as it was, but may have more embeddings in its cache."""
    fingerprint = source.fingerprint()
    if fingerprint is None:
        raise IndexUnavailable(f"There is no index at {source.location}: nothing to copy.")
    before, numbers = source.generation(), _numbers(source)
    spaces = {size.space: source.cached_hashes(size.space) for size in source.cache_sizes()}

    def fill(copy: Generation) -> None:
        for space, hashes in spaces.items():
            for at in range(0, len(hashes), _GROUP):
                _stop_if(cancel)
                copy.cache_vectors(source.cached_vectors(hashes[at : at + _GROUP], space), space)
        states = list(source.files().values())
        for done, state in enumerate(states):
            _stop_if(cancel)
            progress(done, len(states), state.path)
            copy.apply(_change(source, state), built_with=fingerprint)
        if (synced_at := source.synced_at()) is not None:
            copy.finish(synced_at)
        if source.generation() != before:
            raise IndexChanged(
                f"The index at {source.location} was written to while it was copied. {target.location} is as "
                "it was: run it again."
            )
        if (copied := _numbers(copy)) != numbers:
            raise IndexUnavailable(
                f"The copy holds {copied} files, chunks and vectors, {source.location} {numbers}: it was "
                f"dropped, {target.location} is as it was. `openclaw-mem doctor` examines the source."
            )

    target.rebuild(fingerprint, fill, cancel)
    files, chunks, _ = numbers
    return Copied(source.location, target.location, files, chunks, sum(map(len, spaces.values())))


def _stop_if(cancel: CancelToken) -> None:
    if cancel.is_set():
        raise Cancelled("Copying was stopped. The target is as it was, nothing of the source was changed.")


def _numbers(store: IndexStore) -> tuple[int, int, int]:
    counts = store.counts()
    return counts.files, counts.chunks, store.covered()


def _change(source: IndexStore, state: FileState) -> FileChange:
    chunks = [chunk for chunk in source.chunks_of(state.path) if chunk.source == state.source]
    return change_of(state, chunks, source.cached_vectors({chunk.hash for chunk in chunks}), {})
