"""Which paths are memory or transcripts, where extra paths are, and which date a note has by its path.

Listing and reading share these rules, so that what is listed can be read and nothing else can.
"""

# Paths are strings here: the rules are about their text, and thousands pass at a time.
# ruff: noqa: PTH100, PTH111, PTH118, PTH120

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from contextlib import suppress
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Literal

from openclaw_mem_engine.errors import WorkspaceError
from openclaw_mem_engine.model import Source
from openclaw_mem_engine.named_tuple import NamedTuple

#: Top-level files that are memory by name, the preferred spelling first.
ROOT_FILES = ("MEMORY.md", "memory.md")
#: Further top-level files of an agent, which are no memory: OpenClaw puts them in front of every session.
AGENT_FILES = frozenset(
    f"{name}.md" for name in "AGENTS SOUL TOOLS IDENTITY USER HEARTBEAT BOOTSTRAP".split()
)
#: The folder that is memory with everything below it.
MEMORY_FOLDER = "memory"
#: The only ending that counts; other spellings of it are reported, never read.
NOTE_SUFFIX = ".md"
#: Folders of tools and packages: what lies in them was not written as memory.
IGNORED_FOLDERS = frozenset({"node_modules", ".venv", "venv", "__pycache__", ".tox", ".pnpm-store"})
#: Folders below memory/ into which agents' own machinery writes, and files of it.
_MACHINE_FOLDERS = frozenset({"dreaming", "dreams"})
_MACHINE_FILES = frozenset({"dreams.md", "dream-diary.md"})
#: No note is this large; a file that is would fill the index and the memory of the machine.
MAX_NOTE_BYTES = 4 * 2**20
#: Transcripts have paths of their own, whatever their folder is, and only this ending counts.
TRANSCRIPT_FOLDER, TRANSCRIPT_SUFFIX = "sessions", ".jsonl"
#: No conversation is this large; what is would be read for minutes.
MAX_TRANSCRIPT_BYTES = 2**30

_DAILY = re.compile(r"(?:.*/)?memory/([0-9]{4})-([0-9]{2})-([0-9]{2})\.md", re.DOTALL)
_DAY_SECONDS = 86_400
_EPOCH_DAY = date(1970, 1, 1).toordinal()
#: Paths whose rules are remembered: a process finds the same notes again and again.
_PATHS_KEPT = 8_192
#: ECMAScript dates take the years 0 to 99 for 1900 to 1999, so in OpenClaw such a name never is its own day.
_FIRST_YEAR = 100


def is_ignored_folder(name: str) -> bool:
    """Whether a folder met below a memory folder is left out: hidden ones and those of tools."""
    return name.startswith(".") or name in IGNORED_FOLDERS


@lru_cache(_PATHS_KEPT)
def machine_folder(path: str) -> str:
    """The folder or file, relative to the workspace, that the agent's machinery keeps; "" for a note."""
    first, *parts = path.split("/")
    if first != MEMORY_FOLDER or not parts:
        return ""  # what was configured by its name is wanted
    for depth, part in enumerate(parts[:-1], 2):
        if part.startswith(".") or part in _MACHINE_FOLDERS:
            return "/".join(path.split("/")[:depth])
    return path if parts[-1].lower() in _MACHINE_FILES else ""


def is_note_name(name: str) -> bool:
    """Whether a file name ends in ``.md`` in some spelling (``x.MD`` too)."""
    return name[-3:].lower() == NOTE_SUFFIX


def source_of(path: str) -> Source:
    """The source of a path as it is listed or excluded. The transcripts' folder itself counts as theirs; a
    note below a folder of that name in the workspace does not."""
    folder, _, name = path.partition("/")
    ours = folder == TRANSCRIPT_FOLDER and (not name or TRANSCRIPT_SUFFIX in name.lower())
    return "sessions" if ours else "memory"


def included_by(path: str) -> str:
    """Which rule or setting makes a listed path part of the memory, in words."""
    if source_of(path) == "sessions":
        return "the setting sources (sessions)"
    if path in ROOT_FILES:
        return "its name"
    below_memory = path.startswith(f"{MEMORY_FOLDER}/") and not machine_folder(path)
    return f"the rule {MEMORY_FOLDER}/**/*{NOTE_SUFFIX}" if below_memory else "the setting extra_paths"


class Workspace(NamedTuple):
    """A workspace folder that exists: ``given`` as the caller wrote it, ``real`` without links."""

    given: str
    real: str

    def relative(self, absolute: str) -> str:
        """A path relative to the workspace with ``/``; ``../…`` when it lies outside."""
        return os.path.relpath(absolute, self.real).replace(os.sep, "/")

    def inside(self, absolute: str) -> str | None:
        """The part of a normalised absolute path below the workspace (``""`` for itself), or None outside."""
        rest = below(self.given, absolute)
        return below(self.real, absolute) if rest is None else rest


def absolute_path(base: str, path: str) -> str:
    """A path as an absolute one without ``.``, ``..`` and doubled separators; no link is looked at."""
    absolute = os.path.normpath(os.path.join(base, path))
    return absolute[1:] if absolute.startswith("//") else absolute  # POSIX lets exactly two slashes stand


def below(folder: str, path: str) -> str | None:
    """The part of a normalised absolute path below a folder ("" for the folder itself), or None outside."""
    if path == folder:
        return ""
    start = folder if folder.endswith(os.sep) else folder + os.sep
    return path[len(start) :] if path.startswith(start) else None


def _closed(folder: Path) -> str:
    """Which folder on the way is closed to this user, and what to do, in sentences."""
    from openclaw_mem_engine.state import described

    for path in (*reversed(folder.absolute().parents), folder.absolute()):
        mode = os.R_OK | os.X_OK if path == folder.absolute() else os.X_OK
        if not os.access(path, mode, effective_ids=os.access in os.supports_effective_ids):
            return f"{described(path)} is closed to this user. Change its permissions."
    return "Change its permissions."


def open_workspace(root: Path | str) -> Workspace:
    """Find the real folder of a workspace (which may be configured as a link). Raises ``WorkspaceError`` when
    it is missing, not a folder, or cannot be entered."""
    given = os.path.abspath(root)  # takes `..` out as text, as the rules want
    hint = "Name the folder that holds MEMORY.md or memory/ with --workspace DIR, or try `openclaw-mem demo`."
    try:
        real = os.path.realpath(given, strict=True)
        os.scandir(real).close()
    except FileNotFoundError:
        if any(map(os.path.exists, ("MEMORY.md", "memory.md", "memory"))):
            hint = "The current folder looks like one: try --workspace ."
        raise WorkspaceError(f"The workspace {given} does not exist. {hint}") from None
    except NotADirectoryError:
        text = f"The workspace {given} is not a folder. {hint}"
        if Path(given).is_file():
            folder = shlex.quote(os.path.dirname(given))
            text = f"The workspace {given} is a file. Name the folder that holds it: --workspace {folder}"
        raise WorkspaceError(text) from None
    except PermissionError:
        raise WorkspaceError(f"The workspace {given} may not be read. {_closed(Path(given))}") from None
    except (OSError, ValueError) as error:
        raise WorkspaceError(f"The workspace {given!r} cannot be opened: {error}. {hint}") from error
    return Workspace(given, real)


def glob_pattern(glob: str) -> str:
    """A regular expression for paths with ``/``: ``**/`` is any folders or none, ``**`` anything, ``*`` and
    ``?`` stay within one name. Every other character is itself."""
    words = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "".join(words.get(part) or re.escape(part) for part in re.split(r"(\*\*/|\*\*|\*|\?)", glob))


class ExtraPath(NamedTuple):
    """A configured extra path: ``base`` is a real folder, ``tail`` the rest, where no part may be a link.
    ``lexical`` is the absolute path as the user spelled it, up to its first wildcard; what is taken below it
    matches ``glob`` ("": everything). ``refusal`` is why it is not taken, or ""."""

    configured: str
    lexical: str
    base: str
    tail: str
    refusal: str
    glob: str = ""

    def takes(self, rest: str) -> bool:
        """Whether a path relative to it is meant, given with the separators of the system."""
        pattern = glob_pattern(self.glob)
        return not self.glob or re.fullmatch(pattern, rest.replace(os.sep, "/"), re.DOTALL) is not None

    @property
    def absolute(self) -> str:
        """Real path, as long as no part of ``tail`` is a link."""
        return os.path.join(self.base, self.tail) if self.tail else self.base


def resolve_extras(workspace: Workspace, configured: Sequence[str]) -> list[ExtraPath]:
    """Where extra paths lie, in order, each once: absolute, ``~``, ``~/…`` or relative to the workspace,
    maybe with wildcards.

    Inside of the workspace every part of one stays in ``tail``, to be checked for links, since an agent that
    writes there could plant one. Outside, only the last part is.
    """
    found: dict[tuple[str, str], ExtraPath] = {}
    for text in configured:
        extra = _resolved(workspace, text)
        found.setdefault((extra.lexical, extra.glob), extra)
    return list(found.values())


def _resolved(workspace: Workspace, configured: str) -> ExtraPath:
    home = os.path.abspath(os.path.expanduser("~"))
    text = configured.strip()
    if not text or "\0" in text:
        reason = "holds a NUL character" if text else "is blank"
        return ExtraPath(configured, configured, workspace.real, "", reason)
    if text == "~" or text.startswith("~/"):
        text = home + text[1:]
    literal = re.split(r"[*?]", text, maxsplit=1)[0]
    lead = text if literal == text else literal[: literal.rfind("/") + 1]
    wild = text[len(lead) :]
    lexical = absolute_path(workspace.given, lead)
    base, tail = workspace.real, workspace.inside(lexical)
    if tail is None:
        parent, tail = os.path.split(lexical)
        base = os.path.realpath(parent)
    absolute = os.path.join(base, tail) if tail else base
    too_wide = f"{os.path.realpath(home)}{os.sep}".startswith(f"{absolute.rstrip(os.sep)}{os.sep}")
    what = "the whole home folder, or one above it, is not used as memory; name a folder in it"
    refusal = what if too_wide else ""
    return ExtraPath(configured, lexical, base, tail, refusal, wild)


class NoteDate(NamedTuple):
    """What decay goes by. ``epoch_seconds`` is midnight UTC of the named day for ``dated``, else None.
    ``evergreen`` notes never decay; for ``mtime`` the caller takes the modification time of the file."""

    kind: Literal["dated", "evergreen", "mtime"]
    epoch_seconds: int | None = None


@lru_cache(_PATHS_KEPT)
def note_date(path: str, source: Source = "memory") -> NoteDate:
    """Decide the date of a workspace-relative path, by the path alone.

    ``memory/YYYY-MM-DD.md`` (also as the end of a longer path) is dated. Of source memory, the top-level
    files and everything else below ``memory/`` is evergreen: ``memory/2026-02-20-slug.md`` and
    ``memory/archive/2025-08-03.md`` too. The rest goes by modification time, also a daily name that is no
    day (``memory/2026-02-30.md``, years before 0100).
    """
    name = path.replace("\\", "/").removeprefix("./")
    if match := _DAILY.fullmatch(name):
        with suppress(ValueError):  # no day of the calendar
            day = date(*map(int, match.groups()))
            if day.year >= _FIRST_YEAR:
                return NoteDate("dated", (day.toordinal() - _EPOCH_DAY) * _DAY_SECONDS)
    below_memory = name.startswith(f"{MEMORY_FOLDER}/") and match is None
    if source == "memory" and (name in ROOT_FILES or below_memory):
        return NoteDate("evergreen")
    return NoteDate("mtime")
