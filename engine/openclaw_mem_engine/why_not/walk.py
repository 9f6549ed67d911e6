"""The walk through the ranking: from the candidate lists to the snippet, stopped at the first no."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.ranking.kinds import entrance
from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.pool import Candidate, Kind
from openclaw_mem_engine.ranking.stages.decay import age_of
from openclaw_mem_engine.ranking.state import RankingState
from openclaw_mem_engine.ranking.trace import Lines, Row, Trace, touches
from openclaw_mem_engine.sanitize import apart, figure
from openclaw_mem_engine.why_not import RETURNED, Passage, Step


@dataclass(frozen=True, slots=True)
class ListFact:
    """What one candidate list says of the chunk: its exact ``rank`` among the ``matched`` chunks, also beyond
    the rows of the pool (None: it does not match), and its raw score. Of a lexical list ``words`` are the
    terms of the query that the chunk's text holds, ``named`` those that only its path holds (where that is
    searched; ``named_in`` says where), ``missing`` the others, ``excluded`` those that it holds and must not.
    Of the ``words`` the text holds those of ``begun`` only as the beginning of a longer one.
    ``fused``: the list takes part in this mode and vector space; ``ignored``: it would, but for the script of
    the query. ``said`` is said instead of all this."""

    list: str
    label: str
    lexical: bool
    rank: int | None
    matched: int | None
    score: float | None
    fused: bool
    words: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    ignored: bool = field(default=False, kw_only=True)
    named_in: str = field(default="its path", kw_only=True)
    begun: tuple[str, ...] = field(default=(), kw_only=True)
    said: str = field(default="", kw_only=True)

    @property
    def kind(self) -> Kind:
        return "lexical" if self.lexical else "vector"

    @property
    def text(self) -> str:
        if self.said:
            return f"{self.label}: {self.said}"
        held = [f"it matches {_quoted(self.words, self.begun)}"] if self.words else []
        held += [f"{self.named_in} matches {_quoted(self.named)}"] if self.named else []
        lacks = f", not {_quoted(self.missing)}" if self.missing else ""
        if self.rank is None:
            return (
                f"{self.label} does not find it: {self._unmatched(' and '.join(held) + lacks * bool(held))}"
            )
        of = f" of {self.matched:,}" if self.matched is not None else ""
        score = "" if self.lexical or self.score is None else f" (cosine {figure(self.score, 3)})"
        matches = f" keyword match{'es' * (self.matched != 1)}" if self.lexical else ""
        words = f": {' and '.join(held)}{lacks}" if held else ""
        return f"{self.label} ranks it {self.rank:,}{of}{matches}{score}{words}"

    def _unmatched(self, words: str) -> str:
        """Why the list does not find it. ``words`` says which words of the query it has, or is empty."""
        if not self.lexical:
            return "it has no vector in the index"
        if self.excluded and not self.missing:
            return f"it matches {_quoted(self.excluded)}, which the query excludes"
        if words:
            return f"every word must match, and {words}"
        return f"it matches none of {_quoted(self.missing)}"

    def to_dict(self) -> dict[str, Any]:
        words = {"words": list(self.words), "missing": list(self.missing)} if self.lexical else {}
        words |= {"inPath": list(self.named)} if self.named else {}
        words |= {"excluded": list(self.excluded)} if self.excluded else {}
        numbers = {"list": self.list, "rank": self.rank, "matched": self.matched, "score": self.score}
        return {**numbers, "fused": self.fused, **words}


class Fate(NamedTuple):
    """What a ranking makes of a passage: ``rank`` of the result that shows something of it, from 1;
    ``shown``: also the whole line that is asked for, or without one the best line of the chunk; ``lines`` are
    those of the chunk ``chunk_id`` that are shown, ``cut`` those of them that are shown in part."""

    rank: int | None
    shown: bool
    lines: tuple[Lines, ...] = ()
    best_line: int | None = None
    cut: tuple[int, ...] = ()
    chunk_id: str = ""


def fate_of(state: RankingState, chunk_ids: Collection[str], line: int | None) -> Fate:
    """What the agent receives of a ``line``, of which chunks that overlap may hold a copy each; without a
    line, of one chunk. Of several chunks the one that shows the line counts, else the first."""
    fates = []
    for chunk_id, shown in state.shown.items():
        if chunk_id not in chunk_ids:
            continue
        rank = next(n for n, result in enumerate(state.results, 1) if chunk_id in result.chunk_ids)
        whole = not shown.best_line_cut if line is None else shown.holds(line)
        fates.append(Fate(rank, whole, shown.lines, shown.best_line, shown.cut, chunk_id))
    return max(fates, key=lambda fate: fate.shown, default=Fate(None, False))


def same_line(chunk: Candidate | None, line: int | None, trace: Trace) -> int | None:
    """Which result (from 1) shows a whole line with the text of this ``line`` of a ``chunk``, which is not
    returned itself; None where there is none, or no word in that line."""
    if chunk is None or line is None:
        return None
    texts = chunk.text.split("\n")[line - chunk.start_line :]
    text = texts[0].strip() if texts else ""
    if not any(map(str.isalnum, text)):
        return None
    lines = ({shown.strip() for shown in result.snippet.split("\n")} for result in trace.results)
    return next((rank for rank, shown in enumerate(lines, 1) if text in shown), None)


class Lined(Protocol):
    """A part of a note."""

    @property
    def start_line(self) -> int: ...
    @property
    def end_line(self) -> int: ...


def lines_text(part: Lined) -> str:
    """Its lines in words."""
    first, last = part.start_line, part.end_line
    return f"lines {first}–{last}" if first < last else f"line {first}"


class Walk(NamedTuple):
    """The steps up to the first no, its name (``returned`` without one), and the outcome."""

    steps: tuple[Step, ...]
    stage: str
    outcome: str
    fate: Fate


def walk(
    before: Sequence[Step],
    passage: Passage,
    line: int | None,
    lists: Sequence[ListFact],
    state: RankingState,
    trace: Trace,
) -> Walk:
    """Walk on from the steps ``before``, which the passage passed, with its chunk. ``trace`` is that of the
    ``state``. Pure."""
    chunk_id = passage.chunk_id or ""
    fate = fate_of(state, (chunk_id,), line)
    steps = [*before]
    for step in _steps(lists, trace, trace.row(chunk_id), fate, line):
        steps.append(step)
        if not step.ok:
            return Walk(tuple(steps), step.name, _not_shown(passage, line, fate), fate)
    where = f"line {line} of {passage.path}" if line is not None else passage.location
    return Walk(tuple(steps), RETURNED, f"{where} is returned: it is in result {fate.rank}", fate)


def _not_shown(passage: Passage, line: int | None, fate: Fate) -> str:
    if fate.rank is not None:  # it is the snippet that does not show it
        what = f"line {line}" if line is not None else f"its best line, {fate.best_line}"
        part = touches(fate.lines, fate.best_line if line is None else line)
        got = "gets only a part of" if part else "does not get"
        return f"{passage.location} is in result {fate.rank}, but the agent {got} {what}"
    what = f"line {line} of " if line is not None else ""
    return f"{what}{passage.location} is not returned"


def _steps(
    lists: Sequence[ListFact], trace: Trace, row: Row | None, fate: Fate, line: int | None
) -> Iterator[Step]:
    knobs, matching = trace.knobs, [fact for fact in lists if fact.rank is not None]
    texts = "; ".join(fact.text for fact in lists) or "no candidate list could be made"
    if lists and knobs.takes("vector") and not any(fact.kind == "vector" for fact in lists):
        texts += "; there is no vector list"
    yield Step("retrieval", bool(matching), texts, {"lists": [fact.to_dict() for fact in lists]})
    fused = [fact for fact in matching if fact.fused]
    yield _mode_step(matching, fused, knobs)
    ranks = {fact.list: fact.rank for fact in fused}
    inside = any(fact.rank is not None and fact.rank <= knobs.candidates for fact in fused)
    named = zip(fused, _short_names(fused), strict=True)
    text = entrance([(fact.rank, name) for fact, name in named if fact.rank is not None], knobs)
    yield Step("pool", inside, text, {"ranks": ranks, "candidates": knobs.candidates})
    if row is None:  # the index changed between two reads
        yield Step("fusion", False, "the index was modified meanwhile: ask again")
        return
    out = row.outcome
    for stage in trace.stages:
        name = stage.name
        if stage.kind == "list" or (stage.kind == "rescue" and not out.rescued):
            continue
        numbers = {"score": row.scores.get(name), "rank": row.ranks.get(name)}
        facts = {key: value for key, value in numbers.items() if value is not None}
        if out.stage == name:
            yield Step(name, False, out.reason or "", facts)
            return
        if stage.kind == "snippet":
            shows = ", ".join(f"{a}–{b}" if a < b else f"{a}" for a, b in dict.fromkeys(fate.lines))
            parts = {"shown": [list(lines) for lines in fate.lines], "bestLine": fate.best_line}
            part = "a part of " if len(fate.cut) == 1 and shows == f"{fate.cut[0]}" else ""
            text = f"the snippet shows {part}line{'s' if '–' in shows or ',' in shows else ''} {shows}"
            wanted = fate.best_line if line is None else line
            in_part = touches(fate.lines, wanted) and not fate.shown and not part
            text += f", and only a part of line {wanted}" if in_part else ""
            yield Step(name, fate.shown, text, parts)
        else:
            facts |= {"rescued": True} if out.rescued and name == "min_score" else {}
            facts |= {"displaced": True} if out.lowered and out.lowered.stage == name else {}
            yield Step(name, True, _passed(name, row, stage.entered, out.rescued, trace), facts)


def _short_names(facts: Sequence[ListFact]) -> Sequence[str]:
    """Their labels, without the texts that were searched for where these are not needed."""
    short = [fact.label.partition(" “")[0] for fact in facts]
    return short if len({*short}) == len(short) else [fact.label for fact in facts]


def _mode_step(matching: Sequence[ListFact], fused: Sequence[ListFact], knobs: Knobs) -> Step:
    if fused:
        names = (fact.label.partition(" ")[0] for fact in fused)  # BM25 variant 1 “pump”
        by = " and ".join(dict.fromkeys("vectors" if name == "vector" else name for name in names))
        these = "both" if " and " in by else "them" if by == "vectors" else "it"
        return Step("mode", True, f"found by {by}; {knobs.mode_word} mode uses {these}")
    text = f"found only by vectors of another space than {knobs.vector_space} (vector_space)"
    kinds = {fact.kind for fact in matching}
    if not any(knobs.takes(kind) for kind in kinds):
        text = knobs.unused(kinds)
    elif any(fact.ignored for fact in matching):
        text = "found only by vectors, which say nothing of a query in this script (same_script)"
    return Step("mode", False, text, {"mode": knobs.mode, "vector_space": knobs.vector_space})


def _passed(name: str, row: Row, entered: int, rescued: bool, trace: Trace) -> str:
    digits = trace.knobs.digits
    score = figure(row.scores[name], digits) if name in row.scores else ""
    if name == "fusion":
        scored = sum(1 for other in trace.rows if name in other.ranks)
        shares = ""
        if trace.knobs.fusion != "weighted":  # of the lists that hold it
            labels = {lst.term: lst.name for lst in trace.lists}
            held = (o for o in row.operands if o.stage == name and o.inputs)
            shares = " + ".join(f"{labels[o.label]} {o.product:.{digits}f}" for o in held)
        made_of = f" = {shares}" if " + " in shares else ""
        return f"its score is {score}{made_of}; its rank is {row.ranks[name]} of {scored}"
    before, now = _rank_before(name, row, trace), row.ranks.get(name)
    moved = f"; its rank changes from {before} to {now}" if before != now else ""
    if name == "bonus":
        bonus = next(o for o in row.operands if o.stage == name)
        return f"{bonus.note or f'its score + {bonus.value:g} is {score}'}{moved}"
    if name == "limit":
        return f"its rank is among the first {trace.knobs.candidate_limit} fused candidates"
    if name == "position":
        return f"its score is now 1 / rank {row.ranks[name]} = {score}"
    if name == "rerank":
        blended = next(o for o in reversed(row.operands) if o.stage == name)
        made = f"its score is now {score} (rerank score {blended.value:.3f}, share {blended.weight:.2f})"
        return (blended.note or made) + moved
    if name == "decay":
        factor = next(o for o in row.operands if o.stage == name)
        if not factor.inputs:
            return f"its score stays {score} ({factor.note}){moved}"
        return f"its score × {factor.value:.3f} ({age_of(factor)} days old) is {score}{moved}"
    if name == "mmr" and row.diversity is not None:
        seen = row.diversity
        near = f"; its similarity to {seen.nearest} is {seen.similarity:.2f}" if seen.nearest else ""
        return f"its MMR value is {figure(seen.value, 3)}{near}{moved}"
    if name == "min_score":
        stage = trace.stage(name)
        if stage is not None and stage.note:
            return stage.note
        limit = trace.knobs.min_score
        final = apart(row.scores["final"], limit, digits)
        return f"its score {final} is {'below' if rescued else 'at least'} min score {limit:g}"
    if name == "keyword_rescue":
        return f"keyword rescue ({trace.knobs.keyword_rescue}) keeps it"
    if name == "max_results":
        if trace.knobs.snippet == "packed":
            count = min(entered, trace.knobs.depth)
            are = "chunks that are" if count > 1 else "chunk that is"
            return f"it is among the {count} {are} considered for packing"
        first = "first" if trace.knobs.depth == 1 else f"first {trace.knobs.depth}"
        return f"its rank {row.ranks['final']} is among the {first}"
    return f"{entered} candidates entered, and it passed"


def _rank_before(name: str, row: Row, trace: Trace) -> int | None:
    names = [stage.name for stage in trace.stages if stage.kind != "list"]
    before = names[: names.index(name)] if name in names else []
    return next((row.ranks[stage] for stage in reversed(before) if stage in row.ranks), None)


def _quoted(words: Sequence[str], begun: Sequence[str] = ()) -> str:
    return ", ".join(f"{'a word that begins with ' * (word in begun)}“{word}”" for word in words)
