"""Why the selected chunk scored what it scored: a line for each operand on one axis, then the outcome."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from openclaw_mem_engine import api
from openclaw_mem_tui.features.search.render import operands, outcome
from openclaw_mem_tui.features.search.render.axis import FUSED, Axis, titles
from openclaw_mem_tui.features.search.render.groups import dropped_by
from openclaw_mem_tui.features.search.render.hits import Step, best_line, final_rank, short_label, steps
from openclaw_mem_tui.features.search.state import View
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.spans import (
    ROLES,
    Line,
    Span,
    fit,
    line,
    spread,
    wrapped,
)
from openclaw_mem_tui.render.terms import Marker

if TYPE_CHECKING:
    from openclaw_mem_engine.api import Operand, Row, Stage, Trace

_LABEL = 7
#: Cells of a rank, a score and its weight: below titles, and in words.
_DETAIL, _IN_WORDS, _ROOMY = 14, 19, 22
_VALUE = 7
#: A low pane shows so many lists one by one; of more the fused score alone, so that the final one is seen.
_LOW_LISTS = 2


def _rescales(operand: Operand) -> bool:
    """Whether the score is on another scale after an operand: it was replaced, or blended with another."""
    return operand.op == "set" or (operand.stage == "rerank" and bool(operand.inputs))


def waterfall(
    view: View, row: Row, cells: int, *, titled: bool = False, marker: Marker | None = None
) -> list[Line]:
    """The whole pane for one row in ``cells`` columns (the last one stays blank, before the scroll bar), with
    titles of its columns where there is room for them (``titled``). With a ``marker`` for a low pane whose
    frame has the outcome: the best line of the text in place of the location, which the list has, and no
    sum that the bars before and after it show."""
    cells = max(24, cells - 1)
    trace = view.trace
    if trace is None:
        return []
    digits = api.final_digits(row, trace.knobs)
    detail = max(4, min(_DETAIL if titled else _IN_WORDS, cells - 20)) if cells < 60 else _ROOMY
    first = max([_LABEL, *(fmt.width_of(short_label(lst.label)) + 1 for lst in trace.lists)])
    axis = Axis(view, cells - first - detail - _VALUE - 2)

    def step(label: str, text: str, bar: Line, value: str, role: str = "") -> Line:
        # A long label takes the room of its text.
        room = detail + first
        label = short_label(label)
        wide = min(max(first, fmt.width_of(label) + 1), room)
        return (
            Span(fmt.left(label, wide), "strong" if role == "strong" else "dim"),
            Span(fmt.left(text, room - wide) + " ", role if role == "faint" else ""),
            *bar,
            Span(fmt.right(value, _VALUE + 1), role),
        )

    def absent(label: str, note: str) -> list[Line]:
        """What changed nothing: without a bar its reason has the whole width. Of a reason that a note on the
        whole answer gives nothing is drawn."""
        why = note.partition(": ")[2]
        if why and any(why in found.text for found in trace.notes):
            return []
        if fmt.width_of(note) > detail:
            head = f"{short_label(label):<{_LABEL - 1}} "
            return wrapped(line((head, "dim"), (note, "faint")), cells, _LABEL)
        return [step(label, note, axis.bar(0, 0, ""), "·", "faint")]

    def said(note: str) -> list[Line]:
        return wrapped(line(" " * _LABEL, (note, "faint")), cells, _LABEL) if note else []

    head, whole = outcome.head(trace, row, cells)
    found = view.candidate(row.chunk_id)
    if marker is not None and found is not None:
        whole = outcome.is_whole(trace, row)
        head = fit(line(("▸ ", "accent"), *best_line(view, row, marker, cells - 2)), cells)
    other_spaces = _other_spaces(trace, row, cells)
    made = [head, *([] if whole else _reason(trace, row, cells))]
    queries = _queries(trace, cells)
    if titled:  # before the lists that have their names
        made, queries = [*made, *queries], []
    compared = _compare(view, trace, row, digits, cells)
    if not row.operands:
        return [*made, *other_spaces, *compared]
    if titled:
        by_rank = any("k" in operand.inputs for operand in row.operands)
        added = "weight ÷ (k + rank)" if by_rank else "rank score" + " × weight" * (len(trace.lists) > 1)
        made.append(titles(f"{'list':<{first}}{added}", first + detail + 1, axis, trace, cells))
    total = 0.0
    fused = {lst.term: lst for lst in trace.lists}
    labels = {stage.name: stage.label for stage in trace.stages if stage.kind != "list"}
    several, below = len(fused) > 1 and "fusion" in labels, list[Line]()
    adding = sum(operand.label in fused and bool(operand.product) for operand in row.operands)
    folded = marker is not None and adding > _LOW_LISTS
    fused_sum = api.recompute(operand for operand in row.operands if operand.stage == "fusion")
    for operand, before, total, change in steps(row):
        label, note = labels.get(operand.label, operand.label), operand.note
        lst = fused.get(operand.label) if operand.op == "add" else None
        if lst is not None:
            if folded:
                continue
            if change or not note:
                text = operands.detail(
                    operand,
                    row.ranks.get(lst.key),
                    words=not titled and detail >= _IN_WORDS,
                    column=4 * titled,
                )
                bar = axis.bar(before, total, _role(label))
                made.append(step(lst.label, text, bar, fmt.signed(change, digits)))
                made += said(note)
                if how := operands.computed(operand, trace.knobs):
                    below += operands.formula(Span(fmt.left(lst.label, _LABEL), "dim"), how, cells)
            else:
                # As above, a line of text would part the bars, and push the final score out of a low pane.
                (below if fmt.width_of(note) > detail else made).extend(absent(lst.label, note))
            continue
        idle = (operand.op == "mul" and operand.value == 1.0) or (note and not operand.inputs)
        why = absent(label, note or "×1") if idle else []
        if idle and not why:
            continue
        if several:
            several = False
            if marker is None or axis.parted:
                made.append(
                    step(
                        labels["fusion"],
                        f"{adding} lists" if folded else "",
                        axis.bar(0, before, "sum"),
                        fmt.score(before, digits),
                    )
                )
        if idle:
            made += why
            continue
        if operand.stage == "position" and before != fused_sum:
            made.append(step("sum", "", axis.bar(0, before, "sum"), fmt.score(before, digits)))
        if axis.parted and _rescales(operand):
            axis.drawn = False
        if operand.op == "set":
            now = fmt.score(total, digits)
            if (rank := operand.inputs.get("position")) is not None:
                text = f"= 1 ÷ {rank:g} = {now}"
            else:
                text = f"{now} replaces {fmt.score(before, digits)}"
            made += wrapped(line((f"{fmt.left(label, _LABEL - 1)} ", "dim"), text), cells, _LABEL)
            made += said(note)
            continue
        text, role = operands.later_detail(operand, digits), "bad" if total < before else "accent"
        bar = axis.bar(min(total, before), max(total, before), role, "▒" if total < before else "█")
        # Of the scores as they are shown.
        shown = fmt.signed(round(total, digits) - round(before, digits), digits)
        made.append(step(label, text, bar, shown, "bad" if total < before else ""))
        made += said(note)
    # Where MMR makes the order, its value stands out.
    role = "" if row.diversity is not None else "strong"
    made.append(step("score", "", axis.bar(0, total, "sum"), fmt.score(total, digits), role))
    made += [*_margin(trace, total, digits, cells), *below, *_diversity(trace, row, cells)]
    return [*made, *queries, *other_spaces, *compared]


def _queries(trace: Trace, cells: int) -> list[Line]:
    """The texts of an expansion, and what the labels of their lists stand for."""
    asked = dict.fromkeys(
        (lst.label.partition(" ")[2], (" ".join(lst.source.words) or lst.source.query).lower())
        for lst in trace.lists
        if lst.source.role != "original"
    )
    return [
        made
        for name, text in asked
        for made in wrapped(
            line((f"{fmt.left(short_label(name), _LABEL)}variant ", "dim"), f"“{fmt.inert(text, 400)}”"),
            cells,
            _LABEL,
        )
    ]


def _role(term: str) -> str:
    """The colour of a list's bar: that of its kind."""
    family = term.partition(":")[0]
    return family if family in ROLES else "accent"


def _margin(trace: Trace, total: float, digits: int, cells: int) -> list[Line]:
    """``below min score .35 by .031``; nothing where no score is compared with a limit, as the line of the
    stages says."""
    stage = trace.cut
    if stage is None or not stage.limit:
        return []
    margin = total - stage.limit
    shown = next((many for many in range(digits, 9) if round(margin, many)), digits)
    by = f" by {fmt.score(abs(margin), shown)}" if round(margin, shown) else ""
    where = "at" if not by else "above" if margin > 0 else "below"
    text = f"{where} {stage.name.replace('_', ' ')} {fmt.setting(stage.limit)}{by}"
    return wrapped(line((text, "good" if margin >= 0 else "bad")), cells, _LABEL)


def _diversity(trace: Trace, row: Row, cells: int) -> list[Line]:
    seen = row.diversity
    stage = next((stage for stage in trace.of_kind("order") if "lambda" in stage.constants), None)
    if seen is None or stage is None:
        return []
    text = fmt.numbers(api.diversity_sum(seen, float(stage.constants["lambda"])))
    chosen = f" picked {api.ordinal(row.ranks[stage.name])}" if seen.picked else ""
    label = (fmt.left(stage.label, _LABEL), "strong")
    made = wrapped(line(label, text, (chosen, "dim")), cells, _LABEL)
    if len(made) > 1 and _LABEL + fmt.width_of(short := text.replace(" × ", "×")) <= cells:
        # Its value stands below those of the other steps, not alone in a line.
        summands, equals, value = short.rpartition(" = ")
        made = [spread(line(label, summands), line(f"{equals.lstrip()}{value}"), cells)]
        made += [line((" " * (_LABEL - 1) + chosen, "dim"))] if chosen else []
    if scaled := fmt.numbers(api.relevance(row, trace)):
        made += operands.formula(Span(" " * _LABEL), scaled, cells)
    if seen.nearest is not None and seen.similarity > 0 and row.outcome.stage != stage.name:
        nearest = fmt.location(fmt.inert(seen.nearest), cells - _LABEL - 8)
        made.append(line((" " * _LABEL + "nearest ", "dim"), (nearest, "dim")))
    return made


def _other_spaces(trace: Trace, row: Row, cells: int) -> list[Line]:
    """Cosine and rank in the vector spaces that are only shown, and that neither is in the score."""
    made = []
    for lst in trace.shown_lists:
        if lst.key in row.scores:
            found = f"{row.ranks.get(lst.key, ''):>4} {fmt.score(row.scores[lst.key])}"
            start = line((fmt.left("also", _LABEL), "dim"), f"{found} ", (fmt.inert(lst.owner), "dim"))
            made.append(spread(start, line(("not fused", "faint")), cells))
    return made


def _reason(trace: Trace, row: Row, cells: int) -> list[Line]:
    reason = row.outcome.reason
    if row.returned or not reason:
        return []
    stage: Stage | None = trace.stage(row.outcome.stage or "")
    if stage is not None and stage.kind == "cut":
        # By how much it is short is in the line above; only what goes beyond that is new.
        reason = reason.partition("; ")[2]
    return (
        wrapped(line((fmt.left("out", _LABEL), "bad"), fmt.numbers(fmt.inert(reason))), cells, _LABEL)
        if reason
        else []
    )


def _compare(view: View, trace: Trace, row: Row, digits: int, cells: int) -> list[Line]:
    """The difference to the neighbour in rank, and to the baseline, operand by operand."""
    made: list[Line] = []
    if row.outcome.rank is not None and len(trace.returned) > 1:
        other_at = row.outcome.rank + (1 if row.outcome.rank < len(trace.returned) else -1)
        other = trace.returned[other_at - 1]
        made.extend(_difference(trace, f"#{final_rank(other)}", row, other, digits, cells))
        made.extend(_same_text(view, row, trace.returned, cells))
    if was := _in_baseline(view, row, digits):
        made.extend(wrapped(line(("in the baseline: ", "dim"), was), cells, _LABEL))
    return made


def _same_text(view: View, row: Row, returned: Sequence[Row], cells: int) -> list[Line]:
    """Which results have the same text: what is between their scores is only their order."""
    texts = {other.chunk_id: chunk.text for other in returned if (chunk := view.candidate(other.chunk_id))}
    same = [
        f"#{final_rank(other)}"
        for other in returned
        if other.chunk_id != row.chunk_id and texts.get(other.chunk_id, "") == texts.get(row.chunk_id)
    ]
    return wrapped(line((f"same text as {', '.join(same)}", "dim")), cells, _LABEL) if same else []


def _in_baseline(view: View, row: Row, digits: int) -> str:
    """``#1 at .551``, or why the baseline did not return it; empty where that is the same in both runs."""
    baseline = view.baseline
    if baseline is None or not view.compares:
        return ""
    before = baseline.row(row)
    if before is None:
        return "not found"
    scores = before.final, row.final
    moved = None not in scores and not baseline.by_file and abs((scores[0] or 0) - (scores[1] or 0)) > 1e-9
    score, rank = fmt.score(before.final, digits), before.outcome.rank
    if before.returned:
        same = "" if rank == row.outcome.rank else fmt.ranked(rank)
        return f"{fmt.ranked(rank)} at {score}" if moved else same
    if not moved and before.outcome.stage == row.outcome.stage:
        return ""
    stage = before.outcome.stage or ""
    known = baseline.trace.stage(stage) is not None
    why = dropped_by(stage, baseline.trace) if known else before.outcome.reason
    return f"not returned{f' (score {score})' if moved else ''}, {fmt.numbers(fmt.inert(why or stage))}"


def _before_ranks(row: Row) -> list[Step]:
    """The steps up to the fused rank of a row, where its score is 1 / that rank; empty for any other."""
    found = steps(row)
    at = next((at for at, step in enumerate(found) if step.operand.stage == "position"), 0)
    return found[:at] if found[at:] and found[-1].after == found[at].after else []


def _contributions(made_by: Sequence[Step]) -> dict[str, float]:
    """What makes the last score, by operand: of what a later stage replaced nothing is left."""
    made: dict[str, float] = {}
    for step in made_by:
        if step.operand.op == "set":
            made = {step.operand.label: step.after}
        else:
            made[step.operand.label] = step.change
    return made


def _difference(trace: Trace, name: str, row: Row, other: Row, digits: int, cells: int) -> list[Line]:
    ranked = _before_ranks(row), _before_ranks(other)
    mine_made, theirs_made = ranked if all(ranked) else (steps(row), steps(other))
    if not mine_made or not theirs_made:
        return []
    mine, theirs = mine_made[-1].after, theirs_made[-1].after
    labels = {stage.name: stage.label for stage in trace.stages if stage.kind != "list"}
    labels |= {lst.term: short_label(lst.label) for lst in trace.lists}
    mine_by, theirs_by = _contributions(mine_made), _contributions(theirs_made)
    names = [*dict.fromkeys((*mine_by, *theirs_by))]
    # Of the scores as they are shown, so that it is what a reader computes from them.
    by = round(mine, digits) - round(theirs, digits)
    gaps = fmt.summands([mine_by.get(name, 0.0) - theirs_by.get(name, 0.0) for name in names], by, digits)
    parts = [
        f"{labels.get(name, name)} {fmt.signed(gap, digits)}"
        for name, gap in zip(names, gaps, strict=True)
        if gap
    ]
    because = f": {', '.join(parts)}" if parts else ""
    where = "ahead of" if mine >= theirs else "behind"
    # 1 / rank says only that one rank is before the other.
    scored = " + ".join(s.label for s in trace.stages if s.name in FUSED) if all(ranked) else ""
    spans = line(
        (fmt.score(abs(by), digits), "strong"),
        (f" {where} {name}{scored and f' in {scored}'}{because}", "dim"),
    )
    return wrapped(spans, cells, _LABEL)
