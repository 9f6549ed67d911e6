"""The operands of a score as arithmetic, in a few words each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openclaw_mem_tui.render import format as fmt

if TYPE_CHECKING:
    from openclaw_mem_engine.api import Operand


def detail(operand: Operand, rank: int | None) -> str:
    """The operand as arithmetic, with the constants it was made of."""
    inputs, value = operand.inputs, fmt.score(operand.value)
    weight = f"×{fmt.score(operand.weight, 2)}" if operand.weight != 1 else ""
    if "k" in inputs:
        return f"{operand.weight:g}/({inputs['k']:g}+{inputs['rank']:g})"
    if "rank" in inputs:
        return f"#{inputs['rank']:g} {value} {weight}"
    if "max" not in inputs:
        return f"{fmt.ranked(rank)} {value} {weight}".strip()
    raw = next(iter(inputs.values()))
    if "min" in inputs:
        return f"{fmt.score(raw, 2)}→{fmt.score(operand.value, 2)} {weight}"
    return f"{raw + inputs['line_share'] * inputs['line']:.1f}/{inputs['max']:.1f} {weight}"


def mixed(operand: Operand) -> str:
    """``chunk .437 ×.95 + line .709 ×.05``: the cosines of a value that both make; empty for any other."""
    inputs = operand.inputs
    share, chunk, best = (inputs.get(name) for name in ("line_share", "cosine", "line"))
    if not share or chunk is None or best is None or chunk == best:
        return ""
    of_chunk = f"chunk {fmt.score(chunk)} ×{fmt.setting(1 - share)}"
    return f"{of_chunk} + line {fmt.score(best)} ×{fmt.setting(share)}"


def later_detail(operand: Operand, digits: int) -> str:
    """What a stage after the fusion did: its factor, its term or the new score, and what made that."""
    if operand.op == "add":
        weight = f" ×{fmt.score(operand.weight, 2)}" if operand.weight != 1 else ""
        return f"{fmt.score(operand.value)}{weight}"
    aged, rank = operand.inputs.get("age_days"), operand.inputs.get("rank", operand.inputs.get("position"))
    made = fmt.days(aged) if aged is not None else fmt.ranked(int(rank)) if rank is not None else ""
    sign, many = ("×", 3) if operand.op == "mul" else ("= ", digits)
    return fmt.join((made, f"{sign}{fmt.score(operand.value, many)}"), " ")
