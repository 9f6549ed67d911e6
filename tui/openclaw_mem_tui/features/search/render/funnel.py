"""How many candidates each stage let through; the knobs in one line; and the texts of an empty list."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openclaw_mem_engine import api
from openclaw_mem_engine.api import usual_knobs
from openclaw_mem_tui.bindings import reach
from openclaw_mem_tui.features.search.comparison import is_older, uncut
from openclaw_mem_tui.features.search.render.groups import packs
from openclaw_mem_tui.features.search.render.knobs import changed_words, knob_value
from openclaw_mem_tui.features.search.state import View
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.damage import rescue
from openclaw_mem_tui.render.spans import Line, Span, line, spread, width, wrapped

if TYPE_CHECKING:
    from openclaw_mem_engine.api import Knobs, Stage, Trace

#: The knobs that say how many rows each list may send into the pool.
_SIZES = ("candidate_multiplier", "pool_results", "list_rows")


def funnel(view: View, cells: int, baseline: bool = True) -> Line:
    """``vector 24 + BM25 24 → pool 39 → min score .35 drops 28 → max 6 drops 5 → 6 returned``, and the
    ``baseline`` at the right."""
    trace = view.trace
    if trace is None:
        return ()
    names = baseline_names(view) if baseline else []
    ends = [line(("baseline: ", "dim"), name, " ") for name in names]
    # All that the other numbers imply is left out before what distinguishes the baseline, but no stage is.
    tried = [(end, less) for end in ends or [()] for less in range(3)]
    for end, less in (*tried, *((end, 3) for end in (*ends, ()))):
        parts = _parts(trace, less)
        if width(parts) + width(end) <= cells - 3:
            break
    return _with_end([span._replace(role=span.role or "dim") for span in parts], end, cells)


def in_words(view: View, cells: int) -> list[Line]:
    """All stages, the words of the query that a list does not search, and the whole name of the baseline, in
    as many lines as that takes."""
    if view.trace is None:
        return []
    trace = view.trace
    made = wrapped(line(" ", *_parts(trace, 0)), cells - 1, 1)
    skipped = ((lst.label, api.not_searched(lst, trace.query)) for lst in trace.lists)
    return [
        *made,
        *(
            row
            for label, words in skipped
            if words
            for row in wrapped(
                line((f" not searched by {label}: ", "dim"), fmt.inert(words, 400)), cells - 1, 1
            )
        ),
        *(
            row
            for name in baseline_names(view)[:1]
            for row in wrapped(line((f" baseline: {name}", "dim")), cells - 1, 1)
        ),
    ]


def baseline_names(view: View) -> list[str]:
    """What distinguishes the baseline, in full and in short; empty without one."""
    if not view.compares or view.baseline is None:
        return []
    name = view.baseline.name
    words = changed_words(view.knobs, view.baseline_knobs) if not view.other_backend else ""
    own = view.pin is not None or bool(view.pool_faults)
    names = [*([f"{name}, {words}" if own else words] if words else []), name]
    return [f"{name}{', before the index changed' * is_older(view)}" for name in names]


def _with_end(parts: list[Span], end: Line, cells: int) -> Line:
    """A line with its right end only where there is room for both."""
    return spread((Span(" "), *parts), end if width(parts) + width(end) + 3 <= cells else (), cells)


def _parts(trace: Trace, less: int) -> list[Span]:
    """The stages in words, all lists of an expansion in one; without those that change nothing (``less`` from
    1 on), with the number of lists alone (2), and at last without what stages changed in the order, unless
    they drop rows too (3)."""
    parts = list[Span]()
    omitted = {kind for at, kind in enumerate(("list", "score"), 2) if less >= at}
    drops = {drop.stage for drop in trace.dropped_by.values()} if less > 2 else set[str]()
    variants = [lst.key for lst in trace.lists if lst.source.role != "original"]
    for stage in trace.stages:
        if stage.name in variants:
            last = stage.name == variants[-1]
            text = line((fmt.count(len(variants), "variant list"), "dim")) if last else ()
            text = () if "list" in omitted else text
        elif stage.kind in omitted or (less > 2 and stage.kind == "order" and stage.name not in drops):
            text = ()
        else:
            text = _stage(trace, stage, less > 0)
        if text and parts:
            parts.append(Span(" + " if stage.kind == "list" else " → ", "faint"))
        parts.extend(text)
    head = line((fmt.count(len(trace.lists), "list"), "dim"), (" → ", "faint")) if "list" in omitted else ()
    return [*head, *parts, *line((" → " if parts else "", "faint"), api.returned_words(trace))]


def _space(stage: Stage, compact: bool) -> Line:
    """Whose vectors a list compared, where it is not the configured provider's own space."""
    space = str(stage.constants.get("space", ""))
    return line((f"({fmt.crop(fmt.inert(space), 12 if compact else 34)}) ", "warn")) if space else ()


def _stage(trace: Trace, stage: Stage, compact: bool) -> Line:
    """What a stage did; empty where it dropped nothing, or nothing came that far."""
    if stage.kind == "list":
        return line((f"{stage.label} ", "dim"), *_space(stage, compact), str(stage.left))
    if stage.kind == "fusion":
        return line(("pool ", "dim"), str(stage.left))
    if stage.kind in ("score", "order"):
        if not stage.changed:
            return () if compact else line((stage.label, "dim"), (" changed no rank", "faint"))
        many = fmt.count(stage.changed, "rank")
        if stage.kind == "order":  # it puts in order what it picks only
            first = fmt.count(int(stage.constants["picked"]), "rank")
            many = f"{stage.changed} of {'' if compact else 'the first '}{first}"
        return line((stage.label, "dim"), f" changed {many}")
    if stage.kind == "rescue":
        return line((f"{stage.label} ", "dim"), (f"keeps {stage.changed}", "warn")) if stage.changed else ()
    label = stage.name.replace("_", " ") if stage.kind == "cut" else stage.label
    if stage.note:
        # Of one list alone, which is in the same line, the scores are of ranks.
        short = compact or len(trace.lists) == 1
        why = "not applied" if short else uncut(trace).removeprefix(f"{label} ")
        return line((f"{label} ", "dim"), (why, "faint"))
    limit = f" {fmt.setting(stage.limit or 0.0)}" if stage.kind == "cut" and not compact else ""
    if stage.kind == "count":
        limit = f" {stage.limit:g}"
    lost = stage.entered - stage.left
    if not lost:
        return ()
    if packs(stage):
        label, limit = "first", f" {stage.limit:g}{'' if compact else ' for packing'}"
    if stage.kind == "snippet":  # the last words count what is left
        label = "packing"
    return line((label + limit, "dim"), (f" drops {lost}", "bad"))


def strip(
    knobs: Knobs,
    defaults: Knobs,
    cells: int,
    trace: Trace | None = None,
    *,
    backend: str = "",
    taught: bool = False,
    resets: bool = True,
) -> Line:
    """The knobs that matter most in one line: the profile and which knobs are configured otherwise than the
    ``backend`` has them; what differs from the configuration is there too, and bold. The mode instead of
    weights where the ``trace`` has lists of one kind alone, whose score counts in full; no reranking or min
    score as configured where it has no effect. ``taught``: a lesson has set the knobs; ``resets``: a key
    resets them."""

    named = set[str]()

    def part(text: str, *names: str) -> Span:
        named.update(names)
        changed = any(getattr(knobs, n) != getattr(defaults, n) for n in names)
        return Span(text, "strong accent" if changed else "dim", f"knob('{names[0]}')")

    original = usual_knobs(defaults.profile, backend)
    configured = defaults.changes_from(original) if knobs.profile == defaults.profile else {}
    kept = {name: value for name, value in configured.items() if getattr(knobs, name) == value}
    shown = list[Span]()
    if knobs.vector_space != "primary":
        shown.append(part(f"{knobs.vector_space} vectors", "vector_space"))
    if knobs.mode != "hybrid":
        shown.append(part(api.KNOBS["mode"].meant(knobs.mode), "mode"))
    elif knobs.fusion != "weighted":
        last = ", 1/rank" if knobs.fusion == "position" else ""
        shown.append(part(f"RRF k {knobs.rrf_k}{last}", "fusion", "rrf_k"))
    elif trace is None or len({lst.source.kind for lst in trace.lists}) != 1:
        vector, text = knobs.weights
        weights = f"vector {fmt.score(vector, 2)} BM25 {fmt.score(text, 2)}"
        shown.append(part(weights, "vector_weight", "bm25_weight", "fusion"))
    else:
        shown.append(part("mode hybrid", "mode"))
    reranked = trace is None or any(stage.constants.get("reranked") for stage in trace.stages)
    if knobs.rerank and (reranked or knobs.rerank != defaults.rerank):
        shown.append(part(f"rerank {knobs.rerank_top}", "rerank", "rerank_top", "blend"))
    decay = f"decay {knobs.half_life_days:g} d" if knobs.decay else "decay off"
    shown.append(part(decay, "decay", *(["half_life_days"] if knobs.decay else [])))
    shown.append(part(f"MMR {'on' if knobs.mmr else 'off'}", "mmr"))
    if knobs.mmr:
        shown.append(part(f"MMR lambda {fmt.score(knobs.mmr_lambda, 2)}", "mmr_lambda"))
    cuts = trace is None or trace.cut is not None or not trace.of_kind("cut")
    if cuts or knobs.min_score != defaults.min_score:
        idle = "" if cuts or not knobs.min_score else " not applied"
        shown.append(part(f"min score {fmt.setting(knobs.min_score)}{idle}", "min_score"))
    # Where they make the same number, a change of them is not seen here.
    same = defaults if knobs.candidates == defaults.candidates else knobs
    if sizes := [name for name in _SIZES if getattr(knobs, name) == getattr(same, name)]:
        shown.append(part(f"{knobs.candidates} per list", *sizes))
    if knobs.keyword_rescue != defaults.keyword_rescue:
        shown.append(part(f"keyword rescue {knobs.keyword_rescue}", "keyword_rescue"))
    shown.append(part(f"max {knobs.max_results}", "max_results"))
    unnamed = {name: value for name, value in kept.items() if name not in named}
    with_unnamed = original.set(unnamed)
    own = changed_words(original, with_unnamed)
    shown.insert(0, part(f"{knobs.profile}{own and f' with {own}'}", "profile"))
    changes = knobs.changed_names(defaults)
    shown += [part(knob_value(name, knobs), name) for name in changes if name not in named]
    end = rest = line()
    if changes:
        rest = line((" · ", "faint"), (reach("reset_all"), "key"), (" reset all", "dim")) if resets else ()
        end = line((fmt.count(len(changes), "lesson change" if taught else "change"), "accent"))
    label = Span(f"{'profile':<9}", "dim", "knob('profile')")

    def fits() -> bool:
        return width([label, *shown, *end, *rest]) + 3 * len(shown) + 1 <= cells

    # What the stages say too, says least; then what is off and was; then any other that was.
    for less in (" per list", " off"):
        if not fits():
            shown = [span for span in shown if span.role != "dim" or not span.text.endswith(less)]
    if own and not fits():
        shown[0] = shown[0]._replace(
            text=f"{knobs.profile}, {fmt.count(len(with_unnamed.changed_names(original)), 'change')}"
        )
    keys, rest = rest, rest * fits()  # which are in the help, too
    rest = rest if fits() else keys
    for span in [span for span in shown[1:] if span.role == "dim"]:
        if not fits():
            shown.remove(span)
    if changes and not fits():  # all are changes: the last ones are left to a key that lists them
        end = (*end, *line((", ", "faint"), (reach("messages"), "key"), (" lists them", "dim")))
        while shown[1:] and not fits():
            del shown[-1]
    end = (*end, *rest, *line(" ")) if end else ()
    return _with_end([label, *[p for span in shown for p in (Span(" │ ", "faint"), span)][1:]], end, cells)


def nothing(view: View) -> list[Line]:
    """What the sentence above the hits does not say of an empty answer: which key would change that."""
    trace = view.trace
    if trace is None or trace.returned:
        return []
    if any(note.code == "scope-denied" for note in trace.notes):
        searched = line(("Not searched: the scope denies this session.", "strong"))
        return [searched, line((reach("session"), "key"), (" chooses the session that asks.", "dim"))]
    if any(note.code == "no-notes" for note in trace.notes):
        return [line(("There is no note to search.", "strong"))]
    if not trace.rows and api.says_damage(trace.notes):
        return [line(("The index is damaged: notes that match may be missing.", "strong")), rescue()]
    if not trace.rows:
        return [line(("Nothing matches.", "strong")), line((_unmatched(trace), "dim"))]
    if not any(stage.left for stage in trace.of_kind("fusion")):
        return [
            line(("Nothing is returned: ", "strong"), f"the list of {trace.knobs.mode_word} mode is empty."),
            line((reach("mode"), "key"), (" changes the mode; below are rows of the other list.", "dim")),
        ]
    return [] if _all_cut(trace) else [line(("Nothing is returned.", "strong"))]


def _all_cut(trace: Trace) -> bool:
    return trace.cut is not None and trace.cut.left == 0


def next_keys(view: View) -> Line:
    """The keys that go on where all chunks are below min score."""
    trace = view.trace
    if trace is None or trace.returned or not trace.rows or not _all_cut(trace):
        return ()
    noise = view.pool is not None and api.unrelated(view.pool, trace.knobs)
    knobs = line((reach("knobs"), "key"), (" opens the knobs: min score, keyword rescue · ", "dim"))
    why = line((reach("why_not"), "key"), (" says why a chunk is not returned", "dim"))
    return line(" ", *knobs * (not noise), *why)


def _unmatched(trace: Trace) -> str:
    lists = list({lst.source.kind: lst for lst in trace.lists}.values())
    if not lists:
        return "No candidate list could be made; the reasons are below."
    whys = [lst.kind.nothing(lst.source) for lst in lists]
    if len(lists) == 1:
        return f"{lists[0].kind.title} only: {whys[0]}."
    text = ", and ".join(whys)
    return f"{api.capital(text)}."
