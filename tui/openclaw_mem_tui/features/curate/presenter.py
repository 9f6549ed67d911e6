"""The presenter of the curate screen: candidates, their effect, and writing them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from openclaw_mem_engine.api import Cancelled, OpenClawMemError
from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_tui.bindings import key
from openclaw_mem_tui.presenter import Presenter
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.service import Service

if TYPE_CHECKING:
    from openclaw_mem_engine.api import (
        Curator,
        Effect,
        FileUse,
        Material,
        Memory,
        NoteCandidate,
        NoteEdit,
        Written,
    )

T = TypeVar("T")

#: The filter that shows what was rejected.
REJECTED = "rejected"
#: What a change is measured by: the texts before and after.
Edits = tuple["NoteEdit", ...]


@dataclass(frozen=True, slots=True)
class CurateState:
    """``found`` are the candidates of ``group`` ("": all that were not rejected); ``rejects``: there are none
    but rejected ones; ``undoes``: openclaw-mem has changed a note, which can be undone. ``effects`` are by
    edits, a text says why there is none; ``measuring`` is what is measured now. ``hosts`` are asked for
    vectors by a measurement: with some it waits for a key. ``at`` is when it was read."""

    material: Material | None = None
    found: tuple[NoteCandidate, ...] = ()
    rejects: bool = False
    undoes: bool = False
    files: tuple[FileUse, ...] = ()
    group: str = ""
    effects: Mapping[Edits, Effect | str] = field(default_factory=dict)
    measuring: Edits = ()
    hosts: tuple[str, ...] = ()
    reading: bool = False
    at: float = 0.0
    said: str = ""
    trouble: str = ""

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of candidates that there are."""
        return tuple(dict.fromkeys(candidate.kind for candidate in self.found))


class CuratePresenter(Presenter[CurateState]):
    """Errors become ``trouble``. The curator is used in its own thread alone."""

    def __init__(self, service: Service) -> None:
        super().__init__(service, CurateState())
        self._curator: Curator | None = None
        #: Proposals that were edited, by candidate.
        self._edited: dict[str, Edits] = {}
        #: What was written here, the last one at the end; each candidate is undone as a whole.
        self._written: list[list[Written]] = []
        #: What was rejected or proposed again here, the last one at the end: the candidate, what takes that
        #: back, and the last edit of a note before it.
        self._decided: list[tuple[str, str, int]] = []
        #: Why the notes could not be read; the next reading ends that.
        self._unread = ""

    def _opened(self, memory: Memory) -> Curator:
        from openclaw_mem_engine.api import Curator

        if self._curator is None:
            self._curator = Curator(memory.settings, self.service.clock)
            self.service.at_close.append(self._curator.close)
        return self._curator

    async def read(self) -> None:
        """Read the notes and find the candidates of the filter. Effects are of the notes as they were."""
        if not self.service.is_open:
            return
        group = self.state.group
        self.update(reading=True)

        def work(memory: Memory, _token: object) -> dict[str, Any]:
            curator = self._opened(memory)
            material = curator.material(memory)
            found = curator.candidates(material, rejected=group == REJECTED)
            others = found or curator.candidates(material, rejected=True)
            chosen = tuple(self._as_edited(one) for one in found if group in ("", REJECTED, one.kind))
            return {
                "material": material,
                "found": chosen,
                "rejects": others is not found and bool(others),
                "files": tuple(material.files),
                "hosts": memory.hosts,
                "undoes": self._last_edit(memory) > 0,
            }

        try:
            read = await self.service.long("curate", work)
        except OpenClawMemError as error:
            self._unread = str(error)
            self.update(trouble=self._unread)
        else:
            trouble = "" if self.state.trouble == self._unread else self.state.trouble
            self.update(**read, effects={}, at=self.service.clock(), trouble=trouble)
        finally:
            self.update(reading=False)

    async def read_again(self) -> None:
        """Read, and say what was found."""
        await self.read()
        if self.state.material is not None and not self.state.trouble:
            notes, found = fmt.count(len(self.state.files), "note"), len(self.state.found)
            self.say(f"read again: {notes}, {fmt.count(found, 'proposal')} shown")

    def _as_edited(self, candidate: NoteCandidate) -> NoteCandidate:
        """With the edited proposal, as long as that is of the text that the note has."""
        edited = self._edited.get(candidate.id, ())
        same = [edit.before for edit in edited] == [edit.before for edit in candidate.edits]
        return replace(candidate, edits=edited) if edited and same else candidate

    def choose(self, group: str) -> None:
        """Show this kind from the next reading on."""
        self.update(group=group, said="", trouble="")

    async def measure(self, candidate: NoteCandidate, delay: float, again: bool = False) -> None:
        """Measure the effect of a candidate, after a quiet moment; one that is known only ``again``.
        Cancelling stops it."""
        state, edits = self.state, candidate.edits
        material = state.material
        if not edits or material is None or (edits in state.effects and not again):
            return
        await asyncio.sleep(delay)
        self.update(measuring=edits)
        found: Effect | str
        try:
            found = await self.service.long(
                "curate", lambda memory, token: self._opened(memory).effect(memory, edits, material, token)
            )
        except Cancelled:
            return
        except OpenClawMemError as error:
            found = str(error)
        finally:
            if self.state.measuring == edits:
                self.update(measuring=())
        if self.state.material is material:
            self.update(effects={**self.state.effects, edits: found})
            if not again:
                return
            if isinstance(found, str):
                self.say(found)
            else:
                self.say("measured again" if found.queries else found.sentence)

    def propose(self, candidate: NoteCandidate, after: str) -> NoteCandidate:
        """Replace the last text that a candidate writes by one that was edited by hand."""
        edits = (*candidate.edits[:-1], replace(candidate.edits[-1], after=after))
        self._edited[candidate.id] = edits
        edited = replace(candidate, edits=edits)
        self.update(found=tuple(edited if one.id == candidate.id else one for one in self.state.found))
        return edited

    async def accept(self, candidate: NoteCandidate) -> bool:
        """Write a candidate. Whether that was done."""
        done = await self._do(lambda memory: self._opened(memory).apply(candidate.edits))
        if done is None:
            return False
        self._written.append(done)
        self._edited.pop(candidate.id, None)
        summaries = " and ".join(edit.in_words() for edit in candidate.edits)
        self.update(said=f"written: {summaries}; {key('undo_note')} undoes it")
        return True

    async def reject(self, candidate: NoteCandidate) -> None:
        """Do not propose a candidate again; one that was rejected is proposed again."""
        again = self.state.group == REJECTED
        last = await self._decide(candidate.id, "restore" if again else "reject")
        if last is not None:
            self._decided.append((candidate.id, "reject" if again else "restore", last))
            which = f"rejected: {key('which')} shows the rejected ones"
            self.update(said=f"{'proposed again' if again else which}; {key('undo_note')} undoes it")
            await self.read()

    async def take_back(self) -> str:
        """Undo the last rejection, or its end, where no note was changed since. The id of its candidate; ""
        where there is none."""
        last = await self._do(self._last_edit) if self._decided else None
        if last is None or last > self._decided[-1][2]:
            return ""
        name, how, _ = self._decided.pop()
        if await self._decide(name, how) is not None:
            self.update(said=f"undone: {'proposed' if how == 'restore' else 'rejected'} again")
            await self.read()
        return name

    @property
    def undoes(self) -> bool:
        """Whether there is a step to undo."""
        return self.state.undoes or bool(self._decided)

    async def _decide(self, name: str, how: str) -> int | None:
        """Reject or restore a candidate by its id; the last edit of a note, None when that failed."""

        def work(memory: Memory) -> int:
            getattr(self._opened(memory).state, how)(name)
            return self._last_edit(memory)

        return await self._do(work)

    async def propose_undo(self) -> Sequence[NoteEdit]:
        """The edits that take back the last change of a note, or all those of the last candidate; none when
        there is nothing to undo."""

        def work(memory: Memory) -> list[NoteEdit]:
            editor = self._opened(memory).editor
            last = self._last(memory) if self._last_edit(memory) else []
            return [editor.propose_undo(number) for number in last]

        edits = await self._do(work)
        if edits == []:
            self.say("nothing to undo: no change by openclaw-mem is left")
        return edits or ()

    async def undo(self, edits: Sequence[NoteEdit]) -> bool:
        """Write the edits of ``propose_undo``, as they were shown. Whether that was done."""
        done = await self._do(lambda memory: self._opened(memory).apply(edits))
        if done is not None:
            self.update(said=f"undone: {' and '.join(edit.in_words() for edit in edits)}")
        return done is not None

    def _last(self, memory: Memory) -> list[int]:
        """Numbers of the edits to undo, the last first."""
        if not (last := self._last_edit(memory)):
            raise OpenClawMemError("nothing to undo: no note was changed from here")
        group = next((group for group in self._written if group[-1].id == last), None)
        return [one.id for one in reversed(group)] if group else [last]

    def _last_edit(self, memory: Memory) -> int:
        """The number of the last edit that holds; 0 without one."""
        history = self._opened(memory).editor.history(50)
        return next((edit.id for edit in history if not edit.undone and not edit.undoes), 0)

    async def _do(self, work: Callable[[Memory], T]) -> T | None:
        """Do it in the curator's thread; None, with the trouble shown, when it failed."""
        self.update(trouble="", said="")
        try:
            return await self.service.long("curate", lambda memory, _token: work(memory))
        except OpenClawMemError as error:
            self.update(trouble=str(error))
        return None
