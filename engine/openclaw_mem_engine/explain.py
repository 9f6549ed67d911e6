"""A trace in words, for command line, export and workbench: a row, a stage, a whole answer as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING
from unicodedata import normalize

from openclaw_mem_engine.commands import advice
from openclaw_mem_engine.config.knobs import profile_words
from openclaw_mem_engine.model import index_state
from openclaw_mem_engine.ranking.kinds import RankedList
from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.stages.decay import age_of
from openclaw_mem_engine.ranking.trace import Diversity, Operand, Row, Stage, Trace, touches
from openclaw_mem_engine.sanitize import decimals, figure, visible

if TYPE_CHECKING:
    from openclaw_mem_engine.answer import Answer, Hit

#: Dropped rows that a report lists; the rest is counted.
DROPPED_LISTED = 20
#: What the formulas of stages leave open.
_CONSTANTS = {"k": "k = {:g}", "half_life_days": "half-life = {:g} days", "lambda": "lambda = {:g}"}
#: Of a hit whose score is below the limit.
RESCUED = "kept by keyword rescue"


def final_digits(row: Row, knobs: Knobs) -> int:
    """Decimals of a row's score: as many as show of one below the minimum that it is."""
    low = row.final is not None and (row.outcome.rescued or row.outcome.stage == "min_score")
    return decimals(row.final or 0.0, knobs.min_score, knobs.digits) if low else knobs.digits


def final_score(row: Row, knobs: Knobs) -> str:
    """A row's score; empty when it has none."""
    return "" if row.final is None else figure(row.final, final_digits(row, knobs))


def arithmetic(row: Row, trace: Trace) -> str:
    """One row's score as a sum that a reader can do again::

        vector 0.810 × 0.70 = 0.567  +  BM25 0.333 [1/(1+2)] × 0.30 = 0.100  → fused 0.667 × decay 0.5 = 0.333

    A list that does not hold the row says why, and so does a stage that did not change the score, unless its
    line says that of all rows. Empty for a row that never entered the pool.
    """
    digits = trace.knobs.digits
    terms = [operand for operand in row.operands if operand.stage == "fusion"]
    later = row.operands[len(terms) :]
    if not terms:
        return ""
    text = "  +  ".join(_term(operand, trace) for operand in terms)
    total = sum(operand.product for operand in terms)
    if len(terms) > 1 or later:
        text += f"  → {'fused' if len(terms) > 1 else 'score'} {figure(total, digits)}"
    for at, operand in enumerate(later):
        if _is_idle(operand):
            note = _own_note(operand, trace)
            note = f"no decay: {note}" if operand.stage == "decay" else note
            text += f" ({note})" if note else ""
            continue
        total = operand.applied(total)
        text += _later(operand, digits)
        # A stage with several operands (a share, then a term) has one result.
        if operand.stage not in {following.stage for following in later[at + 1 : at + 2]}:
            text += f" = {figure(total, digits)}"
    return text


def _is_idle(operand: Operand) -> bool:
    """Whether a stage did not change the score, and says why."""
    idle = 1.0 if operand.op == "mul" else 0.0
    return operand.op != "set" and operand.value == idle and not operand.inputs and bool(operand.note)


def _own_note(operand: Operand, trace: Trace) -> str:
    """Why a stage did not change the score, without a reason that the line of the stage has."""
    stage, (what, _, reason) = trace.stage(operand.stage), operand.note.partition(": ")
    if stage is None or not reason or reason not in stage.note:
        return operand.note
    return what if stage.constants.get("reranked") else ""


def _later(operand: Operand, digits: int) -> str:
    """What a stage after the fusion did to the score, without its result."""
    if operand.op == "set":
        return f"  → 1 / {operand.inputs[operand.label]:g} (fused rank)"
    age = f"{age_of(operand)} days" if operand.inputs.get("age_days") else ""
    because = ", ".join(part for part in (age, operand.note) if part)
    because = f" ({because})" if because else ""
    if operand.op == "mul":
        return f" × {operand.label} {operand.value:.3f}{because}"
    made = f" × {operand.weight:.2f}" if operand.weight != 1 else ""
    return f" + {operand.label} {figure(operand.value, digits)}{made}{because}"


def _term(operand: Operand, trace: Trace) -> str:
    knobs, digits = trace.knobs, trace.knobs.digits
    name = next((lst.name for lst in trace.lists if lst.term == operand.label), operand.label)
    if not operand.inputs and not operand.value:
        return f"{name} 0 ({operand.note})" if operand.note else f"{name} 0"
    made = made_of(operand.inputs, knobs)
    text = f"{name} {figure(operand.value, digits)}" + (f" [{made}]" if made else "")
    if operand.note:
        text += f" ({operand.note})"
    if operand.weight != 1:
        text += f" × {operand.weight:.2f} = {figure(operand.product, digits)}"
    return text


def made_of(inputs: Mapping[str, float], knobs: Knobs) -> str:
    """How the value of a list was computed from its inputs; empty when it is one of them. There are: rank and
    constant, rank, a raw score and the largest, or a raw score and both ends of its range."""
    if "k" in inputs:
        return f"1/({inputs['k']:g}+{inputs['rank']:g})"
    if "rank" in inputs:
        return f"1/(1+{inputs['rank']:g})" if knobs.bm25_score == "rank" else ""
    if "line_share" not in inputs:  # a score of another program is the value itself
        return f"{inputs['bm25']:.4g} / (1 + {inputs['bm25']:.4g})" if "bm25" in inputs else ""
    raw, share, line = next(iter(inputs.values())), inputs["line_share"], inputs["line"]
    if "max" in inputs and "min" not in inputs:
        # bm25 has no scale of its own: in a small workspace all of it may be far below 0.01.
        mixed = f"({raw:.4g} + {share:g} × {line:.4g})" if share else f"{raw:.4g}"
        return f"{mixed} / {inputs['max']:.4g}"
    mixes = share and raw != line  # a chunk without line vectors has its own cosine as that of its best line
    mixed = f"{1 - share:g} × {figure(raw, 4)} + {share:g} × {figure(line, 4)}" if mixes else figure(raw, 4)
    if "min" in inputs:
        if inputs["min"] == inputs["max"]:
            return "no candidate is closer than another"
        low = _minus(inputs["min"], 4)
        return f"({mixed}{low}) / ({inputs['max']:.4f}{low})"
    return mixed if mixes else ""


def _minus(number: float, digits: int) -> str:
    """``− 0.1``, and of a negative number ``+ 0.1``."""
    return f" {'−' if number >= 0 else '+'} {abs(number):.{digits}f}"


def diversity(row: Row, trace: Trace) -> str:
    """The numbers of MMR for a row, or an empty text."""
    seen = row.diversity
    if seen is None:
        return ""
    text = f"MMR {diversity_sum(seen, trace.knobs.mmr_lambda)}"
    if seen.nearest is not None and seen.similarity > 0:
        text += f" (nearest chosen: {seen.nearest})"
    return f"{text}; {relevance(row, trace)}"


def relevance(row: Row, trace: Trace) -> str:
    """``rel 0.788 = (0.3290 − lowest 0.1050) / (highest 0.4140 − 0.1050)``: how MMR scaled the score of a
    row, with so many decimals as that takes; empty where there is no MMR."""
    seen, stage = row.diversity, trace.stage("mmr")
    if seen is None or stage is None or row.final is None:
        return ""
    low, high = (float(stage.constants[name]) for name in ("lowest", "highest"))
    shown = f"rel {seen.relevance:.3f}"
    if low == high:
        return f"{shown}: all scores are equal"
    for digits in range(trace.knobs.digits, 10):
        score, least, most = (round(number, digits) for number in (row.final, low, high))
        if least < most and f"{(score - least) / (most - least):.3f}" == f"{seen.relevance:.3f}":
            break
    above = f"({figure(row.final, digits)} − lowest {figure(low, digits)})"
    return f"{shown} = {above} / (highest {figure(high, digits)}{_minus(low, digits)})"


def diversity_sum(seen: Diversity, lam: float) -> str:
    """``0.7 × rel 0.512 − 0.3 × sim 0.100 = 0.328``: relevance and similarity weighted by lambda, and MMR's
    value."""
    value = figure(seen.value, 3)
    return f"{lam:g} × rel {seen.relevance:.3f} − {1 - lam:g} × sim {seen.similarity:.3f} = {value}"


def other_vectors(row: Row, trace: Trace) -> str:
    """The cosines in vector spaces that are shown and not counted; empty where there are none."""
    found = [
        f"{lst.owner} {figure(row.scores[lst.key], 3)} (rank {row.ranks[lst.key]})"
        for lst in trace.shown_lists
        if lst.key in row.scores
    ]
    return f"not counted: vector of {', '.join(found)}" if found else ""


def searched(lst: RankedList) -> str:
    """The text that a list was made for, where that is a variant of the query; else empty."""
    return "" if lst.source.role == "original" else " ".join(lst.source.words) or lst.source.query


def not_searched(lst: RankedList, query: str) -> str:
    """The words of the query that a list of which any word may match did not look for."""
    source, word = lst.source, r"[^\W_]+"
    if not lst.kind.by_words or source.every or source.role != "original":
        return ""
    held = set(re.findall(word, normalize("NFC", " ".join(source.words).lower())))
    asked = dict.fromkeys(re.findall(word, normalize("NFC", query.lower())))
    # A run with CJK is searched in pieces.
    cut = {one for one in asked if not one.isascii() and any(piece in one for piece in held)}
    return ", ".join(one for one in asked if one not in held | cut)


def stage_name(stage: Stage, trace: Trace) -> str:
    """``min score``; of a list its name."""
    found = next((lst for lst in trace.lists if lst.key == stage.name), None)
    return found.name if found is not None else stage.name.replace("_", " ")


def stage_formula(stage: Stage, trace: Trace) -> str:
    """A stage's formula with what its names stand for."""
    constants = stage.constants
    parts = [
        f"{lst.name} = {constants[name]}"
        for lst in trace.lists
        if stage.kind == "fusion" and (name := f"{lst.term}_score") in constants
    ]
    more = [text.format(constants[name]) for name, text in _CONSTANTS.items() if name in constants]
    if stage.kind == "list":
        if constants["fetched"] != constants["matched"]:
            more.append(f"fetched {constants['fetched']:,} of {constants['matched']:,} matched")
        more.append(f"first {constants['candidates']} enter the pool")
        lst = next(lst for lst in trace.lists if lst.key == stage.name)
        if text := searched(lst):
            parts.append(f"searched for “{text}”, a variant of the query")
        if words := not_searched(lst, trace.query):
            more.append(f"not searched: {words}")
    if stage.note and stage.kind == "score":
        more.append(stage.note)
    if "space" in constants:
        more.append(f"vectors of {constants['space']}")
    return "; ".join([stage.formula, *parts, *more])


def stage_effect(stage: Stage) -> str:
    """What a stage changed, in words; empty when that is nothing."""
    many = "" if stage.changed == 1 else "s"
    picked = f"of the first {stage.constants.get('picked', '')} moved"
    own = {"rescue": "kept", "snippet": f"best line{many} cut", "order": picked}
    what = own.get(stage.kind, f"rank{many} changed")
    return f"{stage.changed} {what}" if stage.changed else ""


def hit_marks(hit: Hit) -> list[str]:
    """What must be said of a hit beside its score."""
    marks = {RESCUED: hit.rescued, "weak": hit.weak, "best line cut": hit.best_line_cut}
    band = [f"{hit.band} score"] if hit.band else []
    return band + [mark for mark, is_set in marks.items() if is_set]


def cut_off(hit: Hit) -> str:
    """That the agent does not get the best line of a hit, or not all of it; empty for any other."""
    if not hit.best_line_cut or hit.best_line is None:
        return ""
    cut = "is only in part" if touches(hit.shown, hit.best_line) else "is not"
    return f"truncated: line {hit.best_line}, the best of its chunk, {cut} in the snippet"


def returned_words(trace: Trace) -> str:
    """``6 returned``, and where a result shows lines of several chunks ``5 results made of 12 chunks``."""
    results, chunks = len(trace.results), len(trace.returned)
    if results == chunks:
        return f"{chunks:,} returned"
    return f"{results:,} {'result' if results == 1 else 'results'} made of {chunks:,} chunks"


def trace_markdown(answer: Answer) -> str:
    """An answer and its whole explanation as a Markdown document; texts of notes are in code blocks, so
    nothing in them is interpreted."""
    return visible("\n".join(_document(answer)) + "\n")


def _document(answer: Answer) -> Iterator[str]:
    trace, pool = answer.trace, answer.pool
    knobs, digits = trace.knobs, trace.knobs.digits
    yield from (f"# Search: {inline(trace.query)}", "")
    yield f"- profile: {profile_words(knobs, pool.backend)}"
    yield "- provider: {} {}".format(*answer.served_by).rstrip()
    yield f"- backend: {pool.backend}"
    if pool.freshness is not None:
        yield f"- index: {index_state(pool.freshness, trace.notes)}, generation {pool.freshness.generation}"
    yield f"- answer: {plain(answer.text)}"
    for note in trace.notes:
        yield f"- {note.level}: {plain(advice(note.text))}"
    yield from ("", "## Stages", "")
    yield from ("| stage | in | out | formula | effect |", "| --- | ---: | ---: | --- | --- |")
    for stage in trace.stages:
        name, formula = plain(stage_name(stage, trace)), plain(stage_formula(stage, trace))
        yield f"| {name} | {stage.entered} | {stage.left} | {formula} | {stage_effect(stage)} |"
    yield from ("", f"## Returned ({len(trace.results)})")
    rows = {row.chunk_id: row for row in trace.returned}
    for hit in answer.hits:
        row, where = rows[hit.chunk_id], f"{hit.path}:{hit.start_line}-{hit.end_line}"
        marks = "".join(f", {mark}" for mark in hit_marks(hit))
        yield from ("", f"### {hit.rank}. {inline(where)} · {hit.score:.{digits}f}{marks}")
        for text in (arithmetic(row, trace), diversity(row, trace), other_vectors(row, trace), cut_off(hit)):
            if text:
                yield from ("", plain(text))
        yield from ("", *fenced(hit.snippet))
    dropped = trace.dropped
    yield from ("", f"## Not returned ({len(dropped)})", "")
    if dropped:
        yield from ("| score | chunk | stage | reason |", "| ---: | --- | --- | --- |")
    for row in dropped[:DROPPED_LISTED]:
        reason = plain(row.outcome.reason or "")
        name = (row.outcome.stage or "").replace("_", " ")
        yield f"| {final_score(row, knobs)} | {plain(row.location)} | {name} | {reason} |"
    if len(dropped) > DROPPED_LISTED:
        yield from ("", f"{len(dropped) - DROPPED_LISTED} more.")


# -- foreign text inside Markdown ---------------------------------------------------------------------------

_SPECIAL = r"([\\`*_{}\[\]<>#|!~])"


def plain(text: str) -> str:
    """One line of text in which no Markdown is interpreted."""
    return re.sub(_SPECIAL, r"\\\1", " ".join(text.split()))


def inline(text: str) -> str:
    """A text as inline code; the fence is longer than any run of backticks in it."""
    text = " ".join(text.split())
    fence = "`" * (_longest_run(text) + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def fenced(text: str) -> list[str]:
    """Lines of a code block around a text; the fence is longer than any run of backticks in it."""
    fence = "`" * max(3, _longest_run(text) + 1)
    return [f"{fence}text", *text.rstrip("\n").split("\n"), fence]


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall(r"`+", text)), default=0)
