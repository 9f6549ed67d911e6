"""The operands of a score as arithmetic, in a few words each."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from openclaw_mem_engine import api
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.spans import Line, Span, wrapped

if TYPE_CHECKING:
    from openclaw_mem_engine.api import Knobs, Operand


def detail(operand: Operand, rank: int | None, *, words: bool, column: int) -> str:
    """The operand of a list: its rank (in ``words``, else in a ``column`` of so many cells), its value and
    weight, or of RRF its weight, constant and rank."""
    inputs = operand.inputs
    if "k" in inputs:
        return f"{operand.weight:g}/({inputs['k']:g}+{inputs['rank']:g})"
    weight = f" ×{fmt.score(operand.weight, 2)}" if operand.weight != 1 else ""
    number = "" if rank is None else f"rank {rank} · " if words else f"{rank} "
    value = fmt.score(operand.value)
    # 1.000 has a digit more than others: the column before it is as much narrower.
    return f"{number:>{column + 1 - len(value[4:])}}{value}{weight}"


def computed(operand: Operand, knobs: Knobs) -> str:
    """``.621 = (.4510 − .1200) / (.6530 − .1200)``: how a value that is not made of a rank was computed;
    empty where it is the raw score."""
    made = "" if "rank" in operand.inputs else api.made_of(operand.inputs, knobs)
    return made and f"{fmt.score(operand.value)} = {fmt.numbers(made)}"


def formula(label: Span, text: str, cells: int) -> list[Line]:
    """A formula beside its label in as many lines as needed. They are cut before an operator that is in no
    brackets, and go on below the sign of equality."""
    kept = _TOGETHER.sub(lambda found: found[0].replace(" ", _KEPT), text)
    indent = fmt.width_of(label.text + text[: max(0, text.find("= "))])
    rows = wrapped((label, Span(kept, "faint")), cells, indent)
    return [tuple(span._replace(text=span.text.replace(_KEPT, " ")) for span in row) for row in rows]


#: What is in brackets, and an operator with its right side; a blank at which no line is cut.
_TOGETHER = re.compile(r"\([^()]*\)|(?<= )[=+−×/] |(?<=rel|sim) ")
_KEPT = "\u00a0"


def later_detail(operand: Operand, digits: int) -> str:
    """What a stage after the fusion did: its factor, its weighted term or the new score, and what made
    that."""
    if operand.op == "add":
        if (rank := operand.inputs.get("best_rank")) is not None:
            return f"best rank {rank:g}"
        return f"{fmt.score(operand.value)} ×{fmt.score(operand.weight, 2)}" if operand.weight != 1 else ""
    aged, rank = "age_days" in operand.inputs, operand.inputs.get("rank", operand.inputs.get("position"))
    made = f"{api.age_of(operand)} d" if aged else f"rank {rank:g}" if rank is not None else ""
    sign, many = ("×", 3) if operand.op == "mul" else ("= ", digits)
    return fmt.join((made, f"{sign}{fmt.score(operand.value, many)}"), " ")
