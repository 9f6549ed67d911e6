"""What of the disk is watched for one agent's memory, and which changes there can change what is memory."""

# Paths are strings here: events come by the thousand.
# ruff: noqa: PTH100, PTH112, PTH113, PTH114, PTH115, PTH118, PTH120, PTH206

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterable
from contextlib import suppress
from pathlib import Path

from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.workspace.rules import (
    MEMORY_FOLDER,
    NOTE_SUFFIX,
    ROOT_FILES,
    TRANSCRIPT_SUFFIX,
    Workspace,
    below,
    is_ignored_folder,
    is_note_name,
    resolve_extras,
)

#: The most folders that are watched one by one; the systems that need that allow some ten thousand for all
#: programs of a user together.
MOST_FOLDERS = 10_000
#: The mounted file systems, as Linux lists them.
MOUNTS = Path("/proc/self/mountinfo")

#: Octal codes of spaces and the like in Linux's list of mounts.
_ESCAPED = re.compile(r"\\(\d{3})")
#: As many links as a system follows before it calls them a circle.
_MOST_LINKS = 40
#: File systems whose changes by other machines, or by the other side, cause no event here.
_ELSEWHERE = frozenset(
    "nfs nfs4 cifs smb3 smbfs smb2 afs ceph glusterfs lustre gpfs beegfs ncpfs davfs 9p drvfs virtiofs "
    "vboxsf prl_fs vmhgfs fakeowner grpcfuse fuse.sshfs fuse.rclone fuse.glusterfs fuse.s3fs fuse.gcsfuse "
    "fuse.davfs2 fuse.vmhgfs-fuse fuse.osxfs fuse.grpcfuse".split()
)


class Refused(Exception):
    """The system does not watch; the text says why."""


class WatchTargets:
    """The paths of one agent's memory on disk, as they are configured; none of them need exist.

    No link is followed, except that the workspace itself may be one, and those on the way to a target: they
    are targets, too, since they may be pointed elsewhere. ``trees`` are folders that are memory with
    everything below, ``transcripts`` is the folder of transcripts ("" when they are no source).
    """

    def __init__(self, settings: Settings) -> None:
        given = os.path.abspath(settings.workspace)
        self.root = os.path.realpath(given)
        self.trees: list[str] = []
        self.transcripts = ""
        exact = {self.root}
        ways = [given]
        if "memory" in settings.sources:
            self.trees.append(os.path.join(self.root, MEMORY_FOLDER))
            exact.update(os.path.join(self.root, name) for name in ROOT_FILES)
            for extra in resolve_extras(Workspace(given, self.root), settings.extra_paths):
                path = extra.absolute
                if extra.refusal:
                    continue
                ways.append(extra.lexical)
                if os.path.realpath(path) != path:
                    continue
                if os.path.isfile(path) or (is_note_name(path) and not os.path.isdir(path)):
                    exact.add(path)
                else:
                    self.trees.append(path)
        if "sessions" in settings.sources:
            ways.append(os.path.abspath(settings.openclaw.sessions_dir))
            if not os.path.islink(settings.openclaw.sessions_dir):
                self.transcripts = os.path.realpath(settings.openclaw.sessions_dir)
                exact.add(self.transcripts)
        exact.update(self.trees)
        exact.update(link for way in ways for link in _links_on(way))
        #: What comes, goes or is replaced by name: it is seen from the folder that holds it.
        self.exact = frozenset(exact)
        self._above = frozenset(above for path in exact for above in _ancestors(path))

    def folders(self, *, whole_trees: bool) -> tuple[list[str], list[str]]:
        """The folders to be watched alone, and those with all below them: of each configured path the nearest
        folder above it that exists, and the trees. Without ``whole_trees`` their folders are watched one by
        one, as far as they are memory by their path. Raises Refused when there are too many."""
        # Where trees are watched, links of the root folder belong to the system (`/tmp`, `/var`), and a watch
        # of it has an event for everything on the disk.
        paths = [path for path in sorted(self.exact) if not whole_trees or len(Path(path).parents) > 1]
        alone = dict.fromkeys(_nearest(os.path.dirname(path)) for path in paths)
        own = (path for path in (self.root, self.transcripts) if path and _is_open_folder(path))
        alone.update(dict.fromkeys(own))
        trees = [tree for tree in self.trees if os.path.isdir(tree) and not os.path.islink(tree)]
        if whole_trees:
            return list(alone), trees
        while trees:
            folder = trees.pop()
            with suppress(OSError), os.scandir(folder) as entries:
                alone.setdefault(folder)
                trees += [
                    entry.path
                    for entry in entries
                    if not is_ignored_folder(entry.name) and entry.is_dir(follow_symlinks=False)
                ]
            if len(alone) > MOST_FOLDERS:
                raise Refused(f"there are more than {MOST_FOLDERS:,} folders")
        return list(alone), []

    def relevant(self, paths: Iterable[str], watched: Container[str]) -> frozenset[str]:
        """Of changed paths those that can change what is memory; ``watched`` are folders known before."""
        return frozenset(path for path in paths if self._matters(path, watched))

    def _matters(self, path: str, watched: Container[str]) -> bool:
        if path in self.exact:
            return True
        if path in self._above:
            return path not in watched or not os.path.isdir(path)  # it came or went; else it is just busy
        if self.transcripts and os.path.dirname(path) == self.transcripts:
            return path.endswith(TRANSCRIPT_SUFFIX)
        return any(_in_tree(rest, path, watched) for tree in self.trees if (rest := below(tree, path)))


def _in_tree(rest: str, path: str, watched: Container[str]) -> bool:
    """Whether a path below a tree counts. A folder that comes or goes brings or takes notes without an event
    of their own; of what is gone it is not known any more whether it was one."""
    *folders, name = rest.split(os.sep)
    if any(is_ignored_folder(folder) for folder in folders):
        return False
    if name.endswith(NOTE_SUFFIX):
        return True
    return not is_ignored_folder(name) and (
        path in watched or os.path.isdir(path) or not os.path.lexists(path)
    )


def network_target(targets: WatchTargets) -> tuple[str, str] | None:
    """A target on a file system whose changes need not cause events, and the type of that file
    system; None when there is none, or where the system does not tell (only Linux does)."""
    kinds: dict[str, str] = {}
    with suppress(OSError):
        for line in MOUNTS.read_text("utf-8", "surrogateescape").splitlines():
            before, _, after = line.partition(" - ")
            fields, more = before.split(" "), after.split(" ")
            if len(fields) > 4 and more[0]:
                folder = _ESCAPED.sub(lambda code: chr(int(code[1], 8)), fields[4])
                kinds[folder] = more[0]  # of several mounts on one path the last is seen
    for target in sorted(targets.exact):
        kind = next((kinds[folder] for folder in (target, *_ancestors(target)) if folder in kinds), "")
        if kind in _ELSEWHERE:
            return target, kind
    return None


def _ancestors(path: str) -> list[str]:
    return [str(parent) for parent in Path(path).parents]


def _links_on(way: str) -> list[str]:
    """Every link that is met on the way to an absolute path, itself included, each by its real path."""
    found: list[str] = []
    path = Path(way)
    with suppress(OSError):
        while len(found) < _MOST_LINKS:
            link = next((part for part in (*reversed(path.parents), path) if os.path.islink(part)), None)
            if link is None:
                break
            found.append(os.path.join(os.path.realpath(link.parent), link.name))
            path = link.parent / os.readlink(link) / path.relative_to(link)
    return found


def _nearest(folder: str) -> str:
    """The folder itself, or the nearest one above it that exists and may be watched."""
    while not _is_open_folder(folder) and folder != (above := os.path.dirname(folder)):
        folder = above
    return folder


def _is_open_folder(path: str) -> bool:
    return os.path.isdir(path) and os.access(path, os.R_OK)
