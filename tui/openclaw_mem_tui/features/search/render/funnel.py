"""How many candidates each stage let through; and, when nothing is left, the sentence that says why."""

from __future__ import annotations

from openclaw_mem_engine.api import Knobs, Stage, Trace
from openclaw_mem_tui.features.search.render.hits import LEGS
from openclaw_mem_tui.features.search.render.waterfall import cut_of
from openclaw_mem_tui.features.search.state import View, timings
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.spans import Line, Span, line, spread, width

_ARROW = Span(" → ", "faint")


def funnel(view: View, cells: int) -> Line:
    """``vec 24 + bm25 24 → fused 39 → … → min .35: 11 (−28) → max 6 (−5)``, and the baseline at the right."""
    trace = view.trace
    if trace is None:
        return ()
    parts = _parts(trace, compact=False)
    if width(parts) > cells - 1:
        parts = _parts(trace, compact=True)
    end = (
        line(
            ("baseline ", "dim"), (view.baseline.name, "accent" if view.pin or view.pool_faults else ""), " "
        )
        if view.compares and view.baseline is not None
        else ()
    )
    if width(parts) + width(end) + 3 > cells:
        end = ()
    return spread((Span(" "), *parts), end, cells)


def _parts(trace: Trace, compact: bool) -> list[Span]:
    legs = [s for s in trace.stages if s.name in LEGS]
    parts: list[Span] = []
    for stage in sorted(legs, key=lambda s: list(LEGS).index(s.name)):
        if parts:
            parts.append(Span(" + ", "faint"))
        parts.extend((Span(f"{LEGS[stage.name]} ", "dim"), *_space(stage, compact), Span(str(stage.left))))
    for stage in trace.stages:
        if stage not in legs:
            told = _stage(stage, compact)
            if told:
                parts.extend((*([_ARROW] if parts else []), *told))
    return parts


def _space(stage: Stage, compact: bool) -> Line:
    """Whose vectors a leg compared, where it is not the configured provider's own space."""
    space = str(stage.constants.get("space", ""))
    return line((f"({fmt.crop(fmt.inert(space), 12 if compact else 34)}) ", "warn")) if space else ()


def _stage(stage: Stage, compact: bool) -> Line:
    lost = stage.entered - stage.left
    minus = Span(f" (−{lost})", "bad") if lost else Span("")
    if stage.name == "fusion":
        return line(("fused ", "dim"), str(stage.left))
    if stage.name in ("decay", "mmr"):
        if compact:
            return line((stage.name, "dim"), (f" {stage.changed}↕", "") if stage.changed else ("", ""))
        return line(
            (stage.name, "dim"),
            (f" ({stage.changed} moved)", "") if stage.changed else (" (none moved)", "faint"),
        )
    if stage.name == "min_score":
        if stage.note:
            return line(("min ", "dim"), ("not applied", "faint"))
        value = "" if compact else fmt.setting(float(stage.constants["min_score"])) + " "
        return line((f"min {value}".rstrip() + (": " if value else " "), "dim"), str(stage.left), minus)
    if stage.name == "rescue":
        return line(("rescue ", "dim"), (f"+{stage.changed}", "warn")) if stage.changed else ()
    if stage.name == "max_results":
        return line(("max ", "dim"), str(stage.left), minus)
    return line((stage.name + " ", "dim"), str(stage.left))


def counts(view: View, cells: int) -> str:
    """``97 found · 36 in the pool · 6 returned · 1.0 ms`` for the frame of the query line."""
    trace = view.trace
    if trace is None:
        return ""
    fused = trace.stage("fusion")
    pool = f"{fused.left if fused else 0:,} {'in the pool' if cells >= 100 else 'pool'}"
    spent = fmt.milliseconds(sum(took for _, took in timings(view))) if cells >= 100 else ""
    return fmt.join((f"{len(trace.rows):,} found", pool, f"{len(trace.returned)} returned", spent))


def strip(knobs: Knobs, defaults: Knobs, cells: int) -> Line:
    """The knobs that matter most in one line; what differs from the configuration is bold."""

    def told(text: str, *names: str) -> Span:
        changed = any(getattr(knobs, n) != getattr(defaults, n) for n in names)
        return Span(text, "strong accent" if changed else "dim")

    groups: list[list[Span]] = [[told(knobs.profile, "profile")]]
    if knobs.vector_space != "primary":
        groups.append([told(f"{knobs.vector_space} vectors", "vector_space")])
    if knobs.mode != "hybrid":
        groups.append([told(f"{knobs.mode} only", "mode")])
    elif knobs.fusion == "rrf":
        groups.append([told(f"rrf k {knobs.rrf_k}", "fusion", "rrf_k")])
    else:
        vector, text = knobs.weights
        weights = f"vec {fmt.score(vector, 2)}  text {fmt.score(text, 2)}"
        groups.append([told(weights, "fusion", "vector_weight", "text_weight")])
    decay = f"decay {knobs.half_life_days:g} d" if knobs.decay else "decay off"
    groups.append([told(decay, "decay", *(["half_life_days"] if knobs.decay else []))])
    mmr = f"mmr λ {fmt.score(knobs.mmr_lambda, 2)}" if knobs.mmr else "mmr off"
    groups.append([told(mmr, "mmr", *(["mmr_lambda"] if knobs.mmr else []))])
    groups.append([told(f"min {fmt.setting(knobs.min_score)}", "min_score")])
    groups.append([told(f"pool ×{knobs.candidate_multiplier}", "candidate_multiplier", "pool_results")])
    groups.append([told(f"max {knobs.max_results}", "max_results")])
    if knobs.keyword_rescue != defaults.keyword_rescue:
        groups.insert(-1, [told(f"rescue {knobs.keyword_rescue}", "keyword_rescue")])
    parts: list[Span] = []
    for group in groups:
        if parts:
            parts.append(Span(" │ ", "faint"))
        parts.extend(group)
    changes = knobs.changes_from(defaults)
    end = (
        line(
            (fmt.count(len(changes), "change"), "accent"), (" · ", "faint"), ("U", "key"), (" resets ", "dim")
        )
        if changes
        else ()
    )
    if width(parts) + width(end) + 3 > cells:
        end = ()
    return spread((Span(" "), *parts), end, cells)


def nothing(view: View) -> list[Line]:
    """Why no row was returned, and which key would change that. Empty when there are rows."""
    trace = view.trace
    if trace is None or trace.returned:
        return []
    if not trace.rows:
        told = [line(("Nothing matches.", "strong"))]
        asked = {stage.name for stage in trace.stages}
        if not asked & {"vector", "bm25"}:
            told.append(line(("Neither vectors nor keywords could look; the reasons are below.", "dim")))
        elif "vector" not in asked:
            told.append(line(("Only keywords could look, and none of the words stands in a note.", "dim")))
        elif "bm25" not in asked:
            told.append(line(("Only vectors could look, and no note has one.", "dim")))
        else:
            told.append(line(("No word stands in any note, and no vector is near.", "dim")))
        return told
    fused, stage = trace.stage("fusion"), trace.stage("min_score")
    cut, total = cut_of(trace), fused.left if fused else 0
    best = max((row.final for row in trace.rows if row.final is not None), default=0.0)
    if not total and trace.rows:
        return [
            line(
                ("Nothing is returned: ", "strong"),
                f"the leg that mode {trace.knobs.mode} asks for found nothing.",
            ),
            line(("s", "key"), (" changes the mode; below is what the other leg found.", "dim")),
        ]
    if cut is not None and stage is not None and stage.left == 0:
        return [
            line(
                ("Nothing passes ", "strong"),
                f"min {fmt.setting(cut)}: 0 of {total}, the best scored {fmt.score(best)}.",
            ),
            line(("p", "key"), (" opens the knobs: lower min, or set keyword rescue.", "dim")),
        ]
    return [line(("Nothing is returned.", "strong"))]
