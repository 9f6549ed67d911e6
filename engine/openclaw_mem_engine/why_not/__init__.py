"""Why a passage is not in an answer, and what would bring it in: the walk from the file on disk to the
snippet that the agent receives, stopped at the first no.

The backend collects the facts; ``walk`` and ``changes`` are pure functions of these and of ``rank()``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from openclaw_mem_engine.model import Note, as_json
from openclaw_mem_engine.ranking.knob_spec import knob_words
from openclaw_mem_engine.ranking.knobs import KNOBS, KnobValue
from openclaw_mem_engine.sanitize import counted

#: ``WhyNot.stage`` of a passage that the agent receives.
RETURNED = "returned"
#: Code of the note that none of the settings tried helps, and of the one that a result has the same line.
NO_CHANGE, SAME_LINE = "no-change", "same-line"
#: Marks a change with a knob that the agent's configuration lacks; and what the mark means.
ONLY_HERE = "‡"
ONLY_HERE_MEANS = f"{ONLY_HERE} OpenClaw has no such setting"


@dataclass(frozen=True, slots=True)
class Passage:
    """What is asked about: lines of a file (first and last, 1-based; 0 and 0 when there is no such text), and
    the chunk that holds them, None when the index has none."""

    path: str
    start_line: int
    end_line: int
    chunk_id: str | None = None

    @property
    def location(self) -> str:
        return f"{self.path}:{self.start_line}-{self.end_line}" if self.start_line else self.path

    def to_dict(self) -> dict[str, Any]:
        return as_json(self, chunk_id="")


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the walk: whether the passage passed it, a sentence, and the numbers behind that. What is
    below the minimum score and kept all the same has the fact ``rescued``; a step that lowered it so far
    that a later one drops it has ``displaced``.

    Their names, in order: ``file``, ``included``; ``collection`` (of QMD): whether what holds the file is
    searched; ``indexed``, ``chunk``; ``session``: whether the scope allows the search; ``retrieval``: whether
    any candidate list holds it, however late (its facts have ``lists``); ``mode``: whether such a list takes
    part in this mode and vector space; ``pool``; then the stages of the ranking that ran, from ``fusion`` on.
    """

    name: str
    ok: bool
    text: str
    facts: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "ok": self.ok, "text": self.text, **self.facts}


@dataclass(frozen=True, slots=True)
class Change:
    """Knobs that bring the passage in when they are set so and nothing else is: the smallest such change;
    both weights where it sets one, because each changes the other.
    ``rank`` is that of the result which then holds it, from 1; ``lost`` and ``gained`` are the other
    passages (``path:line``) that are returned no more, and now. ``how``: what returns it where its own score
    does not (keyword rescue, a tie), empty where that does: such a change is fragile. ``only_here``:
    ``openclaw.json`` has no key for one of the knobs, so the agent cannot be configured so. ``score`` says
    what the score of the passage is then, if it is another, and whether the pool is. ``best_line_cut``: its
    best line, where a chunk is asked about and that line is not returned whole; ``cuts``: of how many other
    results the best line is newly cut; ``results``: how many there were and are, where they are lines packed
    by file before or after, and chunks otherwise. ``chunk``: the lines of the chunk that then shows the line
    that was asked about, where the steps are about another."""

    set: Mapping[str, KnobValue]
    rank: int
    lost: tuple[str, ...] = ()
    gained: tuple[str, ...] = ()
    how: str = ""
    weak: bool = False
    only_here: bool = False
    score: str = ""
    best_line_cut: int | None = None
    cuts: int = 0
    results: tuple[int, int] | None = None
    chunk: str = ""

    @property
    def mark(self) -> str:
        return f" {ONLY_HERE}" if self.only_here else ""

    @property
    def says(self) -> str:
        """What its knobs do."""
        said = {knob_words(name): KNOBS[name].says(value) for name, value in self.set.items()}
        return "; ".join(f"{name}: {text}" if said.keys() - {name} else text for name, text in said.items())

    @property
    def since(self) -> str:
        """Which release of the agent does something similar without any setting; empty where none does."""
        return "OpenClaw 2026.9.6 has a similar rule" if self.set == {"keyword_rescue": "fill"} else ""

    @property
    def effect(self) -> str:
        """Whether it is weak or holds as long as the note is not older, its score then, its best line if that
        is still cut, and what the change does to other results."""
        weak = "a weak result" if self.weak else ""
        cut = f"its best line ({self.best_line_cut}) is still cut" if self.best_line_cut else ""
        chunk = f"in the chunk of {self.chunk}" if self.chunk else ""
        age = "at the note's age today" if "half_life_days" in self.set else ""
        return ", ".join(filter(None, (weak, age, chunk, self.score, cut, self._others)))

    @property
    def _others(self) -> str:
        both = (("adds", len(self.gained)), ("removes", len(self.lost)))
        parts = [f"{does} {counted(many, 'other result')}" for does, many in both if many]
        parts += [f"cuts the best line of {counted(self.cuts, 'other result')}"] * bool(self.cuts)
        if self.results:
            before, now = self.results
            parts.insert(0, f"{counted(before, 'result')} become{'s' * (before == 1)} {now}")
        return ", ".join(parts) or "other results stay"

    def to_dict(self) -> dict[str, Any]:
        of = {"set": dict(self.set), "rank": self.rank, "lost": list(self.lost)}
        weak = {"weak": True} if self.weak else {}
        cut = {"bestLineCut": self.best_line_cut} if self.best_line_cut else {}
        return {**of, "how": self.how, **weak, "onlyHere": self.only_here, **cut}


#: ``undated``: an evergreen file instead of a dated one; ``word``: words of the query that the passage lacks;
#: ``split``: a chunk of its own for what the snippet cuts off; ``index``: the index brought up to date.
TextChangeKind = Literal["undated", "word", "split", "index"]


@dataclass(frozen=True, slots=True)
class TextChange:
    """A change of the notes, not of the ranking."""

    kind: TextChangeKind
    text: str

    def to_dict(self) -> dict[str, Any]:
        return as_json(self)


@dataclass(frozen=True, slots=True)
class WhyNot:
    """The answer. ``returned``: the agent receives something of the passage, as result ``rank`` (from 1).
    ``stage`` is the step that said no, or ``returned``; ``outcome`` says what the agent gets or does not get,
    without the reason. ``steps`` end with the first no. ``changes``, those that make it a weak result last,
    of the others those that remove no other result first (see ``changes.Search``), are empty when none of the
    settings tried brings it in (a note counts them, and ``tried`` names their knobs), and when the passage
    needs none."""

    query: str
    passage: Passage
    returned: bool
    rank: int | None
    stage: str
    outcome: str
    steps: tuple[Step, ...]
    changes: tuple[Change, ...] = ()
    text_changes: tuple[TextChange, ...] = ()
    notes: tuple[Note, ...] = ()
    tried: str = ""

    @property
    def decided(self) -> str:
        """The step that said no, with the one that lowered it so far that this one drops it: ``(dropped by
        max results, because of decay)``; one before the ranking, and a snippet that shows other lines, drop
        nothing: ``(step indexed)``. Empty where no step said no."""
        last = self.steps[-1]
        if last.ok:
            return ""
        ranked = any(step.name == "fusion" for step in self.steps[:-1]) and not self.returned
        named = f"{'dropped by' if ranked else 'step'} {last.name}"
        lowered = [f"because of {step.name}" for step in self.steps if step.facts.get("displaced")]
        return f"({', '.join([named, *lowered])})".replace("_", " ")

    @property
    def text(self) -> str:
        """One sentence: the outcome, with the step that decided it and the reason where it is a no."""
        return (
            f"{self.outcome} {self.decided}: {self.steps[-1].text}." if self.decided else f"{self.outcome}."
        )

    @property
    def no_change(self) -> str:
        """That no change returns it, and how many were tried; empty where one does, or none was tried."""
        return self._noted(NO_CHANGE)

    @property
    def same_line(self) -> str:
        """Which result has the line that is asked about all the same; empty where none has."""
        return self._noted(SAME_LINE)

    def _noted(self, code: str) -> str:
        return next((note.text for note in self.notes if note.code == code), "")

    def to_dict(self) -> dict[str, Any]:
        """The stable answer of ``openclaw-mem why-not --json``, without an empty ``rank`` or ``tried``."""
        given = {"rank": self.rank is not None, "tried": bool(self.tried)}
        omitted = {name: name * there for name, there in given.items()}
        return {**as_json(self, outcome="", **omitted), "answer": self.text}
