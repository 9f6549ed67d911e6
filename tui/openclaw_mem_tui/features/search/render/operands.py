"""The operands of a score as arithmetic, in a few words each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openclaw_mem_engine import api
from openclaw_mem_tui.render import format as fmt

if TYPE_CHECKING:
    from openclaw_mem_engine.api import Knobs, Operand


def detail(operand: Operand, rank: int | None, knobs: Knobs) -> str:
    """The operand of a list: its rank, value and weight, or what a value made of the rank is made of."""
    inputs = operand.inputs
    if "k" in inputs:
        return f"{operand.weight:g}/({inputs['k']:g}+{inputs['rank']:g})"
    weight = f"×{fmt.score(operand.weight, 2)}" if operand.weight != 1 else ""
    made = api.made_of(inputs, knobs) if "rank" in inputs else ""
    return f"{made or f'{fmt.ranked(rank)} {fmt.score(operand.value)}'} {weight}".strip()


def computed(operand: Operand, knobs: Knobs) -> str:
    """``.621 = (.4510 − .1200) / (.6530 − .1200)``: how a value that is not made of a rank was computed;
    empty where it is the raw score."""
    made = "" if "rank" in operand.inputs else api.made_of(operand.inputs, knobs)
    return made and f"{fmt.score(operand.value)} = {fmt.numbers(made)}"


def later_detail(operand: Operand, digits: int) -> str:
    """What a stage after the fusion did: its factor, its term or the new score, and what made that."""
    if operand.op == "add":
        weight = f" ×{fmt.score(operand.weight, 2)}" if operand.weight != 1 else ""
        return f"{fmt.score(operand.value)}{weight}"
    aged, rank = "age_days" in operand.inputs, operand.inputs.get("rank", operand.inputs.get("position"))
    made = f"{api.age_of(operand)} d" if aged else fmt.ranked(int(rank)) if rank is not None else ""
    sign, many = ("×", 3) if operand.op == "mul" else ("= ", digits)
    return fmt.join((made, f"{sign}{fmt.score(operand.value, many)}"), " ")
