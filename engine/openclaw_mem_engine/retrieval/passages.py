"""The facts about one passage: from the file on disk to its exact rank in every candidate list, and the pools
that counterfactuals need."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from unicodedata import normalize

from openclaw_mem_engine.cancellation import CancelToken
from openclaw_mem_engine.chunking.line_chunker import is_blank
from openclaw_mem_engine.commands import REBUILD
from openclaw_mem_engine.errors import IndexUnavailable, UsageError
from openclaw_mem_engine.model import ExcludedFile, Note
from openclaw_mem_engine.ranking.kinds import KINDS
from openclaw_mem_engine.ranking.knobs import KNOBS, Knobs
from openclaw_mem_engine.ranking.pool import Pool
from openclaw_mem_engine.ranking.stages.scores import is_ignored
from openclaw_mem_engine.ranking.state import RankingState
from openclaw_mem_engine.ranking.trace import Trace
from openclaw_mem_engine.retrieval.keywords import provide_for_search
from openclaw_mem_engine.retrieval.lookup import INDEX, Lookup, check_line
from openclaw_mem_engine.sanitize import counted
from openclaw_mem_engine.sidecar.paths import excerpt
from openclaw_mem_engine.stores.base import FileState, StoredChunk
from openclaw_mem_engine.sync.changes import is_on_disk, note_changed, on_disk
from openclaw_mem_engine.why_not import WhyNot
from openclaw_mem_engine.why_not.tries import MADE_WITH
from openclaw_mem_engine.why_not.walk import ListFact
from openclaw_mem_engine.workspace.opening import NoteRefused
from openclaw_mem_engine.workspace.reading import takes_in
from openclaw_mem_engine.workspace.rules import TRANSCRIPT_FOLDER, absolute_path, included_by, open_workspace

if TYPE_CHECKING:
    from openclaw_mem_engine.retrieval import FoundLists, PassageQuestion
    from openclaw_mem_engine.retrieval.builtin import BuiltinBackend

_NO_VARIANTS: dict[str, Any] = {"rerank": False, "expansion": "off", "strong_signal": False}


class PassageLookup(Lookup["FoundLists", "StoredChunk"]):
    """The lookup in the built-in index."""

    def __init__(self, backend: BuiltinBackend, question: PassageQuestion, cancel: CancelToken) -> None:
        super().__init__(backend, question, cancel)
        self._backend = backend

    def _pool_of(self, found: FoundLists, knobs: Knobs) -> Pool:
        return self._backend.pool_of(found, knobs, self._cancel)

    # -- the file -----------------------------------------------------------------------------------------

    def _file_steps(self) -> list[StoredChunk] | WhyNot:
        """The chunks that hold the line, or the answer when a step before the ranking says no."""
        backend, settings = self._backend, self._backend.settings
        workspace = open_workspace(settings.workspace)
        known = backend.store.files()
        absolute = absolute_path(workspace.given, self._asked)
        plain = workspace.inside(absolute) or workspace.relative(absolute)
        spelled = dict.fromkeys(
            form
            for path in (self._asked, plain)
            for form in (path, normalize("NFC", path), normalize("NFD", path))
        )
        path = next((form for form in spelled if form in known), plain)
        differs = None
        if path in known:  # of one note its own state is enough
            with suppress(NoteRefused):
                differs = note_changed(settings, known[path], str(on_disk(settings, path)))
        changed = {path} if differs else set[str]()
        out, gone = dict[str, ExcludedFile](), False
        if differs is None:
            _, changes, excluded = backend.tracker.look()
            changed = {file.path for file in changes.changed}
            out = {file.path: file for file in excluded if not file.path.endswith("*")}
            listed = known.keys() | changed | out.keys()
            path = next((form for form in spelled if form in listed), plain)
            gone = path in {state.path for state in changes.removed}
        self._path = path
        reason = self._excluded(path, out)
        if path not in known and path not in changed and reason is None:
            reason = self._refused(path)
        chunks = backend.store.chunks_of(path)
        exists = is_on_disk(settings, path)
        there = "exists" if exists else "is deleted" if gone else "is not on disk now"
        held = "; the index still has its text" if chunks else ""
        self._pass("file", f"{path} {there}{held * (not exists)}")
        if reason is not None and not chunks:
            return self._stop_at("included", f"it is not included: {reason}")
        included = f"it is included by {included_by(path)}"
        if reason is not None:  # the index has its text from before
            included = f"{included}, but {reason}"
        self._pass("included", f"it is not included any more{held}" if gone and exists else included)
        if path in known and known[path].refusal:
            return self._stop_at("indexed", f"it holds no text that can be indexed: {known[path].refusal}")
        if path not in known:
            return self._stop_at("indexed", "it is not indexed yet", INDEX)
        self._check_line(path, chunks)
        holding = [
            chunk
            for chunk in chunks
            if self._line is None or chunk.start_line <= self._line <= chunk.end_line
        ]
        if path in changed and (not holding or self._text_differs(path, holding)):
            return self._stop_at("indexed", "it was modified since it was indexed", INDEX)
        if not holding:
            self._check_blank(path, known[path])
        if not chunks:
            return self._stop_at("chunk", "it holds no text")
        stale = " (modified since, not in these lines)" if path in changed else ""
        self._pass("indexed", f"it is indexed: {counted(len(chunks), 'chunk')}{stale}")
        if not holding:
            return self._stop_at("chunk", f"line {self._line} is in no chunk: it holds no text")
        spans = Counter((chunk.start_line, chunk.end_line) for chunk in holding)
        texts = [
            f"lines {a}–{b}" if a < b else f"{'a part of ' * (pieces > 1)}line {a}"
            for (a, b), pieces in spans.items()
        ]
        where = "the chunk of" if len(holding) == 1 else "chunks that hold"
        whole = "its chunks hold" if holding[1:] else "its chunk holds"
        what = whole if self._line is None else f"line {self._line} is in {where}"
        self._pass("chunk", f"{what} {', '.join(texts[:4])}" + (" …" if len(texts) > 4 else ""))
        return holding

    def _excluded(self, path: str, excluded: dict[str, ExcludedFile]) -> str | None:
        """Why a path, or a folder above it, is excluded; None when it is not."""
        above = path
        while above:
            if above in excluded:
                inside = "" if above == path else f"{above}, which contains it: "
                return f"{inside}{excluded[above].reason}"
            above = above.rpartition("/")[0]
        return None

    def _refused(self, path: str) -> str:
        """Why a path that is in no list is not memory. Raises NoteRefused when nothing is there, or when it
        is outside of the workspace."""
        settings = self._backend.settings
        if path.startswith(f"{TRANSCRIPT_FOLDER}/") and is_on_disk(settings, path):
            return "transcripts are not a source of this memory (sources)"
        try:
            there = excerpt(self._backend.settings, path, 1, 1).found
        except NoteRefused as refusal:
            if refusal.kind == "outside" or not os.path.lexists(settings.workspace / path):
                raise
            return "; ".join(filter(None, (refusal.reason, takes_in(refusal, settings.workspace))))
        if not there:
            raise NoteRefused("missing", self._asked, "no such memory file")
        return "it is not among the sources of this memory (sources)"

    def _check_line(self, path: str, chunks: Sequence[StoredChunk]) -> None:
        """Raises UsageError for a line that neither file nor index has."""
        try:
            check_line(self._line, path, max((chunk.end_line for chunk in chunks), default=0))
        except UsageError:
            with suppress(NoteRefused):  # a transcript, or one that cannot be read now
                return check_line(self._line, path, excerpt(self._backend.settings, path).total_lines)
            raise

    def _check_blank(self, path: str, state: FileState) -> None:
        """Raises IndexDamaged where an indexed note holds text, in the line that is asked for, and the index
        has none of it: the chunks of a note hold every line that is not blank."""
        with suppress(NoteRefused):
            text = excerpt(self._backend.settings, path, self._line, self._line and 1).text
            settings = self._backend.settings
            if not is_blank(text) and note_changed(settings, state, str(on_disk(settings, path))) is False:
                where = path if self._line is None else f"{path}:{self._line}"
                # Where its words are lost too, the doctor alone does not find it.
                raise self._backend.damaged(f"the chunk of {where} is lost", f"`{REBUILD}` repairs it.")

    def _text_differs(self, path: str, holding: Sequence[StoredChunk]) -> bool:
        """Whether the file has another text on disk than the index where the passage is."""
        chunk = holding[0]
        lines = chunk.end_line - chunk.start_line + 1
        try:
            now = excerpt(self._backend.settings, path, chunk.start_line, lines)
        except NoteRefused:
            return True
        return now.text != chunk.text

    # -- lists and pools ----------------------------------------------------------------------------------

    def _fact(self, found: FoundLists, chunk_id: str, at: int, trace: Trace) -> ListFact:
        lst = found.lists[at]
        fused = next((made for made in trace.lists if made.source.id == lst.id), None)
        shown = next((made for made in trace.shown_lists if made.source.id == lst.id), None)
        made = fused or shown
        lexical = lst.space_number is None
        words: tuple[tuple[str, ...], ...] = ()
        if lexical:
            words = found.builder.words_of(chunk_id)
        score = found.builder.scores_of([chunk_id], lst).get(chunk_id)
        asked_for = trace.knobs.takes(lst.kind) and lst.space_number == trace.knobs.space_number
        return ListFact(
            made.key if made is not None else lst.id,
            made.name if made is not None else lst.label or KINDS[lst.kind].name,
            lexical,
            found.builder.rank_of(chunk_id, lst),
            lst.matched,
            score,
            fused is not None,
            *words,
            ignored=asked_for and is_ignored(trace.knobs, lst, found.lists),
        )

    # -- what counterfactuals are tried with (changes.Pools) ----------------------------------------------

    def complete(self, knobs: Knobs) -> Pool:
        # Variants of the query and rerank scores are those of the first pool; true scores that it has are
        # read with fill_missing alone.
        known = {**_NO_VARIANTS, "fill_missing": knobs.fill_missing or self._knobs.fill_missing}
        knobs = knobs if all(getattr(knobs, n) == known[n] for n in known) else replace(knobs, **known)
        if (key := knobs.retrieval_key) not in self._completed:
            found = self._found(knobs)
            kept = self._first.signals if key == replace(self._knobs, **_NO_VARIANTS).retrieval_key else None
            signals = kept or found.builder.signals(found.lists, found.candidates, knobs)
            self._completed[key] = self._again(replace(self.pool(knobs), signals=signals))
        return self._completed[key]

    def same(self, knobs: Knobs) -> Knobs:
        """Those of the first search, where they look for the same words. A keyword score never falls with the
        weight of words in the path: when the same list results from a small and from the largest weight, all
        between them give it, with the present one."""
        if knobs.name_weight == self._knobs.name_weight:
            known = {name: getattr(self._knobs, name) for name in MADE_WITH}
            return replace(knobs, **known) if self._found(knobs) is self._found(self._knobs) else knobs
        now, low = self._knobs.name_weight, min(knobs.name_weight, KNOBS["name_weight"].step)
        if low <= 0:
            return knobs
        ends = [replace(knobs, name_weight=weight) for weight in (low, KNOBS["name_weight"].high)]
        first, last = ([lst.rows for lst in self._found(end).lists] for end in ends)
        return replace(knobs, name_weight=max(now, low)) if first == last else knobs

    def is_known(self, knobs: Knobs) -> bool:
        try:
            backend = self._backend
            provide_for_search(backend.store, knobs, backend.embedders.primary, self._cancel)
        except IndexUnavailable as error:
            note = Note("words-lacking", f"Not all settings were tried. {error}", "warning")
            self._notes += [note] if note not in self._notes else []
            return False
        return True

    def _key(self, knobs: Knobs) -> tuple[object, ...]:
        return knobs.words_key

    def _lists_of(self, knobs: Knobs, before: FoundLists | None) -> FoundLists:
        """The query is embedded, and vectors are searched, once."""
        if before is None:
            return self._searched(knobs)
        return self._backend.with_words(before, knobs, self._cancel)

    def _searched(self, knobs: Knobs) -> FoundLists:
        """The lists of a search; those of the last one when this would find the same, as after a search for
        the same words."""
        backend = self._backend
        backend.tracker.follow()
        if backend.last is None or backend.last[0] != backend.key(self._query, knobs):
            with backend.search(self._query, knobs, self._cancel) as found:
                return found
        found = backend.last[1]
        return found._replace(builder=found.builder.again())

    def _nearest(
        self, chunks: Sequence[StoredChunk], state: RankingState, trace: Trace, found: FoundLists
    ) -> StoredChunk:
        """Of chunks that hold a line the one that shows it, else the one nearest to being returned; outside
        of the pool that with the best scores, those that count before others."""
        by_id = {chunk.chunk_id: chunk for chunk in chunks}
        if (first := self._shown_first(by_id, state, trace)) is not None:
            return by_id[first]
        fused = {lst.source.id for lst in trace.lists}
        lists = sorted(found.lists, key=lambda lst: (lst.id not in fused, lst.space_number or 0, lst.kind))
        scores = [found.builder.scores_of(list(by_id), lst) for lst in lists]
        return max(chunks, key=lambda chunk: [known.get(chunk.chunk_id, -1.0) for known in scores])
