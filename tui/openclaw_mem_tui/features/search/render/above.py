"""The lines above the hits: the answer in one sentence, what became of the expected passages, and what faults
did to the answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING

from openclaw_mem_engine import api
from openclaw_mem_tui.features.search.comparison import Compared, answered_by, compared
from openclaw_mem_tui.features.search.render.funnel import funnel, in_words, next_keys
from openclaw_mem_tui.features.search.render.knobs import knob_value
from openclaw_mem_tui.features.search.state import View
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.spans import Line, Span, balanced, brief, clauses, cut, fit, line, width, wrapped

if TYPE_CHECKING:
    from openclaw_mem_engine.api import Expected, Fate, Trace


#: Cells of a label, as on the index screen; one column has no room for labels that a line can do without.
_LABEL, _ROOMY = 9, 100
#: The label of what can be done about an answer.
_NEXT = "next"
#: More lines than a sentence has.
_ALL = 99


def _beside(label: str, cells: int, drawn: Callable[[int], list[Line]], always: bool = False) -> list[Line]:
    """Lines beside their label."""
    if cells < _ROOMY and not always:
        return drawn(cells)
    first, other = Span(fmt.left(f" {label}", _LABEL), "dim"), Span(" " * _LABEL)
    return [(other if at else first, *made) for at, made in enumerate(drawn(cells - _LABEL))]


def above(view: View, cells: int, most: int = 2) -> list[Line]:
    """The sentence takes one line where its first two clauses do, else at most ``most``, or none; nothing
    before there is an answer."""
    if view.pool is None or view.trace is None:
        return []
    trace = view.trace
    many, *rest = api.found(view.pool, trace)
    clauses = [part for part in (many, _lost(view), *rest) if part]
    role = "" if trace.results else "warn"
    made = _beside("answer", cells, lambda room: _sentence(clauses, role, room, most)) if most else []
    if here := [passage for passage, query in view.expected.items() if query in ("", view.query.strip())]:
        line_in = partial(_expected, view, trace, here)
        short = most < _ALL
        made += _beside(
            "expected",
            cells,
            lambda room: [brief(line_in(room), room - 1)] if short else wrapped(line_in(room), room - 1, 3),
            always=True,
        )
    return made


def _lost(view: View) -> str:
    """How many hits of the baseline this answer lacks; empty where that is none, where there is no answer, or
    under a fault, which has a line of its own for that."""
    seen = compared(view) if not view.pool_faults else None
    if seen is None or not seen.lost or not (view.trace and view.trace.results):
        return ""
    return f"{fmt.count(len(seen.lost), 'result')} of the baseline {'are' if seen.lost[1:] else 'is'} missing"


def numbers(view: View, cells: int, most: int = 2, baseline: bool = True) -> list[Line]:
    """How many chunks each stage let through, with the ``baseline``, and in ``most`` lines what another
    setting would add to an answer of at most one result, and which keys go on."""
    trace = view.trace
    if trace is None:
        return []
    made = _beside("stages", cells, lambda room: [funnel(view, room, baseline)])
    # A baseline with another rescue shows what that adds.
    after = list[Line]()
    if len(trace.results) < 2 and "keyword_rescue" not in view.knobs.changes_from(view.baseline_knobs):
        made += (after := _rescue(trace, cells, most))
    if keys := next_keys(view) if most else ():
        label = "" if after else _NEXT
        made += _beside(label, cells, lambda room: [clauses(keys, room - 1) or fit(keys, room - 1)])
    return made


def _rescue(trace: Trace, cells: int, most: int) -> list[Line]:
    more = api.would_add(trace)
    return _beside(_NEXT, cells, lambda room: _sentence([more], "dim", room, most)) if more and most else []


def in_full(view: View, cells: int) -> list[Line]:
    """The sentences, however many lines they take, and every knob that differs from the configuration."""
    names = view.knobs.changed_names(view.defaults)
    said = line(" ", (", ".join(knob_value(name, view.knobs) for name in names), "accent"))
    changes = [*_beside("changes", cells, lambda room: wrapped(said, room - 1, 1)), ()] if names else []
    if view.trace is None:
        return changes
    stages = _beside("stages", cells, lambda room: in_words(view, room))
    return [*above(view, cells, _ALL), *stages, *_rescue(view.trace, cells, _ALL), (), *changes]


def _sentence(clauses: Sequence[str], role: str, cells: int, most: int) -> list[Line]:
    """Parts are left out, whole, where the others then take one line: those at the end, two clauses at least
    staying where there may be more lines, and of these clauses the ones that there is no room for; unless all
    is asked for."""
    whole = [fmt.numbers(fmt.inert(clause, 1_000)) for clause in clauses]
    text, least = "; ".join(whole), len("; ".join(whole[:2])) if most > 1 else 0
    ends = [part.start() for part in re.finditer(r"[;,] | \(|$", text)][::-1] if most < _ALL else ()

    def in_one_line(some: str) -> Line:
        said = line(" ", (some, role))
        shown = said if some == text else cut(said, cells - 1)
        return shown if width(shown) < cells and shown[: len(said)] == said else ()

    for end in (end for end in ends if end >= least and in_one_line(text[:end])):
        kept = text[:end]
        starts = accumulate((len(clause) + 2 for clause in whole), initial=0)
        for clause in (clause for clause, start in zip(whole, starts, strict=False) if start > end):
            kept = longer if in_one_line(longer := f"{kept}; {clause}") else kept
        return [in_one_line(kept)]
    said = line(" ", (text, role))
    made = balanced(said, cells - 1, 1)
    if len(made) > most:
        made = wrapped(said, cells - 1, 1)[:most]
        made[-1] = cut(made[-1], cells - 1)
    return made


def _expected(view: View, trace: Trace, here: Sequence[Expected], cells: int) -> Line:
    """Every passage expected ``here`` with its rank, what became of it, and how that differs from the
    baseline, or from the answer to the same query before; how many there are of other queries."""
    before = view.baseline.trace if view.compares and view.baseline is not None else view.earlier
    others = len(view.expected) - len(here)
    fates = {passage: api.fate(trace, *passage) for passage in here}
    # Lines of one chunk have one rank.
    shown = {(p.path, f.rank or p.line, f.rank is None): p for p, f in reversed(fates.items())}
    alone = len(shown) == 1
    parts = list[Span]()
    for passage in sorted(shown.values()):
        now = fates[passage]
        moved = _moved(api.fate(before, *passage), now) if before is not None else ""
        role = {"▲": "good", "n": "good", "▼": "bad", "o": "bad"}.get(moved[:1], "faint")
        sent = any(
            row.path == passage.path and row.start_line <= passage.line <= row.end_line
            for row in trace.returned
        )
        hidden = "" if now.shown else ", not shown whole" if sent else ", not returned"
        short = now.text if alone or now.rank is None else f"rank {now.rank}{hidden}"
        parts += line(
            "  " if parts else " ",
            ("✓ " if now.shown else "✗ ", "good" if now.shown else "bad"),
            (fmt.location(fmt.inert(passage.location), max(16, cells // 3)), "strong"),
            (f" {fmt.numbers(fmt.inert(short))}", "dim"),
            (f" ({moved})" if moved else "", role),
        )
    parts += line((f"  and {others} for other queries" if others else "", "faint"))
    return tuple(parts)


def _moved(before: Fate, now: Fate) -> str:
    """``▲2``, ``▼1``; ``new`` and ``out`` when the agent received it in one of the two only."""
    if before.shown != now.shown:
        return "new" if now.shown else "out"
    if before.rank == now.rank:
        return ""
    return fmt.arrow(before.rank, now.rank) if None not in (before.rank, now.rank) else ""


def in_short(view: View, cells: int) -> Line:
    """What the faults did to the shown answer, in one line of the search lab; what answered, unless the line
    on the fallback says it."""
    seen = compared(view)
    if seen is None or view.pool is None:
        return ()
    who, fallback = fmt.inert(answered_by(view.pool)), view.pool.fallback
    known = fallback is not None and who in fallback.words
    end = () if known else line((" · ", "faint"), f"{who} answered")
    (made,) = _beside("effect", cells, lambda room: [fit(line(" ", *overlap(seen), *end), room - 1)])
    return made


def overlap(seen: Compared) -> Line:
    """How much of the baseline the shown answer still has."""
    same, lost, new = seen.same, len(seen.lost), len(seen.new)
    if not seen.of:
        return line(("no result", "strong"), ", and none in the baseline")
    if not same + lost:
        return line((f"{fmt.count(new, seen.unit)}", "strong warn"), ", and none in the baseline")
    moved = f" ({seen.moved} at another rank)" if seen.moved else ""
    if not lost + new:
        return line((f"the same {fmt.count(same, seen.unit)}", "strong good"), f" as the baseline{moved}")
    baseline = fmt.count(same + lost, f"baseline {seen.unit}")
    returned = f"{'is' if same + lost == 1 else 'are'} returned{moved}"
    why = f": {seen.why}" if new and seen.why else ""
    if lost:
        more = f"; {new} {'is' if new == 1 else 'are'} new{why}" if new else ""
        return line((f"{same} of {baseline}", "strong bad"), f" {returned}{more}")
    return line((f"{fmt.count(new, f'more {seen.unit}')}", "strong"), f" than the baseline{moved}{why}")
