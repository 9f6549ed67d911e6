"""The axis of the waterfall: scores as bars of one scale, its mark for the min score, and its titles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openclaw_mem_tui.features.search.state import View
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.spans import Line, Span, line, slice_of, spread, text_of, width

if TYPE_CHECKING:
    from openclaw_mem_engine.api import Trace

#: Marks the minimum score on the bars.
_CUT = "│"
#: Stages that make the fused score, and those behind them whose score is drawn.
FUSED, _LATER = ("fusion", "bonus"), ("position", "rerank", "decay")


class Axis:
    """Scores as positions on a bar of ``cells``; the same for all rows of a trace, so that rows compare.
    Where fused scores would be too short to be seen beside those that replace them, only they have bars."""

    def __init__(self, view: View, cells: int) -> None:
        assert view.trace is not None
        fused, later, cut = _scales(view.trace)
        self.cells = max(1, cells)
        self.parted = fused < later / 2
        self.top = fused if self.parted else max(fused, later, cut or 0.0)
        self.drawn = True
        #: The cell of the cut; None where there is none, or it does not apply to these bars.
        self.tick = min(self.cells - 1, int(cut / self.top * self.cells)) if cut and not self.parted else None

    def bar(self, start: float, end: float, role: str, fill: str = "█") -> Line:
        if not self.drawn:
            return line(" " * self.cells)
        first, text = fmt.bar(*self._snapped(start, end), self.cells, fill)
        drawn = line(" " * first, (text, role), " " * (self.cells - first - len(text)))
        if self.tick is None:
            return drawn
        # A cell that the bar fills has its two colours exchanged; one that it ends in has the mark alone.
        filled = text_of(slice_of(drawn, self.tick, self.tick + 1)) == fill
        mark = Span(_CUT, f"{role} reversed" if filled else "faint")
        return (*slice_of(drawn, 0, self.tick), mark, *slice_of(drawn, self.tick + 1, self.cells))

    def _snapped(self, start: float, end: float) -> tuple[float, float]:
        """Both ends on halves of a cell, so that one bar begins where another ends; never nothing."""
        halves = 2 * self.cells / self.top
        low, high = round(start * halves) / 2, round(end * halves) / 2
        return low / self.cells, max(high, low + 0.125 * (end > start)) / self.cells


def _scales(trace: Trace) -> tuple[float, float, float | None]:
    """The highest score of any row after the fusion and after the stages behind it, which may replace it or
    blend it with another; and the cut."""
    cut = trace.cut.limit if trace.cut is not None else None
    fused = (trace.highest.get(name, 0.0) for name in FUSED)
    later = (trace.highest.get(name, 0.0) for name in _LATER)
    return max(1e-9, *fused), max(1e-9, *later), cut


def titles(text: str, bars: int, axis: Axis, trace: Trace, cells: int) -> Line:
    """The titles of the columns, and above the mark on the bars, which begin at ``bars``, the min score that
    it stands for, where there is room."""
    end = line(("adds", "faint"))
    if axis.tick is not None and trace.cut is not None:
        limit, at = fmt.setting(trace.cut.limit or 0.0), bars + axis.tick
        for name in (text, text.replace(" × ", " ×"), text.partition(" × ")[0]):
            start = max(len(name) + 2, at - 1)
            if start <= at and start + len(limit) + width(end) < cells:
                text = f"{name:<{start}}{limit}"
                break
    return spread(line((text, "faint")), end, cells)
