"""What a change of notes would do to answers: measured on a copy, before anything is written.

The notes and the index are copied into a temporary folder, the change is made there, and the same queries are
asked before and after it. That is the engine itself: after the real change the answers are the same.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from openclaw_mem_engine.answer import Hit
from openclaw_mem_engine.cancellation import CancelToken
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.model import Expected, as_json
from openclaw_mem_engine.notes.edit import NoteEdit
from openclaw_mem_engine.providers.resolve import model_folder
from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.workspace.listing import notes_of


@dataclass(frozen=True, slots=True)
class Probe:
    """A query that is asked before and after; ``quotes`` are texts that its answer should show (none: not
    judged)."""

    query: str
    quotes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Moved:
    """A query whose results change: locations (``path:first-last``), best first."""

    query: str
    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PinMoved:
    """An expected passage: its best rank over all queries before and after; None where no query returns
    it."""

    location: str
    before: int | None
    after: int | None


@dataclass(frozen=True, slots=True)
class Effect:
    """``queries`` were asked; ``judged`` of them have ``quotes`` texts to show, of which so many are shown
    before and after. ``mrr`` is the mean of 1 / rank of the first result that shows one (0 without)."""

    queries: int
    moved: tuple[Moved, ...]
    pins: tuple[PinMoved, ...]
    judged: int
    quotes: int
    shown_before: int
    shown_after: int
    mrr_before: float
    mrr_after: float

    @property
    def sentence(self) -> str:
        """The effect in one sentence."""
        if not self.queries:
            return "not measured, because no searches are recorded"
        count = f"{self.queries} quer{'y' if self.queries == 1 else 'ies'}"
        parts = [f"{len(self.moved)} of {count} with other results"]
        if not self.moved:
            parts = [f"no result changes ({count} tested)"]
        if self.moved and self.judged:
            parts.append(f"judged answers shown: {self.shown_before} → {self.shown_after} of {self.quotes}")
            parts.append(f"MRR of {self.judged} judged queries {self.mrr_before:.3f} → {self.mrr_after:.3f}")
        moved = [pin for pin in self.pins if pin.before != pin.after]
        parts += [f"{pin.location}: rank {pin.before or 'none'} → {pin.after or 'none'}" for pin in moved]
        return "; ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        return dict(as_json(self)) | {"sentence": self.sentence}


#: The results of each query, best first.
Answers = list[tuple[Hit, ...]]


class DryRun:
    """A copy of a memory, on which changes are tried one after the other. Close it. Use one thread at a time.
    Making it takes the time of a copy; the first effect that of all queries, twice."""

    def __init__(
        self, settings: Settings, knobs: Knobs, probes: Sequence[Probe], pins: Sequence[Expected]
    ) -> None:
        self._probes, self._pins, self._knobs = probes, pins, knobs
        self._folder = tempfile.TemporaryDirectory(prefix="openclaw-mem-")
        try:
            self._settings = _copy(settings, Path(self._folder.name))
            self._memory = Memory.open(self._settings)
        except BaseException:
            self._folder.cleanup()
            raise
        self._before: Answers | None = None

    def close(self) -> None:
        self._memory.close()
        self._folder.cleanup()

    def effect(self, edits: Sequence[NoteEdit], cancel: CancelToken | None = None) -> Effect:
        """The effect of ``edits`` made together. Raises what ``Memory`` raises, Cancelled."""
        self._memory.sync(cancel=cancel)
        if self._before is None:
            self._before = answers(self._memory, self._knobs, self._probes, cancel)
        before = self._before
        kept: dict[Path, tuple[bytes, os.stat_result] | None] = {}
        try:
            for edit in edits:
                path = self._settings.workspace / edit.path
                kept[path] = (path.read_bytes(), path.stat()) if path.exists() else None
                _put(path, None if edit.after is None else edit.after.encode("utf-8", "surrogateescape"))
            self._memory.sync(cancel=cancel)
            after = answers(self._memory, self._knobs, self._probes, cancel)
        finally:
            for path, old in kept.items():
                _put(path, old[0] if old else None)
                if old:
                    os.utime(path, ns=(old[1].st_atime_ns, old[1].st_mtime_ns))
        return compared(self._probes, self._pins, edits, before, after)


def answers(
    memory: Memory, knobs: Knobs, probes: Sequence[Probe], cancel: CancelToken | None = None
) -> Answers:
    """The results of an opened memory for each query."""
    return [memory.search(probe.query, knobs, cancel).hits for probe in probes]


def compared(
    probes: Sequence[Probe],
    pins: Sequence[Expected],
    edits: Sequence[NoteEdit],
    before: Answers,
    after: Answers,
) -> Effect:
    """The effect that two measures show; ``edits`` say where a line is afterwards."""
    changed = {edit.path: edit for edit in edits}
    moved = tuple(
        Moved(probe.query, tuple(map(_location, old)), tuple(map(_location, new)))
        for probe, old, new in zip(probes, before, after, strict=True)
        if [(one.path, one.snippet) for one in old] != [(one.path, one.snippet) for one in new]
    )
    ranks = tuple(
        PinMoved(f"{pin.path}:{pin.line}", _rank_of(pin, before), _rank_of(line_after(pin, changed), after))
        for pin in pins
    )
    judged = [at for at, probe in enumerate(probes) if probe.quotes]
    return Effect(
        len(probes),
        moved,
        ranks,
        len(judged),
        sum(len(probe.quotes) for probe in probes),
        *(sum(_shown(probes[at], found[at]) for at in judged) for found in (before, after)),
        *(
            sum(_reciprocal(probes[at], found[at]) for at in judged) / max(1, len(judged))
            for found in (before, after)
        ),
    )


def line_after(pin: Expected, changed: Mapping[str, NoteEdit]) -> Expected | None:
    """Where the line of a passage is after the edits, also in another note; None when they remove it."""
    edit = changed.get(pin.path)
    if edit is None:
        return pin
    old, new = (edit.before or "").split("\n"), (edit.after or "").split("\n")
    if pin.line > len(old):
        return None
    for first, second, size in SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks():
        if first < pin.line <= first + size:
            return Expected(pin.path, second + pin.line - first)
    for other in changed.values():
        lines = (other.after or "").split("\n")
        if other is not edit and (line := old[pin.line - 1]).strip() and line in lines:
            return Expected(other.path, lines.index(line) + 1)
    return None


def _location(hit: Hit) -> str:
    return f"{hit.path}:{hit.start_line}-{hit.end_line}"


def _rank_of(pin: Expected | None, found: Answers) -> int | None:
    ranks = [
        rank
        for results in found
        for rank, one in enumerate(results, 1)
        if pin and one.path == pin.path and one.start_line <= pin.line <= one.end_line
    ]
    return min(ranks, default=None)


def _shown(probe: Probe, results: Sequence[Hit]) -> int:
    return sum(any(quote in one.snippet for one in results) for quote in probe.quotes)


def _reciprocal(probe: Probe, results: Sequence[Hit]) -> float:
    """1 / rank of the first result that shows a judged text, 0 without one."""
    ranks = (at for at, one in enumerate(results, 1) if any(quote in one.snippet for quote in probe.quotes))
    return 1 / next(ranks, float("inf"))


def _put(path: Path, data: bytes | None) -> None:
    if data is None:
        path.unlink(missing_ok=True)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def _copy(settings: Settings, folder: Path) -> Settings:
    """The settings of a copy: notes with their times and relative paths, the index as it is, nothing of it
    remembered."""
    files = notes_of(settings).files
    depth = max((file.path.split("/").count("..") for file in files), default=0)
    workspace = folder.joinpath(*["above"] * depth, "workspace")
    workspace.mkdir(parents=True)
    for file in files:
        target = Path(os.path.normpath(workspace / file.path))
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file.absolute, target)
    real = os.path.realpath(settings.workspace)
    extras = tuple(
        os.path.relpath(Path(real, Path(text).expanduser()), real) for text in settings.extra_paths
    )
    index = folder / settings.index_path.name
    if settings.index_path.is_file():
        import apsw

        from openclaw_mem_engine.stores.sqlite.database import explained

        with (
            explained(settings.index_path),
            closing(apsw.Connection(str(settings.index_path), flags=apsw.SQLITE_OPEN_READONLY)) as source,
            closing(apsw.Connection(str(index))) as target_index,
            target_index.backup("main", source, "main") as backup,
        ):
            backup.step()
        index.chmod(0o600)
    provider = replace(settings.provider, local_model_cache_dir=str(model_folder(settings)))
    return replace(
        settings,
        workspace=workspace,
        extra_paths=extras,
        data_dir=folder / "data",
        provider=provider,
    ).with_index(index)
